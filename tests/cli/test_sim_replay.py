"""`glidepath sim replay`: the recorded past under another policy or other limits, and how it says no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glidepath.sim.keep import InStore
from glidepath.sim.study import simulated
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate
from sim.histories import small_scenario

from . import scene
from .conftest import Cli


@pytest.fixture
def live(home: Path) -> Path:
    """The home of a glidepath that has worked for two hours."""
    home.mkdir(parents=True)
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        migrate(store)
        simulated(small_scenario(per_hour=120), 3, keeps=InStore(store))
    return home


def rows(text: str) -> dict[str, dict[str, Any]]:
    return {item["rules"]: item for item in json.loads(text)["items"]}


def test_three_rows_say_what_was_what_the_model_makes_of_it_and_what_would_have_been(
    cli: Cli, live: Path
) -> None:
    what_if = ("--policy", "steady", "--set", "offers.west/one.live_max=6")
    ran = cli("sim", "replay", *what_if, "--match-every", "30s", "-o", "json")
    assert ran.code == 0, ran.err
    found = rows(ran.out)
    recorded, again, asked = found.values()
    assert list(found) == [
        "as recorded",
        "simulated: as it was (seed)",
        "simulated: steady, offers.west/one.live_max=6",
    ]
    assert again["wait_mean_s"] == pytest.approx(recorded["wait_mean_s"], rel=0.25, abs=15)
    assert asked["wait_mean_s"] > 2 * again["wait_mean_s"]
    assert ran.err.startswith("seed 1\n")
    assert "note: jobs are told by how many waited and ran at each look" in ran.err


def test_the_journal_may_be_a_home_a_file_or_an_address(cli: Cli, live: Path) -> None:
    file = live / "glidepath.db"
    answers = [
        cli("sim", "replay", "--from", where, "-o", "json").out
        for where in (str(live), str(file), f"sqlite:///{file}")
    ]
    assert len(set(answers)) == 1
    assert list(rows(answers[0])) == ["as recorded", "simulated: as it was (seed)"]


def test_the_table_is_for_people(cli: Cli, live: Path) -> None:
    ran = cli("sim", "replay", "--policy", "one-to-one")
    assert ran.code == 0, ran.err
    head, *lines = ran.out.splitlines()
    assert head.split() == ["RULES", "JOBS", "WAIT", "MEAN", "P95", "BUSY", "H", "WASTE", "H", "PILOTS",
                            "UNUSED", "COST"]  # fmt: skip
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--policy", "stedy"), 2, "did you mean `steady`?"),
        (("--set", "sites.wset.live_max=3"), 2, "there is no `wset`; did you mean `west`?"),
        (("--set", "nonsense"), 2, "is not a change of a limit"),
        (("--seed", "seven"), 2, "`seven` is not a whole number"),
        (("--match-every", "often"), 2, "--match-every"),
        (("--since-cycle", "100000"), 1, "too few cycles"),
        (("--from", "/nowhere/at/all.db"), 4, "there is no store"),
        (("--from", "mysql://x/y"), 2, "is not a kind of store"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_one_sentence(
    cli: Cli, live: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = cli("sim", "replay", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_journal_of_two_cycles_is_enough_and_an_empty_one_is_not(cli: Cli, home: Path) -> None:
    scene.write(home)
    assert cli("sim", "replay").code == 0
