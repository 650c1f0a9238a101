"""The order of the batch queue: the rule's own, then fair share, then guarantees, then priority.

Each step keeps the order of the one before among equals. A project within its guarantee goes before those
that borrow; a higher priority goes before a lower one, whatever the rest says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glidepath.core.quantity import Instant, Resources
from glidepath.core.schedule.cluster import ProjectName
from glidepath.core.schedule.compiled import Bools, Ints
from glidepath.core.schedule.fairshare import DEPTH_MAX, tree_of, turns
from glidepath.core.schedule.job import Share, Used
from glidepath.core.schedule.layout import CPU, DISK, GPU, MEMORY
from glidepath.core.schedule.order import ranked
from glidepath.core.schedule.table import Table, people

_PARTS = (CPU, MEMORY, DISK, GPU)


def ordered(table: Table, rows: Ints, now: Instant, *, kind: int, used: Sequence[Used]) -> Ints:
    """Waiting batch rows, given in order of arrival, in the order in which they are looked at."""
    order = ranked(table.lore, rows, int(now), kind)
    if table.book.fair and len(order):
        order = _in_turns(table, order, now, used)
    if len(order) and any(share.guarantee for share in table.shares.values()):
        order = order[np.argsort(~within_guarantee(table, order), kind="stable")]
    priority = table.priority[order]
    if len(order) and priority.min() != priority.max():
        order = order[np.argsort(-priority, kind="stable")]
    return np.ascontiguousarray(order)


def _in_turns(table: Table, order: Ints, now: Instant, used: Sequence[Used]) -> Ints:
    rows = [table.rows[at] for at in order.tolist()]
    grown = tree_of(table.shares, used, people(rows), (now, table.book.half_life_s))
    leaf = np.array([grown.leaf[row[0].project, row[0].owner] for row in rows], np.int64)
    cost = table.lore.expected[order] * table.lore.size[order]
    return turns(grown.tree, order, leaf, cost)


def guaranteed_by(project: ProjectName, shares: Mapping[ProjectName, Share]) -> ProjectName | None:
    """The nearest project on the path to the top that has a guarantee."""
    name = project
    for _ in range(DEPTH_MAX):
        share = shares.get(name)
        if share is None:
            return None
        if share.guarantee:
            return name
        name = share.parent
    return None


def held_by_guarantee(table: Table) -> dict[ProjectName, Ints]:
    """What runs on each guarantee, in the parts that guarantees are made of."""
    held: dict[ProjectName, Ints] = {}
    for at in table.running():
        holder = guaranteed_by(table.rows[at][0].project, table.shares)
        if holder is not None:
            total = table.shapes.total[table.work.shape[at]][list(_PARTS)]
            held[holder] = held.get(holder, np.zeros(len(_PARTS), np.int64)) + total
    return held


def amount_row(amount: Resources) -> Ints:
    return np.array([amount.cpu_milli, amount.memory_mib, amount.disk_mib, amount.gpus * 1000], np.int64)


def within_guarantee(table: Table, order: Ints) -> Bools:
    """For each row of the order whether it, with those before it, is within its project's guarantee."""
    held = held_by_guarantee(table)
    holders = [guaranteed_by(table.rows[at][0].project, table.shares) for at in order.tolist()]
    within = np.zeros(len(order), np.bool_)
    for holder in sorted({name for name in holders if name is not None}):
        mine = np.array([name == holder for name in holders])
        totals = table.shapes.total[table.work.shape[order[mine]]][:, list(_PARTS)]
        # A running sum: the third job is within only if the first two leave room for it.
        sums = np.cumsum(totals, axis=0) + held.get(holder, np.zeros(len(_PARTS), np.int64))
        bound = amount_row(table.shares[holder].guarantee)
        within[mine] = ((sums <= bound) | (bound == 0)).all(axis=1)
    return within
