"""The books of usage: runs that begin, lessen and end are written with the plan that says so.

One transaction with the plan: whatever ran has a row, and no row is of anything that did not run. It refuses
to count; what runs come to is the meter's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from glidepath.core.account.run import Held, Rates
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import DEVICE_MILLI
from glidepath.store.job_rows import jobs
from glidepath.store.placed import PlacedJob, joined, placed_of
from glidepath.store.usage_rows import usage_runs

Sizes = Callable[[NodeName], Resources | None]
# How far a run is counted: not at all, up to the last look of the meter, for good.
NOT_COUNTED, UP_TO_METER, COUNTED = 0, 1, 2
NO_REFUND, REFUND_DUE, REFUNDED = 0, 1, 2


@dataclass
class Books:
    """Of one transaction."""

    conn: Connection
    rates: Rates
    size_of: Sizes  # of nodes that a job has for itself

    def began(self, job: int, attempt: int, at: Instant) -> None:
        """All ranks run. A second word of the same beginning changes nothing."""
        of_attempt = (usage_runs.c.job == job) & (usage_runs.c.attempt == attempt)
        if self.conn.execute(select(usage_runs.c.id).where(of_attempt).limit(1)).first() is None:
            self._write(job, attempt, at)

    def lessened(self, job: int, attempt: int, at: Instant) -> None:
        """Some ranks are gone: what was held until now ends, and the rest begins."""
        if self._end(job, attempt, at, lost=False):
            self._write(job, attempt, at)

    def ended(self, job: int, attempt: int, at: Instant, *, lost: bool) -> None:
        self._end(job, attempt, at, lost=lost)

    def _write(self, job: int, attempt: int, at: Instant) -> None:
        row = self.conn.execute(joined().where(jobs.c.id == job)).one_or_none()
        if row is None:
            return
        found = placed_of(row)
        held = held_by(found, self.size_of)
        spec = found.spec
        self.conn.execute(
            usage_runs.insert(),
            {
                "job": job,
                "attempt": attempt,
                "owner": spec.job.owner,
                "project": spec.project,
                "partition": spec.job.partition,
                "cpu_milli": held.cpu_milli,
                "memory_mib": held.memory_mib,
                "disk_mib": held.disk_mib,
                "gpu_milli": held.gpu_milli,
                "rate": held.rate(self.rates),
                "began_at": at,
                "ended_at": None,
                "counted": NOT_COUNTED,
                "refund": NO_REFUND,
            },
        )

    def _end(self, job: int, attempt: int, at: Instant, *, lost: bool) -> bool:
        mine = (usage_runs.c.job == job) & (usage_runs.c.attempt == attempt)
        open_now = mine & usage_runs.c.ended_at.is_(None)
        done = self.conn.execute(update(usage_runs).where(open_now).values(ended_at=at))
        if lost:
            # The whole attempt, also what it held before it went on with less.
            none_yet = mine & (usage_runs.c.refund == NO_REFUND)
            self.conn.execute(update(usage_runs).where(none_yet).values(refund=REFUND_DUE))
        return bool(done.rowcount)


def held_by(found: PlacedJob, size_of: Sizes) -> Held:
    """What the ranks that go on keep from others: their requests, or whole nodes."""
    ask, gone = found.record.job.ask, set(found.record.gone)
    seats = [place for rank, place in enumerate(found.record.places) if rank not in gone]
    held = Held()
    for place in seats:
        size = (size_of(place.node) if ask.exclusive else None) or ask.size
        gpus = size.gpus * DEVICE_MILLI or ask.gpu_milli
        held = Held(
            held.cpu_milli + size.cpu_milli,
            held.memory_mib + size.memory_mib,
            held.disk_mib + size.disk_mib,
            held.gpu_milli + gpus,
        )
    return held


def sizes_of(nodes: Any) -> Sizes:
    """By the nodes that the plan was made with."""
    by_name = {node.name: node.size for node in nodes}
    return by_name.get
