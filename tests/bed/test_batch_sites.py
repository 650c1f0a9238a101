"""Real batch sites: up and down without a trace; jobs, accounts and limits of Slurm and Grid Engine; a login
node with keys, a second factor and a noisy shell; pilots on their nodes that join a real pool."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bed.command import Ended
from bed.parts.batch_login import BANNER
from bed.parts.batch_root import SECOND_FACTOR
from bed.parts.batch_site import Site
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import NODES, Slurm
from bed.parts.sshd import Login
from bed.trouble import Trouble
from tests.bed_pool import condor_pool, place
from tests.bed_site import by_ssh, pilot_words, shared_site, site, ssh_words

from bed import leaks

pytestmark = pytest.mark.real

ROOT = Path(__file__).parent.parent.parent
ROUNDS = 10
WAIT_S_MAX = 240
POLL_S = 0.25
KINDS: list[type[Site]] = [Slurm, GridEngine, Login]


def until(true: Callable[[], bool], what: Callable[[], object], *, within_s: float = WAIT_S_MAX) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, what()
        time.sleep(POLL_S)


@pytest.fixture
def slurm(request: pytest.FixtureRequest) -> Slurm:
    return shared_site(request.config, Slurm)


@pytest.fixture
def grid_engine(request: pytest.FixtureRequest) -> GridEngine:
    return shared_site(request.config, GridEngine)


@pytest.fixture
def login(request: pytest.FixtureRequest) -> Login:
    return shared_site(request.config, Login)


# Up and down.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.part.name)
def test_a_site_goes_up_and_down_ten_times_without_a_trace(kind: type[Site]) -> None:
    mounts, there = Path("/proc/self/mountinfo").read_text(), site(kind, "often")
    meant = list(place().run.glob("*"))
    for _ in range(ROUNDS):
        first = there.up(tied=True)
        assert there.up(tied=True) == first
        assert {name: len(there.processes(name)) for name in there.order} == dict.fromkeys(there.order, 1)
        there.down()
        assert not there.folder.exists()
        assert leaks.left(place(), meant=meant) == []
        assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.part.name)
def test_the_command_starts_lists_and_stops_a_site(kind: type[Site]) -> None:
    there = site(kind, "command")
    name = there.instance.name

    def ctl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "bed/ctl", *words]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
        )

    first = ctl("up", name)
    try:
        assert first.returncode == 0, first.stderr
        rows = json.loads(ctl("status", "-o", "json").stdout)["instances"]
        [row] = [row for row in rows if row["name"] == name]
        assert (row["state"], row["address"]) == ("up", there.address)
        assert f"listens on {row['address']}; logs in {row['logs']}" in first.stdout
        assert f"run folder: {there.folder}" in ctl("leaks").stdout
    finally:
        down = ctl("down", name)
    assert (down.returncode, down.stderr) == (0, "")


OWNER = """
import os, signal, sys
from bed.parts.slurm import Slurm
print(Slurm(sys.argv[1]).up(tied=True).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_tied_site_ends_with_its_owner_and_can_be_started_over_the_remains() -> None:
    there = site(Slurm, "orphan")
    words = [sys.executable, "-c", OWNER, there.instance.name]
    owner = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    until(lambda: not leaks.marked(there.folder), lambda: "the site outlived its owner")
    with there:
        assert str(there.up(tied=True).pid) != owner.stdout.strip()


def test_a_port_that_is_taken_is_refused_and_leaves_nothing(login: Login) -> None:
    other = site(Login, "taken")
    with pytest.raises(Trouble, match="none is free"):
        other.up(port=login.state.port, tied=True)
    assert not other.folder.exists()


def test_nothing_of_the_machine_is_changed_or_seen_inside(login: Login) -> None:
    assert "Read-only file system" in login.run("touch", "/etc/new").err
    points = [line.split()[4] for line in login.run("cat", "/proc/self/mountinfo").out.splitlines()]
    assert (points.count("/"), points[0]) == (1, "/")
    assert login.run("hostname").out == "login\n"
    shown = login.run("sh", "-c", "touch /tmp/mine; pwd; id -un", user="ann")
    assert shown.out == "/home/ann\nann\n"
    assert (login.folder / "tmp/mine").exists()
    with pytest.raises(Trouble, match="there is no user `mallory` inside"):
        login.run("true", user="mallory")


# Slurm.


def submitted(slurm: Slurm, *words: str, user: str = "pilot") -> str:
    return slurm.run("sbatch", "--parsable", *words, user=user).must("no job").out.strip()


def accounted(slurm: Slurm, job: str) -> str:
    words = [
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={job}",
        "--format=State,ExitCode,NodeList",
    ]
    return slurm.run("sacct", *words).must("no accounting").out.strip()


def accounted_as(slurm: Slurm, job: str, wanted: str) -> None:
    until(
        lambda: accounted(slurm, job) == wanted,
        lambda: (accounted(slurm, job), slurm.log("slurmctld")[-3000:]),
    )


def test_jobs_of_users_run_on_slurm_and_are_accounted(slurm: Slurm) -> None:
    done = submitted(
        slurm, "--time=5", "--output=out", "--wrap", "id -un; echo $SLURMD_NODENAME; pwd", user="ann"
    )
    fails = submitted(slurm, "--time=5", "--nodelist=node2", "--wrap", "exit 3")
    accounted_as(slurm, fails, "FAILED|3:0|node2")
    accounted_as(slurm, done, "COMPLETED|0:0|node1")
    assert (slurm.home("ann") / "out").read_text() == "ann\nnode1\n/home/ann\n"


def test_a_job_of_two_nodes_starts_a_program_on_each(slurm: Slurm) -> None:
    script = "srun sh -c 'echo $SLURMD_NODENAME > two.$SLURMD_NODENAME'"
    words = ["--partition=long", "--time=5", "--nodes=2", "--ntasks-per-node=1", "--wrap", script]
    accounted_as(slurm, submitted(slurm, *words), "COMPLETED|0:0|node[1-2]")
    assert [(slurm.home("pilot") / f"two.{node}").read_text() for node in NODES] == ["node1\n", "node2\n"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--account=nobody"], "Invalid account or account/partition"),
        (["--partition=nowhere"], "Invalid partition name"),
        (["--constraint=quantum"], "Invalid feature specification"),
    ],
)
def test_slurm_refuses_what_no_site_would_take(slurm: Slurm, words: list[str], told: str) -> None:
    ended = slurm.run("sbatch", "--parsable", "--time=5", *words, "--wrap", "true", user="ben")
    assert (ended.code, told in ended.err) == (1, True), ended


