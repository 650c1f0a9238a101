"""Taking away: surplus goes after a while, claimed work never, nothing on a doubt, and what ended is told."""

from __future__ import annotations

from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    after,
    asked,
    demand,
    later,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from glidepath.core.check import check
from glidepath.core.cycle import Done, NotTried, Outcome, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.memory import Health
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.pilot import Clear, Drain, PilotPhase, SiteState, Target, Withdraw
from glidepath.core.provision.policies.glideinwms import GlideinWms
from glidepath.core.provision.policies.one_to_one import OneToOne
from glidepath.core.provision.policies.prp import Prp
from glidepath.core.provision.policies.pyglidein import Pyglidein
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.sight import Window
from glidepath.core.quantity import Instant, PoolName, SiteName

UNSEEN = Unseen(Instant(NOW - 30), "timed out")
ALWAYS, EAGER = rules(withdraw_after_s=0), Steady(release_s=1)


def pending(count: int) -> dict[str, tuple[object, ...]]:
    return {
        "west": tuple(
            listed(f"p{n}", SiteState.PENDING, asked_at=Instant(NOW - 100 + n)) for n in range(count)
        )
    }


def test_surplus_pending_pilots_go_newest_first_but_only_after_a_while() -> None:
    under = rules(withdraw_after_s=120)
    snap = snapshot((demand(idle=1),), pilots=pending(3))
    plan, mem = after(snap, memory(), under, Steady())
    assert plan.actions == ()
    plan, mem = after(later(snap, 119), mem, under, Steady())
    assert plan.actions == ()
    plan, mem = after(later(snap, 120), mem, under, Steady())
    assert plan.actions == (Withdraw(SiteName("west"), (Target("p1"), Target("p2"))),)  # type: ignore[arg-type]


def test_flapping_demand_withdraws_nothing() -> None:
    under = rules(withdraw_after_s=120)
    mem = memory()
    for turn in range(12):
        idle = 3 if turn % 2 else 0
        snap = later(snapshot((demand(idle=idle),), pilots=pending(3)), turn * 60)
        plan, mem = after(snap, mem, under, Steady())
        assert plan.actions == ()


@pytest.mark.parametrize(
    ("policy", "withdrawn"),
    [
        (Steady(), 3),
        (GlideinWms(), 3),
        (Seed(), 0),
        (Prp(), 0),
        (Pyglidein(), 0),
        (OneToOne(), 0),
    ],
)
def test_pending_pilots_that_nobody_needs_stay_where_the_policy_withdraws_none(
    policy: Policy, withdrawn: int
) -> None:
    plan = plan_of(snapshot((), pilots=pending(3)), under=rules(withdraw_after_s=0), policy=policy)
    assert sum(len(a.pilots) for a in plan.actions if isinstance(a, Withdraw)) == withdrawn


@pytest.mark.parametrize("policy", [Seed(), Prp(), GlideinWms(), Pyglidein(), OneToOne()])
def test_the_published_rules_leave_free_pilots_to_their_own_idle_limit(policy: Policy) -> None:
    pilot = listed("p1", since=Instant(NOW - 99_999))
    snap = snapshot((), pilots={"west": (pilot,)}, slots=(slot("p1"),))
    assert plan_of(snap, policy=policy).actions == ()


@pytest.mark.parametrize(
    ("claims", "idle_s", "idle_jobs", "drained"),
    [(0, 300, 0, True), (0, 299, 0, False), (1, 9999, 0, False), (0, 9999, 1, False)],
)
def test_only_idle_surplus_pilots_are_drained(claims, idle_s, idle_jobs, drained) -> None:
    pilot = listed("p1", since=Instant(NOW - idle_s))
    snap = snapshot((demand(idle=idle_jobs),), pilots={"west": (pilot,)}, slots=(slot("p1", claims),))
    plan = plan_of(snap, policy=Steady(release_s=300))
    assert [type(a) for a in plan.actions] == ([Drain] if drained else [])


