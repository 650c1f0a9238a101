"""What is over for long goes: times come in, rows are removed a few at a time, and how far it came goes out.

Each step is one small transaction. It never removes a job that is not over, one that an open job is beside
of, or a client key that may still be sent again. Logs are on no table and not known here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from sqlalchemy import Column, Connection, Table, and_, bindparam, delete, func, or_, select

from glidepath.core.place.record import Phase
from glidepath.store.engine import Store
from glidepath.store.job import OVER
from glidepath.store.job_rows import attempts, jobs
from glidepath.store.placed_rows import client_keys, events, placed, ranks, schedule_cycles

# Rows that one transaction removes: others wait for the store for milliseconds.
ROWS_MAX = 1000
JOBS_MAX = 100
# Rows that one step looks at in order to find some.
LOOKED_MAX = 5000
_OVER = tuple(sorted(state.value for state in OVER))
_OPEN = tuple(sorted(phase.value for phase in Phase if phase is not Phase.OVER))
# Of which a job may have thousands; its own two rows go when these are gone.
_MANY = (events, ranks, attempts)


class Sweep:
    """Of one store; `hold` raises where it is not ours any more."""

    def __init__(self, store: Store, *, hold: Callable[[Connection], None] = lambda connection: None) -> None:
        self._store = store
        self._hold = hold

    def over_before(self, numbers: Collection[int], wall_s: float) -> frozenset[int]:
        """Which of these jobs are over since before then."""
        query = select(jobs.c.id).where(jobs.c.id.in_(sorted(numbers)), _over_before(wall_s))
        with self._store.read() as conn:
            return frozenset(conn.execute(query).scalars())

    def keys(self, wall_s: float) -> int:
        """Client keys that were sent before then, of jobs that are over; how many went."""
        old = (
            select(client_keys.c.owner, client_keys.c.key)
            .outerjoin(jobs, jobs.c.id == client_keys.c.job)
            .where(client_keys.c.wall_s < wall_s, or_(jobs.c.id.is_(None), jobs.c.state.in_(_OVER)))
            .limit(ROWS_MAX)
        )
        with self._store.read() as conn:
            found = conn.execute(old).all()
        if not found:
            return 0
        with self._store.write() as conn:
            self._hold(conn)
            # One that was sent anew in between is younger than that.
            return sum(
                conn.execute(
                    delete(client_keys).where(
                        client_keys.c.owner == row.owner,
                        client_keys.c.key == row.key,
                        client_keys.c.wall_s < wall_s,
                    )
                ).rowcount
                for row in found
            )

    def jobs(self, wall_s: float, *, keys_wall_s: float, above: int = 0) -> tuple[int, int | None]:
        """Jobs that ended before then, by number: how many went, and the number to go on above.

        A job that was submitted after `keys_wall_s` stays, because its key may be sent again.
        """
        looked = (
            select(jobs.c.id, and_(_over_before(wall_s), jobs.c.submitted_wall < keys_wall_s).label("due"))
            .where(jobs.c.id > above)
            .order_by(jobs.c.id)
            .limit(LOOKED_MAX)
        )
        with self._store.read() as conn:
            rows = conn.execute(looked).all()
        due = [row.id for row in rows if row.due]
        upto = rows[-1].id if len(rows) == LOOKED_MAX else None
        if len(due) > JOBS_MAX:
            due = due[:JOBS_MAX]
            upto = due[-1]
        if not due:
            return 0, upto
        with self._store.write() as conn:
            self._hold(conn)
            wanted = _beside(conn)
            gone = [number for number in due if number not in wanted]
            if not _emptied(conn, gone):
                return 0, above  # It has more than one step removes; the next goes on with the same.
            for table, column in ((placed, placed.c.job), (jobs, jobs.c.id)):
                conn.execute(delete(table).where(column.in_(gone)))
        return len(gone), upto

    def plans(self, wall_s: float) -> int:
        """Plans of the scheduler that were made before then, the oldest first; how many went."""
        cycles = schedule_cycles.c
        with self._store.write() as conn:
            self._hold(conn)
            first = conn.execute(select(func.min(cycles.cycle))).scalar()
            if first is None:
                return 0
            old = (cycles.cycle < first + ROWS_MAX, cycles.wall_s < wall_s)
            return conn.execute(delete(schedule_cycles).where(*old)).rowcount


def _over_before(wall_s: float) -> Any:
    ended = func.coalesce(jobs.c.ended_wall, jobs.c.submitted_wall)
    return and_(jobs.c.state.in_(_OVER), ended < wall_s)


def _beside(conn: Connection) -> frozenset[int]:
    """The jobs that those which are not over name as what they are beside of."""
    query = select(placed.c.spec).where(placed.c.phase.in_(_OPEN), placed.c.spec.like('%"beside":%'))
    found = (json.loads(text).get("beside") for text in conn.execute(query).scalars())
    return frozenset(number for number in found if number is not None)


def _emptied(conn: Connection, numbers: Collection[int]) -> bool:
    """Whether nothing is left of what a job may have many rows of."""
    left = ROWS_MAX
    for table in _MANY:
        left -= _removed(conn, table, numbers, left)
        if left <= 0:
            return False
    return True


def _removed(conn: Connection, table: Table, numbers: Collection[int], rows_max: int) -> int:
    names: tuple[Column[Any], ...] = tuple(table.primary_key.columns)
    rows = conn.execute(select(*names).where(table.c.job.in_(sorted(numbers))).limit(rows_max)).all()
    if rows:
        one = delete(table).where(*(column == bindparam(f"of_{column.name}") for column in names))
        conn.execute(one, [{f"of_{column.name}": row[at] for at, column in enumerate(names)} for row in rows])
    return len(rows)
