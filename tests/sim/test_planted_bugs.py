"""The simulator finds bugs: each planted one is caught and named, and the same worlds without it are clean.

Bugs that the check before every act would stop are tried twice: stopped by it, and, with it switched off,
noticed by the world.
"""

from __future__ import annotations

from functools import cache

import pytest

from glidepath.provisioner import Provisioner
from glidepath.sim.keep import Encoded
from glidepath.sim.study import replayed, simulated
from sim.planted import WEATHERS, Planted, unchecked
from sim.planted_books import BUGS

SEEDS_MAX = 12
CYCLES = 200
ITSELF = "the controller caught itself"


def found(bug: Planted, shell: type[Provisioner], seed: int) -> tuple[str, ...]:
    """All that was noticed: promises broken, jobs never served, plans that replay otherwise."""
    kept = Encoded()
    run = simulated(bug.scenario(seed), seed, cycles=CYCLES, keeps=kept, provisioner=shell)
    if run.broken:
        return run.broken
    left = (f"isolation: {run.left} jobs were never served",) if run.left else ()
    # Most planted bugs are in deciding and would differ in replay; they have to show in what they do.
    again = replayed(kept)[1] if bug.by_replay or shell is bug.right else ()
    return (*left, *(f"replay: {what}" for what in again))


@cache
def clean(weather: str, tight: bool, right: type[Provisioner], seed: int) -> tuple[str, ...]:
    return found(Planted(right, (), weather=weather, tight=tight, right=right), right, seed)


def caught(bug: Planted, shell: type[Provisioner]) -> str:
    """The first thing that was noticed, in the first of the seeds that shows it."""
    for seed in range(SEEDS_MAX):
        if told := found(bug, shell, seed):
            assert clean(bug.weather, bug.tight, bug.right, seed) == (), f"seed {seed} is broken without it"
            return told[0]
    pytest.fail(f"{SEEDS_MAX} seeds of {CYCLES} cycles did not show {bug.name}: {bug.shell.__doc__}")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_and_named(bug: Planted) -> None:
    told = caught(bug, bug.shell)
    assert (ITSELF in told) == bool(bug.itself)
    names = (bug.itself,) if bug.itself else bug.world
    assert any(f"{name}: " in told for name in names), told


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.itself], ids=lambda bug: bug.name)
def test_the_world_notices_what_the_check_before_every_act_would_have_stopped(bug: Planted) -> None:
    told = caught(bug, unchecked(bug.shell))
    assert ITSELF not in told
    assert any(f"{name}: " in told for name in bug.world), told


def test_there_are_more_than_twenty_bugs_each_told_in_a_sentence_and_every_invariant_has_some() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20
    assert all((bug.shell.__doc__ or "").rstrip().endswith(".") for bug in BUGS)
    assert {bug.weather for bug in BUGS} == set(WEATHERS)
    assert {name for bug in BUGS for name in bug.world} == {
        "cap",
        "explained",
        "isolation",
        "ledger",
        "liveness",
        "never kill",
        "no decision on bad data",
        "once",
        "rate",
        "replay",
        "unknown is not gone",
    }