@pytest.mark.parametrize(
    ("reserve_percent", "idle_pilots", "drained"), [(0, 8, 8), (200, 6, 0), (200, 8, 2), (100, 8, 5)]
)
def test_the_reserve_keeps_free_pilots_from_being_released(
    reserve_percent: int, idle_pilots: int, drained: int
) -> None:
    """Ten jobs come while a pilot starts: twice the root is six."""
    names = [f"p{n}" for n in range(idle_pilots)]
    snap = snapshot(
        (demand(idle=0, running=3),),
        pilots={"west": tuple(listed(name, since=Instant(NOW - 9999)) for name in names)},
        slots=tuple(slot(name) for name in names),
    )
    flow = Flow(POOL, shape(), None, 0, Instant(NOW - 900), risen=100)
    mem = memory(flows=(flow,), health=(Health("west/a", latency_s=180),), held=(SEEN_BEFORE,))
    plan = plan_of(snap, mem, policy=Steady(reserve_percent=reserve_percent))
    assert sum(len(a.pilots) for a in plan.actions if isinstance(a, Drain)) == drained
    assert asked(plan) == {}


@pytest.mark.parametrize("blind", [{"demands": UNSEEN}, {"slots": UNSEEN}, {"pilots": {"west": UNSEEN}}])
def test_nothing_is_taken_away_while_anything_is_unseen(blind) -> None:
    pilots = {"west": (listed("p1", since=Instant(NOW - 9999)), *pending(2)["west"])}
    world = {"pilots": pilots, "slots": (slot("p1"),), **blind}
    demands = world.pop("demands", ())
    _, mem = after(snapshot(pilots=pilots, slots=(slot("p1"),)), memory(), ALWAYS, Seed())
    plan = plan_of(snapshot(demands, **world), mem, ALWAYS, EAGER)
    assert [a for a in plan.actions if not isinstance(a, Clear)] == []
    seen = plan_of(snapshot(**{**world, "pilots": pilots, "slots": (slot("p1"),)}), mem, ALWAYS, EAGER)
    assert {type(a) for a in seen.actions} == {Withdraw, Drain}  # With all of it seen, both go.


def test_pilots_pending_for_too_long_are_withdrawn_and_their_age_is_told() -> None:
    under = rules(site("west", pending_s_max=3600))
    old = listed("p1", SiteState.PENDING, asked_at=Instant(NOW - 3601))
    plan = plan_of(snapshot((demand(idle=5),), pilots={"west": (old,)}), under=under)
    told = [
        (d.reason.because.name, dict(d.reason.facts)["oldest_s"])
        for d in plan.decisions
        if isinstance(d.action, Withdraw)
    ]
    assert told == [("OVERDUE", 3601)]


def test_before_a_window_joined_pilots_that_would_outlive_its_start_are_drained_busy_or_not() -> None:
    window = Window(SiteName("west"), Instant(NOW + 3000), Instant(NOW + 9000), "psu")
    pilots = (listed("p1"), listed("p2"), listed("p3", ends_at=Instant(NOW + 2000)))
    snap = snapshot(
        pilots={"west": pilots}, slots=(slot("p1", 1), slot("p2"), slot("p3", 1)), windows=(window,)
    )
    plan = plan_of(snap, under=rules(site("west", drain_lead_s=3600)))
    assert plan.actions == (Drain(SiteName("west"), (Target("p1"), Target("p2"))),)  # type: ignore[arg-type]


def test_pilots_of_an_offer_that_is_no_longer_configured_are_let_go() -> None:
    pilots = (listed("p1", key="west/old"), listed("p2", SiteState.PENDING, key="west/old"))
    plan = plan_of(snapshot(pilots={"west": pilots}, slots=(slot("p1"),)))
    assert {type(a).__name__ for a in plan.actions} == {"Withdraw", "Drain"}


