"""The scheduler's journal: a plan comes in before it is acted on, with all that it changes, outcomes after.

Plan and changes are one transaction: an attempt is counted up, a job is told to end or is over exactly when
the plan that says so is kept. So a crash at any point leaves a store from which the next turn goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from glidepath.clock import Moment, iso
from glidepath.core.account.run import Rates
from glidepath.core.cycle import Did, Outcome, Plan, Refused
from glidepath.core.place.acts import (
    Began,
    Cut,
    Deny,
    Drop,
    Halt,
    Launch,
    Lessen,
    Noted,
    PlaceAction,
    Settle,
    Stretch,
    Tell,
)
from glidepath.core.place.judge import STARTS_MAX
from glidepath.core.place.rank import RankSeen
from glidepath.core.place.record import NEVER, Phase, Then
from glidepath.core.place.roll import Roll
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Cluster, Window
from glidepath.core.schedule.cut import in_the_way
from glidepath.core.schedule.job import JobName, Lesson, Memory, Promise, Tally, last_start
from glidepath.core.units import shown_duration
from glidepath.journal import wire
from glidepath.journal.books import Books, by_name
from glidepath.journal.codec import coder
from glidepath.journal.live import LiveJobs
from glidepath.journal.told import ToldPlans
from glidepath.store.engine import Store, insert, storable
from glidepath.store.events import event_row, numbered
from glidepath.store.job import REASON_CHARS_MAX, JobState
from glidepath.store.job_rows import jobs
from glidepath.store.placed import places_text
from glidepath.store.placed_rows import events, placed, ranks, schedule_cycles, schedule_state

# Lessons and who was passed change a little in every turn; losing a few turns of them costs nothing.
KEEP_LESSONS_S = 30
# A start that moves by less is not told: it moves by seconds whenever a job ends early.
MOVE_TOLD_S = 60
NODES_SHOWN = 4
NO_START = "while its nodes are away, its queue rests or its project may not spend"

STATE_OF = {Then.DONE: JobState.DONE, Then.FAILED: JobState.FAILED, Then.CANCELLED: JobState.CANCELLED}


@dataclass(frozen=True)
class Lore:
    """What of the plan's memory is kept beside the promises, which stand with their jobs."""

    lessons: tuple[Lesson, ...] = ()
    passed: tuple[tuple[JobName, float], ...] = ()
    tally: Tally = field(default_factory=Tally)


_LORE = coder(Lore)
_CLUSTER = coder(Cluster)
_OUTCOMES = coder(tuple[Did, ...])


