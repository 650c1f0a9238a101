"""Notices as the store keeps them: where people want them, how far each was told, what happened since.

There is no list of what is still to be sent: what happened are the events of jobs, and each way knows the
last one that it was told. Where a letter ends is written down before it goes out, and that it was taken
after: whoever dies in between sends the same letter again, and no other. Each call is one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, or_, select, update

from glidepath.core.place.record import Phase
from glidepath.core.quantity import Instant
from glidepath.store.engine import Store, insert, storable
from glidepath.store.events import event_row, numbered
from glidepath.store.job import OVER, JobState
from glidepath.store.job_rows import jobs
from glidepath.store.notice_rows import notice_hours, notice_ways
from glidepath.store.people_rows import people
from glidepath.store.placed_rows import events, placed

WAYS_EACH_MAX = 10
HOUR_S = 3600.0
WHY_LETTERS_MAX = 300
ROWS_MAX = 5000
# What is told once of each end of a time limit.
TIME = "time"
OFF = "notices off"


class TooManyWays(ValueError):
    """Somebody has as many as they may."""


@dataclass(frozen=True, slots=True)
class Way:
    """One address of one person, and how it went there."""

    id: str
    person: str
    name: str
    target: str
    secret: str
    wanted: tuple[str, ...]
    made_wall_s: float
    event: int = 0
    sending: int | None = None
    tries: int = 0
    failing_wall_s: float | None = None
    next_wall_s: float = 0.0
    off_wall_s: float | None = None
    why: str = ""
    sent_wall_s: float | None = None
    test: bool = False
    tested: str = ""

    @property
    def webhook(self) -> bool:
        return "://" in self.target


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of a job, and what is needed to say whether its owner wants to hear of it."""

    event: int
    job: int
    attempt: int
    wall_s: float
    kind: str
    text: str
    owner: str
    name: str
    notify: tuple[str, ...] | None  # what this job is to be told of, where its submission said so
    before: bool  # an event of this kind came before
    after: bool  # and one came since
    over: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """Whether one more letter may go, how many went in this hour, and when the next begins."""

    may: bool
    letters: int
    next_wall_s: float


