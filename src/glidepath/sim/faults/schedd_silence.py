"""`schedd-silence`: one source of demand says nothing for several cycles in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.sim.fault import Fault

SILENT_S = (30, 900)


class ScheddSilence(Fault):
    name = "schedd-silence"
    every = "read of demand"
    about = "a schedd falls silent for up to a quarter of an hour"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._until: dict[str, int] = {}

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        if not door.startswith("demand ") or not self.on:
            return go()
        now = self.stage.world.now
        if now >= self._until.get(door, 0) and self.hits():
            self._until[door] = now + self.draw.randint(*SILENT_S)
        if now < self._until.get(door, 0):
            raise ConnectionError(f"{door}: connection refused")
        return go()


fault = ScheddSilence
