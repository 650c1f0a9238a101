"""Real pilots run real jobs: logs, exit codes, sizes, limits, and leaving."""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from tests.embedded.world import World, until

from glidepath.core.quantity import Resources
from glidepath.embedded.records import attempt_folder, exit_record
from glidepath.embedded.server import socket_path
from glidepath.embedded.wire import line_of
from glidepath.embedded.workers import all_workers
from glidepath.pilot.remains import started
from glidepath.store.job import How, JobSpec, JobState


def test_two_pilots_run_jobs_of_two_shapes_with_logs_and_exit_codes(world: World) -> None:
    world.pilot("p1")
    world.pilot("p2", size=Resources(4000, 8192))
    small = [
        world.python(f"import sys; print('out {n}'); print('err', file=sys.stderr); sys.exit({n})")
        for n in (0, 3)
    ]
    large = world.submit("sh", "-c", "echo $GLIDEPATH_CPUS $GLIDEPATH_JOB", request=Resources(4000, 4096))
    done, failed, big = world.over(*small, large)
    assert (done.state, done.exit_code, world.log(done.id)) == (JobState.DONE, 0, "out 0\n")
    assert (failed.state, failed.exit_code, failed.reason) == (JobState.FAILED, 3, "exit code 3")
    assert world.log(failed.id, "stderr") == "err\n"
    assert (big.pilot, world.log(large)) == ("p2", f"4 {large}\n")


def test_several_jobs_run_at_once_and_never_more_than_fit(world: World) -> None:
    ids = [world.submit("sh", "-c", "date +%s.%N; sleep 0.4; date +%s.%N") for _ in range(4)]
    world.pilot("p1", size=Resources(2000, 4096))
    world.over(*ids)
    spans = [tuple(map(float, world.log(job).split())) for job in ids]
    together = [sum(a <= start < b for a, b in spans) for start, _ in spans]
    assert max(together) == 2


def test_a_job_runs_only_where_its_traits_are(world: World) -> None:
    picky = world.submit("true", traits=(("os", "plan9"),))
    plain = world.submit("true")
    world.pilot("p1")
    world.over(plain)
    assert world.jobs.get(picky).state is JobState.QUEUED
    world.pilot("p2", "--trait", "os=plan9")
    assert world.over(picky)[0].pilot == "p2"


def test_a_job_is_stopped_at_its_time_limit_and_says_so(world: World) -> None:
    world.pilot("p1")
    job = world.submit("sleep", "600", run_s_max=1)
    (ended,) = world.over(job)
    assert (ended.state, ended.reason) == (JobState.FAILED, "stopped at its time limit of 1 s")
    assert [one.how for one in world.jobs.attempts(job)] == [How.TIMED_OUT]


def test_a_job_that_ignores_the_polite_signal_is_killed(world: World) -> None:
    world.pilot("p1")
    job = world.python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
        run_s_max=2,
    )
    (ended,) = world.over(job)
    assert (ended.state, ended.signal) == (JobState.FAILED, 9)


def test_a_running_job_can_be_cancelled_and_a_waiting_one_is_over_at_once(world: World) -> None:
    waiting = world.submit("true", request=Resources(64_000, 512))
    running = world.submit("sh", "-c", "echo up; exec sleep 600")
    world.pilot("p1")
    world.output(running, "up")
    assert world.jobs.cancel(waiting) is JobState.CANCELLED
    assert world.jobs.cancel(running) is JobState.CANCELLING
    assert world.over(running)[0].state is JobState.CANCELLED


def test_a_program_that_is_not_there_fails_with_its_name(world: World) -> None:
    world.pilot("p1")
    (ended,) = world.over(world.submit("/no/such\x1bprogram"))
    assert ended.state is JobState.FAILED
    assert ended.reason == "'/no/such\\x1bprogram' could not be started: No such file or directory"


def test_what_a_job_leaves_in_the_background_goes_with_it(world: World) -> None:
    world.pilot("p1")
    job = world.submit("sh", "-c", "sleep 600 & echo $!")
    world.over(job)
    pid = int(world.log(job))
    until("the child is gone", lambda: started(pid) is None)


def test_a_pilot_leaves_when_it_has_been_idle(world: World) -> None:
    world.pilot("p1", "--idle-s", "1")
    world.over(world.submit("true"))
    summary = world.ended("p1")
    assert (summary["why"], summary["jobs_run"], summary["jobs_failed"], summary["ok"]) == (
        "idle",
        1,
        0,
        True,
    )


def test_a_job_that_outlives_its_pilot_is_tried_again_but_not_for_ever(world: World) -> None:
    world.pilot("p1", "--lifetime-s", "3")
    job = world.submit("sleep", "600")
    summary = world.ended("p1")
    assert summary["why"] == "lifetime"
    until("the job is queued", lambda: world.jobs.get(job).state is JobState.QUEUED)
    assert world.jobs.get(job).losses == 1
    assert "end of its lifetime" in world.jobs.get(job).reason


