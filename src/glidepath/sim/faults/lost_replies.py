"""`lost-replies`: an act takes effect and the answer is lost on the way back."""

from __future__ import annotations

from collections.abc import Callable

from glidepath.core.cycle import Outcome
from glidepath.sim.fault import Act, Fault


class LostReplies(Fault):
    name = "lost-replies"
    every = "act"
    about = "an act takes effect, its answer never comes"

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        outcome = go()
        if self.hits():
            raise TimeoutError(f"no answer to {act.verb}")
        return outcome


fault = LostReplies
