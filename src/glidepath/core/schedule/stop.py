"""Ending jobs that may be stopped, so that a project within its guarantee gets what is its own.

Only jobs that said that they may be stopped, only of projects that hold more than they are guaranteed, the
last to start first, and only if that is enough for the blocked job to start: nobody is ended for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.schedule.acts import JobAction, Requeue
from glidepath.core.schedule.batch import amount_row, guaranteed_by, held_by_guarantee, within_guarantee
from glidepath.core.schedule.compiled import Ints
from glidepath.core.schedule.plan import Laid
from glidepath.core.schedule.profile import DEVICE_PARTS, fits
from glidepath.core.schedule.sift import Sifted


def stops(laid: Laid, sifted: Sifted) -> Iterator[Decision[JobAction]]:
    table = laid.table
    if not table.book.stop or not any(share.guarantee for share in table.shares.values()):
        return
    blocked = [row for row in laid.kept if laid.starts[row] > sifted.now]
    if not blocked:
        return
    inside = within_guarantee(table, np.array(blocked, np.int64))
    ended: set[int] = set()
    for row, within in zip(blocked, inside, strict=True):
        if within and guaranteed_by(table.rows[row][0].project, table.shares) is not None:
            victims = _victims(laid, row, ended)
            ended.update(victims)
            for victim in victims:
                name = table.rows[victim][0].name
                facts = (("for", table.rows[row][0].name),)
                yield Decision(f"job:{name}", Reason(Because.STOPPED_FOR, facts), Requeue(name))


def _victims(laid: Laid, row: int, ended: set[int]) -> list[int]:
    """The fewest of the last to start that make room for the row, none where all of them would not do."""
    table = laid.table
    own = guaranteed_by(table.rows[row][0].project, table.shares)
    candidates = [at for at in _borrowers(laid, own) if at not in ended]
    candidates.sort(key=lambda at: (-int(table.work.at[at]), table.rows[at][0].name))
    free = table.profile.free[: len(table.cluster.nodes)].copy()
    for at in ended:
        _give_back(laid, free, at)
    taken: list[int] = []
    for at in candidates:
        if _enough(laid, row, free):
            break
        _give_back(laid, free, at)
        taken.append(at)
    if not _enough(laid, row, free):
        return []
    for at in list(taken):
        # Whoever is not needed after all goes on.
        trial = free.copy()
        _give_back(laid, trial, at, sign=-1)
        if _enough(laid, row, trial):
            free = trial
            taken.remove(at)
    return taken


def _borrowers(laid: Laid, own: object) -> list[int]:
    table = laid.table
    held = held_by_guarantee(table)
    found = []
    for at in table.running():
        job = table.rows[at][0]
        holder = guaranteed_by(job.project, table.shares)
        if not job.stoppable or holder == own or at in laid.began:
            continue
        if holder is None or (held[holder] > amount_row(table.shares[holder].guarantee)).any():
            found.append(at)
    return found


def _give_back(laid: Laid, free: Ints, at: int, sign: int = 1) -> None:
    table, work = laid.table, laid.table.work
    need = table.shapes.need[work.shape[at]]
    parts = len(need) - DEVICE_PARTS
    base = int(work.base[at])
    for place in range(base, base + int(table.shapes.nodes[work.shape[at]])):
        node = int(work.place[place])
        free[node, :parts] += sign * np.maximum(need[:parts], 0)
        for device in range(table.layout.devices):
            free[node, parts + device] += sign * int(need[-1]) * (int(work.devices[place]) >> device & 1)


def _enough(laid: Laid, row: int, free: Ints) -> bool:
    table = laid.table
    shape = int(table.work.shape[row])
    kind = int(table.shapes.kind[shape])
    need = table.shapes.need[shape]
    nodes = np.nonzero(table.shapes.allowed[kind])[0].tolist()
    return sum(fits(free[node], need) for node in nodes) >= int(table.shapes.nodes[shape])
