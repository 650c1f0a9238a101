"""The verbs that read the journal, on two cycles that the real core decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from glidepath.cli.verb import Exit
from glidepath.journal.journal import Journal
from glidepath.status import StatusServer
from glidepath.store.engine import open_store

from . import scene
from .conftest import WALL, Cli, Ran

NOW = WALL - 30  # ten seconds after the second cycle
SAID = "\\x1b[2Jslurm \\u202esaid\\nno"
HERE = "cycle 2 10s old, demand local/embedded 10s old, pool local 10s old, site here 10s old"
SOURCES = f"sources: {HERE}, site west UNSEEN 50s ({SAID})\n"
NO_ROOM = (
    "every offer that fits is at a limit or closed (idle=4, free=1, coming=2, wanted=2, rule: idle = 2, "
    "asked=0, short=1, first: here/cpu: the offer is at its limit)"
)


NO_FIT = "no offer fits these jobs (idle=1, free=0, coming=0)"
AT_LIMIT = "the offer is at its limit (live=2, pending=1, asked=0)"


@pytest.fixture(autouse=True)
def journal(home: Path) -> None:
    scene.write(home)


def test_demand_shows_each_group_with_its_reason(cli: Cli) -> None:
    table = f"""\
POOL   SHAPE           IDLE  RUNNING  OLDEST  OWNERS            WHY
local  1 CPU 512MiB       4        0   1m10s  ann 3, bob\\x1b 1  {NO_ROOM}
local  128 CPU 512MiB     1        0     20s  ann 1             {NO_FIT}
"""
    assert cli("demand", wall=NOW) == Ran(0, table + SOURCES, "")


def test_pool_status_shows_pilots_by_phase_and_the_largest_group(cli: Cli) -> None:
    why = f"1 CPU 512MiB: {NO_ROOM}; 1 more in `glidepath demand`"
    table = f"""\
POOL   DEMAND  RUNNING  ASKED  PENDING  STARTING  BUSY  IDLE  UNKNOWN  WHY
local       5        0      0        1         0     1     0        0  {why}
"""
    assert cli("pool", "status", wall=NOW) == Ran(0, table + SOURCES, "")


def test_site_list_shows_how_each_site_was_judged(cli: Cli) -> None:
    ran = cli("site", "list", wall=NOW)
    assert [line.split()[:8] for line in ran.out.splitlines()[:3]] == [
        ["SITE", "OFFERS", "LIVE", "PENDING", "STARTING", "BUSY", "IDLE", "UNKNOWN"],
        ["here", "1", "2", "1", "0", "1", "0", "0"],
        ["west", "1", "0", "0", "0", "0", "0", "0"],
    ]
    assert "the site cannot be seen, so nothing is done there (live=0)" in ran.out


def test_site_status_shows_offers_with_limits_and_decisions(cli: Cli) -> None:
    table = f"""\
