"""Whole histories: a small world with faults, every plan checked, limits counted in the world itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.builders import offer, site
from core.small_world import World
from glidepath.core.check import check
from glidepath.core.cycle import Plan
from glidepath.core.provision.decide import decide
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, OwnerRules, PoolRules, Rules
from glidepath.core.provision.picture import look
from glidepath.core.provision.pilot import Drain, PilotAction, Submit
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.remember import remember
from glidepath.core.quantity import Instant, Owner, PoolName, Resources

LIVE_MAX = {"west/": 14, "west/one": 10, "east/": 9, "east/four": 6}


def two_sites(**more: object) -> Rules:
    west = site(
        "west",
        offer(
            "west", "one", cpus=1, size=Resources(1000, 2048, 1000), limits=Limits(live_max=10, pending_max=6)
        ),
        offer("west", "two", cpus=2, size=Resources(2000, 4096, 1000), idle_s=120),
        limits=Limits(live_max=14, per_cycle_max=5),
        appear_s_max=700,
        missing_s_max=400,
    )
    east = site(
        "east",
        offer(
            "east",
            "four",
            cpus=4,
            size=Resources(4000, 8192, 1000),
            limits=Limits(live_max=6),
            price_milli=50,
        ),
        offer("east", "fitted", size=Resources(8000, 8192, 1000), size_min=Resources(1000, 1024, 0)),
        limits=Limits(live_max=9, per_s_max=1),
        appear_s_max=700,
        missing_s_max=400,
    )
    return Rules(
        pools=(PoolRules(PoolName("pool"), Limits(live_max=20)),),
        sites=(east, west),
        owners=(OwnerRules(Owner("eve"), Limits(live_max=4)),),
        **more,  # type: ignore[arg-type]
    )


def turn(world: World, memory: Memory, rules: Rules, policy: Policy) -> tuple[Plan[PilotAction], Memory]:
    picture = look(world.snapshot(), memory, rules)
    plan = decide(picture, rules, policy)
    assert check(picture, rules, plan) == ()
    assert decide(look(picture.snapshot, memory, rules), rules, policy) == plan
    return plan, remember(picture, plan, world.act(plan), rules)


def history(
    seed: int, *, cycles: int, lag_s: int = 0, policy: Policy | None = None
) -> list[Plan[PilotAction]]:
    """All plans of one world under faults; each is checked, replayed, and held against the limits."""
    rules = two_sites()
    world = World(seed, rules, lag_s=lag_s)
    memory = Memory("sim", Instant(world.now))
    plans = []
    for _ in range(cycles):
        world.step(10)
        plan, memory = turn(world, memory, rules, policy or Steady(release_s=60))
        within_limits(world)
        plans.append(plan)
    return plans


def within_limits(world: World) -> None:
    for scope, most in LIVE_MAX.items():
        assert world.live(scope) <= most, f"{scope} has {world.live(scope)} live pilots"
    assert world.live("") <= 20


@pytest.mark.parametrize("policy", [Seed(), Steady(release_s=60)], ids=["seed", "steady"])
@pytest.mark.parametrize("lag_s", [0, 300])
@pytest.mark.parametrize("seed", range(8))
def test_no_history_of_faults_breaks_an_invariant_or_a_limit(seed: int, lag_s: int, policy: Policy) -> None:
    assert len(history(seed, cycles=150, lag_s=lag_s, policy=policy)) == 150


DIGEST = """
import hashlib, sys
sys.path.insert(0, {tests!r})
from core.test_worlds import history
print(hashlib.sha256(repr(history(5, cycles=60)).encode()).hexdigest())
"""


def test_the_same_history_gives_the_same_plans_under_any_hash_seed() -> None:
    code = DIGEST.format(tests=str(Path(__file__).parent.parent))
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_lost_memory_breaks_no_limit_and_doubles_no_pilot(seed: int) -> None:
    rules = two_sites()
    world = World(seed, rules)
    memory = Memory("life0", Instant(world.now))
    for cycle in range(150):
        if cycle % 10 == 9:
            memory = Memory(f"life{cycle}", Instant(world.now))
        world.step(10)
        _, memory = turn(world, memory, rules, Steady())
        within_limits(world)


@pytest.mark.parametrize("seed", range(6))
def test_when_faults_stop_and_demand_is_served_the_plan_becomes_empty_and_all_pilots_leave(seed: int) -> None:
    rules = two_sites()
    world = World(seed, rules)
    memory = Memory("sim", Instant(world.now))
    for _ in range(60):
        world.step(10)
        _, memory = turn(world, memory, rules, Steady(release_s=60))
    world.faults = False
    world.draw.random = lambda: 1.0  # type: ignore[method-assign]
    for _ in range(600):
        world.step(10)
        plan, memory = turn(world, memory, rules, Steady(release_s=60))
    assert (len(world.jobs), world.live(""), memory.tracks, plan.actions) == (0, 0, (), ())


def test_claimed_work_is_never_drained_for_being_surplus() -> None:
    rules = two_sites()
    drained = 0
    for seed in range(14):
        world = World(seed, rules, faults=False)
        memory = Memory("sim", Instant(world.now))
        for _ in range(120):
            world.step(10)
            plan, memory = turn(world, memory, rules, Steady(release_s=30))
            drained += sum(isinstance(action, Drain) for action in plan.actions)
        assert world.killed_claimed == []
    assert drained > 10


def test_the_names_of_two_lives_never_meet() -> None:
    rules = two_sites()
    names: set[str] = set()
    for life in ("aa", "bb"):
        world = World(3, rules, faults=False)
        memory = Memory(life, Instant(world.now))
        for _ in range(40):
            world.step(10)
            plan, memory = turn(world, memory, rules, Seed())
            fresh = [name for a in plan.actions if isinstance(a, Submit) for name in a.names]
            assert names.isdisjoint(fresh)
            names.update(fresh)
    assert len(names) > 20
