"""What happens to pilots at a real batch site behind our back, and to us: none is lost, none comes twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from bed.parts.batch_site import Site
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from tests.bed_site import shared_site

from scenes.several import seldom
from sites.sites_world import WAIT_S, Sites

pytestmark = pytest.mark.real

LIFE_S_MAX = 200
# A pilot that is killed says nothing to the pool; its job is given up after this. Before a site kills, it
# sends a signal to all programs of its job, also to those of users: who minds says so.
LEASE = ("job_lease_duration = 25", "on_exit_remove = ExitCode =?= 0")
# Longer than it takes until a job that was lost with its pilot is given up.
PATIENT = {"idle": "3m"}


def one_running(world: Sites, *lines: str) -> tuple[int, str]:
    """A job that runs on the one pilot: their numbers at the pool and at the site."""
    work = world.submit("sleep 600", "request_memory = 300", *LEASE, *lines)
    world.running(work, 1)
    [number] = world.jobs_at(world.asked_of[0])
    return work, number


def ended_as(world: Sites, name: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [each for each in world.ended() if each["name"] == name]

    seldom(lambda: bool(found()), lambda: f"{name} has not ended:\n{world.said()}", within_s=WAIT_S)
    return found()[0]


def test_a_pilot_leaves_before_the_site_would_end_it(world: Sites, slurm: Slurm) -> None:
    asked = world.at(slurm, live_max=1, offer={"lifetime": "70s"})
    world.configure(grace="10s")
    world.up()
    # It says that it is short, and is not.
    work, number = one_running(world, "+MaxRuntime = 20")
    [first] = world.pilots_at(asked)
    told = ended_as(world, first)
    state, lasted, limit = world.accounted(asked, number, "State", "ElapsedRaw", "TimelimitRaw")
    assert (state, int(lasted) < int(limit) * 60, told["phase"]) == ("COMPLETED", True, "done"), (
        told,
        lasted,
    )
    assert world.waiting(work) == 1


def test_a_pilot_that_the_site_ends_at_its_limit_is_told_and_its_job_waits_again(
    world: Sites, slurm: Slurm
) -> None:
    asked = world.at(slurm, live_max=1)
    world.up()
    work, number = one_running(world)
    [first] = world.pilots_at(asked)
    slurm.run("scontrol", "update", f"JobId={number}", "TimeLimit=1").must("the limit stays")
    ended_as(world, first)
    [state] = world.accounted(asked, number, "State")
    # Slurm says so a moment before it ends a job, and a pilot may use it.
    assert state in ("TIMEOUT", "COMPLETED"), state
    assert world.waiting(work) == 1


def test_a_controller_that_stops_and_starts_costs_no_pilot_and_brings_no_second_one(
    world: Sites, slurm: Slurm
) -> None:
    asked = world.at(slurm, offer=PATIENT)
    world.up()
    work, number = one_running(world)
    before = world.asked()
    slurm.stop("slurmctld")
    try:
        seldom(lambda: world.source(asked)["state"] == "unseen", world.said, within_s=WAIT_S)
        world.submit("sleep 600", "request_memory = 300", "request_cpus = 2")
        world.cycles_later()
        assert world.asked() == before
    finally:
        slurm.restart("slurmctld")
    seldom(lambda: world.source(asked)["state"] == "seen", world.said, within_s=WAIT_S)
    seldom(lambda: len(world.jobs_at(asked)) == 2, world.said, within_s=WAIT_S)
    assert number in world.jobs_at(asked)
    assert world.history(work, "NumJobStarts") == []
    world.cycles_later()
    assert len(world.asked()) == 2


def life(world: Sites, *words: str, cycles: int) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "grid.life", "--home", str(world.home), "--config", str(world.config)]
    ended = subprocess.run(
        [*command, "--cycles", str(cycles), *words],
        capture_output=True,
        text=True,
        timeout=LIFE_S_MAX,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    said = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.returncode, said or [{"stderr": ended.stderr}]


@pytest.mark.parametrize(
    ("kind", "when"),
    [(Slurm, "before"), (Slurm, "after"), (GridEngine, "after")],
    ids=["slurm before", "slurm after", "sge after"],
)
def test_a_death_between_asking_and_recording_makes_no_double_and_no_orphan(
    request: pytest.FixtureRequest, world: Sites, kind: type[Site], when: str
) -> None:
    asked = world.at(shared_site(request.config, kind), live_max=4, offer=PATIENT)
    work = world.submit("sleep 600", "request_memory = 300", "request_cpus = 2", count=2)
    code, said = life(world, "--when", when, "--effect", "submit", cycles=30)
    assert code == -9, said
    code, said = life(world, cycles=6)
    assert (code, [cycle["actions"] for cycle in said[3:]]) == (0, [[], [], []]), said
    names = sorted(pilot.split()[0] for pilot in said[-1]["pilots"])
    assert (len(names), len(set(names)), names) == (2, 2, world.kept(asked)), said
    assert len(world.jobs_at(asked)) == 2
    world.running(work, 2)
    assert world.slots() == names
