"""`glidepath up` with a cluster on this machine: what a person does with placed jobs, by commands alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placed.conftest import config_text
from whole.running import Running, glidepath, until

pytestmark = pytest.mark.real
Up = Callable[..., Running]
SMALL = ("--cpus", "1", "--mem", "64MiB")


def run(home: Path, *words: str, code: int = 0) -> str:
    return glidepath(home, *words, code=code, GLIDEPATH_CONFIG=str(home / "lab.toml"))


def submit(home: Path, *words: str, script: str) -> int:
    return int(run(home, "job", "submit", *SMALL, *words, "--", "sh", "-c", script).split()[-1])


def shown(home: Path, job: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(home, "job", "show", str(job), "-o", "json"))["items"][0]
    return found


def becomes(home: Path, job: int, state: str) -> dict[str, Any]:
    until(lambda: shown(home, job)["state"] == state, lambda: f"{state}: {shown(home, job)}")
    return shown(home, job)


def wrote(home: Path, job: int, rank: int, word: str) -> bool:
    log = home / "jobs" / str(job) / "1" / str(rank) / "stdout"
    return log.exists() and word in log.read_text()


def seen(home: Path) -> bool:
    """Whether the scheduler has planned once."""
    done = subprocess.run(
        [sys.executable, "-m", "glidepath", "node", "list", "--home", str(home), "-o", "name"],
        env={**os.environ, "GLIDEPATH_CONFIG": str(home / "lab.toml")},
        capture_output=True,
        text=True,
        check=False,
    )
    return "localhost-1" in done.stdout


def test_a_job_is_answered_with_a_start_and_runs_and_is_read_afterwards(home: Path, up: Up) -> None:
    up()
    first = submit(home, "--queue", "interactive", "--time", "10m", script="echo hello; sleep 2; exit 4")
    over = becomes(home, first, "failed")
    assert over["exit_code"] == 4
    assert run(home, "job", "logs", str(first)) == "hello\n"
    until(lambda: not list((home / "ranks").iterdir()), "what is over is cleared")


def test_a_gang_is_promised_waits_and_starts_whole(home: Path, up: Up) -> None:
    up()
    first = submit(home, "--queue", "interactive", "--time", "30m", script="sleep 600")
    becomes(home, first, "running")
    script = 'echo "rank $GLIDEPATH_RANK of $GLIDEPATH_RANKS"; wc -l < "$GLIDEPATH_RANK_FILE"'
    gang = submit(home, "--queue", "interactive", "--ranks", "2", "--time", "10m", script=script)
    waiting = shown(home, gang)
    assert waiting["state"] == "queued"
    assert waiting["promised"] is not None
    told = run(home, "job", "explain", str(gang))
    assert "promised" in told
    assert f"`{first}`" in told
    listed = run(home, "job", "list", "--start")
    assert waiting["promised"] in listed
    run(home, "job", "cancel", str(first))
    becomes(home, gang, "done")
    for rank in (0, 1):
        assert run(home, "job", "logs", str(gang), "--rank", str(rank)).split() == [
            *("rank", str(rank), "of", "2"),
            "2",
        ]
    assert shown(home, first)["state"] == "cancelled"


def test_a_limit_is_kept_while_glidepath_is_dead_and_told_afterwards(home: Path, up: Up) -> None:
    first = up()
    job = submit(home, "--queue", "interactive", "--time", "12s", script="echo began; sleep 600")
    becomes(home, job, "running")
    until(lambda: wrote(home, job, 0, "began"), "the job began")
    first.signal(signal.SIGKILL)
    first.wait_end()
    state = home / "ranks" / f"{job}.1" / "state.json"
    until(lambda: json.loads(state.read_text())["ranks"][0]["over"], "the keeper ended it")
    up()
    over = becomes(home, job, "failed")
    assert "time limit" in over["why"]
    assert over["attempt"] == 1
    # Each life of the scheduler tells instants to the second.
    assert 11 <= over["ran_s"] <= 60


def test_an_extension_is_granted_where_there_is_room_and_refused_where_not(home: Path, up: Up) -> None:
    up()
    job = submit(home, "--queue", "interactive", "--time", "20m", script="sleep 600")
    becomes(home, job, "running")
    run(home, "job", "extend", str(job), "--time", "2h")
    assert shown(home, job)["run_s_max"] == 7200
    limit = home / "ranks" / f"{job}.1" / "limit.json"
    until(lambda: json.loads(limit.read_text())["limit_s"] == 7200, "the keeper was told")
    other = submit(home, "--queue", "interactive", "--time", "20m", script="sleep 600")
    gang = submit(home, "--queue", "interactive", "--ranks", "2", "--time", "10m", script="true")
    becomes(home, other, "running")
    assert shown(home, gang)["state"] == "queued"
    said = run(home, "job", "extend", str(job), "--time", "4h", code=1)
    assert "a promised start would have to move" in said
    assert shown(home, job)["run_s_max"] == 7200
    run(home, "job", "extend", str(job), "--time", "4h", "--force")
    assert shown(home, job)["run_s_max"] == 14400
    run(home, "job", "cancel", str(job), str(other), str(gang))
    becomes(home, gang, "cancelled")
    becomes(home, job, "cancelled")
    becomes(home, other, "cancelled")


def test_whoever_loses_its_keeper_is_tried_again_and_told(home: Path, up: Up) -> None:
    up()
    script = 'if [ "$GLIDEPATH_ATTEMPT" = 1 ]; then sleep 600; fi; echo again'
    job = submit(home, "--queue", "interactive", "--time", "10m", script=script)
    becomes(home, job, "running")
    keeper = json.loads((home / "ranks" / f"{job}.1" / "keeper.json").read_text())["pid"]
    os.kill(keeper, signal.SIGKILL)
    over = becomes(home, job, "done")
    assert (over["attempt"], over["losses"]) == (2, 1)
    assert "again" in run(home, "job", "logs", str(job))
    assert any(event["kind"] == "waits again" for event in over["events"])


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_a_submit_file_says_everything(home: Path, up: Up, form: str) -> None:
    up()
    texts = {
        "toml": 'queue = "batch"\ncpus = 1\nmem = "64MiB"\ntime = "5m"\nname = "filed"\n'
        'command = ["sh", "-c", "cat in/note; echo $COLOUR"]\nenv = { COLOUR = "blue" }\n'
        '[[files]]\npath = "in/note"\ncontent = "a note\\n"\n',
        "yaml": "queue: batch\ncpus: 1\nmem: 64MiB\ntime: 5m\nname: filed\n"
        'command: ["sh", "-c", "cat in/note; echo $COLOUR"]\nenv: {COLOUR: blue}\n'
        'files: [{path: in/note, content: "a note\\n"}]\n',
    }
    file = home / f"job.{form}"
    file.write_text(texts[form])
    job = int(run(home, "job", "submit", "--file", str(file)).split()[-1])
    over = becomes(home, job, "done")
    assert (over["queue"], over["name"], over["shape"]) == ("batch", "filed", "1 CPU 64MiB")
    assert run(home, "job", "logs", str(job)) == "a note\nblue\n"


def test_operators_pause_and_cordon_and_people_are_told(home: Path, up: Up) -> None:
    up()
    until(lambda: seen(home), "the nodes were seen")
    run(home, "queue", "pause", "interactive", "--why", "a test")
    job = submit(home, "--queue", "interactive", "--time", "5m", script="true")
    assert "paused" in run(home, "job", "explain", str(job))
    assert "a test" in run(home, "queue", "list")
    run(home, "queue", "resume", "interactive")
    becomes(home, job, "done")
    run(home, "node", "cordon", "localhost-1")
    again = submit(home, "--queue", "interactive", "--time", "5m", script="sleep 600")
    assert becomes(home, again, "running")["nodes"] == ["localhost-2"]
    assert "cordoned" in run(home, "node", "list")
    run(home, "node", "resume", "localhost-1")
    run(home, "job", "cancel", str(again))
    becomes(home, again, "cancelled")


def test_only_testing_promises_and_submits_nothing(home: Path, up: Up) -> None:
    up()
    first = submit(home, "--queue", "interactive", "--time", "5m", script="true")
    becomes(home, first, "done")
    said = run(home, "job", "submit", *SMALL, "--queue", "interactive", "--test-only", "--", "true")
    assert "nothing was submitted" in said
    refused = run(
        home, "job", "submit", "--cpus", "64", "--queue", "batch", "--test-only", "--", "true", code=1
    )
    assert "no node of the partition is as large" in refused
    assert len(json.loads(run(home, "job", "list", "--all", "-o", "json"))["items"]) == 1


def test_the_same_client_key_is_the_same_job(home: Path, up: Up) -> None:
    up()
    words = ("job", "submit", *SMALL, "--queue", "interactive", "--client-key", "mine", "--", "true")
    assert run(home, *words) == run(home, *words)


def test_placed_and_pulled_jobs_run_side_by_side_with_no_configuration(home: Path) -> None:
    running = Running(home)
    try:
        placed = int(glidepath(home, "job", "submit", *SMALL, "--queue", "batch", "--", "echo", "placed"))
        pulled = int(
            glidepath(home, "job", "submit", "--cpus", "0.1", "--mem", "50MiB", "--", "echo", "pulled")
        )
        glidepath(home, "job", "wait", str(placed), str(pulled), "--timeout", "100s")
        assert glidepath(home, "job", "logs", str(placed)) == "placed\n"
        assert glidepath(home, "job", "logs", str(pulled)) == "pulled\n"
        running.signal(signal.SIGINT)
        assert running.wait_end() == 0
    finally:
        running.close()


def makers(folder: Path) -> list[Path]:
    """Processes that make machine code for this folder."""
    found = []
    for one in Path("/proc").iterdir():
        try:
            told = (one / "cmdline").read_bytes() + (one / "environ").read_bytes()
        except OSError:
            continue
        if b"machinecode import make" in told and os.fsencode(folder) in told:
            found.append(one)
    return found


def nice_of(one: Path) -> int:
    return int((one / "stat").read_text().rpartition(")")[2].split()[16])


def test_people_are_answered_while_machine_code_is_made_beside(home: Path, up: Up, tmp_path: Path) -> None:
    first = up(NUMBA_CACHE_DIR=str(tmp_path))
    until(lambda: seen(home), "the nodes were seen")
    run(home, "queue", "pause", "batch", "--why", "so that they wait")
    run(home, "job", "submit", *SMALL, "--queue", "batch", "--count", "320", "--", "true")
    first.wait_for("machine code for plans is made beside")
    until(lambda: [nice_of(maker) for maker in makers(tmp_path)] == [19], "it is behind all else")
    job = submit(home, "--queue", "interactive", "--time", "10m", script="true")
    assert shown(home, job)["promised"] is not None
    assert len(makers(tmp_path)) == 1, "it is still being made"
    becomes(home, job, "done")
    first.signal(signal.SIGINT)
    assert first.wait_end() == 0
    assert makers(tmp_path) == []


def test_on_postgresql_it_is_the_same(home: Path, up: Up, database: str) -> None:
    (home / "lab.toml").write_text(config_text(database))
    up()
    job = submit(home, "--queue", "interactive", "--ranks", "2", "--time", "5m", script="echo here")
    becomes(home, job, "done")
    assert run(home, "job", "logs", str(job), "--rank", "1") == "here\n"
    words = ("job", "submit", *SMALL, "--queue", "interactive", "--client-key", "mine", "--", "true")
    assert run(home, *words) == run(home, *words)
