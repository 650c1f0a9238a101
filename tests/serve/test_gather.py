"""Calls that come at the same time are done together, each with an answer or an error of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from glidepath.serve.gather import TOGETHER_MAX, Gather

DEADLINE_S = 60.0


class Worker:
    """Squares numbers; refuses negative ones, and breaks at zero. The first batch waits until it is told."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()

    def run(self, asked: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(asked))
        assert self.go_on.wait(DEADLINE_S)
        if 0 in asked:
            raise OSError("the disk is full")
        return [ValueError(f"{number}") if number < 0 else number * number for number in asked]


def all_of(worker: Worker, numbers: Sequence[int]) -> list[Any]:
    """The answers to the first, and then to all others, which come while the first is under way."""

    async def scene() -> list[Any]:
        gather: Gather[int, int] = Gather(worker.run)
        asks: list[Coroutine[Any, Any, int]] = [gather.ask(number) for number in numbers]
        first = asyncio.create_task(asks[0])
        while not worker.batches:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(ask) for ask in asks[1:]]
        await asyncio.sleep(0)
        worker.go_on.set()
        return list(await asyncio.gather(first, *rest, return_exceptions=True))

    return asyncio.run(asyncio.wait_for(scene(), DEADLINE_S))


def test_what_comes_while_one_is_under_way_is_done_together() -> None:
    worker = Worker()
    assert all_of(worker, [2, 3, 4, 5]) == [4, 9, 16, 25]
    assert worker.batches == [[2], [3, 4, 5]]


def test_a_refusal_is_of_one_and_a_failure_of_all_that_were_done_together() -> None:
    worker = Worker()
    answers = all_of(worker, [0, 3, -1, 5])
    assert [repr(one) for one in answers] == ["OSError('the disk is full')", "9", "ValueError('-1')", "25"]


def test_a_long_line_is_done_in_several_goes() -> None:
    worker = Worker()
    numbers = list(range(1, TOGETHER_MAX + 3))
    assert all_of(worker, numbers) == [number * number for number in numbers]
    assert [len(batch) for batch in worker.batches] == [1, TOGETHER_MAX, 1]


def test_whoever_goes_away_takes_nobody_along() -> None:
    worker = Worker()

    async def scene() -> tuple[int, list[list[int]]]:
        gather: Gather[int, int] = Gather(worker.run)
        leaves, stays = asyncio.create_task(gather.ask(2)), asyncio.create_task(gather.ask(3))
        while not worker.batches:
            await asyncio.sleep(0.001)
        leaves.cancel()
        worker.go_on.set()
        return await stays, worker.batches

    assert asyncio.run(asyncio.wait_for(scene(), DEADLINE_S)) == (9, [[2, 3]])