OFFER     SIZE        LIVE  PENDING  STARTING  BUSY  IDLE  UNKNOWN  WHY
here/cpu  2 CPU 4GiB   2/2        1         0     1     0        0  {AT_LIMIT}
"""
    note = "note: here: 1 pilot pending: \\x1b[2Jslurm \\u202esaid\\nno\n"
    assert cli("site", "status", "here", wall=NOW) == Ran(0, f"{table}{note}sources: {HERE}\n", "")


@pytest.mark.parametrize(
    ("words", "wall", "code"),
    [
        (["site", "status", "here", "--strict"], NOW, Exit.DONE),
        (["site", "status", "west", "--strict"], NOW, Exit.INCOMPLETE),
        (["site", "status", "west"], NOW, Exit.DONE),
        (["demand", "--strict"], NOW, Exit.INCOMPLETE),
        (["site", "status", "here", "--strict"], NOW + 1000, Exit.INCOMPLETE),
        (["site", "status", "hree"], NOW, Exit.NOT_FOUND),
        (["pool", "status", "lokal"], NOW, Exit.NOT_FOUND),
        (["pilot", "show", "gp-inc-1-7"], NOW, Exit.NOT_FOUND),
        (["explain", "nothing"], NOW, Exit.NOT_FOUND),
        (["explain", "99"], NOW, Exit.NOT_FOUND),
        (["replay", "9"], NOW, Exit.NOT_FOUND),
        (["replay", "--policy", "sed"], NOW, Exit.NOT_FOUND),
        (["replay", "1", "--last", "2"], NOW, Exit.USAGE),
    ],
)
def test_incomplete_stale_and_missing_have_their_own_codes(
    cli: Cli, words: list[str], wall: float, code: Exit
) -> None:
    assert cli(*words, wall=wall).code == code


def test_an_old_cycle_asks_whether_anybody_runs(cli: Cli) -> None:
    ran = cli("site", "status", "here", wall=NOW + 1000)
    assert "cycle 2 STALE 16m50s (is `glidepath up` running?)" in ran.out


def test_json_says_whether_the_answer_is_complete(cli: Cli) -> None:
    answer = json.loads(cli("demand", "-o", "json", wall=NOW).out)
    assert (answer["apiVersion"], answer["kind"], answer["complete"]) == ("glidepath/v1", "DemandList", False)
    assert answer["sources"][-1] == {
        "name": "site west",
        "age_s": 50,
        "state": "unseen",
        "why": scene.HOSTILE,
    }
    assert [(item["idle"], item["fits"]) for item in answer["items"]] == [
        (4, ["here/cpu", "west/big"]),
        (1, []),
    ]


def test_pilot_list_shows_phases_and_can_be_narrowed(cli: Cli) -> None:
    table = f"""\
NAME        OFFER     POOL   PHASE    FOR    AGE  JOBS  SIZE        WHY
gp-inc-1-0  here/cpu  local  busy     10s  1m10s     4  2 CPU 4GiB  -
gp-inc-1-1  here/cpu  local  pending  10s  1m10s     0  2 CPU 4GiB  {SAID}
"""
    assert cli("pilot", "list", wall=NOW) == Ran(0, table + SOURCES, "")
    assert cli("pilot", "list", "--phase", "busy", "-o", "name", wall=NOW).out == "gp-inc-1-0\n"
    assert cli("pilot", "list", "--site", "west", wall=NOW) == Ran(0, "", "no pilot matches\n")
    assert cli("pilot", "list", "--ended", wall=NOW) == Ran(0, "", "no pilot has ended yet\n")


def test_a_pilot_that_is_over_is_found_before_its_site_has_forgotten_it(cli: Cli, home: Path) -> None:
    scene.ended(home)
    assert cli("pilot", "list", "-o", "name", wall=NOW).out == "gp-inc-1-0\ngp-inc-3-0\n"
    (item,) = json.loads(cli("pilot", "list", "--ended", "-o", "json", wall=NOW).out)["items"]
    assert (item["name"], item["phase"], item["why"]) == ("gp-inc-1-1", "failed", "no such image")
    assert item["ended"] == "2027-01-15T07:59:30Z"
    assert "left because:   no such image" in cli("pilot", "show", "gp-inc-1-1", wall=NOW).out
    assert cli("pilot", "list", "--ended", "--phase", "failed", "-o", "name", wall=NOW).out == "gp-inc-1-1\n"
    for narrowed in (["--phase", "done"], ["--site", "west"]):
        assert cli("pilot", "list", "--ended", *narrowed, "-o", "name", wall=NOW).out == ""


@pytest.mark.parametrize("words", [["pilot", "show"], ["explain"]])
def test_the_story_of_a_pilot_begins_with_why_it_was_asked_for(cli: Cli, words: list[str]) -> None:
    card = f"""\
