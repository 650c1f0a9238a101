"""Sharing out: which offers are open, how much room every limit leaves, and who gets the next pilot.

Pilots go one by one to the open offer that has least for its score, so that offers fill in proportion to
weight, price, health and start latency, and no job is counted at two sites. Where one request to a site
starts several pilots they go so many at a time, and where a limit has no room for all of them none goes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Seen, Unseen
from glidepath.core.provision.budget import Purse, covers, purses
from glidepath.core.provision.health import Gate, gate, shrunk
from glidepath.core.provision.memory import Health
from glidepath.core.provision.offer import Kind, Limits, Offer, Rules, SiteRules
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import COMING, PilotPhase
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, SiteName

UNLIMITED = 1 << 40
# Half the score is lost at ten minutes of start latency, and at a price of one unit per hour.
LATENCY_HALF_S = 600
PRICE_HALF_MILLI = 1000
SCORE_UNIT = 1_000_000
# Where no limit per cycle is set, failures still must shrink something.
PER_CYCLE_WHEN_FAILING = 64


@dataclass(slots=True)
class Room:
    """What one limit still allows in this cycle."""

    left: int = UNLIMITED
    live: int = 0
    pending: int = 0
    once: bool = False  # a single request, whatever the number of pilots that it starts

    @staticmethod
    def under(limits: Limits, live: int, pending: int, elapsed_s: int) -> Room:
        left = UNLIMITED
        if limits.live_max is not None:
            left = min(left, limits.live_max - live)
        if limits.pending_max is not None:
            left = min(left, limits.pending_max - pending)
        if limits.per_cycle_max is not None:
            left = min(left, limits.per_cycle_max)
        if limits.per_s_max is not None:
            left = min(left, limits.per_s_max * elapsed_s)
        return Room(max(0, left), live, pending)


@dataclass(slots=True)
class Counts:
    live: int = 0
    pending: int = 0  # asked for and not yet joined


@dataclass(slots=True)
class OpenOffer:
    """One offer in this cycle: closed for a reason, or open with so much room."""

    offer: Offer
    site: SiteRules
    room: Room
    site_room: Room
    score: int
    tally: int  # pilots on their way here, those of this plan included
    lifetime_s: int
    latency_s: int
    closed: Because | None = None
    why: tuple[Fact, ...] = ()
    asked: int = 0
    site_takes: int | None = None  # more of them, by the site's own word
    wanted_by: set[PoolName] = field(default_factory=set)  # pools with demand that it fits
    pool_rooms: Mapping[PoolName, Room] = field(default_factory=dict)  # of those with a limit at its site
    purses: tuple[tuple[Purse, int], ...] = ()  # budgets that pay for it, and what one pilot may cost each

    @property
    def left(self) -> int:
        """What the offer, its site and its budgets leave."""
        left = min(self.room.left, self.site_room.left)
        for purse, micro in self.purses:
            left = min(left, purse.left_micro // micro)
        return left

    @property
    def short_of(self) -> Purse | None:
        """A budget that cannot pay for one request more."""
        together = self.offer.together
        return next((purse for purse, micro in self.purses if purse.left_micro < micro * together), None)

    @property
    def full(self) -> bool:
        return self.left < self.offer.together

    @property
    def full_pools(self) -> list[PoolName]:
        """Pools that want something here and have all that the site lets them have."""
        together = self.offer.together
        return sorted(p for p in self.wanted_by if self.left_for(p) < together)

    def left_for(self, pool: PoolName) -> int:
        """The same, and what the site's limit for this pool leaves."""
        room = self.pool_rooms.get(pool)
        return self.left if room is None else min(self.left, room.left)

    def takes(self, pool: PoolName) -> bool:
        return not self.site.pools or pool in self.site.pools


@dataclass(slots=True)
class Candidate:
    """An open offer that could serve a shape: the kind of pilot, and how many of the jobs each would hold."""

    entry: OpenOffer
    kind: Kind
    jobs_each: int


@dataclass(slots=True)
class Given:
    candidate: Candidate
    pilots: int = 0
    jobs: int = 0


def _turn(entry: OpenOffer) -> int:
    """Whose turn it is: the smaller, the sooner."""
    return (entry.tally + entry.offer.together) * SCORE_UNIT * SCORE_UNIT // entry.score


