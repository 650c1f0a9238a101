"""Start-time estimates: what they may know, what they say when they know little, how well they hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.core.schedule.compiled import Floats
from glidepath.core.schedule.eta import (
    Asked,
    Calibration,
    Ranges,
    Told,
    calibration,
    learnt,
    ranges,
    stretch,
)
from glidepath.sim.rerun.graham import GrahamError, split_of, waits_of
from glidepath.sim.rerun.telling import TEST_SHARE, constant, told_by_day
from schedule.logs import FOLDER, PUBLIC

GRAHAM = "mila-slurm-graham-2021-0506-waits.csv.gz"
DAY_S = 86400.0
NOTHING_S = np.zeros(0)


def asked_of(features: Floats, at: Floats | None = None, batch: list[int] | None = None) -> Asked:
    count = len(features)
    moments = np.zeros(count) if at is None else at
    return Asked.of(moments, features, np.array(batch or range(count)))


def queue(seed: int, jobs: int) -> tuple[Asked, Floats]:
    """A steady queue: the wait doubles with each step of the first column, and is otherwise chance."""
    draw = np.random.default_rng(seed)
    features = np.column_stack((draw.integers(0, 6, jobs), draw.random(jobs)))
    at = np.sort(draw.random(jobs) * 10 * DAY_S)
    return asked_of(features, at), 600 * 2.0 ** features[:, 0] * draw.lognormal(0, 0.6, jobs)


def alone(count: int, *, by_limits_s: float | None = None, by_expected_s: float | None = None) -> Ranges:
    """What is told when nothing was ever learnt."""
    plan = [None if wait is None else np.full(count, wait) for wait in (by_limits_s, by_expected_s)]
    asked = Asked.of(
        np.zeros(count), np.ones((count, 2)), np.arange(count), by_limits_s=plan[0], by_expected_s=plan[1]
    )
    none = asked_of(np.zeros((0, 2)))
    return ranges(learnt(none, NOTHING_S, now=0.0), asked)


def test_ranges_of_a_steady_queue_hold_as_often_as_they_say() -> None:
    past, wait_s = queue(1, 4000)
    new, came_s = queue(2, 2000)
    told = ranges(learnt(past, wait_s, now=30 * DAY_S), new)
    found = calibration(Told.nothing().plus(new.at, told, came_s))
    assert 0.75 <= found.inside <= 0.87
    # Chance alone has a range of 1.54 in logarithms and lets 75 % of the best guesses be within two times.
    assert found.width < 2.3
    assert found.within_2 > 0.6


def test_an_estimate_follows_what_the_wait_depends_on() -> None:
    past, wait_s = queue(1, 4000)
    told = ranges(learnt(past, wait_s, now=30 * DAY_S), asked_of(np.array([[0, 0.5], [5, 0.5]])))
    assert told.likely_s[1] > 10 * told.likely_s[0]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e9)), max_size=60),
    st.floats(0.05, 0.99),
    st.floats(0.25, 4.0),
)
def test_the_likely_wait_lies_in_its_range(
    jobs: list[tuple[int, float]], confidence: float, stretched: float
) -> None:
    past = asked_of(np.array([[float(job[0])] for job in jobs]).reshape(-1, 1))
    forest = learnt(past, np.array([job[1] for job in jobs]), now=2e9)
    told = ranges(
        forest, asked_of(np.array([[0.0], [2.0], [np.nan]])), stretched=stretched, confidence=confidence
    )
    for job in range(3):
        one = told.one(job)
        assert 0 <= one.low_s <= one.likely_s <= one.high_s < np.inf
        assert one.confidence == confidence
        assert 0 <= one.from_jobs <= len(jobs)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 1e7))
def test_the_future_changes_nothing(seed: int, other_s: float) -> None:
    past, wait_s = queue(seed, 200)
    now = 5 * DAY_S
    later = past.at + wait_s >= now
    changed = np.where(later, np.maximum(now - past.at, 0) + other_s, wait_s)
    new = asked_of(np.array([[1.0, 0.5], [4.0, 0.1]]))
    first, second = (ranges(learnt(past, waits, now=now), new) for waits in (wait_s, changed))
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
    told = ranges(learnt(past, wait_s, now=0.0), past)
    records = [Told.nothing().plus(past.at, told, waits) for waits in (wait_s, changed)]
    assert stretch(records[0], now=now) == stretch(records[1], now=now)


def test_the_same_jobs_give_the_same_ranges() -> None:
    past, wait_s = queue(3, 500)
    first, second = (ranges(learnt(past, wait_s, now=30 * DAY_S), past) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_who_knows_nothing_says_so() -> None:
    told = alone(1).one(0)
    assert told.from_jobs == 0
    assert told.high_s > 1e6 * max(1.0, told.low_s)


def test_without_history_the_plan_is_told_with_doubt() -> None:
    told = alone(1, by_limits_s=7200.0, by_expected_s=1800.0).one(0)
    assert told.from_jobs == 0
    assert told.low_s < 1800 / 1.5
    assert 1000 < told.likely_s < 3600
    assert told.high_s > 3600
    by_limits = alone(1, by_limits_s=7200.0).one(0)
    assert 3600 < by_limits.likely_s < 10000


def test_a_plan_that_is_always_half_is_learnt() -> None:
    draw = np.random.default_rng(5)
    plan_s = 60 * 2.0 ** draw.uniform(0, 8, 1500)
    at, none = np.zeros(1500), np.zeros((1500, 0))
    asked = Asked.of(at, none, np.arange(1500), by_expected_s=plan_s)
    told = ranges(learnt(asked, 2 * plan_s, now=1e9), asked)
    assert calibration(Told.nothing().plus(at, told, 2 * plan_s)).within_2 > 0.95


@pytest.mark.parametrize(("off", "expected"), [(1.0, 1.0), (16.0, 2.0)])
def test_ranges_that_missed_are_stretched(off: float, expected: float) -> None:
    """Told from a half to two times; what came lies at the end of that, or four doublings off."""
    count = 400_000
    likely = np.full(count, 1000.0)
    told = Ranges(likely / 4, likely, likely * 4, np.ones(count, np.int64), 0.8, 1.0)
    came = likely * (4.0 if off == 1.0 else off)
    record = Told.nothing().plus(np.zeros(count), told, came)
    assert stretch(record, now=DAY_S) == pytest.approx(expected, rel=0.02)
    assert stretch(record, now=1.0) == 1.0  # Nothing has come yet.
    assert stretch(record, now=99 * DAY_S) == 1.0  # Too long ago.


def test_calibration_is_counted_as_it_says() -> None:
    told = Ranges(*(np.full(4, s) for s in (50.0, 100.0, 200.0)), np.ones(4, np.int64), 0.8, 1.0)
    record = Told.nothing().plus(np.zeros(4), told, np.array([40.0, 100.0, 190.0, 400.0]))
    expected = Calibration(4, 0.5, 0.5, 0.75, float(np.log(4.0)), 60.0, 195.0)
    assert calibration(record) == pytest.approx(expected)
    assert calibration(record.known(150.0)).told == 2
    assert calibration(Told.nothing()).told == 0


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("wait_s", [-1.0, NAN, INF])
def test_waits_that_cannot_be_are_refused(wait_s: float) -> None:
    with pytest.raises(ValueError, match="a wait is negative or not a number"):
        learnt(asked_of(np.zeros((1, 1))), np.array([wait_s]), now=1.0)
    with pytest.raises(ValueError, match="a wait is negative or not a number"):
        Told.nothing().plus(np.zeros(1), alone(1), np.array([wait_s]))


@pytest.mark.parametrize(
    ("at", "features", "plan_s", "message"),
    [
        (NAN, 0.0, 1.0, "the moment of asking"),
        (0.0, INF, 1.0, "a feature is infinite"),
        (0.0, 0.0, -1.0, "a planned wait is negative"),
        (0.0, 0.0, INF, "a planned wait is negative or infinite"),
    ],
)
def test_questions_that_cannot_be_are_refused(
    at: float, features: float, plan_s: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Asked.of(np.array([at]), np.array([[features]]), np.zeros(1), by_limits_s=np.array([plan_s]))


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one row for each job"):
        Asked.of(np.zeros(2), np.zeros((1, 1)), np.zeros(2))
    with pytest.raises(ValueError, match="for every job"):
        learnt(asked_of(np.zeros((2, 1))), np.zeros(1), now=1.0)
    with pytest.raises(ValueError, match="for every range"):
        Told.nothing().plus(np.zeros(2), alone(1), np.zeros(2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        ranges(
            learnt(asked_of(np.zeros((0, 1))), NOTHING_S, now=0.0), asked_of(np.ones((1, 1))), confidence=1.0
        )


HEAD = (
    "job_unique_id,submit_time,start_time,end_time,time_limit_sec,run_time_sec,req_cpus,req_mem_total,"
    "account_id,poll_time,poll_wait_sec,q_jobs_above,q_cores_above,q_core_hours_above,r_jobs_above,"
    "r_cores_above,r_core_hours_above,req_tres"
)
ROW = (
    "7,2021-05-01 11:00:00,2021-05-02 13:00:00,2021-05-02 14:00:00,7200,3600,4,4096,9,{},{},0,0,0,5,50,500,"
    '"billing=4,cpu=4,gres/gpu=2,mem=4096M,node=1"'
)


def written(folder: Path, *rows: str) -> Path:
    path = folder / "waits.csv.gz"
    path.write_bytes(gzip.compress("\n".join((HEAD, *rows, "")).encode()))
    return path


def test_a_job_of_the_log_is_asked_about_once_on_its_first_day(tmp_path: Path) -> None:
    days = (("2021-05-02 12:00:00", "3600"), ("2021-05-01 12:00:00", "90000"))
    found = waits_of(written(tmp_path, *(ROW.format(*day) for day in days)))
    assert found.wait_s.tolist() == [90000.0]
    assert (found.asked.at - found.submit).tolist() == [3600.0]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (ROW.format("yesterday", "5"), 3),
        (ROW.format("2021-05-01 12:00:00", "-5"), 3),
        (ROW.format("2021-05-01 12:00:00", "nan"), 3),
        ("7,2021-05-01 11:00:00", 3),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path, row: str, line: int) -> None:
    path = written(tmp_path, ROW.format("2021-05-01 12:00:00", "90000"), row)
    with pytest.raises(GrahamError, match=f"waits.csv.gz:{line}: "):
        waits_of(path)


def test_a_log_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GrahamError, match="there are no rows"):
        waits_of(written(tmp_path))


if PUBLIC:

    def test_starts_on_graham_are_told_as_well_as_promised_by_what_is_known_at_noon() -> None:
        waits = waits_of(FOLDER / GRAHAM)
        split = split_of(waits, TEST_SHARE)
        found, plain = told_by_day(waits, split), constant(waits, split)
        assert found.within_2 >= 0.45
        assert found.within_3 >= 0.62
        assert 0.75 <= found.inside <= 0.85
        assert found.width <= 0.7 * plain.width
