"""`black-hole-nodes`: a node whose pilots never join, or join and fail every job within seconds."""

from __future__ import annotations

from glidepath.core.quantity import NodeName
from glidepath.sim.fault import Fault
from glidepath.sim.thing import SimPilot


class BlackHoleNodes(Fault):
    name = "black-hole-nodes"
    every = "cycle"
    about = "a node goes bad: its pilots fail, or they fail every job they take"

    def step(self) -> None:
        if not self.hits():
            return
        site = self.stage.world.sites[self.draw.choice(sorted(self.stage.world.sites))]
        if len(site.bad_nodes) * 3 < site.behaviour.nodes:
            site.bad_nodes.add(
                NodeName(f"{site.behaviour.site}-n{self.draw.randrange(site.behaviour.nodes)}")
            )

    def start(self, pilot: SimPilot) -> None:
        if pilot.bad and self.on and self.draw.random() < 0.5:
            pilot.fails = True

    def stop(self) -> None:
        super().stop()
        for site in self.stage.world.sites.values():
            site.bad_nodes.clear()
            for pilot in site.pilots.values():
                pilot.bad = False


fault = BlackHoleNodes
