"""`crashes`: the controller dies before or after a side effect, and starts again from the journal."""

from __future__ import annotations

from collections.abc import Callable

from glidepath.core.cycle import Outcome
from glidepath.sim.fault import Act, Crash, Fault


class Crashes(Fault):
    name = "crashes"
    every = "side effect"
    about = "the controller is killed before or after an act or a write of the journal"

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        self._maybe(f"before {act.verb}")
        outcome = go()
        self._maybe(f"after {act.verb}")
        return outcome

    def record(self, moment: str, go: Callable[[], None]) -> None:
        self._maybe(f"before {moment}")
        go()
        self._maybe(f"after {moment}")

    def _maybe(self, where: str) -> None:
        if self.hits():
            raise Crash(where)


fault = Crashes