def test_a_slurm_whose_controller_stops_and_starts_keeps_its_jobs(slurm: Slurm) -> None:
    job = submitted(slurm, "--time=20", "--wrap", "sleep 600", "--hold")
    runs = submitted(slurm, "--time=20", "--wrap", "sleep 600")
    try:
        until(lambda: accounted(slurm, runs).startswith("RUNNING"), lambda: accounted(slurm, runs))
        slurm.stop("slurmctld")
        asked = slurm.run("squeue", "--me", user="pilot")
        assert (asked.code, "Unable to contact slurm controller" in asked.err) == (1, True), asked
        assert accounted(slurm, runs).startswith("RUNNING")
        slurm.restart("slurmctld")
        shown = slurm.run("squeue", "--me", "--noheader", "--format=%i %T", user="pilot").out.splitlines()
        assert set(shown) >= {f"{job} PENDING", f"{runs} RUNNING"}
    finally:
        if not slurm.processes("slurmctld"):
            slurm.restart("slurmctld")
        slurm.run("scancel", job, runs)
    until(lambda: accounted(slurm, runs).startswith("CANCELLED by 0|"), lambda: accounted(slurm, runs))


# Grid Engine.


def test_jobs_of_users_run_on_grid_engine_and_are_accounted(grid_engine: GridEngine) -> None:
    words = ["-terse", "-l", "h_rt=300", "-pe", "smp", "2", "-j", "y", "-o", "/home/ann/out", "-b", "y"]
    job = grid_engine.run("qsub", *words, "id", "-un", user="ann").must("no job").out.strip()

    def known() -> Ended:
        return grid_engine.run("qacct", "-j", job)

    until(lambda: known().code == 0, lambda: (known(), grid_engine.run("qstat", "-f").out))
    told = dict(line.split(None, 1) for line in known().out.splitlines() if len(line.split()) > 1)
    assert (told["owner"].strip(), told["slots"].strip(), told["exit_status"].strip()) == ("ann", "2", "0")
    assert (grid_engine.home("ann") / "out").read_text() == "ann\n"


def test_grid_engine_refuses_a_queue_that_there_is_not(grid_engine: GridEngine) -> None:
    ended = grid_engine.run("qsub", "-q", "nowhere.q", "-b", "y", "true", user="ben")
    assert (ended.code, "unknown queue" in ended.err) == (1, True), ended


def test_a_grid_engine_whose_master_stops_and_starts_keeps_its_jobs(grid_engine: GridEngine) -> None:
    words = ["-terse", "-l", "h_rt=600", "-b", "y", "sleep", "600"]
    job = grid_engine.run("qsub", *words, user="pilot").must("no job").out.strip()
    try:
        grid_engine.stop("qmaster")
        assert grid_engine.run("qstat", user="pilot").code == 1
        grid_engine.restart("qmaster")
        assert job in grid_engine.run("qstat", user="pilot").out
    finally:
        if not grid_engine.processes("qmaster"):
            grid_engine.restart("qmaster")
        grid_engine.run("qdel", job, user="pilot").must("the job was not removed")
    until(lambda: job not in grid_engine.run("qstat", user="pilot").out, lambda: grid_engine.run("qstat").out)


