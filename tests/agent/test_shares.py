"""Ten thousand random histories of sites that call, die, return and repeat themselves: no share is too much.

The real core decides, real trays keep what it asks, and each agent is a few lines that does as it is told.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

import pytest

from core.builders import POOL, SOURCE, demand, memory, offer, rules, site
from glidepath.called.post import digest_of
from glidepath.called.tray import Terms, Tray, asked, called, listing_of, removed, withdrawn
from glidepath.called.words import Answer, Orders, Pilot, Report
from glidepath.core.cycle import Did, Outcome, Seen, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Rules
from glidepath.core.provision.picture import look
from glidepath.core.provision.pilot import Clear, PilotSpec, Submit, Withdraw
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, SiteName

HISTORIES = 10_000
STEPS = 6
NAMES = ("east", "north", "west")
LIVE_MAX = 5
TERMS = Terms(lapse_s=50, silent_s=40, call_again_s=5)
LOST_S = 60
OVER = ("ended", "failed", "withdrawn")
UNDER: Rules = rules(
    *(
        site(
            name,
            offer(name, limits=Limits(live_max=LIVE_MAX)),
            stale_s_max=40,
            share_lost_s=LOST_S,
            patience_s=10_000,
        )
        for name in NAMES
    ),
    withdraw_after_s=0,
)


@dataclass
class Site:
    """What is really there, and what its agent has still to say."""

    name: str
    pilots: dict[str, str] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    ticket: str = ""
    dead: bool = False
    started: int = 0
    sent: list[Report] = field(default_factory=list)

    def report(self) -> Report:
        there = [
            Pilot(
                name=name, offer=f"{self.name}/a", pool=POOL, size=[1000, 1024, 0, 0], state=state,  # type: ignore[arg-type]
                since_s=0, asked_s=0,
            )
            for name, state in self.pilots.items()
        ]  # fmt: skip
        said = Report(ticket=self.ticket, nonce="n", seen=True, pilots=there, answers=self.answers)
        self.sent.append(said)
        return said

    def obey(self, orders: Orders) -> None:
        self.ticket, self.answers = orders.ticket, []
        for wish in orders.wishes:
            state = self.pilots.get(wish.name)
            outcome = "done"
            if wish.verb == "withdraw" and state == "running":
                outcome = "refused"
            else:
                self.pilots.pop(wish.name, None)
            self.answers.append(Answer(verb=wish.verb, name=wish.name, outcome=outcome))  # type: ignore[arg-type]
        for start in orders.starts:
            if start.name not in self.pilots:
                self.pilots[start.name] = "pending"
                self.started += 1
            self.answers.append(Answer(verb="start", name=start.name, outcome="done"))


class History:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 100_000
        self.sites = {name: Site(name) for name in NAMES}
        self.trays = {name: Tray(SiteName(name), ticket=f"{name}0") for name in NAMES}
        self.memory: Memory = memory(born_at=Instant(0), at=Instant(self.now - 10))
        self.idle = 0
        self.tickets = self.lapsed = 0

    def run(self) -> None:
        for name in NAMES:
            self.call(name)
        for _ in range(STEPS):
            self.now += self.chance.choice((5, 10, 20, 70))
            self.happen()
            self.lapsed += sum(r.step == "lapsed" for tray in self.trays.values() for r in tray.requests)
            self.cycle()
            self.judge()

    def happen(self) -> None:
        chance = self.chance
        self.idle = max(0, self.idle + chance.randint(-4, 6))
        for name, each in self.sites.items():
            luck = chance.random()
            if luck < 0.15:
                each.dead = not each.dead
            if luck > 0.9:
                each.answers, each.ticket = [], ""  # Its disk is lost, and what it was to say with it.
            for pilot, state in list(each.pilots.items()):
                if state == "pending" and chance.random() < 0.3:
                    each.pilots[pilot] = chance.choice(("running", "ended"))
                    self.idle = max(0, self.idle - 1)
            if each.sent and chance.random() < 0.2:
                self.replay(name, chance.choice(each.sent))
            if not each.dead and chance.random() < 0.8:
                self.call(name, lost=chance.random() < 0.15)

    def replay(self, name: str, old: Report) -> None:
        before = self.trays[name]
        if old.ticket != before.ticket:
            return  # 409: nothing is changed.
        self.trays[name], _ = self._exchanged(name, old)

    def call(self, name: str, *, lost: bool = False) -> None:
        """One call, and one more where the first had the wrong ticket; the answer may be lost on its way."""
        each = self.sites[name]
        if each.ticket != self.trays[name].ticket:
            each.ticket = self.trays[name].ticket
        self.trays[name], orders = self._exchanged(name, each.report())
        if not lost:
            each.obey(orders)

    def _exchanged(self, name: str, report: Report) -> tuple[Tray, Orders]:
        self.tickets += 1
        return called(self.trays[name], report, Instant(self.now), terms=TERMS, ticket=f"t{self.tickets}")

    def cycle(self) -> None:
        now = Instant(self.now)
        wanted = demand(
            self.idle, fits=tuple(f"{name}/a" for name in NAMES), oldest_at=Instant(self.now - 60)
        )
        snap = Snapshot(
            now=now,
            demand=((POOL, SOURCE, Seen(now, DemandSight((wanted,) if self.idle else ()))),),
            slots=((POOL, Seen(now, PoolSlots(()))),),
            sites=tuple((SiteName(name), self._sight(name)) for name in NAMES),
        )
        picture = look(snap, self.memory, UNDER)
        plan = decide(picture, UNDER, Steady())
        outcomes: list[Did] = []
        for action in plan.actions:
            match action:
                case Submit(names=names):
                    for pilot in names:
                        spec = PilotSpec(
                            pilot, action.site, action.offer, action.pool, action.size, action.traits,
                            lifetime_s=action.lifetime_s, idle_s=action.idle_s, asked_at=now,
                        )  # fmt: skip
                        change = partial(asked, spec=spec, digest=digest_of(spec))
                        outcomes.append(Did("submit", pilot, self._act(action.site, change)))
                case Withdraw(pilots=targets):
                    for each in targets:
                        done = self._act(action.site, partial(withdrawn, name=each.name, native_id=""))
                        outcomes.append(Did("withdraw", each.name, done))
                case Clear(ended=ended):
                    for one in ended:
                        done = self._act(action.site, partial(removed, name=one.name, native_id=""))
                        outcomes.append(Did("clear", one.name, done))
                case _:
                    pass
        self.memory = remember(picture, plan, outcomes, UNDER)

    def _act(self, name: str, change: partial[tuple[Tray, Outcome]]) -> Outcome:
        self.trays[name], outcome = change(self.trays[name])
        return outcome

    def _sight(self, name: str) -> Seen[SiteListing] | Unseen:
        tray = self.trays[name]
        assert tray.heard_at is not None
        age_s = self.now - tray.heard_at
        if age_s > TERMS.silent_s:
            return Unseen(tray.heard_at, "the agent has not called")
        return Seen(tray.heard_at, listing_of(tray, Instant(self.now), lapse_s=TERMS.lapse_s))

    def judge(self) -> None:
        """What every site would be handed if all called now, together, against what waits."""
        shares = {}
        for name, tray in self.trays.items():
            said = Report(ticket=tray.ticket, nonce="n", seen=True, pilots=self.sites[name].report().pilots)
            _, orders = called(tray, said, Instant(self.now), terms=TERMS, ticket="x")
            shares[name] = len(orders.starts)
            live = sum(1 for state in self.sites[name].pilots.values() if state not in OVER)
            assert live + shares[name] <= LIVE_MAX, f"{name}: {live} live, {shares[name]} more"
        assert sum(shares.values()) <= self.idle, f"{self.idle} jobs wait, and the shares are {shares}"


@pytest.mark.parametrize("part", range(4))
def test_the_sum_of_shares_never_exceeds_demand_whatever_sites_do(part: int) -> None:
    for seed in range(part, HISTORIES, 4):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error


def test_histories_are_not_idle() -> None:
    """A property of worlds in which nothing happens would prove nothing."""
    started = lapsed = 0
    for seed in range(100):
        made = History(seed)
        made.run()
        started += sum(each.started for each in made.sites.values())
        lapsed += made.lapsed
    assert started > 300
    assert lapsed > 20
