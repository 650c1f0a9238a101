"""Jobs as somebody may see them: whose eyes come in, pulled and placed jobs in one order and events go out.

What may not be seen is left out by the database, before anything is counted or cut. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, or_, select, true

from glidepath.store.engine import Store
from glidepath.store.job import Job, JobState
from glidepath.store.job_rows import job_of, jobs
from glidepath.store.jobs import LIST_MAX
from glidepath.store.placed import EVENTS_MAX, STANDS_IN, Event, PlacedJob, Stands, event_of, placed_of
from glidepath.store.placed_rows import events, placed

# What a database takes for a number.
NUMBER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Eyes:
    """Who looks: their own jobs are seen and those of their projects; with no name, all are."""

    name: str | None = None
    projects: frozenset[str] = frozenset()

    @property
    def term(self) -> ColumnElement[bool]:
        if self.name is None:
            return true()
        own = jobs.c.owner == self.name
        named = sorted(self.projects - {""})
        return or_(own, placed.c.project.in_(named)) if named else own


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of them: the newest that match; `below` a number for the page before."""

    owner: str | None = None
    project: str | None = None
    partition: str | None = None
    stands: Stands | None = None
    below: int | None = None
    limit: int = 1000


Found = Job | PlacedJob


class Sights:
    """The readings of one store; each is one consistent view."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, eyes: Eyes, number: int) -> Found | None:
        found = self.of(eyes, [number])
        return found[0] if found else None

    def of(self, eyes: Eyes, numbers: Iterable[int]) -> Sequence[Found]:
        """Those of these jobs that are seen, by number."""
        wanted = sorted({number for number in numbers if 0 < number <= NUMBER_MAX})
        query = _both().where(jobs.c.id.in_(wanted), eyes.term).order_by(jobs.c.id)
        with self._store.read() as conn:
            return [_found(row) for row in conn.execute(query)]

    def list(self, eyes: Eyes, wanted: Wanted) -> Sequence[Found]:
        """The newest jobs that match, oldest of them first."""
        limit = max(0, min(wanted.limit, LIST_MAX))
        query = _both().where(eyes.term).order_by(jobs.c.id.desc()).limit(limit)
        if wanted.partition is not None:
            query = query.where(jobs.c.partition == wanted.partition)
        if wanted.owner is not None:
            query = query.where(jobs.c.owner == wanted.owner)
        if wanted.project is not None:
            query = query.where(placed.c.project == wanted.project)
        if wanted.stands is not None:
            query = query.where(_standing(wanted.stands))
        if wanted.below is not None:
            query = query.where(jobs.c.id < max(0, min(wanted.below, NUMBER_MAX)))
        with self._store.read() as conn:
            return [_found(row) for row in conn.execute(query)][::-1]

    def events(
        self, eyes: Eyes, *, job: int | None = None, after: int = 0, limit: int = EVENTS_MAX
    ) -> Sequence[Event]:
        """What happened since to jobs that are seen, oldest first."""
        query = (
            select(events)
            .join(jobs, jobs.c.id == events.c.job)
            .outerjoin(placed, placed.c.job == events.c.job)
            .where(events.c.id > max(0, min(after, NUMBER_MAX)), eyes.term)
            .order_by(events.c.id)
            .limit(max(0, min(limit, EVENTS_MAX)))
        )
        if job is not None:
            query = query.where(events.c.job == job)
        with self._store.read() as conn:
            return [event_of(row) for row in conn.execute(query)]


def _standing(stands: Stands) -> ColumnElement[bool]:
    """What starts, runs and ends is all running for the table of jobs; a pulled job has no phase."""
    phases = [phase.value for phase, word in STANDS_IN.items() if word is stands]
    if stands not in (Stands.STARTING, Stands.RUNNING, Stands.ENDING):
        return jobs.c.state == stands.value
    running, at = jobs.c.state == JobState.RUNNING.value, placed.c.phase.in_(phases)
    return and_(running, or_(at, placed.c.phase.is_(None)) if stands is Stands.RUNNING else at)


def _both() -> Select[Any]:
    """Every job, with the columns of a placed one empty where it is not."""
    return select(jobs, *(column for column in placed.c if column.name != "job")).join_from(
        jobs, placed, jobs.c.id == placed.c.job, isouter=True
    )


def _found(row: Row[Any]) -> Found:
    return job_of(row) if row.queue is None else placed_of(row)
