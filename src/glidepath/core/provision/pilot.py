"""Pilots: what a site says of them, what the pool says of them, and the phase that follows from both.

Phases move only along `NEXT`; a test proves the table closed, reachable and ending.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from glidepath.core.provision.offer import Kind, kind_of
from glidepath.core.provision.quick import quick
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
    Traits,
)


class SiteState(StrEnum):
    """What a site can say of a pilot."""

    PENDING = "pending"
    RUNNING = "running"
    LEAVING = "leaving"
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"
    WITHDRAWN = "withdrawn"  # over, and known never to have started: nobody failed


class PilotPhase(StrEnum):
    """Where a pilot stands, once the site and the pool have both been heard."""

    # That of Enum is written in Python and is asked for several times per pilot and cycle.
    __hash__ = str.__hash__

    EXPECTED = "expected"  # asked for, not yet listed
    PENDING = "pending"  # waits in the site's queue
    STARTING = "starting"  # runs, has not joined the pool
    IDLE = "idle"  # joined, nothing claimed
    BUSY = "busy"  # joined, at least one claim
    DRAINING = "draining"  # takes nothing new, will leave
    UNKNOWN = "unknown"  # may live; nobody can say
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"  # written off: never appeared, or vanished


P = PilotPhase
ENDED = frozenset({P.DONE, P.FAILED, P.GONE})
COMING = frozenset({P.EXPECTED, P.PENDING, P.STARTING})
JOINED = frozenset({P.IDLE, P.BUSY, P.DRAINING})

# A listing may skip phases and reports may come late, but nothing comes back from the end.
NEXT: dict[PilotPhase, frozenset[PilotPhase]] = {
    P.EXPECTED: frozenset(set(P) - {P.EXPECTED}),
    P.PENDING: frozenset(set(P) - {P.EXPECTED, P.PENDING}),
    P.STARTING: frozenset({P.IDLE, P.BUSY, P.DRAINING, P.UNKNOWN, *ENDED, P.PENDING}),
    P.IDLE: frozenset({P.BUSY, P.DRAINING, P.UNKNOWN, *ENDED}),
    P.BUSY: frozenset({P.IDLE, P.DRAINING, P.UNKNOWN, *ENDED}),
    # A drain can be called off, by an operator of the pool or of the site.
    P.DRAINING: frozenset({P.PENDING, P.STARTING, P.IDLE, P.BUSY, P.UNKNOWN, *ENDED}),
    P.UNKNOWN: frozenset({P.PENDING, P.STARTING, P.IDLE, P.BUSY, P.DRAINING, *ENDED}),
    P.DONE: frozenset(),
    P.FAILED: frozenset(),
    P.GONE: frozenset(),
}


@quick
@dataclass(frozen=True, slots=True)
class SitePilot:
    """One pilot as its site lists it; found by our label, whoever of us asked for it."""

    name: PilotName
    offer: OfferKey
    pool: PoolName
    size: Resources
    state: SiteState
    since: Instant
    asked_at: Instant
    traits: Traits = ()
    owner: Owner = Owner("")
    native_id: str = ""
    node: NodeName = NodeName("")
    ends_at: Instant | None = None
    note: str = ""  # the site's own words, verbatim


@quick
@dataclass(frozen=True, slots=True)
class Slot:
    """One pilot as its pool knows it: what is free in it, what is claimed, and for how long it stays."""

    pilot: PilotName
    free: Resources
    claims: int
    draining: bool = False
    ends_at: Instant | None = None
    jobs_run: int = 0
    jobs_failed: int = 0


class OfKind:
    """A pilot's kind is asked for several times in every cycle: it is looked up the first time."""

    __slots__ = ("_kind",)
    _kind: Kind


@quick
@dataclass(frozen=True, slots=True)
class Track(OfKind):
    """What is remembered of one pilot. Changes only when something about the pilot does."""

    name: PilotName
    site: SiteName
    offer: OfferKey
    pool: PoolName
    size: Resources
    phase: PilotPhase
    since: Instant
    asked_at: Instant
    traits: Traits = ()
    owner: Owner = Owner("")
    native_id: str = ""
    node: NodeName = NodeName("")
    started_at: Instant | None = None
    joined_at: Instant | None = None
    ends_at: Instant | None = None
    missing_since: Instant | None = None  # from the site's listing
    silent_since: Instant | None = None  # from the pool's slots, after it had joined
    leaving: str = ""  # why we told it to go, if we did
    busy_s: int = 0  # before the present phase
    idle_s: int = 0
    jobs_run: int = 0
    note: str = ""

    @property
    def kind(self) -> Kind:
        try:
            return self._kind
        except AttributeError:
            found = kind_of(self.offer, self.size, self.traits)
            object.__setattr__(self, "_kind", found)
            return found

    @property
    def live(self) -> bool:
        return self.phase not in ENDED


