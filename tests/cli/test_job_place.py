"""Placed jobs through the command line, on a real store and without a scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glidepath.clock import SteadyClock
from glidepath.core.quantity import Resources
from glidepath.store.engine import open_store
from glidepath.store.job import Ask
from glidepath.store.jobs import JobStore

from .conftest import WALL, Cli

SUBMIT = ("job", "submit", "--queue", "interactive")


def item(cli: Cli, job: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("job", "show", str(job), "-o", "json").out)["items"][0]
    return found


def test_without_a_scheduler_a_job_is_kept_and_that_is_said(cli: Cli) -> None:
    ran = cli(*SUBMIT, "--cpus", "2", "--mem", "4GiB", "--time", "2h", "--", "true")
    assert (ran.code, ran.out) == (0, "1\n")
    assert "no scheduler runs here at present" in ran.err
    found = item(cli)
    assert (found["state"], found["queue"], found["run_s_max"]) == ("queued", "interactive", 7200)
    assert found["shape"] == "2 CPU 4GiB"
    assert [event["kind"] for event in found["events"]] == ["submitted"]


@pytest.mark.parametrize(
    ("words", "queue"),
    [
        (("--queue", "batch", "--port", "8080"), "batch"),
        (("--port", "8080"), "interactive"),
        (("-t",), "interactive"),
        (("--ranks", "2"), "batch"),
        (("--partition", "here"), "batch"),
    ],
)
def test_which_queue_a_job_goes_to(cli: Cli, words: tuple[str, ...], queue: str) -> None:
    assert cli("job", "submit", *words, "--", "true").code == 0
    assert item(cli)["queue"] == queue


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-t",), "1 job of 1 CPU 512MiB to interactive of `here`, because it asks for a terminal"),
        (("--count", "3", "--queue", "batch"), "3 jobs of 1 CPU 512MiB to batch of `here`"),
        ((), "1 job of 1 CPU 512MiB to `local`"),
    ],
)
def test_a_dry_run_says_which_queue_and_why(cli: Cli, words: tuple[str, ...], said: str) -> None:
    ran = cli("job", "submit", "--dry-run", *words, "--", "true")
    assert (ran.code, ran.out, ran.err) == (0, "", f"would submit {said}; nothing was submitted\n")


def test_a_job_with_nothing_of_that_kind_goes_to_the_pool(cli: Cli) -> None:
    assert cli("job", "submit", "--", "true").code == 0
    assert item(cli)["partition"] == "local"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ranks", "0"), "the number of ranks is 0; it must be from 1 to 10000"),
        (("--workdir", "/tmp/../etc"), "the working directory has `.`, `..` or a slash at its end"),
        (("--workdir", "here"), "the working directory is not absolute"),
        (("--image", "$(reboot)"), "the image is not a name such as `docker.io/library/python:3.13`"),
        (("--image", "a\x1b[2J"), "the image is not a name such as `docker.io/library/python:3.13`"),
        (
            ("--start-after", "tomorrow"),
            "`--start-after`: `tomorrow` is no time; write `2030-01-31T08:00:00Z`",
        ),
        (("--deadline", "2030-01-31T08:00:00"), "`--deadline`: `2030-01-31T08:00:00` is no time"),
        (("--same-node",), "`same_node` needs a job to be beside"),
        (("--port", "70000"), "the port is 70000; it must be from 1 to 65535"),
        (("--put", "/no/such/file"), "`/no/such/file` cannot be put beside the job"),
        (("--partition", "local"), "`--queue` is for jobs that are placed, and pilots take those of `local`"),
        (("--partition", "hree"), "no partition is named `hree`; did you mean `here`?"),
        (("--env", "GLIDEPATH_RANK=7"), "the variable `GLIDEPATH_RANK` is set by glidepath"),
    ],
)
def test_every_mistake_of_a_submission_is_one_sentence_and_nothing_is_submitted(
    cli: Cli, home: Path, words: tuple[str, ...], said: str
) -> None:
    ran = cli(*SUBMIT, *words, "--", "true")
    assert ran.code != 0
    assert said in ran.err
    assert ran.err.count("\n") <= 2
    assert not (home / "glidepath.db").exists() or cli("job", "list", "-o", "name").out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue = 'batch'\ncpu = 1\n", "`cpu`: unknown key; did you mean `cpus`?"),
        ("queue = 'fast'\n", "`queue`: `fast` is none of `interactive`, `batch`"),
        ("mem = 4\n", "`mem`:"),
        ("command = 'true'\n", "`command`: is not a list of texts"),
        ("exclusive = 'yes'\n", "`exclusive`: is `true` or `false`"),
        ("ranks = [1]\n", "`ranks`: must be a whole number, not a list"),
        ("queue = \n", "is not read"),
        ("[[files]]\npath = '../x'\n", "the path of a file has `.`, `..` or a slash at its end"),
        ("[[files]]\ncontent = 'x'\n", "each is a table of `path`, `content`"),
        ("test_only = true\n", "`test_only`: unknown key"),
    ],
)
def test_every_mistake_of_a_submit_file_names_file_and_key(
    cli: Cli, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    ran = cli(*SUBMIT, "--file", str(file), "--", "true")
    assert ran.code == 2
    assert said in ran.err


def test_a_client_key_for_another_job_is_refused(cli: Cli) -> None:
    words = (*SUBMIT, "--client-key", "k")
    assert cli(*words, "--", "true").out == cli(*words, "--", "true").out == "1\n"
    ran = cli(*words, "--", "false")
    assert ran.code == 1
    assert "the client key was used for another job, 1" in ran.err


def test_a_job_that_waits_is_cancelled_at_once_and_not_extended(cli: Cli) -> None:
    cli(*SUBMIT, "--", "true")
    ran = cli("job", "extend", "1", "--time", "2h")
    assert ran.code == 1
    assert "job 1 does not run: it is queued" in ran.err
    assert cli("job", "cancel", "1").code == 0
    assert item(cli)["state"] == "cancelled"


def test_what_only_placed_jobs_have_is_not_said_of_others(cli: Cli) -> None:
    cli("job", "submit", "--", "true")
    for words in (("extend", "1", "--time", "2h"), ("explain", "1")):
        ran = cli("job", *words)
        assert ran.code == 2
        assert "job 1 is not a placed one" in ran.err


def test_pilots_never_take_a_placed_job(cli: Cli, home: Path) -> None:
    cli(*SUBMIT, "--", "true")
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        jobs = JobStore(store, SteadyClock(wall=lambda: WALL + 5))
        assert jobs.claim(Ask("gp-x-1-0", ("here",), Resources(64_000, 64_000), 86400, 100)) == []


def test_words_about_queues_and_partitions_are_kept_and_may_be_repeated(cli: Cli) -> None:
    cli(*SUBMIT, "--", "true")
    assert cli("queue", "pause", "interactive", "--why", "a disk").code == 0
    assert "already" in cli("queue", "pause", "interactive").err
    assert cli("partition", "pause", "here").code == 0
    rows = json.loads(cli("partition", "list", "-o", "json").out)["items"]
    assert {row["name"]: row["paused"] for row in rows} == {"here": True, "local": False}
    assert "already" not in cli("queue", "resume", "interactive").err
    assert cli("queue", "pause", "fast").code == 4
    assert cli("node", "cordon", "nowhere").code == 4