def test_what_ended_is_cleared_once_with_its_statistics() -> None:
    under = rules()
    mem = memory(at=Instant(NOW - 10))
    story = [
        (0, SiteState.PENDING, None),
        (30, SiteState.RUNNING, None),
        (40, SiteState.RUNNING, slot("p1")),
        (100, SiteState.RUNNING, slot("p1", 1, jobs_run=1)),
        (400, SiteState.RUNNING, slot("p1", 0, jobs_run=2)),
        (500, SiteState.ENDED, None),
    ]
    for at, state, heard in story:
        now = Instant(NOW + at)
        pilot = listed("p1", state, asked_at=NOW, since=NOW, note="idle for 100 s" if at == 500 else "")
        snap = snapshot(pilots={"west": (pilot,)}, slots=(heard,) if heard else (), now=now)
        plan, mem = after(snap, mem, under)
    (clear,) = plan.actions
    assert isinstance(clear, Clear)
    (e,) = clear.ended
    assert (e.why, e.phase, e.pending_s, e.starting_s, e.idle_s, e.busy_s, e.failed_s, e.jobs_run) == (
        "idle for 100 s",
        PilotPhase.DONE,
        30,
        10,
        160,
        300,
        0,
        2,
    )
    assert e.ended_at - e.asked_at == 500
    plan, mem = after(later(snap, 10), mem, under)
    assert (plan.actions, mem.tracks) == ((), ())


@pytest.mark.parametrize("state", [SiteState.PENDING, SiteState.RUNNING])
@pytest.mark.parametrize(("outcome", "leaves"), [(Done(), True), (NotTried("no time"), False)])
def test_a_pilot_that_was_not_told_to_go_is_not_taken_for_leaving(
    state: SiteState, outcome: Outcome, leaves: bool
) -> None:
    pilot = listed("p1", state, key="west/gone")
    snap = snapshot(pilots={"west": (pilot,)}, slots=(slot("p1"),) if state is SiteState.RUNNING else ())
    plan, mem = after(snap, memory(), rules(), outcome=outcome)
    assert [type(act) for act in plan.actions] == [Withdraw if state is SiteState.PENDING else Drain]
    assert [bool(track.leaving) for track in mem.tracks] == [leaves]


@pytest.mark.parametrize(("outcome", "kept"), [(Done(), False), (NotTried("no time"), True)])
def test_what_was_not_cleared_is_cleared_by_a_later_cycle(outcome: Outcome, kept: bool) -> None:
    snap = snapshot(pilots={"west": (listed("p1", SiteState.ENDED),)})
    plan, mem = after(snap, memory(), rules(), outcome=outcome)
    assert [type(act) for act in plan.actions] == [Clear]
    again, _ = after(snap, mem, rules())
    assert [type(act) for act in again.actions] == ([Clear] if kept else [])


@pytest.mark.parametrize(
    ("slots", "pools"),
    [
        (Unseen(Instant(NOW - 1), "timed out"), ("pool",)),
        ((), ("pool",)),
        ((slot("p1"),), ("other",)),
    ],
    ids=["its pool is unseen", "it is silent", "its pool is gone too"],
)
def test_a_pilot_of_a_lost_offer_that_is_not_heard_now_is_left_alone_and_blocks_nothing(
    slots: Any, pools: tuple[str, ...]
) -> None:
    _, known = after(snapshot((), pilots={"west": (listed("p1"),)}, slots=(slot("p1"),)), memory(), rules())
    new = rules(site("west", offer("west", "b")), pools=tuple(PoolRules(PoolName(name)) for name in pools))
    waiting = (demand(idle=3, fits=("west/b",)),)
    seen = later(snapshot(waiting, pilots={"west": (listed("p1"),)}, slots=slots), 10)
    picture = picture_of(seen, known, new)
    plan = decide(picture, new, Steady())
    assert check(picture, new, plan) == ()
    assert not [action for action in plan.actions if isinstance(action, Drain)]
