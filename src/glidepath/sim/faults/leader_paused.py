"""`leader-paused`: the controller sleeps in the middle of acting, another takes over, and the first wakes."""

from __future__ import annotations

from collections.abc import Callable

from glidepath.core.cycle import Outcome
from glidepath.sim.fault import Act, Fault


class LeaderPaused(Fault):
    name = "leader-paused"
    every = "act"
    about = "the leader stalls before an act, another leads meanwhile, then the first goes on"

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        if self.hits() and not self.stage.supplant():
            self.count -= 1  # Another sleeps already; nothing happened.
        # The call that was under way still goes out: no lease can stop what is already on the wire.
        return go()


fault = LeaderPaused
