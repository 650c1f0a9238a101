"""Start-time estimates told day by day on waits of the past, and the plain ways beside them.

Waits come in, with the moment from which on they are told; how well what was told held goes out. On each day
only jobs that had started by then are known, of their waits as of what was told of them.
"""

from __future__ import annotations

import numpy as np

from glidepath.core.schedule.compiled import Floats
from glidepath.core.schedule.eta import (
    CONFIDENCE,
    Calibration,
    Ranges,
    Record,
    calibration,
    learnt,
    ranges,
    stretch,
)
from glidepath.sim.rerun.graham import Waits

TEST_SHARE = 0.3
# Days before the test that are told as well, so that it is known by then how ranges hold.
WARM_DAYS = 5


def told_by_day(waits: Waits, split: float) -> Calibration:
    return calibration(record_by_day(waits, split))


def record_by_day(waits: Waits, split: float, warm_days: int = WARM_DAYS) -> Record:
    """What is told from the split on; the days before it are told for the stretch and left out."""
    record = Record.empty()
    days = np.unique(waits.asked.at)
    first = int(np.searchsorted(days, split))
    for now in days[max(0, first - warm_days) :]:
        today = waits.asked.at == now
        asked = waits.asked.rows(today)
        forest = learnt(waits.asked, waits.wait_s, now=now)
        found = ranges(forest, asked, stretched=stretch(record, now=now))
        record = record.told(asked.at, found, waits.wait_s[today])
    return Record(*(column[record.at >= split] for column in record))


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
    return calibration(Record.empty().told(at, told, waits.wait_s[test]))
