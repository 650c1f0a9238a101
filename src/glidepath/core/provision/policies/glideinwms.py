"""`glideinwms`: how a glideinWMS frontend counts the idle glideins that it requests of one entry.

A third of the jobs that no idle slot takes, a reserve for old ones, halved for each curb that idle slots or
running glideins have reached, at least 1. The numbers have the names of its configuration. What it does not
see here: other shapes in its totals, and single ages, so all jobs count as old once the oldest is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from glidepath.core.provision.pressure import Need, Pressure, Reactive

# A group, a frontend and the whole pool have a total each; with one group they all count the same.
TOTALS = 3
# Of old jobs, one in three gets a glidein in reserve; this stands in its code, not in its configuration.
OLD_PER_RESERVE = 3


@dataclass(frozen=True, slots=True)
class GlideinWms(Reactive):
    ramp_up_attenuation: int = 3
    old_after_s: int = 600
    idle_glideins_per_entry_max: int = 100
    idle_glideins_per_entry_reserve: int = 5
    idle_vms_per_entry_max: int = 100
    idle_vms_per_entry_curb: int = 5
    idle_vms_total_max: int = 1000
    idle_vms_total_curb: int = 200
    running_glideins_per_entry_max: int = 10_000
    running_glideins_total_max: int = 100_000
    running_glideins_total_curb: int = 90_000
    relative_to_queue_percent: int = 115
    name: ClassVar[str] = "glideinwms"
    # Published: glideins that wait are removed when no job has waited for five cycles.
    withdraws: ClassVar[bool] = True

    def pressure(self, need: Need) -> Pressure:
        if not need.idle:
            return Pressure(0, "idle = 0")
        claimed = -(-need.running_jobs // need.jobs_each)
        joined = claimed + need.free
        room = min(
            self.running_glideins_per_entry_max - joined,
            self.running_glideins_total_max - joined,
            self.idle_vms_total_max - need.free,
        )
        if room <= 0 or need.free >= self.idle_vms_per_entry_max:
            return Pressure(0, f"at a limit with {joined} glideins, {need.free} of them idle")
        asked, rule = self._requested(need, room)
        halvings = self._curbs(need, joined)
        if halvings:
            asked >>= halvings
            rule += f", halved by {halvings} curbs with {joined} glideins, {need.free} of them idle = {asked}"
        if asked < 1:
            asked = 1
            rule += ", raised to 1"
        # The factory stops at this many in all, whatever was requested.
        most = (need.idle + claimed) * self.relative_to_queue_percent // 100 + 1
        if asked > most - joined:
            asked = max(0, most - joined)
            rule += f", {joined} of at most {most} glideins are there"
        return Pressure(asked, rule)

    def _requested(self, need: Need, room: int) -> tuple[int, str]:
        part = min(need.idle, room) // self.ramp_up_attenuation
        rule = f"idle = {need.idle}, room = {room}, the lesser/{self.ramp_up_attenuation} = {part}"
        old = need.idle if need.oldest_s >= self.old_after_s else 0
        reserve = min(old // OLD_PER_RESERVE, self.idle_glideins_per_entry_reserve)
        if reserve:
            rule += f", {reserve} in reserve as the oldest waits {need.oldest_s} s"
        asked = part + reserve
        if asked > self.idle_glideins_per_entry_max:
            asked = self.idle_glideins_per_entry_max
            rule += f", capped by idle_glideins_per_entry_max = {asked}"
        return asked, rule

    def _curbs(self, need: Need, joined: int) -> int:
        """How many of the curbs are reached; each halves the request."""
        totals = (need.free >= self.idle_vms_total_curb) + (joined >= self.running_glideins_total_curb)
        return (need.free >= self.idle_vms_per_entry_curb) + TOTALS * totals


class _Kind:
    CYCLE_S = 60
    NUMBERS: Mapping[str, int] = {
        "ramp_up_attenuation": 3,
        "old_after_s": 600,
        "idle_glideins_per_entry_max": 100,
        "idle_glideins_per_entry_reserve": 5,
        "idle_vms_per_entry_max": 100,
        "idle_vms_per_entry_curb": 5,
        "idle_vms_total_max": 1000,
        "idle_vms_total_curb": 200,
        "running_glideins_per_entry_max": 10_000,
        "running_glideins_total_max": 100_000,
        "running_glideins_total_curb": 90_000,
        "relative_to_queue_percent": 115,
    }
    # Without a reserve, or with every job old at once, the rule is still one.
    _MAY_BE_0 = frozenset({"idle_glideins_per_entry_reserve", "old_after_s"})

    def __call__(self, numbers: Mapping[str, int]) -> GlideinWms:
        given = {**self.NUMBERS, **numbers}
        for key, value in given.items():
            least = 0 if key in self._MAY_BE_0 else 1
            if value < least:
                raise ValueError(f"policy `glideinwms`: `{key.removesuffix('_s')}` must be {least} or more")
        return GlideinWms(**given)


policy = _Kind()