@dataclass
class PlacingJournal:
    """Of one cluster. One thread writes; a reader uses the same class on a store that is only read."""

    store: Store
    cluster: str
    partitions: tuple[str, ...]
    hold: Callable[[Connection], None] = lambda connection: None
    wall: Callable[[], float] = lambda: 0.0
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        self._live = LiveJobs(self.store, self.partitions)
        self._told: dict[JobName, Promise] = {}
        self._first: dict[JobName, Instant] = {}  # the start that the owner was told last
        self._lore_at: Instant | None = None
        self._cluster: Cluster | None = None
        self._plans = ToldPlans(self.cluster)

    # Reading.

    def roll(self) -> Roll:
        """Every job of our partitions that is not over."""
        return self._live.read()

    def known(self, numbers: Iterable[int]) -> frozenset[int]:
        with self.store.read() as conn:
            wanted = sorted(set(numbers))
            return frozenset(conn.execute(select(jobs.c.id).where(jobs.c.id.in_(wanted))).scalars())

    def memory(self) -> tuple[Memory, Moment | None]:
        """What the last turn left, and when that was."""
        promises = self._live.promises()
        self._told = {promise.job: promise for promise in promises}
        self._first = {promise.job: self._told_at(promise) for promise in promises}
        row = self._state()
        if row is None:
            return Memory(promises=promises), None
        lore: Lore = _LORE.decode(wire.decompressed(row.memory))
        moment = Moment(row.wall_s, Instant(row.at), row.boot_id, row.monotonic_s)
        memory = Memory(row.cycle, moment.at, promises, lore.lessons, lore.passed, lore.tally)
        return memory, moment

    def seen_cluster(self) -> Cluster | None:
        """Nodes and partitions as the last turn planned with them."""
        row = self._state()
        return None if row is None else _CLUSTER.decode(wire.decompressed(row.cluster))

    def written_wall_s(self) -> float | None:
        """When the last turn was kept."""
        found = self._of_state(schedule_state.c.wall_s)
        return None if found is None else float(found)

    def seen_event(self) -> int:
        """The newest event that a plan was made with: what was told before it has its answer."""
        return int(self._of_state(schedule_state.c.event) or 0)

    def _of_state(self, column: Any) -> Any:
        """One column of it: cheap, whoever waits for a turn asks often."""
        with self.store.read() as conn:
            return conn.execute(select(column).where(schedule_state.c.name == self.cluster)).scalar()

    def _state(self) -> Any:
        with self.store.read() as conn:
            query = select(schedule_state).where(schedule_state.c.name == self.cluster)
            return conn.execute(query).one_or_none()

    # Writing.

    def planned(
        self, moment: Moment, plan: Plan[PlaceAction], schedule: Memory, *, cluster: Cluster | None
    ) -> frozenset[Launch]:
        """Keep a plan and all that it changes; the launches that hold come back.

        One does not where its owner cancelled the job meanwhile.
        """
        wall = moment.wall_s
        with self.store.write() as conn:
            self.hold(conn)
            numbered(conn)
            nodes = (cluster or self._cluster or Cluster((), ())).nodes
            books = Books(conn, self.rates, by_name(nodes))
            held = _Changes(conn, moment, books).done(plan.actions)
            windows = (cluster or self._cluster or Cluster((), ())).windows
            told = self._promises(conn, schedule.promises, wall, windows)
            self._state_kept(conn, moment, schedule, cluster)
            self._plans.keep(conn, moment, plan)
        self._told = {promise.job: promise for promise in schedule.promises}
        self._first = told
        self._plans.kept(plan.decisions)
        self._cluster = cluster
        return held

    def _state_kept(
        self, conn: Connection, moment: Moment, schedule: Memory, cluster: Cluster | None
    ) -> None:
        values: dict[str, Any] = {
            "cycle": schedule.cycle,
            "wall_s": moment.wall_s,
            "at": moment.at,
            "monotonic_s": moment.monotonic_s,
            "boot_id": moment.boot_id,
        }
        if cluster is not None:
            values["event"] = self._live.event or 0
        first = self._lore_at is None
        if self._lore_at is None or moment.at - self._lore_at >= KEEP_LESSONS_S:
            lore = Lore(tuple(schedule.lessons), tuple(schedule.passed), schedule.tally)
            values["memory"] = wire.compressed(_LORE.encode(lore))
            self._lore_at = moment.at
        if cluster is not None and (first or _differs(cluster, self._cluster)):
            values["cluster"] = wire.compressed(_CLUSTER.encode(cluster))
        ours = schedule_state.c.name == self.cluster
        if not conn.execute(update(schedule_state).where(ours).values(**values)).rowcount:
            empty = wire.compressed(_CLUSTER.encode(Cluster((), ())))
            none = wire.compressed(_LORE.encode(Lore()))
            whole = {"name": self.cluster, "cluster": empty, "memory": none, **values}
            conn.execute(schedule_state.insert(), whole)

    def _promises(
        self, conn: Connection, promises: tuple[Promise, ...], wall: float, windows: tuple[Window, ...]
    ) -> dict[JobName, Instant]:
        """Write those that changed, and tell owners of starts that are new or moved by much."""
        changed = [one for one in promises if self._told.get(one.job) is not one]
        told = {one.job: self._first.get(one.job, one.at) for one in promises}
        said = []
        for one in changed:
            had, at, last = self._first.get(one.job), self._told_at(one), None
            if had is not None and abs(at - had) < MOVE_TOLD_S:
                continue
            told[one.job] = at
            if at != one.at:
                # Room that is free too late is no start: nobody hears of it who was not told one before.
                if had is None:
                    continue
                last = self._last_start(one)
            kind, text = _promise_words(one, had, last)
            if had is not None and at > had:
                text += self._in_the_way(one, windows)
            said.append(event_row(int(one.job), 0, wall, (kind, text)))
        if changed:
            rows = [
                {
                    "number": int(one.job),
                    "promise_at": one.at,
                    "promise_places": places_text(one.places),
                    "promise_told": one.told_at,
                    "promise_first": one.first,
                    "promise_moved": one.moved,
                }
                for one in changed
            ]
            conn.execute(update(placed).where(placed.c.job == bindparam("number")), rows)
        if said:
            conn.execute(events.insert(), said)
        return told

    def _last_start(self, one: Promise) -> Instant | None:
        record = self._live.roll.records.get(int(one.job))
        return None if record is None else last_start(record.job)

    def _told_at(self, one: Promise) -> Instant:
        """The start that its owner is told of."""
        last = self._last_start(one)
        return one.at if last is None or one.at <= last else Instant(NEVER)

    def _in_the_way(self, promise: Promise, windows: tuple[Window, ...]) -> str:
        """The window that is where the job was to run; nothing where it moved for something else."""
        before, record = self._told.get(promise.job), self._live.roll.records.get(int(promise.job))
        if before is None or record is None:
            return ""
        window = in_the_way(record.job, before, windows)
        return "" if window is None else f": window {window.name} is in the way"

    def acted(self, moment: Moment, outcomes: tuple[Did, ...], failed: Mapping[Launch, Outcome]) -> None:
        """Keep what came of it; starts that the cluster did not take go back, or are over for good."""
        if not outcomes:
            return
        with self.store.write() as conn:
            self.hold(conn)
            numbered(conn)
            body = wire.compressed(_OUTCOMES.encode(outcomes))
            of_cycle = update(schedule_cycles).where(schedule_cycles.c.cycle == self._plans.row)
            conn.execute(of_cycle.values(outcomes=body))
            _Changes(conn, moment, Books(conn, self.rates, by_name(()))).not_taken(failed)


