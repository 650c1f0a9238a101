"""A scenario: everything that one run needs but the seed and the policy, as values."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from glidepath.core.provision.offer import Rules
from glidepath.sim.arrival import Arrival
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.workloads import KINDS


class Jobs(Protocol):
    """Where arrivals come from; asked once per run."""

    def arrivals(self, seed: int) -> Iterable[Arrival]: ...


@dataclass(frozen=True, slots=True)
class Workload:
    """Made-up jobs of one kind."""

    kind: str
    options: Any

    def arrivals(self, seed: int) -> Iterable[Arrival]:
        return KINDS[self.kind].arrivals(random.Random(f"{self.kind} {seed}"), self.options)


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    rules: Rules
    sites: tuple[Behaviour, ...]
    pools: tuple[Matching, ...]
    workload: Jobs
    rates: Mapping[str, int] = field(default_factory=dict)  # of faults, in thousandths
    end_s: int | None = None  # faults stop and no more jobs come; None: when the workload ends
