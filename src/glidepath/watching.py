"""Watching pools between cycles: those that can say cheaply that something new waits are asked often.

A pool's door comes in, the event that ends the wait for the next cycle is set. It never decides and never
reads demand; a pool that cannot be asked is left for the next cycle, which says why.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from glidepath.ports import WORLD_ERRORS, Pool, Watched

# After a question that failed: the next cycle finds out, and a dead server is not asked every second.
REST_FACTOR = 10


class Watch:
    """One thread for each pool that can be watched; all of them end with `stop` or with the program."""

    def __init__(self, pools: Iterable[Pool], woken: threading.Event) -> None:
        self._woken = woken
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(pool,), name=f"watch {pool.name}", daemon=True)
            for pool in pools
            if isinstance(pool, Watched)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()

    def _ask(self, pool: Watched) -> None:
        rest_s = pool.poll_s
        while not self._over.wait(rest_s):
            try:
                changed = pool.changed()
                rest_s = pool.poll_s
            except WORLD_ERRORS:
                changed, rest_s = False, REST_FACTOR * pool.poll_s
            if changed and not self._over.is_set():
                self._woken.set()
