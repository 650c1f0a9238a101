"""`evictions`: a site takes a running pilot away, with the jobs in it."""

from __future__ import annotations

from glidepath.core.provision.pilot import SiteState
from glidepath.sim.fault import Fault


class Evictions(Fault):
    name = "evictions"
    every = "cycle"
    about = "a running pilot is taken away; its jobs go back to the queue"

    def step(self) -> None:
        if not self.hits():
            return
        world = self.stage.world
        running = [
            pilot
            for name in sorted(world.sites)
            for pilot in world.sites[name].pilots.values()
            if pilot.state is SiteState.RUNNING
        ]
        if running:
            pilot = self.draw.choice(running)
            world.end(pilot, SiteState.FAILED, "evicted")
            if self.draw.random() < 0.5:
                world.forget(pilot)  # Some sites keep no trace of what they took away.


fault = Evictions
