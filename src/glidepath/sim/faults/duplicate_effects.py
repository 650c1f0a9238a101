"""`duplicate-effects`: something on the way repeats an act: at once, or after a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.core.cycle import Done, Outcome
from glidepath.sim.fault import EFFECT_S_MAX, Act, Fault

# A proxy that repeats what it thinks was lost does so within its own time-out.
AGAIN_S = (1, 60)


class DuplicateEffects(Fault):
    name = "duplicate-effects"
    every = "act"
    about = "an act reaches the site twice, the second time up to a minute later"

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        outcome = go()
        # Only what took effect: nothing on the way repeats what was answered with a refusal.
        if isinstance(outcome, Done) and self.hits():
            if self.draw.random() < 0.5:
                go()
            else:
                world = self.stage.world
                left_s = act.within(EFFECT_S_MAX, now=world.now)
                world.after(min(self.draw.randint(*AGAIN_S), left_s), self._again, go)
        return outcome

    @staticmethod
    def _again(go: Callable[[], Any]) -> None:
        go()


fault = DuplicateEffects
