"""`collector-emptied`: a pool's collector was restarted: it answers, and has heard of no pilot yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.core.provision.sight import PoolSlots
from glidepath.sim.fault import Fault

# Workers report again within minutes.
EMPTY_S = (20, 300)


class CollectorEmptied(Fault):
    name = "collector-emptied"
    every = "read of slots"
    about = "a pool answers with no slots at all for up to five minutes"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._until: dict[str, int] = {}

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        if not door.startswith("slots ") or not self.on:
            return go()
        now = self.stage.world.now
        if now >= self._until.get(door, 0) and self.hits():
            self._until[door] = now + self.draw.randint(*EMPTY_S)
        return PoolSlots(()) if now < self._until.get(door, 0) else go()


fault = CollectorEmptied
