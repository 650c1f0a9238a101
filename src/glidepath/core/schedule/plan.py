"""One plan on a table: both queues are laid out, what came of it is read off, and the table is as before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from glidepath.core.quantity import Instant
from glidepath.core.schedule.batch import ordered
from glidepath.core.schedule.cluster import ProjectName
from glidepath.core.schedule.compiled import NEVER, NONE, Bools, Ints
from glidepath.core.schedule.interactive import lines_of, strict_pass
from glidepath.core.schedule.job import Place, Used, World
from glidepath.core.schedule.order import Kind
from glidepath.core.schedule.placing import KEPT, WAITS, Board, Way, one_pass, take_back
from glidepath.core.schedule.sift import Sifted
from glidepath.core.schedule.table import Table


@dataclass(frozen=True)
class View:
    """What a plan is made of beside the table."""

    now: Instant
    used: Sequence[Used] = ()
    paused: frozenset[str] = frozenset()
    shut_out: Mapping[ProjectName, str] = field(default_factory=dict)
    kind: int = Kind.STEADY


def view_of(world: World, sifted: Sifted, kind: int = Kind.STEADY) -> View:
    return View(sifted.now, sifted.used, frozenset(world.paused), dict(world.shut_out), kind)


@dataclass
class Laid:
    """A plan while it lies on the board: rows that begin, rows that have room kept, and in which order."""

    table: Table
    board: Board
    began: list[int]
    promised: list[int]
    kept: list[int]
    order: Ints  # of the batch queue
    line: Ints  # of the interactive queue
    starts: dict[int, int] = field(default_factory=dict)  # row: when
    seats: dict[int, tuple[Place, ...]] = field(default_factory=dict)  # row: where, once it was asked for

    def places(self, row: int) -> tuple[Place, ...]:
        if row not in self.seats:
            self.seats[row] = self.table.places(row)
        return self.seats[row]

    def lift(self) -> None:
        """Take everything back, so that the table is as it was."""
        work = self.table.work
        kept = np.array((*self.promised, *self.kept), np.int64)
        began = np.array(self.began, np.int64)
        take_back(self.board, kept, began)
        work.at[kept] = work.at[began] = NEVER
        work.state[began] = WAITS


def lay(table: Table, view: View) -> Laid:
    """Interactive jobs first, each with its start; then batch jobs around them."""
    now = int(view.now)
    waiting = [_open(table, table.waiting(queue), queue, view) for queue in (0, 1)]
    places = sum(int((table.work.base[rows + 1] - table.work.base[rows]).sum()) for rows in waiting)
    table.make_changes_for(2 * places + 2 * _followers(table) + 16)
    board = table.board
    free = table.profile.free[: len(table.cluster.nodes)]
    lines = lines_of(table.line, len(table.line_of), now, free)
    count = strict_pass(board, waiting[0], lines, now)
    began = board.scratch.began[:count].tolist()
    promised = [
        row for at in waiting[0].tolist() for row in chain(table, at) if table.work.state[row] == KEPT
    ]
    order = ordered(table, waiting[1], view.now, kind=view.kind, used=view.used)
    count, kept = one_pass(board, order, now, Way(table.book.keep, True))
    began += board.scratch.began[:count].tolist()
    laid = Laid(table, board, began, promised, board.scratch.kept[:kept].tolist(), order, waiting[0])
    laid.starts = {row: int(table.work.at[row]) for row in (*began, *promised, *laid.kept)}
    return laid


def _followers(table: Table) -> int:
    """How many places belong to rows that another one of their chain stands for."""
    rows = np.nonzero(table.follows[: len(table.rows)])[0]
    return int((table.work.base[rows + 1] - table.work.base[rows]).sum())


def chain(table: Table, row: int) -> list[int]:
    """The row and those that start with it."""
    found = []
    while row != NONE:
        found.append(row)
        row = int(table.work.beside[row])
    return found


def _open(table: Table, rows: Ints, queue: int, view: View) -> Ints:
    """Without those whose queue or partition rests, and those who may not begin."""
    paused = view.paused
    if f"queue:{('interactive', 'batch')[queue]}" in paused:
        return rows[:0]
    shut = [at for name, at in table.line_of.items() if f"partition:{name}" in paused]
    if shut:
        rows = rows[~np.isin(table.line[rows], shut)]
    if view.shut_out:
        rows = rows[~_shut_out(table, rows, view)]
    return np.ascontiguousarray(rows)


def _shut_out(table: Table, rows: Ints, view: View) -> Bools:
    """Whoever starts together with one that may not begin does not begin either."""
    numbers = [table.project_of[name] for name in view.shut_out if name in table.project_of]
    found = np.isin(table.project[rows], numbers)
    for at in np.nonzero((table.work.beside[rows] != NONE) & ~found)[0].tolist():
        found[at] = np.isin(table.project[chain(table, int(rows[at]))], numbers).any()
    return found