@dataclass(slots=True)
class Market:
    """All offers and all limits of one cycle."""

    offers: dict[OfferKey, OpenOffer]
    pools: dict[PoolName, Room]
    owners: dict[Owner, Room]
    overall: Room
    owner_default: Limits | None
    owner_counts: dict[Owner, Counts]
    elapsed_s: int
    hidden: int | None  # pilots that may be at sites never seen; None: nobody can say how many
    asks: dict[tuple[PoolName, Kind, Owner], int] = field(default_factory=dict)

    def owner_room(self, owner: Owner) -> Room | None:
        room = self.owners.get(owner)
        if room is None and self.owner_default is not None and owner:
            counts = self.owner_counts.get(owner) or Counts()
            room = Room.under(self.owner_default, counts.live, counts.pending, self.elapsed_s)
            self.owners[owner] = _behind(room, self.owner_default, self.hidden)
        return room

    def ask(self, pool: PoolName, owner: Owner, candidates: list[Candidate], jobs: int) -> list[Given]:
        """Pilots for so many jobs, each from the candidate with least for its score; what each kind got."""
        rooms = [self.pools[pool], self.overall]
        owner_room = self.owner_room(owner)
        if owner_room is not None:
            rooms.append(owner_room)
        bound = min(room.left for room in rooms)
        heap = [(_turn(c.entry), c.kind.offer, c) for c in candidates]
        heapq.heapify(heap)
        got: dict[OfferKey, Given] = {}
        pilots, left = 0, jobs
        while heap and left > 0:
            _, key, candidate = heap[0]
            entry, each = candidate.entry, candidate.jobs_each
            together = entry.offer.together
            room = min(entry.left_for(pool), bound - pilots)
            if room < together:
                heapq.heappop(heap)
                continue
            batch = together
            if len(heap) == 1 and not entry.site_room.once:
                # With a single candidate left there is nothing to weigh; take the rest at once.
                batch = min(room // together, -(-left // (each * together))) * together
            self._give(entry, pool, batch)
            given = got.setdefault(key, Given(candidate))
            given.pilots += batch
            given.jobs += min(left, batch * each)
            pilots += batch
            left -= min(left, batch * each)
            heapq.heapreplace(heap, (_turn(entry), key, candidate))
        for each_room in rooms:
            each_room.left -= pilots
        for given in got.values():
            ask = (pool, given.candidate.kind, owner)
            self.asks[ask] = self.asks.get(ask, 0) + given.pilots
        return list(got.values())

    @staticmethod
    def _give(entry: OpenOffer, pool: PoolName, count: int) -> None:
        entry.room.left -= count
        entry.site_room.left -= count
        if entry.site_room.once:
            entry.site_room.left = 0
        if pool in entry.pool_rooms:
            entry.pool_rooms[pool].left -= count
        for purse, micro in entry.purses:
            purse.left_micro -= count * micro
        entry.tally += count
        entry.asked += count


def market(picture: Picture, rules: Rules) -> Market:
    elapsed_s = 1 if picture.memory.at is None else max(1, picture.now - picture.memory.at)
    by_offer: defaultdict[str, Counts] = defaultdict(Counts)
    by_site: defaultdict[str, Counts] = defaultdict(Counts)
    by_pool: defaultdict[str, Counts] = defaultdict(Counts)
    by_owner: defaultdict[Owner, Counts] = defaultdict(Counts)
    by_share: defaultdict[tuple[str, str], Counts] = defaultdict(Counts)  # of a pool at a site
    overall = Counts()
    # Pilots of a kind are counted together first: there are thousands of them and few kinds.
    for (offer_key, site_name, pool, owner, phase), live in picture.kinds.items():
        # What is unknown may be in a site's queue still.
        pending = live if phase in COMING or phase is PilotPhase.UNKNOWN else 0
        whole = (by_offer[offer_key], by_site[site_name], by_pool[pool], by_owner[owner], overall)
        for counts in (*whole, by_share[(site_name, pool)]):
            counts.live += live
            counts.pending += pending

    hidden = _hidden(picture, rules, by_site)

    def room(limits: Limits, counts: Counts | None) -> Room:
        counts = counts or Counts()
        return Room.under(limits, counts.live, counts.pending, elapsed_s)

    def wide_room(limits: Limits, counts: Counts | None) -> Room:
        """Of a limit that spans sites: less by the pilots that may be at a site that was never seen."""
        return _behind(room(limits, counts), limits, hidden)

    probing, budgets = _probing(picture), purses(picture, rules)
    offers: dict[OfferKey, OpenOffer] = {}
    for site in rules.sites:
        site_room = room(site.limits, by_site.get(site.name))
        takes = _told_room(picture, site.name)
        if takes is not None:
            site_room.left = min(site_room.left, takes)
        pool_rooms = {pool: room(each, by_share.get((site.name, pool))) for pool, each in site.pool_limits}
        for offer in site.offers:
            offer_room = room(offer.limits, by_offer.get(offer.key))
            entry = _open_offer(picture, site, offer, room=offer_room, site_room=site_room)
            entry.pool_rooms, entry.site_takes = pool_rooms, takes
            _close(entry, picture, rules, probing)
            _close_for_budget(entry, budgets)
            offers[offer.key] = entry
    default = next((owner.limits for owner in rules.owners if owner.owner == "*"), None)
    return Market(
        offers=offers,
        pools={pool.name: wide_room(pool.limits, by_pool.get(pool.name)) for pool in rules.pools},
        owners={
            owner.owner: wide_room(owner.limits, by_owner.get(owner.owner))
            for owner in rules.owners
            if owner.owner != "*"
        },
        overall=wide_room(rules.limits, overall),
        owner_default=default,
        owner_counts=by_owner,
        elapsed_s=elapsed_s,
        hidden=hidden,
    )


def _told_room(picture: Picture, site: SiteName) -> int | None:
    """How many more the site takes, as it says itself: what it has no room for is asked for elsewhere."""
    sighting = dict(picture.snapshot.sites).get(site)
    return sighting.value.room if isinstance(sighting, Seen) else None


def _hidden(picture: Picture, rules: Rules, by_site: Mapping[str, Counts]) -> int | None:
    """How many pilots of a forgotten life can be at sites that were not seen since, by their own limits."""
    total = 0
    for site in rules.sites:
        if site.name in picture.unproven:
            known = [offer.limits.live_max for offer in site.offers if offer.limits.live_max is not None]
            bounds = [] if site.limits.live_max is None else [site.limits.live_max]
            if len(known) == len(site.offers):
                bounds.append(sum(known))
            if not bounds:
                return None
            total += max(0, min(bounds) - by_site[site.name].live)
    return total


def _behind(room: Room, limits: Limits, hidden: int | None) -> Room:
    if limits.live_max is not None or limits.pending_max is not None:
        room.left = 0 if hidden is None else max(0, room.left - hidden)
    return room


def _open_offer(picture: Picture, site: SiteRules, offer: Offer, *, room: Room, site_room: Room) -> OpenOffer:
    health = picture.health_of(offer.key)
    if health.failures:
        bound = min(offer.limits.per_cycle_max or PER_CYCLE_WHEN_FAILING, PER_CYCLE_WHEN_FAILING)
        # Never below one request: what could not be tried could not be found mended.
        room.left = min(room.left, max(offer.together, shrunk(bound, health)))
    latency_s = health.latency_s or picture.health_of(site.name).latency_s
    return OpenOffer(
        offer=offer,
        site=site,
        room=room,
        site_room=site_room,
        score=_score(offer, health, latency_s),
        tally=room.pending,
        lifetime_s=offer.lifetime_s,
        latency_s=latency_s,
    )


def _score(offer: Offer, health: Health, latency_s: int) -> int:
    score = offer.weight * SCORE_UNIT
    score = score * LATENCY_HALF_S // (LATENCY_HALF_S + latency_s)
    score = score * PRICE_HALF_MILLI // (PRICE_HALF_MILLI + offer.price_milli)
    return max(1, score >> min(health.failures, 30))


def _probing(picture: Picture) -> set[str]:
    """Offers and sites whose probe is under way: a pilot asked for since the breaker let one through."""
    if not any(health.retry_at is not None for health in picture.health.values()):
        return set()
    probing: set[str] = set()
    for track in picture.unfilled:
        if track.phase in COMING or track.phase is PilotPhase.UNKNOWN:
            for about in (track.offer, track.site):
                health = picture.health.get(about)
                if health and health.retry_at is not None and track.asked_at >= health.retry_at:
                    probing.add(about)
    return probing


def _close(entry: OpenOffer, picture: Picture, rules: Rules, probing: set[str]) -> None:
    """Why nothing, or only one pilot, is asked for here; the first reason that holds is the one told."""
    site, now = entry.site, picture.now
    pause = _pause(entry, picture.snapshot.pauses)
    closed = picture.closed_sites.get(site.name)
    if closed is not None:
        entry.closed, entry.why = closed, _unseen_facts(picture, site.name)
    elif pause is not None:
        entry.closed = Because.DRAINED if pause.drain else Because.PAUSED
        entry.why = (("by", pause.by), ("why", pause.why))
    elif site.listing_lag_s and now < picture.memory.born_at + site.listing_lag_s:
        left_s = picture.memory.born_at + site.listing_lag_s - now
        entry.closed, entry.why = Because.SITE_SETTLING, (("left_s", left_s),)
    else:
        _close_for_window(entry, picture, rules)
        _close_for_breaker(entry, picture, probing)


def _pause(entry: OpenOffer, pauses: tuple[Pause, ...]) -> Pause | None:
    paused = {pause.about: pause for pause in pauses}
    return paused.get(f"site:{entry.site.name}") or paused.get(f"offer:{entry.offer.key}")


def _unseen_facts(picture: Picture, site: SiteName) -> tuple[Fact, ...]:
    sighting = dict(picture.snapshot.sites).get(site)
    if isinstance(sighting, Unseen):
        return (("age_s", picture.now - sighting.since), ("why", sighting.why))
    return (("age_s", picture.now - sighting.at),) if sighting is not None else ()


def _close_for_window(entry: OpenOffer, picture: Picture, rules: Rules) -> None:
    for window in picture.snapshot.windows:
        if window.site != entry.site.name or window.closes_at <= picture.now:
            continue
        if window.opens_at <= picture.now:
            entry.closed = Because.IN_WINDOW
            entry.why = (("left_s", window.closes_at - picture.now), ("why", window.why))
            return
        usable_s = window.opens_at - picture.now - entry.latency_s
        # A pilot without any life is read as one without a limit by some queues.
        if usable_s < max(1, rules.useful_s_min):
            entry.closed = Because.WINDOW_NEAR
            entry.why = (("opens_in_s", window.opens_at - picture.now), ("why", window.why))
            return
        entry.lifetime_s = min(entry.lifetime_s, usable_s)


def _close_for_breaker(entry: OpenOffer, picture: Picture, probing: set[str]) -> None:
    if entry.closed is not None:
        return
    most = max(offer.together for offer in entry.site.offers)
    for about, room, together in (
        (entry.offer.key, entry.room, entry.offer.together),
        (entry.site.name, entry.site_room, most),
    ):
        health = picture.health_of(about)
        state = gate(health, picture.now)
        if state is Gate.OPEN:
            entry.closed = Because.BREAKER_OPEN
            entry.why = _breaker_facts(health, picture.now)
            return
        if state is Gate.PROBE:
            if about in probing:
                entry.closed = Because.BREAKER_PROBE
                entry.why = _breaker_facts(health, picture.now)
                return
            # One request is the probe, and it starts as many as it must.
            room.left, room.once = min(room.left, together), True


def _close_for_budget(entry: OpenOffer, budgets: tuple[Purse, ...]) -> None:
    """Those that pay for it come with what a pilot costs them that lives as long as it may."""
    mine = (each for each in budgets if covers(each.budget, entry.site.name))
    prices = ((each, each.price_of(entry.offer.price_milli, entry.lifetime_s)) for each in mine)
    entry.purses = tuple((purse, micro) for purse, micro in prices if micro)
    short = entry.short_of
    if entry.closed is None and short is not None:
        entry.closed, entry.why = Because.OVER_BUDGET, short.why


def _breaker_facts(health: Health, now: Instant) -> tuple[Fact, ...]:
    assert health.retry_at is not None, "only a breaker that has opened is told of"
    retry_s = max(0, health.retry_at - now)
    return (("failures", health.failures), ("retry_in_s", retry_s), ("last", health.why))