def test_a_job_that_could_not_end_in_time_is_not_taken(world: World) -> None:
    too_long = world.submit("true", run_s_max=10_000)
    short = world.submit("true", run_s_max=5)
    world.pilot("p1", "--lifetime-s", "60")
    world.over(short)
    assert world.jobs.get(too_long).state is JobState.QUEUED


def test_a_drained_pilot_finishes_what_it_runs_and_takes_nothing_new(world: World) -> None:
    world.pilot("p1")
    first = world.submit("sh", "-c", "echo up; sleep 1; echo end")
    world.output(first, "up")
    world.send("p1", signal.SIGTERM)
    until("the drain is known", lambda: _draining(world))
    second = world.submit("true")
    assert world.ended("p1")["why"] == "drained"
    assert world.jobs.get(first).state is JobState.DONE
    assert world.jobs.get(second).state is JobState.QUEUED


def _draining(world: World) -> bool:
    with world.store.read() as conn:
        return any(worker.draining for worker in all_workers(conn))


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]])
def test_a_pilot_told_to_stop_gives_its_jobs_back_within_8_s(
    world: World, signals: list[signal.Signals]
) -> None:
    world.pilot("p1")
    stubborn = world.python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    world.output(stubborn, "up")
    told = time.monotonic()
    for number in signals:
        world.send("p1", number)
        if len(signals) > 1:
            until("the first is heeded", lambda: _draining(world))
    summary = world.ended("p1")
    assert time.monotonic() - told < 8
    job = world.jobs.get(stubborn)
    assert (summary["why"], job.state, job.losses) == ("stopped", JobState.QUEUED, 0)
    assert [one.how for one in world.jobs.attempts(stubborn)] == [How.GIVEN_BACK]


def test_a_second_pilot_of_the_same_name_leaves_at_once(world: World) -> None:
    folder = world.pilot("p1")
    until("it holds the lock", lambda: (folder / "lock").exists() and (folder / "lock").read_text())
    first = world.pilots.pop("p1")
    world.pilot("p1")
    assert world.pilots.pop("p1").wait(20) == 0
    world.pilots["p1"] = first
    assert first.poll() is None


def test_a_pool_that_is_not_served_makes_the_pilot_leave_as_failed(world: World) -> None:
    world.pilot("p1", "--pool", "elsewhere")
    summary = world.ended("p1")
    assert summary["ok"] is False
    assert "not served" in str(summary["why"])


def test_without_a_server_a_pilot_leaves_after_its_patience(world: World) -> None:
    world.stop_serving()
    world.pilot("p1", "--silence-s", "1")
    summary = world.ended("p1")
    assert (summary["why"], summary["ok"]) == ("silence", False)


def test_hostile_arguments_reach_the_program_verbatim_and_nothing_else(world: World) -> None:
    hostile = [
        "$(touch owned)",
        "`touch owned`",
        "; touch owned",
        "a\"b'c",
        "new\nline",
        "\x1b[2J",
        "\u202e",
        "-n",
    ]
    world.pilot("p1")
    job = world.submit("printf", "%s|", *hostile)
    world.over(job)
    assert world.log(job) == "".join(f"{arg}|" for arg in hostile)
    assert sorted(path.name for path in attempt_folder(world.home, job, 1).rglob("*")) == [
        "exit.json",
        "stderr",
        "stdout",
        "work",
    ]


def test_names_and_owners_are_no_part_of_any_path_or_environment(world: World) -> None:
    world.pilot("p1")
    spec = JobSpec("here", "../../o'wner", ("env",), name="../../$(na)me;")
    job = world.jobs.submit(spec)
    world.over(job)
    assert world.jobs.get(job).spec == spec
    assert "na)me" not in world.log(job)
    assert [path.name for path in (world.home / "jobs").iterdir()] == [str(job)]


def test_a_server_that_falls_silent_does_not_hold_up_a_pilot_told_to_stop(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    job = {
        "id": 7,
        "attempt": 1,
        "command": [sys.executable, "-c", code],
        "env": [],
        "request": [1000, 0, 0, 0],
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path(world.home)))
        listener.listen()
        listener.settimeout(30)
        world.pilot("p1")
        connection, _ = listener.accept()
        with connection:
            connection.sendall(line_of({"re": "hello", "home": str(world.home), "stop": []}))
            connection.sendall(line_of({"re": "job", "job": {**job, "run_s_max": None}}))
            out = attempt_folder(world.home, 7, 1) / "stdout"
            until("the job runs", lambda: out.exists() and out.read_text())
            told = time.monotonic()
            world.send("p1", signal.SIGINT)
            assert world.ended("p1")["unreported"] == 1
            assert time.monotonic() - told < 8
    world.close()
    record = exit_record(world.home, 7, 1, pilot="p1")
    assert record is not None
    assert record.how is How.GIVEN_BACK
