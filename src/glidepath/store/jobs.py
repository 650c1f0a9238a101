"""The one job store: specs come in, jobs go out, and every change of state is one guarded update.

A finished job never runs again: each update names the attempt and the states it may leave. It refuses to
know sockets and pilots' processes; the pool server tells it what became of an attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import (
    Connection,
    Row,
    Select,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from glidepath.core.quantity import Instant, Resources
from glidepath.ports import Clock
from glidepath.store import keys
from glidepath.store.engine import Store
from glidepath.store.events import event_row, numbered
from glidepath.store.job import (
    LIVE,
    NEXT,
    REASON_CHARS_MAX,
    Ask,
    Attempt,
    ExitRecord,
    How,
    Job,
    JobSpec,
    JobState,
    QueueGroup,
    checked_client_key,
)
from glidepath.store.job_rows import attempts, job_of, jobs, row_of, traits_of
from glidepath.store.keys import Submitted
from glidepath.store.placed_rows import events, placed

# A pilot that could take more at once would hold the store for too long; it asks again at once.
CLAIM_MAX = 256
# What a pilot that serves jobs with GPUs alone, or those without, is given.
OF_KIND = {"cpu": (jobs.c.gpus == 0,), "gpu": (jobs.c.gpus > 0,)}
# Different wishes for traits in one queue; each costs a claim one look into the index.
TRAIT_KINDS_MAX = 200
LIST_MAX = 10_000
# Groups beyond this would make one reading of demand larger than the journal should keep.
GROUPS_MAX = 50_000

_HELD = (JobState.RUNNING, JobState.CANCELLING)


class Transactions(Protocol):
    """The part of the store that is needed here."""

    def write(self) -> AbstractContextManager[Connection]: ...

    def read(self) -> AbstractContextManager[Connection]: ...


class JobBatch:
    """Changes of several jobs in one transaction. Nothing of it is true before the transaction ends."""

    def __init__(self, conn: Connection, clock: Clock) -> None:
        self._conn = conn
        self._clock = clock

    def submit(self, specs: Iterable[JobSpec]) -> list[int]:
        at, wall = self._clock.now(), self._clock.wall()
        rows = [row_of(spec, at, wall) for spec in specs]
        if not rows:
            return []
        query = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
        return list(self._conn.execute(query, rows).scalars())

    def submit_once(self, spec: JobSpec, key: str) -> Submitted:
        """The same key of the same owner again gives the same job."""
        at, wall = self._clock.now(), self._clock.wall()
        row, of = row_of(spec, at, wall), (spec.owner, checked_client_key(key))
        asked = {name: value for name, value in row.items() if not name.startswith("submitted")}
        done = keys.had(self._conn, of, [asked], wall=wall)
        if done is not None:
            return done
        number = int(self._conn.execute(insert(jobs).returning(jobs.c.id), row).scalar_one())
        keys.keep(self._conn, of, number)
        return Submitted(number, new=True)

    def claim(self, ask: Ask) -> list[Job]:
        """The oldest jobs that fit what is free and the time left, now running on the pilot."""
        free: Resources = ask.free
        taken: list[int] = []
        for row in self._fitting(ask):
            request = Resources(row.cpu_milli, row.memory_mib, row.disk_mib, row.gpus)
            if len(taken) < min(ask.count_max, CLAIM_MAX) and request.fits_in(free):
                free -= request
                taken.append(row.id)
        if not taken:
            return []
        wall = self._clock.wall()
        self._conn.execute(
            update(jobs)
            .where(jobs.c.id.in_(taken), jobs.c.state == JobState.QUEUED.value)
            .values(
                state=JobState.RUNNING.value,
                attempt=jobs.c.attempt + 1,
                pilot=ask.pilot,
                started_wall=wall,
                reason="",
            )
        )
        mine = select(jobs).where(jobs.c.id.in_(taken), jobs.c.pilot == ask.pilot).order_by(jobs.c.id)
        claimed = [job_of(row) for row in self._conn.execute(mine)]
        self._conn.execute(
            insert(attempts),
            [
                {"job": job.id, "attempt": job.attempt, "pilot": ask.pilot, "started_wall": wall}
                for job in claimed
            ],
        )
        taken_by = f"taken by the pilot {ask.pilot}"
        self._tell([(job.id, job.attempt, "began", taken_by) for job in claimed])
        return claimed

    def _tell(self, said: Iterable[tuple[int, int, str, str]]) -> None:
        """For those who follow a job: number, attempt, kind and sentence of each event."""
        wall = self._clock.wall()
        rows = [event_row(job, attempt, wall, (kind, text)) for job, attempt, kind, text in said]
        if rows:
            numbered(self._conn)
            self._conn.execute(insert(events), rows)

    def _fitting(self, ask: Ask) -> list[Row[Any]]:
        rows: list[Row[Any]] = []
        for wish in self._trait_wishes(ask):
            query = (
                select(jobs.c.id, jobs.c.cpu_milli, jobs.c.memory_mib, jobs.c.disk_mib, jobs.c.gpus)
                .where(
                    jobs.c.partition.in_(ask.partitions),
                    jobs.c.state == JobState.QUEUED.value,
                    jobs.c.traits == wish,
                    jobs.c.cpu_milli <= ask.free.cpu_milli,
                    jobs.c.memory_mib <= ask.free.memory_mib,
                    jobs.c.disk_mib <= ask.free.disk_mib,
                    jobs.c.gpus <= ask.free.gpus,
                    *OF_KIND.get(ask.jobs, ()),
                    or_(jobs.c.run_s_max.is_(None), jobs.c.run_s_max <= ask.left_s),
                    # A partition may have been a placed one when a job was submitted there.
                    ~exists().where(placed.c.job == jobs.c.id),
                )
                .order_by(jobs.c.id)
                .limit(min(ask.count_max, CLAIM_MAX))
                .with_for_update(skip_locked=True)
            )
            rows.extend(self._conn.execute(query))
        return sorted(rows, key=lambda row: row.id)

    def _trait_wishes(self, ask: Ask) -> Iterator[str]:
        """Each different wish in the queue that the pilot meets, found by leaps through the index.

        Scanning the queue instead would let a crowd of jobs that fit no pilot hide those that do.
        """
        offered, last = set(ask.traits), ""
        for _ in range(TRAIT_KINDS_MAX):
            query = select(func.min(jobs.c.traits)).where(
                jobs.c.partition.in_(ask.partitions),
                jobs.c.state == JobState.QUEUED.value,
                jobs.c.traits > last,
            )
            wish = self._conn.execute(query).scalar_one()
            if wish is None:
                return
            if offered.issuperset(traits_of(wish)):
                yield wish
            last = wish

    def finish(self, records: Iterable[ExitRecord]) -> list[int]:
        """Take down how attempts ended; a repeat changes nothing. The ids whose state changed come back."""
        changed = []
        said = []
        for record in records:
            if record.how is How.LOST:
                raise ValueError("a lost attempt has no record; `lost` is the word for it")
            if record.how is How.OUTLIVED:
                changed += self._outlived(record)
                continue
            back = record.state is JobState.QUEUED
            # A queued job whose last attempt turns out to be finished must not run again.
            states = _HELD if back else (*_HELD, JobState.QUEUED)
            ended = update(jobs).where(
                jobs.c.id == record.job,
                jobs.c.attempt == record.attempt,
                jobs.c.pilot == record.pilot,
            )
            wall = record.ended_wall or self._clock.wall()
            gone = JobState.CANCELLED if back else record.state
            facts = {
                "exit_code": record.exit_code,
                "signal": record.signal,
                "reason": record.reason[:REASON_CHARS_MAX],
                "ended_wall": wall,
            }
            rows = 0
            for state in states:
                after = gone if state is JobState.CANCELLING else record.state
                assert after in NEXT[state]
                values = facts if after is not JobState.QUEUED else {"started_wall": None}
                rows += self._conn.execute(
                    ended.where(jobs.c.state == state.value).values(state=after.value, **values)
                ).rowcount
                if rows:
                    break
            if rows:
                changed.append(record.job)
                said.append((record.job, record.attempt, *_end_words(record, after)))
                self._end_attempt(record, wall)
        self._tell(said)
        return changed

    def _end_attempt(self, record: ExitRecord, wall: float) -> None:
        self._conn.execute(
            update(attempts)
            .where(attempts.c.job == record.job, attempts.c.attempt == record.attempt)
            .values(
                ended_wall=wall,
                how=record.how.value,
                exit_code=record.exit_code,
                signal=record.signal,
                started_wall=record.started_wall or attempts.c.started_wall,
            )
        )

    def _outlived(self, record: ExitRecord) -> list[int]:
        """A job that needs more time than its pilot had: tried again, but not for ever."""
        found = [
            job for job in self.held(record.pilot) if (job.id, job.attempt) == (record.job, record.attempt)
        ]
        for job in found:
            self._lose(job, "its pilot reached the end of its lifetime first", How.OUTLIVED)
        return [job.id for job in found]

    def give_back(self, pilot: str, held: Iterable[tuple[int, int]]) -> list[int]:
        """Attempts that a stopping pilot did not finish: queued again, and not counted against the job."""
        return self.finish(
            ExitRecord(job, attempt, pilot, How.GIVEN_BACK, ended_wall=self._clock.wall())
            for job, attempt in held
        )

    def lost(self, pilot: str, why: str) -> list[int]:
        """All that the pilot held when it died: queued again while retries are left, else failed."""
        found = self.held(pilot)
        for job in found:
            self._lose(job, why, How.LOST)
        return [job.id for job in found]

    def _lose(self, job: Job, why: str, how: How) -> None:
        wall, losses = self._clock.wall(), job.losses + 1
        if job.state is JobState.CANCELLING:
            after, reason = JobState.CANCELLED, why
        elif losses > job.spec.retries_max:
            after = JobState.FAILED
            reason = f"lost {losses} times, the last: {why}; retries_max is {job.spec.retries_max}"
        else:
            after, reason = JobState.QUEUED, f"attempt {job.attempt} was lost: {why}"
        assert after in NEXT[job.state]
        again = after is JobState.QUEUED
        self._conn.execute(
            update(jobs)
            .where(jobs.c.id == job.id, jobs.c.attempt == job.attempt, jobs.c.state == job.state.value)
            .values(
                state=after.value,
                losses=losses,
                reason=reason[:REASON_CHARS_MAX],
                started_wall=None if again else job.started_wall,
                ended_wall=None if again else wall,
            )
        )
        self._end_attempt(ExitRecord(job.id, job.attempt, job.pilot, how), wall)
        self._tell([(job.id, job.attempt, "waits again" if again else after.value, reason)])

    def held(self, pilot: str) -> list[Job]:
        """What the pilot runs, as far as the store knows."""
        query = (
            select(jobs)
            .where(jobs.c.state.in_([state.value for state in _HELD]), jobs.c.pilot == pilot)
            .order_by(jobs.c.id)
        )
        return [job_of(row) for row in self._conn.execute(query)]

    def cancel(self, job: int) -> JobState:
        """A waiting job is over at once; a running one when its pilot has stopped it."""
        found = _one(self._conn, job)
        if found.state not in (JobState.QUEUED, JobState.RUNNING):
            return found.state
        waiting = found.state is JobState.QUEUED
        after = JobState.CANCELLED if waiting else JobState.CANCELLING
        values: dict[str, Any] = {"state": after.value, "reason": "cancelled by a user"}
        if waiting:
            values["ended_wall"] = self._clock.wall()
        self._conn.execute(
            update(jobs).where(jobs.c.id == job, jobs.c.state == found.state.value).values(**values)
        )
        # Of one that runs it is told when it has ended: it may be done before it hears of that.
        said = ("cancelled", "cancelled by a user") if waiting else ("ending", "cancelled by a user")
        self._tell([(job, found.attempt, *said)])
        return _one(self._conn, job).state


def _end_words(record: ExitRecord, after: JobState) -> tuple[str, str]:
    """Kind and sentence of the event at the end of an attempt."""
    kind = "waits again" if after is JobState.QUEUED else after.value
    if record.reason:
        return kind, record.reason
    if record.signal is not None:
        return kind, f"it was ended by signal {record.signal}"
    if record.exit_code is not None:
        return kind, f"it ended with exit code {record.exit_code}"
    return kind, "its pilot gave it back" if after is JobState.QUEUED else "it has ended"


def _one(conn: Connection, job: int) -> Job:
    row = conn.execute(select(jobs).where(jobs.c.id == job)).one_or_none()
    if row is None:
        raise LookupError(f"there is no job {job}; `glidepath job list --all` shows those that are kept")
    return job_of(row)


class JobStore:
    """The doors of the job store: each call is one transaction and durable when it returns."""

    def __init__(self, store: Transactions, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @contextmanager
    def batch(self) -> Iterator[JobBatch]:
        with self._store.write() as conn:
            yield JobBatch(conn, self._clock)

    def submit(self, spec: JobSpec) -> int:
        return self.submit_many([spec])[0]

    def submit_many(self, specs: Iterable[JobSpec]) -> list[int]:
        with self.batch() as batch:
            return batch.submit(specs)

    def submit_once(self, spec: JobSpec, key: str) -> Submitted:
        with self.batch() as batch:
            return batch.submit_once(spec, key)

    def cancel(self, job: int) -> JobState:
        with self.batch() as batch:
            return batch.cancel(job)

    def claim(self, ask: Ask) -> list[Job]:
        with self.batch() as batch:
            return batch.claim(ask)

    def finish(self, records: Iterable[ExitRecord]) -> list[int]:
        with self.batch() as batch:
            return batch.finish(records)

    def give_back(self, pilot: str, held: Iterable[tuple[int, int]]) -> list[int]:
        with self.batch() as batch:
            return batch.give_back(pilot, held)

    def lost(self, pilot: str, why: str) -> list[int]:
        with self.batch() as batch:
            return batch.lost(pilot, why)

    def get(self, job: int) -> Job:
        with self._store.read() as conn:
            return _one(conn, job)

    def list(
        self,
        *,
        partition: str | None = None,
        owner: str | None = None,
        states: Iterable[JobState] | None = None,
        limit: int = 1000,
    ) -> Sequence[Job]:
        """The newest jobs that match, oldest of them first."""
        query: Select[Any] = select(jobs).order_by(jobs.c.id.desc()).limit(min(limit, LIST_MAX))
        if partition is not None:
            query = query.where(jobs.c.partition == partition)
        if owner is not None:
            query = query.where(jobs.c.owner == owner)
        if states is not None:
            query = query.where(jobs.c.state.in_([state.value for state in states]))
        with self._store.read() as conn:
            return [job_of(row) for row in conn.execute(query)][::-1]

    def attempts(self, job: int) -> Sequence[Attempt]:
        query = select(attempts).where(attempts.c.job == job).order_by(attempts.c.attempt)
        with self._store.read() as conn:
            rows = conn.execute(query).all()
        return [
            Attempt(
                job=row.job,
                attempt=row.attempt,
                pilot=row.pilot,
                started_wall=row.started_wall,
                ended_wall=row.ended_wall,
                how=How(row.how) if row.how else None,
                exit_code=row.exit_code,
                signal=row.signal,
            )
            for row in rows
        ]

    def counts(self, partition: str | None = None) -> dict[JobState, int]:
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        if partition is not None:
            query = query.where(jobs.c.partition == partition)
        with self._store.read() as conn:
            return {JobState(state): count for state, count in conn.execute(query)}

    def queue_depth(self, partition: str) -> int:
        query = select(func.count()).where(
            jobs.c.partition == partition, jobs.c.state == JobState.QUEUED.value
        )
        with self._store.read() as conn:
            return conn.execute(query).scalar_one()

    def demand(self, partition: str) -> tuple[QueueGroup, ...]:
        with self._store.read() as conn:
            return demand_of(conn, partition)


def demand_of(conn: Connection, partition: str) -> tuple[QueueGroup, ...]:
    """What waits and runs, counted by the database: a hundred thousand jobs are a few hundred rows."""
    shape = (jobs.c.cpu_milli, jobs.c.memory_mib, jobs.c.disk_mib, jobs.c.gpus, jobs.c.traits)
    key = (*shape, jobs.c.run_s_max, jobs.c.owner, jobs.c.state)
    query = (
        select(*key, func.count().label("count"), func.min(jobs.c.submitted_at).label("oldest"))
        .where(jobs.c.partition == partition, jobs.c.state.in_(sorted(state.value for state in LIVE)))
        .group_by(*key)
        .limit(GROUPS_MAX + 1)
    )
    rows = conn.execute(query).all()
    if len(rows) > GROUPS_MAX:
        raise OSError(f"the queue of `{partition}` has more than {GROUPS_MAX} different groups of jobs")
    return tuple(
        QueueGroup(
            request=Resources(*row[:4]),
            traits=traits_of(row.traits),
            run_s_max=row.run_s_max,
            owner=row.owner,
            running=row.state != JobState.QUEUED,
            count=row[8],
            oldest_at=Instant(row.oldest),
        )
        for row in rows
    )


def number_on(store: Store, home: Path) -> None:
    """Give the first job of an empty store a number that no folder under `jobs` has: after a lost store the
    old numbers may still be in use by a pilot, and the old logs are somebody's."""
    try:
        names = [entry.name for entry in (home / "jobs").iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return
    highest = max((int(name) for name in names if name.isdecimal()), default=0)
    if not highest or store.read_only:
        return
    with store.write() as conn:
        if conn.execute(select(jobs.c.id).limit(1)).first() is not None:
            return
        if conn.dialect.name == "sqlite":
            conn.execute(text("DELETE FROM sqlite_sequence WHERE name = 'jobs'"))
            conn.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', :n)"), {"n": highest})
        else:
            conn.execute(text("SELECT setval(pg_get_serial_sequence('jobs', 'id'), :n)"), {"n": highest})
