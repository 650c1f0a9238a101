"""Acts: every act of a plan gets one outcome; what hung is unsure, what was not begun was not tried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from core.builders import memory
from core.leaf_builders import FOUR, POOL, WEST, WEST_BIG, FakePool, FakeSite, an_ended, an_offer
from glidepath.calls import Answer, Calls, InlineCalls, ThreadCalls
from glidepath.core.because import Because
from glidepath.core.cycle import (
    Decision,
    Did,
    Done,
    Failed,
    NotTried,
    Outcome,
    Plan,
    Reason,
    Refused,
    Seen,
    Unseen,
    Unsure,
)
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import Limits, Offer, Rules, SiteRules
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
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    SiteName,
    SourceName,
)
from glidepath.ports import Backend, Clock, Pool
from glidepath.provisioner import REFUSALS_MAX, Doors, Provisioner, SiteActs, resumed

EAST = SiteName("east")
AT = Instant(1000)
PLENTY_S = 20.0


def asked_of(site: FakeSite) -> list[str]:
    return [what.name for _, what in site.asked]


@dataclass
class StoppedClock:
    at: Instant = AT

    def now(self) -> Instant:
        return self.at

    def wall(self) -> float:
        return float(self.at)


CLOCK: Clock = StoppedClock()


def shell(*backends: Backend, rules: Rules | None = None, shadow: bool = False, **doors: Any) -> Provisioner:
    pools: tuple[Pool, ...] = doors.pop("pools", (FakePool(),))
    calls: Calls = doors.pop("calls", InlineCalls())
    clock: Clock = doors.pop("clock", CLOCK)
    named = {pool.name: pool for pool in pools}
    made = Doors(named, {backend.site: backend for backend in backends}, calls, clock, **doors)
    return Provisioner(made, rules or Rules((), ()), Seed(), shadow)


def a_plan(*actions: PilotAction) -> Plan[PilotAction]:
    return Plan(1, AT, tuple(Decision("it", Reason(Because.ASKED), action) for action in actions), 10)


def a_submit(*names: str, **more: Any) -> Submit:
    row: dict[str, Any] = {"site": WEST, "offer": WEST_BIG, "pool": POOL, "size": FOUR, "traits": ()}
    row |= {"lifetime_s": 3600, "idle_s": 60, "names": tuple(map(PilotName, names))}
    return Submit(**{**row, **more})


def targets(*names: str) -> tuple[Target, ...]:
    return tuple(Target(PilotName(name), f"id-{name}") for name in names)


UNTRIED = NotTried("the site was still busy with its last answer, or has no backend")
EVERYTHING = (
    Drain(WEST, targets("d1")),
    Withdraw(WEST, targets("w1", "w2")),
    Clear(WEST, (an_ended("c1"), an_ended("c2")), ("id-c1", "")),
    WriteOff(WEST, (an_ended("o1"),)),
    a_submit("s1", "s2"),
)
ACTS = ["drain d1", "withdraw w1", "withdraw w2", "clear c1", "clear c2", "submit s1", "submit s2"]


def shown(dids: Iterable[Did]) -> list[str]:
    return [f"{did.verb} {did.about}" for did in dids]


def test_every_act_is_done_in_the_plans_order_and_has_one_outcome() -> None:
    site = FakeSite()
    found = shell(site).act(a_plan(*EVERYTHING))
    assert shown(found) == ACTS
    assert {did.outcome for did in found} == {Done()}
    assert site.asked[:5] == [
        ("drain", Target(PilotName("d1"), "id-d1")),
        ("withdraw", Target(PilotName("w1"), "id-w1")),
        ("withdraw", Target(PilotName("w2"), "id-w2")),
        ("remove", Target(PilotName("c1"), "id-c1")),
        ("remove", Target(PilotName("c2"), "")),
    ]


def test_a_plan_of_nothing_does_nothing() -> None:
    site = FakeSite()
    assert shell(site).act(a_plan()) == ()
    assert shell(site).act(a_plan(WriteOff(WEST, (an_ended("o1"),)))) == ()
    assert site.asked == []


def test_a_submit_reaches_the_backend_whole() -> None:
    site = FakeSite()
    traits = (("os", "rocky9"),)
    more: dict[str, Any] = {"traits": traits, "owner": Owner("ann"), "avoid": (NodeName("n7"),)}
    shell(site).act(a_plan(a_submit("s1", **more)))
    assert site.asked == [
        (
            "submit",
            PilotSpec(
                name=PilotName("s1"),
                site=WEST,
                offer=WEST_BIG,
                pool=POOL,
                size=FOUR,
                traits=traits,
                lifetime_s=3600,
                idle_s=60,
                asked_at=AT,
                owner=Owner("ann"),
                avoid=(NodeName("n7"),),
                join=(("host", "pool.example"),),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("answered", "outcome"),
    [
        (Done("already there"), Done("already there")),
        (Refused("no such account"), Refused("no such account")),
        (Failed("queue full"), Failed("queue full")),
        (Unsure("no answer"), Unsure("no answer")),
        # A call that raised may have been heard: look before asking again.
        (OSError("connection reset"), Unsure("connection reset")),
        (TimeoutError(), Unsure("TimeoutError")),
        (RuntimeError("sbatch exit 1"), Unsure("sbatch exit 1")),
        (ValueError("odd answer"), Unsure("odd answer")),
    ],
)
def test_each_answer_is_kept_and_spares_the_others(
    answered: Outcome | BaseException, outcome: Outcome
) -> None:
    site = FakeSite(answers=dict.fromkeys(("d1", "w1", "c1", "s1"), answered))
    found = shell(site).act(a_plan(*EVERYTHING))
    assert shown(found) == ACTS
    assert [did.outcome for did in found] == [outcome, outcome, Done(), outcome, Done(), outcome, Done()]


def test_after_three_refusals_the_rest_of_the_batch_is_not_tried() -> None:
    site = FakeSite(otherwise=Refused("no"), answers={"d1": Done(), "s2": Done()})
    submits = a_submit("s1", "s2", "s3", "s4", "s5"), a_submit("s6")
    found = shell(site).act(a_plan(*submits, Drain(WEST, targets("d1"))))
    assert REFUSALS_MAX == 3
    untried = NotTried("the site refused 3 others")
    assert [did.outcome for did in found] == [
        Refused("no"),
        Done(),
        Refused("no"),
        Refused("no"),
        untried,
        untried,
        Done(),
    ]
    assert asked_of(site) == ["s1", "s2", "s3", "s4", "d1"]


def test_refused_withdrawals_do_not_stop_anything() -> None:
    """A pilot that started meanwhile refuses to be withdrawn: that says nothing about the site."""
    site = FakeSite(answers=dict.fromkeys(("w1", "w2", "w3", "w4"), Refused("it runs")))
    shell(site).act(a_plan(Withdraw(WEST, targets("w1", "w2", "w3", "w4")), a_submit("s1")))
    assert asked_of(site) == ["w1", "w2", "w3", "w4", "s1"]


def test_refusals_of_one_site_do_not_stop_another() -> None:
    west, east = FakeSite(otherwise=Refused("no")), FakeSite(EAST)
    there = a_submit("e1", "e2", site=EAST, offer=OfferKey("east/big"))
    found = shell(west, east).act(a_plan(a_submit("s1", "s2", "s3", "s4"), there))
    assert {did.about: did.outcome for did in found if did.about.startswith("e")} == {
        "e1": Done(),
        "e2": Done(),
    }
    assert asked_of(east) == ["e1", "e2"]


def test_nothing_is_done_once_the_cycles_time_is_up() -> None:
    site = FakeSite()
    found = shell(site, act_s_max=-1.0).act(a_plan(*EVERYTHING))
    assert shown(found) == ACTS
    assert {did.outcome for did in found} == {NotTried("the cycle's time was up")}
    assert site.asked == []


def test_a_process_that_lost_the_store_stops_at_once() -> None:
    owner = iter([True, True, False])
    site = FakeSite()
    found = shell(site, ours=lambda: next(owner, False)).act(a_plan(*EVERYTHING))
    lost = NotTried("another glidepath owns the store now")
    assert [did.outcome for did in found] == [Done(), Done(), *[lost] * 5]
    assert asked_of(site) == ["d1", "w1"]


def test_a_shadow_does_nothing_and_says_so() -> None:
    site = FakeSite()
    found = shell(site, shadow=True).act(a_plan(*EVERYTHING))
    assert shown(found) == ACTS
    assert {did.outcome for did in found} == {NotTried("shadow: nothing is done")}
    assert site.asked == []


def test_acts_at_a_site_without_a_backend_are_not_done_and_the_others_are() -> None:
    site = FakeSite()
    lost = Drain(EAST, targets("d9"))
    found = shell(site).act(a_plan(lost, a_submit("s1")))
    assert {did.about: did.outcome for did in found} == {"d9": UNTRIED, "s1": Done()}


@pytest.mark.parametrize(
    ("site_rate", "offer_rate", "pauses"),
    [
        (None, None, []),
        (4, None, [0.25, 0.25]),
        (None, 2, [0.5, 0.5]),
        (4, 2, [0.5, 0.5]),
        (2, 4, [0.5, 0.5]),
    ],
)
def test_submits_keep_to_the_slower_rate_of_site_and_offer(
    site_rate: int | None, offer_rate: int | None, pauses: list[float]
) -> None:
    slept: list[float] = []
    offer = an_offer(limits=Limits(per_s_max=offer_rate))
    rules = Rules((), (SiteRules(WEST, (offer,), limits=Limits(per_s_max=site_rate)),))
    shell(FakeSite(), rules=rules, sleep=slept.append).act(a_plan(a_submit("s1", "s2", "s3")))
    assert slept == pauses


FOUR_A_SECOND = Rules((), (SiteRules(WEST, (an_offer(),), limits=Limits(per_s_max=4)),))


@pytest.mark.parametrize(
    ("actions", "pauses"),
    [
        ((a_submit("s1"),), 0),
        ((a_submit("s1"), a_submit("s2"), a_submit("s3")), 2),
        ((a_submit("s1", "s2"), a_submit("s3", "s4")), 3),
        ((a_submit("s1"), Drain(WEST, targets("d1", "d2")), a_submit("s2")), 1),
        ((Withdraw(WEST, targets("w1", "w2")), a_submit("s1")), 0),
    ],
)
def test_the_gap_is_kept_across_all_submits_of_a_site_and_only_between_them(
    actions: tuple[PilotAction, ...], pauses: int
) -> None:
    slept: list[float] = []
    shell(FakeSite(), rules=FOUR_A_SECOND, sleep=slept.append).act(a_plan(*actions))
    assert slept == [0.25] * pauses


def test_nobody_waits_for_the_rate_once_the_time_is_up_or_the_store_is_lost() -> None:
    slept: list[float] = []
    plan = a_plan(a_submit("s1", "s2", "s3"))
    doors: dict[str, Any] = {"rules": FOUR_A_SECOND, "sleep": slept.append}
    shell(FakeSite(), act_s_max=-1.0, **doors).act(plan)
    shell(FakeSite(), ours=lambda: False, **doors).act(plan)
    assert slept == []


def test_nobody_waits_for_the_rate_after_the_last_refusal_that_is_heard() -> None:
    slept: list[float] = []
    site = FakeSite(otherwise=Refused("no"))
    plan = a_plan(a_submit("s1", "s2", "s3", "s4", "s5", "s6"))
    shell(site, rules=FOUR_A_SECOND, sleep=slept.append).act(plan)
    assert (slept, asked_of(site)) == ([0.25, 0.25], ["s1", "s2", "s3"])


def test_a_store_that_is_lost_during_the_pause_stops_the_act_behind_it() -> None:
    slept: list[float] = []
    site = FakeSite()
    owned = shell(site, rules=FOUR_A_SECOND, sleep=slept.append, ours=lambda: not slept)
    found = owned.act(a_plan(a_submit("s1", "s2", "s3")))
    lost = NotTried("another glidepath owns the store now")
    assert [did.outcome for did in found] == [Done(), lost, lost]
    assert (slept, asked_of(site)) == ([0.25], ["s1"])


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("no route"), ValueError("no route")])
def test_a_pool_that_does_not_say_how_to_join_costs_only_its_own_submits(error: BaseException) -> None:
    other = PoolName("other")
    site = FakeSite()
    doors = shell(site, pools=(FakePool(joins=error), FakePool(other)))
    found = doors.act(a_plan(a_submit("s1", "s2"), a_submit("o1", pool=other), Drain(WEST, targets("d1"))))
    untold = NotTried("the pool cannot be joined: no route")
    assert [did.outcome for did in found] == [untold, untold, Done(), Done()]
    assert asked_of(site) == ["o1", "d1"]


def test_a_pilot_without_a_secret_that_lasts_is_not_started() -> None:
    site = FakeSite()
    found = shell(site, pools=(FakePool(secret=RuntimeError("the token ends in 2h")),)).act(
        a_plan(a_submit("s1"))
    )
    assert [did.outcome for did in found] == [NotTried("the pool cannot be joined: the token ends in 2h")]
    assert asked_of(site) == []


def test_a_pilot_is_given_its_own_secret_which_no_printed_value_shows() -> None:
    site = FakeSite()
    shell(site, pools=(FakePool(secret="hush"),)).act(a_plan(a_submit("s1")))
    ((_, spec),) = site.asked
    assert spec.secrets == (("s1.token", f"hush for {spec.lifetime_s} s"),)
    assert "hush" not in repr(spec)


@pytest.mark.parametrize(
    ("age_s", "rules_then", "more", "names"),
    [
        (0, None, {}, ["s1", "s2"]),
        (300, None, {}, ["s1", "s2"]),
        (301, None, {}, []),
        (-1, None, {}, []),
        (0, FOUR_A_SECOND, {}, []),
        (0, None, {"shadow": True}, []),
        (0, None, {"ours": lambda: False}, []),
    ],
    ids=["at once", "within bounds", "too old", "from the future", "other rules", "shadow", "not ours"],
)
def test_a_plan_that_a_life_died_over_is_asked_for_again_by_the_same_names_and_nothing_else(
    age_s: int, rules_then: Rules | None, more: dict[str, Any], names: list[str]
) -> None:
    site = FakeSite()
    made = shell(site, clock=StoppedClock(Instant(AT + age_s)), **more)
    plan = a_plan(a_submit("s1", "s2"), Drain(WEST, targets("d1")))
    made.again(plan, rules_then or made.rules)
    assert asked_of(site) == names


def test_pilots_of_a_plan_without_recorded_outcomes_count_as_asked_for_now() -> None:
    made = shell(FakeSite())
    seen, plan = Snapshot(AT, (), (), ()), a_plan(a_submit("s1"))
    later = Instant(AT + 70)
    for outcomes, asked_at in ((None, later), ((), AT), ((Did("submit", "s1", Done()),), AT)):
        kept = resumed(memory(), seen, plan, outcomes, rules=made.rules, now=later)
        assert [(t.name, t.asked_at, t.since) for t in kept.tracks] == [("s1", asked_at, asked_at)]


def test_the_ids_of_what_is_cleared_cannot_be_left_out() -> None:
    """Without them the site would be asked to remove by name alone, or nothing would be cleared at all."""
    with pytest.raises(TypeError, match="native_ids"):
        Clear(WEST, (an_ended("c1"),))  # type: ignore[call-arg]


class Hang:
    """A call that hangs until it is let go."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self) -> Outcome:
        self.begun.set()
        assert self.open.wait(PLENTY_S)
        return Done("late")


