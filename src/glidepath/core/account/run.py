"""What one run costs: what it held, for how long, at which rates.

A charge is always counted from the beginning of the run, and what was counted before is taken off: whatever
is left out, asked twice or cut in between, the parts add up to the whole to the last millionth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from glidepath.core.quantity import Instant

HOUR_S = 3600
# Charges are counted in millionths of a credit.
MILLIONTHS = 1_000_000
# What a credit is, where nobody says otherwise: one CPU for an hour.
CPU_HOUR = MILLIONTHS


@dataclass(frozen=True, slots=True)
class Rates:
    """Millionths of a credit for an hour of one CPU, GiB of memory, GPU, GiB of disk."""

    cpu: int = CPU_HOUR
    memory: int = 0
    gpu: int = 0
    disk: int = 0
    gpu_kinds: Mapping[str, int] = field(default_factory=dict)  # where a kind has a rate of its own

    def of_gpu(self, kind: str) -> int:
        return self.gpu_kinds.get(kind, self.gpu)


@dataclass(frozen=True, slots=True)
class Held:
    """All that a run keeps from others: over all of its ranks, whole nodes where they are its own."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpu_milli: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(
            self.cpu_milli + other.cpu_milli,
            self.memory_mib + other.memory_mib,
            self.disk_mib + other.disk_mib,
            self.gpu_milli + other.gpu_milli,
        )

    def rate(self, rates: Rates, gpu_kind: str = "") -> int:
        """Millionths of a credit for an hour of it."""
        return (
            self.cpu_milli * rates.cpu // 1000
            + self.memory_mib * rates.memory // 1024
            + self.disk_mib * rates.disk // 1024
            + self.gpu_milli * rates.of_gpu(gpu_kind) // 1000
        )


@dataclass(frozen=True, slots=True)
class Payer:
    """Whose a charge is. No project is everybody's own account."""

    owner: str
    project: str
    partition: str


@dataclass(frozen=True, slots=True)
class Run:
    """Ranks that held the same for a while; an attempt that goes on with less begins another."""

    payer: Payer
    held: Held
    rate: int  # millionths an hour, as it was when it began: a new price is for new runs
    began_at: Instant
    ended_at: Instant | None = None

    def until(self, now: Instant) -> Instant:
        """How far it can be counted; never before it began, whatever clocks say."""
        end = now if self.ended_at is None else min(self.ended_at, now)
        return max(end, self.began_at)

    def total(self, at: Instant) -> int:
        """Millionths of a credit from the beginning until then."""
        return max(at - self.began_at, 0) * self.rate // HOUR_S


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a run within one hour of the clock."""

    hour: int  # hours since the epoch of the timeline
    seconds: int
    charge: int


def slices(run: Run, after: Instant, until: Instant) -> Iterator[Slice]:
    """What is new between two moments, hour by hour. All slices of a run add up to its total.

    They are below zero where more was counted than the run turned out to be: its end was told late.
    """
    at = max(after, run.began_at)
    end = run.until(until)
    if end < at:
        yield from (Slice(each.hour, -each.seconds, -each.charge) for each in _hours(run, end, at))
    else:
        yield from _hours(run, at, end)


def _hours(run: Run, at: Instant, end: Instant) -> Iterator[Slice]:
    while at < end:
        hour = at // HOUR_S
        to = Instant(min(end, (hour + 1) * HOUR_S))
        yield Slice(hour, to - at, run.total(to) - run.total(at))
        at = to
