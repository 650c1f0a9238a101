"""The world in which glidepath and TARDIS are compared: what it counts, and what its commands say to each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.tardis.commands import run
from bench.tardis.world import BOOT_S, BURST_JOBS, CORES, MATCH_S, RUN_S, World, arrivals

from glidepath.batch.dialects.slurm import Slurm
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

WALL = 1_900_000_000.0
EXPORT = "--export=SLURM_Walltime=60,TardisDroneCores=8,TardisDroneUuid=world-1a2b"


def asked(world: World, at: float, *argv: str) -> str:
    world.advance(at)
    printed = run(world, argv, WALL + at)
    assert printed.code == 0, printed.err
    return printed.out


def ours(world: World, at: float, folder: Path, name: str) -> str:
    """A pilot of glidepath, as its backend leaves it in the folder."""
    job = folder / "jobs" / name
    job.mkdir(parents=True)
    (job / "words").write_text("--kind=condor\n--idle-s=10\n")
    return asked(world, at, "sbatch", "--parsable", f"--job-name={name}.mark", str(job / "job")).strip()


def test_a_burst_that_is_met_at_once_is_done_within_a_boot_a_match_and_a_run(tmp_path: Path) -> None:
    world = World("burst", 1)
    came = world.came[0]
    for number in range(BURST_JOBS // CORES):
        ours(world, came, tmp_path, f"gp-{number}")
    world.advance(world.end_at)
    found = world.measures()
    assert found["done"] == BURST_JOBS
    assert BOOT_S + RUN_S <= found["done_s"] <= BOOT_S + MATCH_S + RUN_S
    # Before the match, and until each has been idle for so long that it leaves.
    assert found["idle_core_s_end"] <= BURST_JOBS * (MATCH_S + 10)
    assert found["busy_core_s"] == pytest.approx(BURST_JOBS * RUN_S)


def test_jobs_of_a_cancelled_worker_wait_again_and_drained_ones_take_nothing_new() -> None:
    world = World("burst", 1)
    came = world.came[0]
    for _ in range(2):
        asked(world, came, "sbatch", "-p", "all", EXPORT, "pilot.sh")
    world.advance(came + 60)
    assert asked(world, came + 60, "condor_drain", "-graceful", "slot1@n2.world").startswith("Sent")
    asked(world, came + 61, "scancel", "1")
    world.advance(came + 300)
    assert (world.measures()["restarts"], world.measures()["done"]) == (CORES, CORES)
    row = asked(
        world, came + 300, "condor_status", "-af:t", "Name", "State", "Activity", "TardisDroneUuid", "x/y"
    )
    assert row == "slot1@n2.world\tDrained\tIdle\tworld-1a2b\t0.0000\n"


def test_each_system_is_told_of_jobs_in_its_own_words(tmp_path: Path) -> None:
    world = World("burst", 1)
    assert asked(world, 1, "sbatch", "-n", "8", EXPORT, "pilot.sh") == "Submitted batch job 1\n"
    assert ours(world, 2, tmp_path, "gp-1") == "2"
    assert asked(world, 3, "squeue", "-o", "%A|%N|%T", "-h", "-t", "all", "--job=1") == "1|n1|RUNNING\n"
    slurm = Slurm()
    _drone, pilot = slurm.jobs_queued(Ran(0, asked(world, 4, *slurm.queued(None).argv)))
    assert (pilot.native_id, pilot.key, pilot.state) == ("2", "gp-1.mark", SiteState.RUNNING)
    words = slurm.past(("2",), since_s=60)
    assert words is not None
    (past,) = slurm.jobs_past(Ran(0, asked(world, 5, *words.argv)))
    assert (past.native_id, past.key) == ("2", "gp-1.mark")
    waiting = json.loads(asked(world, world.came[0] + 7, "condor_q", "-json"))
    assert len(waiting) == BURST_JOBS
    asked(world, world.came[0] + 10, *slurm.cancel(("2",)).argv)
    assert not any(worker.live for worker in world.workers.values() if worker.name == "gp-1")


@pytest.mark.parametrize("scenario", ["burst", "steady", "sine"])
def test_the_same_seed_brings_the_same_jobs_and_another_does_not(scenario: str) -> None:
    assert arrivals(scenario, 1) == arrivals(scenario, 1) != arrivals(scenario, 2)
