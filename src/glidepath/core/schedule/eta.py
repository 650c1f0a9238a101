"""When a waiting job will start: a range with a stated confidence, learnt from the waits of jobs before it.

What was known of jobs when they were asked about comes in, with how long they then waited and, where there
is a plan, the start that it gives; ranges go out, and how well those of the past held. Only jobs that had
started before `now` are learnt from, whatever else is handed in. It does not know what the numbers mean, and
a range is no promise: nothing is kept free for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from glidepath.core.schedule.compiled import Bools, Floats, Ints
from glidepath.core.schedule.forest import CELLS, STEPS, Forest, cell_of, forest_of, middle_s, spread

CONFIDENCE = 0.8
# What is thought before anything is known counts as much as this many jobs.
LEANS_JOBS = 20
# How much of that is spread over all waits when there is a plan: plans err, and more than they say.
PLAN_DOUBT = 0.1
# Ranges are stretched by what the last told ones missed. A day of estimates has one weather, so that it takes
# some days of them to say much; older ones than this count for nothing.
RECENT_S = 10 * 86400.0
STRETCH_LEANS_JOBS = 2000
STRETCH_MIN, STRETCH_MAX = 0.25, 4.0
# The likeliest wait is where most of the spread lies within about two and three times, both ways.
_NEAR = np.convolve(np.ones(2 * STEPS + 1), np.ones(3 * STEPS))


class Asked(NamedTuple):
    """What was known of jobs at the moment an estimate was asked for, as columns."""

    at: Floats  # [job] seconds
    features: Floats  # [job, column] as the caller means them; NaN is not known
    batch: Ints  # [job] the same number for jobs that are alike and came together
    by_limits_s: Floats  # [job] wait by a plan that counts with limits; NaN without one
    by_expected_s: Floats  # [job] wait by a plan that counts with expected run times; NaN without one

    @classmethod
    def of(
        cls,
        at: Floats,
        features: Floats,
        batch: Ints,
        *,
        by_limits_s: Floats | None = None,
        by_expected_s: Floats | None = None,
    ) -> Self:
        """Checked; raises ValueError with what is wrong."""
        none = np.full(len(at), np.nan)
        found = cls(
            np.asarray(at, np.float64),
            np.asarray(features, np.float64),
            np.asarray(batch, np.int64),
            none if by_limits_s is None else np.asarray(by_limits_s, np.float64),
            none if by_expected_s is None else np.asarray(by_expected_s, np.float64),
        )
        if found.features.ndim != 2 or {len(column) for column in found} != {len(at)}:
            raise ValueError("every column must have one row for each job, the features two dimensions")
        if not np.isfinite(found.at).all():
            raise ValueError("the moment of asking must be a finite number of seconds")
        if np.isinf(found.features).any():
            raise ValueError("a feature is infinite; what is not known is NaN")
        for plan in (found.by_limits_s, found.by_expected_s):
            if (plan < 0).any() or np.isinf(plan).any():
                raise ValueError("a planned wait is negative or infinite; without a plan it is NaN")
        return found

    def rows(self, kept: Bools | Ints) -> Asked:
        columns: list[Any] = [column[kept] for column in self]
        return Asked(*columns)

    def numbers(self) -> Floats:
        """All that a tree may ask for: the features, and the two plans as two more."""
        return np.column_stack((self.features, self.by_limits_s, self.by_expected_s))


class Range(NamedTuple):
    """How long a job is still thought to wait."""

    low_s: float
    likely_s: float
    high_s: float
    confidence: float  # the share of such ranges that should hold what comes
    from_jobs: int  # like this one; few of them make a wide range


class Ranges(NamedTuple):
    """The same for many jobs, as columns, and by how much they were stretched."""

    low_s: Floats
    likely_s: Floats
    high_s: Floats
    from_jobs: Ints
    confidence: float
    stretched: float

    def one(self, job: int) -> Range:
        low_s, likely_s, high_s = (float(end[job]) for end in (self.low_s, self.likely_s, self.high_s))
        return Range(low_s, likely_s, high_s, self.confidence, int(self.from_jobs[job]))


class Told(NamedTuple):
    """What was told, as columns, and how long the wait then was."""

    at: Floats  # [told]
    low_s: Floats
    likely_s: Floats
    high_s: Floats
    stretched: Floats
    wait_s: Floats

    @classmethod
    def nothing(cls) -> Self:
        return cls(*(np.zeros(0) for _ in cls._fields))

    def plus(self, at: Floats, ranges: Ranges, wait_s: Floats) -> Told:
        """With what was told at these moments; a wait counts from its end on, not before (`known`)."""
        _waits_checked(wait_s)
        if len(at) != len(ranges.low_s) or len(at) != len(wait_s):
            raise ValueError("a moment and a wait are needed for every range that was told")
        stretched = np.full(len(at), ranges.stretched)
        new = (at, ranges.low_s, ranges.likely_s, ranges.high_s, stretched, wait_s)
        return Told(*(np.concatenate(pair) for pair in zip(self, new, strict=True)))

    def known(self, now: float) -> Told:
        """What has come before `now`."""
        kept = self.at + self.wait_s < now
        return Told(*(column[kept] for column in self))


class Calibration(NamedTuple):
    """How well told ranges held; shares are NaN of nothing."""

    told: int
    inside: float  # share of waits within their range
    within_2: float  # share of likely waits that were off by two times at most
    within_3: float
    width: float  # median of the logarithm of high over low
    early_s: float  # median by which a job started before its likely start, of those that did
    late_s: float  # and after


def learnt(asked: Asked, wait_s: Floats, *, now: float) -> Forest:
    """From jobs that started before `now`; others are passed over, so that the future cannot be known."""
    wait_s = np.asarray(wait_s, np.float64)
    _waits_checked(wait_s)
    if len(wait_s) != len(asked.at):
        raise ValueError("a wait is needed for every job that was asked about")
    kept = asked.at + wait_s < now
    past = asked.rows(kept)
    return forest_of(past.numbers(), wait_s[kept], past.batch)


def ranges(forest: Forest, asked: Asked, *, stretched: float = 1.0, confidence: float = CONFIDENCE) -> Ranges:
    """For each job the shortest range that holds the confidence's share of the waits of like jobs."""
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1, both excluded")
    shares, jobs = spread(forest, asked.numbers())
    leans = LEANS_JOBS / (LEANS_JOBS + forest.jobs)
    shares = (1 - leans) * shares + leans * _unlearnt(asked)
    likely = _likely(shares)
    low, high = _shortest(shares, confidence)
    # From the near edge of the first cell to the far edge of the last, so that both sides can be stretched.
    low = likely - np.maximum(likely - low + 0.5, 0.5) * stretched
    high = likely + np.maximum(high - likely + 0.5, 0.5) * stretched
    ends = (
        np.where(low <= 0, 0.0, middle_s(low)),  # The first cell holds jobs that did not wait at all.
        middle_s(likely),
        middle_s(np.minimum(high, float(CELLS))),
    )
    return Ranges(*ends, jobs.astype(np.int64), confidence, stretched)


