"""Pressure: how many pilots should be waiting for one shape. The seam for policies.

A policy sees one shape's need in pilots' worth and answers with a number and the rule behind it, in words.
It is asked once per shape; what it wants is then shared out among the sites, never counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy may know of one shape."""

    idle: int  # pilots' worth of waiting and expected jobs that no free slot takes
    coming: int  # pilots' worth of them that pilots on their way will take
    free: int  # pilots' worth of them that free slots take
    pending: int  # pilots on their way of any offer that fits, whoever takes them
    idle_jobs: int
    running_jobs: int
    expected_jobs: int  # what the policy itself said would come
    jobs_each: int  # how many of the jobs one pilot holds
    oldest_s: int  # how long the oldest has waited
    latency_s: int  # how long a pilot takes to join at the likeliest offer; 0 where unknown


@dataclass(frozen=True, slots=True)
class Arriving:
    """Jobs that come to wait in the time that a pilot takes to start, at the rate of the last half hour."""

    jobs: int  # of this shape
    in_pool: int  # of all shapes of the pool; those that share pilots need less in reserve together


@dataclass(frozen=True, slots=True)
class Pressure:
    """So many pilots should be waiting, because of this rule."""

    waiting: int
    rule: str


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def release_s(self) -> int | None:
        """Surplus pilots are drained when idle this long; None leaves it to their own idle limit."""
        ...

    @property
    def withdraws(self) -> bool:
        """Whether pilots that nobody needs any more are taken out of a site's queue."""
        ...

    @property
    def beyond(self) -> bool:
        """Whether more may be asked for than jobs wait; only rules kept for comparison do."""
        ...

    def expected(self, arriving: Arriving) -> int:
        """Jobs to be ready for beyond those that wait."""
        ...

    def pressure(self, need: Need) -> Pressure: ...


class Reactive:
    """What most rules have in common: they look at what waits and leave the rest to the pilots."""

    __slots__ = ()
    release_s: ClassVar[int | None] = None
    withdraws: ClassVar[bool] = False
    beyond: ClassVar[bool] = False

    def expected(self, arriving: Arriving) -> int:
        return 0


class PolicyKind(Protocol):
    """What the entry point group `glidepath.policies` holds. NUMBERS names what it takes, with defaults;
    CYCLE_S is the cadence at which the system that it comes from runs it."""

    NUMBERS: Mapping[str, int]
    CYCLE_S: int

    def __call__(self, numbers: Mapping[str, int]) -> Policy: ...
