"""The timeline of the controllers for whoever only reads: what they last wrote comes in, a clock goes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from glidepath.clock import SteadyClock
from glidepath.journal.journal import Journal
from glidepath.store.engine import Store

# Controllers that were started anew may have another timeline; whoever serves for weeks takes it up.
LOOK_S = 10.0


class CarriedClock:
    """For any thread. The store is read when a time is first asked for, and now and then."""

    def __init__(
        self,
        store: Store,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._wall, self._steady = store, wall, steady
        self._lock = threading.Lock()
        self._kept: tuple[SteadyClock, float] | None = None

    def __call__(self) -> SteadyClock:
        with self._lock:
            if self._kept is None or self._steady() - self._kept[1] > LOOK_S:
                headers = Journal(self._store).headers(limit=1)
                clock = SteadyClock(headers[0].moment if headers else None, wall=self._wall)
                self._kept = clock, self._steady()
            return self._kept[0]
