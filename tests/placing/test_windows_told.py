"""Windows of the calendar through whole turns: who is told, how often, and what runs when one opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.placing.placing_world import T0, PlacingWorld

from glidepath.clock import iso
from glidepath.core.place.rank import SetKey
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import OnLoss
from glidepath.store.windows import Calendar, Planned, Span, WindowStore


def quiet(conn: Connection, planned: Planned) -> None:
    """Nothing beside the row."""


@pytest.fixture
def world(tmp_path: Path) -> PlacingWorld:
    return PlacingWorld(tmp_path)


def made(world: PlacingWorld, opens_s: int, closes_s: int, **more: tuple[str, ...]) -> Planned:
    """From so many seconds after the beginning of everything."""
    span = Span("lab", T0 + opens_s, T0 + closes_s, why="new disks", **more)
    return WindowStore(world.store).add(span, by="op", wall=world.time.wall(), told=quiet)


def moved(world: PlacingWorld, had: Planned, opens_s: int, closes_s: int) -> Planned:
    span = replace(had.span, opens_wall=T0 + opens_s, closes_wall=T0 + closes_s)
    return WindowStore(world.store).move(had, span, by="op", wall=world.time.wall(), told=quiet)


def told(world: PlacingWorld, job: int, kind: str = "window") -> list[str]:
    return [event.text for event in world.jobs.events(job=job) if event.kind == kind]


def at(after_s: int) -> str:
    return iso(T0 + after_s) or ""


def test_whoever_a_window_ends_is_told_once_for_each_time_that_it_changes(world: PlacingWorld) -> None:
    job, short = world.submit(run_s_max=3600, on_loss=OnLoss.END), world.submit(run_s_max=600)
    world.cluster.runs_s |= {job: 100_000, short: 100_000}
    world.turns(3)
    window = made(world, 1800, 2400)
    world.turns(3)
    first = f"window 1 (new disks) opens at {at(1800)}: it is ended then"
    assert told(world, job) == [first]
    world.live()
    world.turns(3)
    assert told(world, job) == [first], "also where a scheduler began anew"
    window = moved(world, window, 2000, 2600)
    world.turns(3)
    second = f"window 1 (new disks) opens at {at(2000)}, not at {at(1800)} any more: it is ended then"
    assert told(world, job) == [first, second]
    window = moved(world, window, 1800, 2600)
    world.turns(3)
    back = f"window 1 (new disks) opens at {at(1800)}, not at {at(2000)} any more: it is ended then"
    assert told(world, job) == [first, second, back]
    WindowStore(world.store).cancel(window, by="op", wall=world.time.wall(), told=quiet)
    world.turns(3)
    began = world.job(job).record.began_at
    assert began is not None
    free = f"no window ends it any more: it may run to its limit, until {at(began + 3600 - T0)}"
    assert told(world, job) == [first, second, back, free]
    assert told(world, short) == [], "it is over before"
    world.turns(20, after_s=100)
    assert world.stands(job) == "running"
    world.close()


@pytest.mark.parametrize(("on_loss", "then"), [(OnLoss.END, "failed"), (OnLoss.REQUEUE, "queued")])
def test_when_a_window_opens_its_jobs_are_ended_and_nodes_return_when_it_closes(
    world: PlacingWorld, on_loss: OnLoss, then: str
) -> None:
    job = world.submit(run_s_max=36_000, notice_s=60, on_loss=on_loss)
    world.cluster.runs_s[job] = 100_000
    world.turns(3)
    made(world, 5000, 6000)
    world.turns(10, after_s=100)
    assert told(world, job, "notice") == [], "not an hour before"
    world.turns(10, after_s=100)
    assert len(told(world, job, "notice")) == 1
    assert world.cluster.tasks[SetKey(f"{job}.1")].noticed == 1
    after = world.submit(run_s_max=36_000)
    world.cluster.runs_s[after] = 1000
    while world.time.at < T0 + 4900:
        world.turn(after_s=50)
    assert world.stands(job) == "running"
    assert world.stands(after) == "queued", "it would run into the window"
    world.turns(8, after_s=50)
    assert world.stands(job) == then
    assert "1 (new disks)" in world.job(job).job.reason
    while world.time.at < T0 + 5940:
        assert [world.stands(one) for one in (job, after)] == [then, "queued"]
        world.turn(after_s=50)
    world.turns(6, after_s=20)
    assert world.stands(after) == "running"
    world.close()


def test_whoever_has_not_begun_when_a_window_opens_waits_again(world: PlacingWorld) -> None:
    made(world, 200, 900)
    world.cluster.begin_after_s = 10_000
    job = world.submit(run_s_max=100)
    world.turns(3)
    assert world.stands(job) == "starting"
    world.turns(10, after_s=20)
    assert told(world, job, "ending") == ["window 1 (new disks) opened before it had begun"]
    world.turns(3)
    assert world.stands(job) == "queued"
    world.close()


def test_a_promise_that_a_window_moves_says_so(world: PlacingWorld) -> None:
    first = world.submit(run_s_max=600, cpus=4, nodes=2)
    world.cluster.runs_s[first] = 100_000
    world.turns(3)
    job = world.submit(run_s_max=600, cpus=4, nodes=2)
    world.turns(3)
    made(world, 900, 1800)
    world.turns(3)
    events = told(world, job, "promise")
    assert len(events) == 2
    assert f"start at {at(1800)}" in events[1]
    assert events[1].endswith("later: window 1 (new disks) is in the way")
    world.close()


def test_instants_of_the_calendar_stay_while_clocks_drift_and_follow_one_that_is_put_right(
    world: PlacingWorld,
) -> None:
    late = [0]
    made(world, 1000, 2000)
    calendar = Calendar(world.store, "lab", world.time.wall, lambda wall: Instant(int(wall) + late[0]))
    first = calendar()
    late[0] = 3
    assert calendar() == first
    late[0] = 60
    [window] = calendar()
    assert (window.opens_at, window.closes_at) == (T0 + 1060, T0 + 2060)
    world.close()
