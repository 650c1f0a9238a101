"""How long no connection is tried after it failed: failures come in, the time to wait comes out.

It is kept in a file, so that a program which is started again and again does not lock the account that one
which waits would have spared. It refuses to know how a connection is opened.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from glidepath.remote.trouble import Kind, Trouble

# The first wait and the longest; each is twice the one before. Servers and their watchmen lock an account
# or an address after three to ten failed logins within ten minutes or so; here it is at most three.
WAITS_S = {Kind.DENIED: (150, 3600), Kind.STRANGE: (60, 600), Kind.UNREACHED: (10, 120)}
DOUBLINGS_MAX = 10
FILE_BYTES_MAX = 16_000


@dataclass(frozen=True, slots=True)
class Failed:
    """The last failure, how many there were in a row, and until when nothing is tried."""

    count: int
    until: float  # wall time, for another process reads it
    trouble: Trouble

    def wait_s(self, now: float) -> float:
        """No longer than it could have been meant: a clock that was set back must not hold us for years."""
        return min(max(self.until - now, 0.0), float(WAITS_S[self.trouble.kind][1]))


def after(last: Failed | None, trouble: Trouble, *, now: float) -> Failed:
    count = last.count + 1 if last is not None and last.trouble.kind is trouble.kind else 1
    first, longest = WAITS_S[trouble.kind]
    return Failed(count, now + min(first << min(count - 1, DOUBLINGS_MAX), longest), trouble)


def read(file: Path) -> Failed | None:
    """None also where the file says nothing that could be understood: then it is as if nothing had failed."""
    try:
        with file.open("rb") as opened:
            told = json.loads(opened.read(FILE_BYTES_MAX))
        trouble = Trouble(Kind(told["kind"]), str(told["why"]))
        return Failed(int(told["count"]), float(told["until"]), trouble)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(file: Path, failed: Failed | None) -> None:
    """Whoever reads meanwhile sees the old or the new, never half of it."""
    if failed is None:
        file.unlink(missing_ok=True)
        return
    trouble = failed.trouble
    told = {"count": failed.count, "until": failed.until, "kind": trouble.kind.value, "why": trouble.why}
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    beside.write_text(json.dumps(told), encoding="utf-8")
    beside.replace(file)
