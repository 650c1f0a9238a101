"""Jobs through the command line, on a real store in a real home."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from glidepath.cli.main import main
from glidepath.cli.session import login
from glidepath.cli.verb import Caller, Exit
from glidepath.clock import SteadyClock
from glidepath.core.quantity import Resources
from glidepath.store.engine import open_store
from glidepath.store.job import Ask, ExitRecord, How
from glidepath.store.jobs import JobStore

from .conftest import WALL, Cli, Ran

OWNER = login()
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\nrm -rf \u202e\u05d0 \x9b31m"


def claimed(home: Path, *, exit_code: int | None = None, pilot: str = "gp-x-1-0") -> None:
    """A pilot takes all that waits, and ends it where an exit code is given."""
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        jobs = JobStore(store, SteadyClock(wall=lambda: WALL + 5))
        taken = jobs.claim(Ask(pilot, ("local",), Resources(64_000, 64_000), 86400, 100))
        if exit_code is not None:
            ends = [
                ExitRecord(
                    job.id,
                    job.attempt,
                    pilot,
                    How.EXITED,
                    exit_code,
                    started_wall=WALL + 5,
                    ended_wall=WALL + 8,
                )
                for job in taken
            ]
            jobs.finish(ends)


def wrote(home: Path, text: bytes, *, job: int = 1, attempt: int = 1, name: str = "stdout") -> Path:
    file = home / "jobs" / str(job) / str(attempt) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    return file


def test_submit_prints_only_the_numbers(cli: Cli) -> None:
    assert cli("job", "submit", "--count", "3", "--", "sleep", "1") == Ran(0, "1\n2\n3\n", "")
    assert cli("job", "submit", "-o", "name", "--", "true") == Ran(0, "4\n", "")


def test_a_dry_run_stores_nothing_and_makes_no_home(cli: Cli, home: Path) -> None:
    said = "would submit 2 jobs of 2 CPU 4GiB 1GiB disk arch=arm64 to `local`; nothing was submitted\n"
    words = [
        "--cpus",
        "2",
        "--mem",
        "4GiB",
        "--disk",
        "1GiB",
        "--trait",
        "arch=arm64",
        "--count",
        "2",
        "--dry-run",
    ]
    assert cli("job", "submit", *words, "--", "true") == Ran(0, "", said)
    assert not home.exists()


def test_the_list_shows_jobs_in_every_state(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--name", "fit", "--", "true")
    claimed(home, exit_code=3)
    cli("job", "submit", "--name", "run", "--cpus", "500m", "--", "true")
    claimed(home)
    cli("job", "submit", "--gpus", "1", "--", "true")
    owner, title = OWNER.ljust(5), "OWNER".ljust(len(OWNER))
    table = f"""\
ID  NAME  {title}  STATE    EXIT    AGE    RAN  SHAPE               WHY
 1  fit   {owner}  failed   3     1m30s     3s  1 CPU 512MiB        -
 2  run   {owner}  running  -     1m30s  1m25s  0.5 CPU 512MiB      -
 3  -     {owner}  queued   -     1m30s      -  1 CPU 512MiB 1 GPU  -
"""
    assert cli("job", "list", wall=WALL + 90) == Ran(0, table, "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], "1\n2\n3\n"),
        (["--me"], "1\n2\n3\n"),
        (["--state", "queued"], "3\n"),
        (["--state", "running"], "2\n"),
        (["--state", "starting"], ""),
        (["--state", "failed"], "1\n"),
        (["--limit", "2"], "2\n3\n"),
        (["--limit", "2", "--all"], "1\n2\n3\n"),
        (["--partition", "local"], "1\n2\n3\n"),
        (["--partition", "other"], ""),
    ],
)
def test_the_list_can_be_narrowed(cli: Cli, home: Path, words: list[str], names: str) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=1)
    cli("job", "submit", "--", "true")
    claimed(home)
    cli("job", "submit", "--", "true")
    assert cli("job", "list", "-o", "name", *words).out == names


def test_numbers_of_jobs_grow_beyond_a_million(cli: Cli) -> None:
    cli("job", "submit", "--", "true")
    for words in (("show",), ("cancel",), ("logs",), ("explain",), ("extend", "--time", "1h")):
        ran = cli("job", words[0], "123456789012345678", *words[1:])
        assert (ran.code, ran.err.startswith("glidepath: there is no job 123456789012345678")) == (4, True)
    assert cli("job", "show", "1234567890123456789").code == 2


def test_show_tells_every_attempt_and_hides_the_values_of_variables(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--name", "fit", "--time", "1h", "--env", "TOKEN=secret", "--", "sh", "-c", "exit 3")
    claimed(home, exit_code=3)
    assert cli("job", "show", "1", wall=WALL + 60) == Ran(
        0,
        f"""\
