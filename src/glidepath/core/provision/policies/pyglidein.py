"""`pyglidein`: the rule of the pyglidein 1.x client.

Each round it submits one glidein per waiting job, at most `limit_per_submit`, and at most what its limits on
running and on queued glideins leave. It subtracts neither what it asked for before nor free glideins, so it
asks again each round for the same jobs. There one limit serves all shapes of a site; here each has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from glidepath.core.provision.pressure import Need, Pressure, Reactive


@dataclass(frozen=True, slots=True)
class Pyglidein(Reactive):
    limit_per_submit: int = 50
    max_total_jobs: int = 1000
    max_idle_jobs: int = 1000
    name: ClassVar[str] = "pyglidein"
    beyond: ClassVar[bool] = True

    def pressure(self, need: Need) -> Pressure:
        count = need.idle + need.free
        running = need.free + -(-need.running_jobs // need.jobs_each)
        queued = need.pending
        limit, named = min(
            (self.limit_per_submit, f"limit_per_submit = {self.limit_per_submit}"),
            (self.max_total_jobs - running, f"max_total_jobs - running = {self.max_total_jobs} - {running}"),
            (self.max_idle_jobs - queued, f"max_idle_jobs - queued = {self.max_idle_jobs} - {queued}"),
        )
        limit = max(0, limit)
        rule = f"count = {count}" + (f", capped by {named}" if count > limit else "")
        # The caller takes off what is coming; this rule does not know it and asks on top of it.
        return Pressure(need.coming + min(count, limit), f"{rule}, beside {queued} queued")


class _Kind:
    CYCLE_S = 300
    # The defaults of its `[Cluster]` section.
    NUMBERS: Mapping[str, int] = {"limit_per_submit": 50, "max_total_jobs": 1000, "max_idle_jobs": 1000}

    def __call__(self, numbers: Mapping[str, int]) -> Pyglidein:
        given = {**self.NUMBERS, **numbers}
        if min(given.values()) < 1:
            # A limit of 0 would leave every job waiting for ever.
            raise ValueError(
                "policy `pyglidein`: `limit_per_submit`, `max_total_jobs` and `max_idle_jobs` "
                "must be 1 or more"
            )
        return Pyglidein(**given)


policy = _Kind()
