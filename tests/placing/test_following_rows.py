"""What is kept from turn to turn is what would be read or made anew: the roll, live rows, told plans."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from placing_world import T0, PlacingWorld, a_spec
from sqlalchemy import delete, update

from glidepath.core.place.record import Phase, Record
from glidepath.core.place.roll import Roll, roll_of
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.job import Place
from glidepath.journal import live, told
from glidepath.journal.live import LiveJobs
from glidepath.store.job_rows import jobs
from glidepath.store.placed_rows import placed

STEPS = 300
PHASES = (Phase.WAITS, Phase.WAITS, Phase.STARTING, Phase.RUNNING, Phase.ENDING)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path)
    yield made
    made.close()


def a_record(number: int, phase: Phase, *, cancelled: bool = False) -> Record:
    spec = a_spec()
    places = (Place(NodeName("n1")),) if phase is not Phase.WAITS else ()
    asked = spec.asked(number, Instant(T0 + number), 600)
    return Record(number, asked, spec.work, phase, 1, places=places, cancelled=cancelled)


def test_a_roll_that_follows_is_the_roll_that_would_be_made_anew() -> None:
    draw, roll, records = random.Random(11), Roll(), dict[int, Record]()
    for _ in range(STEPS):
        changes: dict[int, Record | None] = {}
        for number in draw.sample(range(1, 40), draw.randint(0, 4)):
            fresh = a_record(number, draw.choice(PHASES), cancelled=draw.random() < 0.1)
            changes[number] = draw.choice((None, fresh, fresh, records.get(number)))
        roll = roll.after(changes)
        for number, one in changes.items():
            records.pop(number, None)
            if one is not None:
                records[number] = one
        anew = roll_of(records.values())
        assert roll == anew
        assert list(roll.records) == sorted(records)
        assert list(roll.waiting) == list(anew.waiting)
        assert list(roll.started) == list(anew.started)


def test_what_did_not_change_is_the_same_value() -> None:
    roll = roll_of(a_record(number, phase) for number, phase in enumerate(PHASES, 1))
    same = roll.after({1: roll.records[1], 9: None})
    for name in ("records", "waiting", "started", "keys"):
        assert getattr(same, name) is getattr(roll, name)
    other = roll.after({1: replace(roll.records[1], losses=1)})
    assert other.started is roll.started
    assert other.keys is roll.keys


def test_live_rows_are_what_a_new_reader_finds(world: PlacingWorld) -> None:
    here = LiveJobs(world.store, ("here", "endless"))
    draw = random.Random(5)
    for step in range(30):
        for _ in range(draw.randint(0, 3)):
            world.submit(cpus=draw.randint(1, 4), run_s_max=draw.choice((20, 300)))
        waiting = list(here.read().waiting)
        if waiting and step % 3 == 0:
            world.jobs.cancel(draw.choice(waiting))
        world.turn(after_s=draw.choice((1, 30)))
        found, fresh = here.read(), LiveJobs(world.store, ("here", "endless"))
        assert found == fresh.read()
        assert here.promises() == fresh.promises()


def test_rows_that_changed_without_a_word_are_found_in_the_end(world: PlacingWorld) -> None:
    now = [0.0]
    for _ in range(3):
        world.submit()
    here = LiveJobs(world.store, ("here",), steady=lambda: now[0])
    assert list(here.read().records) == [1, 2, 3]
    with world.store.write() as conn:
        conn.execute(update(placed).where(placed.c.job == 2).values(limit_s=77))
        conn.execute(delete(placed).where(placed.c.job == 3))
        conn.execute(delete(jobs).where(jobs.c.id == 3))
    assert here.read().records[2].job.limit_s == 3600, "nobody told"
    now[0] += live.ANEW_S_MAX
    here.read()
    now[0] += live.ANEW_S_MAX
    found = here.read()
    assert found == LiveJobs(world.store, ("here",)).read()
    assert found.records[2].job.limit_s == 77
    assert list(found.records) == [1, 2]


def test_each_plan_can_be_read_again_as_it_was_told(world: PlacingWorld) -> None:
    draw, plans = random.Random(3), world.recorder.journal._plans
    said: dict[int, Counter[told.Line]] = {}
    for _ in range(2 * told.WHOLE_EVERY + 5):
        if draw.random() < 0.7:
            world.submit(cpus=draw.randint(1, 4), run_s_max=600)
        cycle = world.turn(after_s=draw.choice((1, 20, 200)))
        said[plans.row] = Counter(told.line_of(one) for one in cycle.plan.decisions)
    with world.store.read() as conn:
        assert {row: plans.lines(conn, row) for row in said} == said
        with pytest.raises(LookupError, match="is not kept"):
            plans.lines(conn, max(said) + 1)
    assert len(said) > told.WHOLE_EVERY


def test_a_new_life_tells_its_first_plan_whole(world: PlacingWorld) -> None:
    world.submit(cpus=4)
    world.submit(cpus=4)
    world.submit(cpus=4)
    world.turns(3)
    world.live()
    cycle = world.turn()
    plans = told.ToldPlans("lab")
    with world.store.read() as conn:
        found = plans.lines(conn, world.recorder.journal._plans.row)
    assert found == Counter(told.line_of(one) for one in cycle.plan.decisions)