def stretch(record: Told, *, now: float, confidence: float = CONFIDENCE) -> float:
    """By how much the next ranges must be wider, or less than 1, for the last ones to have held as stated."""
    past = record.known(now)
    recent = past.at >= now - RECENT_S
    columns = (past.low_s, past.likely_s, past.high_s, past.wait_s)
    low, likely, high, wait = (np.log2(np.maximum(column[recent], 1.0)) for column in columns)
    missed_low = (likely - wait) / np.maximum(likely - low, 1e-9)
    missed_high = (wait - likely) / np.maximum(high - likely, 1e-9)
    # In units of ranges as they were before they were stretched.
    needed = np.maximum(missed_low, missed_high) * past.stretched[recent]
    if len(needed) == 0:
        return 1.0
    found = float(np.quantile(needed, confidence))
    leans = STRETCH_LEANS_JOBS / (STRETCH_LEANS_JOBS + len(needed))
    return min(STRETCH_MAX, max(STRETCH_MIN, (1 - leans) * found + leans))


def calibration(record: Told) -> Calibration:
    if len(record.at) == 0:
        return Calibration(0, *(float("nan"),) * 6)
    wait, likely = np.maximum(record.wait_s, 1.0), np.maximum(record.likely_s, 1.0)
    off = np.maximum(wait / likely, likely / wait)
    inside = (record.wait_s >= record.low_s) & (record.wait_s <= record.high_s)
    late = record.wait_s - record.likely_s
    return Calibration(
        told=len(wait),
        inside=float(inside.mean()),
        within_2=float((off <= 2).mean()),
        within_3=float((off <= 3).mean()),
        width=float(np.median(np.log(record.high_s / np.maximum(record.low_s, 1.0)))),
        early_s=float(np.median(-late[late < 0])) if (late < 0).any() else 0.0,
        late_s=float(np.median(late[late > 0])) if (late > 0).any() else 0.0,
    )


