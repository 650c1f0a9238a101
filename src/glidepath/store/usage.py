"""What was used, as somebody may see it: a span, a step and whose comes in, sums in order of time go out.

Days are read where whole days are asked for, hours at the edges, so that a year costs little. What may not
be seen is left out by the database. It refuses to count: what stands here is what the meter wrote.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, case, func, literal, or_, select

from glidepath.core.account.run import HOUR_S
from glidepath.core.quantity import Instant
from glidepath.store.engine import Store
from glidepath.store.sights import Eyes
from glidepath.store.usage_rows import DAY_HOURS, KEYS, SUMS, usage_days, usage_hours, usage_meter
from glidepath.store.wallets import tree_of

DAY_S = DAY_HOURS * HOUR_S
# So many rows are an answer; more are a table that nobody reads, and belong to a shorter span.
ROWS_MAX = 100_000
MONTHS_MAX = 1200


class Step(StrEnum):
    ALL = "all"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class Span:
    """Whole hours; `until` is not in it any more."""

    since: int
    until: int

    @staticmethod
    def of(since: Instant, until: Instant) -> Span:
        first = since // HOUR_S
        return Span(first, max(-(-until // HOUR_S), first))


@dataclass(frozen=True, slots=True)
class Wanted:
    """`by` are some of `KEYS`; a project is meant with all that are below it."""

    span: Span
    step: Step = Step.ALL
    by: tuple[str, ...] = ()
    owner: str | None = None
    project: str | None = None
    partition: str | None = None


class Sums(NamedTuple):
    seconds: int = 0
    cpu_milli_s: int = 0
    memory_mib_s: int = 0
    disk_mib_s: int = 0
    gpu_milli_s: int = 0
    charge: int = 0
    refund: int = 0
    runs: int = 0


def together(found: Iterable[Sums]) -> Sums:
    return Sums(*map(sum, zip(*found, strict=True)))


@dataclass(frozen=True, slots=True)
class Line:
    """What it came to in one step; `whose` are the keys that it was asked by."""

    start: Instant | None
    whose: tuple[str, ...]
    sums: Sums


class TooMany(ValueError):
    """There would be more lines than an answer has."""


class UsageStore:
    def __init__(self, store: Store) -> None:
        self._store = store

    def lines(self, eyes: Eyes, wanted: Wanted) -> list[Line]:
        """Oldest first; a `TooMany` where there are more than `ROWS_MAX`."""
        found: dict[tuple[int, tuple[str, ...]], Sums] = {}
        with self._store.read() as conn:
            terms = _Terms(eyes, wanted, _with_below(conn, wanted.project))
            for part in _parts(wanted):
                for at, whose, sums in _read(conn, part, terms):
                    had = found.get((at, whose))
                    found[at, whose] = sums if had is None else together((had, sums))
                    if len(found) > ROWS_MAX:
                        raise TooMany(f"there would be more than {ROWS_MAX} lines")
        return [Line(start_of(wanted.step, at), whose, sums) for (at, whose), sums in sorted(found.items())]

    def metered_at(self) -> tuple[Instant, float] | None:
        """How far it is counted, and when that was on the clock of people."""
        with self._store.read() as conn:
            row = conn.execute(select(usage_meter.c.at, usage_meter.c.wall_s)).first()
        return None if row is None else (Instant(row.at), float(row.wall_s))


@dataclass(frozen=True)
class _Part:
    """Rows of one table from one number to another, and which step each is in."""

    table: Table
    first: int
    last: int
    step: Any


@dataclass(frozen=True)
class _Terms:
    eyes: Eyes
    wanted: Wanted
    projects: frozenset[str] | None

    def of(self, table: Table) -> Iterator[ColumnElement[bool]]:
        wanted, columns = self.wanted, table.c
        if self.eyes.name is not None:
            own = columns.owner == self.eyes.name
            named = sorted(self.eyes.projects - {""})
            yield or_(own, columns.project.in_(named)) if named else own
        if wanted.owner is not None:
            yield columns.owner == wanted.owner
        if wanted.partition is not None:
            yield columns.partition == wanted.partition
        if self.projects is not None:
            yield columns.project.in_(sorted(self.projects))


def _with_below(conn: Connection, project: str | None) -> frozenset[str] | None:
    if project is None:
        return None
    tree = tree_of(conn)
    return frozenset({project, *(name for name in tree.parents if project in tree.path(name))})


def _parts(wanted: Wanted) -> Iterator[_Part]:
    since, until, step = wanted.span.since, wanted.span.until, wanted.step
    first, last = -(-since // DAY_HOURS), until // DAY_HOURS
    if step is Step.HOUR or first >= last:
        yield _hours(wanted, since, until)
        return
    yield _Part(usage_days, first, last, step_of(step, usage_days.c.day, wanted.span))
    yield _hours(wanted, since, first * DAY_HOURS)
    yield _hours(wanted, last * DAY_HOURS, until)


def _hours(wanted: Wanted, first: int, last: int) -> _Part:
    hour = usage_hours.c.hour
    day = hour // DAY_HOURS
    step = hour if wanted.step is Step.HOUR else step_of(wanted.step, day, wanted.span)
    return _Part(usage_hours, first, last, step)


def step_of(step: Step, day: Any, span: Span) -> Any:
    """A number for each step: hours, days, or the day on which a month begins."""
    if step is Step.DAY:
        return day
    if step is Step.ALL:
        return literal(0)
    begins = list(_months(span))
    if len(begins) == 1:
        return literal(begins[0][0])
    return case(*((day < after, month) for month, after in begins[:-1]), else_=begins[-1][0])


def _months(span: Span) -> Iterator[tuple[int, int]]:
    """The first day of each month of the span, and that of the next."""
    begins = time.gmtime(span.since * HOUR_S)
    year, month = begins.tm_year, begins.tm_mon
    for _ in range(MONTHS_MAX):
        first = calendar.timegm((year, month, 1, 0, 0, 0)) // DAY_S
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        after = calendar.timegm((year, month, 1, 0, 0, 0)) // DAY_S
        yield first, after
        if after * DAY_HOURS >= span.until:
            return
    raise TooMany(f"there would be more than {MONTHS_MAX} months")


def _read(conn: Connection, part: _Part, terms: _Terms) -> Iterable[tuple[int, tuple[str, ...], Sums]]:
    if part.first >= part.last:
        return
    table = part.table
    number = table.c[table.primary_key.columns.keys()[0]]
    step = part.step.label("step")
    by = [table.c[name] for name in KEYS if name in terms.wanted.by]
    query = (
        select(step, *by, *(func.sum(table.c[name]) for name in SUMS))
        .where(number >= part.first, number < part.last, *terms.of(table))
        .group_by(step, *by)
        .limit(ROWS_MAX + 1)
    )
    for at, *rest in conn.execute(query):
        yield int(at), tuple(rest[: len(by)]), Sums(*map(int, rest[len(by) :]))


def start_of(step: Step, at: int) -> Instant | None:
    """When a step begins that has this number."""
    if step is Step.ALL:
        return None
    return Instant(at * (HOUR_S if step is Step.HOUR else DAY_S))
