"""Why somebody does not get what they asked for: a closed set, each with one sentence to be shown."""

from __future__ import annotations


class DeskError(Exception):
    """`why` is the sentence, `hint` what to do. No frozen value: a `with` block gives it its traceback."""

    def __init__(self, why: str, *, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint


class Unknown(DeskError):
    """There is no such thing, or not for this caller: the two look the same."""


class Forbidden(DeskError):
    """It can be seen, and this caller may not do that with it."""


class Unusable(DeskError):
    """It cannot be understood, or could never be done; `places` has each mistake by its key."""

    def __init__(self, why: str, places: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.places = places


class Clash(DeskError):
    """It could be done, but not as things stand: a key that is taken, a job that is over."""


class Unanswered(DeskError):
    """What was asked for is kept, and nobody has answered yet."""
