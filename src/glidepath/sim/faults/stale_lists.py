"""`stale-lists`: a site answers from a cache: the listing is an old one and does not say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.sim.fault import Fault

# As old as a cache of a busy server gets; sites in such a world have a listing lag of at least this.
STALE_S_MAX = 60


class StaleLists(Fault):
    name = "stale-lists"
    every = "listing"
    about = "a site lists its pilots as they were up to a minute ago, even before the last answer"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kept: dict[str, list[tuple[int, Any]]] = {}

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        answer = go()
        if not door.startswith("list "):
            return answer
        now = self.stage.world.now
        kept = [(at, old) for at, old in self._kept.get(door, ()) if now - at <= STALE_S_MAX]
        older = [old for _, old in kept if old is not answer]
        self._kept[door] = [*kept, (now, answer)]
        return self.draw.choice(older) if older and self.hits() else answer


fault = StaleLists
