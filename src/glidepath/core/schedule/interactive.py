"""The interactive queue: strict order, and a start for everybody that waits.

In one line of jobs (those of a partition) nobody starts before who came earlier. A job that has a promise
keeps its room while the others are looked at, so that a hole that opens early is never taken from somebody
who was told a start in it; then each one is moved to the earliest hole from the start of the one before on.
A job that waits for a cap or for its own earliest start holds up nobody.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, NONE, Ints, apart, compiled
from glidepath.core.schedule.placing import (
    KEPT,
    Board,
    begin,
    capped,
    chain_placed,
    keep,
    placed_later,
    placed_now,
    release,
    release_chain,
)
from glidepath.core.schedule.profile import devices_of, holds


class Lines(NamedTuple):
    line: Ints  # [job] which one it stands in
    floor: Ints  # [line] nobody behind starts earlier


@apart
def retained(board: Board, job: int, now: int) -> bool:
    """Keep the room that was promised to a job, and to those beside it, if it is still there."""
    shapes, work = board.shapes, board.work
    when = max(work.at[job], now)
    one = job
    while one != NONE:
        shape = work.shape[one]
        kind, stay = shapes.kind[shape], (when, work.span[one])
        there = work.at[one] != NEVER and not capped(board, one, stay)
        base = work.base[one]
        for at in range(base, base + shapes.nodes[shape]):
            node = work.place[at]
            there = there and node != NONE and shapes.allowed[kind, node]
            there = there and holds(board.profile, node, shapes.need[shape], stay)
            if there:
                work.devices[at] = devices_of(board.profile, node, shapes.need[shape], stay)
        if not there:
            release_chain(board, job, one)
            return False
        keep(board, one, when)
        one = work.beside[one]
    return True


@apart
def strict_pass(board: Board, order: Ints, lines: Lines, now: int) -> int:
    """Jobs in their order; who begins is told in the scratch, the others have room kept or no hole at all."""
    work, began = board.work, 0
    for job in order:
        if work.at[job] != NEVER and not retained(board, job, now):
            one = job
            while one != NONE:
                work.at[one] = NEVER
                one = work.beside[one]
    for job in order:
        line = lines.line[job]
        start = max(now, lines.floor[line])
        late = work.first_at[job] > start or _chain_capped(board, job, start)
        when = _moved(board, job, start, now)
        if when != NEVER and work.state[job] != KEPT:
            one = job
            while one != NONE:
                board.scratch.began[began] = one
                began += 1
                one = work.beside[one]
        if when == NEVER or late:
            continue
        # Whose time has come and whose room is not there yet still goes first.
        lines.floor[line] = now + 1 if when == now and work.state[job] == KEPT else when
    return began


@apart
def _chain_capped(board: Board, job: int, start: int) -> bool:
    while job != NONE:
        if capped(board, job, (start, board.work.span[job])):
            return True
        job = board.work.beside[job]
    return False


@apart
def _moved(board: Board, job: int, start: int, now: int) -> int:
    """Begin, or keep room at the earliest hole from `start` on; when that is, NEVER where there is none."""
    work = board.work
    if work.beside[job] != NONE:
        return _chain_moved(board, job, start, now)
    if work.state[job] == KEPT:
        release(board, job)
    ready = start == now and work.first_at[job] <= now
    if ready and not capped(board, job, (now, work.span[job])) and placed_now(board, job, now):
        begin(board, job, now)
        return now
    when = placed_later(board, job, start)
    work.at[job] = NEVER
    if when != NEVER:
        keep(board, job, when)
    return when


@compiled
def _chain_moved(board: Board, job: int, start: int, now: int) -> int:
    """The same for a chain. Its search is greedy: what it had is put back where nothing better is found."""
    work = board.work
    had = work.at[job] if work.state[job] == KEPT and work.at[job] >= start else NEVER
    place, devices = work.place.copy(), work.devices.copy()
    if work.state[job] == KEPT:
        release_chain(board, job, NONE)
    if start == now and chain_placed(board, job, now, True) == now:
        one = job
        while one != NONE:
            release(board, one)
            begin(board, one, now)
            one = work.beside[one]
        return now
    when = chain_placed(board, job, start, False)
    if had < when:
        if when != NEVER:
            release_chain(board, job, NONE)
        work.place[:], work.devices[:] = place, devices
        one, when = job, had
        while one != NONE:
            keep(board, one, had)
            one = work.beside[one]
    return when


def floors(lines: int, now: int) -> Ints:
    return np.full(lines, now, np.int64)
