"""How often somebody may call: a bucket of tokens for each, refilled with time, and only so many buckets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

CALLERS_MAX = 10_000


class Pace:
    """So many calls in a minute for each caller, and no more than half a minute's worth at once."""

    def __init__(self, per_minute: int, *, steady: Callable[[], float]) -> None:
        self.per_s = per_minute / 60
        self.burst = max(5.0, per_minute / 2)
        self._steady = steady
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def wait_s(self, caller: str) -> float:
        """Zero where the call is let in and counted; otherwise how long the caller should wait."""
        now = self._steady()
        with self._lock:
            left, at = self._left.pop(caller, (self.burst, now))
            left = min(self.burst, left + (now - at) * self.per_s)
            wait_s = 0.0 if left >= 1 else (1 - left) / self.per_s
            self._left[caller] = (left if wait_s else left - 1, now)
            while len(self._left) > CALLERS_MAX:
                self._left.popitem(last=False)
            return wait_s
