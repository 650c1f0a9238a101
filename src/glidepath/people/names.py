"""What people and projects may be called: nothing that leads out of a path, a label or a line."""

from __future__ import annotations

import re

from glidepath.store.placed_spec import WORD

# Logins, mail addresses and the subjects of providers.
PERSON = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.@+|-]{0,98}[A-Za-z0-9_])?")
PERSON_FORM = "up to 100 letters, digits and `_.@+|-`, with a letter or digit at both ends"
# As the partitions, windows and jobs that name it take it.
PROJECT = WORD
PROJECT_FORM = "up to 63 letters, digits and `._-`, with a letter or digit at both ends"