def _differs(cluster: Cluster, kept: Cluster | None) -> bool:
    return kept is None or cluster.told != kept.told or cluster != kept


def _promise_words(one: Promise, had: Instant | None, last: Instant | None) -> tuple[str, str]:
    """With a last start, where that is before the room for it is free."""
    if one.at >= NEVER:
        return "promise", f"no start can be told {NO_START}"
    if last is not None:
        room = f"room for it is free at {_clock(one.at)}, and it must start by {_clock(last)}"
        return "promise", f"no start can be told: {room}, or it is over then"
    nodes = ", ".join(place.node for place in one.places[:NODES_SHOWN])
    more = ", ..." if len(one.places) > NODES_SHOWN else ""
    when = f"start at {_clock(one.at)} on {nodes}{more}"
    if had is None or had >= NEVER:
        return "promise", f"promised: {when}"
    moved = f"{shown_duration(abs(one.at - had))} {'later' if one.at > had else 'earlier'}"
    return "promise", f"the promise moved: {when}, {moved}"


def _cut_words(cut: Cut, clock: Callable[[Instant], str]) -> str:
    """What its owner reads of the end that a window puts to a job."""
    if cut.at is None:
        until = "goes on" if cut.limit_at is None else f"may run to its limit, until {clock(cut.limit_at)}"
        return f"no window ends it any more: it {until}"
    then = "is ended then, and waits again" if cut.again else "is ended then"
    had = "" if cut.had is None else f", not at {clock(cut.had)} any more"
    return f"window {cut.window} opens at {clock(cut.at)}{had}: it {then}"


