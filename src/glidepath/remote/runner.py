"""What carries a command to its place and back: words and standard input come in, its end goes out.

Whether something may have happened is the difference that matters: `NotSent` says that nothing has, an end
without a code that something may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glidepath.ports import LogsIn

# What one command may print; the rest is cut, and the answer says so.
OUT_BYTES_MAX = 32 << 20


class NotSent(OSError):
    """The command never reached the place where it should run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How one command ended. No code: it gave no answer in time, and may have done what it was told."""

    code: int | None
    out: str = ""
    err: str = ""
    cut: bool = False  # more was printed than is kept


class Runner(Protocol):
    """One place that runs commands."""

    def run(self, argv: Sequence[str], *, given: bytes = b"", limit_s: float) -> Ran:
        """Runs one command there, without a terminal. Raises NotSent where it did not get there."""
        ...

    def close(self) -> None: ...


class Reached(Runner, LogsIn, Protocol):
    """A runner with the connection over which its place is reached."""
