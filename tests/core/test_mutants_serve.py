"""Serving to the letter: what counts as supply, what a policy is told, and every answer that a shape can get.

Pictures of small scenes come in, whole answers, needs and stocks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    demand,
    limits,
    listed,
    memory,
    offer,
    picture_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from core.leaf_builders import a_track
from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Reason, Unseen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.memory import Health, Held
from glidepath.core.provision.offer import Kind, OwnerRules, PoolRules
from glidepath.core.provision.picture import Wanted
from glidepath.core.provision.pilot import PilotPhase, SiteState, Track
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Arriving, Need, Pressure, Reactive
from glidepath.core.provision.serve import Served, Service, shelves
from glidepath.core.provision.share import market
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, Shape, SiteName

ALICE, BOB, ANYONE = Owner("alice"), Owner("bob"), Owner("*")
OTHER, EAST = PoolName("another"), SiteName("east")
FULL = Resources(1000, 1024, 100_000)
FOUR = Resources(4000, 4096, 100_000)
A, B = OfferKey("west/a"), OfferKey("west/b")
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
PENDING, RUNNING = SiteState.PENDING, SiteState.RUNNING
STEADY = Steady(reserve_percent=0)


@dataclass
class Noted(Reactive):
    """A policy that wants what it is told to want, and notes what it was asked."""

    waiting: int = 0
    expects: int = 0
    beyond: bool = False  # type: ignore[misc]
    name: ClassVar[str] = "noted"
    needs: list[Need] = field(default_factory=list)
    arriving: list[Arriving] = field(default_factory=list)

    def expected(self, arriving: Arriving) -> int:
        self.arriving.append(arriving)
        return self.expects

    def pressure(self, need: Need) -> Pressure:
        self.needs.append(need)
        return Pressure(self.waiting, "as told")


def ago(seconds: int) -> Instant:
    return Instant(NOW - seconds)


def service_of(snap: Any, mem: Any = None, under: Any = None, policy: Any = STEADY) -> Service:
    under = under or rules()
    picture = picture_of(snap, mem, under)
    return Service(picture, under, policy, market(picture, under))


def served(*scene: Any, **more: Any) -> list[Served]:
    service = service_of(*scene, **more)
    return [service.serve(wanted) for wanted in service.picture.wanted]


def tracked(name: str, phase: PilotPhase, **more: Any) -> Track:
    row: dict[str, Any] = {"offer": A, "size": FULL, "since": ago(50), "asked_at": ago(100)}
    return a_track(phase, **{**row, "name": PilotName(name), **more})


def test_supply_is_what_is_free_on_its_way_or_late_and_nothing_that_leaves_or_is_unknown() -> None:
    def late(name: str, state: SiteState, asked_ago_s: int, key: str = "west/a") -> Any:
        return listed(name, state, key, asked_at=ago(asked_ago_s), since=ago(asked_ago_s))

    pilots = {
        "north": (late("north", PENDING, 99_999, "north/a"),),
        "west": (
            *(listed(name) for name in ("idle", "full", "told")),
            late("on-time", PENDING, 600),
            late("late", PENDING, 601),
            late("starting", RUNNING, 99_999),
            late("unknown", SiteState.UNKNOWN, 10),
            late("leaving", SiteState.LEAVING, 10),
            late("withdrawn", PENDING, 10),
        ),
    }
    tracks = (
        tracked("told", PilotPhase.IDLE, leaving="surplus"),
        tracked("withdrawn", PilotPhase.PENDING, leaving="surplus"),
    )
    under = rules(site("west", patience_s=600))
    snap = snapshot(pilots=pilots, slots=(slot("idle"), slot("full", 1), slot("told")))
    found = shelves(picture_of(snap, memory(tracks=tracks), under), under)
    own = (POOL, Kind(A, FULL))
    assert found.free.untouched() == {own: 1}
    # Of a site that is no longer configured nobody knows how patient to be.
    assert found.coming.untouched() == {own: 2, (POOL, Kind(OfferKey("north/a"), FULL)): 1}
    assert found.late.untouched() == {own: 1}
    assert found.opened.untouched() == {}


def test_a_pilot_without_any_room_is_no_place_even_for_a_job_that_asks_for_nothing() -> None:
    row = demand(of=Shape(Resources()))
    snap = snapshot((row,), pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),))
    (found,) = served(snap)
    assert found.reason.facts[:3] == (("idle", 1), ("free", 0), ("coming", 0))


@pytest.mark.parametrize("part", range(4))
def test_what_is_left_beside_a_claim_counts_if_it_is_enough_for_the_smallest_of_jobs(part: int) -> None:
    small = (1000, 1024, 100, 1)
    large = tuple(amount + 50 * (place == part) for place, amount in enumerate(small))
    rows = tuple(demand(of=Shape(Resources(*each))) for each in (small, large))
    size = Resources(9000, 9000, 9000, 9)
    pilots = {"west": (listed("p1", size=size),)}
    snap = snapshot(rows, pilots=pilots, slots=(slot("p1", 1, Resources(*small)),))
    answers = served(snap, under=rules(site("west", offer(size=size))))
    found = {each.wanted.demand.shape.request.as_tuple(): each.reason.facts[1] for each in answers}
    assert found == {small: ("free", 1), large: ("free", 0)}


def test_where_nothing_waits_what_is_left_beside_a_claim_is_not_surplus() -> None:
    half = slot("p1", 1, Resources(500, 512, 50_000))
    picture = picture_of(snapshot(pilots={"west": (listed("p1"),)}, slots=(half,)))
    assert shelves(picture, rules()).free.untouched() == {}


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        (0, [0]),
        (1, [0, 1]),
        (15, list(range(16))),
        (16, [0, 2, 4, 6, 8, 10, 12, 14, 16]),
        (17, [0, 2, 4, 6, 8, 10, 12, 14, 16, 17]),
        (31, [*range(0, 32, 2), 31]),
        (32, [*range(0, 33, 3), 32]),
    ],
)
def test_lives_are_told_apart_at_few_steps_that_begin_with_the_least_and_end_with_the_longest(
    stated: int, kept: list[int]
) -> None:
    """A step is kept if a pilot that has exactly so long to live counts for a job that runs as long."""
    steps_s = [300 + 100 * n for n in range(stated + 1)]
    rows = tuple(demand(run_s_max=run_s) for run_s in steps_s[1:])
    found = []
    for place, life_s in enumerate(steps_s):
        heard = (slot("p1", ends_at=Instant(NOW + life_s)),)
        picture = picture_of(snapshot(rows, pilots={"west": (listed("p1"),)}, slots=heard))
        free = shelves(picture, rules(left_s_min=300)).free
        found += [place] * free.take(POOL, [Kind(A, FULL)], (1000, 1024, 0, 0), jobs=1, run_s=life_s)
    assert found == kept


@pytest.mark.parametrize(
    ("left_s_min", "life_s", "run_s_max", "free"),
    [
        (300, 299, None, 0),
        (300, 300, None, 1),
        (300, 4999, 5000, 0),
        (300, 5000, 5000, 1),
        (300, 0, 1, 0),
        (300, 1, 1, 1),
        # One past its end of which its pool still hears has no room for anybody.
        (0, 0, None, 0),
        (0, 1, None, 1),
    ],
)
def test_a_free_pilot_counts_for_jobs_that_end_before_it_does(
    left_s_min: int, life_s: int, run_s_max: int | None, free: int
) -> None:
    heard = (slot("p1", ends_at=Instant(NOW + life_s)),)
    snap = snapshot((demand(run_s_max=run_s_max),), pilots={"west": (listed("p1"),)}, slots=heard)
    (found,) = served(snap, under=rules(left_s_min=left_s_min))
    assert found.reason.facts[1] == ("free", free)


@pytest.mark.parametrize(("run_s_max", "coming"), [(3600, 1), (3601, 0)])
def test_a_pilot_on_its_way_counts_for_jobs_that_its_whole_life_is_enough_for(
    run_s_max: int, coming: int
) -> None:
    under = rules(site("west", offer(lifetime_s=3600)))
    snap = snapshot((demand(run_s_max=run_s_max),), pilots={"west": (listed("p1", PENDING),)})
    (found,) = served(snap, under=under)
    assert found.reason.facts[2] == ("coming", coming)


@pytest.mark.parametrize(
    ("fits", "pools", "keys"),
    [
        (("west/a", "west/b"), (), [A, B]),
        (("west/a",), (), [A]),
        (("west/b",), (), [B]),
        (("west/a", "west/b"), (OTHER,), []),
        (("west/a", "west/b"), (OTHER, POOL), [A, B]),
        (("west/gone",), (), []),
    ],
)
def test_fixed_and_fitted_offers_serve_what_names_them_if_their_site_takes_the_pool(
    fits: tuple[str, ...], pools: tuple[PoolName, ...], keys: list[OfferKey]
) -> None:
    fitted = offer("west", "b", size=FOUR, size_min=Resources(500, 512))
    under = rules(site("west", offer("west", size=FOUR), fitted, pools=pools))
    kinds = service_of(snapshot(), under=under).kinds(demand(of=shape(2, 2048), fits=fits))
    sizes = {A: FOUR, B: Resources(2000, 2048)}
    assert [kind for _, kind in kinds] == [Kind(key, sizes[key]) for key in keys]


def test_late_pilots_are_spoken_for_while_others_are_asked_for_in_their_place() -> None:
    pilots = tuple(listed(f"p{n}", PENDING, asked_at=ago(901)) for n in range(3))
    service = service_of(snapshot((demand(idle=2),), pilots={"west": pilots}))
    found = service.serve(service.picture.wanted[0])
    assert (found.asked, service.shelves.late.untouched()) == (2, {(POOL, Kind(A, FULL)): 1})


def test_new_pilots_are_filled_by_those_they_are_asked_for_however_short_their_life() -> None:
    service = service_of(snapshot((TWO,)), under=rules(site("west", offer(lifetime_s=0))))
    found = service.serve(service.picture.wanted[0])
    assert (found.asked, service.shelves.opened.untouched()) == (2, {})


def numbers(idle: int, free: int = 0, coming: int = 0) -> tuple[Fact, ...]:
    return (("idle", idle), ("free", free), ("coming", coming))


def wants(waiting: int, rule: str = "as told") -> tuple[Fact, ...]:
    return (("wanted", waiting), ("rule", rule))


TWO = demand(idle=2)
QUEUED = tuple(listed(f"p{n}", PENDING) for n in range(3))
ONE_FREE = {"demands": (TWO,), "pilots": {"west": (listed("i1"),)}, "slots": (slot("i1"),)}
MORE_COMING = {**ONE_FREE, "pilots": {"west": (listed("i1"), *QUEUED)}}
FIVE_WAIT = {"demands": (demand(idle=5),), "pilots": {"west": QUEUED}}
THREE_WAIT = {"demands": (demand(idle=3),), "pilots": {"west": QUEUED}}
ONE_WAITS = {"demands": (demand(idle=1),)}
PAUSE = {"pauses": (Pause("pool:pool"),)}
LAZY, ENOUGH, KEEN = Noted(waiting=1), Noted(waiting=3), Noted(waiting=4)
LAVISH, SATED = Noted(waiting=5, beyond=True), Noted(waiting=1, beyond=True)
PRESSED = Because.ENOUGH_PRESSURE


@pytest.mark.parametrize(
    ("scene", "policy", "because", "facts", "asked", "uncovered"),
    [
        ({"demands": (demand(idle=0),)}, STEADY, Because.NOTHING_WAITS, numbers(0), 0, 0),
        ({"demands": (TWO,), "slots": UNSEEN}, STEADY, Because.POOL_UNSEEN, numbers(2), 0, 2),
        ({"demands": (demand(idle=2, fits=()),)}, STEADY, Because.NO_OFFER_FITS, numbers(2), 0, 2),
        ({**ONE_FREE, "demands": (demand(),)}, STEADY, Because.COVERED, numbers(1, 1), 0, 0),
        ({**ONE_FREE, "stopping": True}, STEADY, Because.STOPPING, numbers(2, 1), 0, 1),
        ({**ONE_FREE, **PAUSE}, STEADY, Because.POOL_PAUSED, numbers(2, 1), 0, 1),
        # Free ones first, then those on their way, and no more of these than still wait.
        (MORE_COMING, STEADY, Because.COVERED, numbers(2, 1, 1), 0, 0),
        # The policy wants fewer than are on their way, so many, or more.
        (FIVE_WAIT, LAZY, PRESSED, (*numbers(5, 0, 3), *wants(1)), 0, 2),
        (FIVE_WAIT, ENOUGH, PRESSED, (*numbers(5, 0, 3), *wants(3)), 0, 2),
        (FIVE_WAIT, KEEN, Because.ASKED, (*numbers(5, 0, 3), *wants(4), ("asked", 1)), 1, 1),
        # It may want more than jobs wait; then none of them is left uncovered.
        (THREE_WAIT, SATED, PRESSED, (*numbers(3, 0, 3), *wants(1)), 0, 0),
        (ONE_WAITS, LAVISH, Because.ASKED, (*numbers(1), *wants(5), ("asked", 5)), 5, 0),
    ],
)
def test_every_answer_tells_what_was_counted_and_how_many_jobs_it_leaves(
    scene: dict[str, Any], policy: Any, because: Because, facts: tuple[Fact, ...], asked: int, uncovered: int
) -> None:
    answer = Served(Wanted(scene["demands"][0]), Reason(because, facts), asked, uncovered)
    assert served(snapshot(**scene), policy=policy) == [answer]


def test_held_demand_asks_for_nothing_and_leaves_nothing_uncovered() -> None:
    held = Held(POOL, SEEN_BEFORE.source, ago(30), (TWO,))
    reason = Reason(Because.HELD_DEMAND, numbers(2))
    assert served(snapshot(UNSEEN), memory(held=(held,))) == [Served(Wanted(TWO, held=True), reason, 0, 0)]


def test_a_shape_that_fits_beside_newly_asked_pilots_says_so() -> None:
    """Pilots of four cores for jobs of three leave one each."""
    under = rules(site("west", offer(cpus=4)))
    rows = tuple(
        demand(idle=idle, of=of, oldest_at=ago(since_s))
        for idle, of, since_s in ((2, shape(3, 3072), 90), (2, shape(), 60), (5, shape(1, 1000), 30))
    )
    first, second, third = served(snapshot(rows), under=under)
    asked = (*numbers(2), *wants(2, "idle = 2"), ("asked", 2))
    assert first == Served(Wanted(rows[0]), Reason(Because.ASKED, asked), 2, 0)
    beside = (*numbers(2), *wants(1, "idle = 1"), ("beside_others", 2), ("asked", 0))
    assert second == Served(Wanted(rows[1]), Reason(Because.COVERED, beside), 0, 0)
    more = (*numbers(5), *wants(2, "idle = 2"), ("asked", 2))
    assert third == Served(Wanted(rows[2]), Reason(Because.ASKED, more), 2, 0)


AT_LIMIT, PAUSED = Because.AT_LIMIT.value, Because.PAUSED.value
NONE_LEFT, ONE_LEFT = limits(live_max=0), limits(live_max=1)


@pytest.mark.parametrize(
    ("scene", "because", "told", "asked"),
    [
        ({"pools": (PoolRules(POOL, NONE_LEFT),)}, Because.POOL_AT_LIMIT, (), 0),
        ({"limits": NONE_LEFT}, Because.POOL_AT_LIMIT, (), 0),
        ({"owners": (OwnerRules(ALICE, NONE_LEFT),)}, Because.OWNER_AT_LIMIT, (), 0),
        ({"sites": {"limits": NONE_LEFT}}, Because.NO_ROOM, (("first", f"west/a: {AT_LIMIT}"),), 0),
        ({"offers": {"limits": NONE_LEFT}}, Because.NO_ROOM, (("first", f"west/a: {AT_LIMIT}"),), 0),
        ({"pauses": (Pause("site:west"),)}, Because.NO_ROOM, (("first", f"west/a: {PAUSED}"),), 0),
        # Some of it was asked for: the offers tell the rest.
        ({"limits": ONE_LEFT}, Because.ASKED, (), 1),
        ({"owners": (OwnerRules(ALICE, ONE_LEFT),)}, Because.ASKED, (), 1),
        ({"sites": {"limits": ONE_LEFT}}, Because.ASKED, (), 1),
    ],
)
def test_what_no_limit_leaves_room_for_is_short_and_the_limit_is_told(
    scene: dict[str, Any], because: Because, told: tuple[Fact, ...], asked: int
) -> None:
    of_site, of_offer = scene.pop("sites", {}), scene.pop("offers", {})
    snap = snapshot((demand(idle=3),), pauses=scene.pop("pauses", ()))
    (found,) = served(snap, under=rules(site("west", offer(**of_offer), **of_site), **scene))
    facts = (*numbers(3), *wants(3, "idle = 3"), ("asked", asked), ("short", 3 - asked), *told)
    assert found == Served(Wanted(demand(idle=3)), Reason(because, facts), asked, 3 - asked)


def test_limits_that_wait_for_sites_never_seen_name_them() -> None:
    sites = tuple(site(name) for name in ("east", "north", "west"))
    mem = memory(unproven=(EAST, SiteName("north")))
    (found,) = served(snapshot((demand(idle=3),)), mem, rules(*sites, limits=limits(live_max=9)))
    told = (("asked", 0), ("short", 3), ("sites", "east,north"))
    assert found.reason == Reason(Because.SITES_UNPROVEN, (*numbers(3), *wants(3, "idle = 3"), *told))


@pytest.mark.parametrize(
    ("lifetime_s", "run_s_max", "of", "pauses", "because"),
    [
        (3720, 3600, shape(), (), Because.ASKED),
        (3719, 3600, shape(), (), Because.NO_OFFER_LASTS),
        (3720, 3600, shape(), (Pause("site:west"),), Because.NO_ROOM),
        (3719, 3600, shape(), (Pause("site:west"),), Because.NO_OFFER_LASTS),
        (0, None, shape(), (), Because.ASKED),
        # Its source says that it fits, and it does not.
        (3600, None, shape(2, 1024), (), Because.NO_OFFER_LASTS),
    ],
)
def test_an_offer_must_outlive_a_stated_run_time_by_the_slack(
    lifetime_s: int, run_s_max: int | None, of: Shape, pauses: tuple[Pause, ...], because: Because
) -> None:
    under = rules(site("west", offer(lifetime_s=lifetime_s)), slack_s=120)
    row = demand(of=of, run_s_max=run_s_max)
    (found,) = served(snapshot((row,), pauses=pauses), under=under)
    assert found.reason.because is because
    if because is Because.NO_OFFER_LASTS:
        told = Reason(because, (*numbers(1), ("run_s", run_s_max or 0), ("slack_s", 120)))
        assert (found, str(found.reason)) == (Served(Wanted(row), told, uncovered=1), str(told))


@pytest.mark.parametrize(
    ("of_a", "of_b", "jobs_each", "latency_s"),
    [
        ({}, {}, 4, 40),
        ({"weight": 900}, {}, 1, 90),
        # The best one has no room, or dies too early for these jobs.
        ({}, {"limits": NONE_LEFT}, 1, 90),
        ({}, {"lifetime_s": 60}, 1, 90),
    ],
)
def test_a_need_is_counted_in_pilots_of_the_best_offer_that_is_open_and_has_room(
    of_a: dict[str, Any], of_b: dict[str, Any], jobs_each: int, latency_s: int
) -> None:
    under = rules(site("west", offer("west", **of_a), offer("west", "b", cpus=4, **of_b)), slack_s=0)
    health = (Health("west/a", latency_s=90), Health("west/b", latency_s=40))
    policy = Noted()
    row = demand(idle=8, run_s_max=1800, fits=("west/a", "west/b"))
    served(snapshot((row,)), memory(health=health), under, policy)
    assert [(need.jobs_each, need.latency_s) for need in policy.needs] == [(jobs_each, latency_s)]
    assert [need.idle for need in policy.needs] == [8 // jobs_each]


def test_a_best_offer_whose_site_has_no_room_is_passed_over() -> None:
    east = site("east", offer("east", cpus=4, weight=900), limits=NONE_LEFT)
    policy = Noted()
    row = demand(idle=8, fits=("east/a", "west/a"))
    served(snapshot((row,), pilots={"east": (), "west": ()}), None, rules(east, site("west")), policy)
    assert [need.jobs_each for need in policy.needs] == [1]


@pytest.mark.parametrize(
    ("oldest_at", "oldest_s"), [(None, 0), (NOW + 5, 0), (NOW, 0), (NOW - 1, 1), (NOW - 60, 60)]
)
def test_a_policy_is_told_of_all_that_waits_comes_and_runs_in_pilots_worth(
    oldest_at: int | None, oldest_s: int
) -> None:
    def four(name: str, state: SiteState = RUNNING, **more: Any) -> Any:
        return listed(name, state, size=FOUR, **more)

    under = rules(
        site("west", offer("west", cpus=4), offer("west", "b")), pools=(PoolRules(POOL), PoolRules(OTHER))
    )
    pilots = (
        four("busy"),
        four("queued", PENDING),
        four("other", PENDING, pool=OTHER),
        listed("small", PENDING, "west/b"),
    )
    row: Demand = demand(idle=4, running=7, oldest_at=None if oldest_at is None else Instant(oldest_at))
    flow = Flow(POOL, shape(), None, 4, ago(900), risen=100)
    mem = memory(flows=(flow,), health=(Health("west/a", latency_s=180),), held=(SEEN_BEFORE,))
    policy = Noted(expects=3, beyond=True)
    free = slot("busy", 1, Resources(3000, 3072, 100_000))
    (found,) = served(snapshot((row,), pilots={"west": pilots}, slots=(free,)), mem, under, policy)
    counted = (("idle", 4), ("expected", 3), ("free", 3), ("coming", 4))
    assert found.reason.facts[:4] == counted
    assert policy.arriving == [Arriving(10, 10)]
    assert policy.needs == [
        Need(
            idle=1,
            coming=1,
            free=1,
            pending=1,
            idle_jobs=4,
            running_jobs=7,
            expected_jobs=3,
            jobs_each=4,
            oldest_s=oldest_s,
            latency_s=180,
        )
    ]


@pytest.mark.parametrize(("idle", "need"), [(4, (1, 1, 0)), (5, (2, 2, 0)), (8, (2, 2, 0)), (9, (3, 2, 0))])
def test_pilots_worth_are_rounded_up(idle: int, need: tuple[int, int, int]) -> None:
    under = rules(site("west", offer(cpus=4)))
    pilots = tuple(listed(f"p{n}", PENDING, size=FOUR) for n in range(2))
    policy = Noted(beyond=True)
    served(snapshot((demand(idle=idle),), pilots={"west": pilots}), None, under, policy)
    assert [(each.idle, each.coming, each.free) for each in policy.needs] == [need]


@pytest.mark.parametrize(
    ("risen", "pauses", "arriving"),
    [
        (20, (), [Arriving(2, 2)]),
        (9, (), []),
        (0, (), []),
        # Where nothing is open, nobody knows how long a pilot takes.
        (99_999, (Pause("site:west"),), []),
    ],
)
def test_a_policy_is_asked_about_jobs_to_come_only_where_some_come_while_a_pilot_starts(
    risen: int, pauses: tuple[Pause, ...], arriving: list[Arriving]
) -> None:
    flow = Flow(POOL, shape(), None, 1, ago(900), risen=risen)
    mem = memory(flows=(flow,), health=(Health("west/a", latency_s=180),), held=(SEEN_BEFORE,))
    policy = Noted(expects=7)
    served(snapshot((demand(idle=1),), pauses=pauses), mem, None, policy)
    assert policy.arriving == arriving


LIMITED = {"owners": (OwnerRules(ANYONE, limits(live_max=99)),)}


@pytest.mark.parametrize(
    ("owners", "more", "jobs", "asks"),
    [
        (((BOB, 3), (ALICE, 2)), {}, 5, {BOB: 5}),
        (((BOB, 3), (ALICE, 2)), LIMITED, 5, {BOB: 3, ALICE: 2}),
        (((BOB, 3), (ALICE, 2)), LIMITED, 4, {BOB: 3, ALICE: 1}),
        (((BOB, 2), (ALICE, 2), (Owner("carol"), 1)), LIMITED, 3, {BOB: 2, ALICE: 1}),
        (((BOB, 5),), LIMITED, 4, {BOB: 4}),
        ((), LIMITED, 4, {Owner(""): 4}),
        ((), {}, 4, {Owner(""): 4}),
    ],
)
def test_pilots_are_asked_for_in_the_name_of_most_or_of_all_where_owners_have_limits(
    owners: tuple[tuple[Owner, int], ...], more: dict[str, Any], jobs: int, asks: dict[Owner, int]
) -> None:
    service = service_of(snapshot((demand(idle=5, owners=owners),)), None, rules(**more), Noted(waiting=jobs))
    service.serve(service.picture.wanted[0])
    assert service.market.asks == {(POOL, Kind(A, FULL), owner): count for owner, count in asks.items()}
