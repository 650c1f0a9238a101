"""Which starts owners are told of, turn by turn, on a cluster in memory and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from placing_world import T0, PlacingWorld

from glidepath.core.quantity import Instant


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path, nodes=1)
    yield made
    made.close()


def told(world: PlacingWorld, job: int) -> list[str]:
    """What its events say of its start, without the times."""
    texts = [event.text for event in world.jobs.events(job=job) if event.kind == "promise"]
    return [text.split(" at ")[0] for text in texts]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"latest_at": Instant(T0 + 500)}, []),
        ({"deadline_at": Instant(T0 + 2000), "run_s_max": 1500}, []),
        ({"latest_at": Instant(T0 + 1500)}, ["promised: start"]),
        ({"deadline_at": Instant(T0 + 2600), "run_s_max": 1500}, ["promised: start"]),
    ],
)
def test_nobody_is_told_of_room_that_is_free_too_late(
    world: PlacingWorld, own: dict[str, Any], said: list[str]
) -> None:
    world.submit(cpus=4, run_s_max=1000)
    world.turn()
    waiting = world.submit(cpus=4, **own)
    world.turn()
    promise = world.job(waiting).promise
    assert promise is not None
    assert promise.at == T0 + 1001, "room is kept for it all the same"
    assert told(world, waiting) == said
    world.live()
    world.turns(2)
    assert told(world, waiting) == said, "a new life tells nothing twice"


def test_a_promise_that_moves_beyond_the_latest_start_is_taken_back_and_given_again(
    world: PlacingWorld,
) -> None:
    first = world.submit(cpus=4, run_s_max=1000)
    world.cluster.runs_s[first] = 5000
    world.turn()
    waiting = world.submit(cpus=4, latest_at=Instant(T0 + 1500))
    world.turn()
    world.jobs.ask_limit(first, 3000, forced=True)
    world.turns(3)
    gone = ["promised: start", "no start can be told: room for it is free"]
    assert told(world, waiting) == gone
    world.jobs.ask_limit(first, 1200, forced=True)
    world.turns(3)
    assert told(world, waiting) == [*gone, "promised: start"]
