"""`steady`: one pilot's worth on its way for every pilot's worth of waiting work, and surplus released early.

Asking for all of it at once keeps the wait short; draining pilots that stay free for `release_s` instead of
leaving them to their own idle limit pays for it. Site limits bound the size, hysteresis the churn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glidepath.core.provision.pressure import Need, Pressure


@dataclass(frozen=True, slots=True)
class Steady:
    release_s: int | None = 300
    waiting_max: int = 0
    name: str = "steady"

    def pressure(self, need: Need) -> Pressure:
        if self.waiting_max and need.idle > self.waiting_max:
            return Pressure(
                self.waiting_max, f"idle = {need.idle}, capped by waiting_max = {self.waiting_max}"
            )
        return Pressure(need.idle, f"idle = {need.idle}")


class _Kind:
    # Five minutes: in replay of a real grid trace it kept a third of the seed rule's wait for four fifths of
    # its waste; draining at once halves the waste again but asks for four times the pilots.
    NUMBERS: Mapping[str, int] = {"release_after_s": 300, "waiting_max": 0}

    def __call__(self, numbers: Mapping[str, int]) -> Steady:
        given = {**self.NUMBERS, **numbers}
        if min(given.values()) < 0:
            raise ValueError("policy `steady`: `release_after` and `waiting_max` must be 0 or more")
        return Steady(given["release_after_s"], given["waiting_max"])


policy = _Kind()
