"""What all tests share: properties are not timed, because a busy machine proves nothing about the code."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parent.parent


def _compiled_from() -> str:
    """The text of everything that is compiled. Numba keeps machine code by the file of a function alone, and
    would go on with an old one where only a function that it calls has changed.
    """
    found = hashlib.sha256()
    for folder in ("core/schedule", "sim/rerun"):
        for path in sorted((ROOT / "src/glidepath" / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba" / _compiled_from()))
