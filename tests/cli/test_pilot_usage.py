"""`glidepath pilot usage`: where the hours of pilots went, for people and for spreadsheets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glidepath.cli.verb import Exit
from glidepath.core.quantity import Instant
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate
from journal.values import an_end, written_off

from .conftest import Cli, Ran

DAY = 86400
T0 = 20_000 * DAY  # the fourth of October 2024
NOW = float(T0 + 10 * DAY)


def at(day: int) -> Instant:
    return Instant(T0 + day * DAY + 60)


@pytest.fixture
def told(cli: Cli, home: Path) -> Cli:
    home.mkdir(parents=True)
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        migrate(store)
        written_off(
            store,
            an_end("a", ended_at=at(0), busy_s=3600, idle_s=600, pending_s=100, starting_s=20),
            an_end("b", ended_at=at(1), busy_s=0, idle_s=900, jobs_run=0),
            an_end("c", "=east", ended_at=at(1), busy_s=70, idle_s=3, failed_s=300),
        )
    return cli


TABLE = """\
SITE   PILOTS  JOBS  USED-H  UNCLAIMED-H  STARTING-H  FAILED-H  WASTED-%  COST
=east       1     5    0.02         0.00        0.00      0.08      81.4  0.00
west        2     5    1.00         0.42        0.03      0.00      31.1  0.00
note: pilots that are not over are counted when they are
"""
CSV = """\
start,site,offer,pool,owner,pilots,unused,jobs_run,busy_hours,cpu_hours,unclaimed_hours,starting_hours,\
failed_hours,wasted_hours,wasted_percent,cost
2024-10-04T00:00:00Z,west,,,,1,0,5,1.0,0.0,0.166667,0.033333,0.0,0.2,16.7,0.0
2024-10-05T00:00:00Z,'=east,,,,1,0,5,0.019444,0.0,0.000833,0.000833,0.083333,0.085,81.4,0.0
2024-10-05T00:00:00Z,west,,,,1,1,0,0.0,0.0,0.25,0.000833,0.0,0.250833,100.0,0.0
"""


def test_it_is_told_as_a_table_as_json_and_as_csv(told: Cli) -> None:
    words = ("pilot", "usage", "--since", "2024-10-01")
    assert told(*words, wall=NOW) == Ran(0, TABLE, "")
    items = json.loads(told(*words, "--by", "site,owner", "-o", "json", wall=NOW).out)["items"]
    assert [(item["site"], item["owner"], item["offer"]) for item in items] == [
        ("=east", "alice", None),
        ("west", "alice", None),
    ]
    assert told(*words, "--step", "day", "-o", "csv", wall=NOW) == Ran(0, CSV, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "sight"), "did you mean `site`?"),
        (("--since", "soon"), "`soon` is no time"),
        (("--since", "1d", "--until", "2d"), "`--until` must be later than `--since`"),
    ],
)
def test_what_cannot_be_understood_is_told(told: Cli, words: tuple[str, ...], said: str) -> None:
    ran = told("pilot", "usage", *words, wall=NOW)
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert said in ran.err


def test_where_nothing_ended_that_is_said(told: Cli) -> None:
    ran = told("pilot", "usage", "--since", "1h", wall=NOW + 300 * DAY)
    assert ran == Ran(0, ran.out, "no pilot has ended in this time\n")