@dataclass(frozen=True, slots=True)
class Ended:
    """The statistics of a pilot that is over: why it ended and where its seconds went."""

    name: PilotName
    site: SiteName
    offer: OfferKey
    pool: PoolName
    owner: Owner
    phase: PilotPhase
    why: str
    asked_at: Instant
    ended_at: Instant
    pending_s: int
    starting_s: int
    busy_s: int
    idle_s: int
    failed_s: int
    jobs_run: int
    cpu_milli: int = 0
    node: NodeName = NodeName("")

    @property
    def in_vain(self) -> bool:
        """It never came to be of use: all that it waited for was for nothing."""
        return self.phase is not PilotPhase.DONE and not self.busy_s and not self.idle_s

    @property
    def waste_s(self) -> tuple[tuple[str, int], ...]:
        """What was not used by jobs, by cause."""
        coming_s = self.pending_s + self.starting_s
        if self.in_vain:
            return ("failed", coming_s + self.failed_s), ("starting", 0), ("unclaimed", 0)
        return ("failed", self.failed_s), ("starting", coming_s), ("unclaimed", self.idle_s)

    def cost_micro(self, price_milli: int) -> int:
        """Millionths, at a price by the hour that it was there for jobs."""
        return price_milli * 1000 * (self.busy_s + self.idle_s) // 3600


@dataclass(frozen=True, slots=True)
class Target:
    """A pilot by our name and by the site's own handle, so that an act can be conditional on it."""

    name: PilotName
    native_id: str = ""


@dataclass(frozen=True, slots=True)
class Submit:
    """Start these pilots, all of one kind. One name is one intent: repeating it is harmless.

    With `together`, so many names in a row are one request to the site, and what comes of it is so for each.
    """

    site: SiteName
    offer: OfferKey
    pool: PoolName
    size: Resources
    traits: Traits
    lifetime_s: int
    idle_s: int
    names: tuple[PilotName, ...]
    owner: Owner = Owner("")
    avoid: tuple[NodeName, ...] = ()
    together: int = 1

    @property
    def groups(self) -> tuple[tuple[PilotName, ...], ...]:
        """The names of each request."""
        if self.together == 1:
            return tuple((name,) for name in self.names)
        starts = range(0, len(self.names), self.together)
        return tuple(self.names[at : at + self.together] for at in starts)


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take these pilots out of the site's queue; none of them has started."""

    site: SiteName
    pilots: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Let these pilots finish what they have claimed, take nothing new, and leave."""

    site: SiteName
    pilots: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove the traces of pilots that have ended at the site, and keep their statistics."""

    site: SiteName
    ended: tuple[Ended, ...]
    native_ids: tuple[str, ...]  # of the same pilots, in the same order

    def __post_init__(self) -> None:
        assert len(self.ended) == len(self.native_ids), "one handle for each pilot"


@dataclass(frozen=True, slots=True)
class WriteOff:
    """Take pilots off the books that the site does not know (any more); only the statistics are kept."""

    site: SiteName
    ended: tuple[Ended, ...]


PilotAction = Submit | Withdraw | Drain | Clear | WriteOff


@dataclass(frozen=True, slots=True)
class PilotSpec:
    """All that a backend needs to start one pilot, or one and its mates with a single request."""

    name: PilotName
    site: SiteName
    offer: OfferKey
    pool: PoolName
    size: Resources
    traits: Traits
    lifetime_s: int
    idle_s: int
    asked_at: Instant
    owner: Owner = Owner("")
    avoid: tuple[NodeName, ...] = ()
    join: tuple[tuple[str, str], ...] = ()  # how to join the pool, from the pool's own door
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # file names and contents
    mates: tuple[PilotName, ...] = ()  # the others that the same request starts, alike in all but the name
    # Of each mate, in the same order; empty where `secrets` is.
    mates_secrets: tuple[tuple[tuple[str, str], ...], ...] = field(default=(), repr=False)