name:           gp-inc-1-0
offer:          here/cpu
pool:           local
owner:          ann
phase:          busy
size:           2 CPU 4GiB
asked because:  cycle 1: pilots are asked for here (live=0, pending=0, asked=2)
asked:          2027-01-15T07:58:20Z
started:        2027-01-15T07:59:20Z
joined:         2027-01-15T07:59:20Z
node:           n1
jobs run:       4
sources: {HERE}
"""
    assert cli(*words, "gp-inc-1-0", wall=NOW) == Ran(0, card, "")


def test_explain_an_offer_prints_the_last_decision_with_its_numbers(cli: Cli) -> None:
    said = f"""\
here/cpu: cycle 2, decided 2027-01-15T07:59:20Z
  offer:here/cpu: the offer is at its limit (live=2, pending=1, asked=0)
  here/cpu: 1 joined, 0 failed
sources: {HERE}
"""
    assert cli("explain", "here/cpu", wall=NOW) == Ran(0, said, "")


def test_explain_a_job_names_each_offer_and_the_term_that_fails(cli: Cli) -> None:
    cli("job", "submit", "--cpus", "128", "--time", "20h", "--trait", "arch=x86_64", "--", "true", wall=NOW)
    said = """\
  needs 128 CPU 512MiB arch=x86_64 in `local`
  decided: nothing yet; the next cycle will count it
  here/cpu: CPUs: the job needs 128, a pilot has 2; \
trait `arch`: the job needs `x86_64`, a pilot has `none`; time: the job may run 20h, a pilot lives 14h
  west/big: CPUs: the job needs 128, a pilot has 64; \
trait `arch`: the job needs `x86_64`, a pilot has `arm64`; time: the job may run 20h, a pilot lives 14h
"""
    ran = cli("explain", "1", wall=NOW)
    assert ran.code == 0
    assert ran.out.split("\n", 1)[1] == said + SOURCES


def test_explain_a_job_tells_what_was_decided_for_its_group(cli: Cli) -> None:
    cli("job", "submit", "--time", "1h", "--", "true", wall=NOW)
    ran = cli("explain", "1", wall=NOW)
    assert ran.out.splitlines()[1:-1] == [
        "  needs 1 CPU 512MiB in `local`",
        f"  decided: {NO_ROOM}",
        "  here/cpu: fits",
        "  west/big: fits",
        "  pilot gp-inc-1-0 busy",
        "  pilot gp-inc-1-1 pending",
    ]


def test_replay_finds_every_kept_decision_the_same(cli: Cli) -> None:
    said = "".join(f"cycle {n}: decided again, the same in all 6 decisions\n" for n in (1, 2))
    assert cli("replay", "--last", "5") == Ran(0, said, "")
    assert cli("replay", "1") == Ran(0, said.splitlines(keepends=True)[0], "")


def test_replay_shows_what_another_policy_would_have_decided(cli: Cli) -> None:
    ran = cli("replay", "--policy", "seed")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "cycle 2: decided with `seed`, it DIFFERS"
    assert [line[:4] for line in ran.out.splitlines()[1:]] == ["  - ", "  + "]


def test_replay_fails_when_a_kept_decision_is_not_reproduced(cli: Cli, home: Path) -> None:
    scene.broken(home)
    ran = cli("replay", "3")
    assert ran.code == Exit.FAILED
    assert "  - next cycle after 77 s\n" in ran.out


def test_journal_list_names_the_cycles(cli: Cli) -> None:
    table = """\
CYCLE  TIME                  ACTIONS
    1  2027-01-15T07:58:20Z        1
    2  2027-01-15T07:59:20Z        0
