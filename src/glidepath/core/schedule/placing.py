"""One pass over waiting jobs in their order: start what fits, keep room for the next few, fill the holes.

This is the decision of both queues, of the rerun and of every published rule: they differ in the order that
they bring, in how many blocked jobs have room kept for them, and in whether others may go past a blocked one.
What starts never delays what room was kept for, going by the spans; it knows no names and no reasons.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, NONE, Bools, Ints, compiled
from glidepath.core.schedule.profile import (
    Profile,
    comes_free,
    drop,
    earliest,
    fits,
    holds,
    is_taken,
    restore,
)

WAITS, RUNS, KEPT, OVER = 0, 1, 2, 3


class Shapes(NamedTuple):
    """What jobs ask for; each combination once."""

    need: Ints  # [shape, resource] on each node
    nodes: Ints  # [shape] how many nodes, all at once
    allowed: Bools  # [shape, node]


class Work(NamedTuple):
    """Jobs as columns, and where they are. A job on many nodes has as many places in a row."""

    shape: Ints  # [job]
    span: Ints  # [job] how long room is taken for it
    first_at: Ints  # [job] not before
    brief: Bools  # [job] ends in the instant it starts: only in logs of the past
    state: Ints  # [job]
    at: Ints  # [job] when it started or will by the plan, or NEVER
    base: Ints  # [job] its first place
    place: Ints  # [place] the node
    mark: Ints  # [place] the change of the profile at its end
    kept_mark: Ints  # [place] the change of the profile at its planned start


class Scratch(NamedTuple):
    """Room to work in, so that a pass asks for no memory."""

    when: Ints  # [node] the earliest start on each
    order: Ints  # [node] in which nodes are taken
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


def scratch_of(shapes: Shapes, jobs: int) -> Scratch:
    count, nodes = shapes.allowed.shape
    return Scratch(
        when=np.zeros(nodes, np.int64),
        order=np.arange(nodes, dtype=np.int64),
        hopeless=np.full(count, NEVER, np.int64),
        began=np.zeros(jobs, np.int64),
        kept=np.zeros(jobs, np.int64),
    )


def work_of(shape: Ints, span: Ints, nodes: Ints) -> Work:
    """Jobs that all wait; `nodes` is how many each of them takes."""
    count = len(shape)
    base = np.zeros(count + 1, np.int64)
    np.cumsum(nodes, out=base[1:])
    places = int(base[-1])
    return Work(
        shape=shape.astype(np.int64),
        span=span.astype(np.int64),
        first_at=np.zeros(count, np.int64),
        brief=np.zeros(count, np.bool_),
        state=np.full(count, WAITS, np.int64),
        at=np.full(count, NEVER, np.int64),
        base=base,
        place=np.full(places, NONE, np.int64),
        mark=np.full(places, NONE, np.int64),
        kept_mark=np.full(places, NONE, np.int64),
    )


@compiled
def finish(board: Board, job: int) -> None:
    """A running job has ended: its room is free, whatever was expected."""
    profile, work = board.profile, board.work
    need = board.shapes.need[work.shape[job]]
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        for part in range(len(need)):
            profile.free[node, part] += need[part]
        drop(profile, node, work.mark[at])
    work.state[job] = OVER


@compiled
def begin(board: Board, job: int, now: int) -> None:
    """The job runs on the nodes in its places from now on."""
    profile, work = board.profile, board.work
    need = board.shapes.need[work.shape[job]]
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        for part in range(len(need)):
            profile.free[node, part] -= need[part]
        work.mark[at] = comes_free(profile, node, now + work.span[job], need)
    work.state[job] = RUNS
    work.at[job] = now


@compiled
def keep(board: Board, job: int, when: int) -> None:
    """Room is kept for the job on the nodes in its places from `when` on."""
    profile, work = board.profile, board.work
    need = board.shapes.need[work.shape[job]]
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        work.kept_mark[at] = is_taken(profile, node, when, need)
        work.mark[at] = comes_free(profile, node, when + work.span[job], need)
    work.state[job] = KEPT
    work.at[job] = when


@compiled
def release(board: Board, job: int) -> None:
    """Room that was kept for the job is kept no longer."""
    work = board.work
    for at in range(work.base[job], work.base[job + 1]):
        node = work.place[at]
        drop(board.profile, node, work.kept_mark[at])
        drop(board.profile, node, work.mark[at])
    work.state[job] = WAITS


@compiled
def keep_again(board: Board, job: int) -> None:
    """What was released last is kept as before; nothing else may have changed since."""
    work = board.work
    for at in range(work.base[job + 1] - 1, work.base[job] - 1, -1):
        node = work.place[at]
        restore(board.profile, node, work.mark[at])
        restore(board.profile, node, work.kept_mark[at])
    work.state[job] = KEPT


@compiled
def placed_now(board: Board, job: int, now: int) -> bool:
    """Whether there is room now and for the whole span; the nodes are in its places then."""
    profile, work = board.profile, board.work
    shape = work.shape[job]
    need, span = board.shapes.need[shape], work.span[job]
    at, end = work.base[job], work.base[job + 1]
    for node in board.scratch.order:
        if at == end:
            break
        if not board.shapes.allowed[shape, node] or not fits(profile.free[node], need):
            continue
        if profile.first[node] == NONE or holds(profile, node, need, (now, span)):
            work.place[at] = node
            at += 1
    return bool(at == end)


@compiled
def placed_later(board: Board, job: int, now: int) -> int:
    """The earliest start by the plan, or NEVER; the nodes are in its places then.

    Before the moment at which enough nodes have their next hole there cannot be enough of them, so the search
    goes on from there. It ends: each step is at a later change of the profile.
    """
    profile, work, scratch = board.profile, board.work, board.scratch
    shape = work.shape[job]
    need, span, wanted = board.shapes.need[shape], work.span[job], board.shapes.nodes[shape]
    start = max(now, work.first_at[job])
    nodes = len(scratch.when)
    if wanted > nodes:
        return NEVER
    for _ in range(len(profile.when) + 2):
        there = 0
        for node in range(nodes):
            scratch.when[node] = NEVER
            if board.shapes.allowed[shape, node]:
                scratch.when[node] = earliest(profile, node, need, (start, span))
                there += scratch.when[node] == start
        if there >= wanted:
            at, end = work.base[job], work.base[job + 1]
            for node in scratch.order:
                if at < end and scratch.when[node] == start:
                    work.place[at] = node
                    at += 1
            return int(start)
        start = scratch.when[0] if nodes == 1 else np.partition(scratch.when, wanted - 1)[wanted - 1]
        if start == NEVER:
            return NEVER
    return NEVER


@compiled
def one_pass(board: Board, order: Ints, now: int, way: Way) -> tuple[int, int]:
    """Jobs in their order; returns how many began and for how many room is kept, both told in the scratch."""
    work, scratch = board.work, board.scratch
    scratch.hopeless[:] = NEVER
    began = kept = 0
    for job in order:
        shape = work.shape[job]
        if work.first_at[job] <= now and work.span[job] < scratch.hopeless[shape]:
            if placed_now(board, job, now):
                begin(board, job, now)
                scratch.began[began] = job
                began += 1
                if work.brief[job] and not kept:
                    finish(board, job)
                continue
            scratch.hopeless[shape] = work.span[job]
        if kept < way.keep:
            when = placed_later(board, job, now)
            if when != NEVER:
                keep(board, job, when)
                scratch.kept[kept] = job
                kept += 1
        if not way.past:
            break
    return began, kept
