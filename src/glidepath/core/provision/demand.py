"""Demand: jobs grouped by what they need. Single jobs come in from a door, groups go out.

The core never sees ClassAds or job tables; a door has already worked out which offers fit each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from glidepath.core.provision.offer import Offer, kind_for
from glidepath.core.provision.quick import quick
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, Shape

# Enough to name those who wait; a group of ten thousand owners must not fill the journal.
OWNERS_KEPT_MAX = 20
# Groups of a large pool, which all say their names in every cycle.
NAMES_KEPT_MAX = 20_000

Group = tuple[PoolName, Shape, int | None, str]


@dataclass(frozen=True, slots=True)
class JobAd:
    """A job as a door reports it, already checked; or several that do not differ."""

    shape: Shape
    owner: Owner
    running: bool
    queued_at: Instant
    run_s_max: int | None = None
    count: int = 1


@quick
@dataclass(frozen=True, slots=True)
class Demand:
    """The jobs of one pool, shape, stated run time and variant: how many, how old, whose, what fits them."""

    pool: PoolName
    shape: Shape
    idle: int
    running: int = 0
    oldest_at: Instant | None = None
    owners: tuple[tuple[Owner, int], ...] = ()  # idle jobs of each, most first
    run_s_max: int | None = None
    fits: tuple[OfferKey, ...] = ()
    variant: str = ""  # what tells it apart from others of the same shape that fit other offers

    @property
    def group(self) -> Group:
        return (self.pool, self.shape, self.run_s_max, self.variant)

    @property
    def name(self) -> str:
        return _name(self.group)


@lru_cache(maxsize=NAMES_KEPT_MAX)
def _name(group: Group) -> str:
    """The same in every cycle, so it is put together once."""
    pool, shape, run_s_max, variant = group
    run = f" run<={run_s_max}s" if run_s_max else ""
    return f"{pool}: {shape}{run}" + (f" [{variant}]" if variant else "")


@dataclass(frozen=True, slots=True)
class SetAside:
    """A job that cannot be counted, and why; all others are served."""

    job: str
    why: str


@quick
@dataclass(frozen=True, slots=True)
class DemandSight:
    """What one source of demand said. Incomplete answers are shown but never acted on."""

    demands: tuple[Demand, ...]
    complete: bool = True
    set_aside: tuple[SetAside, ...] = ()


def grouped(pool: PoolName, jobs: Iterable[JobAd], offers: Iterable[Offer]) -> tuple[Demand, ...]:
    """Jobs of one pool as demand, in a fixed order, with the offers whose size and traits fit each shape."""
    idle: dict[tuple[Shape, int | None], dict[Owner, int]] = {}
    running: dict[tuple[Shape, int | None], int] = {}
    oldest: dict[tuple[Shape, int | None], Instant] = {}
    for job in jobs:
        key = (job.shape, job.run_s_max or None)
        running[key] = running.get(key, 0) + (job.count if job.running else 0)
        if not job.running:
            owners = idle.setdefault(key, {})
            owners[job.owner] = owners.get(job.owner, 0) + job.count
            oldest[key] = min(oldest.get(key, job.queued_at), job.queued_at)
    offers = tuple(offers)
    return tuple(
        Demand(
            pool=pool,
            shape=shape,
            idle=sum(idle.get((shape, run_s), {}).values()),
            running=running[(shape, run_s)],
            oldest_at=oldest.get((shape, run_s)),
            owners=most_first(idle.get((shape, run_s), {})),
            run_s_max=run_s,
            fits=tuple(sorted(offer.key for offer in offers if kind_for(offer, shape))),
        )
        for shape, run_s in sorted(running, key=lambda key: (key[0], key[1] or 0))
    )


def most_first(owners: dict[Owner, int]) -> tuple[tuple[Owner, int], ...]:
    return tuple(sorted(owners.items(), key=lambda item: (-item[1], item[0]))[:OWNERS_KEPT_MAX])
