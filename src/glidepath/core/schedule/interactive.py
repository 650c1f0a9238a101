"""The interactive queue: strict order, and a start for everybody that waits.

In one line of jobs (those of a partition) nobody starts before who came earlier. A job that has a promise
keeps its room while the others are looked at, so that a hole that opens early is never taken from somebody
who was told a start in it; then each one is moved to the earliest hole from the start of the one before on.
A job that waits for a cap or for its own earliest start holds up nobody.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, NONE, Ints, apart, compiled, lean
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
from glidepath.core.schedule.profile import devices_of, earliest, fits, holds, room_at


class Lines(NamedTuple):
    """Who stands where, and what is free at the instant from which on the next one is looked for.

    Most nodes have no room then and nothing changes on them before the start that a job has already; they
    are passed over without a look into their profile.
    """

    line: Ints  # [job] which one it stands in
    floor: Ints  # [line] nobody behind starts earlier
    at: Ints  # [0] the instant, or NEVER where nothing is known
    room: Ints  # [resource, node] what is free then
    after: Ints  # [node] the first change after it, or NONE
    next_at: Ints  # [node] when that is, or NEVER


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
        if work.beside[job] == NONE:
            when = _moved(board, lines, job, now)
        else:
            when = _chain_moved(board, job, start, now)
            lines.at[0] = NEVER
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
def _moved(board: Board, lines: Lines, job: int, now: int) -> int:
    """Begin, or keep room at the earliest hole from its floor on; when that is, NEVER where there is none."""
    work = board.work
    start = max(now, lines.floor[lines.line[job]])
    had = NONE
    if work.state[job] == KEPT:
        had = work.place[work.base[job]]
        release(board, job)
        _look_again(board, lines, job)
    ready = start == now and work.first_at[job] <= now
    if ready and not capped(board, job, (now, work.span[job])) and placed_now(board, job, now):
        begin(board, job, now)
        _look_again(board, lines, job)
        return now
    shape = work.shape[job]
    alone = board.shapes.nodes[shape] == 1 and work.base[job + 1] - work.base[job] == 1
    if alone and work.first_at[job] <= start:
        _turn_to(board, lines, start)
        when = _soonest(board, lines, job, had)
    else:
        when = placed_later(board, job, start)
    work.at[job] = NEVER
    if when != NEVER:
        keep(board, job, when)
        _look_again(board, lines, job)
    return int(when)


@apart
def _soonest(board: Board, lines: Lines, job: int, had: int) -> int:
    """The same as `placed_later` for a job on one node; `had` is the node that it was promised, or NONE.

    There it nearly always still has a hole, and nodes without any until then need no look.
    """
    profile, shapes, work = board.profile, board.shapes, board.work
    shape = work.shape[job]
    kind, need = shapes.kind[shape], shapes.need[shape]
    start, span = lines.at[0], work.span[job]
    best, before = NONE, NEVER
    if had != NONE:
        before = min(NEVER, earliest(profile, had, need, (start, span)) + 1)
    for node in shapes.order[kind]:
        if not shapes.allowed[kind, node]:
            continue
        if lines.next_at[node] >= before and (
            lines.room[0, node] < need[0] or not fits(lines.room[:, node], need)
        ):
            continue
        found = earliest(profile, node, need, (start, span))
        if found < before:
            best, before = node, found
            if found == start:
                break
    if best == NONE:
        return NEVER
    work.place[work.base[job]] = best
    work.devices[work.base[job]] = devices_of(profile, best, need, (before, span))
    return int(before)


@apart
def _turn_to(board: Board, lines: Lines, start: int) -> None:
    """What is free on each node at this instant; cheap where it is after the last one."""
    profile = board.profile
    fresh = start < lines.at[0]
    lines.at[0] = start
    for node in range(len(lines.after)):
        if fresh:
            _look(board, lines, node)
            continue
        if lines.next_at[node] > start:
            continue
        change = lines.after[node]
        while change != NONE and profile.when[change] <= start:
            for part in range(len(profile.room)):
                lines.room[part, node] += profile.amount[change, part]
            change = profile.after[change]
        lines.after[node] = change
        lines.next_at[node] = NEVER if change == NONE else profile.when[change]


@lean
def _look(board: Board, lines: Lines, node: int) -> None:
    change = room_at(board.profile, node, lines.at[0])
    lines.after[node] = change
    lines.next_at[node] = NEVER if change == NONE else board.profile.when[change]
    for part in range(len(board.profile.room)):
        lines.room[part, node] = board.profile.room[part]


@lean
def _look_again(board: Board, lines: Lines, job: int) -> None:
    """The room of this job was kept, taken or given back."""
    work = board.work
    if lines.at[0] != NEVER:
        base = work.base[job]
        for at in range(base, base + board.shapes.nodes[work.shape[job]]):
            _look(board, lines, work.place[at])


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


def lines_of(line: Ints, lines: int, now: int, like: Ints) -> Lines:
    """So many lines from now on; `like` has a row for each node."""
    return Lines(
        line=line,
        floor=np.full(lines, now, np.int64),
        at=np.full(1, NEVER, np.int64),
        room=np.zeros(like.shape[::-1], np.int64),
        after=np.full(len(like), NONE, np.int64),
        next_at=np.full(len(like), NEVER, np.int64),
    )
