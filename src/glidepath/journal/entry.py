"""What is read back from the journal: one cycle, its header, and the words and numbers kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glidepath.clock import Moment
from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import Ended, PilotAction
from glidepath.core.provision.sight import Snapshot


@dataclass(frozen=True, slots=True)
class Header:
    """A cycle without its contents."""

    cycle: int
    moment: Moment
    version: str
    actions: int
    acted: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """Everything that one cycle knew and decided; `outcomes` is None when nobody lived to write them."""

    cycle: int
    moment: Moment
    version: str
    snapshot: Snapshot
    memory: Memory
    rules: Rules
    plan: Plan[PilotAction]
    outcomes: tuple[Did, ...] | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened outside of a cycle, in words."""

    wall_s: float
    kind: str
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class EndedPilot:
    """The statistics of one pilot, the cycle that recorded them, and the wall clock at its end."""

    ended: Ended
    cycle: int
    ended_wall_s: float


@dataclass(frozen=True, slots=True)
class Measure:
    """One number over a span of time; the mean is `total` by the samples of its roll-up."""

    low: int
    high: int
    total: int


@dataclass(frozen=True, slots=True)
class Rollup:
    """What was counted of a pool (`pool:NAME`) or an offer (`offer:KEY`) in one bucket of time."""

    about: str
    start_s: int
    samples: int
    measures: Mapping[str, Measure]
