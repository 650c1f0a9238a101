"""Watching pools: a change wakes the loop, a pool that fails is left alone for a while, and all ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from core.leaf_builders import POOL, FakePool
from glidepath.core.quantity import PoolName
from glidepath.watching import REST_FACTOR, Watch

WAIT_S_MAX = 60.0


class Told(FakePool):
    """A pool that says what a test tells it to, and counts how often it was asked."""

    poll_s = 0.001

    def __init__(self, answers: Iterator[Callable[[], bool]], name: PoolName = POOL) -> None:
        super().__init__(name)
        self.answers = answers
        self.asked = 0
        self.done = threading.Event()

    def changed(self) -> bool:
        self.asked += 1
        answer = next(self.answers, None)
        if answer is None:
            self.done.set()
            return False
        return answer()


def fails() -> bool:
    raise TimeoutError("no answer")


def test_a_change_wakes_also_after_questions_that_failed() -> None:
    woken = threading.Event()
    pool = Told(iter([lambda: False, fails, fails, lambda: True]))
    watch = Watch([pool], woken)
    watch.start()
    assert woken.wait(WAIT_S_MAX)
    watch.stop()
    assert (pool.asked >= 4, REST_FACTOR > 1) == (True, True)


def test_no_change_wakes_nobody_and_a_stopped_watch_asks_no_more() -> None:
    woken = threading.Event()
    pool = Told(iter([lambda: False] * 5))
    watch = Watch([pool], woken)
    watch.start()
    assert pool.done.wait(WAIT_S_MAX)
    watch.stop()
    for thread in watch._threads:
        thread.join(WAIT_S_MAX)
    asked = pool.asked
    assert (woken.is_set(), [thread.is_alive() for thread in watch._threads]) == (False, [False])
    assert pool.asked == asked


def test_a_pool_that_cannot_be_watched_has_no_thread() -> None:
    assert Watch([FakePool(POOL)], threading.Event())._threads == []
