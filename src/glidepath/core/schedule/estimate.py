"""When a waiting job will probably start: two plans and what is known of waits become a range.

The world is planned with room kept for everybody up to the job, once by limits (nearly the latest start) and
once by how long such jobs ran (the likely one). Trees that were grown on waits of the past know better where
there are any. A range is no promise: nothing is kept free for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from glidepath.core.schedule.compiled import NEVER
from glidepath.core.schedule.decide import table_of, teach
from glidepath.core.schedule.eta import Asked, Range, learnt, ranges
from glidepath.core.schedule.forest import Forest
from glidepath.core.schedule.job import Book, JobName, Memory, World
from glidepath.core.schedule.order import expect
from glidepath.core.schedule.placing import begin, finish
from glidepath.core.schedule.plan import lay, view_of
from glidepath.core.schedule.sift import sift
from glidepath.core.schedule.table import Table

# Room is planned for so many before the job; who stands farther back has an estimate without a plan, if any.
AHEAD_MAX = 500


@dataclass(frozen=True)
class Known:
    """What waits of the past taught: trees, and by how much their ranges must be stretched."""

    forest: Forest
    stretched: float = 1.0


def known_nothing(features: int) -> Known:
    """For a cluster that begins; `features` is how many numbers `described` gives."""
    none = Asked.of(np.zeros(0), np.zeros((0, features)), np.zeros(0, np.int64))
    return Known(learnt(none, np.zeros(0), now=0.0))


FEATURES = 6


def described(table: Table, row: int) -> list[float]:
    """What trees may ask about a job: its limit, size and nodes, and the crowd it stands in."""
    job = table.rows[row][0]
    waiting = table.waiting(int(table.queue[row]))
    ahead = waiting[waiting < row]
    lore = table.lore
    return [
        float(job.limit_s or 0),
        float(lore.size[row]),
        float(job.ask.nodes),
        float(len(ahead)),
        float((lore.size[ahead] * lore.limit[ahead]).sum()),
        float(job.priority),
    ]


def estimated(
    world: World, book: Book, memory: Memory, name: JobName, *, known: Known | None = None
) -> Range:
    """How long the job is still thought to wait; raises KeyError for one that does not wait."""
    return estimates(world, book, memory, (name,), known=known)[name]


def estimates(
    world: World,
    book: Book,
    memory: Memory,
    names: Iterable[JobName],
    *,
    known: Known | None = None,
    planned_only: bool = False,
) -> dict[JobName, Range]:
    """The same for several, for the price of one; those that do not wait are left out.

    `planned_only` leaves out those, too, for which a plan has no start: their ranges say next to nothing.
    """
    by_limits = _planned(world, book, memory, names)
    wanted = [name for name, (wait_s, _) in by_limits.items() if not (planned_only and math.isnan(wait_s))]
    if not wanted:
        return {}
    by_expected = _planned(world, book, memory, wanted, hurried=True)
    known = known or known_nothing(FEATURES)
    asked = Asked.of(
        np.full(len(wanted), float(world.now)),
        np.array([by_limits[name][1] for name in wanted]),
        np.zeros(len(wanted), np.int64),
        by_limits_s=np.array([by_limits[name][0] for name in wanted]),
        by_expected_s=np.array([by_expected[name][0] for name in wanted]),
    )
    found = ranges(known.forest, asked, stretched=known.stretched)
    return {name: found.one(at) for at, name in enumerate(wanted)}


def _planned(
    world: World, book: Book, memory: Memory, names: Iterable[JobName], *, hurried: bool = False
) -> dict[JobName, tuple[float, list[float]]]:
    """The wait by a plan with room for all before a job, NaN where it has none; and what describes it."""
    sifted = sift(world, book, memory.at)
    table = table_of(sifted, replace(book, keep=AHEAD_MAX), memory)
    teach(table, world.ended)
    rows = {name: table.row_of[name] for name in names if name in table.row_of}
    features = {name: described(table, row) for name, row in rows.items()}
    if hurried:
        _hurry(table, int(sifted.now))
    starts = lay(table, view_of(world, sifted)).starts
    found = {}
    for name, row in rows.items():
        at = starts.get(row, NEVER)
        found[name] = (float("nan") if at == NEVER else float(at - sifted.now), features[name])
    return found


def _hurry(table: Table, now: int) -> None:
    """Count with how long jobs like these ran, instead of with their limits."""
    board, work, lore = table.board, table.work, table.lore
    for row in range(len(table.rows)):
        expect(lore, row)
    for row in table.running():
        at = int(work.at[row])
        finish(board, row)
        # Who has run longer than such jobs do may end at any moment.
        work.span[row] = min(int(work.span[row]), max(int(lore.expected[row]), now - at + 1))
        begin(board, row, at)
    for queue in (0, 1):
        for row in table.waiting(queue).tolist():
            work.span[row] = min(int(work.span[row]), max(1, int(lore.expected[row])))
