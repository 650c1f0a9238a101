"""The provisioner's shell: doors in, doors out. It reads all at once, does what a plan says, never chooses.

Every read becomes `Seen` or `Unseen`; every act becomes an outcome, and what was not answered is unsure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from glidepath.calls import Answer, Calls
from glidepath.core.because import Because
from glidepath.core.check import check, without_actions
from glidepath.core.cycle import (
    Decision,
    Did,
    NotTried,
    Outcome,
    Plan,
    Reason,
    Refused,
    Seen,
    Unseen,
    Unsure,
)
from glidepath.core.provision.decide import decide
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.picture import Picture, look
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotSpec,
    Submit,
    Target,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import Pause, SiteListing, Snapshot, Spent, Window
from glidepath.core.quantity import Instant, PilotName, PoolName, SiteName, SourceName
from glidepath.ports import WORLD_ERRORS, Backend, Clock, DemandSource, Furnished, Pool, Several

# A site that says no so often in one cycle has been understood; the rest of the batch is not tried.
REFUSALS_MAX = 3
# What was decided longer ago than this is not carried out any more; the next look decides anew.
AGAIN_S_MAX = 300
NOT_OURS = "another glidepath owns the store now"
# Stands for the sources of a pool that has not named any yet.
UNNAMED = SourceName("?")
# Verb, pilots and call of one act; several pilots where one call is for all of them.
Step = tuple[str, tuple[str, ...], Callable[[], Outcome]]


@dataclass(slots=True)
class Doors:
    """All that leads to the world, and the words of operators and calendars that come with a snapshot."""

    pools: dict[PoolName, Pool]
    backends: dict[SiteName, Backend]
    calls: Calls
    clock: Clock
    pauses: Callable[[], tuple[Pause, ...]] = lambda: ()
    windows: Callable[[], tuple[Window, ...]] = lambda: ()
    spent: Callable[[], tuple[Spent, ...]] = lambda: ()
    ours: Callable[[], bool] = lambda: True  # is this process still the owner of the store?
    stopping: bool = False  # set when glidepath ends: the last look asks for nothing
    sleep: Callable[[float], None] = time.sleep
    read_s_max: float = 30.0
    act_s_max: float = 60.0


@dataclass(slots=True)
class Provisioner:
    doors: Doors
    rules: Rules
    policy: Policy
    shadow: bool = False
    _last_seen: dict[str, Instant] = field(default_factory=dict)
    _sources: dict[PoolName, tuple[DemandSource, ...]] = field(default_factory=dict)

    def take_over(self, old: Provisioner) -> None:
        """After a change of settings: a door that hangs stays known, and so does what was seen when."""
        self.doors.calls = old.doors.calls
        self._last_seen, self._sources = old._last_seen, old._sources

    def observe(self, memory: Memory) -> Snapshot:
        doors, now = self.doors, self.doors.clock.now()
        offers = tuple(self.rules.offers().values())
        reads: dict[str, Callable[[], object]] = {}
        demand: list[tuple[PoolName, SourceName, str]] = []
        unnamed = self._name_sources()
        for name in sorted(doors.pools):
            reads[f"slots {name}"] = partial(doors.pools[name].slots, now=now)
            for source in self._sources.get(name, ()):
                key = f"demand {name} {source.name}"
                demand.append((name, source.name, key))
                reads[key] = partial(source.demand, offers, now=now)
        for site in sorted(doors.backends):
            reads[f"site {site}"] = partial(doors.backends[site].list, now=now)
        answers = doors.calls.gather(reads, limit_s=doors.read_s_max)
        seen = {key: self._sighting(key, found, now) for key, found in answers.items()}
        return Snapshot(
            now=now,
            demand=(
                *((pool, source, seen[key]) for pool, source, key in demand),
                *((pool, UNNAMED, Unseen(now, why)) for pool, why in sorted(unnamed.items())),
            ),
            slots=tuple((name, seen[f"slots {name}"]) for name in sorted(doors.pools)),
            sites=tuple((site, seen[f"site {site}"]) for site in sorted(doors.backends)),
            windows=doors.windows(),
            pauses=doors.pauses(),
            stopping=doors.stopping,
            spent=doors.spent(),
        )

    def _name_sources(self) -> dict[PoolName, str]:
        """Ask every pool where its jobs are. One that cannot say keeps those it named before, to be held;
        one that never could is unseen, which is not the same as empty."""
        pools = self.doors.pools
        asked = {f"sources {name}": pools[name].sources for name in sorted(pools)}
        answers = self.doors.calls.gather(asked, limit_s=self.doors.read_s_max)
        unnamed: dict[PoolName, str] = {}
        for name in pools:
            found = answers[f"sources {name}"]
            if not found.error:
                self._sources[name] = found.value
            elif name not in self._sources:
                unnamed[name] = found.error
        return unnamed

    def _sighting(self, key: str, found: Answer, now: Instant) -> Seen[Any] | Unseen:
        if not found.error:
            # A door that follows a stream may have heard last a while ago.
            age_s = found.value.age_s if isinstance(found.value, SiteListing) else 0
            self._last_seen[key] = Instant(now - age_s)
            return Seen(self._last_seen[key], found.value)
        return Unseen(self._last_seen.get(key, now), found.error)

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        return look(snapshot, memory, self.rules)

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return decide(picture, self.rules, self.policy)

    def check(self, picture: Picture, plan: Plan[PilotAction]) -> Plan[PilotAction]:
        breaches = check(picture, self.rules, plan)
        if not breaches:
            return plan
        facts = tuple((breach.invariant, breach.what) for breach in breaches[:10])
        safe = without_actions(plan)
        told: Decision[PilotAction] = Decision("plan", Reason(Because.BREACH, facts))
        return Plan(safe.cycle, safe.at, (told, *safe.decisions), safe.wake_after_s, safe.marks)

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        """Site by site at the same time; within a site in the plan's order, and one call after the other
        where its backend does not say that it takes several."""
        if self.shadow:
            return tuple(
                Did(verb, name, NotTried("shadow: nothing is done")) for verb, name in _named(plan.actions)
            )
        by_site: dict[SiteName, list[PilotAction]] = {}
        for action in plan.actions:
            if not isinstance(action, WriteOff):
                by_site.setdefault(action.site, []).append(action)
        deadline = time.monotonic() + self.doors.act_s_max
        tasks = {
            site: SiteActs(self, actions, plan.at, deadline) for site, actions in sorted(by_site.items())
        }
        # A call under way at the deadline gets its own limit to end in, or it would be unsure for nothing.
        slack_s = max(
            (self.doors.backends[site].limit_s for site in tasks if site in self.doors.backends), default=0
        )
        self.doors.calls.gather(
            {f"site {site}": task.run for site, task in tasks.items()}, limit_s=self.doors.act_s_max + slack_s
        )
        return tuple(did for task in tasks.values() for did in task.outcomes())

    def again(self, plan: Plan[PilotAction], rules: Rules) -> None:
        """A plan that an earlier life wrote down and died over: its pilots are asked for again.

        Under the same names, so that a site which has them already says so. Without this they would be
        waited for until the site's `appear_within`, and their jobs with them. The answers change nothing:
        what became of the first request is open all the same, and the next listing tells. Nothing else is
        repeated, nothing that was decided by other rules, and nothing that was decided too long ago.
        """
        age_s = self.doors.clock.now() - plan.at
        submits = tuple(d for d in plan.decisions if isinstance(d.action, Submit))
        if submits and rules == self.rules and 0 <= age_s <= AGAIN_S_MAX and not self.shadow:
            self.act(replace(plan, decisions=submits))

    def remember(self, picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did]) -> Memory:
        if self.shadow:
            # What was not done must not be expected; what is over is over all the same.
            return remember(picture, without_actions(plan, books_too=False), (), self.rules)
        return remember(picture, plan, outcomes, self.rules)


class SiteActs:
    """The acts of one plan at one site. Outcomes are kept as they come: a hung call loses no other."""

    def __init__(self, shell: Provisioner, actions: list[PilotAction], at: Instant, deadline: float) -> None:
        self.shell = shell
        self.actions = actions
        self.at = at
        self.deadline = deadline
        self.begun: set[tuple[str, str]] = set()
        self.done: dict[tuple[str, str], Outcome] = {}
        self.refused: list[str] = []
        self.submitted = 0
        self.pause_s = self._slowest_gap_s()
        # Asked once: what a protocol has is looked up slowly.
        self.backend = shell.doors.backends.get(actions[0].site)
        self.furnishes = self.backend if isinstance(self.backend, Furnished) else None
        self.at_once = 1
        if isinstance(self.backend, Several) and not self.pause_s:
            self.at_once = self.backend.at_once

    def run(self) -> None:
        """In the plan's order; where the site takes several at once, that many of one verb side by side."""
        for _, steps in groupby(self._steps(), key=lambda step: step[0]):
            together = [partial(self._step, *step) for step in steps]
            self.shell.doors.calls.side_by_side(together, at_once=self.at_once)

    def _step(self, verb: str, names: tuple[str, ...], call: Callable[[], Outcome]) -> None:
        stopped = self._stopped(verb)
        if stopped is None and verb == "submit":
            self._pace(len(names))
            stopped = self._stopped(verb)
        self.begun.update((verb, name) for name in names)
        done = stopped or self._one(call)
        self.done.update({(verb, name): done for name in names})
        if verb == "submit" and isinstance(done, Refused):
            self.refused.append(names[0])

    def _stopped(self, verb: str) -> Outcome | None:
        if time.monotonic() > self.deadline:
            return NotTried("the cycle's time was up")
        if not self.shell.doors.ours():
            return NotTried(NOT_OURS)
        if verb == "submit" and len(self.refused) >= REFUSALS_MAX:
            return NotTried(f"the site refused {REFUSALS_MAX} others")
        return None

    def _pace(self, pilots: int) -> None:
        """The gap that the rate per second asks for, after every submit but the first at this site."""
        if self.submitted and self.pause_s:
            self.shell.doors.sleep(self.pause_s * pilots)
        self.submitted += 1

    @staticmethod
    def _one(call: Callable[[], Outcome]) -> Outcome:
        try:
            return call()
        except WORLD_ERRORS as error:
            return Unsure(f"{error}" or type(error).__name__)

    def _steps(self) -> Iterable[Step]:
        backend = self.backend
        if backend is None:
            return
        for action in self.actions:
            match action:
                case Submit(groups=groups):
                    for names in groups:
                        yield "submit", names, partial(self._submit, backend, action, names)
                case Withdraw(_, pilots):
                    for t in pilots:
                        yield "withdraw", (t.name,), partial(backend.withdraw, t)
                case Drain(_, pilots):
                    for t in pilots:
                        yield "drain", (t.name,), partial(backend.drain, t)
                case Clear(_, ended, native_ids):
                    for e, native_id in zip(ended, native_ids, strict=True):
                        yield "clear", (e.name,), partial(backend.remove, Target(e.name, native_id))
                case WriteOff():
                    pass

    def _submit(self, backend: Backend, submit: Submit, names: tuple[PilotName, ...]) -> Outcome:
        pool = self.shell.doors.pools.get(submit.pool)
        if pool is None:
            return NotTried(f"there is no pool `{submit.pool}` to join")
        try:
            join = pool.join(submit.offer)
            there = self.furnishes is not None and self.furnishes.furnished(submit.offer)
            secrets = [() if there else pool.secrets(each, lifetime_s=submit.lifetime_s) for each in names]
        except WORLD_ERRORS as error:
            return NotTried(f"the pool cannot be joined: {str(error) or type(error).__name__}")
        if not self.shell.doors.ours():
            return NotTried(NOT_OURS)  # A token may take seconds to make.
        return backend.submit(
            PilotSpec(
                name=names[0],
                site=submit.site,
                offer=submit.offer,
                pool=submit.pool,
                size=submit.size,
                traits=submit.traits,
                lifetime_s=submit.lifetime_s,
                idle_s=submit.idle_s,
                asked_at=self.at,
                owner=submit.owner,
                avoid=submit.avoid,
                join=join,
                secrets=secrets[0],
                mates=names[1:],
                mates_secrets=() if there else tuple(secrets[1:]),
            )
        )

    def _slowest_gap_s(self) -> float:
        """One second by the smallest rate that any limit of this site or of the offers asked for sets."""
        submits = [action for action in self.actions if isinstance(action, Submit)]
        asked, pools = {submit.offer for submit in submits}, {submit.pool for submit in submits}
        here = {action.site for action in self.actions}
        sites = [site for site in self.shell.rules.sites if site.name in here]
        rates = [site.limits.per_s_max for site in sites]
        rates += [offer.limits.per_s_max for site in sites for offer in site.offers if offer.key in asked]
        rates += [limits.per_s_max for site in sites for pool, limits in site.pool_limits if pool in pools]
        slowest = min((rate for rate in rates if rate), default=0)
        return 1 / slowest if slowest else 0.0

    def outcomes(self) -> list[Did]:
        """One for each act of the plan; what was begun and not answered is unsure, the rest was not tried."""
        rows = []
        for act in _named(self.actions):
            silent: Outcome = NotTried("the site was still busy with its last answer, or has no backend")
            if act in self.begun:
                silent = Unsure("no answer in time")
            rows.append(Did(*act, self.done.get(act, silent)))
        return rows


