"""Steady time: seconds that never jump, close to wall time, and the same across restarts.

A monotonic reading and what the store last kept come in, instants go out. Within one boot the monotonic
clock carries on from what was stored; after a reboot, or with no store, wall time is the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glidepath.core.quantity import Instant


@dataclass(frozen=True, slots=True)
class Moment:
    """When, on every clock that is needed to survive a restart and a clock jump."""

    wall_s: float
    at: Instant
    boot_id: str
    monotonic_s: float


def _counting_sleep() -> float:
    """Monotonic, and it goes on while the machine sleeps: what waited through the night is that old."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    def __init__(
        self,
        last: Moment | None = None,
        *,
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = _counting_sleep,
        boot: str | None = None,
    ) -> None:
        self._wall, self._mono = wall, mono
        self.boot_id = boot if boot is not None else this_boot()
        here = mono()
        if last is not None and last.boot_id == self.boot_id and here >= last.monotonic_s:
            self._offset = last.at - last.monotonic_s
        elif last is not None:
            # Another boot: how long it was down is known only by the wall clock, which may have gone back.
            self._offset = max(float(last.at), wall()) - here
        else:
            self._offset = wall() - here

    def now(self) -> Instant:
        return Instant(int(self._offset + self._mono()))

    def wall(self) -> float:
        return self._wall()

    def moment(self) -> Moment:
        # The monotonic reading of the whole second itself, or each restart would lose the part behind it.
        mono = self._mono()
        at = Instant(int(self._offset + mono))
        return Moment(self._wall(), at, self.boot_id, min(at - self._offset, mono))

    def at_wall(self, wall_s: float) -> Instant:
        """The instant at which the wall clock will show this, if it does not jump before then."""
        return Instant(int(self._offset + self._mono() + (wall_s - self._wall())))


def this_boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def iso(wall: float | None) -> str | None:
    """A moment for people and scripts, in UTC."""
    return None if wall is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