id:          1
name:        fit
owner:       {OWNER}
state:       failed
partition:   local
shape:       1 CPU 512MiB
pilot:       gp-x-1-0
submitted:   2027-01-15T08:00:00Z
started:     2027-01-15T08:00:05Z
ended:       2027-01-15T08:00:08Z
exit:        3
age:         1m
ran:         3s
time limit:  1h
losses:      0 of 3 allowed
command:     sh -c 'exit 3'
variables:   TOKEN
attempt 1:   exited 3 on gp-x-1-0, started 2027-01-15T08:00:05Z
""",
        "",
    )
    assert "secret" not in cli("job", "show", "1", "-o", "json").out


def test_cancel_does_what_it_can_and_names_what_it_cannot_find(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home)
    cli("job", "submit", "--", "true")
    said = (
        "glidepath: there is no job 9; one that is over is kept for 90d after its end; "
        "`glidepath job list --all` shows those that are kept\n"
    )
    table = "ID  BEFORE   STATE\n 1  running  cancelling\n 2  queued   cancelled\n"
    dry = cli("job", "cancel", "1", "2", "--dry-run")
    assert dry == Ran(0, table, "nothing was cancelled: this was a dry run\n")
    assert cli("job", "cancel", "1", "9", "2") == Ran(Exit.NOT_FOUND, table, said)
    again = "ID  BEFORE      STATE\n 1  cancelling  cancelling\n 2  cancelled   cancelled\n"
    assert cli("job", "cancel", "1", "2") == Ran(0, again, "")


@pytest.mark.parametrize(("exit_code", "code"), [(0, Exit.DONE), (1, Exit.FAILED)])
def test_wait_ends_with_the_fate_of_the_jobs(cli: Cli, home: Path, exit_code: int, code: Exit) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=exit_code)
    assert cli("job", "wait", "1").code == code


def test_wait_gives_up_after_its_limit(cli: Cli) -> None:
    cli("job", "submit", "--", "true")
    ran = cli("job", "wait", "1", "--timeout", "3s")
    assert (ran.code, ran.err) == (Exit.FAILED, "glidepath: gave up after 3s: not over yet: 1\n")


def test_logs_go_to_a_pipe_as_they_are(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    raw = bytes(range(256)) * 1000
    wrote(home, raw)
    taken = io.BytesIO()
    with io.TextIOWrapper(taken, encoding="utf-8") as out:
        caller = Caller(out, io.StringIO(), {"GLIDEPATH_HOME": str(home)}, lambda seconds: None, lambda: WALL)
        assert main(["job", "logs", "1"], caller=caller) == 0
        assert taken.getvalue() == raw


def test_logs_on_a_terminal_are_made_safe_and_keep_their_lines(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    wrote(home, "one\n\x1b[2Jtwo\tthree\r\u202e\n".encode() + b"\xff\n", name="stderr")
    ran = cli("job", "logs", "1", "--stderr", terminal=True)
    assert ran.out == "one\n\\x1b[2Jtwo\tthree\\r\\u202e\n\ufffd\n"


def test_logs_can_be_cut_to_their_end_and_followed_to_the_end_of_the_job(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    wrote(home, b"x" * 100_000 + b"end\n")
    assert cli("job", "logs", "1", "--bytes", "4").out == "end\n"
    assert cli("job", "logs", "1", "-f", "--bytes", "4").out == "end\n"


def test_what_is_not_kept_of_a_log_is_said_in_its_place(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    wrote(home, b"head")
    wrote(home, b"tail\n", name="stdout.1000")
    gone = "\n[glidepath: 996 bytes that were written here are not kept]\n"
    assert cli("job", "logs", "1").out == f"head{gone}tail\n"
    assert cli("job", "logs", "1", "--bytes", "7").out == gone.replace("996", "2") + "tail\n"
    assert cli("job", "logs", "1", "--bytes", "0").out == ""


def test_logs_follow_no_link_and_read_no_pipe(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    file = wrote(home, b"")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    file.unlink()
    file.symlink_to(secret)
    ran = cli("job", "logs", "1")
    nothing = Ran(Exit.NOT_FOUND, "", "glidepath: job 1 left no stdout for attempt 1\n")
    assert ran == nothing
    file.unlink()
    os.mkfifo(file)
    assert cli("job", "logs", "1") == nothing


def test_a_folder_that_is_a_link_is_not_followed(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("job", "submit", "--", "true")
    claimed(home, exit_code=0)
    elsewhere = tmp_path / "elsewhere" / "1"
    elsewhere.mkdir(parents=True)
    (elsewhere / "stdout").write_text("secret")
    (home / "jobs").mkdir()
    (home / "jobs" / "1").symlink_to(elsewhere.parent)
    ran = cli("job", "logs", "1")
    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "")


def test_logs_of_a_job_that_has_not_started_or_wrote_nothing_are_not_found(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    assert cli("job", "logs", "1").err == "glidepath: job 1 has not started yet: it is queued\n"
    claimed(home)
    assert cli("job", "logs", "1") == Ran(
        Exit.NOT_FOUND, "", "glidepath: job 1 left no stdout for attempt 1\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--name", HOSTILE], "the name has the control character U+001B at place 1; leave it out"),
        (["--name", "x" * 300], "the name has 300 characters; at most 200 are kept"),
        (["--env", "GLIDEPATH_X=1"], "the variable `GLIDEPATH_X` is set by glidepath; choose another name"),
        (["--cpus", "0"], "the request for CPU is 0; it must be from 1 to 1000000000"),
        (["--trait", "a=b", "--trait", "a=c"], "traits must be sorted and each named once"),
    ],
)
def test_a_bad_job_is_refused_with_a_reason_and_nothing_is_made(
    cli: Cli, home: Path, words: list[str], said: str
) -> None:
    ran = cli("job", "submit", *words, "--", "true")
    assert ran == Ran(Exit.USAGE, "", f"glidepath: the job is not submitted: {said}\n")
    assert not home.exists()


def test_an_unknown_partition_gets_a_suggestion(cli: Cli) -> None:
    assert cli("job", "submit", "--partition", "locl", "--", "true") == Ran(
        Exit.NOT_FOUND, "", "glidepath: no partition is named `locl`; did you mean `local`?\n"
    )


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize("verb", ["list", "show", "wait"])
def test_hostile_commands_and_names_never_reach_the_terminal_raw(cli: Cli, verb: str, form: str) -> None:
    cli("job", "submit", "--name", "\u05d0 'q' \"$(x)", "--", "sh", "-c", HOSTILE)
    cli("job", "cancel", "1")
    words = ["list"] if verb == "list" else [verb, "1"]
    ran = cli("job", *words, "-o", form, terminal=True, NO_COLOR="1")
    assert ran.out
    for line in (ran.out + ran.err).splitlines():
        assert line.isprintable()
        assert "\u05d0" not in line
        assert "\u202e" not in line
    if form == "json":
        assert json.loads(ran.out)["items"][0]["command"] == ["sh", "-c", HOSTILE]


def test_without_a_store_the_next_step_is_named(cli: Cli, home: Path) -> None:
    assert cli("job", "list") == Ran(
        Exit.NOT_FOUND,
        "",
        f"glidepath: there is no store at `{home}/glidepath.db` yet\nhint: start it with `glidepath up`\n",
    )
    assert not home.exists()


def test_a_store_that_is_no_database_is_one_line(cli: Cli, home: Path) -> None:
    home.mkdir()
    (home / "glidepath.db").write_bytes(b"not a database" * 100)
    ran = cli("job", "list")
    assert ran.code == Exit.FAILED
    assert ran.err.startswith(
        f"glidepath: the store `{home}/glidepath.db` cannot be used: it is not a database"
    )
    assert ran.err.count("\n") == 1


def test_verbose_says_which_home_and_configuration_are_used(cli: Cli, home: Path) -> None:
    ran = cli("-v", "job", "submit", "--", "true")
    assert ran.out == "1\n"
    assert (
        ran.err == f"home: {home} (from $GLIDEPATH_HOME)\nconfiguration: none (from the embedded default)\n"
    )
