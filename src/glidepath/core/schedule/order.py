"""In which order waiting jobs are looked at, and what is learnt for it from the jobs that have ended.

`steady`, the default: a job gains by waiting and loses by its size and by how long jobs like it ran, and a
job that much later work has passed goes first. The published rules are here for comparison. Run times come
only from the past: of the same user, limit and size, else of the same user and limit, else of the user, else
of everybody, each leaning on the wider one while it knows little.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import Floats, Ints, compiled, lean

HOUR_S = 3600.0
DAY_S = 86400.0
# What the last job of a group says beside all before it; people change what they run within a few jobs.
FADES = 0.7
# The wider group counts as much as this many jobs of the narrower one.
LEANS = 1.0
# Work of later jobs, in days of the whole machine, after which a job goes first.
PASSED_DAYS_MAX = 1.0


class Kind(IntEnum):
    ARRIVAL = 0  # first come, first served
    KEY = 1  # a number that each job has from the start, smallest first
    STEADY = 2
    WAIT_OVER_LIMIT = 3  # WFP3: the cube of wait over limit, times the size


class Lore(NamedTuple):
    """What an order needs to know of jobs, as columns."""

    submit: Ints  # [job]
    limit: Ints  # [job]
    size: Floats  # [job] in processors, or as many as its largest share is worth
    key: Floats  # [job] for orders by a fixed number
    group: Ints  # [level, job] from everybody to the narrowest
    weight: Floats  # [group]
    ratio: Floats  # [group] sum of run time over limit
    expected: Floats  # [job] run time, by what was known at the last look
    passed: Floats  # [job] work of later jobs that began before it
    passed_max: Floats  # [0] from which on it goes first


def lore_of(submit: Ints, limit: Ints, size: Ints, *, group: Ints, capacity: int) -> Lore:
    count = len(submit)
    groups = int(group.max()) + 1 if group.size else 1
    return Lore(
        submit=submit,
        limit=limit,
        size=size.astype(np.float64),
        key=np.zeros(count),
        group=group,
        weight=np.zeros(groups),
        ratio=np.zeros(groups),
        expected=limit.astype(np.float64),
        passed=np.zeros(count),
        passed_max=np.array([PASSED_DAYS_MAX * DAY_S * capacity]),
    )


@lean
def expect(lore: Lore, job: int) -> None:
    """How long a job is thought to run by now: its limit, times what such jobs used of theirs.

    It is asked again at every look: when the first of a hundred like it ends, the others are known better.
    """
    ratio = 1.0
    for level in range(len(lore.group)):
        group = lore.group[level, job]
        ratio = (lore.ratio[group] + LEANS * ratio) / (lore.weight[group] + LEANS)
    lore.expected[job] = max(1.0, ratio * lore.limit[job])


@lean
def learn(lore: Lore, job: int, run_s: int) -> None:
    """A job has ended after so long."""
    ratio = min(1.0, max(run_s, 1) / lore.limit[job])
    for level in range(len(lore.group)):
        group = lore.group[level, job]
        fades = 0.999 if level == 0 else FADES
        lore.weight[group] = lore.weight[group] * fades + 1.0
        lore.ratio[group] = lore.ratio[group] * fades + ratio


@lean
def note_start(lore: Lore, job: int, waiting: Ints) -> None:
    """A job begins; those of the waiting that came before it were passed."""
    work = lore.expected[job] * lore.size[job]
    for other in waiting:
        if other >= job:
            break
        lore.passed[other] += work


@compiled
def ranked(lore: Lore, waiting: Ints, now: int, kind: int) -> Ints:
    """The waiting, given in order of arrival, in the order of the rule; ties by arrival."""
    if kind == 0:
        return waiting
    count = len(waiting)
    keys = np.empty(count)
    for at in range(count):
        job = waiting[at]
        if kind == 1:
            keys[at] = lore.key[job]
        elif kind == 2:
            expect(lore, job)
            keys[at] = -standing(lore, job, now)
        else:
            share = (now - lore.submit[job]) / lore.limit[job]
            keys[at] = -share * share * share * lore.size[job]
    order = waiting[np.argsort(keys, kind="mergesort")]
    if kind == 2:
        _passed_first(lore, waiting, order)
    return order


@lean
def standing(lore: Lore, job: int, now: int) -> float:
    """A job's place by `steady`, larger is sooner: what it waited, over how long and how much it takes."""
    waited = 1.0 + (now - lore.submit[job]) / HOUR_S
    return float(waited * np.sqrt(waited) / (lore.expected[job] * np.sqrt(lore.size[job])))


@lean
def _passed_first(lore: Lore, waiting: Ints, order: Ints) -> None:
    """The first to come of those that too much was let past goes to the front."""
    for job in waiting:
        if lore.passed[job] > lore.passed_max[0]:
            at = 0
            while order[at] != job:
                at += 1
            while at > 0:
                order[at] = order[at - 1]
                at -= 1
            order[0] = job
            return
