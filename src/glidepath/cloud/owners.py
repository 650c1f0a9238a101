"""Which owner is behind a hash: names of jobs at a cloud carry hashes only, and a file of ours the names.

Without the file an owner stays the hash, which is as good for limits among pilots of one owner.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from glidepath.cloud.label import owner_hash
from glidepath.core.quantity import Owner

OWNERS_MAX = 10_000
FILE_BYTES_MAX = 4 << 20


class Owners:
    """Kept under the home of glidepath; nothing is read before the first question."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, str] | None = None

    def named(self, hashed: str) -> Owner:
        if not hashed:
            return Owner("")
        with self._lock:
            return Owner(self._read().get(hashed, f"hash-{hashed}"))

    def learn(self, owner: Owner) -> None:
        """Before the job is sent: afterwards nobody could tell whose it is. A file that cannot be written
        costs the name of the owner, not the pilot."""
        if not owner:
            return
        hashed = owner_hash(owner)
        with self._lock:
            known = self._read()
            if known.get(hashed) == owner:
                return
            if len(known) >= OWNERS_MAX:
                known.pop(next(iter(known)))
            known[hashed] = owner
            with suppress(OSError):
                self._write(known)

    def _read(self) -> dict[str, str]:
        if self._known is None:
            found: object = {}
            with suppress(OSError, ValueError, RecursionError), self._path.open("rb") as file:
                found = json.loads(file.read(FILE_BYTES_MAX))
            pairs = found.items() if isinstance(found, dict) else ()
            self._known = {
                hashed: owner
                for hashed, owner in pairs
                if isinstance(owner, str) and owner_hash(Owner(owner)) == hashed
            }
        return self._known

    def _write(self, known: dict[str, str]) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(json.dumps(known))
        fresh.replace(self._path)
