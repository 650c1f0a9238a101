"""The doors: what the loop needs from the world, as protocols.

A door does I/O and never decides. A read either returns everything it should or raises; a write returns
an `Outcome`. Every call ends within `limit_s`, and nothing is opened, read or started in a constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from glidepath.core.cycle import Outcome
from glidepath.core.place.rank import ClusterName, NodeListing, RankSet, SetKey, SetListing
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, Target
from glidepath.core.provision.sight import PoolSlots, SiteListing, Window
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, SiteName, SourceName
from glidepath.story import JobStory
from glidepath.terms import OfferTerms

# What a read may raise when the world fails; anything else is a bug of the door.
WORLD_ERRORS = (OSError, TimeoutError, RuntimeError, ValueError)


class Clock(Protocol):
    """Steady time for decisions, wall time for people."""

    def now(self) -> Instant: ...

    def wall(self) -> float: ...


@runtime_checkable
class DemandSource(Protocol):
    """One place that holds jobs of a pool, for example a schedd."""

    name: SourceName
    pool: PoolName

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        """The jobs that wait and run, grouped, with the offers that fit them."""
        ...


@runtime_checkable
class Pool(Protocol):
    """What pilots join."""

    name: PoolName

    def sources(self) -> tuple[DemandSource, ...]:
        """The places that hold its jobs; may change from cycle to cycle."""
        ...

    def slots(self, *, now: Instant) -> PoolSlots:
        """Our pilots as the pool knows them."""
        ...

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        """What a pilot of this offer must be told to join: names and values, no secrets."""
        ...

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        """What this pilot needs and nobody else may read: file names and contents.

        Raises where there is none that would last: a pilot that could not join is not started. Not asked
        where the site is `Furnished`.
        """
        ...


@runtime_checkable
class Watched(Protocol):
    """A pool that can say between two cycles, at little cost, that something new waits."""

    poll_s: float  # so often it may be asked

    def changed(self) -> bool:
        """Whether jobs came to wait since demand was last read."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A pool that can be asked about one job of a queue that is not ours."""

    def explain(self, job_id: str, offers: tuple[Offer, ...]) -> tuple[JobStory, ...]:
        """The job of that number in each queue that has one; none where nobody has."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, as a sentence; `fix` is what a person can do about it."""

    name: str
    verdict: str  # ok, warn or fail
    found: str
    fix: str = ""


@runtime_checkable
class Checked(Protocol):
    """A pool that can be looked over for `glidepath doctor`; it changes nothing."""

    def checkup(self, neighbours: tuple[str, ...], *, furnished: bool = False) -> tuple[Finding, ...]:
        """What was found between here and the pool; `neighbours` are names that a misspelt one may mean,
        `furnished` says that every site has a token for its pilots, so that the pool need not make any."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class CheckedSite(Protocol):
    """The same for a site: `offers` are those that it is to start pilots of."""

    def checkup(self, offers: tuple[Offer, ...]) -> tuple[Finding, ...]: ...

    def close(self) -> None: ...


@runtime_checkable
class Backend(Protocol):
    """The code that talks to one site."""

    site: SiteName
    limit_s: float  # every call below ends within this

    def list(self, *, now: Instant) -> SiteListing:
        """All our pilots, ended ones too until they are removed. Raises rather than return less."""
        ...

    def submit(self, spec: PilotSpec) -> Outcome:
        """Start one pilot, and those named as its mates with the same request: all of them or none.

        The same name twice makes one; the same name for something else is refused.
        """
        ...

    def withdraw(self, target: Target) -> Outcome:
        """Take a pilot out of the queue. One that has started meanwhile is left alone and `Refused`."""
        ...

    def remove(self, target: Target) -> Outcome:
        """Stop a pilot at once, or clear the traces of one that ended. Removing what is gone is done."""
        ...

    def drain(self, target: Target) -> Outcome:
        """Let it finish what it has, take nothing new, and leave. Draining what is gone is done."""
        ...

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        """The last lines of the pilot's own output. Raises LookupError where there is none."""
        ...


