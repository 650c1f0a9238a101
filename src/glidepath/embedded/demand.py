"""The embedded pool as the provisioner sees it: grouped demand and slots, read from the store alone.

Any process can look, also while no server runs. A read that fails raises; it never returns less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glidepath.core.provision.demand import Demand, DemandSight, most_first
from glidepath.core.provision.offer import Offer, kind_for
from glidepath.core.provision.pilot import Slot
from glidepath.core.provision.sight import PoolSlots
from glidepath.core.quantity import Instant, Owner, PilotName, PoolName, Shape, SourceName
from glidepath.embedded.server import socket_path
from glidepath.embedded.workers import all_workers
from glidepath.ports import DemandSource, Place
from glidepath.store.engine import Store, open_store
from glidepath.store.job import PARTITION, QueueGroup
from glidepath.store.jobs import demand_of

SETTINGS = ("partition", "heard_s_max")
# Beats come every ten seconds; a worker unheard for this long says nothing about now.
HEARD_S_MAX = 90


class EmbeddedPool:
    """One pulled partition of the job store. Opens the store with its first read."""

    def __init__(self, name: PoolName, partition: str, place: Place, *, heard_s_max: int) -> None:
        self.name = name
        self.partition = partition
        self._place = place
        self._heard_s_max = heard_s_max
        self._store: Store | None = None

    def sources(self) -> tuple[DemandSource, ...]:
        return (EmbeddedSource(self),)

    def slots(self, *, now: Instant) -> PoolSlots:
        with self.store().read() as conn:
            workers = all_workers(conn, self.partition)
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

    def join(self) -> tuple[tuple[str, str], ...]:
        socket = socket_path(self._place.home).absolute()
        return (("GLIDEPATH_POOL", self.partition), ("GLIDEPATH_POOL_SOCKET", str(socket)))

    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self._place.store_url, read_only=True)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


class EmbeddedSource:
    """The queue of the partition as a source of demand."""

    def __init__(self, pool: EmbeddedPool) -> None:
        self.name = SourceName(pool.partition)
        self.pool = pool.name
        self._of = pool

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        with self._of.store().read() as conn:
            groups = demand_of(conn, self._of.partition)
        return DemandSight(demands_of(self.pool, groups, offers))


def demands_of(pool: PoolName, groups: Iterable[QueueGroup], offers: Iterable[Offer]) -> tuple[Demand, ...]:
    """Counted groups as demand: owners of one shape come together, in a fixed order."""
    idle: dict[tuple[Shape, int | None], dict[Owner, int]] = {}
    running: dict[tuple[Shape, int | None], int] = {}
    oldest: dict[tuple[Shape, int | None], Instant] = {}
    for group in groups:
        key = (Shape(group.request, group.traits), group.run_s_max)
        running[key] = running.get(key, 0) + (group.count if group.running else 0)
        if not group.running:
            owners = idle.setdefault(key, {})
            owners[Owner(group.owner)] = owners.get(Owner(group.owner), 0) + group.count
            oldest[key] = min(oldest.get(key, group.oldest_at), group.oldest_at)
    offers = tuple(offers)
    return tuple(
        Demand(
            pool=pool,
            shape=key[0],
            idle=sum(idle.get(key, {}).values()),
            running=running[key],
            oldest_at=oldest.get(key),
            owners=most_first(idle.get(key, {})),
            run_s_max=key[1],
            fits=tuple(sorted(offer.key for offer in offers if kind_for(offer, key[0]))),
        )
        for key in sorted(running, key=lambda key: (key[0], key[1] or 0))
    )


def demand(name: PoolName, settings: Mapping[str, object], place: Place) -> EmbeddedPool:
    """A pool from its own settings: `partition` (the pool's name by default) and `heard_s_max`."""
    unknown = sorted(set(settings) - set(SETTINGS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; an embedded pool takes {', '.join(SETTINGS)}")
    partition, heard_s_max = settings.get("partition", name), settings.get("heard_s_max", HEARD_S_MAX)
    if not isinstance(partition, str) or not PARTITION.fullmatch(partition):
        raise ValueError("`partition` must be a name of small letters, digits, `-`, `_` and `.`")
    if type(heard_s_max) is not int or heard_s_max < 1:
        raise ValueError("`heard_s_max` must be a whole number of seconds")
    return EmbeddedPool(name, partition, place, heard_s_max=heard_s_max)