def _named(actions: Iterable[PilotAction]) -> Iterable[tuple[str, str]]:
    """Verb and pilot of every single act."""
    for action in actions:
        match action:
            case Submit(names=names):
                yield from (("submit", name) for name in names)
            case Withdraw(_, pilots):
                yield from (("withdraw", target.name) for target in pilots)
            case Drain(_, pilots):
                yield from (("drain", target.name) for target in pilots)
            case Clear(_, ended, _):
                yield from (("clear", e.name) for e in ended)
            case WriteOff():
                pass


def resumed(
    memory: Memory,
    snapshot: Snapshot,
    plan: Plan[PilotAction],
    outcomes: Iterable[Did] | None,
    *,
    rules: Rules,
    now: Instant,
) -> Memory:
    """The memory after the last recorded cycle. Acts without a recorded outcome count as unsure.

    Where no outcome was recorded at all, an earlier life may have asked, and asked again, until just now:
    its pilots count as asked for now, or their names would be given up while a request is still on its way.
    """
    kept = remember(look(snapshot, memory, rules), plan, outcomes or (), rules)
    if outcomes is not None:
        return kept
    asked = {name for action in plan.actions if isinstance(action, Submit) for name in action.names}
    moved = (replace(t, asked_at=now, since=now) if t.name in asked else t for t in kept.tracks)
    return replace(kept, tracks=tuple(moved))
