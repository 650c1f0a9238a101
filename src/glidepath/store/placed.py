"""Placed jobs as their owners know them: submit, show, list, cancel, ask for another limit, read events.

Each call is one transaction. Nothing here starts or ends anything: the scheduler reads what was asked for in
its next turn. The same client key twice gives the same job, so that a submission may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select, update

from glidepath.core.place.rank import Cause, RankSeen, RankState, set_key
from glidepath.core.place.record import Phase, Record, Then, Wish
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.cluster import Queue
from glidepath.core.schedule.job import JobName, Place, Promise
from glidepath.ports import Clock
from glidepath.store import keys
from glidepath.store.events import event_row, numbered
from glidepath.store.job import Job, JobState, checked_client_key
from glidepath.store.job_rows import job_of, jobs, row_of
from glidepath.store.jobs import LIST_MAX, Transactions
from glidepath.store.keys import KeyTaken, Submitted
from glidepath.store.placed_rows import events, placed, ranks
from glidepath.store.placed_spec import PlacedSpec, spec_of, spec_text

EVENTS_MAX = 1000
# What people want is told by these; the scheduler tells the others.
ASKED = ("submitted", "cancelled", "asked")
# What the same wish may say in other words: spans from now, and our own reason.
TIMELESS = ("first_at", "latest_at", "deadline_at", "queue_why")


class Stands(StrEnum):
    """Where a job stands, in one word for people. Pulled jobs are never starting or ending."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """One placed job with everything that the store knows of it."""

    job: Job
    spec: PlacedSpec
    record: Record
    promise: Promise | None = None

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def stands(self) -> Stands:
        if self.record.phase is Phase.OVER or self.job.state is JobState.CANCELLING:
            return Stands(self.job.state.value)
        return STANDS_IN[self.record.phase]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of what happened to a job; numbers grow, so that a reader can go on from the last."""

    id: int
    job: int
    attempt: int
    wall_s: float
    kind: str
    text: str


STANDS_IN = {
    Phase.WAITS: Stands.QUEUED,
    Phase.STARTING: Stands.STARTING,
    Phase.RUNNING: Stands.RUNNING,
    Phase.ENDING: Stands.ENDING,
}


def places_text(places: Iterable[Place]) -> str:
    return json.dumps([[place.node, list(place.devices)] for place in places], separators=(",", ":"))


def places_of(text: str) -> tuple[Place, ...]:
    return tuple(Place(NodeName(node), tuple(devices)) for node, devices in json.loads(text))


def placed_of(row: Row[Any], spec: PlacedSpec | None = None) -> PlacedJob:
    """A joined row of both tables; the spec is given where it was read before."""
    job = job_of(row)
    spec = spec if spec is not None else spec_of(job.spec, Queue(row.queue), row.spec)
    promise = None
    if row.promise_first is not None:
        promise = Promise(
            JobName(str(job.id)),
            Instant(row.promise_at),
            places_of(row.promise_places),
            Instant(row.promise_told),
            Instant(row.promise_first),
            row.promise_moved,
        )
    wish = None
    if row.wish is not None:
        wished = json.loads(row.wish)
        wish = Wish(wished["limit_s"], wished["forced"])
    record = Record(
        id=job.id,
        job=spec.asked(job.id, job.submitted_at, row.limit_s),
        work=spec.work,
        phase=Phase(row.phase),
        attempt=job.attempt,
        losses=job.losses,
        retries_max=job.spec.retries_max,
        places=places_of(row.places),
        gone=tuple(json.loads(row.gone)),
        asked_at=None if row.asked_at is None else Instant(row.asked_at),
        began_at=None if row.began_at is None else Instant(row.began_at),
        cancelled=job.state is JobState.CANCELLING,
        cut_at=None if row.cut_at is None else Instant(row.cut_at),
        wish=wish,
        then=Then(row.after),
        why=row.after_why,
        terms=spec.terms,
        label=job.spec.name,
    )
    return PlacedJob(job, spec, record, promise)


def event_of(row: Row[Any]) -> Event:
    return Event(row.id, row.job, row.attempt, row.wall_s, row.kind, row.text)


def joined(*more: Any) -> Select[Any]:
    return select(jobs, *(column for column in placed.c if column.name != "job"), *more).join_from(
        jobs, placed, jobs.c.id == placed.c.job
    )


# A job, the client key of its owner, and how many of it; a key is for one.
Ask = tuple[PlacedSpec, str, int]


