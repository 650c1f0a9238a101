"""`store-full`: the journal cannot be written, before the acts or after them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from glidepath.sim.fault import Fault

FULL_S = (10, 200)


class StoreFull(Fault):
    name = "store-full"
    every = "write of the journal"
    about = "the disk is full for a few minutes"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._until = 0

    def record(self, moment: str, go: Callable[[], None]) -> None:
        now = self.stage.world.now
        if self.on and now >= self._until and self.hits():
            self._until = now + self.draw.randint(*FULL_S)
        if self.on and now < self._until:
            raise OSError(errno.ENOSPC, "no space left on device")
        go()


fault = StoreFull
