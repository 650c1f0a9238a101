"""One plan on a table: both queues are laid out, what came of it is read off, and the table is as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from glidepath.core.quantity import Instant
from glidepath.core.schedule.batch import ordered
from glidepath.core.schedule.compiled import NEVER, NONE, Ints
from glidepath.core.schedule.interactive import Lines, floors, strict_pass
from glidepath.core.schedule.job import Place, Used
from glidepath.core.schedule.order import Kind
from glidepath.core.schedule.placing import KEPT, WAITS, Board, Way, finish, one_pass, release
from glidepath.core.schedule.table import Table


@dataclass(frozen=True)
class View:
    """What a plan is made of beside the table."""

    now: Instant
    used: Sequence[Used] = ()
    paused: frozenset[str] = frozenset()
    kind: int = Kind.STEADY


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

    def places(self, row: int) -> tuple[Place, ...]:
        return self.table.places(row)

    def lift(self) -> None:
        """Take everything back, so that the table is as it was."""
        work = self.table.work
        for row in (*self.promised, *self.kept):
            release(self.board, row)
            work.at[row] = NEVER
        for row in self.began:
            finish(self.board, row)
            work.state[row], work.at[row] = WAITS, NEVER


def lay(table: Table, view: View) -> Laid:
    """Interactive jobs first, each with its start; then batch jobs around them."""
    now = int(view.now)
    waiting = [_open(table, table.waiting(queue), queue, view.paused) for queue in (0, 1)]
    places = sum(int((table.work.base[rows + 1] - table.work.base[rows]).sum()) for rows in waiting)
    table.make_changes_for(2 * places + 2 * _followers(table) + 16)
    board = table.board
    lines = Lines(table.line, floors(len(table.line_of), now))
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


def _open(table: Table, rows: Ints, queue: int, paused: frozenset[str]) -> Ints:
    """Without those whose queue or partition rests."""
    if not paused:
        return rows
    if f"queue:{('interactive', 'batch')[queue]}" in paused:
        return rows[:0]
    shut = [at for name, at in table.line_of.items() if f"partition:{name}" in paused]
    return np.ascontiguousarray(rows[~np.isin(table.line[rows], shut)])
