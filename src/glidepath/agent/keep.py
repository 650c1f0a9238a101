"""What an agent must still know when it is started again: its ticket, what it has to answer, its downtime.

One small file of JSON in the agent's home, replaced as a whole. A file that is lost or damaged costs one more
call: the server says which ticket is next, and asks again for what it has no word of.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, ValidationError

from glidepath.called.words import ANSWERS_MAX, Answer, Word

FILE = "agent.json"
CLOSED = "closed.json"
BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """From the last call: what the next one carries."""

    ticket: str = ""
    answers: tuple[Answer, ...] = ()


class _Stored(Word):
    ticket: str = ""
    answers: list[Answer] = Field(default_factory=list)


class Closed(Word):
    """A downtime that was declared by command, by the clock of this machine."""

    start_wall_s: float
    end_wall_s: float
    why: str = ""


class Keep:
    """The files of one agent's home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def load(self) -> Kept:
        try:
            with (self.home / FILE).open("rb") as file:
                found = _Stored.model_validate_json(file.read(BYTES_MAX))
        except (FileNotFoundError, ValidationError):
            return Kept()
        return Kept(found.ticket, tuple(found.answers))

    def save(self, kept: Kept) -> None:
        newest = replace(kept, answers=kept.answers[-ANSWERS_MAX:])
        stored = _Stored(ticket=newest.ticket, answers=list(newest.answers))
        write_whole(self.home / FILE, stored.model_dump_json())

    def closed(self) -> Closed | None:
        try:
            return Closed.model_validate_json((self.home / CLOSED).read_text())
        except (FileNotFoundError, ValidationError):
            return None

    def close(self, closed: Closed) -> None:
        write_whole(self.home / CLOSED, closed.model_dump_json())

    def open(self) -> bool:
        """Whether there was a downtime to end."""
        try:
            (self.home / CLOSED).unlink()
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other agent of this home is at work; a cron job that is slow must not meet itself."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.home / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """The whole file or the old one, for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:  # noqa: PTH123 (a descriptor, so that nobody else ever could read it)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read_json(path: Path, *, bytes_max: int) -> object:
    """What stands in a file that others write; raises OSError or ValueError."""
    with path.open("rb") as file:
        text = file.read(bytes_max + 1)
    if len(text) > bytes_max:
        raise ValueError(f"`{path.name}` is larger than {bytes_max} bytes")
    return json.loads(text)
