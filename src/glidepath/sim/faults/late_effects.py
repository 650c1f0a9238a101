"""`late-effects`: an act is not answered in time, and takes effect some time later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.core.cycle import Outcome
from glidepath.sim.fault import EFFECT_S_MAX, Act, Fault

LATE_S = (5, EFFECT_S_MAX)


class LateEffects(Fault):
    name = "late-effects"
    every = "act"
    about = "an act is not answered and takes effect up to two minutes later"

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        if self.hits():
            world = self.stage.world
            world.after(act.within(self.draw.randint(*LATE_S), now=world.now), self._now, go)
            raise TimeoutError(f"no answer to {act.verb}")
        return go()

    @staticmethod
    def _now(go: Callable[[], Any]) -> None:
        go()


fault = LateEffects
