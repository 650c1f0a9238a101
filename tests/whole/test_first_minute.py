"""What a newcomer sees in the first minute, end to end, with real processes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from whole.running import Running, config_text, glidepath, house, left_behind, until

Up = Callable[..., Running]
SLEEPY = "trap '' TERM INT HUP; sleep 60 & wait; sleep 60"


def states(home: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for job in json.loads(glidepath(home, "job", "list", "-o", "json"))["items"]:
        counts[job["state"]] = counts.get(job["state"], 0) + 1
    return counts


@pytest.fixture(scope="module")
def sample() -> Iterator[tuple[Path, str]]:
    """What a first `glidepath up --sample` left and said, until it was idle."""
    with house() as home:
        run = Running(home, "--sample", "--until-idle")
        try:
            assert run.wait_end(within_s=120) == 0, run.text
            yield home, run.text
        finally:
            run.close()


def test_sample_jobs_of_two_shapes_run_on_pilots_that_are_asked_for_with_a_reason_and_leave(
    sample: tuple[Path, str],
) -> None:
    home, text = sample
    for said in (
        "demand local: 0.25 CPU 128MiB",
        "demand local: 0.5 CPU 512MiB",
        "ask for 2 pilots at here/worker",
        "rule: idle",
        "is busy",
        "is idle",
        "drain 2 pilots at here",
        "2 pilots at here ended",
    ):
        assert said in text
    assert states(home) == {"done": 12, "failed": 1}
    assert left_behind(home) == []
    assert glidepath(home, "job", "logs", "1") == "hello from job 1\n"
    assert "this one fails" in glidepath(home, "job", "logs", "13", "--stderr")
    assert "exit code 3" in glidepath(home, "job", "show", "13")


def test_every_kept_decision_is_replayed_exactly_and_another_policy_is_compared(
    sample: tuple[Path, str],
) -> None:
    home, _ = sample
    answers = json.loads(glidepath(home, "replay", "--last", "500", "-o", "json"))["items"]
    assert len(answers) >= 10
    assert {answer["equal"] for answer in answers} == {True}
    assert glidepath(home, "replay", "1", "--policy", "seed")


def test_ctrl_c_gives_jobs_back_and_leaves_nothing_within_ten_seconds(home: Path, up: Up) -> None:
    run = up()
    glidepath(home, "job", "submit", "--count", "3", "--cpus", "0.1", "--mem", "50MiB", "--", "sleep", "60")
    run.wait_for("is running", times=3)
    started = time.monotonic()
    run.signal(signal.SIGINT)
    assert run.wait_end(within_s=20) == 0
    assert time.monotonic() - started < 10
    assert states(home) == {"queued": 3}
    assert left_behind(home) == []


def test_a_second_ctrl_c_kills_also_jobs_that_do_not_listen(home: Path, up: Up) -> None:
    run = up()
    glidepath(home, "job", "submit", "--cpus", "0.1", "--mem", "50MiB", "--", "sh", "-c", SLEEPY)
    run.wait_for("is running")
    run.signal(signal.SIGINT)
    run.wait_for("stopping")
    started = time.monotonic()
    run.signal(signal.SIGINT)
    assert run.wait_end(within_s=20) == 0
    assert time.monotonic() - started < 5
    until(lambda: left_behind(home) == [], "nothing is left", within_s=10)
    assert states(home) == {"queued": 1}


def test_a_killed_glidepath_is_followed_by_one_that_adopts_its_pilots_and_runs_each_job_once(
    home: Path, up: Up
) -> None:
    (home / "c.toml").write_text(config_text())
    first = up("--config", str(home / "c.toml"))
    marks = home / "marks"
    marks.touch()
    script = f"echo run >> {marks}; sleep 8"
    glidepath(home, "job", "submit", "--count", "2", "--mem", "100MiB", "--", "sh", "-c", script)
    first.wait_for("is running", times=2)
    first.signal(signal.SIGKILL)
    first.wait_end()
    second = up("--config", str(home / "c.toml"), "--until-idle")
    assert second.wait_end(within_s=90) == 0
    assert states(home) == {"done": 2}
    assert marks.read_text() == "run\nrun\n"
    assert "ask for" not in second.text
    names = {line.split("pilot ")[1].split()[0] for line in first.lines if " pilot gp-" in line}
    assert names == {line.split("pilot ")[1].split()[0] for line in second.lines if " pilot gp-" in line}


def test_with_a_lost_store_pilots_are_adopted_by_label_and_no_limit_is_broken(home: Path, up: Up) -> None:
    (home / "c.toml").write_text(config_text(live_max=2))
    first = up("--config", str(home / "c.toml"))
    glidepath(home, "job", "submit", "--count", "4", "--mem", "100MiB", "--", "sleep", "30")
    first.wait_for("is running", times=2)
    first.signal(signal.SIGKILL)
    first.wait_end()
    for file in home.glob("glidepath.db*"):
        file.unlink()
    second = up("--config", str(home / "c.toml"))
    second.wait_for("pilot gp-.* is", times=2)
    glidepath(home, "job", "submit", "--count", "4", "--mem", "100MiB", "--", "true")
    second.wait_for("is done", times=4)
    glidepath(home, "job", "submit", "--count", "4", "--mem", "100MiB", "--", "sleep", "5")
    second.wait_for("is done", times=6)
    assert len(list((home / "pilots").iterdir())) <= 2
    second.signal(signal.SIGINT)
    assert second.wait_end(within_s=20) == 0


def test_hostile_jobs_reach_no_shell_no_path_and_no_terminal_unescaped(home: Path, up: Up) -> None:
    evil = "x\n\x1b[31m\u202e$(touch pwned);`id`'\"" + "y" * 300
    script = ("python3", "-c", "import sys; print(len(sys.argv[1]))", evil)
    asked = ("job", "submit", "--mem", "50MiB", "--cpus", "0.1")
    for name in (evil, "a\u202eb", "y" * 300):
        told = glidepath(home, *asked, "--name", name, "--", "true", code=2)
        assert not set(told) & set("\x1b\u202e")
    glidepath(home, *asked, "--name", "$(touch pwned) `id` ../../x", "--", *script)
    run = up("--until-idle")
    assert run.wait_end(within_s=60) == 0
    assert "\x1b" not in run.text
    assert "\u202e" not in run.text
    assert states(home) == {"done": 1}
    assert glidepath(home, "job", "logs", "1") == f"{len(evil)}\n"
    assert not list(home.rglob("pwned"))
