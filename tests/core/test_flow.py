"""Flow: how fast jobs come to wait, and the reserve that a policy makes of it in a whole plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    SOURCE,
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
from glidepath.core.because import Because
from glidepath.core.cycle import Plan, Reason, Unseen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.flow import SPAN_S, Flow, flowed
from glidepath.core.provision.memory import Health, Held, Memory
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.pilot import PilotAction
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant, PoolName, Shape

UNSEEN = Unseen(Instant(NOW - 30), "timed out")
OTHER = PoolName("other")


def a_flow(since_s: int = 0, *, idle: int = 0, risen: int = 0, before: int = 0) -> Flow:
    """Of the usual pool and shape, in a span that began so many seconds ago."""
    return Flow(POOL, shape(), None, idle, Instant(NOW - since_s), risen, before)


def seen(*flows: Flow, idle: int | None, known: bool = True, unseen: tuple[PoolName, ...] = ()) -> Any:
    """The flows after a look at NOW that saw so many jobs wait; None where the group is not there at all."""
    demands = () if idle is None else (demand(idle=idle),)
    return flowed(flows, demands, NOW, unseen=unseen, known=(POOL,) if known else ())


@pytest.mark.parametrize(
    ("known", "idle", "expected"),
    [
        (False, 50, (a_flow(idle=50),)),  # A backlog did not arrive just now.
        (True, 50, (a_flow(idle=50, risen=50),)),
        (False, 0, ()),
        (True, 0, ()),
        (False, None, ()),
        (True, None, ()),
    ],
)
def test_the_first_look_is_no_arrival(known: bool, idle: int | None, expected: tuple[Flow, ...]) -> None:
    assert seen(idle=idle, known=known) == expected


@pytest.mark.parametrize(
    ("flow", "idle", "expected"),
    [
        (a_flow(60, idle=5, risen=2, before=9), 8, (a_flow(idle=8),)),
        (a_flow(60, idle=5, risen=2, before=9), 5, (a_flow(idle=5),)),
        (a_flow(60, idle=5, risen=2, before=9), 1, (a_flow(idle=1),)),
        (a_flow(60, idle=5, risen=2, before=9), 0, ()),
        (a_flow(9 * SPAN_S, idle=5, risen=2, before=9), 800, (a_flow(idle=800),)),
    ],
)
def test_after_a_long_gap_a_group_starts_anew_without_arrivals(
    flow: Flow, idle: int, expected: tuple[Flow, ...]
) -> None:
    """What came in the gap came at a rate that nobody saw."""
    assert seen(flow, idle=idle, known=False) == expected


def test_of_two_pools_only_the_one_that_was_seen_has_arrivals() -> None:
    groups = (demand(idle=7), demand(idle=7, pool=OTHER))
    for known, risen in (((POOL,), [7, 0]), ((OTHER,), [0, 7]), ((), [0, 0]), ((POOL, OTHER), [7, 7])):
        assert [flow.risen for flow in flowed((), groups, NOW, unseen=(), known=known)] == risen


def ago(seconds: int, *demands: Demand, pool: PoolName = POOL) -> Held:
    return Held(pool, SOURCE, Instant(NOW - seconds), demands)


@pytest.mark.parametrize(
    ("held", "risen"),
    [
        ((), 0),  # Seen for the first time: the pool is new, or the memory is lost.
        ((ago(10),), 30),
        ((ago(SPAN_S),), 30),
        ((ago(SPAN_S + 1),), 0),  # After a long gap.
        ((ago(10, pool=OTHER),), 0),  # Another pool was seen, not this one.
    ],
)
def test_a_look_counts_as_arrivals_what_came_since_its_pool_was_last_seen(
    held: tuple[Held, ...], risen: int
) -> None:
    found = picture_of(snapshot((demand(idle=30),)), memory(held=held)).flows
    assert found == (a_flow(idle=30, risen=risen),)


@pytest.mark.parametrize(
    ("blind_s", "flows"),
    [
        (600, (a_flow(0, idle=60, risen=60),)),
        (SPAN_S - 10, (a_flow(0, idle=60, risen=60),)),
        (SPAN_S + 10, (Flow(POOL, shape(), None, 60, Instant(NOW + SPAN_S + 10)),)),
    ],
)
def test_a_short_blindness_is_bridged_and_a_long_one_forgets_the_rate(
    blind_s: int, flows: tuple[Flow, ...]
) -> None:
    _, mem = after(snapshot((demand(idle=20),)), memory(held=(SEEN_BEFORE,)), rules())
    for seconds in range(100, blind_s, 100):
        _, mem = after(later(snapshot(UNSEEN), seconds), mem, rules())
        assert mem.flows == (a_flow(idle=20, risen=20),)
    _, mem = after(later(snapshot((demand(idle=60),)), blind_s), mem, rules())
    assert mem.flows == flows


@pytest.mark.parametrize(
    ("held", "reserve"), [((SEEN_BEFORE,), True), ((ago(SPAN_S + 1),), False), ((), False)]
)
def test_a_backlog_after_a_long_gap_makes_no_reserve(held: tuple[Held, ...], reserve: bool) -> None:
    """Nine hundred that waited over a weekend are no reason to be ready for as many in the next half hour."""
    plan = plan_of(snapshot((demand(idle=900),)), ready(held=held), policy=Steady())
    assert ("expected" in dict(told(plan).facts)) is reserve
    assert (sum(asked(plan).values()) > 900) is reserve


@pytest.mark.parametrize(
    ("flow", "idle", "expected"),
    [
        (a_flow(60, idle=5), 8, a_flow(60, idle=8, risen=3)),
        (a_flow(60, idle=5, risen=2, before=9), 8, a_flow(60, idle=8, risen=5, before=9)),
        (a_flow(60, idle=5, risen=2), 5, a_flow(60, idle=5, risen=2)),
        (a_flow(60, idle=5, risen=2), 1, a_flow(60, idle=1, risen=2)),  # Jobs that start are no arrivals.
        (a_flow(60, idle=5, risen=2), 0, a_flow(60, idle=0, risen=2)),
        (a_flow(SPAN_S - 1, idle=5, risen=2), 8, a_flow(SPAN_S - 1, idle=8, risen=5)),
        (a_flow(SPAN_S, idle=5, risen=2, before=9), 8, a_flow(idle=8, risen=3, before=2)),
        (a_flow(2 * SPAN_S - 1, idle=5, risen=2), 8, a_flow(idle=8, risen=3, before=2)),
        (a_flow(2 * SPAN_S, idle=5, risen=2), 8, a_flow(idle=8, risen=3)),
        (a_flow(9 * SPAN_S, idle=5, risen=2, before=9), 5, a_flow(idle=5)),
    ],
)
def test_what_came_to_wait_is_added_up_and_spans_roll_over(flow: Flow, idle: int, expected: Flow) -> None:
    assert seen(flow, idle=idle) == (expected,)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (a_flow(60, idle=5), ()),  # It had no rate to remember.
        (a_flow(60, idle=5, risen=2), (a_flow(60, risen=2),)),
        (a_flow(60, idle=5, before=2), (a_flow(60, before=2),)),
        (a_flow(SPAN_S, idle=5, risen=2, before=9), (a_flow(before=2),)),
        (a_flow(SPAN_S, before=2), ()),
        (a_flow(2 * SPAN_S, idle=5, risen=2), ()),
    ],
)
def test_a_group_that_is_gone_is_forgotten_when_its_rate_has_run_dry(
    flow: Flow, expected: tuple[Flow, ...]
) -> None:
    assert seen(flow, idle=None) == expected


@given(st.integers(1, SPAN_S), st.integers(1, 1000))
def test_a_group_that_is_gone_is_forgotten_after_two_spans(step_s: int, jobs: int) -> None:
    flows = flowed((), (demand(idle=jobs),), NOW, unseen=(), known=(POOL,))
    last_s = 0
    for at_s in range(step_s, 2 * SPAN_S + 2 * step_s, max(step_s, SPAN_S // 10)):
        flows = flowed(flows, (), Instant(NOW + at_s), unseen=(), known=(POOL,))
        last_s = at_s if flows else last_s
    assert flows == ()
    assert last_s < 2 * (SPAN_S + max(step_s, SPAN_S // 10))


@pytest.mark.parametrize("idle", [None, 0, 5, 99])
def test_unseen_pools_keep_their_flow(idle: int | None) -> None:
    flows = (a_flow(60, idle=5), a_flow(9 * SPAN_S, idle=1, risen=7, before=3))
    for flow in flows:
        assert seen(flow, idle=idle, unseen=(POOL,)) == (flow,)
    assert seen(idle=idle, unseen=(POOL,)) == ()


def test_pools_shapes_run_times_and_variants_flow_apart() -> None:
    groups = (
        demand(idle=1),
        demand(idle=2, pool=OTHER),
        demand(idle=3, of=shape(2)),
        demand(idle=4, run_s_max=60),
        demand(idle=5, variant="only there"),
    )
    flows = flowed((), groups, NOW, unseen=(), known=(POOL, OTHER))
    more = tuple(replace(group, idle=10) for group in groups)
    after_more = flowed(flows, more, Instant(NOW + 10), unseen=(OTHER,), known=(POOL, OTHER))
    assert {flow.group: flow.risen for flow in after_more} == {
        (POOL, shape(), None, ""): 10,
        (OTHER, shape(), None, ""): 2,
        (POOL, shape(2), None, ""): 10,
        (POOL, shape(), 60, ""): 10,
        (POOL, shape(), None, "only there"): 10,
    }


@pytest.mark.parametrize(
    ("flow", "over_s", "jobs"),
    [
        (a_flow(0, risen=0), 600, 0),
        (a_flow(900, risen=180), 180, 18),
        (a_flow(900, risen=180), 0, 0),
        (a_flow(900, risen=9), 180, 0),  # 0.9
        (a_flow(900, risen=10), 180, 1),
        (a_flow(900, risen=19), 180, 1),
        (a_flow(0, before=180), SPAN_S, 180),
        (a_flow(900, before=180), SPAN_S, 90),
        (a_flow(SPAN_S, before=180), SPAN_S, 0),
        (a_flow(5 * SPAN_S, before=180, risen=7), SPAN_S, 7),
        (a_flow(-50, before=180, risen=7), SPAN_S, 187),
        (a_flow(450, risen=100, before=400), 2 * SPAN_S, 800),
    ],
)
def test_the_rate_is_that_of_the_last_span(flow: Flow, over_s: int, jobs: int) -> None:
    assert flow.arriving(NOW, over_s) == jobs


COUNTS = st.integers(0, 10**6)


@given(st.integers(-SPAN_S, 5 * SPAN_S), COUNTS, COUNTS, st.integers(0, 86_400), st.integers(0, 86_400))
def test_arriving_is_never_negative_never_more_than_was_seen_and_grows_with_the_time(
    since_s: int, risen: int, before: int, over_s: int, more_s: int
) -> None:
    flow = a_flow(since_s, risen=risen, before=before)
    jobs = flow.arriving(NOW, over_s)
    assert 0 <= jobs <= flow.arriving(NOW, over_s + more_s)
    assert jobs * SPAN_S <= (risen + before) * over_s


LOOKS = st.lists(
    st.tuples(st.integers(0, 3 * SPAN_S), st.integers(0, 100), st.booleans(), st.booleans()), max_size=30
)


@given(LOOKS)
def test_whatever_is_seen_no_count_is_negative_and_none_is_made_up(
    looks: list[tuple[int, int, bool, bool]],
) -> None:
    flows: tuple[Flow, ...] = ()
    now, rises, last = NOW, 0, 0
    for step_s, idle, unseen, known in looks:
        now = Instant(now + step_s)
        blind = (POOL,) if unseen else ()
        flows = flowed(flows, (demand(idle=idle),), now, unseen=blind, known=(POOL,) if known else ())
        if not unseen:
            rises, last = (rises + max(0, idle - last) if known else 0), idle
        assert len(flows) <= 1
        for flow in flows:
            assert min(flow.idle, flow.risen, flow.before) >= 0
            assert (flow.idle, flow.since <= now) == (last, True)
            assert flow.risen + flow.before <= rises


@given(st.integers(1, 300), st.integers(0, 50), st.integers(2, 4))
def test_a_constant_rate_is_found_within_two_looks(step_s: int, jobs_each_look: int, spans: int) -> None:
    """A look counts what came since the one before it, so a span may hold two looks' arrivals too many."""
    looks = spans * SPAN_S // step_s + 2
    flows: tuple[Flow, ...] = ()
    now = NOW
    for look in range(1, looks + 1):
        now = Instant(NOW + look * step_s)
        waiting = demand(idle=look * jobs_each_look, running=1)
        flows = flowed(flows, (waiting,), now, unseen=(), known=(POOL,) if look > 1 else ())
    found = sum(flow.arriving(now, SPAN_S) for flow in flows)
    exact = jobs_each_look * SPAN_S // step_s
    assert exact - 1 <= found <= exact + 2 * jobs_each_look + 1


