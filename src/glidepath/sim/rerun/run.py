"""A log of jobs is played again in virtual time: jobs come and end, and after each instant one pass decides.

Columns of jobs and a rule come in, the start of each job goes out. At an instant jobs end first, then others
come, then one pass is made, and again while jobs end in that very instant. How long a job really runs is
known here and nowhere in the rule, which learns from the jobs that have ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, Floats, Ints, compiled, lean
from glidepath.core.schedule.order import Kind, Lore, learn, lore_of, note_start, ranked
from glidepath.core.schedule.placing import (
    KEPT,
    OVER,
    WAITS,
    Board,
    Shapes,
    Way,
    finish,
    one_pass,
    release,
    scratch_of,
    work_of,
)
from glidepath.core.schedule.profile import DEVICE_PARTS, profile_of
from glidepath.sim.rerun.trace import Trace


class Rule(NamedTuple):
    """How the waiting are ordered, and how the blocked are treated."""

    kind: int
    way: Way


class Log(NamedTuple):
    """What really happens, and who runs: a heap by the end."""

    submit: Ints
    run: Ints
    end: Ints
    job: Ints
    running: Ints  # [0] how many


class Play(NamedTuple):
    board: Board
    lore: Lore
    log: Log


def started(trace: Trace, processors: int, rule: Rule, key: Floats | None = None) -> Ints:
    """When each job of the trace starts on so many processors."""
    play = play_of(trace, processors, rule)
    if key is not None:
        play.lore.key[:] = key
    _play(play, rule)
    return play.board.work.at


def play_of(trace: Trace, processors: int, rule: Rule) -> Play:
    """One node with all processors, empty, and the jobs that will come."""
    sizes, shape = np.unique(trace.procs, return_inverse=True)
    need = np.zeros((len(sizes), 1 + DEVICE_PARTS), np.int64)
    need[:, 0] = sizes
    shapes = Shapes(
        need=need,
        total=need,
        nodes=np.ones(len(sizes), np.int64),
        kind=np.zeros(len(sizes), np.int64),
        allowed=np.ones((1, 1), np.bool_),
        order=np.zeros((1, 1), np.int64),
    )
    work = work_of(shape.reshape(-1), trace.limit, np.ones(len(trace), np.int64))
    work.brief[:] = trace.run == 0
    # Each running job has one change, each kept one two; no more than all processors can run at once.
    at_once = min(processors, len(trace)) + 1
    changes_max = at_once + 2 * min(len(trace), rule.way.keep) + 1
    profile = profile_of(np.array([[processors]]), changes_max)
    # Only an order that learns asks who belongs together.
    group = trace.groups() if rule.kind == Kind.STEADY else np.zeros((0, len(trace)), np.int64)
    lore = lore_of(trace.submit, trace.limit, trace.procs, group=group, capacity=processors)
    heap = (np.zeros(at_once, np.int64), np.zeros(at_once, np.int64), np.zeros(1, np.int64))
    board = Board(profile, shapes, work, scratch_of(profile, shapes, len(trace)))
    return Play(board, lore, Log(trace.submit, trace.run, *heap))


@compiled
def _play(play: Play, rule: Rule) -> None:
    board, lore, log = play
    count = len(log.submit)
    waiting = np.empty(count, np.int64)
    queued = come = 0
    while come < count or log.running[0]:
        now = log.submit[come] if come < count else NEVER
        if log.running[0]:
            now = min(now, log.end[0])
        end_due(play, now)
        while come < count and log.submit[come] <= now:
            waiting[queued] = come
            queued, come = queued + 1, come + 1
        again = True
        while again and queued:
            order = ranked(lore, waiting[:queued], now, rule.kind)
            began, kept = one_pass(board, order, now, rule.way)
            for at in range(kept):
                release(board, board.scratch.kept[at])
            again = _begun(play, waiting[:queued], began)
            if began:
                queued = left_of(board, waiting, queued)
            if again:
                end_due(play, now)


@lean
def _begun(play: Play, waiting: Ints, began: int) -> bool:
    """Note who began; whether one of them ends in this instant and holds its room until then."""
    board, lore, log = play
    work = board.work
    again = False
    for at in range(began):
        job = board.scratch.began[at]
        if len(lore.group):
            note_start(lore, job, waiting)
        if work.state[job] == OVER:
            learn(lore, job, 0)
        else:
            again = again or work.brief[job]
            push(log, work.at[job] + log.run[job], job)
    return again


@lean
def left_of(board: Board, waiting: Ints, queued: int) -> int:
    """The queue without those that began."""
    left = 0
    for at in range(queued):
        if board.work.state[waiting[at]] in (WAITS, KEPT):
            waiting[left] = waiting[at]
            left += 1
    return left


@lean
def end_due(play: Play, now: int) -> bool:
    """Who ends by now has ended; whether one of them did so at another time than its limit said."""
    board, lore, log = play
    odd = False
    while log.running[0] and log.end[0] <= now:
        job = pop(log)
        odd = odd or now != board.work.at[job] + board.work.span[job]
        finish(board, job)
        learn(lore, job, log.run[job])
    return odd


@lean
def push(log: Log, end: int, job: int) -> None:
    at = log.running[0]
    log.running[0] = at + 1
    while at and log.end[(at - 1) // 2] > end:
        above = (at - 1) // 2
        log.end[at], log.job[at] = log.end[above], log.job[above]
        at = above
    log.end[at], log.job[at] = end, job


@lean
def pop(log: Log) -> int:
    top = log.job[0]
    last = log.running[0] - 1
    log.running[0] = last
    end, job = log.end[last], log.job[last]
    at = 0
    while 2 * at + 1 < last:
        below = 2 * at + 1
        if below + 1 < last and log.end[below + 1] < log.end[below]:
            below += 1
        if log.end[below] >= end:
            break
        log.end[at], log.job[at] = log.end[below], log.job[below]
        at = below
    log.end[at], log.job[at] = end, job
    return int(top)
