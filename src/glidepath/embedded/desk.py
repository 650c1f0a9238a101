"""The desk of the pool server: what pilots say comes in, one transaction is made of it, answers go out.

An answer is given only for what is durable. It keeps what it knows of workers in memory and reads it again
from the store after any failure. It refuses to know sockets; a connection is only a number here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import assert_never

from sqlalchemy import Connection, func, select

from glidepath.core.quantity import Instant, Resources
from glidepath.embedded.records import exit_record
from glidepath.embedded.wire import JOBS_TRAIT, Beat, Bye, Ends, Hello, Message, Pull, told
from glidepath.embedded.workers import Worker, all_workers, forget, keep
from glidepath.pilot import remains
from glidepath.ports import Clock
from glidepath.store.job import Ask, Job, JobState
from glidepath.store.job_rows import jobs
from glidepath.store.jobs import JobBatch, Transactions

PULL_JOBS_MAX = 64
PULL_WAIT_S = 10
# How stale the time a pilot was last heard may be in the store; a row per beat would wear the disk.
HEARD_S = 5

Answer = dict[str, object]
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Said:
    """One message, the connection it came by, and the process behind it."""

    peer: int
    message: Message
    pid: int
    pid_start: str


@dataclass(slots=True)
class Turn:
    """What came of one transaction: answers in order, connections to close, whether anything changed."""

    answers: list[tuple[int, Answer]] = field(default_factory=list)
    close: list[int] = field(default_factory=list)
    changed: bool = False


@dataclass(slots=True)
class Seat:
    """A worker, the jobs it holds, and the connection by which it is heard, if any."""

    worker: Worker
    held: dict[Key, Resources] = field(default_factory=dict)
    peer: int | None = None
    pull: Pull | None = None
    pulled_at: Instant = Instant(0)
    told_to_stop: set[Key] = field(default_factory=set)

    def free(self) -> Resources:
        used = sum(self.held.values(), Resources())
        pairs = zip(self.worker.size.as_tuple(), used.as_tuple(), strict=True)
        return Resources(*(max(0, have - taken) for have, taken in pairs))

    def seen(self) -> Worker:
        return replace(self.worker, free=self.free(), claims=len(self.held))


class Desk:
    """Used by one thread. Nothing is read before the first turn."""

    def __init__(
        self, store: Transactions, home: Path, pools: Mapping[str, tuple[str, ...]], clock: Clock
    ) -> None:
        self._store = store
        self._home = home
        self._pools = pools
        self._clock = clock
        self._seats: dict[str, Seat] | None = None
        self._kept: dict[str, Worker] = {}
        self._stirred = True  # Something may have become claimable since the last look.
        self._job_last = 0
        self._here = ""

    def _machine(self) -> str:
        self._here = self._here or remains.machine()
        return self._here

    # Reads that are cheap enough for every few hundred milliseconds.

    def look(self) -> Turn | None:
        """What other processes changed: new jobs stir the desk, cancelled ones are told to their pilots."""
        with self._store.read() as conn:
            last = conn.execute(select(func.max(jobs.c.id))).scalar_one() or 0
            query = select(jobs.c.pilot, jobs.c.id, jobs.c.attempt).where(
                jobs.c.state == JobState.CANCELLING.value
            )
            cancelling = [(row.pilot, (row.id, row.attempt)) for row in conn.execute(query)]
        turn = Turn(changed=last != self._job_last)
        self._stirred = self._stirred or turn.changed
        self._job_last = last
        for pilot, key in cancelling:
            seat = (self._seats or {}).get(pilot)
            if seat is not None and seat.peer is not None and key not in seat.told_to_stop:
                seat.told_to_stop.add(key)
                turn.answers.append((seat.peer, {"re": "stop", "jobs": [key]}))
        return turn if turn.changed or turn.answers else None

    def due(self) -> bool:
        """Whether a turn without messages has something to do: claims to try, or pulls to answer."""
        if self._seats is None:
            return True
        standing = [seat for seat in self._seats.values() if seat.pull is not None]
        now = self._clock.now()
        return any(self._stirred or now - seat.pulled_at >= PULL_WAIT_S for seat in standing)

    def dead(self) -> list[Worker]:
        """Workers that are not connected and whose process is certainly gone."""
        unheard = [seat.worker for seat in (self._seats or {}).values() if seat.peer is None]
        return [worker for worker in unheard if not worker.may_live(self._machine())]

    def gone(self, peer: int) -> None:
        for seat in (self._seats or {}).values():
            if seat.peer == peer:
                seat.peer, seat.pull = None, None
                seat.told_to_stop.clear()

    def forget_all(self) -> None:
        """After a failure of the store nothing in memory is believed any more."""
        self._seats, self._kept, self._stirred = None, {}, True

    # The transaction.

    def turn(self, said: Iterable[Said], dead: Iterable[Worker] = ()) -> Turn:
        turn = Turn()
        with self._store.write() as conn:
            batch = JobBatch(conn, self._clock)
            seats = self._load(conn, batch)
            for worker in dead:
                self._bury(conn, batch, worker, turn)
            for one in said:
                if one.peer not in turn.close:
                    self._apply(conn, batch, one, turn)
            if self._stirred:
                for seat in seats.values():
                    self._serve(batch, seat, turn)
                self._stirred = False
            self._answer_old_pulls(turn)
            self._keep_changed(conn, turn)
        return turn

    def _load(self, conn: Connection, batch: JobBatch) -> dict[str, Seat]:
        if self._seats is None:
            self._kept = {worker.pilot: worker for worker in all_workers(conn)}
            self._seats = {}
            for worker in self._kept.values():
                self._seats[worker.pilot] = Seat(worker, _held(batch.held(worker.pilot)))
            self._load_strays(conn, batch)
        return self._seats

    def _load_strays(self, conn: Connection, batch: JobBatch) -> None:
        """Jobs that run on a pilot nobody knows: its process cannot be asked for, so it counts as dead."""
        held = [JobState.RUNNING.value, JobState.CANCELLING.value]
        ours = [partition for partitions in self._pools.values() for partition in partitions]
        query = select(jobs.c.pilot).distinct().where(jobs.c.state.in_(held), jobs.c.partition.in_(ours))
        assert self._seats is not None
        for (pilot,) in conn.execute(query).all():
            if pilot not in self._seats:
                worker = _stray(pilot, self._machine())
                self._seats[pilot] = Seat(worker, _held(batch.held(pilot)))

    def _bury(self, conn: Connection, batch: JobBatch, worker: Worker, turn: Turn) -> None:
        """The jobs of a dead pilot: finished where a durable record says so, lost otherwise."""
        if not remains.sweep(worker.pilot, self._home):
            return  # Something of it still runs: nothing may run a second time. The next turn tries again.
        self._finish_recorded(batch, worker.pilot)
        batch.lost(worker.pilot, f"the pilot {worker.pilot} died")
        self._forget(conn, worker.pilot, turn)

    def _finish_recorded(self, batch: JobBatch, pilot: str) -> None:
        held = batch.held(pilot)
        records = [exit_record(self._home, job.id, job.attempt, pilot=pilot) for job in held]
        batch.finish(record for record in records if record is not None)

    def _part(self, conn: Connection, batch: JobBatch, seat: Seat, turn: Turn) -> None:
        """A leaving pilot may not have been heard to the end: its records count, the rest is given back."""
        pilot = seat.worker.pilot
        if not remains.sweep(pilot, self._home):
            seat.peer, seat.pull = None, None  # Looked at again when the process is gone.
            return
        self._finish_recorded(batch, pilot)
        batch.give_back(pilot, [(job.id, job.attempt) for job in batch.held(pilot)])
        self._forget(conn, pilot, turn)

    def _forget(self, conn: Connection, pilot: str, turn: Turn) -> None:
        forget(conn, pilot)
        if self._seats is not None:
            self._seats.pop(pilot, None)
        self._kept.pop(pilot, None)
        self._stirred = turn.changed = True

    def _apply(self, conn: Connection, batch: JobBatch, said: Said, turn: Turn) -> None:
        assert self._seats is not None
        if isinstance(said.message, Hello):
            self._greet(conn, batch, said, turn)
            return
        seat = next((seat for seat in self._seats.values() if seat.peer == said.peer), None)
        if seat is None:
            turn.answers.append((said.peer, {"error": "say hello first"}))
            turn.close.append(said.peer)
            return
        now = self._clock.now()
        match said.message:
            case Pull():
                seat.pull, seat.pulled_at = said.message, now
                seat.worker = replace(seat.worker, heard_at=now)
                self._stirred = True
            case Beat():
                self._beat(seat, said.message, turn)
                turn.answers.append((said.peer, {"re": "beat"}))
            case Ends():
                self._finish(batch, seat, said.message, turn)
                self._beat(seat, said.message.beat, turn)
            case Bye():
                self._part(conn, batch, seat, turn)
                turn.answers.append((said.peer, {"re": "bye"}))
            case _:
                assert_never(said.message)

    def _greet(self, conn: Connection, batch: JobBatch, said: Said, turn: Turn) -> None:
        assert self._seats is not None
        assert isinstance(said.message, Hello)
        hello, why = said.message, ""
        old = self._seats.get(hello.pilot)
        if hello.pool not in self._pools:
            why = f"the pool is not served here; it is one of {', '.join(sorted(self._pools))}"
        elif old is not None and (old.worker.pid, old.worker.pid_start) != (said.pid, said.pid_start):
            if old.worker.may_live(self._machine()):
                why = f"the name {hello.pilot} is in use by the process {old.worker.pid}"
            else:
                self._bury(conn, batch, old.worker, turn)
                why = "what an earlier process left still runs" if hello.pilot in self._seats else ""
        if why:
            turn.answers.append((said.peer, {"error": why}))
            turn.close.append(said.peer)
            return
        if old is not None and old.peer is not None and old.peer != said.peer:
            turn.close.append(old.peer)
        now = self._clock.now()
        held = {(job.id, job.attempt): job for job in batch.held(hello.pilot)}
        # Claimed for an answer that never arrived: the pilot does not know of it, so it never started.
        batch.give_back(hello.pilot, [key for key in held if key not in hello.holds])
        worker = Worker(
            pilot=hello.pilot,
            pool=hello.pool,
            size=hello.size,
            free=hello.size,
            traits=hello.traits,
            claims=0,
            draining=hello.beat.draining,
            ends_at=Instant(now + hello.beat.left_s),
            heard_at=now,
            jobs_run=hello.beat.jobs_run,
            jobs_failed=hello.beat.jobs_failed,
            pid=said.pid,
            pid_start=said.pid_start,
            machine=self._machine(),
        )
        seat = Seat(worker, _held(job for key, job in held.items() if key in hello.holds), said.peer)
        self._seats[hello.pilot] = seat
        self._stirred = turn.changed = True
        stop = sorted(hello.holds - held.keys())
        turn.answers.append((said.peer, {"re": "hello", "home": str(self._home), "stop": stop}))

    def _beat(self, seat: Seat, beat: Beat, turn: Turn) -> None:
        turn.changed = turn.changed or beat.draining != seat.worker.draining
        seat.worker = seat.worker.beaten(beat, now=self._clock.now())
        if beat.draining and seat.pull is not None and seat.peer is not None:
            seat.pull = None
            turn.answers.append((seat.peer, {"re": "pull"}))

    def _finish(self, batch: JobBatch, seat: Seat, ends: Ends, turn: Turn) -> None:
        assert seat.peer is not None
        batch.finish(ends.records)
        for record in ends.records:
            seat.held.pop((record.job, record.attempt), None)
        self._stirred = turn.changed = True
        keys = [(record.job, record.attempt) for record in ends.records]
        turn.answers.append((seat.peer, {"re": "done", "jobs": keys}))

    def _serve(self, batch: JobBatch, seat: Seat, turn: Turn) -> None:
        """Answer a standing pull with the oldest jobs that fit, if there are any."""
        if seat.pull is None or seat.peer is None or seat.worker.draining:
            return
        now = self._clock.now()
        left_s = seat.pull.left_s - (now - seat.pulled_at)
        ask = Ask(
            pilot=seat.worker.pilot,
            partitions=self._pools[seat.worker.pool],
            free=seat.free(),
            left_s=max(0, left_s),
            count_max=PULL_JOBS_MAX,
            traits=seat.worker.traits,
            jobs=dict(seat.worker.traits).get(JOBS_TRAIT, "any"),
        )
        claimed = batch.claim(ask) if ask.free.cpu_milli else []
        for job in claimed:
            seat.held[(job.id, job.attempt)] = job.spec.request
            turn.answers.append((seat.peer, {"re": "job", "job": told(job)}))
        if claimed:
            seat.pull = None
            turn.changed = True
            turn.answers.append((seat.peer, {"re": "pull"}))

    def _answer_old_pulls(self, turn: Turn) -> None:
        now = self._clock.now()
        for seat in (self._seats or {}).values():
            if seat.pull is not None and seat.peer is not None and now - seat.pulled_at >= PULL_WAIT_S:
                seat.pull = None
                turn.answers.append((seat.peer, {"re": "pull"}))

    def _keep_changed(self, conn: Connection, turn: Turn) -> None:
        for pilot, seat in (self._seats or {}).items():
            worker, kept = seat.seen(), self._kept.get(pilot)
            if not worker.pool:
                continue
            if kept is None or replace(kept, heard_at=worker.heard_at) != worker:
                turn.changed = True
            elif worker.heard_at - kept.heard_at < HEARD_S:
                continue
            keep(conn, worker)
            self._kept[pilot] = worker


def _stray(pilot: str, machine: str) -> Worker:
    """A stand-in that is dead by its number, so that what it ran is swept and settled."""
    nothing, never = Resources(), Instant(0)
    return Worker(
        pilot=pilot,
        pool="",
        size=nothing,
        free=nothing,
        traits=(),
        claims=0,
        draining=True,
        ends_at=never,
        heard_at=never,
        jobs_run=0,
        jobs_failed=0,
        pid=0,
        pid_start="",
        machine=machine,
    )


def _held(found: Iterable[Job]) -> dict[Key, Resources]:
    return {(job.id, job.attempt): job.spec.request for job in found}