class NoticeStore:
    """Of one store; `hold` raises where it is not ours any more."""

    def __init__(self, store: Store, *, hold: Callable[[Connection], None] = lambda connection: None) -> None:
        self._store = store
        self._hold = hold

    # For whoever wants notices.

    def ways(self, person: str) -> list[Way]:
        query = select(notice_ways).where(notice_ways.c.person == person).order_by(notice_ways.c.name)
        with self._store.read() as conn:
            return [_way(row) for row in conn.execute(query)]

    def way(self, person: str, name: str) -> Way | None:
        with self._store.read() as conn:
            row = conn.execute(select(notice_ways).where(*_named(person, name))).first()
        return None if row is None else _way(row)

    def set(self, way: Way) -> Way:
        """Kept under its name from now on. With the same target it stays the same, and is on again."""
        with self._store.write() as conn:
            row = conn.execute(select(notice_ways).where(*_named(way.person, way.name))).first()
            if row is None:
                count = select(func.count()).where(notice_ways.c.person == way.person)
                if (conn.execute(count).scalar() or 0) >= WAYS_EACH_MAX:
                    raise TooManyWays(f"a person may have {WAYS_EACH_MAX} addresses for notices")
            had = None if row is None else _way(row)
            if had is not None and had.target == way.target:
                kept = replace(had, wanted=way.wanted, **_afresh(), off_wall_s=None)
                event = had.event if had.off_wall_s is None else _newest(conn)
                way = replace(kept, event=event, sending=None)
            else:
                way = replace(way, event=_newest(conn))
            conn.execute(delete(notice_ways).where(*_named(way.person, way.name)))
            conn.execute(notice_ways.insert(), _row(way))
        return way

    def remove(self, person: str, name: str) -> bool:
        with self._store.write() as conn:
            return bool(conn.execute(delete(notice_ways).where(*_named(person, name))).rowcount)

    def ask_test(self, person: str, name: str) -> bool:
        with self._store.write() as conn:
            asked = update(notice_ways).where(*_named(person, name)).values(test=1, tested="")
            return bool(conn.execute(asked).rowcount)

    # For whoever sends.

    def in_force(self) -> list[Way]:
        """All of people who have not left, those that are switched off only where a test is wanted."""
        left = exists().where(people.c.name == notice_ways.c.person, people.c.left_wall_s.is_not(None))
        query = select(notice_ways).where(
            ~left, or_(notice_ways.c.off_wall_s.is_(None), notice_ways.c.test == 1)
        )
        with self._store.read() as conn:
            return [_way(row) for row in conn.execute(query.order_by(notice_ways.c.id))]

    def by_id(self, id: str) -> Way | None:
        with self._store.read() as conn:
            row = conn.execute(select(notice_ways).where(notice_ways.c.id == id)).first()
        return None if row is None else _way(row)

    def newest(self) -> int:
        with self._store.read() as conn:
            return _newest(conn)

    def happened(
        self, after: int, upto: int, *, kinds: Collection[str], person: str | None = None
    ) -> list[Happened]:
        """To jobs of those who have a way, or of one person; some thousand at a time, oldest first."""
        whose = jobs.c.owner == person if person is not None else exists().where(_OWNER)
        columns: list[Any] = [*events.c, jobs.c.owner, jobs.c.name, jobs.c.state, placed.c.spec, *_AROUND]
        query = (
            select(*columns)
            .join_from(events, jobs, jobs.c.id == events.c.job)
            .join(placed, placed.c.job == events.c.job)
            .where(events.c.id > after, events.c.id <= upto, events.c.kind.in_(sorted(kinds)), whose)
            .order_by(events.c.id)
            .limit(ROWS_MAX)
        )
        with self._store.read() as conn:
            return [_happened(row) for row in conn.execute(query)]

    def count(self, person: str, *, wall_s: float, per_hour: int) -> Counted:
        """One more for this person, where the hour has room for it."""
        mine = notice_hours.c.person == person
        with self._store.write() as conn:
            self._hold(conn)
            row = conn.execute(select(notice_hours).where(mine)).first()
            # A clock that was set back begins a new hour: nobody waits for one that may be years away.
            if row is None or not 0 <= wall_s - row.began_wall_s < HOUR_S:
                began, letters = wall_s, 0
            else:
                began, letters = row.began_wall_s, int(row.letters)
            may = letters < per_hour
            if may:
                letters += 1
                values = {"began_wall_s": began, "letters": letters}
                new = insert(conn, notice_hours).values(person=person, **values)
                conn.execute(new.on_conflict_do_update(index_elements=["person"], set_=values))
        return Counted(may, letters, began + HOUR_S)

    def begin(self, way: Way, upto: int) -> bool:
        """Before a letter goes out: where it ends. False where the way is not there any more."""
        return self._changed(way, sending=upto)

    def taken(self, way: Way, upto: int, *, wall_s: float) -> bool:
        values = {"event": upto, "sending": None, "sent_wall_s": wall_s}
        return self._changed(way, **values, **_afresh())

    def failed(self, way: Way, why: str, *, next_wall_s: float, failing_wall_s: float | None) -> bool:
        values = {"tries": way.tries + 1, "next_wall_s": next_wall_s, "failing_wall_s": failing_wall_s}
        return self._changed(way, **values, why=storable(why, letters_max=WHY_LETTERS_MAX))

    def off(self, way: Way, why: str, *, wall_s: float, job: int) -> bool:
        """Nothing is sent there any more, which an event of this job tells."""
        why = storable(why, letters_max=WHY_LETTERS_MAX)
        text = f"notices to `{way.name}` are switched off: {why}"
        with self._store.write() as conn:
            self._hold(conn)
            numbered(conn)
            mine = update(notice_ways).where(notice_ways.c.id == way.id, notice_ways.c.off_wall_s.is_(None))
            if not conn.execute(mine.values(off_wall_s=wall_s, sending=None, why=why)).rowcount:
                return False
            if conn.execute(select(jobs.c.id).where(jobs.c.id == job)).first() is not None:
                conn.execute(events.insert(), event_row(job, 0, wall_s, (OFF, text)))
        return True

    def tested(self, way: Way, said: str, *, wall_s: float, taken: bool) -> bool:
        """One that took its test is on again, from now on."""
        values: dict[str, Any] = {"test": 0, "tested": storable(said, letters_max=WHY_LETTERS_MAX)}
        with self._store.write() as conn:
            self._hold(conn)
            if taken:
                values |= {"sent_wall_s": wall_s, **_afresh(), "off_wall_s": None}
                if way.off_wall_s is not None:
                    values["event"] = _newest(conn)
            mine = update(notice_ways).where(notice_ways.c.id == way.id)
            return bool(conn.execute(mine.values(**values)).rowcount)

    def nothing(self, ids: Iterable[str], upto: int) -> None:
        """Up to there these have nothing to tell, so that whoever starts anew need not look again."""
        behind = (notice_ways.c.event < upto, notice_ways.c.sending.is_(None))
        with self._store.write() as conn:
            self._hold(conn)
            rows = update(notice_ways).where(notice_ways.c.id.in_(sorted(ids)), *behind)
            conn.execute(rows.values(event=upto))

    def tell_time(self, now: Instant, *, ahead_s: int, wall_s: float, text: Callable[[int], str]) -> int:
        """An event for each running job whose limit is near, once for each end; how many were told.

        Only of those whose owners have a way. One that gets a signal of its own is told with that.
        """
        ends = placed.c.began_at + placed.c.limit_s
        query = (
            select(jobs.c.id, jobs.c.attempt, ends.label("ends"))
            .join_from(jobs, placed, placed.c.job == jobs.c.id)
            .where(placed.c.phase == Phase.RUNNING.value, jobs.c.state == JobState.RUNNING.value)
            # A job that is not meant to run longer than that knows it from the beginning.
            .where(placed.c.limit_s > 2 * ahead_s, ends > now, ends <= now + ahead_s)
            .where(placed.c.spec.not_like('%"notice_s":%'), exists().where(_OWNER))
            .order_by(jobs.c.id)
            .limit(ROWS_MAX)
        )
        with self._store.read() as conn:
            near = [
                event_row(row.id, row.attempt, wall_s, (TIME, text(row.ends))) for row in conn.execute(query)
            ]
            new = [told for told in near if not _told(conn, told)]
        if not new:
            return 0
        with self._store.write() as conn:
            self._hold(conn)
            numbered(conn)
            conn.execute(events.insert(), new)
        return len(new)

    def _changed(self, way: Way, **values: Any) -> bool:
        with self._store.write() as conn:
            self._hold(conn)
            mine = update(notice_ways).where(notice_ways.c.id == way.id).values(**values)
            return bool(conn.execute(mine).rowcount)


