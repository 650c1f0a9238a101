"""What the desk works with: an open store, the settings in force, clocks and a home come in as they are.

For several threads: what is made here is made anew, or may be used by all of them. It decides nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glidepath.clock import iso
from glidepath.config import Settings, placed_of
from glidepath.core.place.record import NEVER
from glidepath.core.quantity import Instant
from glidepath.jobs.errors import Unknown
from glidepath.jobs.together import Together
from glidepath.journal.carried import CarriedClock
from glidepath.journal.journal import Journal
from glidepath.journal.placing import PlacingJournal
from glidepath.nudge import nudge
from glidepath.store.engine import Store
from glidepath.store.jobs import JobStore
from glidepath.store.keys import KeyTaken, Submitted
from glidepath.store.placed import Ask, PlacedStore
from glidepath.store.sights import Sights


@dataclass(frozen=True, slots=True)
class Now:
    """One moment, on the clock of people and on the timeline of the controllers."""

    wall: float
    at: Instant

    def text(self, at: Instant | None) -> str | None:
        """An instant on the clock of people; nothing for never."""
        return None if at is None or at >= NEVER else iso(self.wall + (at - self.at))


@dataclass
class Doors:
    """`settings` may be replaced at any time; each call uses those that it found."""

    settings: Settings
    store: Store
    home: Path
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    # SQLite lets one write at a time and makes the others sleep and try again; here they stand in line.
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.clock = CarriedClock(self.store, wall=self.wall)
        self.sights = Sights(self.store)
        self.journal = Journal(self.store)
        self.together: Together[Ask, Sequence[Submitted] | KeyTaken] = Together(
            self.turn, lambda wanted: self.placed.submit_each(wanted)
        )

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.store, self.clock())

    @property
    def placed(self) -> PlacedStore:
        return PlacedStore(self.store, self.clock(), nudge=lambda: nudge(self.home))

    def now(self) -> Now:
        return Now(self.wall(), self.clock().now())

    def cluster_of(self, partition: str) -> str:
        found = placed_of(self.settings).get(partition)
        if found is None:
            raise Unknown(f"the partition `{partition}` is not one of a cluster any more")
        return found

    def placing(self, cluster: str) -> PlacingJournal:
        """Of one reader: whoever wants what was read before keeps it."""
        partitions = tuple(name for name, of in placed_of(self.settings).items() if of == cluster)
        return PlacingJournal(self.store, cluster, partitions)
