"""The whole on real daemons: jobs get pilots, pilots join, run, and leave; what fails costs nobody else."""

from __future__ import annotations

import signal

import pytest

from bed_pool import pool as another_pool
from grid.grid_world import Grid
from whole.running import until

pytestmark = pytest.mark.real


def test_jobs_of_three_shapes_run_several_on_each_pilot_which_leaves_when_idle(grid: Grid) -> None:
    small = grid.submit("sleep 1", "request_memory = 300", count=6)
    wide = grid.submit("sleep 1", "request_cpus = 2", "request_memory = 300 * RequestCpus", count=2)
    large = grid.submit("sleep 1", "request_memory = 1200", user="ben", count=2)
    run = grid.up("--until-idle")
    grid.done(small, wide, large)
    assert run.wait_end(within_s=90) == 0, run.text
    codes = [row for cluster in (small, wide, large) for row in grid.history(cluster, "ExitCode")]
    assert codes == [["0"]] * 10
    asked = grid.asked()
    assert (len(set(asked)) == len(asked), 1 <= len(asked) < 10) == (True, True)
    assert (grid.slots(), grid.folders()) == ([], [])


def test_a_job_that_fits_nothing_is_explained_and_starts_nothing(grid: Grid) -> None:
    huge = grid.submit("true", "request_memory = 100 * 1024")
    elsewhere = grid.submit("true", 'requirements = OpSysAndVer == "Rocky9"', "request_memory = 100")
    grid.up()
    until(lambda: len(grid.ask("demand")["items"]) == 2, grid.said, within_s=60)
    told = {item["shape"]: item for item in grid.ask("demand")["items"]}
    assert {item["idle"] for item in told.values()} == {1}
    assert [item["fits"] for item in told.values()] == [[], []]
    (story,) = grid.ask("explain", f"{huge}.0")["items"]
    (verdict,) = story["offers"]
    assert (verdict["offer"], verdict["fits"]) == ("here/small", False)
    assert any("Memory" in why for why in verdict["because"]), verdict
    (story,) = grid.ask("explain", f"{elsewhere}.0")["items"]
    assert any("OpSysAndVer" in why for why in story["offers"][0]["because"]), story
    assert (grid.asked(), grid.folders()) == ([], [])


def test_a_schedd_that_never_answers_costs_its_own_pool_only(grid: Grid) -> None:
    silent = another_pool("condor@silent")
    silent.up(tied=True)
    try:
        grid.configure(silent, grid.pool, deadline="3s")
        stuck = grid.submit("true", "request_memory = 300", pool=silent)
        silent.pause("schedd")
        served = grid.submit("sleep 1", "request_memory = 300", count=2)
        grid.up()
        grid.done(served)
        states = {source["name"]: source["state"] for source in grid.ask("demand")["sources"]}
        unseen = [
            name for name, state in states.items() if state != "seen" and name.startswith("demand bed/")
        ]
        assert unseen, states
        silent.resume("schedd")
        assert grid.waiting(stuck, silent) in (0, 1)
    finally:
        silent.resume("schedd")
        grid.close()
        silent.down()


def test_a_restarted_collector_neither_ends_nor_doubles_a_pilot(grid: Grid) -> None:
    fresh = another_pool("condor@restarted")
    fresh.up(tied=True)
    try:
        grid.pool = fresh
        grid.configure(fresh, idle="2m")
        work = grid.submit("sleep 15", "request_memory = 300", count=2)
        grid.up()
        grid.running(work, 2)
        until(lambda: len(grid.slots()) == 1, grid.said, within_s=60)
        before = (grid.slots(), grid.folders())
        fresh.restart("collector")
        until(lambda: grid.slots() == before[0], grid.said, within_s=90)
        grid.done(work)
        assert grid.history(work, "NumJobStarts") == [["1"], ["1"]]
        assert grid.asked() == before[1], grid.said()
    finally:
        grid.close()
        fresh.down()


def test_a_pilot_that_fails_every_job_stops_itself_and_its_site_is_told(grid: Grid) -> None:
    grid.configure(grid.pool, live_max=1)
    grid.submit("exit 7", "request_memory = 300", count=8)
    run = grid.up()
    until(
        lambda: any("black" in (each.get("why") or "") for each in grid.ended()),
        lambda: f"{grid.ended()}\n{run.text}",
        within_s=90,
    )
    told = grid.ask("explain", "here/small")["items"]
    assert told, run.text


def test_ctrl_c_ends_the_pilots_and_their_jobs_go_back_to_the_queue(grid: Grid) -> None:
    work = grid.submit("sleep 600", "request_memory = 300")
    run = grid.up()
    until(lambda: bool(grid.slots()), grid.said, within_s=60)
    run.signal(signal.SIGINT)
    assert run.wait_end() == 0
    assert (grid.waiting(work), grid.folders()) == (1, [])