# The login node.


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    """The program that knows the second factor."""
    program = tmp_path / "answer"
    program.write_text(f"#!/bin/sh\necho {SECOND_FACTOR}\n")
    program.chmod(0o755)
    return program


def test_users_come_in_with_a_key_and_some_with_a_second_factor_besides(login: Login, answer: Path) -> None:
    told = by_ssh(login, "pilot", "id -un; pwd; hostname")
    assert (told.returncode, told.stdout) == (0, "pilot\n/home/pilot\nlogin\n"), told.stderr
    refused = by_ssh(login, "factor", "id -un")
    assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True), refused
    told = by_ssh(login, "factor", "id -un", answer=answer)
    assert (told.returncode, told.stdout) == (0, "factor\n"), told.stderr


def test_a_noisy_shell_speaks_before_each_command(login: Login) -> None:
    told = by_ssh(login, "noisy", "echo mine")
    lines = told.stdout.splitlines()
    assert (lines[0], lines[-1], "quota" in told.stderr) == (BANNER, "mine", True), told


def test_a_connection_is_hung_up_and_the_next_one_taken(login: Login) -> None:
    words = [*ssh_words(login, "pilot"), "echo there; sleep 600"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "there\n"
        login.hang_up()
        assert held.wait(WAIT_S_MAX) == 255
    assert by_ssh(login, "pilot", "true").returncode == 0


def test_tools_of_a_site_are_run_from_this_machine_as_its_user(slurm: Slurm) -> None:
    folder = slurm.commands("ben", "id")
    words: list[tuple[str, ...]] = [("id", "-un"), ("squeue", "--me", "--noheader")]
    shown = [
        subprocess.run(
            [folder / name, *rest], capture_output=True, text=True, timeout=WAIT_S_MAX, check=True
        ).stdout
        for name, *rest in words
    ]
    assert shown == ["ben\n", ""]


# Pilots.


def slots(pool: Any, name: str) -> str:
    words = ["-constraint", f'GlidepathPilot == "{name}"', "-af", "Name"]
    return str(pool.run("condor_status", *words).must("no slots").out)


def joins_and_runs_a_job(request: pytest.FixtureRequest, name: str, said: Callable[[], str]) -> None:
    pool = condor_pool(request.config)
    until(lambda: bool(slots(pool, name)), said)
    text = "executable = /bin/hostname\ntransfer_executable = false\noutput = where\nrequest_memory = 100\n"
    text += f'request_disk = 1000\nrequirements = GlidepathPilot == "{name}"\nqueue\n'
    job = pool.run("condor_submit", "-terse", "-", user="ann", given=text).must("no job").out.split(".")[0]
    until(lambda: not pool.run("condor_q", job, "-af", "ProcId").must("no queue").out, said)
    assert (pool.home("ann") / "where").read_text() == "login\n"


def test_a_pilot_in_a_job_of_slurm_joins_a_pool_and_runs_a_job(
    request: pytest.FixtureRequest, slurm: Slurm
) -> None:
    words = pilot_words(slurm, condor_pool(request.config), "gp-slurm")
    job = submitted(slurm, "--time=20", "--output=pilot.out", "--wrap", " ".join(words))
    output = slurm.home("pilot") / "pilot.out"
    try:
        joins_and_runs_a_job(
            request, "gp-slurm", lambda: output.read_text() if output.exists() else "nothing"
        )
    finally:
        slurm.run("scancel", job)
        until(lambda: not slurm.run("squeue", "--noheader", user="root").out, lambda: slurm.run("squeue").out)


def test_a_pilot_in_a_job_of_grid_engine_joins_a_pool_and_runs_a_job(
    request: pytest.FixtureRequest, grid_engine: GridEngine
) -> None:
    words = pilot_words(grid_engine, condor_pool(request.config), "gp-sge")
    asked = ["qsub", "-terse", "-l", "h_rt=1200", "-j", "y", "-o", "/home/pilot/pilot.out", "-b", "y"]
    job = grid_engine.run(*asked, *words, user="pilot").must("no job").out.strip()
    output = grid_engine.home("pilot") / "pilot.out"
    try:
        joins_and_runs_a_job(request, "gp-sge", lambda: output.read_text() if output.exists() else "nothing")
    finally:
        grid_engine.run("qdel", job)
        until(lambda: not grid_engine.run("qstat", "-u", "*").out, lambda: grid_engine.run("qstat").out)