"""
    assert cli("journal", "list") == Ran(0, table, "")


READERS = [
    ["demand"],
    ["pool", "status"],
    ["site", "list"],
    ["site", "status"],
    ["pilot", "list"],
    ["pilot", "show", "gp-inc-1-1"],
    ["explain", "gp-inc-1-1"],
    ["explain", "west"],
    ["replay", "--policy", "seed"],
    ["journal", "list"],
]


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize("words", READERS)
def test_hostile_words_of_a_site_never_reach_the_terminal_raw(cli: Cli, words: list[str], form: str) -> None:
    ran = cli(*words, "-o", form, wall=NOW, terminal=True, NO_COLOR="1")
    assert ran.code == 0
    assert ran.out
    for line in (ran.out + ran.err).splitlines():
        assert line.isprintable()


def test_pause_and_resume_are_safe_to_repeat_and_kept(cli: Cli, home: Path, tmp_path: Path) -> None:
    steps = [
        (
            ["site", "pause", "this-machine", "--dry-run"],
            "would pause site `this-machine`; nothing was changed\n",
        ),
        (["site", "resume", "this-machine"], "site `this-machine` is not paused; nothing was changed\n"),
        (["site", "pause", "this-machine", "--why", "\x1b[2J"], "site `this-machine` is paused\n"),
        (["site", "pause", "this-machine"], "site `this-machine` is paused already; the words are renewed\n"),
        (["site", "pause", "this-machine/worker"], "offer `this-machine/worker` is paused\n"),
        (
            ["site", "resume", "this-machine", "--dry-run"],
            "would resume site `this-machine`; nothing was changed\n",
        ),
        (["site", "resume", "this-machine"], "site `this-machine` is resumed\n"),
        (["pool", "pause", "local"], "pool `local` is paused\n"),
        (["pool", "resume", "local"], "pool `local` is resumed\n"),
    ]
    file = tmp_path / "glidepath.toml"
    file.write_text(
        '[pools.local]\nkind = "embedded"\n[sites.this-machine]\nkind = "local"\n'
        '[sites.this-machine.offers.worker]\ncpus = 1\nmemory = "1GiB"\n'
    )
    for words, said in steps:
        assert cli(*words, "--config", str(file)) == Ran(0, "", said)


def test_only_what_is_configured_can_be_paused(cli: Cli) -> None:
    assert cli("pool", "pause", "lcal") == Ran(
        Exit.NOT_FOUND, "", "glidepath: no pool is named `lcal`; did you mean `local`?\n"
    )


def remembered(home: Path, trouble: str) -> StatusServer:
    """A running glidepath, as far as its status goes."""
    with open_store(f"sqlite:///{home / 'glidepath.db'}", read_only=True) as store:
        entry = Journal(store).latest()
    assert entry is not None
    server = StatusServer(home)
    server.trouble = trouble
    server.publish(replace(entry, cycle=3))
    return server


@pytest.fixture
def near() -> Iterator[Path]:
    """A home whose path is short enough for a socket, whatever the tests are called."""
    with TemporaryDirectory(prefix="gp") as folder:
        yield Path(folder) / "h"


@pytest.mark.parametrize("words", [["demand"], ["pool", "status"], ["site", "list"], ["pilot", "list"]])
def test_status_is_served_from_memory_when_the_store_has_failed(
    cli: Cli, near: Path, words: list[str]
) -> None:
    scene.write(near)
    server = remembered(near, "the disk is full")
    server.start()
    try:
        ran = cli(*words, "--home", str(near), wall=NOW)
        assert ran.code == 0
        assert "cycle 3 10s old, store FAILING (the disk is full; this is from memory)" in ran.out
        (near / "glidepath.db").write_bytes(b"no database" * 1000)
        assert "cycle 3 10s old, store FAILING" in cli(*words, "--home", str(near), wall=NOW).out
    finally:
        server.stop()
    assert cli(*words, "--home", str(near), wall=NOW).code == Exit.FAILED


def test_the_journal_is_read_while_the_store_is_well(cli: Cli, near: Path) -> None:
    scene.write(near)
    server = remembered(near, "")
    server.start()
    try:
        assert cli("demand", "--home", str(near), wall=NOW).out.endswith(SOURCES)
    finally:
        server.stop()
