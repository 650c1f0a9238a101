"""Why somebody does not get what they asked for: a closed set, each with one sentence to be shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeskError(Exception):
    why: str

    def __str__(self) -> str:
        return self.why


class Unknown(DeskError):
    """There is no such thing, or not for this caller: the two look the same."""


class Forbidden(DeskError):
    """It can be seen, and this caller may not do that with it."""


class Unusable(DeskError):
    """What was asked for cannot be understood, or could never be done."""


class Clash(DeskError):
    """It could be done, but not as things stand: a key that is taken, a job that is over."""


class Unanswered(DeskError):
    """What was asked for is kept, and nobody has answered yet."""
