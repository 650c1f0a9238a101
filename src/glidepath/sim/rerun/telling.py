"""Start-time estimates told on waits of the past, learnt once or day by day, and the plain ways beside them.

Waits come in, with the moment from which on they are told; how well what was told held goes out. Learnt once,
only jobs that had started before that moment are known; day by day, those that had started by the day. So it
is with what was told of them.
"""

from __future__ import annotations

import numpy as np

from glidepath.core.schedule.compiled import Floats
from glidepath.core.schedule.eta import (
    CONFIDENCE,
    Calibration,
    Ranges,
    Told,
    calibration,
    learnt,
    ranges,
    stretch,
)
from glidepath.core.schedule.forest import Forest
from glidepath.sim.rerun.graham import DAY_S, Waits

TEST_SHARE = 0.3
# Days before the test that are told as well, so that it is known by then how ranges hold.
WARM_DAYS = 5


def told_once(waits: Waits, split: float) -> Calibration:
    return calibration(tellings_once(waits, split))


def tellings_once(waits: Waits, split: float) -> Told:
    """With trees grown once, at the split, and the stretch known by then.

    How ranges hold is known from the days before, told in the same way: by trees grown once, before them.
    """
    days = np.unique(waits.asked.at)
    warm = float(days[max(0, int(np.searchsorted(days, split)) - WARM_DAYS)])
    record = Told.nothing()
    for begin, end in ((warm, split), (split, np.inf)):
        stretched = stretch(record, now=begin)
        jobs = np.flatnonzero((waits.asked.at >= begin) & (waits.asked.at < end))
        asked = waits.asked.rows(jobs)
        forest = learnt(waits.asked, waits.wait_s, now=begin)
        found = ranges(forest, asked, stretched=stretched)
        record = record.plus(asked.at, found, waits.wait_s[jobs])
    return Told(*(column[record.at >= split] for column in record))


def told_by_day(waits: Waits, split: float) -> Calibration:
    return calibration(tellings_by_day(waits, split))


def told_as_submitted(waits: Waits, split: float) -> Calibration:
    """The same, with nothing learnt from jobs that started after the job asked about was submitted."""
    return calibration(tellings_by_day(waits, split, as_submitted=True))


def tellings_by_day(waits: Waits, split: float, *, as_submitted: bool = False) -> Told:
    """What is told from the split on; the days before it are told for the stretch and left out.

    A job is told with the trees of the noon it was asked about, or of the last noon before it was submitted.
    """
    record = Told.nothing()
    days = np.unique(waits.asked.at)
    first = max(0, int(np.searchsorted(days, split)) - WARM_DAYS)
    # Older than the first noon means that nothing was known yet.
    moments = np.concatenate(([days[0] - DAY_S], days))
    forests: dict[float, Forest] = {}
    for now in days[first:]:
        today = np.flatnonzero(waits.asked.at == now)
        born = waits.submit[today] if as_submitted else waits.asked.at[today]
        known_at = moments[np.maximum(0, np.searchsorted(moments, born, side="right") - 1)]
        before = record
        for moment in np.unique(known_at):
            if moment not in forests:
                forests[moment] = learnt(waits.asked, waits.wait_s, now=moment)
            jobs = today[known_at == moment]
            asked = waits.asked.rows(jobs)
            found = ranges(forests[moment], asked, stretched=stretch(before, now=moment))
            record = record.plus(asked.at, found, waits.wait_s[jobs])
    return Told(*(column[record.at >= split] for column in record))


def constant(waits: Waits, split: float) -> Calibration:
    """One range for all: that of the jobs that started before the split."""
    return grouped(waits, split, columns=())


def grouped(waits: Waits, split: float, columns: tuple[int, ...] = (0, 1)) -> Calibration:
    """The median and the range of jobs with the same limit and processors, where thirty are known."""
    before = waits.asked.at + waits.wait_s < split
    test = waits.asked.at >= split
    known = np.log(np.maximum(waits.wait_s[before], 1.0))
    tail = (1 - CONFIDENCE) / 2
    levels = (tail, 0.5, 1 - tail)
    found = np.tile(np.quantile(known, levels), (int(test.sum()), 1))
    if columns:
        picked = waits.asked.features[:, list(columns)]
        _, group = np.unique(picked, axis=0, return_inverse=True)
        group = group.reshape(-1)
        for number in np.unique(group[test]):
            like = known[group[before] == number]
            if len(like) >= 30:
                found[group[test] == number] = np.quantile(like, levels)
    low, likely, high = np.exp(found).T
    told = Ranges(low, likely, high, np.zeros(len(low), np.int64), CONFIDENCE, 1.0)
    at: Floats = waits.asked.at[test]
    return calibration(Told.nothing().plus(at, told, waits.wait_s[test]))