_OWNER = notice_ways.c.person == jobs.c.owner
_OTHER = events.alias("other")
_SAME = (_OTHER.c.job == events.c.job, _OTHER.c.kind == events.c.kind)
_AROUND = (
    exists().where(*_SAME, _OTHER.c.id < events.c.id).label("before"),
    exists().where(*_SAME, _OTHER.c.id > events.c.id).label("after"),
)


def _afresh() -> dict[str, Any]:
    """As if nothing had gone wrong."""
    return {"tries": 0, "failing_wall_s": None, "next_wall_s": 0.0, "why": ""}


def _told(conn: Connection, row: Mapping[str, Any]) -> bool:
    same = [events.c[name] == row[name] for name in ("job", "attempt", "kind", "text")]
    return conn.execute(select(events.c.id).where(*same).limit(1)).first() is not None


def _newest(conn: Connection) -> int:
    return int(conn.execute(select(func.max(events.c.id))).scalar() or 0)


def _named(person: str, name: str) -> tuple[Any, ...]:
    return (notice_ways.c.person == person, notice_ways.c.name == name)


def _way(row: Row[Any]) -> Way:
    found = {field.name: getattr(row, field.name) for field in fields(Way)}
    wanted = tuple(word for word in row.wanted.split(",") if word)
    return Way(**{**found, "wanted": wanted, "test": bool(row.test)})


def _row(way: Way) -> dict[str, Any]:
    found = {field.name: getattr(way, field.name) for field in fields(way)}
    return {**found, "wanted": ",".join(way.wanted), "test": int(way.test)}


def _happened(row: Row[Any]) -> Happened:
    # Most jobs say nothing of it, and their specs may be long.
    said = json.loads(row.spec).get("notify") if '"notify":' in row.spec else None
    return Happened(
        event=row.id,
        job=row.job,
        attempt=row.attempt,
        wall_s=row.wall_s,
        kind=row.kind,
        text=row.text,
        owner=row.owner,
        name=row.name,
        notify=None if said is None else tuple(said),
        before=bool(row.before),
        after=bool(row.after),
        over=row.state in {state.value for state in OVER},
    )
