"""Conservative backfilling as it is pinned: every job has a place in the plan from the moment it comes.

A job that comes is put into the earliest hole of the plan; what has a place is never moved to a later one.
When a job ends before its limit, all places are looked at again in order of arrival, and each is moved to
the earliest hole that is not later than the one it has. Jobs whose time has come are started.
"""

from __future__ import annotations

import numpy as np

from glidepath.core.schedule.compiled import NEVER, Ints, compiled, lean
from glidepath.core.schedule.placing import RUNS, begin, keep, keep_again, placed_later, release
from glidepath.core.schedule.profile import fits
from glidepath.sim.rerun.run import Play, end_due, left_of, push


@compiled
def play_conservative(play: Play) -> None:
    board, _, log = play
    count = len(log.submit)
    waiting = np.empty(count, np.int64)
    queued = come = now = 0
    while come < count or log.running[0] or queued:
        now = _next_start(play, waiting[:queued], now)
        if come < count:
            now = min(now, log.submit[come])
        if log.running[0]:
            now = min(now, log.end[0])
        if end_due(play, now):
            _compress(play, waiting[:queued], now)
        while come < count and log.submit[come] <= now:
            keep(board, come, placed_later(board, come, now))
            waiting[queued] = come
            queued, come = queued + 1, come + 1
        while _begin_due(play, waiting[:queued], now):
            queued = left_of(board, waiting, queued)
            if end_due(play, now):
                _compress(play, waiting[:queued], now)


@lean
def _next_start(play: Play, waiting: Ints, now: int) -> int:
    """The next planned start; a job that runs past its limit may leave one without an event of its own."""
    due = NEVER
    for job in waiting:
        if now < play.board.work.at[job] < due:
            due = play.board.work.at[job]
    return int(due)


@lean
def _compress(play: Play, waiting: Ints, now: int) -> None:
    board = play.board
    for job in waiting:
        had = board.work.at[job]
        if had > now:
            release(board, job)
            found = placed_later(board, job, now)
            if found < had:
                keep(board, job, found)
            else:
                keep_again(board, job)


@lean
def _begin_due(play: Play, waiting: Ints, now: int) -> bool:
    """Start whose time has come, if there is room in truth; whether any did."""
    board, _, log = play
    work = board.work
    any_began = False
    for job in waiting:
        if work.at[job] > now or work.state[job] == RUNS:
            continue
        need = board.shapes.need[work.shape[job]]
        release(board, job)
        if fits(board.profile.free[0], need):
            begin(board, job, now)
            push(log, now + log.run[job], job)
            any_began = True
        else:
            # Somebody runs past its limit; the place stays the next one to be had.
            keep(board, job, now)
    return any_began
