"""What must hold after every simulated step, counted in the world itself and not in the controller's books.

Cycles come in, broken promises go out, each with the name of the invariant in the design and the cycle.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from glidepath.core.because import Because
from glidepath.core.cycle import Done, Seen, Sighting
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import Clear, Drain, Ended, PilotAction, Submit, Withdraw, WriteOff
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import PilotName, PoolName, SiteName
from glidepath.loop import Cycle

if TYPE_CHECKING:
    from glidepath.sim.run import Run

KEPT_MAX = 50
# Faults that each leave one mark in the snapshot: a source that is unseen, or seen in part.
DOUBTS = frozenset({"blind-reads", "partial-pages"})
SURPLUS = (Because.SURPLUS_IDLE, Because.SURPLUS_PENDING)
_NAME = attrgetter("name")

Turn = Cycle[Snapshot, Memory, PilotAction]


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept."""

    cycle: int
    what: str

    def __str__(self) -> str:
        return f"cycle {self.cycle}: {self.what}"


@dataclass(slots=True)
class Watch:
    broken: list[Broken] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    asked: set[PilotName] = field(default_factory=set)
    recorded: set[PilotName] = field(default_factory=set)
    due: frozenset[str] = frozenset()  # sites and offers of which every plan has to speak
    told: int = 0  # of the world's own findings, so many were passed on
    watched: int = 0  # the last cycle that was watched to its end,
    doubts: int = 0  # and how many reads had failed or broken off until then

    def breaks(self, cycle: int, what: str) -> None:
        if len(self.broken) < KEPT_MAX:
            self.broken.append(Broken(cycle, what))

    def sent(self, cycle: int, what: str, *, leads: bool) -> None:
        """Once: who has been supplanted asks for nothing more; only what was on the wire still goes out."""
        if not leads:
            self.breaks(cycle, f"once: {what} was asked for by one that no longer leads")

    def submitted(self, name: PilotName, cycle: int, *, again: bool = False) -> None:
        """One name is asked for once; again only by a life that found the plan of one that died over it."""
        if name in self.asked and not again:
            self.breaks(cycle, f"once: {name} was asked for a second time")
        self.asked.add(name)

    def died(self, cycle: int, where: str) -> None:
        if len(self.deaths) < KEPT_MAX:
            self.deaths.append(f"cycle {cycle}: died {where}")

    def after(self, cycle: Turn, run: Run, *, leads: bool) -> None:
        number = run.cycles
        ledger = run.world.ledger
        if ledger.broken_count > self.told:
            for what in ledger.broken[self.told :]:
                self.breaks(number, what)
            self.told = ledger.broken_count
        for decision in cycle.plan.decisions:
            if decision.reason.because is Because.BREACH:
                self.breaks(number, f"the controller caught itself: {decision.reason}")
        self._doubted(cycle, run, leads=leads)
        self._explained(cycle, run)
        if not leads:
            return  # What one that was supplanted believes is not acted on any more.
        if cycle.plan.actions:
            self._paced(cycle, run)
            self._seen_only(cycle, run)
            self._let_work(cycle, run)
            self._recorded(cycle, run)
        self._booked(cycle, run)

    def _doubted(self, cycle: Turn, run: Run, *, leads: bool) -> None:
        """No decision on bad data: every read that failed or broke off is marked as such in what was seen."""
        hits = sum(fault.count for fault in run.faults.all if fault.name in DOUBTS)
        # After a death or a change of leaders nobody can say which of the reads were for this cycle.
        if leads and hits > self.doubts and self.watched == run.cycles - 1:
            snapshot = cycle.snapshot
            seen = [*(s for *_, s in snapshot.demand), *(s for _, s in snapshot.slots)]
            marked = sum(not whole(s) for s in (*seen, *(s for _, s in snapshot.sites)))
            if marked < hits - self.doubts:
                self.breaks(
                    run.cycles,
                    f"no decision on bad data: {hits - self.doubts} reads failed or broke off, "
                    f"{marked} are told apart from whole ones",
                )
        self.doubts, self.watched = hits, run.cycles

    def _explained(self, cycle: Turn, run: Run) -> None:
        """Explained: every shape that was seen, every site and every offer has a word said about it."""
        abouts = [decision.about for decision in cycle.plan.decisions]
        if not self.due:
            self.due = frozenset(f"site:{site.name}" for site in run.rules.sites)
            self.due |= {f"offer:{offer.key}" for site in run.rules.sites for offer in site.offers}
        for about in sorted(self.due.difference(abouts)):
            self.breaks(run.cycles, f"explained: nothing is said about {about}")
        shapes = {
            demand.group
            for *_, sight in cycle.snapshot.demand
            if isinstance(sight, Seen) and sight.value.complete
            for demand in sight.value.demands
        }
        told = sum(about.startswith("demand:") for about in abouts)
        if told < len(shapes):
            self.breaks(run.cycles, f"explained: {len(shapes)} shapes were seen, {told} are spoken of")

    def _paced(self, cycle: Turn, run: Run) -> None:
        """Rate: creates per cycle and per second stay within each site's limit, and a breaker holds."""
        sent: Counter[SiteName] = Counter()
        # Of a plan that could not be written the memory is the one before it, and may not know of a join.
        healths = {h.about: h for h in cycle.memory.health if cycle.memory.cycle == cycle.plan.cycle}
        before = run.life.memory.at
        elapsed_s = 1 if before is None else max(1, cycle.plan.at - before)
        for action in cycle.plan.actions:
            if not isinstance(action, Submit):
                continue
            sent[action.site] += len(action.names)
            for about in (action.offer, action.site):
                health = healths.get(about)
                if health is None or health.retry_at is None or health.opened_at is None:
                    continue
                if health.opened_at < cycle.plan.at < health.retry_at:
                    self.breaks(run.cycles, f"rate: asked at {about}, whose breaker is open")
        for site in run.rules.sites:
            limits = site.limits
            per_s = None if limits.per_s_max is None else limits.per_s_max * elapsed_s
            for limit in (limits.per_cycle_max, per_s):
                if limit is not None and sent[site.name] > limit:
                    self.breaks(
                        run.cycles, f"rate: {sent[site.name]} asked at {site.name} in one cycle, not {limit}"
                    )

    def _seen_only(self, cycle: Turn, run: Run) -> None:
        """No decision on bad data: nothing is asked for or taken where the doors did not say all."""
        snapshot = cycle.snapshot
        sites = {name for name, sight in snapshot.sites if whole(sight)}
        slots = {name for name, sight in snapshot.slots if whole(sight)}
        asking = {name for name, _, sight in snapshot.demand if whole(sight)} & slots
        giving = asking - {name for name, _, sight in snapshot.demand if not whole(sight)}
        for decision in cycle.plan.decisions:
            action = decision.action
            if action is None or isinstance(action, WriteOff):
                continue
            blind: set[str] = set() if action.site in sites else {action.site}
            if isinstance(action, Submit):
                blind |= {action.pool} - asking
            elif isinstance(action, Withdraw | Drain) and decision.reason.because in SURPLUS:
                blind |= _pools(action, cycle.memory) - giving
            for name in sorted(blind):
                verb = type(action).__name__.lower()
                self.breaks(run.cycles, f"no decision on bad data: {verb} and {name} was not fully seen")

    def _let_work(self, cycle: Turn, run: Run) -> None:
        """Never kill: what runs a job at this very moment is not told to leave, but for a window."""
        for decision in cycle.plan.decisions:
            told = decision.reason.because in (Because.WINDOW_DRAIN, Because.DRAINED)
            if isinstance(decision.action, Drain) and not told:
                here = run.world.sites[decision.action.site].pilots
                for target in decision.action.pilots:
                    if target.name in here and here[target.name].jobs:
                        jobs = len(here[target.name].jobs)
                        self.breaks(run.cycles, f"never kill: {target.name} is drained with {jobs} jobs")

    def _booked(self, cycle: Turn, run: Run) -> None:
        """Unknown is not gone: a pilot that lives is on the books of who leads, listed or not."""
        booked = set(map(_NAME, cycle.memory.tracks))
        for place in run.world.sites.values():
            for name in sorted(place.pilots.keys() - booked):
                if place.pilots[name].live and not place.pilots[name].draining:
                    self.breaks(run.cycles, f"unknown is not gone: {name} lives and is not on the books")

    def _recorded(self, cycle: Turn, run: Run) -> None:
        """Ledger: seconds add up to the life of the pilot, and each pilot is closed once."""
        answers = {(did.verb, did.about): did.outcome for did in cycle.outcomes}
        for action in cycle.plan.actions:
            if not isinstance(action, Clear | WriteOff):
                continue
            for ended in action.ended:
                if seconds(ended) != ended.ended_at - ended.asked_at:
                    self.breaks(
                        run.cycles,
                        f"ledger: {ended.name} lived {ended.ended_at - ended.asked_at} s, "
                        f"{seconds(ended)} s are accounted for",
                    )
                over = isinstance(action, WriteOff) or isinstance(answers.get(("clear", ended.name)), Done)
                if over and not cycle.unrecorded:
                    if ended.name in self.recorded:
                        self.breaks(run.cycles, f"ledger: {ended.name} is closed a second time")
                    self.recorded.add(ended.name)


def whole(sight: Sighting[SiteListing] | Sighting[PoolSlots] | Sighting[DemandSight]) -> bool:
    return isinstance(sight, Seen) and sight.value.complete


def _pools(action: Withdraw | Drain, memory: Memory) -> set[PoolName]:
    """Whose pilots these are. By the books: a site forgets at once what was withdrawn."""
    names = {target.name for target in action.pilots}
    return {track.pool for track in memory.tracks if track.name in names}


def seconds(ended: Ended) -> int:
    return ended.pending_s + ended.starting_s + ended.busy_s + ended.idle_s + ended.failed_s
