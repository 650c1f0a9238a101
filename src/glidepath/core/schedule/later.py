"""A tuple that is made when somebody first looks into it.

What a plan has learnt of 50,000 waiting jobs is handed on with every plan and seldom read: the next plan on
the same table knows it already. What it is made from must not change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Later(Sequence[T_co]):
    """Equal to the tuple that it will be."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], tuple[T_co, ...]]) -> None:
        self._make: Callable[[], tuple[T_co, ...]] | None = make
        self._made: tuple[T_co, ...] = ()

    def whole(self) -> tuple[T_co, ...]:
        if self._make is not None:
            # What it was made from is let go: it may be a whole table.
            self._made, self._make = self._make(), None
        return self._made

    def __len__(self) -> int:
        return len(self.whole())

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.whole())

    def __getitem__(self, at: Any) -> Any:
        return self.whole()[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Later):
            return self.whole() == other.whole()
        return self.whole() == other

    def __hash__(self) -> int:
        return hash(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())