@given(st.integers(1, 300), st.integers(1, 50))
def test_a_quiet_group_keeps_the_very_same_flow(step_s: int, idle: int) -> None:
    """Within a span nothing is written anew, so that the journal stays small."""
    flows = flowed((), (demand(idle=idle),), NOW, unseen=(), known=(POOL,))
    again = flowed(flows, (demand(idle=idle),), Instant(NOW + step_s), unseen=(), known=(POOL,))
    assert again[0] is flows[0]


def flowing(risen: int, of: Shape | None = None, **more: Any) -> Flow:
    """So many jobs came to wait in the last half hour, and none waits now."""
    return Flow(POOL, of or shape(), None, more.pop("idle", 0), Instant(NOW - 900), risen, **more)


def ready(*flows: Flow, latency_s: int = 180, **more: Any) -> Memory:
    more.setdefault("held", (SEEN_BEFORE,))
    return memory(flows=flows, health=(Health("west/a", latency_s=latency_s),), **more)


def told(plan: Plan[PilotAction], about: str = "demand:pool: 1 CPU 1GiB") -> Reason:
    return next(d.reason for d in plan.decisions if d.about == about)


def test_a_reserve_is_asked_for_beyond_what_waits_and_is_explained() -> None:
    plan = plan_of(snapshot((demand(idle=4),)), ready(flowing(100, idle=4)), policy=Steady())
    assert told(plan) == Reason(
        Because.ASKED,
        (
            ("idle", 4),
            ("expected", 6),
            ("free", 0),
            ("coming", 0),
            ("wanted", 10),
            ("rule", "idle = 10, of it 6 jobs in reserve for those that come while a pilot starts"),
            ("asked", 10),
        ),
    )
    assert asked(plan) == {"west/a": 10}


