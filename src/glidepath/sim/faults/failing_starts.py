"""`failing-starts`: a pilot starts and ends without joining its pool."""

from __future__ import annotations

from glidepath.sim.fault import Fault
from glidepath.sim.thing import SimPilot


class FailingStarts(Fault):
    name = "failing-starts"
    every = "start"
    about = "a pilot fails before it joins"

    def start(self, pilot: SimPilot) -> None:
        if self.hits():
            pilot.fails = True


fault = FailingStarts
