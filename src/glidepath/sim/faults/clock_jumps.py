"""`clock-jumps`: the wall clock is set, by minutes or days; or the machine is booted with a wrong one."""

from __future__ import annotations

from glidepath.sim.fault import Fault

JUMP_S = 100_000
# After a boot the wall clock is all there is; beyond this nobody could tell an hour from a second.
BOOT_ERROR_S = 60


class ClockJumps(Fault):
    name = "clock-jumps"
    every = "cycle"
    about = "the wall clock jumps by up to a day, or the machine reboots with a clock a minute off"

    def step(self) -> None:
        if not self.hits():
            return
        if self.draw.random() < 0.3:
            self.stage.reboot(self.draw.randint(-BOOT_ERROR_S, BOOT_ERROR_S))
        else:
            self.stage.set_wall(self.draw.randint(-JUMP_S, JUMP_S))

    def stop(self) -> None:
        super().stop()
        self.stage.set_wall(0)


fault = ClockJumps
