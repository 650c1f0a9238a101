"""The words of one cycle: what was seen, why something was decided, and what came of it.

Both controllers and the loop speak in these. `Seen` and `Unseen` make the caller face both cases;
`Refused`, `Failed` and `Unsure` answer one question: may I ask again?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from glidepath.core.because import Because
from glidepath.core.quantity import Instant

T = TypeVar("T")
A = TypeVar("A")

Fact = tuple[str, "int | str"]


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """A read that succeeded, and when."""

    at: Instant
    value: T


@dataclass(frozen=True, slots=True)
class Unseen:
    """A read that failed: since when nothing is known, and what came back instead."""

    since: Instant
    why: str


Sighting = Seen[T] | Unseen


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, with the numbers that made it so. The same sentence is printed everywhere."""

    because: Because
    facts: tuple[Fact, ...] = ()

    def __str__(self) -> str:
        if not self.facts:
            return self.because.value
        return f"{self.because.value} ({', '.join(_fact(key, value) for key, value in self.facts)})"


def _fact(key: str, value: int | str) -> str:
    wordy = isinstance(value, str) and " " in value
    return f"{key}: {value}" if wordy else f"{key}={value}"


@dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """What is done about something, or that it is left alone; never without a reason."""

    about: str
    reason: Reason
    action: A | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[A]):
    """All that one cycle decided. Written to the journal before anything is done."""

    cycle: int
    at: Instant
    decisions: tuple[Decision[A], ...]
    wake_after_s: int
    marks: tuple[tuple[str, Instant], ...] = ()  # since when something holds, for the next cycle to know

    @property
    def actions(self) -> tuple[A, ...]:
        return tuple(d.action for d in self.decisions if d.action is not None)


@dataclass(frozen=True, slots=True)
class Done:
    """It is so now, whether by this call or by an earlier one."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not until something changes: asking again would get the same answer."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not happen; asking again may help."""

    why: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """It may have happened: look before asking again."""

    why: str


@dataclass(frozen=True, slots=True)
class NotTried:
    """Nothing was asked of the site, for a reason of our own; it says nothing about the site."""

    why: str


Outcome = Done | Refused | Failed | Unsure | NotTried


@dataclass(frozen=True, slots=True)
class Did:
    """What came of one act: the verb, the thing it was done to, and the answer."""

    verb: str
    about: str
    outcome: Outcome