class PlacedStore:
    """The doors of placed jobs; each call is one transaction and durable when it returns."""

    def __init__(
        self, store: Transactions, clock: Clock, *, nudge: Callable[[], None] = lambda: None
    ) -> None:
        """`nudge` is called after whatever the scheduler should look at soon is durable."""
        self._store = store
        self._clock = clock
        self._nudge = nudge

    def submit(self, spec: PlacedSpec, *, key: str = "") -> Submitted:
        return self.submit_many([(spec, key)])[0]

    def submit_many(self, wanted: Sequence[tuple[PlacedSpec, str]]) -> list[Submitted]:
        """All or none; a `KeyTaken` where a key was used for something else."""
        at, wall = self._clock.now(), self._clock.wall()
        with self._store.write() as conn:
            numbered(conn)
            done = [self._submit(conn, spec, key, (at, wall)) for spec, key in wanted]
        self._nudge()
        return done

    def submit_each(self, wanted: Sequence[Ask]) -> list[Sequence[Submitted] | KeyTaken]:
        """What several people ask for in one transaction; a key that is taken spoils only its own.

        Nobody is nudged: whoever waits for an answer does so, and the rest is planned at its pace.
        """
        at, wall = self._clock.now(), self._clock.wall()
        done: list[Sequence[Submitted] | KeyTaken] = []
        with self._store.write() as conn:
            numbered(conn)
            for spec, key, count in wanted:
                try:
                    # A key is found to be taken before anything is written.
                    done.append([self._submit(conn, spec, key, (at, wall)) for _ in range(count)])
                except KeyTaken as error:
                    done.append(error)
        return done

    def _submit(self, conn: Connection, spec: PlacedSpec, key: str, when: tuple[Instant, float]) -> Submitted:
        at, wall = when
        row = row_of(spec.job, at, wall)
        text = spec_text(spec)
        of = (spec.job.owner, key)
        if key:
            checked_client_key(key)
            asked = {name: value for name, value in row.items() if not name.startswith("submitted")}
            # Starts that are told as a span from now differ at each try, and mean the same.
            done = keys.had(conn, of, [asked, spec.queue.value, _timeless(text)], wall=wall)
            if done is not None:
                return done
        number = int(conn.execute(jobs.insert().returning(jobs.c.id), row).scalar_one())
        if key:
            keys.keep(conn, of, number)
        conn.execute(
            placed.insert(),
            {
                "job": number,
                "queue": spec.queue.value,
                "project": spec.project,
                "spec": text,
                "phase": Phase.WAITS.value,
                "limit_s": spec.job.run_s_max,
                "places": "[]",
                "gone": "[]",
                "after": "",
                "after_why": "",
                "promise_places": "[]",
                "promise_moved": 0,
            },
        )
        why = f", {spec.queue_why}" if spec.queue_why else ""
        where = f"{spec.queue.value} of `{spec.job.partition}`{why}"
        conn.execute(events.insert(), event_row(number, 0, wall, ("submitted", f"submitted to {where}")))
        return Submitted(number, new=True)

    def get(self, job: int) -> PlacedJob:
        """A LookupError where there is no such job, or it is not a placed one."""
        with self._store.read() as conn:
            return _one(conn, job)

    def find(self, job: int) -> PlacedJob | None:
        try:
            return self.get(job)
        except LookupError:
            return None

    def list(
        self,
        *,
        partition: str | None = None,
        owner: str | None = None,
        projects: Iterable[str] | None = None,
        states: Iterable[JobState] | None = None,
        below: int | None = None,
        limit: int = 1000,
    ) -> Sequence[PlacedJob]:
        """The newest jobs that match, oldest of them first; `below` a number for the page before it."""
        query = joined().order_by(jobs.c.id.desc()).limit(min(limit, LIST_MAX))
        if partition is not None:
            query = query.where(jobs.c.partition == partition)
        if owner is not None:
            query = query.where(jobs.c.owner == owner)
        if projects is not None:
            query = query.where(placed.c.project.in_(sorted(projects)))
        if states is not None:
            query = query.where(jobs.c.state.in_([state.value for state in states]))
        if below is not None:
            query = query.where(jobs.c.id < below)
        with self._store.read() as conn:
            return [placed_of(row) for row in conn.execute(query)][::-1]

    def cancel(self, job: int, *, by: str = "a user") -> PlacedJob:
        """A waiting job is over at once; one that was started when its ranks have ended."""
        wall = self._clock.wall()
        with self._store.write() as conn:
            numbered(conn)
            found = _one(conn, job)
            if found.job.state not in (JobState.QUEUED, JobState.RUNNING):
                return found
            waits = found.record.phase is Phase.WAITS
            state = JobState.CANCELLED if waits else JobState.CANCELLING
            values: dict[str, Any] = {"state": state.value, "reason": f"cancelled by {by}"}
            if waits:
                values["ended_wall"] = wall
                conn.execute(update(placed).where(placed.c.job == job).values(phase=Phase.OVER.value))
            conn.execute(update(jobs).where(jobs.c.id == job).values(**values))
            row = event_row(job, found.job.attempt, wall, ("cancelled", f"cancelled by {by}"))
            conn.execute(events.insert(), row)
            after = _one(conn, job)
        self._nudge()
        return after

    def ask_limit(self, job: int, limit_s: int, *, forced: bool = False, by: str = "a user") -> int:
        """Ask for another limit; returns the number of the event, after which the answer will stand.

        A ValueError where the job does not run: whoever waits is submitted with the limit that it needs.
        """
        with self._store.write() as conn:
            numbered(conn)
            found = _one(conn, job)
            if found.job.state is not JobState.RUNNING or found.record.phase is not Phase.RUNNING:
                raise ValueError(f"job {job} does not run: it is {found.stands}")
            wish = json.dumps({"limit_s": limit_s, "forced": forced, "by": by})
            conn.execute(update(placed).where(placed.c.job == job).values(wish=wish))
            text = f"{by} asks for a limit of {limit_s} s"
            row = event_row(job, found.job.attempt, self._clock.wall(), ("asked", text))
            number = int(conn.execute(events.insert().returning(events.c.id), row).scalar_one())
        self._nudge()
        return number

    def ranks(self, job: int, attempt: int | None = None) -> Sequence[tuple[int, RankSeen]]:
        """What each rank of an attempt was last seen to do, by attempt; of all attempts if none is named."""
        query = select(ranks).where(ranks.c.job == job).order_by(ranks.c.attempt, ranks.c.rank)
        if attempt is not None:
            query = query.where(ranks.c.attempt == attempt)
        with self._store.read() as conn:
            return [(row.attempt, _rank_of(row)) for row in conn.execute(query)]

    def events(self, *, job: int | None = None, after: int = 0, limit: int = EVENTS_MAX) -> Sequence[Event]:
        """What happened since, oldest first."""
        query = select(events).where(events.c.id > after).order_by(events.c.id).limit(min(limit, EVENTS_MAX))
        if job is not None:
            query = query.where(events.c.job == job)
        with self._store.read() as conn:
            return [event_of(row) for row in conn.execute(query)]

    def newest_event(self, *, job: int | None = None) -> int:
        """Of one job or of all. Cheap: whoever waits for a change asks this."""
        query = select(func.max(events.c.id))
        with self._store.read() as conn:
            found = conn.execute(query if job is None else query.where(events.c.job == job)).scalar()
        return int(found or 0)

    def asked_since(self, event: int) -> tuple[bool, int]:
        """Whether people asked for something after this event, and the newest of all. Cheap: the scheduler
        asks it all the time."""
        asked = func.count().filter(events.c.kind.in_(ASKED))
        query = select(asked, func.max(events.c.id)).where(events.c.id > event)
        with self._store.read() as conn:
            count, newest = conn.execute(query).one()
        return count > 0, newest or event

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many are not over, by partition, queue and phase."""
        key = (jobs.c.partition, placed.c.queue, placed.c.phase)
        query = (
            select(*key, func.count())
            .join_from(placed, jobs, jobs.c.id == placed.c.job)
            .where(placed.c.phase != Phase.OVER.value)
            .group_by(*key)
        )
        with self._store.read() as conn:
            return {(row[0], row[1], row[2]): row[3] for row in conn.execute(query)}

    def ahead(self, job: int) -> int:
        """How many jobs of its partition and queue wait that came before it."""
        with self._store.read() as conn:
            found = _one(conn, job)
            query = (
                select(func.count())
                .select_from(placed)
                .join(jobs, jobs.c.id == placed.c.job)
                .where(
                    placed.c.phase == Phase.WAITS.value,
                    placed.c.queue == found.spec.queue.value,
                    jobs.c.partition == found.job.spec.partition,
                    placed.c.job < job,
                )
            )
            return int(conn.execute(query).scalar_one())


def _timeless(text: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(text)
    return {key: value for key, value in spec.items() if key not in TIMELESS}


def _rank_of(row: Row[Any]) -> RankSeen:
    return RankSeen(
        rank=row.rank,
        node=NodeName(row.node),
        state=RankState(row.state),
        cause=Cause(row.cause),
        exit_code=row.exit_code,
        signal=row.signal,
        why=row.why,
        host=row.host,
        began_at=None if row.began_at is None else Instant(row.began_at),
        ended_at=None if row.ended_at is None else Instant(row.ended_at),
    )


def _one(conn: Connection, job: int) -> PlacedJob:
    row = conn.execute(joined().where(jobs.c.id == job)).one_or_none()
    if row is None:
        raise LookupError(
            f"there is no placed job {job}; `glidepath job list --all` shows those that are kept"
        )
    return placed_of(row)


def key_of(found: PlacedJob, attempt: int | None = None) -> str:
    return set_key(found.id, attempt if attempt is not None else max(found.job.attempt, 1))
