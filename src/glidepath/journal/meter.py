"""The meter: runs come in, sums by the hour and what is drawn from allocations go out, in one transaction.

Each look counts what is new since the last one, from the beginning of each run, so that a look that is left
out, repeated or cut off changes no sum. It refuses to know why something ran.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, or_, select, update

from glidepath.core.account.run import HOUR_S, Held, Payer, Run, slices
from glidepath.core.account.wallet import Drawn, drawn, given_back
from glidepath.core.quantity import Instant
from glidepath.journal.books import COUNTED, NOT_COUNTED, REFUND_DUE, REFUNDED, UP_TO_METER
from glidepath.store.engine import Store, insert
from glidepath.store.people_rows import projects
from glidepath.store.usage_rows import (
    DAY_HOURS,
    KEYS,
    SUMS,
    allocations,
    usage_days,
    usage_hours,
    usage_meter,
    usage_runs,
)
from glidepath.store.wallets import grants_of, purses_of, tree_of

METER = 1
# When, as hours or days since the epoch, and whose.
Hour = tuple[int, str, str, str]


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look brought."""

    at: Instant
    runs: int  # that were open, or ended since
    charge: int
    refund: int
    dry: tuple[str, ...]  # projects that have nothing left
    fresh: tuple[str, ...]  # of these, those that had something at the last look


@dataclass
class Meter:
    """Of one store. One thread looks; a look that finds the clock gone back counts nothing new."""

    store: Store
    hold: Callable[[Connection], None] = lambda connection: None

    def look(self, now: Instant, wall: float) -> Looked:
        with self.store.write() as conn:
            self.hold(conn)
            last = _metered_at(conn)
            until = now if last is None else Instant(max(last, now))
            counting = _Counting(conn, last, until)
            runs = counting.count()
            counting.write()
            draw(conn, counting.by_project, until)
            row = {"id": METER, "at": until, "wall_s": wall}
            new = insert(conn, usage_meter).values(row)
            rest = {"at": until, "wall_s": wall}
            conn.execute(new.on_conflict_do_update(index_elements=["id"], set_=rest))
            dry, fresh = mark_dry(conn, until)
        total, refund = counting.total, counting.refund
        return Looked(until, runs, total, refund, dry, fresh)

    def metered_at(self) -> Instant | None:
        with self.store.read() as conn:
            return _metered_at(conn)


