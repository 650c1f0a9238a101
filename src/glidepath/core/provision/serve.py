"""Serving one shape: what free slots take, what pilots on their way will take, what the policy wants beyond
that, and what the open offers and their limits let through. Each step keeps its number for the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Reason, Seen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.offer import Kind, Rules, kind_for
from glidepath.core.provision.picture import Picture, Wanted
from glidepath.core.provision.pilot import COMING, PilotPhase
from glidepath.core.provision.pressure import Arriving, Need, Policy
from glidepath.core.provision.share import Candidate, Market, OpenOffer
from glidepath.core.provision.supply import FOREVER_S, Amounts, Row, Stock, copies
from glidepath.core.quantity import OfferKey, Owner, PoolName, Resources, SiteName

# Remaining lifetimes are told apart at so many steps at most, or ten thousand pilots would be as many lots.
LIFE_STEPS_MAX = 16


@dataclass(slots=True)
class Shelves:
    """The supply of one cycle: free now, on its way, late (pending beyond patience), and newly asked for."""

    free: Stock
    coming: Stock
    late: Stock
    opened: Stock


@dataclass(slots=True)
class Served:
    """What became of one group of demand."""

    wanted: Wanted
    reason: Reason
    asked: int = 0
    uncovered: int = 0  # jobs that neither free, coming nor newly asked pilots will take


@dataclass(slots=True)
class Supply:
    """Jobs of one group: those expected beyond the waiting ones, and how many of both find a place."""

    expected: int
    free: int
    coming: int
    uncovered: int


def shelves(picture: Picture, rules: Rules) -> Shelves:
    now, slots = picture.now, picture.slots
    steps = _life_steps(picture, rules)
    floors = [0, *steps]
    sites = {site.name: site for site in rules.sites}
    offers = rules.offers()
    free: list[Row] = []
    coming: list[Row] = []
    late: list[Row] = []
    lost = shareless(picture, rules)
    for track in picture.unfilled:
        phase = track.phase
        if phase is PilotPhase.BUSY or phase is PilotPhase.IDLE:
            slot = slots.get(track.name)
            if slot is not None and not track.leaving:
                left_s = FOREVER_S if track.ends_at is None else track.ends_at - now
                room = slot.free.as_tuple()
                if left_s > 0 and any(room):
                    life_s = floors[bisect_right(steps, left_s)]
                    free.append((track.pool, track.kind, room, life_s, phase is PilotPhase.IDLE))
        elif phase in COMING and not track.leaving:
            offer = offers.get(track.offer)
            life_s = floors[bisect_right(steps, FOREVER_S if offer is None else offer.lifetime_s)]
            row = (track.pool, track.kind, track.size.as_tuple(), life_s, True)
            site = sites.get(track.site)
            patient = phase is PilotPhase.STARTING or site is None or now - track.asked_at <= site.patience_s
            (coming if patient and track.site not in lost else late).append(row)
    least = _least(picture)
    result = Shelves(Stock(least), Stock(least), Stock(least), Stock(least))
    result.free.add_all(free)
    result.coming.add_all(coming)
    result.late.add_all(late)
    return result


def shareless(picture: Picture, rules: Rules) -> frozenset[SiteName]:
    """Sites that have been unseen for longer than they keep their share. Their pilots may live, and count
    against every limit; what is only on its way there is not waited for."""
    seen = dict(picture.snapshot.sites)
    found = set()
    for site in rules.sites:
        sighting = seen.get(site.name)
        if site.share_lost_s is None or sighting is None:
            continue
        at = sighting.at if isinstance(sighting, Seen) else sighting.since
        if picture.now - at > site.share_lost_s:
            found.add(site.name)
    return frozenset(found)


def _least(picture: Picture) -> Amounts:
    """The smallest of each part that any group asks for."""
    requests = [wanted.demand.shape.request.as_tuple() for wanted in picture.wanted]
    if not requests:
        return Resources().as_tuple()
    cpus, memories, disks, gpus = zip(*requests, strict=True)
    return (min(cpus), min(memories), min(disks), min(gpus))


def _life_steps(picture: Picture, rules: Rules) -> list[int]:
    """The run times that demand states, and the least life that is of use where none is stated."""
    stated = {w.demand.run_s_max for w in picture.wanted if w.demand.run_s_max}
    steps = sorted({rules.left_s_min, *stated})
    # Rounding down understates what is left, so a job is never counted on a pilot too short for it.
    stride = -(-len(steps) // LIFE_STEPS_MAX)
    return sorted({*steps[::stride], steps[-1]})


class Service:
    """Serves group after group from the same shelves and the same market."""

    def __init__(self, picture: Picture, rules: Rules, policy: Policy, market: Market) -> None:
        self.picture = picture
        self.rules = rules
        self.policy = policy
        self.market = market
        self.shelves = shelves(picture, rules)
        self.paused = {pause.about for pause in picture.snapshot.pauses}
        self.owners_limited = bool(rules.owners)
        self._known: dict[
            tuple[PoolName, tuple[OfferKey, ...]], tuple[list[tuple[OpenOffer, Kind]], list[OpenOffer]]
        ] = {}
        self._latencies: dict[tuple[PoolName, tuple[OfferKey, ...]], int] = {}
        self._on_their_way: dict[tuple[PoolName, tuple[OfferKey, ...]], int] = {}
        self._flows = {flow.group: flow for flow in picture.flows}
        self._pool_flows: dict[tuple[PoolName, int], int] = {}

    def kinds(self, demand: Demand) -> list[tuple[OpenOffer, Kind]]:
        """The kinds of pilot that fit, one per offer. Fixed offers are the same for all with equal `fits`."""
        group = (demand.pool, demand.fits)
        found = self._known.get(group)
        if found is None:
            entries = self.market.offers
            known = [entries[k] for k in demand.fits if k in entries and entries[k].takes(demand.pool)]
            fixed = [(entry, entry.offer.kind) for entry in known if not entry.offer.fitted]
            found = self._known[group] = (fixed, [entry for entry in known if entry.offer.fitted])
            for entry in known:
                entry.wanted_by.add(demand.pool)
        fitted = [
            (entry, kind) for entry in found[1] if (kind := kind_for(entry.offer, demand.shape)) is not None
        ]
        return found[0] + fitted

    def serve(self, wanted: Wanted) -> Served:
        demand = wanted.demand
        kinds = self.kinds(demand)
        request = demand.shape.request.as_tuple()
        run_s = demand.run_s_max or self.rules.left_s_min
        plain = [kind for _, kind in kinds]
        expected = 0 if wanted.held else self._expected(demand, kinds)
        jobs = demand.idle + expected
        free = self.shelves.free.take(demand.pool, plain, request, jobs=jobs, run_s=run_s)
        coming = self.shelves.coming.take(demand.pool, plain, request, jobs=jobs - free, run_s=run_s)
        uncovered = jobs - free - coming
        self.shelves.late.take(demand.pool, plain, request, jobs=uncovered, run_s=run_s)
        facts: tuple[Fact, ...] = (("idle", demand.idle), ("free", free), ("coming", coming))
        if expected:
            facts = (("idle", demand.idle), ("expected", expected), *facts[1:])
        supply = Supply(expected, free, coming, uncovered)
        stop = self._left_alone(wanted, kinds, supply)
        if stop is not None:
            held_back = uncovered if not wanted.held else 0
            return Served(wanted, Reason(stop, facts), uncovered=held_back)
        return self._ask(wanted, kinds, facts, supply)

    def _expected(self, demand: Demand, kinds: list[tuple[OpenOffer, Kind]]) -> int:
        """Jobs that the policy wants to be ready for before they come, at the pace of the best open offer."""
        flow = self._flows.get(demand.group)
        if flow is None:
            return 0
        latency_s = self._latency_s(demand, kinds)
        now = self.picture.now
        jobs = flow.arriving(now, latency_s)
        if not jobs:
            return 0
        key = (demand.pool, latency_s)
        if key not in self._pool_flows:
            self._pool_flows[key] = sum(
                each.arriving(now, latency_s) for each in self.picture.flows if each.pool == demand.pool
            )
        return self.policy.expected(Arriving(jobs, self._pool_flows[key]))

    def _latency_s(self, demand: Demand, kinds: list[tuple[OpenOffer, Kind]]) -> int:
        """How long a pilot takes to join at the best open offer; nothing where none is open or known."""
        group = (demand.pool, demand.fits)
        if group not in self._latencies:
            open_ones = [entry for entry, _ in kinds if entry.closed is None]
            best = max(open_ones, key=lambda entry: (entry.score, entry.offer.key), default=None)
            self._latencies[group] = best.latency_s if best else 0
        return self._latencies[group]

    def _left_alone(
        self, wanted: Wanted, kinds: list[tuple[OpenOffer, Kind]], supply: Supply
    ) -> Because | None:
        demand = wanted.demand
        if wanted.held:
            return Because.HELD_DEMAND
        if not demand.idle and not supply.expected:
            return Because.NOTHING_WAITS
        if demand.pool in self.picture.blind_pools:
            return self.picture.blind_pools[demand.pool]
        if not kinds:
            return Because.NO_OFFER_FITS
        if not supply.uncovered and not self.policy.beyond:
            return Because.COVERED
        if self.picture.snapshot.stopping:
            return Because.STOPPING
        if f"pool:{demand.pool}" in self.paused:
            return Because.POOL_PAUSED
        return None

    def _ask(
        self,
        wanted: Wanted,
        kinds: list[tuple[OpenOffer, Kind]],
        facts: tuple[Fact, ...],
        supply: Supply,
    ) -> Served:
        demand = wanted.demand
        request = demand.shape.request.as_tuple()
        run_s = demand.run_s_max + self.rules.slack_s if demand.run_s_max else 0
        open_ones = [
            Candidate(entry, kind, each)
            for entry, kind in kinds
            if entry.closed is None
            and entry.left_for(demand.pool) >= entry.offer.together
            and entry.lifetime_s >= run_s
            and (each := copies(request, kind.size.as_tuple()))
        ]
        first = max(open_ones, key=_best) if open_ones else self._shut(kinds, request, run_s)
        if first is None:
            told = (("run_s", demand.run_s_max or 0), ("slack_s", self.rules.slack_s))
            return Served(wanted, Reason(Because.NO_OFFER_LASTS, (*facts, *told)), uncovered=supply.uncovered)
        need = self._need(demand, supply, first)
        pressure = self.policy.pressure(need)
        uncovered = supply.uncovered
        if self.policy.beyond:
            jobs = max(0, pressure.waiting - need.coming) * first.jobs_each
        else:
            jobs = min(uncovered, max(0, pressure.waiting * first.jobs_each - supply.coming))
        facts = (*facts, ("wanted", pressure.waiting), ("rule", pressure.rule))
        if not jobs:
            return Served(wanted, Reason(Because.ENOUGH_PRESSURE, facts), uncovered=uncovered)
        shared = self.shelves.opened.take(
            demand.pool, [c.kind for c in open_ones], request, jobs=jobs, run_s=run_s
        )
        asked, left, spare = self._share_out(demand, open_ones, jobs - shared)
        if shared:
            facts = (*facts, ("beside_others", shared))
        if spare:
            facts = (*facts, ("rounded_up", spare))
        facts = (*facts, ("asked", asked))
        reason = self._reason(demand, first, open_ones, left=left, facts=facts)
        return Served(wanted, reason, asked, max(0, uncovered - (jobs - left)))

    @staticmethod
    def _shut(kinds: list[tuple[OpenOffer, Kind]], request: Amounts, run_s: int) -> Candidate | None:
        """An offer that could serve the shape if it were open; None where every one dies too early."""
        for entry, kind in kinds:
            each = copies(request, kind.size.as_tuple())
            if each and entry.lifetime_s >= run_s:
                return Candidate(entry, kind, each)
        return None

    def _need(self, demand: Demand, supply: Supply, first: Candidate) -> Need:
        oldest_s = 0 if demand.oldest_at is None else max(0, self.picture.now - demand.oldest_at)
        each = first.jobs_each
        return Need(
            idle=-(-(demand.idle + supply.expected - supply.free) // each),
            coming=-(-supply.coming // each),
            free=-(-supply.free // each),
            pending=self._pending(demand),
            idle_jobs=demand.idle,
            running_jobs=demand.running,
            expected_jobs=supply.expected,
            jobs_each=each,
            oldest_s=oldest_s,
            latency_s=first.entry.latency_s,
        )

    def _pending(self, demand: Demand) -> int:
        group = (demand.pool, demand.fits)
        if group not in self._on_their_way:
            self._on_their_way[group] = sum(
                count
                for (offer, _, pool, _, phase), count in self.picture.kinds.items()
                if pool == demand.pool and offer in demand.fits and phase in COMING
            )
        return self._on_their_way[group]

    def _share_out(self, demand: Demand, candidates: list[Candidate], jobs: int) -> tuple[int, int, int]:
        """Pilots asked for, jobs left over, and pilots that came along without a job of these. What room a
        new pilot has left serves the next shape."""
        request = demand.shape.request.as_tuple()
        kinds = [candidate.kind for candidate in candidates]
        several = any(candidate.entry.offer.together > 1 for candidate in candidates)
        untouched = self._untouched()
        asked, left = 0, jobs
        for owner, part in self._parts(demand, jobs):
            if several:
                # What came along in the name of one owner is there for the next.
                found = self.shelves.opened.take(demand.pool, kinds, request, jobs=part, run_s=0)
                part, left = part - found, left - found
            for given in self.market.ask(demand.pool, owner, candidates, part):
                kind = given.candidate.kind
                life_s = given.candidate.entry.lifetime_s
                self.shelves.opened.add(demand.pool, kind, given.pilots, life_s)
                self.shelves.opened.take(demand.pool, [kind], request, jobs=given.jobs, run_s=0)
                asked += given.pilots
                left -= given.jobs
        return asked, left, self._untouched() - untouched

    def _untouched(self) -> int:
        """Pilots newly asked for, into which nothing was packed yet."""
        return sum(self.shelves.opened.untouched().values())

    def _parts(self, demand: Demand, jobs: int) -> list[tuple[Owner, int]]:
        """In whose name pilots are asked for: everyone's in proportion where owners have limits."""
        first = demand.owners[0][0] if demand.owners else Owner("")
        if not self.owners_limited or len(demand.owners) < 2:
            return [(first, jobs)]
        total = sum(idle for _, idle in demand.owners)
        parts = [(owner, jobs * idle // total) for owner, idle in demand.owners]
        rest = jobs - sum(part for _, part in parts)
        # What the division leaves over goes to those with most, one each.
        return [(owner, part + (place < rest)) for place, (owner, part) in enumerate(parts)]

    def _reason(
        self,
        demand: Demand,
        first: Candidate,
        open_ones: list[Candidate],
        *,
        left: int,
        facts: tuple[Fact, ...],
    ) -> Reason:
        asked = facts[-1][1]
        if not left:
            return Reason(Because.ASKED if asked else Because.COVERED, facts)
        facts = (*facts, ("short", left))
        if asked:
            return Reason(Because.ASKED, facts)
        room = min(self.market.pools[demand.pool].left, self.market.overall.left)
        together = min((each.entry.offer.together for each in open_ones), default=1)
        if room < together:
            facts = (*facts, *_short_of(together, room))
            if self.picture.unproven:
                return Reason(Because.SITES_UNPROVEN, (*facts, ("sites", ",".join(self.picture.unproven))))
            return Reason(Because.POOL_AT_LIMIT, facts)
        if open_ones:
            owners = [self.market.owner_room(owner) for owner, _ in demand.owners]
            most = max((each.left for each in owners if each is not None), default=0)
            return Reason(Because.OWNER_AT_LIMIT, (*facts, *_short_of(together, most)))
        # The one that would have served it: others that fit may be open and die too early for these jobs.
        entry = first.entry
        told = (entry.closed or Because.AT_LIMIT).value
        facts = (*facts, ("first", f"{entry.offer.key}: {told}"))
        if entry.closed is None:
            if not entry.full:
                facts = (*facts, ("pool", demand.pool))
            facts = (*facts, *_short_of(entry.offer.together, entry.left_for(demand.pool)))
        return Reason(Because.NO_ROOM, facts)


def _short_of(together: int, room: int) -> tuple[Fact, ...]:
    """Why nothing goes although there is some room; where pilots come one at a time there is none."""
    return (("together", together), ("room", room)) if together > 1 else ()


def _best(candidate: Candidate) -> tuple[int, OfferKey]:
    return (candidate.entry.score, candidate.kind.offer)
