"""What the scheduler keeps has a bound: after many jobs that came and went it is no more than after some."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
from placing_world import MemoryCluster, PlacingWorld

from glidepath.core.schedule.cluster import Queue
from glidepath.core.schedule.follow import Follower
from glidepath.store.engine import Store

# The world that it looks at is not its own.
NOT_OURS = (type, ModuleType, BuiltinFunctionType, Store, MemoryCluster, PlacingWorld)
OVER_ROWS_MAX = 8
ROUNDS = 12


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path)
    made.scheduler.planner = Follower(over_rows_max=OVER_ROWS_MAX).schedule
    yield made
    made.close()


def kept(*roots: object) -> int:
    """How many things can be reached from here, without what functions find in their modules."""
    seen: set[int] = set()
    left = list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, NOT_OURS):
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            left += one.__closure__ or ()
        elif not type(one).__module__.startswith("sqlalchemy"):  # Of a row there is nothing but values.
            left += gc.get_referents(one)
    return len(seen)


def come_and_go(world: PlacingWorld) -> None:
    """Jobs that run, and jobs that wait and are cancelled, in both queues."""
    first = world.submit(cpus=4)
    second = world.submit(cpus=4, queue=Queue.BATCH)
    world.turns(2)
    waits = [world.submit(cpus=4, queue=queue) for queue in Queue for _ in range(2)]
    world.turns(2)
    for job in waits:
        world.jobs.cancel(job)
    world.turn()
    world.until_over(first, second, after_s=50)


def test_what_a_scheduler_keeps_of_jobs_that_are_over_has_a_bound(world: PlacingWorld) -> None:
    counts = []
    for _ in range(ROUNDS):
        come_and_go(world)
        gc.collect()
        counts.append(kept(world.scheduler, world.recorder, world.memory))
    half = ROUNDS // 2
    assert max(counts[half:]) <= max(counts[:half]), counts


def test_what_would_be_kept_for_ever_is_counted(world: PlacingWorld) -> None:
    forever: list[object] = []
    planned = world.scheduler.planner

    def hoarding(*asked: Any) -> Any:
        forever.append(found := planned(*asked))
        return found

    world.scheduler.planner = hoarding
    counts = []
    for _ in range(3):
        come_and_go(world)
        counts.append(kept(world.scheduler))
    assert counts[0] < counts[1] < counts[2]
