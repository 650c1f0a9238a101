"""The placed jobs that are not over, read again and again: what changed since the last time is read, not all.

Whatever changes a row leaves an event, and events are numbered in the order in which they are committed. All
the same a few rows at a time are read anew when there is nothing else to do, so that nothing stays missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from glidepath.core.place.record import Phase, Record
from glidepath.core.place.roll import Roll
from glidepath.core.schedule.job import Promise
from glidepath.store.engine import Store
from glidepath.store.job_rows import jobs
from glidepath.store.placed import PlacedJob, joined, placed_of
from glidepath.store.placed_rows import events, placed

# So often some rows are read anew: while nothing happens, and however much does.
ANEW_S, ANEW_S_MAX = 1.0, 15.0
ANEW_ROWS = 100


@dataclass
class LiveJobs:
    """Of some partitions. A row that did not change is the same value as before."""

    store: Store
    partitions: tuple[str, ...]
    steady: Callable[[], float] = time.monotonic
    roll: Roll = field(default_factory=Roll)

    def __post_init__(self) -> None:
        self._seen: dict[int, tuple[Any, PlacedJob]] = {}
        self.event: int | None = None  # the newest that was taken in; none before all was read
        self._anew_from, self._anew_at = 0, 0.0

    def promises(self) -> tuple[Promise, ...]:
        """All is read for them: one that moves by little is no event."""
        self.read(whole=True)
        found = (self._seen[number][1].promise for number in self.roll.records)
        return tuple(promise for promise in found if promise is not None)

    def read(self, *, whole: bool = False) -> Roll:
        """Each update of a row names the phase that it expects, so that one read too late does no harm."""
        whole = whole or self.event is None
        with self.store.read() as conn:
            newest = int(conn.execute(select(func.max(events.c.id))).scalar() or 0)
            gone: set[int] = set()
            if whole:
                rows = self._rows(conn, placed.c.phase != Phase.OVER.value)
                gone = self._seen.keys() - {row.id for row in rows}
            else:
                since = self.event or 0
                touched = select(events.c.job).where(events.c.id > since).distinct()
                rows = self._rows(conn, jobs.c.id.in_(touched)) if newest > since else []
                at = self.steady()
                if at - self._anew_at >= (ANEW_S_MAX if rows else ANEW_S):
                    self._anew_at = at
                    again, gone = self._anew(conn)
                    rows += again
        self._take_in(rows, gone)
        self.event = newest
        return self.roll

    def _rows(self, conn: Connection, condition: Any) -> list[Any]:
        query = joined().where(jobs.c.partition.in_(self.partitions), condition).order_by(jobs.c.id)
        return list(conn.execute(query))

    def _anew(self, conn: Connection) -> tuple[list[Any], set[int]]:
        """The next few rows, and those that should be among them and are not there."""
        first = self._anew_from
        live = (placed.c.phase != Phase.OVER.value) & (jobs.c.id > first)
        query = joined().where(jobs.c.partition.in_(self.partitions), live).order_by(jobs.c.id)
        rows = list(conn.execute(query.limit(ANEW_ROWS)))
        last = rows[-1].id if len(rows) == ANEW_ROWS else None
        there = {row.id for row in rows}
        gone = {
            number
            for number in self._seen
            if number > first and (last is None or number <= last) and number not in there
        }
        self._anew_from = last or 0
        return rows, gone

    def _take_in(self, rows: Iterable[Any], gone: set[int]) -> None:
        changes: dict[int, Record | None] = dict.fromkeys(gone)
        for row in rows:
            if row.phase == Phase.OVER.value:
                changes[row.id] = None
                continue
            had, one = self._seen.get(row.id, (None, None))
            if one is None or had != row:
                one = placed_of(row, one.spec if one is not None else None)
                self._seen[row.id] = (row, one)
                changes[row.id] = one.record
        for number, record in changes.items():
            if record is None:
                self._seen.pop(number, None)
        self.roll = self.roll.after(changes)
