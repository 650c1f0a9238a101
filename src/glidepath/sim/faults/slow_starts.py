"""`slow-starts`: a pilot that the site has started takes minutes to come up."""

from __future__ import annotations

from glidepath.sim.fault import Fault
from glidepath.sim.thing import SimPilot

SLOW_S = (60, 600)


class SlowStarts(Fault):
    name = "slow-starts"
    every = "start"
    about = "a pilot takes up to ten minutes from its start to joining"

    def start(self, pilot: SimPilot) -> None:
        if self.hits():
            pilot.boot_s = self.draw.randint(*SLOW_S)


fault = SlowStarts
