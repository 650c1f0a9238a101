"""`quota-cuts`: a site lets fewer pilots run than before, for a while, and refuses new ones beyond that."""

from __future__ import annotations

from collections.abc import Callable

from glidepath.core.cycle import Outcome, Refused
from glidepath.core.quantity import SiteName
from glidepath.sim.fault import Act, Fault


class QuotaCuts(Fault):
    name = "quota-cuts"
    every = "cycle"
    about = "a site's quota falls, and it refuses what does not fit"

    def step(self) -> None:
        world = self.stage.world
        cut = [site for site in world.sites.values() if site.quota != site.behaviour.quota]
        if cut and self.on and self.draw.random() < 0.1:
            world.set_quota(cut[0], cut[0].behaviour.quota)
        if self.hits():
            site = world.sites[self.draw.choice(sorted(world.sites))]
            world.set_quota(site, self.draw.randint(0, 5))

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        kind, _, site = act.verb.partition(" ")
        place = self.stage.world.sites.get(SiteName(site))
        if kind == "submit" and place is not None and self.on and place.quota != place.behaviour.quota:
            live = sum(pilot.live for pilot in place.pilots.values())
            if live >= (place.quota or 0):
                return Refused(f"quota exceeded: {live} of {place.quota}")
        return go()

    def stop(self) -> None:
        super().stop()
        for site in self.stage.world.sites.values():
            self.stage.world.set_quota(site, site.behaviour.quota)


fault = QuotaCuts
