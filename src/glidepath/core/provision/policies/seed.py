"""`seed`: the rule that the project began with.

Below `nmin` waiting jobs one pilot each; above it a fraction of them, but never fewer than `nmin`. Pilots
leave by their own idle limit. Constant pressure: as pilots start, the next ones are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glidepath.core.provision.pressure import Need, Pressure, Reactive


@dataclass(frozen=True, slots=True)
class Seed(Reactive):
    nmin: int = 5
    divisor: int = 4
    name: str = "seed"

    def pressure(self, need: Need) -> Pressure:
        if need.idle < self.nmin:
            return Pressure(need.idle, f"idle = {need.idle}, below nmin = {self.nmin}")
        part = need.idle // self.divisor
        if part > self.nmin:
            return Pressure(part, f"idle/{self.divisor} = {part}")
        return Pressure(self.nmin, f"idle/{self.divisor} = {part}, raised to nmin = {self.nmin}")


class _Kind:
    CYCLE_S = 120
    # Five and four are the seed document's own constants.
    NUMBERS: Mapping[str, int] = {"nmin": 5, "divisor": 4}

    def __call__(self, numbers: Mapping[str, int]) -> Seed:
        given = {**self.NUMBERS, **numbers}
        if given["nmin"] < 1 or given["divisor"] < 1:
            # With nmin 0, one to three waiting jobs would never get a pilot.
            raise ValueError("policy `seed`: `nmin` and `divisor` must be 1 or more")
        return Seed(given["nmin"], given["divisor"])


policy = _Kind()