@pytest.fixture
def hang() -> Iterator[Hang]:
    made = Hang()
    yield made
    made.open.set()


def threads_named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_hung_act_is_unsure_what_came_before_is_kept_and_the_rest_is_not_tried(hang: Hang) -> None:
    west = FakeSite(limit_s=0.1, answers={"s2": hang})
    east = FakeSite(EAST, limit_s=0.1)
    plan = a_plan(a_submit("s1", "s2", "s3"), Drain(EAST, targets("d1")))
    found = shell(west, east, calls=ThreadCalls(), act_s_max=0.1).act(plan)
    assert {did.about: did.outcome for did in found} == {
        "s1": Done(),
        "s2": Unsure("no answer in time"),
        "s3": UNTRIED,
        "d1": Done(),
    }
    # When the call comes back at last, the cycle's time is up: nothing is done behind the next plan's back.
    hang.open.set()
    for thread in threads_named("call site west"):
        thread.join(PLENTY_S)
    assert asked_of(west) == ["s1", "s2"]


def test_outcomes_of_acts_that_never_ran_are_not_done() -> None:
    acts = SiteActs(shell(FakeSite()), list(EVERYTHING), AT, deadline=0.0)
    assert shown(acts.outcomes()) == ACTS
    assert {did.outcome for did in acts.outcomes()} == {UNTRIED}