@runtime_checkable
class Cluster(Protocol):
    """Where jobs are placed: nodes, and sets of ranks on them.

    What a rank writes goes below the home as `glidepath.ranklog` says, live, and all of it is there before
    the rank is listed as over. A limit is kept by the cluster itself: it ends a set also while nobody of us
    is there to see it. Notice is given before that, and commands begin only when every rank is in place.
    """

    name: ClusterName
    limit_s: float  # every call below ends within this

    def nodes(self, *, now: Instant) -> NodeListing:
        """All nodes that may be placed on. Raises rather than return less."""
        ...

    def list(self, *, now: Instant) -> SetListing:
        """All our sets, those that are over too until they are cleared. Raises rather than return less."""
        ...

    def start(self, ranks: RankSet) -> Outcome:
        """Start all ranks on their seats, or none.

        The same key twice makes one, whether the first still runs or is over; the same key for something
        else is refused. `Refused` means that this set can never be started and its job fails; `Failed` that
        another cycle may plan it anew. What only shows later is in the listing, as the cause of a rank.
        """
        ...

    def extend(self, key: SetKey, limit_s: int | None) -> Outcome:
        """Another limit, counted from the same beginning, longer or shorter; notice is given anew.

        A set that is over is `Refused`.
        """
        ...

    def give_notice(self, key: SetKey) -> Outcome:
        """Give notice now. For what is over or gone that is done."""
        ...

    def stop(self, key: SetKey) -> Outcome:
        """Tell all ranks to end, and kill what is left after the grace. Stopping what is gone is done."""
        ...

    def clear(self, key: SetKey) -> Outcome:
        """Remove the traces of a set that is over, all but its logs. One that is not over is `Refused`;
        clearing what is gone is done."""
        ...


@runtime_checkable
class Renders(Protocol):
    """A backend that can show what it would send to start a pilot, before anything is sent."""

    def render(self, spec: PilotSpec) -> str:
        """All of it as text; secrets are named and not shown. Raises ValueError where it cannot be sent."""
        ...


@runtime_checkable
class Lively(Protocol):
    """A cluster that can say between two looks, at little cost, that something there is different."""

    def changed(self) -> bool:
        """Whether a set is in another state than when this was asked last."""
        ...


@runtime_checkable
class Several(Protocol):
    """A backend that may be asked for so many things at the same time, from as many threads."""

    at_once: int


@runtime_checkable
class Furnished(Protocol):
    """A backend whose site may have a token for the pool already; then none is made, or carried there."""

    def furnished(self, offer: OfferKey) -> bool:
        """Whether pilots of this offer find their token at the site."""
        ...


@runtime_checkable
class Timetabled(Protocol):
    """A backend whose site says itself when it is closed."""

    def windows(self) -> tuple[Window, ...]:
        """As of the last listing."""
        ...


@dataclass(frozen=True, slots=True)
class Connection:
    """How the commands of a site get there. No host: they run here, and nothing is to be opened."""

    host: str = ""
    login: str = "key"  # or `person`: then only somebody at a terminal opens it
    is_open: bool = True
    keep_s: int = 0  # so long it stays open while nothing is asked for
    why: str = ""  # why it is not open, and what to do


@runtime_checkable
class LogsIn(Protocol):
    """A backend whose site is reached over a connection that a person may have to open."""

    def connection(self) -> Connection:
        """How it is now; nothing is opened for the answer."""
        ...

    def login(self, say: Callable[[str], None]) -> Connection:
        """Opens it, and sees that a command runs there; `say` is told each step. A password or a second
        factor is asked for in the terminal of this program. The connection outlives it. Raises OSError."""
        ...

    def logout(self) -> Connection:
        """Closes it at once, for everybody who uses it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where this glidepath keeps its things: doors that need a folder or the store find them here."""

    home: Path
    store_url: str
    partitions: tuple[tuple[str, PoolName], ...] = ()  # of the job store, and the pool that takes from each
    terms: Mapping[OfferKey, OfferTerms] = field(default_factory=dict)  # whom each offer serves
    ours: Callable[[], bool] = lambda: True  # is this process still the owner of the store?
    log_bytes_max: int = 1 << 30  # of each output of each rank that is kept


@dataclass(frozen=True, slots=True)
class SiteFound:
    """What a site that is not configured yet says of itself: its tables in TOML, and queue by queue."""

    lines: tuple[str, ...]
    queues: tuple[Mapping[str, object], ...]


@runtime_checkable
class ProbesSite(Protocol):
    """A kind of backend that can ask a site for its limits before anything of it is configured."""

    def probe(self, site: SiteName, where: Mapping[str, object], place: Place) -> SiteFound:
        """`where` is how its commands are reached, as in a site's own settings. Raises OSError or ValueError
        where it does not tell."""
        ...


class BackendKind(Protocol):
    """What the entry point group `glidepath.backends` holds: makes a backend from a site's own settings."""

    def __call__(self, site: SiteName, settings: Mapping[str, object], place: Place) -> Backend: ...


class ClusterKind(Protocol):
    """Makes the door of a cluster from its own settings."""

    def __call__(self, name: ClusterName, settings: Mapping[str, object], place: Place) -> Cluster: ...


class PoolKind(Protocol):
    """What the entry point group `glidepath.demand` holds: makes a pool from its own settings."""

    def __call__(self, name: PoolName, settings: Mapping[str, object], place: Place) -> Pool: ...
