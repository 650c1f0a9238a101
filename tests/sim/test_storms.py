"""Storms: every fault at once over whole histories. What breaks is told by the one line that repeats it.

The seeds of `kept_seeds.toml` once found something and are run for ever.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from glidepath.journal.journal import Journal
from glidepath.sim.fault import NAMES
from glidepath.sim.keep import Encoded, InStore, Keeps
from glidepath.sim.storm import storm
from glidepath.sim.study import replayed, simulated
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate
from soak import WORLDS, Case, Stormed, all_stormed, repeat_line

SEEDS = range(24)
NODE_SEEDS = range(8)
CYCLES = 200  # under faults; with the calm after them about three hundred
WORKERS = 2
KEPT_KEYS = {"scenario", "seed", "cycles", "why"}
KEPT = tomllib.loads((Path(__file__).parent / "kept_seeds.toml").read_text(encoding="utf-8"))["seed"]
Runs = dict[Case, Stormed]


@pytest.fixture(scope="module")
def runs() -> Runs:
    """All seeds of this file once, on both cores."""
    cases = {(seed, CYCLES, "storm") for seed in SEEDS} | {
        (seed, CYCLES, "node-storm") for seed in NODE_SEEDS
    }
    cases |= {(kept["seed"], kept["cycles"], kept["scenario"]) for kept in KEPT}
    return {(run.seed, run.cycles, run.world): run for run in all_stormed(sorted(cases), WORKERS)}


def assert_whole(run: Stormed) -> None:
    if run.broken:
        pytest.fail(f"{run.line}\n{run.broken[0]}", pytrace=False)
    # Cycles in which the controller died before its plan was written are the only ones without a plan.
    assert 0.7 * run.turns < run.replayed <= run.turns


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_breaks_nothing_leaves_nobody_and_replays(runs: Runs, seed: int) -> None:
    assert_whole(runs[(seed, CYCLES, "storm")])


@pytest.mark.parametrize("seed", NODE_SEEDS)
def test_a_storm_over_jobs_of_several_nodes_breaks_nothing_either(runs: Runs, seed: int) -> None:
    assert_whole(runs[(seed, CYCLES, "node-storm")])


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"{kept['scenario']}-{kept['seed']}")
def test_a_seed_that_once_found_something_stays_whole(runs: Runs, kept: dict[str, Any]) -> None:
    assert set(kept) == KEPT_KEYS
    assert (kept["scenario"] in WORLDS, bool(kept["why"])) == (True, True)
    assert_whole(runs[(kept["seed"], kept["cycles"], kept["scenario"])])


def test_every_fault_struck_often_and_the_worlds_were_not_small(runs: Runs) -> None:
    struck = Counter[str]()
    for run in runs.values():
        struck.update(run.faults)
    assert set(struck) == set(NAMES)
    assert min(struck.values()) >= len(runs) // 2
    assert sum(run.turns for run in runs.values()) > 250 * len(runs)
    assert sum(run.pilots for run in runs.values()) > 100 * len(runs)


def digest(keeps: Keeps) -> str:
    told = hashlib.sha256()
    for entry in keeps.entries():
        told.update(repr((entry.cycle, entry.plan, entry.outcomes)).encode())
    return told.hexdigest()


@pytest.mark.parametrize("seed", [2, 11])
def test_the_journal_of_a_real_store_keeps_the_same_plans_and_each_pilot_once(
    seed: int, tmp_path: Path
) -> None:
    encoded = Encoded()
    simulated(storm(seed), seed, cycles=100, keeps=encoded)
    with open_store(f"sqlite:///{tmp_path}/glidepath.db") as store:
        migrate(store)
        run = simulated(storm(seed), seed, cycles=100, keeps=InStore(store))
        if run.broken:
            pytest.fail(f"{repeat_line('storm', seed, 100)}\n{run.broken[0]}", pytrace=False)
        count, differ = replayed(InStore(store))
        assert (digest(InStore(store)), differ) == (digest(encoded), ())
        closed = Counter(row.ended.name for row in Journal(store).ended(limit=10_000))
    assert count > 100
    assert [name for name, times in closed.items() if times > 1] == []
    assert len(closed) > run.result.score.asked * 0.9


DIGEST = """
import sys
sys.path[:0] = [{tests!r}, {sim!r}]
from test_storms import plans_of
print(plans_of(7))
"""


def plans_of(seed: int) -> str:
    kept = Encoded()
    simulated(storm(seed), seed, cycles=100, keeps=kept)
    return digest(kept)


def test_the_same_storm_gives_the_same_plans_under_any_hash_seed() -> None:
    code = DIGEST.format(tests=str(Path(__file__).parent.parent), sim=str(Path(__file__).parent))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE
        )
        for seed in ("0", "1", "4242")
    ]
    digests = {child.communicate(timeout=120)[0] for child in running}
    assert [child.returncode for child in running] == [0, 0, 0]
    assert len(digests) == 1


def test_the_line_that_repeats_a_failure_names_scenario_seed_and_cycles() -> None:
    assert Stormed(17, 200).line == "glidepath sim run storm --seed 17 --cycles 200"


def test_a_long_soak_goes_on_with_fresh_workers() -> None:
    cases = [(seed, 2, "storm") for seed in range(5)]
    assert sorted(run.seed for run in all_stormed(cases, 2, each=1)) == [seed for seed, *_ in cases]
