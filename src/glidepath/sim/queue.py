"""The jobs of one schedd of a made-up pool: queued by shape, counted as demand, handed out by a negotiator.

Jobs come in, `Demand` values go out; what has not changed since the last look is the same object again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from glidepath.core.provision.demand import Demand, most_first
from glidepath.core.provision.offer import Offer, kind_for
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, Shape
from glidepath.sim.thing import SimJob

Key = tuple[Shape, int | None]


class Group:
    """Jobs of one shape and stated run time."""

    __slots__ = ("demand", "owners", "running", "shape", "waiting")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.waiting: deque[SimJob] = deque()
        self.owners: dict[Owner, int] = {}
        self.running = 0
        self.demand: Demand | None = None


class JobQueue:
    def __init__(self, pool: PoolName) -> None:
        self.pool = pool
        self.groups: dict[Key, Group] = {}
        self.idle = 0
        self.running = 0
        self._fits: dict[Shape, tuple[OfferKey, ...]] = {}
        self._offers: tuple[Offer, ...] = ()
        self._answer: tuple[Demand, ...] | None = None
        self._order: list[Key] = []  # of the groups, while they are the same ones

    def _group(self, job: SimJob) -> Group:
        group = self.groups.get((job.shape, job.run_s_max))
        if group is None:
            group = self.groups[(job.shape, job.run_s_max)] = Group(job.shape)
        group.demand = self._answer = None
        return group

    def add(self, job: SimJob, *, first: bool = False) -> None:
        group = self._group(job)
        if first:
            group.waiting.appendleft(job)
        else:
            group.waiting.append(job)
        group.owners[job.owner] = group.owners.get(job.owner, 0) + 1
        self.idle += 1

    def take(self, group: Group) -> SimJob:
        """The next job of the group starts."""
        job = group.waiting.popleft()
        self._group(job)
        self._less(group, job)
        group.running += 1
        self.running += 1
        return job

    def ended(self, job: SimJob) -> None:
        self._group(job).running -= 1
        self.running -= 1

    def _less(self, group: Group, job: SimJob) -> None:
        self.idle -= 1
        left = group.owners[job.owner] - 1
        if left:
            group.owners[job.owner] = left
        else:
            del group.owners[job.owner]

    def demands(self, offers: Iterable[Offer]) -> tuple[Demand, ...]:
        offers = tuple(offers)
        if offers != self._offers:
            self._offers, self._fits, self._answer = offers, {}, None
            for group in self.groups.values():
                group.demand = None
        if self._answer is None:
            for key in [key for key, group in self.groups.items() if not group.waiting and not group.running]:
                del self.groups[key]
            if self.groups.keys() != set(self._order):
                self._order = sorted(self.groups, key=lambda key: (key[0], key[1] or 0))
            self._answer = tuple(self._demand(self.groups[key], key[1]) for key in self._order)
        return self._answer

    def _demand(self, group: Group, run_s_max: int | None) -> Demand:
        if group.demand is None:
            shape = group.shape
            if shape not in self._fits:
                keys = sorted(offer.key for offer in self._offers if kind_for(offer, shape))
                self._fits[shape] = tuple(keys)
            group.demand = Demand(
                pool=self.pool,
                shape=shape,
                idle=len(group.waiting),
                running=group.running,
                oldest_at=Instant(group.waiting[0].queued_at) if group.waiting else None,
                owners=most_first(group.owners),
                run_s_max=run_s_max,
                fits=self._fits[shape],
            )
        return group.demand
