"""The made-up world by itself: pilots start, join, work and leave as real ones do; every second is booked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.core.cycle import Done, Refused
from glidepath.core.provision.offer import Limits, OwnerRules, PoolRules
from glidepath.core.provision.pilot import SiteState
from glidepath.core.quantity import NodeName, Owner, PilotName, Resources
from glidepath.sim.place import Matching
from glidepath.sim.score import CAUSES
from glidepath.sim.study import started
from glidepath.sim.world import BAD_JOB_S, START, TRIES_MAX, World
from sim.small import (
    POOL,
    WEST,
    behaviour,
    job,
    rules,
    scenario,
    shape,
    site,
    spec,
    submitted,
    target,
    world,
)


def after(place: World, seconds: int) -> World:
    place.advance(START + seconds)
    return place


def states(place: World) -> dict[str, str]:
    return {name: pilot.state.value for name, pilot in place.sites[WEST].pilots.items()}


def listed(place: World) -> list[str]:
    return [pilot.name for pilot in place.listing(WEST)]


# Starting


def test_start_delays_fill_the_span_that_the_site_states() -> None:
    place = world(start_s=(30, 300))
    pilots = [submitted(place, f"p{n}") for n in range(300)]
    after(place, 1000)
    delays = sorted(pilot.started_at - START for pilot in pilots)
    assert 30 <= delays[0] < 45
    assert 285 < delays[-1] <= 300
    assert 140 < delays[150] < 190


def test_a_pilot_is_pending_then_starting_then_in_its_pool() -> None:
    place = world(start_s=(20, 20), boot_s=(7, 7))
    submitted(place)
    seen = []
    for second in (0, 19, 20, 26, 27):
        after(place, second)
        seen.append((place.listing(WEST)[0].state.value, len(place.slots(POOL))))
    assert seen == [("pending", 0), ("pending", 0), ("running", 0), ("running", 0), ("running", 1)]


def test_the_quota_lets_so_many_run_and_the_next_start_when_one_leaves() -> None:
    place = world(quota=2)
    for n in range(4):
        submitted(place, f"p{n}")
    after(place, 50)
    assert states(place) == {"p0": "running", "p1": "running", "p2": "pending", "p3": "pending"}
    place.end(place.sites[WEST].pilots[PilotName("p0")], SiteState.ENDED, "over")
    assert states(place) == {"p0": "ended", "p1": "running", "p2": "running", "p3": "pending"}
    place.set_quota(place.sites[WEST], 1)
    assert states(place)["p1"] == "running"  # A smaller quota ends nobody; it only lets no more start.
    place.set_quota(place.sites[WEST], None)
    assert states(place)["p3"] == "running"


def test_so_many_of_a_thousand_starts_fail() -> None:
    place = world(failing=200)
    for n in range(500):
        submitted(place, f"p{n}")
    after(place, 100)
    ends = Counter(states(place).values())
    assert 60 < ends["failed"] < 140
    assert ends["failed"] + ends["running"] == 500


def test_a_node_that_is_to_be_avoided_gets_no_pilot() -> None:
    place = world(nodes=3)
    pilots = [submitted(place, f"p{n}", avoid=(NodeName("west-n0"), NodeName("west-n2"))) for n in range(20)]
    after(place, 50)
    assert {pilot.node for pilot in pilots} == {"west-n1"}


# What can be seen


@pytest.mark.parametrize("lag_s", [0, 30])
def test_a_listing_trails_the_truth_by_its_lag(lag_s: int) -> None:
    place = world(lag_s=lag_s, start_s=(500, 500))
    submitted(place)
    if lag_s:
        assert listed(after(place, lag_s - 1)) == []
    assert listed(after(place, lag_s)) == ["p1"]
    assert place.withdraw(WEST, target()) == Done()
    if lag_s:
        assert listed(after(place, 2 * lag_s - 1)) == ["p1"]
    assert listed(after(place, 2 * lag_s)) == []


def test_what_has_not_changed_is_the_same_object_again() -> None:
    place = world([job(), job(1, cpus=2)])
    submitted(place)
    after(place, 25)
    queue = place.pools[POOL].queues[0]
    assert place.listing(WEST) is place.listing(WEST)
    assert place.slots(POOL) is place.slots(POOL)
    assert queue.demands(()) is queue.demands(())


def test_the_controller_sees_times_on_its_own_timeline() -> None:
    run = started(scenario(job()), 1)
    run.turn()
    run.turn()
    run.reboot(50)
    cycle = run.turn()
    assert cycle is not None
    (listing,) = (sight.value for _, sight in cycle.snapshot.sites)  # type: ignore[union-attr]
    truth = run.world.sites[WEST].pilots
    assert cycle.snapshot.now > run.world.now
    assert [p.asked_at - truth[p.name].asked_at for p in listing.pilots] == [50]


# Matching


def start_times(place: World, until: int) -> list[int]:
    """The seconds in which jobs began, by watching every single one."""
    begun: list[int] = []
    for second in range(place.now - START, until):
        before = place.ledger.waits.total()
        after(place, second)
        begun += [second] * (place.ledger.waits.total() - before)
    return begun


def test_jobs_start_only_when_the_negotiator_comes_round() -> None:
    place = world([job(at, run_s=1) for at in range(100, 400, 7)], pool=Matching(POOL, 60))
    for n in range(20):
        submitted(place, f"p{n}", idle_s=1000)
    times = start_times(place, 500)
    assert len(times) == 43
    assert len({second % 60 for second in times}) == 1


def test_a_slot_that_is_reused_takes_the_next_job_of_the_same_owner_and_shape_at_once() -> None:
    jobs = [job(0, 5, owner="ann"), job(0, 5, owner="ann"), job(0, 5, owner="ben"), job(0, 5, owner="ben")]
    place = world(jobs, pool=Matching(POOL, 60, reuse=True))
    after(place, 10)
    place.submit(replace(spec(), size=Resources(1000, 4096)))
    times = start_times(place, 200)
    assert times[1] - times[0] == 5
    assert times[2] > times[1] + 5  # Another owner has to wait for the negotiator.


@pytest.mark.parametrize(
    ("given_job", "starts"),
    [
        (job(), True),
        (job(cpus=2), False),
        (job(shape=shape(arch="arm64")), False),
        (job(shape=shape(arch="x86_64")), True),
        (job(run_s_max=3500), True),
        (job(run_s_max=3700), False),
    ],
    ids=["fits", "too large", "other trait", "same trait", "short enough", "outlives the pilot"],
)
def test_a_job_starts_only_where_it_fits(given_job: Any, starts: bool) -> None:
    place = world([given_job])
    submitted(place, traits=(("arch", "x86_64"),), idle_s=600)
    after(place, 90)
    assert place.waiting == (not starts)


def test_many_jobs_share_a_pilot_until_it_is_full() -> None:
    place = world([job() for _ in range(6)])
    submitted(place, cpus=4)
    (slot,) = after(place, 60).slots(POOL)
    assert (slot.claims, slot.free.cpu_milli, place.waiting) == (4, 0, 2)


def test_the_jobs_of_one_owner_are_all_in_one_schedd_and_owners_are_spread() -> None:
    jobs = [job(owner=f"u{n % 20}") for n in range(100)]
    place = after(world(jobs, pool=Matching(POOL, 1000, sources=3)), 1)
    owners = [
        {one.owner for group in queue.groups.values() for one in group.waiting}
        for queue in place.pools[POOL].queues
    ]
    assert sum(map(len, owners)) == len(set().union(*owners)) == 20
    assert all(owners)


# Leaving


def test_a_pilot_leaves_when_its_lifetime_is_over_and_gives_its_job_back() -> None:
    place = world([job(run_s=1000)])
    pilot = submitted(place, lifetime_s=200)
    after(place, 219)
    assert (pilot.live, place.waiting) == (True, 0)
    after(place, 220)
    assert (pilot.state, pilot.note, place.waiting) == (SiteState.ENDED, "its lifetime was over", 1)


def test_a_pilot_without_a_job_leaves_after_its_idle_limit_and_work_starts_the_count_anew() -> None:
    idle, worked = world(), world([job(50, 100)])
    one, other = submitted(idle, idle_s=120), submitted(worked, idle_s=120)
    assert [after(idle, second) and one.live for second in (139, 140)] == [True, False]
    after(worked, 1000)
    begun = 50 + max(worked.ledger.waits)
    assert other.since - START == begun + 100 + 120


def test_a_drained_pilot_finishes_what_it_has_takes_nothing_new_and_leaves() -> None:
    place = world([job(run_s=300), job(200)])
    pilot = submitted(place, cpus=2)
    after(place, 60)
    assert place.drain(WEST, target()) == Done()
    after(place, 250)
    assert (pilot.live, len(pilot.jobs), place.waiting) == (True, 1, 1)
    after(place, 400)
    assert (pilot.state, pilot.note, pilot.jobs_run, place.waiting) == (SiteState.ENDED, "drained", 1, 1)


def test_a_drained_pilot_without_a_job_leaves_within_seconds_and_a_pending_one_at_once() -> None:
    place = world()
    pilot, pending = submitted(place), submitted(place, "p2", at="west")
    after(place, 19)
    place.drain(WEST, target("p2"))
    assert pending.note == "withdrawn"
    after(place, 40)
    place.drain(WEST, target())
    assert [after(place, second) and pilot.live for second in (41, 42)] == [True, False]


def test_an_eviction_gives_the_job_back_until_it_has_been_lost_too_often() -> None:
    place = world([job(run_s=10_000)], start_s=(0, 0))
    for lost in range(TRIES_MAX + 1):
        pilot = submitted(place, f"p{lost}")
        after(place, 40 * (lost + 1))
        assert len(pilot.jobs) == 1
        place.end(pilot, SiteState.FAILED, "evicted")
        assert place.waiting == (lost < TRIES_MAX)
    assert place.jobs_left == 0
    assert place.ledger.waits.total() == 1  # It began to wait once, however often it had to wait again.


def test_a_bad_node_fails_every_job_within_seconds_and_the_job_is_queued_again() -> None:
    place = world([job(run_s=500)], nodes=1)
    place.sites[WEST].bad_nodes.add(NodeName("west-n0"))
    pilot = submitted(place)
    times = start_times(place, 300)
    assert (times[1:], pilot.jobs_failed, pilot.jobs_run) == ([], TRIES_MAX + 1, TRIES_MAX + 1)
    assert place.ledger.waste_s["black hole"] == 0  # Booked when the pilot leaves.
    after(place, 2000)
    assert place.ledger.waste_s["black hole"] == (TRIES_MAX + 1) * BAD_JOB_S


def test_a_deadly_job_takes_its_pilot_and_the_jobs_beside_it_down_and_is_gone() -> None:
    place = world([job(run_s=50, owner="eve"), job(run_s=500)])
    place.deadly_owners.add("eve")
    pilot = submitted(place, cpus=2)
    after(place, 120)
    assert (pilot.state, pilot.note) == (SiteState.FAILED, "killed by a job")
    assert (place.waiting, place.jobs_left) == (1, 1)


# Acts


def test_the_same_name_twice_is_one_pilot_and_for_something_else_it_is_refused() -> None:
    place = world()
    assert place.submit(spec()) == Done()
    assert place.submit(spec()) == Done("it was there")
    assert place.submit(spec(cpus=2)) == Refused("another pilot has this name")
    assert (len(place.sites[WEST].pilots), place.ledger.asked) == (1, 1)


@pytest.mark.parametrize(
    ("at_s", "answer", "there"),
    [(10, Done(), False), (30, Refused("it has started"), True), (900, Done("it had ended"), True)],
    ids=["pending", "running", "ended"],
)
def test_only_a_pending_pilot_can_be_withdrawn(at_s: int, answer: Any, there: bool) -> None:
    place = world()
    submitted(place, idle_s=100)
    after(place, at_s)
    assert (place.withdraw(WEST, target()), PilotName("p1") in place.sites[WEST].pilots) == (answer, there)


def test_acts_on_what_is_not_there_are_done() -> None:
    place = world()
    assert [place.withdraw(WEST, target()), place.remove(WEST, target()), place.drain(WEST, target())] == [
        Done("it is not there"),
        Done("it is not there"),
        Done("it is gone"),
    ]


def test_removing_a_pilot_that_lives_is_told_as_broken_and_one_that_ended_is_cleared() -> None:
    place = world([job(run_s=500)])
    submitted(place, "over", idle_s=1, at="west")
    place.drain(WEST, target("over"))
    assert place.remove(WEST, target("over")) == Done()
    assert place.ledger.broken == []
    submitted(place)
    after(place, 60)
    place.remove(WEST, target())
    assert place.ledger.broken == [
        "unknown is not gone: p1 was removed while it was alive",
        "never kill: p1 was removed with 1 jobs",
    ]
    assert (states(place), place.waiting) == ({}, 1)


# The same again


def story(seed: int) -> list[Any]:
    """All that can be seen of one world, with nobody steering it."""
    place = world([job(n, 60 + n) for n in range(0, 300, 9)], seed=seed, start_s=(5, 90), failing=100)
    rows: list[Any] = []
    for second in range(0, 900, 30):
        if second < 300:
            submitted(place, f"p{second}", cpus=2)
        after(place, second)
        rows.append((place.listing(WEST), place.slots(POOL), place.waiting))
    return rows


def test_the_same_seed_is_the_same_world_and_another_seed_another() -> None:
    assert story(1) == story(1)
    assert story(1) != story(2)


# The books


def test_every_limit_on_living_pilots_is_counted_in_the_world_itself() -> None:
    most = Limits(live_max=1)
    under = rules(site(limits=most), limits=most, pools=(PoolRules(POOL, limits=most),))
    place = world(under=under)
    submitted(place, "p1")
    assert place.ledger.broken == []
    submitted(place, "p2")
    assert place.ledger.broken == [
        f"cap: {scope} has 2 live pilots, live_max is 1" for scope in ("overall", "site west", "pool pool")
    ]
    for n in (1, 2):
        place.withdraw(WEST, target(f"p{n}"))
    submitted(place, "p3")
    assert place.ledger.broken_count == 3


def hours_by_cause(place: World) -> dict[str, int]:
    return {cause: place.ledger.waste_s[cause] for cause in CAUSES if place.ledger.waste_s[cause]}


@pytest.mark.parametrize(
    ("jobs", "end", "booked", "busy_s"),
    [
        ([], "idle", {"starting": 20, "unclaimed": 300}, 0),
        ([], "withdraw", {"withdrawn": 10}, 0),
        ([], "fail", {"failed": 20}, 0),
        ([job(run_s=80)], "idle", {"starting": 20, "unclaimed": 300}, 80),
        ([job(run_s=500)], "evict", {"starting": 20, "lost": 100}, 0),
    ],
    ids=["never claimed", "withdrawn", "failed to start", "one job", "evicted at work"],
)
def test_the_hours_of_a_pilot_are_booked_by_cause(
    jobs: list[Any], end: str, booked: dict[str, int], busy_s: int
) -> None:
    # The negotiator is there in every second, so that a job starts when the pilot joins.
    place = world(jobs, pool=Matching(POOL, 1), failing=1000 if end == "fail" else 0)
    pilot = submitted(place)
    after(place, 10)
    if end == "withdraw":
        place.withdraw(WEST, target())
    if end == "evict":
        begun = next(second for second in range(10, 60) if after(place, second) and pilot.jobs)
        after(place, begun + 100)
        place.end(pilot, SiteState.FAILED, "evicted")
        booked = {**booked, "unclaimed": begun - 20}
    after(place, 2000)
    idle_first_s = hours_by_cause(place).get("unclaimed", 0) - booked.get("unclaimed", 0)
    assert 0 <= idle_first_s <= 2
    found = {cause: s for cause, s in hours_by_cause(place).items() if cause != "unclaimed"}
    assert found == {cause: s for cause, s in booked.items() if cause != "unclaimed" and s}
    assert place.ledger.busy_s == busy_s
    assert (place.ledger.asked, place.ledger.unused) == (1, int(busy_s == 0))


def test_the_price_of_a_pilot_is_paid_from_its_start() -> None:
    place = world(under=rules(site(price_milli=720)), start_s=(20, 20))
    submitted(place, idle_s=100)
    after(place, 1000)
    assert place.ledger.cost_micro == 720 * 1000 * 100 // 3600


def test_waits_are_counted_from_the_arrival_to_the_first_start() -> None:
    place = world([job(0, 10), job(100, 10)], pool=Matching(POOL, 1), start_s=(50, 50))
    submitted(place, idle_s=500)
    after(place, 400)
    result = place.ledger.result(scenario="s", policy="p", seed=1, cycles=0, span_s=400)
    assert result.waits_s[0] in (0, 1)
    assert result.waits_s[1] in (50, 51)
    assert (result.score.jobs, result.score.started) == (2, 2)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    cpus=st.sampled_from([1, 2, 3]),
    run_s=st.integers(1, 400),
    failing=st.sampled_from([0, 300]),
    quota=st.sampled_from([None, 3]),
    ends=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["evict", "drain", "bad"])), max_size=6),
)
def test_every_second_of_every_pilot_is_booked_once(
    seed: int, cpus: int, run_s: int, failing: int, quota: int | None, ends: list[tuple[int, str]]
) -> None:
    place = world(
        [job(n * 11, run_s, owner=f"u{n % 3}") for n in range(40)],
        seed=seed,
        start_s=(0, 120),
        boot_s=(0, 20),
        failing=failing,
        quota=quota,
        nodes=4,
    )
    pilots = [submitted(place, f"p{n}", cpus=cpus, lifetime_s=900, idle_s=150) for n in range(10)]
    for number, (who, what) in enumerate(ends):
        after(place, 60 * (number + 1))
        if what == "evict":
            place.end(pilots[who], SiteState.FAILED, "evicted")
        elif what == "drain":
            place.drain(WEST, target(f"p{who}"))
        else:
            place.sites[WEST].bad_nodes.add(NodeName(f"west-n{who % 4}"))
    after(place, 20_000)
    lived_s = sum(pilot.since - pilot.asked_at for pilot in pilots)
    booked_s = sum(place.ledger.waste_s.values()) + place.ledger.busy_s
    assert not any(pilot.live for pilot in pilots)
    # Claimed and unclaimed parts of a pilot with several cores are each rounded down to whole seconds.
    rounded_s = 0 if cpus == 1 else 2 * len(pilots)
    assert 0 <= lived_s - booked_s <= rounded_s
    assert min(place.ledger.waste_s.values(), default=0) >= 0
    assert place.ledger.busy_s >= 0
    assert +place.ledger.live == Counter()


@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), jobs=st.integers(1, 40), failing=st.sampled_from([0, 200]))
def test_the_controllers_own_ledger_adds_up_over_small_runs(seed: int, jobs: int, failing: int) -> None:
    run = started(
        scenario(
            *(job(n * 5, 40 + n, owner=f"u{n % 3}") for n in range(jobs)),
            sites=(behaviour(failing=failing, start_s=(0, 100)),),
            rates={"evictions": 30, "late-effects": 50},
        ),
        seed,
    )
    for _ in range(150):
        run.turn()
    assert run.watch.broken == []
    assert len(run.watch.recorded) > 0


def test_owners_without_a_rule_of_their_own_fall_under_that_of_everyone() -> None:
    under = rules(owners=(OwnerRules(Owner("*"), Limits(live_max=1)),))
    place = world(under=under)
    for n, owner in enumerate(("ann", "ben", "ann", "", "")):
        submitted(place, f"p{n}", owner=Owner(owner))
    assert place.ledger.broken == ["cap: owner ann has 2 live pilots, live_max is 1"]
