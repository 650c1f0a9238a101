"""Submissions that come at the same time share a transaction, and nobody gets what is another's."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from agent.agent_builders import until
from glidepath.jobs.together import TOGETHER_MAX, Together

CALLERS = 40


class Disk:
    """Writes when it is let, and counts how often it was waited for."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.batches: list[list[int]] = []

    def write(self, asked: Sequence[int]) -> list[str]:
        assert self.free.wait(30)
        self.batches.append(list(asked))
        if -1 in asked:
            raise OSError("the disk is full")
        return [f"number {each}" for each in asked]


def all_at_once(together: Together[int, str], asked: Sequence[int], disk: Disk) -> dict[int, object]:
    answers: dict[int, object] = {}

    def ask(number: int) -> None:
        try:
            answers[number] = together.submit(number)
        except OSError as error:
            answers[number] = error

    threads = [threading.Thread(target=ask, args=(number,)) for number in asked]
    for each in threads:
        each.start()
    until("all but those that are being written stand in line", lambda: together.waiting >= len(asked) - 1)
    disk.free.set()
    for each in threads:
        each.join(30)
    return answers


def test_each_gets_its_own_and_the_disk_is_waited_for_a_few_times() -> None:
    disk = Disk()
    together: Together[int, str] = Together(threading.Lock(), disk.write)
    answers = all_at_once(together, range(CALLERS), disk)
    assert answers == {number: f"number {number}" for number in range(CALLERS)}
    assert sorted(each for batch in disk.batches for each in batch) == list(range(CALLERS))
    assert len(disk.batches) <= 3


def test_a_disk_that_refuses_refuses_all_of_the_batch_and_not_the_next() -> None:
    disk = Disk()
    together: Together[int, str] = Together(threading.Lock(), disk.write)
    answers = all_at_once(together, [-1], disk)
    assert isinstance(answers[-1], OSError)
    assert together.submit(5) == "number 5"


def test_a_line_that_is_longer_than_a_transaction_takes_several() -> None:
    disk = Disk()
    disk.free.set()
    together: Together[int, str] = Together(threading.Lock(), disk.write)
    with together.turn:
        threads = [threading.Thread(target=together.submit, args=(n,)) for n in range(TOGETHER_MAX + 1)]
        for each in threads:
            each.start()
        # Nobody can write while the turn is ours.
        until("all stand in line", lambda: together.waiting == TOGETHER_MAX + 1)
    for each in threads:
        each.join(30)
    assert [len(batch) for batch in disk.batches] == [TOGETHER_MAX, 1]


def test_what_is_no_error_of_the_world_goes_on_up() -> None:
    def write(asked: Sequence[int]) -> list[str]:
        raise KeyboardInterrupt

    together: Together[int, str] = Together(threading.Lock(), write)
    with pytest.raises(KeyboardInterrupt):
        together.submit(1)
