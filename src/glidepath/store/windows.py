"""The calendar of clusters: windows are made, moved and cancelled, and read as plans want them.

Each call is one transaction. A change names the version that its operator saw: of two who change one window
at once the second changes nothing. It refuses to know who may, and what is said to whom.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from glidepath.core.quantity import Instant, NodeName, Owner
from glidepath.core.schedule.cluster import ProjectName, Window
from glidepath.core.text import one_line
from glidepath.store.jobs import Transactions
from glidepath.store.people import Full
from glidepath.store.window_rows import windows

# Each costs every plan a little.
TO_COME_MAX = 100
# Longer than a year, as what is kept of people and pilots.
KEPT_S = 400 * 86400
LIST_MAX = 1000
# By so much the clocks drift apart in a month; a plan is not made anew for it.
DRIFT_S_MAX = 5
NAME_LETTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Span:
    """What somebody wants closed, or kept, from when until when on the clock of people."""

    cluster: str
    opens_wall: float
    closes_wall: float
    nodes: tuple[str, ...] = ()  # none means all
    projects: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """One window of the calendar."""

    id: int
    span: Span
    made_by: str
    made_wall: float
    changed_by: str
    changed_wall: float
    version: int = 1
    cancelled: bool = False

    def over(self, wall: float) -> bool:
        return self.cancelled or self.span.closes_wall <= wall


class Changed(ValueError):
    """Somebody else changed it first: this is what it is by now."""

    def __init__(self, now: Planned) -> None:
        super().__init__(now.id)
        self.now = now


# A line for the journal, written in the same transaction.
Told = Callable[[Connection, Planned], None]


class WindowStore:
    """The calendar of one store."""

    def __init__(self, store: Transactions) -> None:
        self._store = store

    def list(self, wall: float, *, over: bool = False, cluster: str | None = None) -> list[Planned]:
        """Those to come, the first to open first; with `over` also those that were."""
        query = select(windows)
        if not over:
            query = query.where(windows.c.cancelled == 0, windows.c.closes_wall > wall)
        if cluster is not None:
            query = query.where(windows.c.cluster == cluster)
        query = query.order_by(windows.c.opens_wall.desc(), windows.c.id.desc()).limit(LIST_MAX)
        with self._store.read() as conn:
            return [_planned(row) for row in conn.execute(query)][::-1]

    def find(self, number: int) -> Planned | None:
        with self._store.read() as conn:
            return _found(conn, number)

    def add(self, span: Span, *, by: str, wall: float, told: Told) -> Planned:
        """A `Full` where there are too many to come."""
        with self._store.write() as conn:
            conn.execute(delete(windows).where(windows.c.closes_wall < wall - KEPT_S))
            to_come = (windows.c.cancelled == 0) & (windows.c.closes_wall > wall)
            mine = to_come & (windows.c.cluster == span.cluster)
            if (
                conn.execute(select(func.count()).select_from(windows).where(mine)).scalar_one()
                >= TO_COME_MAX
            ):
                raise Full(f"a cluster may have {TO_COME_MAX} windows that are not over")
            row = {
                **_times(span),
                "cluster": span.cluster,
                "nodes": json.dumps(span.nodes),
                "projects": json.dumps(span.projects),
                "people": json.dumps(span.people),
                "why": span.why,
                "made_by": by,
                "made_wall": wall,
                "changed_by": by,
                "changed_wall": wall,
                "version": 1,
                "cancelled": 0,
            }
            number = int(conn.execute(windows.insert().returning(windows.c.id), row).scalar_one())
            made = _found(conn, number)
            assert made is not None
            told(conn, made)
        return made

    def move(self, had: Planned, span: Span, *, by: str, wall: float, told: Told) -> Planned:
        """Only its times; a `Changed` where it is not any more what was seen."""
        return self._change(had, {**_times(span), "changed_by": by, "changed_wall": wall}, told)

    def cancel(self, had: Planned, *, by: str, wall: float, told: Told) -> Planned:
        return self._change(had, {"cancelled": 1, "changed_by": by, "changed_wall": wall}, told)

    def _change(self, had: Planned, values: dict[str, Any], told: Told) -> Planned:
        same = (windows.c.id == had.id) & (windows.c.version == had.version) & (windows.c.cancelled == 0)
        with self._store.write() as conn:
            values = {**values, "version": had.version + 1}
            changed = conn.execute(update(windows).where(same).values(**values)).rowcount
            now = _found(conn, had.id)
            assert now is not None
            if not changed:
                raise Changed(now)
            told(conn, now)
        return now


@dataclass
class Calendar:
    """What of it a plan is made with, of one cluster.

    Instants are worked out at every look, so that they follow a wall clock that is put right; those that are
    the same but for drift stay as they were, so that nothing is planned or told anew for a second.
    """

    store: Transactions
    cluster: str
    wall: Callable[[], float]
    at_wall: Callable[[float], Instant]
    _had: dict[tuple[int, int], Window] = field(default_factory=dict)

    def __call__(self) -> tuple[Window, ...]:
        found = WindowStore(self.store).list(self.wall(), cluster=self.cluster)
        kept: dict[tuple[int, int], Window] = {}
        for each in found:
            key = each.id, each.version
            window, had = self._window(each), self._had.get(key)
            kept[key] = had if had is not None and _same(had, window) else window
        self._had = kept
        return tuple(kept.values())

    def _window(self, planned: Planned) -> Window:
        return window_of(planned, self.at_wall)


def window_of(planned: Planned, at_wall: Callable[[float], Instant]) -> Window:
    """An odd fraction of a second closes longer."""
    span = planned.span
    return Window(
        name=name_of(planned),
        opens_at=at_wall(math.floor(span.opens_wall)),
        closes_at=at_wall(math.ceil(span.closes_wall)),
        nodes=tuple(map(NodeName, span.nodes)),
        projects=tuple(map(ProjectName, span.projects)),
        people=tuple(map(Owner, span.people)),
        number=planned.id,
    )


def name_of(planned: Planned) -> str:
    why = f" ({one_line(planned.span.why, letters_max=NAME_LETTERS_MAX)})" if planned.span.why else ""
    return f"{planned.id}{why}"


def _same(had: Window, window: Window) -> bool:
    apart = abs(had.opens_at - window.opens_at), abs(had.closes_at - window.closes_at)
    return max(apart) <= DRIFT_S_MAX


def _times(span: Span) -> dict[str, float]:
    return {"opens_wall": span.opens_wall, "closes_wall": span.closes_wall}


def _found(conn: Connection, number: int) -> Planned | None:
    row = conn.execute(select(windows).where(windows.c.id == number)).one_or_none()
    return None if row is None else _planned(row)


def _planned(row: Row[Any]) -> Planned:
    lists = {name: tuple(json.loads(getattr(row, name))) for name in ("nodes", "projects", "people")}
    span = Span(row.cluster, row.opens_wall, row.closes_wall, **lists, why=row.why)
    made = row.made_by, row.made_wall, row.changed_by, row.changed_wall
    return Planned(row.id, span, *made, row.version, bool(row.cancelled))