def _clock(at: Instant) -> str:
    """Instants are close to wall time; a `Moment` of the reader has the exact one."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class _Changes:
    """What acts change in the store; each update names the attempt and the phases that it may leave."""

    def __init__(self, conn: Connection, moment: Moment, books: Books) -> None:
        self.conn, self.moment, self.wall, self.books = conn, moment, moment.wall_s, books
        self.events: list[dict[str, Any]] = []

    def done(self, actions: Iterable[PlaceAction]) -> frozenset[Launch]:
        held = set()
        for action in actions:
            match action:
                case Launch():
                    if action.again or self._launch(action):
                        held.add(action)
                case Began(at=at):
                    if self._placed(action, (Phase.STARTING,), phase=Phase.RUNNING.value, began_at=at):
                        self.books.began(action.job, action.attempt, at)
                    self._job(action.job, started_wall=self._wall_of(at))
                    self._event(action, "began", "it runs")
                case Noted(ranks=seen):
                    self._noted(action, seen)
                case Halt(then=then, why=why):
                    after = {"phase": Phase.ENDING.value, "after": then.value, "after_why": why}
                    phases = (Phase.STARTING, Phase.RUNNING)
                    if self._placed(action, phases, **after, wish=None):
                        self._event(action, "ending", why)
                case Lessen(gone=gone, why=why):
                    if self._placed(action, (Phase.RUNNING,), gone=json.dumps(gone)):
                        self.books.lessened(action.job, action.attempt, self.moment.at)
                    self._event(action, "lost a rank", why)
                case Settle():
                    self._settle(action)
                case Stretch(limit_s=limit_s, granted=True, why=why):
                    self._placed(action, (Phase.RUNNING,), limit_s=limit_s, wish=None)
                    self._event(action, "extended", why)
                case Deny(job=job, why=why):
                    self.conn.execute(update(placed).where(placed.c.job == job).values(wish=None))
                    self.events.append(event_row(job, 0, self.wall, ("not extended", why)))
                case Tell(why=why):
                    self._event_once(action, "notice", why)
                case Cut(at=at):
                    if self._placed(action, (Phase.RUNNING,), cut_at=at):
                        self._event(action, "window", _cut_words(action, self._clock))
                case Drop(job=job, why=why):
                    self._drop(job, why)
                case _:
                    pass  # The rest changes nothing here.
        self._tell()
        return frozenset(held)

    def _tell(self) -> None:
        if self.events:
            self.conn.execute(events.insert(), self.events)
        self.events = []

    def _event(self, action: Any, kind: str, text: str) -> None:
        self.events.append(event_row(action.job, action.attempt, self.wall, (kind, text or kind)))

    def _event_once(self, action: Any, kind: str, text: str) -> None:
        """A scheduler that was started anew does not know what it has told before."""
        same = (events.c.job == action.job) & (events.c.attempt == action.attempt) & (events.c.kind == kind)
        query = select(events.c.id).where(same, events.c.text == event_row(0, 0, 0.0, (kind, text))["text"])
        if self.conn.execute(query.limit(1)).first() is None:
            self._event(action, kind, text)

    def _wall_of(self, at: Instant | None) -> float:
        """An instant of now's own timeline, on the clock of people."""
        return self.wall if at is None else self.wall - (self.moment.at - at)

    def _clock(self, at: Instant) -> str:
        return iso(self._wall_of(at)) or ""

    def _placed(self, action: Any, phases: tuple[Phase, ...], **values: Any) -> bool:
        of_attempt = select(jobs.c.id).where(jobs.c.id == action.job, jobs.c.attempt == action.attempt)
        found = self.conn.execute(
            update(placed)
            .where(placed.c.job == action.job, placed.c.phase.in_([phase.value for phase in phases]))
            .where(of_attempt.exists())
            .values(**values)
        )
        return bool(found.rowcount)

    def _job(self, job: int, **values: Any) -> None:
        self.conn.execute(update(jobs).where(jobs.c.id == job).values(**values))

    def _launch(self, action: Launch) -> bool:
        taken = self.conn.execute(
            update(jobs)
            .where(
                jobs.c.id == action.job,
                jobs.c.state == JobState.QUEUED.value,
                jobs.c.attempt == action.attempt - 1,
            )
            .values(state=JobState.RUNNING.value, attempt=action.attempt, reason="")
        ).rowcount
        if not taken:
            return False
        values = {
            "phase": Phase.STARTING.value,
            "places": places_text(action.places),
            "gone": "[]",
            "asked_at": self.moment.at,
            "began_at": None,
            "cut_at": None,
            "after": "",
            "after_why": "",
        }
        waits = (placed.c.job == action.job) & (placed.c.phase == Phase.WAITS.value)
        self.conn.execute(update(placed).where(waits).values(**values))
        nodes = ", ".join(place.node for place in action.places[:NODES_SHOWN])
        self._event(action, "starting", f"started on {nodes}")
        return True

    def _noted(self, action: Noted, seen: tuple[RankSeen, ...]) -> None:
        for rank in seen:
            row = {
                "job": action.job,
                "attempt": action.attempt,
                "rank": rank.rank,
                "node": rank.node,
                "host": rank.host,
                "state": rank.state.value,
                "cause": rank.cause.value,
                "exit_code": rank.exit_code,
                "signal": rank.signal,
                "why": storable(rank.why, letters_max=REASON_CHARS_MAX),
                "began_at": rank.began_at,
                "ended_at": rank.ended_at,
            }
            keys = ["job", "attempt", "rank"]
            rest = {name: value for name, value in row.items() if name not in keys}
            new = insert(self.conn, ranks).values(row)
            self.conn.execute(new.on_conflict_do_update(index_elements=keys, set_=rest))

    def _settle(self, action: Settle) -> None:
        if action.then in (Then.AGAIN, Then.ANEW) and self._cancelling(action.job):
            # Its owner wanted it over in this very moment; it does not wait again.
            action = replace(action, then=Then.CANCELLED, why="cancelled by a user")
        again = action.then in (Then.AGAIN, Then.ANEW)
        phases = (Phase.STARTING, Phase.RUNNING, Phase.ENDING)
        phase = Phase.WAITS if again else Phase.OVER
        left = {"places": "[]", "asked_at": None, "began_at": None, "gone": "[]"} if again else {}
        if not self._placed(action, phases, phase=phase.value, wish=None, after="", after_why="", **left):
            return
        ended_at = self.moment.at if action.ended_at is None else action.ended_at
        lost = action.lost or action.then is Then.ANEW
        self.books.ended(action.job, action.attempt, ended_at, lost=lost)
        state = JobState.QUEUED if again else STATE_OF[action.then]
        why = storable(action.why, letters_max=REASON_CHARS_MAX)
        values: dict[str, Any] = {"state": state.value, "reason": why}
        if action.lost:
            values["losses"] = jobs.c.losses + 1
        if again:
            values["started_wall"] = None
        else:
            values |= {"exit_code": action.exit_code, "signal": action.signal}
            values["ended_wall"] = self._wall_of(action.ended_at)
        self._job(action.job, **values)
        self._event(action, "waits again" if again else state.value, action.why)

    def _cancelling(self, job: int) -> bool:
        found = self.conn.execute(select(jobs.c.state).where(jobs.c.id == job)).scalar_one_or_none()
        return bool(found == JobState.CANCELLING.value)

    def _drop(self, job: int, why: str) -> None:
        waiting = (placed.c.job == job) & (placed.c.phase == Phase.WAITS.value)
        if not self.conn.execute(update(placed).where(waiting).values(phase=Phase.OVER.value)).rowcount:
            return
        reason = storable(why, letters_max=REASON_CHARS_MAX)
        self._job(job, state=JobState.FAILED.value, reason=reason, ended_wall=self.wall)
        self.events.append(event_row(job, 0, self.wall, ("refused", why)))

    def not_taken(self, failed: Mapping[Launch, Outcome]) -> None:
        for launch, outcome in failed.items():
            why = getattr(outcome, "why", "")
            over = isinstance(outcome, Refused) or launch.attempt >= STARTS_MAX
            then = Then.FAILED if over else Then.ANEW
            self._settle(Settle(launch.job, launch.attempt, then, f"the cluster did not take it: {why}"))
        self._tell()