class ToldLimit(InlineCalls):
    limit_s = 0.0

    def gather(self, calls: Mapping[str, Callable[[], Any]], *, limit_s: float) -> dict[str, Answer]:
        self.limit_s = limit_s
        return super().gather(calls, limit_s=limit_s)


def test_a_call_under_way_when_the_time_is_up_gets_its_own_limit_to_end_in() -> None:
    calls = ToldLimit()
    backends = FakeSite(limit_s=3.0), FakeSite(EAST, limit_s=5.0), FakeSite(SiteName("idle"), limit_s=99.0)
    plan = a_plan(a_submit("s1"), Drain(EAST, targets("d1")))
    shell(*backends, calls=calls, act_s_max=60.0).act(plan)
    assert calls.limit_s == 65.0


@dataclass
class FakeSource:
    name: SourceName
    pool: PoolName = POOL
    fails: bool = False

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        if self.fails:
            raise OSError("no route")
        return DemandSight(())


def test_the_sources_known_before_are_asked_when_a_pool_cannot_name_them() -> None:
    pool = FakePool(named=(FakeSource(SourceName("ap1")), FakeSource(SourceName("ap2"))))
    asks = shell(FakeSite(), pools=(pool,))
    seen = Seen(AT, DemandSight(()))
    both = ((POOL, SourceName("ap1"), seen), (POOL, SourceName("ap2"), seen))
    assert asks.observe(memory()).demand == both
    pool.named = OSError("the collector is gone")
    assert asks.observe(memory()).demand == both
    # Once it names them again, its word counts: a source that was taken away is asked no more.
    pool.named = (FakeSource(SourceName("ap2"), fails=True),)
    assert asks.observe(memory()).demand == ((POOL, SourceName("ap2"), Unseen(AT, "no route")),)


def test_a_pool_that_cannot_name_its_sources_does_not_blind_the_others() -> None:
    fine = FakePool(PoolName("fine"), (FakeSource(SourceName("ap"), PoolName("fine")),))
    broken = FakePool(PoolName("broken"), OSError("the collector is gone"))
    snap = shell(FakeSite(), pools=(broken, fine)).observe(memory())
    assert [(pool, source) for pool, source, _ in snap.demand if pool == "fine"] == [("fine", "ap")]
    assert [pool for pool, _ in snap.slots] == ["broken", "fine"]
    assert [site for site, _ in snap.sites] == [WEST]
