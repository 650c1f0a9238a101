"""One pass over waiting jobs in their order: start what fits, keep room for the next few, fill the holes.

This is the decision of both queues, of the rerun and of every published rule: they differ in the order that
they bring, in how many blocked jobs have room kept for them, and in whether others may go past a blocked one.
What starts never delays what room was kept for, going by the spans; it knows no names and no reasons.

A cap (what a user or a project may hold at once) is a node that nobody runs on: a job needs room on it for
its whole size beside the room on its nodes, so that a start that waits for a cap can be told, too. Jobs that
must run at the same time are a chain: the first of them is looked at, and all or none have a place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, NONE, Bools, Ints, apart, compiled, lean
from glidepath.core.schedule.profile import (
    DEVICE_PARTS,
    Profile,
    comes_free,
    devices_of,
    drop,
    earliest,
    fits,
    holds,
    is_taken,
    restore,
)

WAITS, RUNS, KEPT, OVER = 0, 1, 2, 3
# Nobody asked for so many nodes that a search for one common hole of a chain should go on longer.
CHAIN_STEPS_MAX = 10_000


class Shapes(NamedTuple):
    """What jobs ask for; each combination once."""

    need: Ints  # [shape, part] on each node
    total: Ints  # [shape, part] of caps
    nodes: Ints  # [shape] how many nodes, all at once
    kind: Ints  # [shape] which row of the next two
    allowed: Bools  # [kind, node]
    order: Ints  # [kind, node] in which nodes are tried


class Work(NamedTuple):
    """Jobs as columns, and where they are. A job on many nodes has as many places in a row, then its caps."""

    shape: Ints  # [job]
    span: Ints  # [job] how long room is taken for it
    first_at: Ints  # [job] not before
    brief: Bools  # [job] ends in the instant it starts: only in logs of the past
    beside: Ints  # [job] the next of those that start with it, or NONE
    state: Ints  # [job]
    at: Ints  # [job] when it started or will by the plan, or NEVER
    base: Ints  # [job] its first place, and at [job + 1] the one after its last
    place: Ints  # [place] the node or cap
    devices: Ints  # [place] one bit for each
    mark: Ints  # [place] the change of the profile at its end
    kept_mark: Ints  # [place] the change of the profile at its planned start


class Scratch(NamedTuple):
    """Room to work in, so that a pass asks for no memory."""

    when: Ints  # [node] the earliest start on each
    amount: Ints  # [resource] what is taken on one place
    hopeless: Ints  # [shape] no job of at least this span can start in this pass
    began: Ints  # [job] those that this pass started, first to last
    kept: Ints  # [job] those that it keeps room for


class Board(NamedTuple):
    """All that a pass looks at and changes."""

    profile: Profile
    shapes: Shapes
    work: Work
    scratch: Scratch


class Way(NamedTuple):
    """How a pass treats the blocked."""

    keep: int  # for how many blocked jobs room is kept
    past: bool  # whether others may go past them


def scratch_of(profile: Profile, shapes: Shapes, jobs: int) -> Scratch:
    return Scratch(
        when=np.zeros(shapes.allowed.shape[1], np.int64),
        amount=np.zeros(profile.free.shape[1], np.int64),
        hopeless=np.full(len(shapes.nodes), NEVER, np.int64),
        began=np.zeros(jobs, np.int64),
        kept=np.zeros(jobs, np.int64),
    )


def work_of(shape: Ints, span: Ints, places: Ints) -> Work:
    """Jobs that all wait; `places` is how many nodes and caps each of them takes."""
    count = len(shape)
    base = np.zeros(count + 1, np.int64)
    np.cumsum(places, out=base[1:])
    return Work(
        shape=shape.astype(np.int64),
        span=span.astype(np.int64),
        first_at=np.zeros(count, np.int64),
        brief=np.zeros(count, np.bool_),
        beside=np.full(count, NONE, np.int64),
        state=np.full(count, WAITS, np.int64),
        at=np.full(count, NEVER, np.int64),
        base=base,
        place=np.full(base[-1], NONE, np.int64),
        devices=np.zeros(base[-1], np.int64),
        mark=np.full(base[-1], NONE, np.int64),
        kept_mark=np.full(base[-1], NONE, np.int64),
    )


@lean
def _weigh(board: Board, job: int, at: int) -> None:
    """What the job takes on one of its places goes into the scratch row."""
    shapes, work, amount = board.shapes, board.work, board.scratch.amount
    shape = work.shape[job]
    capped = at - work.base[job] >= shapes.nodes[shape]
    need = shapes.total[shape] if capped else shapes.need[shape]
    parts = len(need) - DEVICE_PARTS
    for part in range(parts):
        amount[part] = max(need[part], 0)
    for device in range(len(amount) - parts):
        amount[parts + device] = need[-1] * (work.devices[at] >> device & 1)


@lean
def finish(board: Board, job: int) -> None:
    """A running job has ended: its room is free, whatever was expected."""
    profile, work, amount = board.profile, board.work, board.scratch.amount
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        _weigh(board, job, at)
        for part in range(len(amount)):
            profile.free[node, part] += amount[part]
        drop(profile, node, work.mark[at])
    work.state[job] = OVER


@lean
def begin(board: Board, job: int, now: int) -> None:
    """The job runs on the nodes in its places from now on."""
    profile, work, amount = board.profile, board.work, board.scratch.amount
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        _weigh(board, job, at)
        for part in range(len(amount)):
            profile.free[node, part] -= amount[part]
        work.mark[at] = comes_free(profile, node, now + work.span[job], amount)
    work.state[job] = RUNS
    work.at[job] = now


@lean
def keep(board: Board, job: int, when: int) -> None:
    """Room is kept for the job on the nodes in its places from `when` on."""
    profile, work, amount = board.profile, board.work, board.scratch.amount
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        _weigh(board, job, at)
        work.kept_mark[at] = is_taken(profile, node, when, amount)
        work.mark[at] = comes_free(profile, node, when + work.span[job], amount)
    work.state[job] = KEPT
    work.at[job] = when


@lean
def release(board: Board, job: int) -> None:
    """Room that was kept for the job is kept no longer."""
    work = board.work
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        drop(board.profile, node, work.kept_mark[at])
        drop(board.profile, node, work.mark[at])
    work.state[job] = WAITS


@apart
def take_back(board: Board, kept: Ints, began: Ints) -> None:
    """A plan is lifted: room is kept no longer, and what it began has not."""
    for job in kept:
        release(board, job)
    for job in began:
        finish(board, job)


@apart
def all_capped(board: Board, jobs: Ints, now: int, found: Bools) -> None:
    """For each job whether a cap has no room for it now."""
    for at in range(len(jobs)):
        found[at] = capped(board, jobs[at], (now, board.work.span[jobs[at]]))


@apart
def keep_again(board: Board, job: int) -> None:
    """What was released last is kept as before; nothing else may have changed since."""
    work = board.work
    for at in range(work.base[job + 1] - 1, work.base[job] - 1, -1):
        node = work.place[at]
        restore(board.profile, node, work.mark[at])
        restore(board.profile, node, work.kept_mark[at])
    work.state[job] = KEPT


@lean
def capped(board: Board, job: int, stay: tuple[int, int]) -> bool:
    """Whether a cap has no room for the job then."""
    shapes, work = board.shapes, board.work
    shape = work.shape[job]
    for at in range(work.base[job] + shapes.nodes[shape], work.base[job + 1]):
        if not holds(board.profile, work.place[at], shapes.total[shape], stay):
            return True
    return False


@lean
def placed_now(board: Board, job: int, now: int) -> bool:
    """Whether there is room on nodes now and for the whole span; they are in its places then."""
    profile, shapes, work = board.profile, board.shapes, board.work
    shape = work.shape[job]
    kind = shapes.kind[shape]
    need, stay = shapes.need[shape], (now, work.span[job])
    at = work.base[job]
    end = at + shapes.nodes[shape]
    for node in shapes.order[kind]:
        if at == end:
            break
        if not shapes.allowed[kind, node] or not fits(profile.free[node], need):
            continue
        if profile.first[node] == NONE or holds(profile, node, need, stay):
            work.place[at] = node
            if need[-2] > 0:
                work.devices[at] = devices_of(profile, node, need, stay)
            at += 1
    return bool(at == end)


@lean
def _uncapped_at(board: Board, job: int, start: int) -> int:
    """The first instant from which on every cap has room, or NEVER."""
    shapes, work = board.shapes, board.work
    shape = work.shape[job]
    first, end = work.base[job] + shapes.nodes[shape], work.base[job + 1]
    for _ in range(len(board.profile.when) + 1):
        before = start
        for at in range(first, end):
            stay = (start, work.span[job])
            start = max(start, earliest(board.profile, work.place[at], shapes.total[shape], stay))
        if start in (before, NEVER):
            break
    return start


@compiled
def _nth(values: Ints, place: int) -> int:
    return int(np.partition(values, place - 1)[place - 1])


@lean
def placed_later(board: Board, job: int, now: int) -> int:
    """The earliest start by the plan, or NEVER; the nodes are in its places then.

    Before the moment at which enough nodes have their next hole there cannot be enough of them, so the search
    goes on from there. It ends: each step is at a later change of the profile.
    """
    profile, shapes, work, scratch = board.profile, board.shapes, board.work, board.scratch
    shape = work.shape[job]
    kind = shapes.kind[shape]
    need, span, wanted = shapes.need[shape], work.span[job], shapes.nodes[shape]
    nodes = len(scratch.when)
    start = _uncapped_at(board, job, max(now, work.first_at[job]))
    if wanted > nodes or start == NEVER:
        return NEVER
    for node in range(nodes):
        scratch.when[node] = -NEVER if shapes.allowed[kind, node] else NEVER
    for _ in range(len(profile.when) + 2):
        there = 0
        for node in range(nodes):
            # The first hole of a node that is not before the start is the first one from there on, too.
            if scratch.when[node] < start:
                scratch.when[node] = earliest(profile, node, need, (start, span))
            there += scratch.when[node] == start
        if there >= wanted:
            _take(board, job, start)
            return int(start)
        start = scratch.when[0] if nodes == 1 else _nth(scratch.when, wanted)
        if start != NEVER:
            start = _uncapped_at(board, job, start)
        if start == NEVER:
            return NEVER
    return NEVER


@lean
def _take(board: Board, job: int, start: int) -> None:
    """The first nodes that have their hole at the start become the places of the job."""
    shapes, work = board.shapes, board.work
    shape = work.shape[job]
    at = work.base[job]
    end = at + shapes.nodes[shape]
    for node in shapes.order[shapes.kind[shape]]:
        if at < end and board.scratch.when[node] == start:
            work.place[at] = node
            stay = (start, work.span[job])
            work.devices[at] = devices_of(board.profile, node, shapes.need[shape], stay)
            at += 1


@apart
def chain_placed(board: Board, job: int, now: int, only_now: bool) -> int:
    """One start for all jobs of a chain, or NEVER; where there is one, room is kept for each of them."""
    work = board.work
    start = now
    one = job
    while one != NONE:
        start = max(start, work.first_at[one])
        one = work.beside[one]
    for _ in range(CHAIN_STEPS_MAX):
        if only_now and start > now:
            return NEVER
        one, found = job, start
        while one != NONE and found == start:
            if only_now:
                there = not capped(board, one, (now, work.span[one])) and placed_now(board, one, now)
                found = start if there else NEVER
            else:
                found = placed_later(board, one, start)
            if found == start:
                keep(board, one, start)
                one = work.beside[one]
        if found == start:
            return int(start)
        release_chain(board, job, one)
        if found == NEVER:
            return NEVER
        start = found
    return NEVER


@apart
def release_chain(board: Board, job: int, end: int) -> None:
    """Release the jobs of a chain before `end`, which is one of them or NONE for all."""
    while job != end:
        release(board, job)
        job = board.work.beside[job]


@lean
def _began(board: Board, job: int, now: int) -> int:
    """Start the job, and those beside it, if there is room for all; how many did."""
    work, scratch = board.work, board.scratch
    if work.beside[job] == NONE:
        if not placed_now(board, job, now):
            scratch.hopeless[work.shape[job]] = work.span[job]
            return 0
        if capped(board, job, (now, work.span[job])):
            return 0
        begin(board, job, now)
        return 1
    if chain_placed(board, job, now, True) == NEVER:
        return 0
    count = 0
    while job != NONE:
        release(board, job)
        begin(board, job, now)
        job = work.beside[job]
        count += 1
    return count


@lean
def _kept(board: Board, job: int, now: int) -> int:
    """Keep room for a blocked job and those beside it; for how many, nothing where there is never any."""
    work = board.work
    if work.beside[job] == NONE:
        when = placed_later(board, job, now)
        if when == NEVER:
            return 0
        keep(board, job, when)
        return 1
    if chain_placed(board, job, now, False) == NEVER:
        return 0
    count = 0
    while job != NONE:
        job = work.beside[job]
        count += 1
    return count


@lean
def one_pass(board: Board, order: Ints, now: int, way: Way) -> tuple[int, int]:
    """Jobs in their order; returns how many began and for how many room is kept, both told in the scratch."""
    work, scratch = board.work, board.scratch
    scratch.hopeless[:] = NEVER
    began = kept = blocked = 0
    for job in order:
        shape = work.shape[job]
        if work.first_at[job] <= now and work.span[job] < scratch.hopeless[shape]:
            count = _began(board, job, now)
            if count:
                one = job
                for at in range(began, began + count):
                    scratch.began[at] = one
                    one = work.beside[one]
                began += count
                if work.brief[job] and not kept:
                    finish(board, job)
                continue
        if blocked < way.keep and not capped(board, job, (now, work.span[job])):
            count = _kept(board, job, now)
            one = job
            for at in range(kept, kept + count):
                scratch.kept[at] = one
                one = work.beside[one]
            kept += count
            blocked += count > 0
        if not way.past:
            break
    return began, kept
