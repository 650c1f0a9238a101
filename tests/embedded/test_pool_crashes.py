"""Whatever is killed: a lost attempt runs again, a durable exit record never does, nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.embedded.world import World, until

from glidepath.embedded.records import attempt_folder
from glidepath.embedded.server import PoolServer
from glidepath.embedded.workers import all_workers
from glidepath.pilot.remains import left_by, machine, started
from glidepath.store.engine import Store, StoreUnwritable
from glidepath.store.job import How, JobState

SERVER = """
import sys, time
from pathlib import Path
from tests.embedded.world import SteadyClock
from glidepath.embedded.server import PoolServer
from glidepath.store.engine import open_store
with open_store(sys.argv[2]) as store:
    server = PoolServer(store, Path(sys.argv[1]), {"here": ("here",)}, clock=SteadyClock())
    server.start()
    print("up", flush=True)
    sys.stdin.read()
    server.stop()
"""


class FullDisk:
    """The store, as it is while the disk is full."""

    def __init__(self, store: Store) -> None:
        self.full = False
        self._store = store

    def read(self) -> AbstractContextManager[Connection]:
        return self._store.read()

    def write(self) -> AbstractContextManager[Connection]:
        if self.full:
            raise StoreUnwritable("the disk is full")
        return self._store.write()


def kill(world: World, name: str) -> None:
    pilot = world.pilots.pop(name)
    pilot.kill()
    pilot.wait(20)


def marks(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_a_killed_pilots_orphans_are_gone_and_its_job_runs_again(world: World, tmp_path: Path) -> None:
    mark = tmp_path / "marks"
    world.pilot("p1")
    # The grandchild leaves the session, so that only the sweep can find it.
    job = world.submit(
        "sh", "-c", f"setsid sleep 600 & echo $! >> {mark}; echo up; test $GLIDEPATH_ATTEMPT = 2 || sleep 600"
    )
    world.output(job, "up")
    kill(world, "p1")
    until("the job waits again", lambda: world.jobs.get(job).state is JobState.QUEUED)
    assert left_by("p1", world.home.resolve()) == []
    assert started(int(marks(mark)[0])) is None
    world.pilot("p2")
    (ended,) = world.over(job)
    assert (ended.state, ended.attempt, ended.losses) == (JobState.DONE, 2, 1)
    assert [one.how for one in world.jobs.attempts(job)] == [How.LOST, How.EXITED]
    os.kill(int(marks(mark)[1]), signal.SIGKILL)


def test_lost_attempts_are_repeated_only_so_often(world: World) -> None:
    job = world.submit("sh", "-c", "echo up; exec sleep 600", retries_max=1)
    for name in ("p1", "p2"):
        world.pilot(name)
        until("it runs", lambda name=name: world.jobs.get(job).pilot == name)
        world.output(job, "up")
        kill(world, name)
        until("the loss is known", lambda: world.jobs.get(job).state is not JobState.RUNNING)
    ended = world.jobs.get(job)
    assert ended.state is JobState.FAILED
    assert ended.reason == "lost 2 times, the last: the pilot p2 died; retries_max is 1"


def test_a_job_whose_exit_record_is_durable_never_runs_again(world: World, tmp_path: Path) -> None:
    mark = tmp_path / "marks"
    world.pilot("p1")
    job = world.submit(
        "sh", "-c", f"echo up; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo x >> {mark}"
    )
    world.output(job, "up")
    world.stop_serving()  # So that the record is on the disk and nobody has been told.
    (tmp_path / "go").touch()
    record = attempt_folder(world.home, job, 1) / "exit.json"
    until("the record is durable", record.exists)
    kill(world, "p1")
    assert world.jobs.get(job).state is JobState.RUNNING
    world.serve()
    (ended,) = world.over(job)
    world.pilot("p2")
    world.over(world.submit("true"))
    assert (ended.state, ended.attempt, marks(mark)) == (JobState.DONE, 1, ["x"])


def test_a_record_of_another_pilot_or_a_broken_one_does_not_count(world: World) -> None:
    world.pilot("p1")
    jobs = [world.submit("sh", "-c", "echo up; exec sleep 600") for _ in range(2)]
    for job in jobs:
        world.output(job, "up")
    forged = {"job": jobs[0], "attempt": 1, "pilot": "p9", "how": "exited", "exit_code": 0, "signal": None}
    (attempt_folder(world.home, jobs[0], 1) / "exit.json").write_text(json.dumps(forged))
    (attempt_folder(world.home, jobs[1], 1) / "exit.json").write_text('{"job": 2, "att')
    kill(world, "p1")
    until("both wait", lambda: all(world.jobs.get(job).state is JobState.QUEUED for job in jobs))


def test_jobs_go_on_while_the_server_is_away_and_nothing_runs_twice(world: World, tmp_path: Path) -> None:
    mark = tmp_path / "marks"
    world.pilot("p1")
    code = f"echo up; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo $GLIDEPATH_JOB >> {mark}"
    early, late = world.submit("sh", "-c", code), world.submit("sh", "-c", code.replace("/go;", "/go2;"))
    for job in (early, late):
        world.output(job, "up")
    world.stop_serving()
    (tmp_path / "go").touch()
    until("the first has ended", lambda: (attempt_folder(world.home, early, 1) / "exit.json").exists())
    world.serve()
    (tmp_path / "go2").touch()
    ended = world.over(early, late)
    assert [(job.state, job.attempt) for job in ended] == [(JobState.DONE, 1)] * 2
    assert sorted(marks(mark)) == [str(early), str(late)]


def test_a_killed_server_is_followed_by_another_and_every_job_runs_once(world: World, tmp_path: Path) -> None:
    world.stop_serving()
    mark = tmp_path / "marks"
    command = [sys.executable, "-c", SERVER, str(world.home), world.store_url]
    world.pilot("p1")
    ids = [world.submit("sh", "-c", f"echo $GLIDEPATH_JOB >> {mark}; sleep 0.1") for _ in range(12)]
    for wanted in (3, 12):
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            until(f"{wanted} have run", lambda wanted=wanted: len(marks(mark)) >= wanted)
        finally:
            server.kill()
            server.communicate(timeout=20)
    world.serve()
    world.over(*ids)
    assert sorted(map(int, marks(mark))) == ids


def test_a_claim_whose_answer_was_never_read_is_given_back_uncounted(world: World) -> None:
    """The pilot stands still while a job is claimed for it, and its connection is gone when it goes on."""
    world.pilot("p1")
    world.over(world.submit("true"))
    world.send("p1", signal.SIGSTOP)
    job = world.submit("true")
    until("it is claimed", lambda: world.jobs.get(job).state is JobState.RUNNING)
    world.stop_serving()
    # What the kernel still holds for the pilot is lost with the connection only if nobody reads it.
    world.serve()
    world.send("p1", signal.SIGCONT)
    (ended,) = world.over(job)
    assert (ended.state, ended.losses) == (JobState.DONE, 0)


def test_a_new_process_of_a_dead_pilots_name_starts_clean(world: World) -> None:
    world.pilot("p1")
    job = world.submit("sh", "-c", "echo up; test $GLIDEPATH_ATTEMPT = 2 || exec sleep 600")
    world.output(job, "up")
    world.stop_serving()
    kill(world, "p1")
    world.pilot("p1")
    world.serve()
    (ended,) = world.over(job)
    assert (ended.state, ended.attempt, ended.losses) == (JobState.DONE, 2, 1)


@pytest.mark.parametrize(
    "trick", ["mkdir ../exit.json", "mkfifo ../exit.json", "ln -s /dev/zero ../exit.json"]
)
def test_a_job_that_tampers_with_its_own_record_hurts_nobody(world: World, trick: str) -> None:
    world.pilot("p1")
    job = world.submit("sh", "-c", f"{trick}; echo up; test $GLIDEPATH_ATTEMPT = 2 || exec sleep 600")
    world.output(job, "up")
    kill(world, "p1")
    world.pilot("p2")
    assert world.over(job)[0].attempt == 2
    assert world.over(world.submit("true"))[0].state is JobState.DONE


def test_while_the_store_cannot_be_written_jobs_go_on_and_nothing_is_lost_or_repeated(
    world: World, tmp_path: Path
) -> None:
    world.stop_serving()
    full = FullDisk(world.store)
    server = world.server = PoolServer(full, world.home, {"here": ("here",)}, clock=world.clock)
    server.start()
    mark = tmp_path / "marks"
    world.pilot("p1")
    job = world.submit("sh", "-c", f"echo up; sleep 0.5; echo x >> {mark}")
    world.output(job, "up")
    full.full = True
    until("it has run", lambda: marks(mark))
    until("the trouble is told", lambda: server.trouble == "the disk is full")
    assert world.jobs.get(job).state is JobState.RUNNING
    full.full = False
    assert world.over(job)[0].state is JobState.DONE
    until("all is well", lambda: not server.trouble)
    assert (marks(mark), world.jobs.get(job).attempt) == (["x"], 1)


def test_a_worker_of_another_machine_is_never_taken_for_dead(world: World) -> None:
    world.pilot("p1")
    world.over(world.submit("true"))
    with world.store.read() as conn:
        (worker,) = all_workers(conn)
    here = machine()
    gone = replace(worker, pid=1, pid_start="0")
    assert worker.may_live(here)
    assert not gone.may_live(here)
    assert replace(gone, machine="elsewhere 123").may_live(here)
    assert not replace(worker, machine=f"{here.split()[0]} another-boot").may_live(here)
