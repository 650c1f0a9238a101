"""Pilots that one request starts, a site's limits for each pool, kinds of jobs, and who is served first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    after,
    asked,
    demand,
    later,
    limits,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    reason,
    rules,
    shape,
    site,
    snapshot,
)
from core.test_check import planted, submit
from glidepath.core.because import Because
from glidepath.core.check import check
from glidepath.core.cycle import Fact, Failed
from glidepath.core.provision.decide import in_turn
from glidepath.core.provision.health import Gate, gate
from glidepath.core.provision.offer import First, JobKind, Limits, Offer, PoolRules, worked_out
from glidepath.core.provision.picture import Wanted
from glidepath.core.provision.pilot import SitePilot, SiteState, Submit, Target, Withdraw
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.quantity import Instant, Owner, PilotName, PoolName, SiteName, SourceName

WEST = SiteName("west")
EAST_POOL, SOUTH_POOL = PoolName("east"), PoolName("south")


def pairs(**more: int) -> Offer:
    """Two nodes of four cores with each request."""
    return offer("west", cpus=4, together=2, limits=Limits(**more))


def groups(plan) -> list[int]:
    return [len(names) for action in plan.actions if isinstance(action, Submit) for names in action.groups]


def facts_of(plan, about: str) -> dict[str, object]:
    found: tuple[Fact, ...] = next(d.reason.facts for d in plan.decisions if d.about == about)
    return dict(found)


@pytest.mark.parametrize(
    ("idle", "more", "requests"),
    [
        (1, {}, [2]),
        (8, {}, [2]),
        (9, {}, [2, 2]),
        (17, {}, [2, 2, 2]),
        (90, {"live_max": 5}, [2, 2]),  # a third request would go beyond it
        (90, {"per_cycle_max": 3}, [2]),
        (90, {"live_max": 1}, []),
    ],
)
def test_a_request_is_whole_or_not_made(idle: int, more: dict[str, int], requests: list[int]) -> None:
    plan = plan_of(snapshot((demand(idle=idle),)), under=rules(site("west", pairs(**more))), policy=Steady())
    assert groups(plan) == requests


def test_where_a_limit_has_room_for_a_part_the_reason_says_so() -> None:
    plan = plan_of(
        snapshot((demand(idle=90),)), under=rules(site("west", pairs(live_max=1))), policy=Steady()
    )
    assert (reason(plan, "offer:west/a"), facts_of(plan, "offer:west/a")) == (
        "AT_LIMIT",
        {"live": 0, "pending": 0, "asked": 0, "together": 2, "room": 1},
    )
    told = facts_of(plan, "demand:pool: 1 CPU 1GiB")
    assert (told["short"], told["together"], told["room"]) == (90, 2, 1)


def test_what_comes_along_is_told_and_serves_the_next() -> None:
    two = (demand(idle=3), demand(idle=3, of=shape(cpus=2)))
    plan = plan_of(snapshot(two), under=rules(site("west", pairs())), policy=Steady())
    # The first needs one pilot; what came along takes two jobs of the second, and one asks for a request.
    assert groups(plan) == [2, 2]
    told = [dict(d.reason.facts) for d in plan.decisions if d.about.startswith("demand:")]
    assert [facts["rounded_up"] for facts in told] == [1, 1]


def test_a_request_that_fails_is_one_failure_and_the_probe_after_it_one_request() -> None:
    under = rules(site("west", pairs(), failures_max=1, backoff_s=60))
    snap = snapshot((demand(idle=90),))
    plan, mem = after(snap, memory(), under, Steady(), outcome=Failed("no"))
    assert len(groups(plan)) == 12
    (health,) = [each for each in mem.health if each.about == "west/a"]
    assert health.failures == 12
    shut = later(snap, 10)
    plan, mem = after(shut, mem, under, Steady())
    assert groups(plan) == []
    (health,) = [each for each in mem.health if each.about == "west/a"]
    waited = next(s for s in range(10, 90_000, 10) if gate(health, Instant(NOW + s)) is not Gate.OPEN)
    plan, _ = after(later(snap, waited), mem, under, Steady())
    assert groups(plan) == [2]


def pending(name: str, native_id: str, **more: object) -> SitePilot:
    return listed(name, SiteState.PENDING, native_id=native_id, size=offer(cpus=4).size, **more)


def test_pilots_of_one_job_are_withdrawn_together_or_not_at_all() -> None:
    under = rules(site("west", pairs()), withdraw_after_s=0)
    pilots = tuple(pending(f"p{n}", f"j{n // 2}", asked_at=Instant(NOW - 100 - n)) for n in range(4))
    snap = snapshot((demand(idle=12, fits=("west/a",)),), pilots={"west": pilots})
    mem = memory(held=(SEEN_BEFORE,))
    # Three of the four are needed: the job of the fourth holds a pilot that is.
    plan, mem = after(snap, mem, under, Steady())
    assert [a for a in plan.actions if isinstance(a, Withdraw)] == []
    less = snapshot((demand(idle=8),), pilots={"west": pilots}, now=Instant(NOW + 400))
    plan, _ = after(less, mem, under, Steady())
    gone = [t.name for a in plan.actions if isinstance(a, Withdraw) for t in a.pilots]
    assert sorted(gone) == ["p0", "p1"]


def test_asking_for_a_part_of_a_request_and_taking_a_part_of_a_job_are_breaches() -> None:
    under = rules(site("west", pairs()))
    snap = snapshot((demand(idle=9),), pilots={"west": (pending("p0", "j"), pending("p1", "j"))})
    assert planted(snap, submit(3, together=2), under) == {"together"}
    assert planted(snap, submit(2), under) == {"together"}
    assert planted(snap, submit(2, together=2), under) == set()
    half = Withdraw(WEST, (Target(PilotName("p0"), "j"),))
    both = Withdraw(WEST, (Target(PilotName("p0"), "j"), Target(PilotName("p1"), "j")))
    assert planted(snap, half, under, because=Because.OVERDUE) == {"together"}
    assert planted(snap, both, under, because=Because.OVERDUE) == set()


def two_pools(**more: Limits):
    return rules(
        site("west", pool_limits=tuple((PoolName(name), each) for name, each in sorted(more.items()))),
        pools=(PoolRules(EAST_POOL), PoolRules(SOUTH_POOL)),
    )


def both_wait(idle: int) -> tuple:
    plain = snapshot(())
    sights = tuple(
        (
            pool,
            SourceName("ap"),
            replace(
                plain.demand[0][2],
                value=replace(plain.demand[0][2].value, demands=(demand(idle=idle, pool=pool),)),
            ),
        )
        for pool in (EAST_POOL, SOUTH_POOL)
    )
    slots = tuple((pool, plain.slots[0][1]) for pool in (EAST_POOL, SOUTH_POOL))
    return replace(plain, demand=sights, slots=slots)


@pytest.mark.parametrize(
    ("given_limits", "got"),
    [
        ({}, {"east": 9, "south": 9}),
        ({"east": limits(live_max=4)}, {"east": 4, "south": 9}),
        ({"east": limits(pending_max=2), "south": limits(per_cycle_max=1)}, {"east": 2, "south": 1}),
        ({"east": limits(live_max=0)}, {"south": 9}),
    ],
)
def test_a_site_limits_what_each_pool_has_there(given_limits: dict[str, Limits], got: dict[str, int]) -> None:
    plan = plan_of(both_wait(9), under=two_pools(**given_limits), policy=Steady())
    counts: dict[str, int] = {}
    for action in plan.actions:
        if isinstance(action, Submit):
            counts[action.pool] = counts.get(action.pool, 0) + len(action.names)
    assert counts == got


def test_asking_past_the_limit_of_a_pool_at_a_site_is_a_breach() -> None:
    under = rules(site("west", pool_limits=((POOL, limits(live_max=2)),)))
    snap = snapshot((demand(idle=9),), pilots={"west": (listed("p1"),)})
    assert planted(snap, submit(2), under) == {"cap"}
    assert planted(snap, submit(1), under) == set()


@pytest.mark.parametrize(
    ("kind", "gpus", "fits"),
    [
        (JobKind.ANY, 0, True),
        (JobKind.ANY, 1, True),
        (JobKind.CPU, 0, True),
        (JobKind.CPU, 1, False),
        (JobKind.GPU, 0, False),
        (JobKind.GPU, 1, True),
    ],
)
def test_an_offer_takes_the_jobs_of_its_kind(kind: JobKind, gpus: int, fits: bool) -> None:
    one = offer("west", cpus=2, gpus=2, jobs=kind)
    assert (worked_out(one, shape(gpus=gpus)) is not None) is fits


MANY = (
    demand(idle=3, of=shape(cpus=1), oldest_at=Instant(NOW - 10)),
    demand(idle=9, of=shape(cpus=8), oldest_at=Instant(NOW - 90)),
    demand(idle=1, of=shape(cpus=2, gpus=1), oldest_at=None),
    demand(idle=5, of=shape(cpus=2, memory_mib=9000), oldest_at=Instant(NOW - 500)),
)


@pytest.mark.parametrize(
    ("first", "order"),
    [
        ((), [0, 1, 2, 3]),
        (((First.CPUS, False),), [1, 2, 3, 0]),
        (((First.CPUS, True),), [0, 2, 3, 1]),
        (((First.GPUS, False), (First.MEMORY, False)), [2, 3, 0, 1]),
        (((First.OLDEST, False),), [3, 1, 0, 2]),
        (((First.OLDEST, True),), [2, 0, 1, 3]),
        (((First.JOBS, True),), [2, 0, 3, 1]),
        (((First.DISK, False), (First.JOBS, False)), [1, 3, 0, 2]),
    ],
)
def test_who_is_served_first_is_a_setting(first: tuple[tuple[First, bool], ...], order: list[int]) -> None:
    wanted = [Wanted(each, held=False) for each in MANY]
    assert [MANY.index(each.demand) for each in in_turn(wanted, first)] == order
    # What is only held keeps its claim before everything else.
    held = [Wanted(each, held=at == 2) for at, each in enumerate(MANY)]
    assert MANY.index(in_turn(held, first)[0].demand) == 2


def test_with_room_for_one_the_first_in_turn_gets_it() -> None:
    small, large = demand(idle=1), demand(idle=1, of=shape(cpus=4))
    for first, name in (((First.CPUS, False), "4 CPU 1GiB"), ((First.CPUS, True), "1 CPU 1GiB")):
        under = rules(site("west", offer("west", cpus=4, limits=limits(live_max=1))), first=(first,))
        plan = plan_of(snapshot((small, large)), under=under, policy=Steady())
        assert reason(plan, f"demand:pool: {name}") == "ASKED"


@given(
    idle=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    together=st.integers(1, 5),
    most=st.integers(0, 12),
    pool_most=st.integers(0, 12),
    alone=st.booleans(),
)
def test_no_plan_asks_for_a_part_or_beyond_a_limit(
    idle: list[int], together: int, most: int, pool_most: int, alone: bool
) -> None:
    several = offer("west", "a", cpus=4, together=together, limits=Limits(live_max=most))
    offers = (several,) if alone else (several, offer("west", "b", cpus=2))
    under = rules(site("west", *offers, pool_limits=((POOL, Limits(live_max=pool_most)),)))
    fits = ("west/a",) if alone else ("west/a", "west/b")
    demands = tuple(
        demand(
            idle=count,
            of=shape(cpus=1 + at),
            fits=fits if at < 2 else fits[:1],
            owners=((Owner("a"), count),),
        )
        for at, count in enumerate(idle)
    )
    snap = snapshot(demands)
    plan = plan_of(snap, under=under, policy=Steady())
    assert check(picture_of(snap, under=under), under, plan) == ()
    counts = asked(plan)
    assert counts.get("west/a", 0) % together == 0
    assert sum(counts.values()) <= pool_most
