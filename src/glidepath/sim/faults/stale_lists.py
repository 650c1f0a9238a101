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
    about = "a site lists its pilots as they were up to a minute ago"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._last: dict[str, tuple[int, Any]] = {}

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        answer = go()
        if not door.startswith("list "):
            return answer
        now = self.stage.world.now
        at, old = self._last.get(door, (now, answer))
        if now - at <= STALE_S_MAX and old is not answer and self.hits():
            return old
        self._last[door] = (now, answer)
        return answer


fault = StaleLists
