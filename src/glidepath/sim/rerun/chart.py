"""The numbers of a picture of a rerun: a log and its starts come in, means, waits and places go out.

It knows nothing of drawing. Times are those of the log, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glidepath.core.schedule.compiled import Floats, Ints
from glidepath.sim.rerun.trace import Trace

# From the first processor of a part to behind its last.
Part = tuple[int, int]


@dataclass(frozen=True)
class SizeClass:
    """Jobs of like size, and how long they waited."""

    procs_min: int
    procs_max: int
    jobs: int
    wait_s_median: int
    wait_s_p95: int

    def __str__(self) -> str:
        if self.procs_min == self.procs_max:
            return f"{self.procs_min:,}"
        return f"{self.procs_min:,}–{self.procs_max:,}"


def means(begin: Ints, end: Ints, amount: Ints, edges: Ints) -> Floats:
    """What is there between two edges on average, where each amount is there from its begin to its end."""
    when = np.concatenate((begin, end))
    order = np.argsort(when, kind="stable")
    when = when[order]
    level = np.cumsum(np.concatenate((amount, -amount))[order])
    # What has come together by each instant; in between it grows evenly, so that no sampling is needed.
    total = np.concatenate(([0], np.cumsum(level[:-1] * np.diff(when))))
    return np.asarray(np.diff(np.interp(edges, when, total)) / np.diff(edges))


def edges_of(trace: Trace, starts: Sequence[Ints], parts: int) -> Ints:
    """Even parts from the first submission to the last end under any of the rules, a second at least each."""
    first = int(trace.submit.min())
    last = max(int((start + trace.run).max()) for start in starts)
    step = max(1, -(-(last - first) // parts))
    return np.arange(first, max(last, first + 1) + step, step, dtype=np.int64)


def by_size(trace: Trace, start: Ints) -> list[SizeClass]:
    """One class for each power of two: 1, 2, 3 to 4, 5 to 8 and so on; those without jobs are left out."""
    wait = start - trace.submit
    found = []
    high = 1
    while high < 2 * int(trace.procs.max()):
        low = high // 2 + 1
        waits = np.sort(wait[(trace.procs >= low) & (trace.procs <= high)])
        if count := len(waits):
            median, p95 = (int(waits[int(part * (count - 1))]) for part in (0.5, 0.95))
            found.append(SizeClass(low, high, count, median, p95))
        high *= 2
    return found


def busiest(trace: Trace, start: Ints, span_s: int) -> int:
    """When that span begins in which the processors do most, of spans in a row from the first submission."""
    first, last = int(trace.submit.min()), int((start + trace.run).max())
    edges = np.arange(first, max(last, first + 1) + span_s, span_s, dtype=np.int64)
    return int(edges[np.argmax(means(start, start + trace.run, trace.procs, edges))])


def places(begin: Ints, end: Ints, procs: Ints, *, processors: int) -> list[list[Part]]:
    """Which processors each job has, so that no two have one at the same time; jobs in order of their begin.

    The lowest part that holds all of a job, else the lowest processors that are free, in several parts. A
    rule counts processors and does not choose them, so this is one way of many.
    """
    free: list[Part] = [(0, processors)]
    running: list[tuple[int, list[Part]]] = []
    found: list[list[Part]] = []
    for at, until, wanted in zip(begin.tolist(), end.tolist(), procs.tolist(), strict=True):
        ended = [parts for over, parts in running if over <= at]
        running = [each for each in running if each[0] > at]
        free = _joined([*free, *(part for parts in ended for part in parts)])
        taken = _taken(free, wanted)
        free = _without(free, taken)
        running.append((until, taken))
        found.append(taken)
    return found


def _joined(parts: list[Part]) -> list[Part]:
    """Parts in order, those that touch as one."""
    found: list[Part] = []
    for low, high in sorted(parts):
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def _taken(free: list[Part], wanted: int) -> list[Part]:
    for low, high in free:
        if high - low >= wanted:
            return [(low, low + wanted)]
    found, left = [], wanted
    for low, high in free:
        count = min(left, high - low)
        if count:
            found.append((low, low + count))
            left -= count
    assert not left, "more processors run than there are"
    return found


def _without(free: list[Part], taken: list[Part]) -> list[Part]:
    """Each part that was taken is the beginning of one that was free."""
    ends = dict(taken)
    rest = [(ends.get(low, low), high) for low, high in free]
    return [(low, high) for low, high in rest if low < high]