@pytest.mark.parametrize(
    ("mem", "group", "policy", "wanted"),
    [
        (ready(flowing(100)), demand(idle=0, running=5), Steady(), 6),
        (ready(flowing(10)), demand(idle=0, running=5), Steady(), 2),
        (ready(flowing(9)), demand(idle=0, running=5), Steady(), 0),  # less than one while a pilot starts
        (ready(flowing(0, before=200)), demand(idle=0, running=5), Steady(), 6),  # half of it is half gone
        (ready(flowing(100), latency_s=18), demand(idle=0, running=5), Steady(), 2),
        (ready(flowing(100), latency_s=0), demand(idle=0, running=5), Steady(), 0),  # none has joined yet
        (ready(), demand(idle=0, running=5), Steady(), 0),
        (ready(flowing(100)), demand(idle=0, running=5), Steady(reserve_percent=0), 0),
        (ready(flowing(100)), demand(idle=0, running=5), Seed(), 0),
        (ready(flowing(100)), demand(idle=0, running=5, fits=()), Steady(), 0),
        (ready(flowing(100, of=shape(2))), demand(idle=0, running=5), Steady(), 0),  # another shape's flow
    ],
)
def test_the_reserve_follows_the_flow_of_the_shape_and_the_start_latency(
    mem: Memory, group: Demand, policy: Policy, wanted: int
) -> None:
    plan = plan_of(snapshot((group,)), mem, policy=policy)
    assert sum(asked(plan).values()) == wanted


