"""The workers of the embedded pool, as rows: pilots that joined, what is free in them, their end.

Any process can read them from the store alone. It refuses to know connections.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, select

from glidepath.core.quantity import Instant, Resources, Traits
from glidepath.embedded.wire import Beat
from glidepath.pilot.remains import lives
from glidepath.store import engine
from glidepath.store.job_rows import text_of, traits_of, workers


@dataclass(frozen=True, slots=True)
class Worker:
    pilot: str
    pool: str
    size: Resources
    free: Resources
    traits: Traits
    claims: int
    draining: bool
    ends_at: Instant
    heard_at: Instant
    jobs_run: int
    jobs_failed: int
    pid: int
    pid_start: str
    machine: str

    def may_live(self, machine: str) -> bool:
        """Whether its process may still be there, asked on this machine.

        A process of another machine cannot be looked for here, so it may live: unknown is not gone.
        """
        if self.machine == machine:
            return lives(self.pid, self.pid_start)
        return self.machine.split()[0] != machine.split()[0]  # The same machine, started again since.

    def beaten(self, beat: Beat, *, now: Instant) -> Worker:
        """The worker as its latest message describes it."""
        ends_at = Instant(now + beat.left_s)
        if abs(ends_at - self.ends_at) <= 1:
            ends_at = self.ends_at  # Rounding must not make the end of a pilot's life tremble.
        return replace(
            self,
            draining=beat.draining,
            ends_at=ends_at,
            heard_at=now,
            jobs_run=beat.jobs_run,
            jobs_failed=beat.jobs_failed,
        )


def all_workers(conn: Connection, pool: str | None = None) -> list[Worker]:
    query = select(workers).order_by(workers.c.pilot)
    if pool is not None:
        query = query.where(workers.c.pool == pool)
    return [_worker(row) for row in conn.execute(query)]


def keep(conn: Connection, worker: Worker) -> None:
    row = {
        "pilot": worker.pilot,
        "pool": worker.pool,
        "size": text_of(worker.size.as_tuple()),
        "free": text_of(worker.free.as_tuple()),
        "traits": text_of(worker.traits),
        "claims": worker.claims,
        "draining": int(worker.draining),
        "ends_at": worker.ends_at,
        "heard_at": worker.heard_at,
        "jobs_run": worker.jobs_run,
        "jobs_failed": worker.jobs_failed,
        "pid": worker.pid,
        "pid_start": worker.pid_start,
        "machine": worker.machine,
    }
    query = engine.insert(conn, workers).values(row)
    fresh = {key: value for key, value in row.items() if key != "pilot"}
    conn.execute(query.on_conflict_do_update(index_elements=["pilot"], set_=fresh))


def forget(conn: Connection, pilot: str) -> None:
    conn.execute(delete(workers).where(workers.c.pilot == pilot))


def _worker(row: Any) -> Worker:
    return Worker(
        pilot=row.pilot,
        pool=row.pool,
        size=Resources(*json.loads(row.size)),
        free=Resources(*json.loads(row.free)),
        traits=traits_of(row.traits),
        claims=row.claims,
        draining=bool(row.draining),
        ends_at=Instant(row.ends_at),
        heard_at=Instant(row.heard_at),
        jobs_run=row.jobs_run,
        jobs_failed=row.jobs_failed,
        pid=row.pid,
        pid_start=row.pid_start,
        machine=row.machine,
    )
