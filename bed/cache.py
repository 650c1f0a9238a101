"""Builds something once and keeps it: a key and a builder come in, the finished folder goes out.

A build is written under another name and renamed when it is complete, so an interrupted one is never
mistaken for a finished one. It knows nothing of what is built.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bed.trouble import Trouble

POLL_S = 0.2
# Longer than the slowest build on two busy cores; then something hangs, and waiting longer helps nobody.
LOCK_S_MAX = 3600
UNFINISHED = ".building-"

Say = Callable[[str], None]


def silent(_: str) -> None:
    """For whoever wants to hear nothing."""


@contextlib.contextmanager
def locked(path: Path, say: Say, what: str) -> Iterator[None]:
    """Holds the lock file; says so where another one holds it and waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        told = False
        until = time.monotonic() + LOCK_S_MAX
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say(f"{what}: another run is at it; waiting for it to end")
                    told = True
                if time.monotonic() > until:
                    raise Trouble(f"{what}: the other run did not end in {LOCK_S_MAX} s ({path})") from None
                time.sleep(POLL_S)
        yield


def built(cache: Path, name: str, build: Callable[[Path], None], say: Say) -> Path:
    """The folder `name` of the cache, made by `build` where it is not there yet."""
    final = cache / name
    if final.is_dir():
        return final
    with locked(cache / "locks" / name, say, f"building {name}"):
        if final.is_dir():
            return final
        # Whoever holds the lock is the only builder, so these are the remains of one that was killed.
        for remains in cache.glob(f"{UNFINISHED}{name}*"):
            shutil.rmtree(remains)
        growing = cache / f"{UNFINISHED}{name}-{os.getpid()}"
        growing.mkdir()
        try:
            build(growing)
            growing.rename(final)
        finally:
            shutil.rmtree(growing, ignore_errors=True)
    return final


class Steps:
    """Tells each step of a build before it begins, and its seconds when it ends."""

    def __init__(self, title: str, say: Say, count: int) -> None:
        self.title, self.say, self.count, self.number = title, say, count, 0

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        self.number += 1
        begun = time.monotonic()
        self.say(f"{self.title}: step {self.number} of {self.count}: {what}")
        yield
        self.say(
            f"{self.title}: step {self.number} of {self.count}: done in {time.monotonic() - begun:.1f} s"
        )
