"""The books of usage: runs that begin, lessen and end are written with the plan that says so.

One transaction with the plan: whatever ran has a row, and no row is of anything that did not run. It refuses
to count; what runs come to is the meter's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

from sqlalchemy import Connection, select, update

from glidepath.core.account.run import Held, Rates
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.cluster import DEVICE_MILLI, Node
from glidepath.store.job_rows import jobs
from glidepath.store.placed import PlacedJob, joined, placed_of
from glidepath.store.usage_rows import usage_runs

Nodes = Callable[[NodeName], Node | None]
# How far a run is counted: not at all, up to the last look of the meter, for good.
NOT_COUNTED, UP_TO_METER, COUNTED = 0, 1, 2
NO_REFUND, REFUND_DUE, REFUNDED = 0, 1, 2


@dataclass
class Books:
    """Of one transaction."""

    conn: Connection
    rates: Rates
    node_of: Nodes  # as the plan was made with them

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
        by_kind = held_by(found, self.node_of)
        held = reduce(add, by_kind.values(), Held())
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
                "rate": sum(part.rate(self.rates, kind) for kind, part in by_kind.items()),
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


def held_by(found: PlacedJob, node_of: Nodes) -> dict[str, Held]:
    """What the ranks that go on keep from others, by the kind of their GPUs: requests, or whole nodes."""
    ask, gone = found.record.job.ask, set(found.record.gone)
    held: dict[str, Held] = {}
    for rank, place in enumerate(found.record.places):
        if rank in gone:
            continue
        node = node_of(place.node)
        size = node.size if ask.exclusive and node is not None else ask.size
        gpu_milli = size.gpus * DEVICE_MILLI or ask.gpu_milli
        kind = node.gpu_kind if gpu_milli and node is not None else ""
        part = Held(size.cpu_milli, size.memory_mib, size.disk_mib, gpu_milli)
        held[kind] = held.get(kind, Held()) + part
    return held


def by_name(nodes: Iterable[Node]) -> Nodes:
    return {node.name: node for node in nodes}.get
