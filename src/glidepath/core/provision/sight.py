"""The snapshot: everything that one cycle saw, and everything that it could not see.

Taken by the shell, kept in the journal, and enough, with the memory and the rules, to decide again.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.cycle import Sighting
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.pilot import SitePilot, Slot
from glidepath.core.quantity import Instant, PoolName, SiteName, SourceName


@dataclass(frozen=True, slots=True)
class SiteListing:
    """Our pilots at a site. `complete` is false when the listing may lack some of them."""

    pilots: tuple[SitePilot, ...]
    complete: bool = True
    age_s: int = 0  # how old it was when it was given
    notes: tuple[str, ...] = ()  # what else its door has to say to people
    room: int | None = None  # so many more the site takes now, by its own word
    avoids_nodes: bool = True  # whether the site can be told on which nodes not to start


@dataclass(frozen=True, slots=True)
class PoolSlots:
    """Our pilots as the pool knows them."""

    slots: tuple[Slot, ...]
    complete: bool = True
    foreign: int = 0  # that call themselves ours and are signed by somebody else; not counted
    notes: tuple[str, ...] = ()  # what else its door has to say to people


@dataclass(frozen=True, slots=True)
class Window:
    """A span in which a site is closed."""

    site: SiteName
    opens_at: Instant
    closes_at: Instant
    why: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator's word that something rests: `pool:NAME`, `site:NAME`, `offer:KEY`."""

    about: str
    by: str = ""
    why: str = ""
    drain: bool = False  # of a site or an offer: its pilots are to finish what they have and leave


@dataclass(frozen=True, slots=True)
class Spent:
    """What pilots that are over have cost of a budget in a period of it."""

    budget: str
    micro: int
    begins_at: Instant
    ends_at: Instant


@dataclass(frozen=True, slots=True)
class Snapshot:
    now: Instant
    demand: tuple[tuple[PoolName, SourceName, Sighting[DemandSight]], ...]
    slots: tuple[tuple[PoolName, Sighting[PoolSlots]], ...]
    sites: tuple[tuple[SiteName, Sighting[SiteListing]], ...]
    windows: tuple[Window, ...] = ()
    pauses: tuple[Pause, ...] = ()
    stopping: bool = False  # glidepath itself is ending
    spent: tuple[Spent, ...] = ()
