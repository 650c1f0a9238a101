"""`steady`: a pilot's worth for every pilot's worth of waiting work, a reserve where jobs keep coming, and
surplus released early.

Asking for all of it at once keeps the wait short. The reserve is a shop's safety stock: a multiple of the
square root of the jobs that come while a pilot starts. Draining pilots that stay free for `release_after`,
instead of leaving them to their own idle limit, pays for both. Site limits bound the size, time the churn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from glidepath.core.provision.pressure import Arriving, Need, Pressure


@dataclass(frozen=True, slots=True)
class Steady:
    release_s: int | None = 300
    waiting_max: int = 0
    reserve_percent: int = 200
    name: ClassVar[str] = "steady"
    withdraws: ClassVar[bool] = True
    beyond: ClassVar[bool] = False

    def expected(self, arriving: Arriving) -> int:
        # One reserve for the whole pool, in parts: shapes that share pilots do not all rise at once.
        if not arriving.in_pool:
            return 0
        return self.reserve_percent * arriving.jobs // isqrt(10_000 * arriving.in_pool)

    def pressure(self, need: Need) -> Pressure:
        rule = f"idle = {need.idle}"
        if need.expected_jobs:
            rule += f", of it {need.expected_jobs} jobs in reserve for those that come while a pilot starts"
        if self.waiting_max and need.idle > self.waiting_max:
            return Pressure(self.waiting_max, f"{rule}, capped by waiting_max = {self.waiting_max}")
        return Pressure(need.idle, rule)


class _Kind:
    CYCLE_S = 10
    # In replay of a real grid trace, five minutes and twice the root gave a third of the seed rule's wait for
    # less waste; draining at once halves the waste again but asks for four times the pilots.
    NUMBERS: Mapping[str, int] = {"release_after_s": 300, "waiting_max": 0, "reserve_percent": 200}

    def __call__(self, numbers: Mapping[str, int]) -> Steady:
        given = {**self.NUMBERS, **numbers}
        if min(given.values()) < 0:
            raise ValueError(
                "policy `steady`: `release_after`, `waiting_max` and `reserve_percent` must be 0 or more"
            )
        return Steady(given["release_after_s"], given["waiting_max"], given["reserve_percent"])


policy = _Kind()
