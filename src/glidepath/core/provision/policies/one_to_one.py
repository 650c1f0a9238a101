"""`one-to-one`: a pilot for every waiting job that neither a free nor a coming pilot takes.

The plain rule behind many small scripts: idle - pending - unclaimed. Pilots leave by their own idle limit,
and those that wait in a site's queue stay there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from glidepath.core.provision.pressure import Need, Pressure, Reactive


@dataclass(frozen=True, slots=True)
class OneToOne(Reactive):
    name: ClassVar[str] = "one-to-one"

    def pressure(self, need: Need) -> Pressure:
        # Pilots on their way are taken off by the caller, once for all policies.
        return Pressure(need.idle, f"idle - unclaimed = {need.idle + need.free} - {need.free} = {need.idle}")


class _Kind:
    CYCLE_S = 10
    NUMBERS: Mapping[str, int] = {}

    def __call__(self, numbers: Mapping[str, int]) -> OneToOne:
        if numbers:
            raise ValueError("policy `one-to-one`: it takes no numbers")
        return OneToOne()


policy = _Kind()
