"""`black-hole-users`: a user whose jobs take down the pilot that runs them."""

from __future__ import annotations

from glidepath.sim.fault import Fault


class BlackHoleUsers(Fault):
    name = "black-hole-users"
    every = "cycle"
    about = "for a while one user's jobs kill the pilots that run them"

    def step(self) -> None:
        world = self.stage.world
        if self.on and world.deadly_owners and self.draw.random() < 0.2:
            world.deadly_owners.clear()
        if self.hits():
            owners = {
                job.owner
                for pool in world.pools.values()
                for queue in pool.queues
                for group in queue.groups.values()
                for job in group.waiting
            }
            if owners:
                world.deadly_owners.add(self.draw.choice(sorted(owners)))

    def stop(self) -> None:
        super().stop()
        self.stage.world.deadly_owners.clear()


fault = BlackHoleUsers