def test_shapes_of_one_pool_share_one_reserve() -> None:
    small, large = shape(1, 512), shape(1, 1024)
    groups = tuple(demand(idle=0, running=1, of=each) for each in (small, large))
    flows = (flowing(50, of=small), flowing(50, of=large))
    plan = plan_of(snapshot(groups), ready(*flows), policy=Steady())
    assert sum(asked(plan).values()) == 6


def test_the_flow_of_another_pool_makes_the_reserve_no_smaller() -> None:
    elsewhere = Flow(OTHER, shape(), None, 0, Instant(NOW - 900), 900)
    under = rules(pools=(PoolRules(OTHER), PoolRules(POOL)))
    snap = snapshot((demand(idle=0, running=5),))
    plan = plan_of(snap, ready(flowing(100), elsewhere), under, Steady())
    assert asked(plan) == {"west/a": 6}


@pytest.mark.parametrize(
    ("paused", "expected"),
    [((), {"east/a": 1, "west/a": 1}), ((Pause("offer:west/a", "bob"),), {"east/a": 6})],
)
def test_the_reserve_is_for_the_time_that_the_best_open_offer_takes(
    paused: tuple[Pause, ...], expected: dict[str, int]
) -> None:
    under = rules(site("east", offer("east")), site("west"))
    health = (Health("east/a", latency_s=180), Health("west/a", latency_s=18))
    snap = snapshot(
        (demand(idle=0, running=5, fits=("east/a", "west/a")),),
        pilots={"east": (), "west": ()},
        pauses=paused,
    )
    mem = memory(flows=(flowing(100),), health=health, held=(SEEN_BEFORE,))
    plan = plan_of(snap, mem, under, Steady())
    assert asked(plan) == expected


