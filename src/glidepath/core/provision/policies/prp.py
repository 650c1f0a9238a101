"""`prp`: the rule of the Pacific Research Platform's provisioner, as its code has it.

Of I waiting jobs, 1 + I/4 pods wait or are unmatched; above 20 only every fourth more; never more than
`max_pods_per_cluster`, and none while `max_submit_pods_per_cluster` are there. Nothing is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from glidepath.core.provision.pressure import Need, Pressure, Reactive


@dataclass(frozen=True, slots=True)
class Prp(Reactive):
    divisor: int = 4
    knee: int = 20
    max_pods_per_cluster: int = 20
    max_submit_pods_per_cluster: int = 1000
    name: ClassVar[str] = "prp"

    def pressure(self, need: Need) -> Pressure:
        # Published, a waiting job counts whether or not a pod is free for it; free pods come off at the end.
        idle = need.idle + need.free
        if not idle:
            return Pressure(0, "idle = 0")
        # Claimed pods are known by the jobs that run in them.
        pods = need.coming + need.free + -(-need.running_jobs // need.jobs_each)
        if pods >= self.max_submit_pods_per_cluster:
            top = self.max_submit_pods_per_cluster
            return Pressure(0, f"pods = {pods}, at max_submit_pods_per_cluster = {top}")
        most = 1 + idle // self.divisor
        rule = f"idle = {idle}, 1 + idle/{self.divisor} = {most}"
        if most > self.knee:
            most = self.knee + (most - self.knee) // self.divisor
            rule += f", above {self.knee} one in {self.divisor} = {most}"
        if most > self.max_pods_per_cluster:
            most = self.max_pods_per_cluster
            rule += f", capped by max_pods_per_cluster = {most}"
        if need.free:
            rule += f", less {need.free} unmatched"
        return Pressure(max(0, most - need.free), rule)


class _Kind:
    CYCLE_S = 120
    # The last two are keys of its configuration, the first two stand in its code.
    NUMBERS: Mapping[str, int] = {
        "divisor": 4,
        "knee": 20,
        "max_pods_per_cluster": 20,
        "max_submit_pods_per_cluster": 1000,
    }

    def __call__(self, numbers: Mapping[str, int]) -> Prp:
        given = {**self.NUMBERS, **numbers}
        if min(given.values()) < 1:
            # A cap of 0 would leave every job waiting for ever.
            raise ValueError(
                "policy `prp`: `divisor`, `knee`, `max_pods_per_cluster` and `max_submit_pods_per_cluster` "
                "must be 1 or more"
            )
        return Prp(**given)


policy = _Kind()