def _waits_checked(wait_s: Floats) -> None:
    if not np.isfinite(wait_s).all() or (np.asarray(wait_s) < 0).any():
        raise ValueError("a wait is negative or not a number of seconds")


def _unlearnt(asked: Asked) -> Floats:
    """Without history: around the plan where there is one, else anything.

    The start by expected run times is taken for the likeliest, and that by limits for about the latest.
    """
    flat = np.full((len(asked.at), CELLS), 1.0 / CELLS)
    peak_s = np.where(np.isnan(asked.by_expected_s), asked.by_limits_s, asked.by_expected_s)
    planned = ~np.isnan(peak_s)
    peak_s = np.where(planned, peak_s, 1.0)
    last_s = np.maximum(np.where(np.isnan(asked.by_limits_s), peak_s, asked.by_limits_s), peak_s)
    peak = cell_of(peak_s)[:, None]
    last = cell_of(last_s)[:, None] + STEPS
    grid = np.arange(CELLS)[None, :]
    first = peak - 2 * STEPS
    hill = np.where(grid <= peak, (grid - first) / (2.0 * STEPS), (last - grid) / (last - peak))
    hill = np.maximum(hill, 0.0) + 1e-12
    hill = (1 - PLAN_DOUBT) * hill / hill.sum(axis=1, keepdims=True) + PLAN_DOUBT * flat
    return np.asarray(np.where(planned[:, None], hill, flat), np.float64)


def _likely(shares: Floats) -> Floats:
    """The cell about which most of the spread lies."""
    count, width = shares.shape[1], len(_NEAR)
    padded = np.pad(shares, ((0, 0), (width // 2, width // 2)))
    near = sum(_NEAR[at] * padded[:, at : at + count] for at in range(width))
    return np.asarray(np.argmax(near, axis=1), np.float64)


def _shortest(shares: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The first and the last cell of the fewest neighbours that hold so much; of equals the lowest."""
    below = np.concatenate((np.zeros((len(shares), 1)), np.cumsum(shares, axis=1)), axis=1)
    below /= below[:, -1:]
    first, last = np.zeros(len(shares), np.int64), np.full(len(shares), CELLS - 1)
    end = np.zeros(len(shares), np.int64)
    rows = np.arange(len(shares))
    for begin in range(CELLS):
        # The end only moves on, at most once through the grid for all beginnings together.
        for _ in range(CELLS):
            short = (end < CELLS) & (below[rows, end] - below[:, begin] < confidence - 1e-12)
            if not short.any():
                break
            end += short
        holds = below[rows, end] - below[:, begin] >= confidence - 1e-12
        better = holds & (end - 1 - begin < last - first)
        first[better], last[better] = begin, end[better] - 1
    return first.astype(np.float64), last.astype(np.float64)
