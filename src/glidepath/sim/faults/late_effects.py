"""`late-effects`: an act is not answered in time, and takes effect some time later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.core.cycle import Outcome
from glidepath.sim.fault import Fault

# Well under the time in which a pilot that was asked for must appear, as a site's own time-outs are.
LATE_S = (5, 120)


class LateEffects(Fault):
    name = "late-effects"
    every = "act"
    about = "an act is not answered and takes effect up to two minutes later"

    def act(self, verb: str, go: Callable[[], Outcome]) -> Outcome:
        if self.hits():
            # All in all: a site's time-outs begin when the act is begun, whoever slept over it.
            left_s = max(1, self.draw.randint(*LATE_S) - self.stage.slept_s)
            self.stage.world.after(left_s, self._now, go)
            raise TimeoutError(f"no answer to {verb}")
        return go()

    @staticmethod
    def _now(go: Callable[[], Any]) -> None:
        go()


fault = LateEffects