class _Counting:
    """One look over the runs that are not counted for good."""

    def __init__(self, conn: Connection, last: Instant | None, until: Instant) -> None:
        self.conn, self.last, self.until = conn, last, until
        self.sums: defaultdict[Hour, list[int]] = defaultdict(lambda: [0] * len(SUMS))
        self.by_project: Counter[str] = Counter()
        self.total = self.refund = 0

    def count(self) -> int:
        due = or_(usage_runs.c.counted < COUNTED, usage_runs.c.refund == REFUND_DUE)
        begun: list[int] = []
        over: list[int] = []
        refunded: list[int] = []
        rows = self.conn.execute(select(usage_runs).where(due)).all()
        for row in rows:
            run = run_of(row)
            if row.counted < COUNTED:
                self._slices(run, fresh=row.counted == NOT_COUNTED)
                if run.ended_at is not None and run.ended_at <= self.until:
                    over.append(row.id)
                elif row.counted == NOT_COUNTED:
                    begun.append(row.id)
            ends = run.ended_at is not None and run.ended_at <= self.until
            if row.refund == REFUND_DUE and ends:
                self._refund(run)
                refunded.append(row.id)
        self._mark(begun, counted=UP_TO_METER)
        self._mark(over, counted=COUNTED)
        self._mark(refunded, refund=REFUNDED)
        return len(rows)

    def _slices(self, run: Run, *, fresh: bool) -> None:
        after = run.began_at if fresh or self.last is None else self.last
        payer, held = run.payer, run.held
        for each in slices(run, after, self.until):
            amounts = (held.cpu_milli, held.memory_mib, held.disk_mib, held.gpu_milli)
            key = (each.hour, payer.owner, payer.project, payer.partition)
            new = (each.seconds, *(amount * each.seconds for amount in amounts), each.charge, 0, 0)
            self._add(key, new)
            self.by_project[payer.project] += each.charge
            self.total += each.charge
        if fresh:
            key = (run.began_at // HOUR_S, payer.owner, payer.project, payer.partition)
            self._add(key, (0, 0, 0, 0, 0, 0, 0, 1))

    def _refund(self, run: Run) -> None:
        """All that the run cost; it stands in the hour in which it ended."""
        assert run.ended_at is not None
        amount = run.total(run.until(run.ended_at))
        payer = run.payer
        key = (run.ended_at // HOUR_S, payer.owner, payer.project, payer.partition)
        self._add(key, (0, 0, 0, 0, 0, 0, amount, 0))
        self.by_project[payer.project] -= amount
        self.refund += amount

    def _add(self, key: Hour, new: Iterable[int]) -> None:
        sums = self.sums[key]
        for at, amount in enumerate(new):
            sums[at] += amount

    def _mark(self, ids: list[int], **values: int) -> None:
        if ids:
            mine = update(usage_runs).where(usage_runs.c.id == bindparam("run")).values(**values)
            self.conn.execute(mine, [{"run": id} for id in ids])

    def write(self) -> None:
        days: defaultdict[Hour, list[int]] = defaultdict(lambda: [0] * len(SUMS))
        for (hour, owner, project, partition), sums in self.sums.items():
            day = days[hour // DAY_HOURS, owner, project, partition]
            for at, amount in enumerate(sums):
                day[at] += amount
        self._grow(usage_hours, "hour", self.sums)
        self._grow(usage_days, "day", days)

    def _grow(self, table: Table, when: str, found: Mapping[Hour, list[int]]) -> None:
        keys = (when, *KEYS)
        rows = [
            {**dict(zip(keys, key, strict=True)), **dict(zip(SUMS, sums, strict=True))}
            for key, sums in sorted(found.items())
        ]
        if not rows:
            return
        new = insert(self.conn, table)
        grown = {name: table.c[name] + new.excluded[name] for name in SUMS}
        self.conn.execute(new.on_conflict_do_update(index_elements=keys, set_=grown), rows)


def run_of(row: Any) -> Run:
    return Run(
        Payer(row.owner, row.project, row.partition),
        Held(row.cpu_milli, row.memory_mib, row.disk_mib, row.gpu_milli),
        row.rate,
        Instant(row.began_at),
        None if row.ended_at is None else Instant(row.ended_at),
    )


def draw(conn: Connection, by_project: Mapping[str, int], now: Instant) -> None:
    """Take what was charged from every level that has allocations, and give back what was refunded."""
    amounts = {project: amount for project, amount in by_project.items() if project and amount}
    if not amounts:
        return
    tree, grants = tree_of(conn), grants_of(conn)
    levels: Counter[str] = Counter()
    for project, amount in amounts.items():
        for level in tree.path(project):
            levels[level] += amount
    taken: list[Drawn] = []
    for level, amount in sorted(levels.items()):
        mine = [each for each in grants if each.project == level]
        taken += drawn(mine, amount, now) if amount > 0 else given_back(mine, -amount, now)
    if taken:
        grown = allocations.c.drawn + bindparam("amount")
        change = update(allocations).where(allocations.c.id == bindparam("grant")).values(drawn=grown)
        conn.execute(change, [{"grant": each.allocation, "amount": each.amount} for each in taken])


def mark_dry(conn: Connection, now: Instant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which projects have nothing left, and which of them had something before."""
    found = purses_of(conn, now)
    dry = {name for name, purse in found.items() if purse.dry}
    had = {row.name for row in conn.execute(select(projects.c.name).where(projects.c.dry_at.is_not(None)))}
    for name in sorted(dry - had):
        conn.execute(update(projects).where(projects.c.name == name).values(dry_at=now))
    for name in sorted(had - dry):
        conn.execute(update(projects).where(projects.c.name == name).values(dry_at=None))
    return tuple(sorted(dry)), tuple(sorted(dry - had))


def _metered_at(conn: Connection) -> Instant | None:
    found = conn.execute(select(usage_meter.c.at).where(usage_meter.c.id == METER)).scalar()
    return None if found is None else Instant(found)