def test_a_reserve_is_not_asked_for_twice() -> None:
    under, policy = rules(), Steady()
    snap = snapshot((demand(idle=4),))
    plan, mem = after(snap, ready(flowing(100, idle=4)), under, policy)
    assert asked(plan) == {"west/a": 10}
    for seconds in (10, 60, 120):
        plan, mem = after(later(snap, seconds), mem, under, policy)
        assert (asked(plan), told(plan)) == (
            {},
            Reason(Because.COVERED, (("idle", 4), ("expected", 6), ("free", 0), ("coming", 10))),
        )


def test_free_pilots_are_the_reserve_before_others_are_asked_for() -> None:
    names = [f"p{n}" for n in range(4)]
    snap = snapshot(
        (demand(idle=0, running=5),),
        pilots={"west": tuple(listed(name) for name in names)},
        slots=tuple(slot(name) for name in names),
    )
    plan = plan_of(snap, ready(flowing(100)), policy=Steady())
    assert (asked(plan), told(plan).facts[:4]) == (
        {"west/a": 2},
        (("idle", 0), ("expected", 6), ("free", 4), ("coming", 0)),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"slots": UNSEEN},
        {"pilots": {"west": UNSEEN}},
        {"pauses": (Pause("pool:pool", "bob"),)},
        {"pauses": (Pause("offer:west/a", "bob"),)},
    ],
)
def test_no_reserve_is_asked_for_where_nothing_may_be(change) -> None:
    snap = snapshot((demand(idle=0, running=5),), **change)
    assert asked(plan_of(snap, ready(flowing(100)), policy=Steady())) == {}


def test_held_demand_has_no_reserve() -> None:
    under = rules()
    _, mem = after(snapshot((demand(idle=3),)), ready(flowing(100, idle=3)), under, Steady())
    plan, _ = after(later(snapshot(UNSEEN), 10), mem, under, Steady())
    assert (asked(plan), told(plan)) == (
        {},
        Reason(Because.HELD_DEMAND, (("idle", 3), ("free", 0), ("coming", 3))),
    )
