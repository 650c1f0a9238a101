"""`partial-pages`: a long answer breaks off, and the door knows that it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.sight import PoolSlots, SiteListing
from glidepath.sim.fault import Fault


class PartialPages(Fault):
    name = "partial-pages"
    every = "read"
    about = "only the first part of an answer comes, marked as incomplete"

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        answer = go()
        if not self.hits():
            return answer
        part = self.draw.random()
        match answer:
            case SiteListing(pilots):
                return replace(answer, pilots=pilots[: int(len(pilots) * part)], complete=False)
            case PoolSlots(slots):
                return replace(answer, slots=slots[: int(len(slots) * part)], complete=False)
            case DemandSight(demands):
                return replace(answer, demands=demands[: int(len(demands) * part)], complete=False)
            case _:
                return answer


fault = PartialPages
