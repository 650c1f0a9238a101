"""Quantities and names that both controllers share.

Whole numbers only: two machines must reach the same plan, and a sum of halves must not drift.
Times are `Instant`, seconds on the steady timeline (see `glidepath.clock`); spans end in `_s`.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import NewType

Instant = NewType("Instant", int)

PoolName = NewType("PoolName", str)
SiteName = NewType("SiteName", str)
OfferKey = NewType("OfferKey", str)  # `site/offer`, unique over all sites
PilotName = NewType("PilotName", str)
NodeName = NewType("NodeName", str)
SourceName = NewType("SourceName", str)
Owner = NewType("Owner", str)

Traits = tuple[tuple[str, str], ...]


class HashedOnce:
    """A small value that is looked up many times in every cycle: its hash is worked out the first time."""

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(attrgetter(*self.__slots__)(self))
            object.__setattr__(self, "_hash", found)
            return found


@dataclass(frozen=True, slots=True, order=True)
class Resources(HashedOnce):
    """An amount of compute. Never negative: a debt of memory has no meaning, only a bug behind it."""

    __hash__ = HashedOnce.__hash__

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0 or self.disk_mib < 0 or self.gpus < 0:
            raise ValueError(f"resources cannot be negative: {self.as_tuple()}")

    def as_tuple(self) -> tuple[int, int, int, int]:
        return (self.cpu_milli, self.memory_mib, self.disk_mib, self.gpus)

    def __add__(self, other: Resources) -> Resources:
        return Resources(*(a + b for a, b in zip(self.as_tuple(), other.as_tuple(), strict=True)))

    def __sub__(self, other: Resources) -> Resources:
        return Resources(*(a - b for a, b in zip(self.as_tuple(), other.as_tuple(), strict=True)))

    def __bool__(self) -> bool:
        return bool(self.cpu_milli or self.memory_mib or self.disk_mib or self.gpus)

    def fits_in(self, room: Resources) -> bool:
        # Part by part in this and the next ones: they are asked for every shape and offer in every cycle.
        return (
            self.cpu_milli <= room.cpu_milli
            and self.memory_mib <= room.memory_mib
            and self.disk_mib <= room.disk_mib
            and self.gpus <= room.gpus
        )

    def copies_in(self, room: Resources) -> int:
        """How many of these fit into the room at once. Asking for nothing has no answer and is a bug."""
        counts = [have // need for need, have in zip(self.as_tuple(), room.as_tuple(), strict=True) if need]
        if not counts:
            raise ValueError("an empty request fits any number of times")
        return min(counts)

    def largest(self, other: Resources) -> Resources:
        return Resources(
            max(self.cpu_milli, other.cpu_milli),
            max(self.memory_mib, other.memory_mib),
            max(self.disk_mib, other.disk_mib),
            max(self.gpus, other.gpus),
        )

    def smallest(self, other: Resources) -> Resources:
        return Resources(
            min(self.cpu_milli, other.cpu_milli),
            min(self.memory_mib, other.memory_mib),
            min(self.disk_mib, other.disk_mib),
            min(self.gpus, other.gpus),
        )

    def rounded_up(self, step: Resources) -> Resources:
        """Each part raised to a multiple of the step; a step of zero leaves that part alone."""
        if not step:
            return self
        return Resources(
            _raised(self.cpu_milli, step.cpu_milli),
            _raised(self.memory_mib, step.memory_mib),
            _raised(self.disk_mib, step.disk_mib),
            _raised(self.gpus, step.gpus),
        )


def _raised(amount: int, step: int) -> int:
    return -(-amount // step) * step if step else amount


@dataclass(frozen=True, slots=True, order=True)
class Shape(HashedOnce):
    """What one job needs: an amount and the traits it insists on. Demand is grouped by it."""

    __hash__ = HashedOnce.__hash__

    request: Resources
    traits: Traits = ()

    def __post_init__(self) -> None:
        if not self.traits:
            return
        if tuple(sorted(self.traits)) != self.traits or len(dict(self.traits)) != len(self.traits):
            raise ValueError(f"traits must be sorted and each named once: {self.traits!r}")

    def __str__(self) -> str:
        from glidepath.core.units import exact_resources

        return " ".join([exact_resources(self.request), *(f"{key}={value}" for key, value in self.traits)])
