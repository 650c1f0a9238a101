"""What is carried from one cycle to the next. For calm, never for safety: limits hold with an empty memory.

Everything here changes only when the world does, so that the journal stays small.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.provision.demand import Demand
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.pilot import Track
from glidepath.core.quantity import Instant, NodeName, PilotName, PoolName, SiteName, SourceName


@dataclass(frozen=True, slots=True)
class Held:
    """The last complete answer of a source of demand."""

    pool: PoolName
    source: SourceName
    at: Instant
    demands: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """How pilots of one offer, or of a whole site, have fared. `about` is an offer key or a site name."""

    about: str
    failures: int = 0  # since the last pilot that joined
    opened_at: Instant | None = None
    retry_at: Instant | None = None
    openings: int = 0  # in a row; each doubles the wait
    why: str = ""
    latency_s: int = 0  # from asked to joined, smoothed; 0 until one has joined
    joined: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class NodeHealth:
    site: SiteName
    node: NodeName
    failures: int
    until: Instant | None = None  # quarantined until then
    why: str = ""
    at: Instant = Instant(0)  # of the last failure
    eats: bool = False  # pilots join there and their jobs fail, so that another one that joins proves nothing


@dataclass(frozen=True, slots=True)
class Memory:
    """`incarnation` is drawn by the shell at start, so that a lost store never reuses a name."""

    incarnation: str
    born_at: Instant
    cycle: int = 0
    at: Instant | None = None  # of the last cycle
    quiet: int = 0  # cycles in a row without action or change
    tracks: tuple[Track, ...] = ()
    health: tuple[Health, ...] = ()
    nodes: tuple[NodeHealth, ...] = ()
    marks: tuple[tuple[str, Instant], ...] = ()  # named instants that the last plan left for the next one
    held: tuple[Held, ...] = ()
    flows: tuple[Flow, ...] = ()
    unproven: tuple[SiteName, ...] = ()  # not seen since a life without memory began
    cleared: tuple[tuple[PilotName, Instant], ...] = ()  # recorded; a late listing must not count twice
