"""`kill -9` before and after each side effect: the next life has the right pilots, none lost, none twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from grid.grid_world import Grid
from whole.running import until

pytestmark = pytest.mark.real

LIFE_S_MAX = 60


def life(grid: Grid, *words: str, cycles: int = 30) -> tuple[int, list[dict[str, Any]]]:
    """One life of a glidepath: how it ended, and what it said after each cycle."""
    command = [sys.executable, "-m", "grid.life", "--home", str(grid.home), "--config", str(grid.config)]
    ended = subprocess.run(
        [*command, "--cycles", str(cycles), *words],
        capture_output=True,
        text=True,
        timeout=LIFE_S_MAX,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()] or [
        {"stderr": ended.stderr}
    ]


@pytest.mark.parametrize("effect", ["planned", "submit", "acted"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_around_asking_for_pilots_leaves_exactly_those_that_are_needed(
    grid: Grid, when: str, effect: str
) -> None:
    grid.configure(grid.pool, live_max=4, idle="2m")
    work = grid.submit("sleep 300", "request_memory = 300", "request_cpus = 2", count=2)
    code, said = life(grid, "--when", when, "--effect", effect)
    assert code == -9, said
    # Two cycles after every source is fresh again nothing is left to do, and two pilots are there or coming.
    code, said = life(grid, cycles=4)
    assert (code, [cycle["actions"] for cycle in said[2:]]) == (0, [[], []]), said
    names = [pilot.split()[0] for pilot in said[-1]["pilots"]]
    assert (len(names), len(set(names)), sorted(names)) == (2, 2, grid.folders()), said
    grid.running(work, 2)
    assert (grid.slots(), grid.folders()) == (sorted(names), sorted(names))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_around_clearing_away_closes_each_pilot_once(grid: Grid, when: str) -> None:
    grid.configure(grid.pool, live_max=4, idle="15s")
    work = grid.submit("sleep 1", "request_memory = 300")
    code, said = life(grid, "--when", when, "--effect", "clear", cycles=50)
    assert code == -9, said
    grid.done(work)
    code, said = life(grid, cycles=3)
    assert (code, said[-1]["actions"], said[-1]["pilots"]) == (0, [], []), said
    until(lambda: not grid.slots(), grid.said)
    assert (grid.folders(), [each["jobs_run"] for each in grid.ended()]) == ([], [1])
