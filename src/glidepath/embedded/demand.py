"""The embedded pool as the provisioner sees it: grouped demand and slots, read from the store alone.

Any process can look, also while no server runs. A read that fails raises; it never returns less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glidepath.core.provision.demand import DemandSight, JobAd, grouped
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import Slot
from glidepath.core.provision.sight import PoolSlots
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Shape, SourceName
from glidepath.embedded.server import socket_path
from glidepath.embedded.wire import JOBS_TRAIT
from glidepath.embedded.workers import all_workers
from glidepath.ports import DemandSource, Place
from glidepath.store.engine import Store, open_store
from glidepath.store.job import QueueGroup
from glidepath.store.jobs import demand_of
from glidepath.terms import NO_TERMS

SETTINGS = ("heard_s_max",)
# Beats come every ten seconds; a worker unheard for this long says nothing about now.
HEARD_S_MAX = 90


class EmbeddedPool:
    """The pulled partitions of one pool in the job store. Opens the store with its first read."""

    def __init__(self, name: PoolName, place: Place, *, heard_s_max: int) -> None:
        self.name = name
        self.partitions = tuple(each for each, pool in place.partitions if pool == name) or (str(name),)
        self._place = place
        self._heard_s_max = heard_s_max
        self._store: Store | None = None

    def sources(self) -> tuple[DemandSource, ...]:
        return tuple(EmbeddedSource(self, partition) for partition in self.partitions)

    def slots(self, *, now: Instant) -> PoolSlots:
        with self.store().read() as conn:
            workers = all_workers(conn, self.name)
        return PoolSlots(
            tuple(
                Slot(
                    pilot=PilotName(worker.pilot),
                    free=worker.free,
                    claims=worker.claims,
                    draining=worker.draining,
                    ends_at=worker.ends_at,
                    jobs_run=worker.jobs_run,
                    jobs_failed=worker.jobs_failed,
                )
                for worker in workers
                if now - worker.heard_at <= self._heard_s_max
            )
        )

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        socket = socket_path(self._place.home).absolute()
        told = (("GLIDEPATH_POOL", str(self.name)), ("GLIDEPATH_POOL_SOCKET", str(socket)))
        jobs = self._place.terms.get(offer, NO_TERMS).jobs
        return told if jobs == NO_TERMS.jobs else (*told, ("GLIDEPATH_POOL_TRAIT", f"{JOBS_TRAIT}={jobs}"))

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        """None: the socket asks the kernel who is there."""
        return ()

    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self._place.store_url, read_only=True)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class EmbeddedSource:
    """The queue of one partition as a source of demand."""

    def __init__(self, pool: EmbeddedPool, partition: str) -> None:
        self.name = SourceName(partition)
        self.pool = pool.name
        self._of = pool

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        with self._of.store().read() as conn:
            groups = demand_of(conn, self.name)
        return DemandSight(grouped(self.pool, ads_of(groups), offers))


def ads_of(groups: Iterable[QueueGroup]) -> Iterable[JobAd]:
    """Counted groups of the queue as the core counts them."""
    for group in groups:
        yield JobAd(
            shape=Shape(group.request, group.traits),
            owner=Owner(group.owner),
            running=group.running,
            queued_at=group.oldest_at,
            run_s_max=group.run_s_max,
            count=group.count,
        )


def demand(name: PoolName, settings: Mapping[str, object], place: Place) -> EmbeddedPool:
    """A pool from its own settings, which are `heard_s_max` alone; its partitions are in the place."""
    unknown = sorted(set(settings) - set(SETTINGS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; an embedded pool takes {', '.join(SETTINGS)}")
    heard_s_max = settings.get("heard_s_max", HEARD_S_MAX)
    if type(heard_s_max) is not int or heard_s_max < 1:
        raise ValueError("`heard_s_max` must be a whole number of seconds")
    return EmbeddedPool(name, place, heard_s_max=heard_s_max)
