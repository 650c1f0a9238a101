"""Faults: each alone does what its file says, for as long as it says, and is mended when it stops."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from glidepath.core.cycle import Done, Refused, Seen, Unseen, Unsure
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import PilotAction, SitePilot, SiteState, Slot
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, NodeName, OfferKey, PilotName
from glidepath.loop import Cycle, run_cycle
from glidepath.sim.fault import EFFECT_S_MAX, RATE_MAX, Act, Crash, Fault, Faults
from glidepath.sim.faults.clock_jumps import BOOT_ERROR_S, JUMP_S
from glidepath.sim.place import Matching
from glidepath.sim.run import Recorder, Run
from glidepath.sim.study import started
from glidepath.sim.world import START, World
from sim.small import (
    ONE,
    POOL,
    WEST,
    Calls,
    Scene,
    behaviour,
    job,
    rules,
    scenario,
    shape,
    site,
    submitted,
    world,
)

ALWAYS = RATE_MAX
TRIES = 200  # enough for what is drawn from a range to come near both of its ends


def alone(name: str, rate: int = ALWAYS, place: World | None = None) -> tuple[Faults, Scene]:
    scene = Scene(place or world())
    return Faults(scene, 1, {name: rate}), scene


def of(faults: Faults) -> Fault:
    (fault,) = faults.all
    return fault


def a_listing(pilots: int) -> SiteListing:
    return SiteListing(
        tuple(
            SitePilot(
                PilotName(f"p{n}"),
                OfferKey("west/a"),
                POOL,
                ONE,
                SiteState.RUNNING,
                Instant(START),
                Instant(START),
            )
            for n in range(pilots)
        )
    )


# Reads


def test_a_blind_read_fails_and_is_unseen_not_empty() -> None:
    run = started(scenario(job(), rates={"blind-reads": ALWAYS}), 1)
    cycle = run.turn()
    assert cycle is not None
    assert {type(sight) for sight in sights(cycle)} == {Unseen}
    assert run.faults.counts == {"blind-reads": 3}
    run.faults.stop()
    seen = run.turn()
    assert seen is not None
    assert {type(sight) for sight in sights(seen)} == {Seen}


def sights(cycle: Cycle[Snapshot, Memory, PilotAction]) -> list[Any]:
    snapshot = cycle.snapshot
    return [row[-1] for row in (*snapshot.demand, *snapshot.slots, *snapshot.sites)]


def test_a_stale_list_is_an_older_one_at_most_a_minute_old_and_only_sites_have_it() -> None:
    faults, scene = alone("stale-lists")
    told = []
    for number in range(40):
        scene.world.advance(START + number * 10)
        told.append(len(faults.read("list west", Calls(a_listing(number))).pilots))
    assert told[0] == 0
    assert all(number - 6 <= count < number for number, count in enumerate(told[1:], 1))
    # Also one that is older than what was shown before: a cache of several servers.
    assert any(later < earlier for earlier, later in itertools.pairwise(told))
    assert faults.read("slots pool", Calls(1)) == 1
    faults.stop()
    assert len(faults.read("list west", Calls(a_listing(41))).pilots) == 41


@pytest.mark.parametrize(
    ("door", "whole", "part_of"),
    [
        ("list west", a_listing(50), lambda answer: answer.pilots),
        (
            "slots pool",
            PoolSlots(tuple(Slot(PilotName(f"p{n}"), ONE, 0) for n in range(50))),
            lambda a: a.slots,
        ),
        (
            "demand pool s",
            DemandSight(tuple(Demand(POOL, shape(n), 1) for n in range(1, 51))),
            lambda a: a.demands,
        ),
    ],
    ids=["listing", "slots", "demand"],
)
def test_a_partial_page_is_a_first_part_and_says_so(
    door: str, whole: Any, part_of: Callable[[Any], Any]
) -> None:
    faults, _ = alone("partial-pages")
    answers = [faults.read(door, Calls(whole)) for _ in range(TRIES)]
    sizes = {len(part_of(answer)) for answer in answers}
    assert not any(answer.complete for answer in answers)
    assert all(part_of(answer) == part_of(whole)[: len(part_of(answer))] for answer in answers)
    assert (min(sizes), max(sizes)) == (0, 49)
    faults.stop()
    assert faults.read(door, Calls(whole)) is whole


@pytest.mark.parametrize(
    ("name", "door", "other", "span_s"),
    [
        ("collector-emptied", "slots pool", "demand pool s", (20, 300)),
        ("schedd-silence", "demand pool s", "slots pool", (30, 900)),
    ],
)
def test_a_door_that_falls_silent_does_so_for_a_while_and_alone(
    name: str, door: str, other: str, span_s: tuple[int, int]
) -> None:
    answer = PoolSlots((Slot(PilotName("p"), ONE, 0),))
    spans = []
    for seed in range(40):
        scene = Scene(world())
        # It strikes once; the second time it would, it is told to stop by its rate.
        faults = Faults(scene, seed, {name: ALWAYS})
        assert silent(faults, door, answer)
        faults.all[0].rate = 0
        assert not silent(faults, other, answer)
        assert not silent(faults, f"{door}2", answer)
        spans.append(next(s for s in range(2000) if not (moved(scene, s) and silent(faults, door, answer))))
    assert span_s[0] <= min(spans) < max(spans) <= span_s[1]
    faults, _ = alone(name)
    assert silent(faults, door, answer)
    faults.stop()
    assert not silent(faults, door, answer)


def moved(scene: Scene, seconds: int) -> bool:
    scene.world.advance(START + seconds)
    return True


def silent(faults: Faults, door: str, answer: Any) -> bool:
    try:
        return bool(faults.read(door, Calls(answer)) != answer)
    except ConnectionError:
        return True


# Acts


def test_a_lost_reply_leaves_a_pilot_and_an_unsure_outcome() -> None:
    run, cycle = first_submit("lost-replies")
    assert [type(did.outcome) for did in cycle.outcomes] == [Unsure]
    assert len(run.world.sites[WEST].pilots) == 1


def test_a_late_effect_leaves_an_unsure_outcome_and_the_pilot_comes_within_two_minutes() -> None:
    run, cycle = first_submit("late-effects")
    assert [type(did.outcome) for did in cycle.outcomes] == [Unsure]
    (name,) = (did.about for did in cycle.outcomes)
    assert name not in run.world.sites[WEST].pilots
    run.world.advance(run.world.now + 120)
    assert name in run.world.sites[WEST].pilots


def test_an_act_that_somebody_slept_over_is_not_late_by_that_much_more() -> None:
    faults, scene = alone("late-effects")
    for slept_s, within_s in ((0, EFFECT_S_MAX), (100, 20), (500, 1)):
        calls = Calls()
        with pytest.raises(TimeoutError):
            of(faults).act(Act("submit west", scene.world.now - slept_s), calls)
        scene.world.advance(scene.world.now + within_s)
        assert calls.count == 1


def test_what_is_late_and_comes_twice_has_come_twice_when_its_time_is_up() -> None:
    scene = Scene(world())
    faults = Faults(scene, 1, {"late-effects": ALWAYS, "duplicate-effects": ALWAYS})
    for _ in range(TRIES):
        calls = Calls()
        with pytest.raises(TimeoutError):
            faults.act("submit west", calls)
        scene.world.advance(scene.world.now + EFFECT_S_MAX + 1)
        assert calls.count == 2


def first_submit(fault: str) -> tuple[Run, Cycle[Snapshot, Memory, PilotAction]]:
    """One job waits; the cycle that asks for a pilot, and the run in the second in which it asked."""
    run = started(scenario(job(), rates={fault: ALWAYS}), 1)
    run.world.advance(START + 1)
    life = run.life
    return run, run_cycle(life.shell, Recorder(run, life), life.memory)


def test_a_duplicate_effect_happens_at_once_or_within_a_minute_and_the_answer_is_the_first() -> None:
    faults, scene = alone("duplicate-effects")
    at_once = 0
    for _ in range(TRIES):
        calls = Calls()
        assert faults.act("submit west", calls) == Done()
        at_once += calls.count == 2
        scene.world.advance(scene.world.now + 60)
        assert calls.count == 2
    assert 0.3 * TRIES < at_once < 0.7 * TRIES


def test_a_cut_quota_refuses_what_does_not_fit_and_comes_back() -> None:
    place = world(sites=(behaviour(quota=50),))
    for n in range(6):
        submitted(place, f"p{n}")
    faults, _ = alone("quota-cuts", place=place)
    faults.step()
    quota = place.sites[WEST].quota
    assert quota is not None
    assert quota <= 5
    calls = Calls()
    assert faults.act("submit west", calls) == Refused(f"quota exceeded: 6 of {quota}")
    assert faults.act("remove west", calls) == Done()
    assert calls.count == 1
    faults.stop()
    assert (place.sites[WEST].quota, faults.act("submit west", calls)) == (50, Done())


def test_a_crash_comes_before_or_after_the_effect_and_of_each_write() -> None:
    told = {died(Faults(Scene(world()), seed, {"crashes": 500})) for seed in range(TRIES)}
    assert told == {
        ("before submit west", 0),
        ("after submit west", 1),
        ("before the plan is written", 0),
        ("after the plan is written", 1),
    }


def died(faults: Faults) -> tuple[str, int]:
    """The first crash, and how often what it struck took effect."""
    for number in range(50):
        calls = Calls()
        try:
            if number % 2:
                faults.record("the plan is written", calls)
            else:
                faults.act("submit west", calls)
        except Crash as crash:
            return str(crash), calls.count
    raise AssertionError("nothing crashed")


def test_a_controller_that_crashes_goes_on_with_what_the_journal_says() -> None:
    run = started(scenario(job(), job(1), rates={"crashes": 300}), 3)
    for _ in range(60):
        run.turn()
    assert run.crashes > 5
    assert run.lives == run.crashes + 1
    run.faults.stop()
    for _ in range(100):
        run.turn()
    assert (run.world.jobs_left, run.watch.broken) == (0, [])


def test_a_leader_that_sleeps_is_supplanted_and_the_call_on_the_wire_still_goes_out() -> None:
    faults, scene = alone("leader-paused")
    calls = Calls()
    assert (faults.act("submit west", calls), calls.count, scene.told) == (Done(), 1, ["supplanted"])


def test_who_was_supplanted_does_nothing_more_and_is_not_believed() -> None:
    jobs = [job(n * 12, 30) for n in range(60)]
    brief = rules(site(idle_s=20, repeat_s=0))
    run = started(scenario(*jobs, under=brief, rates={"leader-paused": 300}), 2)
    for _ in range(100):
        run.turn()
    assert run.faults.counts["leader-paused"] > 3
    # Who leads while another sleeps does not fall asleep as well; such strikes are counted and do nothing.
    assert 10 < run.lives <= 1 + run.faults.counts["leader-paused"]
    assert run.watch.broken == []


# The store and the clock


def test_a_full_store_stays_full_for_minutes_and_nothing_is_written_meanwhile() -> None:
    faults, scene = alone("store-full")
    calls = Calls()
    with pytest.raises(OSError) as error:
        faults.record("the plan is written", calls)
    assert (error.value.errno, calls.count) == (errno.ENOSPC, 0)
    of(faults).rate = 0
    spans = [s for s in range(400) if moved(scene, s) and not full(faults, calls)]
    assert 10 <= spans[0] <= 200
    assert len(spans) == 400 - spans[0]
    of(faults).rate = ALWAYS
    assert full(faults, calls)
    faults.stop()
    assert not full(faults, calls)


def full(faults: Faults, calls: Calls) -> bool:
    try:
        faults.record("the plan is written", calls)
    except OSError:
        return True
    return False


def test_with_the_store_full_nothing_is_asked_for() -> None:
    run = started(scenario(job(), rates={"store-full": ALWAYS}), 1)
    for _ in range(30):
        cycle = run.turn()
        assert cycle is not None
        assert cycle.unrecorded
    assert run.world.ledger.asked == 0


def test_the_wall_clock_jumps_by_up_to_a_day_or_the_machine_boots_a_minute_off() -> None:
    faults, scene = alone("clock-jumps")
    for _ in range(TRIES):
        faults.step()
    jumps = [by for what, by in scene.told if what == "wall"]
    boots = [by for what, by in scene.told if what == "reboot"]
    assert -JUMP_S <= min(jumps) < -0.9 * JUMP_S < 0.9 * JUMP_S < max(jumps) <= JUMP_S
    assert -BOOT_ERROR_S <= min(boots) < 0 < max(boots) <= BOOT_ERROR_S
    assert 0.1 * TRIES < len(boots) < 0.5 * TRIES
    faults.stop()
    assert scene.told[-1] == ("wall", 0)


def test_the_steady_clock_of_the_controller_does_not_follow_the_wall() -> None:
    run = started(scenario(job()), 1)
    run.set_wall(90_000)
    cycle = run.turn()
    assert cycle is not None
    assert (cycle.snapshot.now, run.life.clock.wall()) == (START, START + 10 + 90_000)


# Pilots, nodes and users


def test_slow_and_failing_starts_change_how_a_pilot_comes_up() -> None:
    slow, _ = alone("slow-starts")
    failing, _ = alone("failing-starts")
    pilot = submitted(world())
    boots = set()
    for _ in range(TRIES):
        slow.start(pilot)
        boots.add(pilot.boot_s)
    assert 60 <= min(boots) < 90 < 560 < max(boots) <= 600
    assert not pilot.fails
    failing.start(pilot)
    assert pilot.fails


def test_a_third_of_the_nodes_at_most_goes_bad_and_all_are_mended() -> None:
    place = world(nodes=9)
    faults, _ = alone("black-hole-nodes", place=place)
    place.starts = faults.start
    for _ in range(50):
        faults.step()
    assert len(place.sites[WEST].bad_nodes) == 3
    pilots = [submitted(place, f"p{n}") for n in range(60)]
    place.advance(START + 30)
    bad = [pilot for pilot in pilots if pilot.bad]
    assert {pilot.node for pilot in bad} == place.sites[WEST].bad_nodes
    assert {pilot.state for pilot in bad} == {SiteState.RUNNING, SiteState.FAILED}  # Half of them never join.
    assert {pilot.state for pilot in pilots if not pilot.bad} == {SiteState.RUNNING}
    faults.stop()
    assert (place.sites[WEST].bad_nodes, [p for p in pilots if p.bad]) == (set[NodeName](), [])


def test_a_black_hole_user_is_one_who_waits_and_only_for_a_while() -> None:
    place = world([job(owner="ann"), job(owner="eve")], pool=Matching(POOL, 1000))
    faults, _ = alone("black-hole-users", place=place)
    faults.step()
    assert place.deadly_owners == set()  # Nobody waits yet.
    place.advance(START + 5)
    faults.step()
    assert len(place.deadly_owners & {"ann", "eve"}) == 1
    of(faults).rate = 0
    for _ in range(TRIES):
        faults.step()
    assert place.deadly_owners == set()
    of(faults).rate = ALWAYS
    faults.step()
    faults.stop()
    assert place.deadly_owners == set()


def test_an_eviction_takes_a_running_pilot_and_some_sites_forget_it() -> None:
    place = world()
    pilots = [submitted(place, f"p{n}") for n in range(60)]
    faults, _ = alone("evictions", place=place)
    faults.step()
    assert all(pilot.live for pilot in pilots)  # None runs yet; there is nothing to take.
    place.advance(START + 30)
    for _ in range(60):
        faults.step()
    assert {(pilot.state, pilot.note) for pilot in pilots} == {(SiteState.FAILED, "evicted")}
    assert 15 < len(place.sites[WEST].pilots) < 45
