"""The picture: a snapshot read in the light of the memory. Pilots with their phase, demand to act on and
demand that is only held, how every site and node fares, and what was not seen and may not be touched.

`look` is the first half of deciding: pure, and the only place where sightings are judged fresh or not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

from glidepath.core.because import Because
from glidepath.core.cycle import Seen, Sighting
from glidepath.core.provision.books import Books
from glidepath.core.provision.demand import Demand, DemandSight, Group, most_first
from glidepath.core.provision.flow import SPAN_S, Flow, flowed
from glidepath.core.provision.memory import Health, Held, Memory, NodeHealth
from glidepath.core.provision.offer import PoolRules, Rules, SiteRules
from glidepath.core.provision.pilot import PilotPhase, Slot, Track
from glidepath.core.provision.quick import copied
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, SiteName

_KIND = attrgetter("offer", "site", "pool", "owner", "phase")
# Behind all others: what fits nowhere takes no room from anyone.
FITS_NONE = 1 << 30


@dataclass(frozen=True, slots=True)
class Lost:
    """A pilot that is over: its last track, the reason in words, and whether the site still lists it."""

    track: Track
    why: str
    because: Because
    listed: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """Demand of one group. Held demand keeps its claim on pilots but asks for none."""

    demand: Demand
    held: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    now: Instant
    memory: Memory
    snapshot: Snapshot
    tracks: tuple[Track, ...]  # all that are not over
    unfilled: tuple[Track, ...]  # of them, those that are not known to be full of work
    kinds: Counter[tuple[OfferKey, SiteName, PoolName, Owner, PilotPhase]]  # how many there are of each
    slots: dict[str, Slot]  # by pilot, only those heard in this very snapshot
    lost: tuple[Lost, ...]
    wanted: tuple[Wanted, ...]
    closed_sites: dict[SiteName, Because]  # not to be acted on, and why
    blind_pools: dict[PoolName, Because]  # nothing asked for, nothing taken away
    held_pools: frozenset[PoolName]  # a source of demand is unseen: nothing taken away
    health: dict[str, Health]
    nodes: dict[tuple[SiteName, str], NodeHealth]
    held: tuple[Held, ...]
    flows: tuple[Flow, ...]
    unproven: tuple[SiteName, ...]  # sites where pilots of a forgotten life may still be

    def health_of(self, about: str) -> Health:
        return self.health.get(about) or Health(about)


def look(snapshot: Snapshot, memory: Memory, rules: Rules) -> Picture:
    now = snapshot.now
    pools = {pool.name: pool for pool in rules.pools}
    slots_seen = {
        pool: _usable_slots(sighting, pools[pool], now) for pool, sighting in snapshot.slots if pool in pools
    }
    closed = {site.name: _site_closed(snapshot, site) for site in rules.sites}
    books = Books(now, memory, rules)
    heard: dict[str, Slot] = {
        slot.pilot: slot for slots in slots_seen.values() if slots is not None for slot in slots.slots
    }
    pools_seen = frozenset(pool for pool, slots in slots_seen.items() if slots is not None)
    for site, sighting in snapshot.sites:
        if isinstance(sighting, Seen) and closed.get(site) in (None, Because.SITE_PARTIAL):
            books.read_listing(site, sighting.value, heard, pools_seen)
    open_sites = frozenset(site for site, because in closed.items() if because is None)
    books.settle_unlisted(open_sites, heard)
    held, wanted, held_pools = _demand(snapshot, memory, pools)
    fresh = [each.demand for each in wanted if not each.held]
    known = _compared(snapshot, memory)
    flows = flowed(memory.flows, fresh, now, unseen=held_pools, known=known)
    blind = {pool: Because.POOL_UNSEEN for pool in pools if slots_seen.get(pool) is None}
    return Picture(
        now=now,
        memory=memory,
        snapshot=snapshot,
        tracks=tuple(books.tracks),
        unfilled=tuple(books.unfilled),
        kinds=Counter(map(_KIND, books.tracks)),
        slots=heard,
        lost=tuple(Lost(*row) for row in books.lost),
        wanted=wanted,
        closed_sites={site: because for site, because in closed.items() if because is not None},
        blind_pools=blind,
        held_pools=held_pools,
        health=books.health,
        nodes=books.nodes,
        held=held,
        flows=flows,
        unproven=_unproven(memory, rules, open_sites),
    )


def _compared(snapshot: Snapshot, memory: Memory) -> set[PoolName]:
    """Pools of which every source was seen not long ago: a source that is new, or was silent for long, brings
    a backlog that did not arrive just now."""
    last = {(held.pool, held.source): held.at for held in memory.held}
    fresh: dict[PoolName, bool] = {}
    for pool, source, _ in snapshot.demand:
        at = last.get((pool, source))
        recent = at is not None and snapshot.now - at <= SPAN_S
        fresh[pool] = fresh.get(pool, True) and recent
    return {pool for pool, recent in fresh.items() if recent}


def _unproven(memory: Memory, rules: Rules, open_sites: frozenset[SiteName]) -> tuple[SiteName, ...]:
    """A life that starts without memory cannot count what it has not seen once; later sites start empty."""
    waiting = [site.name for site in rules.sites] if memory.at is None else memory.unproven
    configured = {site.name for site in rules.sites}
    return tuple(site for site in waiting if site in configured and site not in open_sites)


def _usable_slots(sighting: Sighting[PoolSlots], pool: PoolRules, now: Instant) -> PoolSlots | None:
    if isinstance(sighting, Seen) and sighting.value.complete and now - sighting.at <= pool.stale_s_max:
        return sighting.value
    return None


def _site_closed(snapshot: Snapshot, site: SiteRules) -> Because | None:
    sighting: Sighting[SiteListing] | None = dict(snapshot.sites).get(site.name)
    if not isinstance(sighting, Seen):
        return Because.SITE_UNSEEN
    if snapshot.now - sighting.at > site.stale_s_max:
        return Because.SITE_STALE
    return None if sighting.value.complete else Because.SITE_PARTIAL


def _demand(
    snapshot: Snapshot, memory: Memory, pools: dict[PoolName, PoolRules]
) -> tuple[tuple[Held, ...], tuple[Wanted, ...], frozenset[PoolName]]:
    """What may be acted on, summed over the sources of each pool, and what is only held."""
    before = {(held.pool, held.source): held for held in memory.held}
    kept: list[Held] = []
    fresh: list[Demand] = []
    stale: list[Demand] = []
    held_pools: set[PoolName] = set()
    for pool, source, sighting in snapshot.demand:
        if pool not in pools:
            continue
        old = before.pop((pool, source), None)
        usable = _usable_demand(sighting, pools[pool], snapshot.now)
        if usable is not None:
            assert isinstance(sighting, Seen)
            unchanged = old is not None and old.demands == usable.demands and old.at == sighting.at
            kept.append(old if unchanged and old else Held(pool, source, sighting.at, usable.demands))
            fresh.extend(usable.demands)
            continue
        held_pools.add(pool)
        if old is not None:
            kept.append(old)
            stale.extend(_decayed(old, pools[pool], snapshot.now))
    for (pool, _), old in sorted(before.items()):
        # The source is no longer named: it fades like one that fell silent, and is then forgotten.
        rules = pools.get(pool)
        if rules is not None and snapshot.now - old.at <= rules.hold_s + rules.decay_s:
            kept.append(old)
            stale.extend(_decayed(old, rules, snapshot.now))
            held_pools.add(pool)
    # A pool that named no source at all has not been seen; that is not the same as empty.
    held_pools |= pools.keys() - {pool for pool, _, _ in snapshot.demand}
    wanted = [Wanted(demand) for demand in _summed(fresh)]
    wanted += [Wanted(demand, held=True) for demand in _summed(stale)]
    return tuple(kept), tuple(wanted), frozenset(held_pools)


def _usable_demand(sighting: Sighting[DemandSight], pool: PoolRules, now: Instant) -> DemandSight | None:
    if isinstance(sighting, Seen) and sighting.value.complete and now - sighting.at <= pool.stale_s_max:
        return sighting.value
    return None


def _decayed(held: Held, pool: PoolRules, now: Instant) -> list[Demand]:
    """The last value for `hold_s`, then less and less, never a jump to nothing."""
    over_s = max(0, now - held.at - pool.hold_s)
    left = max(0, pool.decay_s - over_s)
    if over_s == 0:
        return list(held.demands)
    if left == 0:
        return []
    return [copied(d, idle=-(-d.idle * left // pool.decay_s)) for d in held.demands]


def _summed(demands: list[Demand]) -> list[Demand]:
    """One row per group, whichever sources named it; in a fixed order."""
    rows: dict[Group, Demand] = {}
    for demand in demands:
        key = demand.group
        row = rows.get(key)
        rows[key] = demand if row is None else _added(row, demand)
    return sorted(rows.values(), key=_order)


def _order(demand: Demand) -> tuple[object, ...]:
    # GPU jobs first: what does not need a GPU must not eat the room beside one. Then those with the fewest
    # offers to choose from, or a small job could take the only place of a large one. Then the oldest.
    oldest = demand.oldest_at if demand.oldest_at is not None else 1 << 62
    return (
        demand.pool,
        -demand.shape.request.gpus,
        len(demand.fits) or FITS_NONE,
        oldest,
        demand.shape.request.as_tuple(),
        demand.shape.traits,
        demand.run_s_max or 0,
        demand.variant,
    )


def _added(one: Demand, other: Demand) -> Demand:
    owners: dict[Owner, int] = dict(one.owners)
    for owner, idle in other.owners:
        owners[owner] = owners.get(owner, 0) + idle
    oldest = [at for at in (one.oldest_at, other.oldest_at) if at is not None]
    return copied(
        one,
        idle=one.idle + other.idle,
        running=one.running + other.running,
        oldest_at=min(oldest, default=None),
        owners=most_first(owners),
        fits=one.fits if one.fits == other.fits else tuple(sorted({*one.fits, *other.fits})),
    )
