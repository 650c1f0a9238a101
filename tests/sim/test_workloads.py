"""Generators: in order, repeatable from their seed, within their options, and each like its name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import islice, pairwise
from random import Random
from statistics import median
from typing import Any

import pytest

from glidepath.core.quantity import Owner, PoolName, Resources, Shape
from glidepath.sim.arrival import Arrival
from glidepath.sim.workloads import BOUNDS, KINDS, LARGE, MIDDLE, SMALL

SEEDS = range(5)
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))


def jobs_of(kind: str, seed: int = 1, **options: Any) -> list[Arrival]:
    made, arrivals = KINDS[kind]
    return list(arrivals(Random(seed), made(**options)))


@EVERY_KIND
def test_the_defaults_give_a_few_thousand_jobs_in_order_within_their_options(kind: str) -> None:
    options = KINDS[kind].options()
    for seed in SEEDS:
        jobs = jobs_of(kind, seed)
        times = [job.at for job in jobs]
        assert 2000 <= len(jobs) <= 5000
        assert times == sorted(times)
        assert times[0] >= 0
        assert times[-1] < options.span_s == 6 * 3600
        assert {job.pool for job in jobs} == set(options.pools)
        assert {job.shape for job in jobs} == set(options.shapes)
        assert {job.owner for job in jobs} == set(options.owners)
        assert {job.run_s_max for job in jobs} == {None}
        assert all(isinstance(job.at, int) and isinstance(job.run_s, int) for job in jobs)


@EVERY_KIND
def test_one_seed_gives_one_workload_and_another_seed_another(kind: str) -> None:
    assert jobs_of(kind, 1) == jobs_of(kind, 1)
    assert jobs_of(kind, 1) != jobs_of(kind, 2)


def test_the_order_of_hashes_changes_nothing() -> None:
    """Each kind in a new interpreter: only there is the hash of a string another one."""
    code = (
        "from random import Random; from zlib import crc32; from glidepath.sim.workloads import KINDS\n"
        "for name, kind in KINDS.items():\n"
        "    print(name, crc32(repr(list(kind.arrivals(Random(1), kind.options()))).encode()))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(told) == 1
    assert told.pop().count(b"\n") == len(KINDS)


@EVERY_KIND
def test_a_workload_of_ten_years_gives_its_first_jobs_at_once(kind: str) -> None:
    made, arrivals = KINDS[kind]
    jobs = list(islice(arrivals(Random(1), made(span_s=BOUNDS["span_s"][1])), 10))
    assert len(jobs) == 10


@EVERY_KIND
def test_the_options_that_all_kinds_share_are_kept(kind: str) -> None:
    gpu = Shape(Resources(4000, 8192, gpus=1), traits=(("gpu", "a100"),))
    given: dict[str, Any] = {
        "pools": (PoolName("east"), PoolName("west")),
        "owners": (Owner("zoe"),),
        "shapes": (SMALL, gpu),
        "run_s_low": 100,
        "run_s_median": 200,
        "run_s_high": 400,
        "limits": True,
    }
    jobs = jobs_of(kind, **given)
    assert {job.pool for job in jobs} == {"east", "west"}
    assert {job.owner for job in jobs} == {"zoe"}
    assert {job.shape for job in jobs} == {SMALL, gpu}
    short = [job for job in jobs if kind != "two-kinds" or job.shape == SMALL]
    assert {job.run_s_max for job in short} == {400}
    assert all(100 <= job.run_s <= 400 for job in short)
    assert 190 <= median(job.run_s for job in short) <= 210


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((), {SMALL: (900, 1100), MIDDLE: (900, 1100), LARGE: (900, 1100)}),
        ((8, 0, 2), {SMALL: (2300, 2500), LARGE: (500, 700)}),
        ((0, 0, 1), {LARGE: (3000, 3000)}),
    ],
)
def test_shapes_come_by_their_weights(
    weights: tuple[int, ...], expected: dict[Shape, tuple[int, int]]
) -> None:
    found = Counter(job.shape for job in jobs_of("burst", weights=weights))
    assert found.keys() == expected.keys()
    assert all(low <= found[shape] <= high for shape, (low, high) in expected.items())


def test_bursts_come_all_at_once_after_a_quiet_span() -> None:
    jobs = jobs_of("burst", jobs=40, quiet_s=100, period_s=1000, span_s=3100)
    assert Counter(job.at for job in jobs) == {100: 40, 1100: 40, 2100: 40}


def test_steady_jobs_come_at_their_rate_and_one_by_one() -> None:
    jobs = jobs_of("steady", per_hour=720, span_s=20 * 3600)
    gaps = [later.at - job.at for job, later in pairwise(jobs)]
    assert 0.95 < len(jobs) / (720 * 20) < 1.05
    # Of independent arrivals about exp(-2) of the gaps are longer than twice the mean, which is 5 s.
    assert 0.11 < sum(gap > 10 for gap in gaps) / len(gaps) < 0.16


def test_a_sine_has_few_jobs_at_night_and_many_by_day() -> None:
    jobs = jobs_of("sine", per_hour_low=0, per_hour_high=2000, period_s=24 * 3600, span_s=48 * 3600)
    by_hour = Counter(job.at // 3600 for job in jobs)
    for midnight in (0, 24):
        assert by_hour[midnight] + by_hour[midnight + 23] < 60
        assert 1800 < by_hour[midnight + 12] < 2200
        assert 800 < by_hour[midnight + 6] < 1400


def test_two_kinds_are_short_small_bursts_and_long_large_ones() -> None:
    jobs = jobs_of("two-kinds")
    small = [job for job in jobs if job.shape == SMALL]
    large = [job for job in jobs if job.shape == LARGE]
    assert Counter(job.at for job in small) == {600 + 1800 * turn: 300 for turn in range(12)}
    assert max(job.run_s for job in small) <= 900
    assert min(job.run_s for job in large) >= 3600
    assert 70 < len(large) < 180
    assert sum(job.run_s for job in large) > sum(job.run_s for job in small)


def test_more_bursts_leave_the_long_jobs_as_they_were() -> None:
    few, many = jobs_of("two-kinds", jobs=10), jobs_of("two-kinds", jobs=300)
    assert [job for job in few if job.shape == LARGE] == [job for job in many if job.shape == LARGE]


@pytest.mark.parametrize(("tail", "share"), [("pareto", 0.75), ("log-normal", 0.5)])
def test_a_long_tail_of_few_jobs_takes_most_of_the_time(tail: str, share: float) -> None:
    runs = sorted(job.run_s for job in jobs_of("long-tail", tail=tail))
    assert sum(runs[-len(runs) // 10 :]) > share * sum(runs)
    assert 130 <= median(runs) <= 170
    assert runs[0] >= 60
    assert runs[-1] <= 12 * 3600


def test_flapping_demand_is_on_and_off_in_turn() -> None:
    jobs = jobs_of("flapping", on_s=300, off_s=200, jitter_percent=0, per_hour=3600)
    assert all(job.at % 500 < 300 for job in jobs)
    assert {job.at // 500 for job in jobs} == set(range(44))
    assert 0.9 < len(jobs) / (43 * 300) < 1.1


def test_jitter_moves_the_turns_of_flapping_and_never_their_order() -> None:
    still, moved = (jobs_of("flapping", jitter_percent=percent) for percent in (0, 10))
    assert all(job.at % 480 < 240 for job in still)
    assert any(job.at % 480 >= 240 for job in moved)
    wild = [job.at for job in jobs_of("flapping", jitter_percent=100, on_s=1, off_s=1)]
    assert wild == sorted(wild)
    assert wild[-1] < 6 * 3600


BAD_OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("steady", {"span_s": 0}, "`span_s` must be a whole number from 1 to 316224000, not `0`"),
    ("steady", {"span_s": "6h"}, "`span_s` must be a whole number from 1 to 316224000, not `6h`"),
    ("steady", {"per_hour": 0.5}, "`per_hour` must be a whole number from 1 to 100000000, not `0.5`"),
    ("steady", {"per_hour": True}, "`per_hour` must be a whole number from 1 to 100000000, not `True`"),
    (
        "steady",
        {"per_hour": "\x1b[2J"},
        "`per_hour` must be a whole number from 1 to 100000000, not `\\x1b[2J`",
    ),
    ("steady", {"run_s_low": 0}, "`run_s_low` must be a whole number from 1 to 316224000, not `0`"),
    ("steady", {"run_s_low": 700}, "`run_s_low` must not be more than `run_s_median`: 700, 600"),
    ("steady", {"run_s_high": 500}, "`run_s_median` must not be more than `run_s_high`: 600, 500"),
    ("steady", {"limits": 1}, "`limits` must be true or false, not `1`"),
    ("steady", {"pools": ()}, "`pools` must be a tuple of one or more names"),
    ("steady", {"pools": "pool"}, "`pools` must be a tuple of one or more names"),
    ("steady", {"owners": ("ann", "")}, "`owners` must be a tuple of one or more names"),
    ("steady", {"shapes": ()}, "`shapes` must be a tuple of one or more shapes"),
    ("steady", {"shapes": ("1 CPU",)}, "`shapes` must be a tuple of one or more shapes"),
    (
        "steady",
        {"shapes": (Shape(Resources()),)},
        "`shapes` must each ask for something; a job of nothing fits any number of times",
    ),
    ("steady", {"weights": (1, 2)}, "`weights` must be one for each of `shapes`, and not all 0"),
    ("steady", {"weights": (0, 0, 0)}, "`weights` must be one for each of `shapes`, and not all 0"),
    ("steady", {"weights": (1, -1, 1)}, "`weights` must be a tuple of whole numbers from 0 to 1000000"),
    ("steady", {"weights": [1, 1, 1]}, "`weights` must be a tuple of whole numbers from 0 to 1000000"),
    ("burst", {"jobs": 0}, "`jobs` must be a whole number from 1 to 10000000, not `0`"),
    ("burst", {"period_s": 0}, "`period_s` must be a whole number from 1 to 316224000, not `0`"),
    ("burst", {"quiet_s": 21600}, "`quiet_s` must be less than `span_s`, or no job comes: 21600, 21600"),
    ("sine", {"per_hour_low": 1300}, "`per_hour_low` must not be more than `per_hour_high`: 1300, 1200"),
    (
        "two-kinds",
        {"shapes": (SMALL,)},
        "`shapes` must be two, of the short and of the long jobs, without `weights`",
    ),
    ("two-kinds", {"quiet_s": 30000}, "`quiet_s` must be less than `span_s`, or no job comes: 30000, 21600"),
    (
        "two-kinds",
        {"long_run_s_low": 20000},
        "`long_run_s_low` must not be more than `long_run_s_median`: 20000, 10800",
    ),
    ("long-tail", {"tail": "fat"}, "`tail` must be `pareto` or `log-normal`, not `fat`"),
    (
        "long-tail",
        {"run_s_low": 150},
        "`run_s_median` must lie between `run_s_low` and `run_s_high` to have a tail",
    ),
    ("flapping", {"on_s": 0}, "`on_s` must be a whole number from 1 to 316224000, not `0`"),
    ("flapping", {"jitter_percent": 101}, "`jitter_percent` must be a whole number from 0 to 100, not `101`"),
]


@pytest.mark.parametrize(("kind", "options", "expected"), BAD_OPTIONS)
def test_an_odd_option_is_an_error_that_names_it(kind: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        KINDS[kind].options(**options)
    assert str(caught.value) == expected


@EVERY_KIND
def test_every_option_that_is_a_number_has_bounds(kind: str) -> None:
    options = KINDS[kind].options()
    numbers = [f.name for f in fields(options) if type(getattr(options, f.name)) is int]
    assert set(numbers) <= BOUNDS.keys()


def test_the_kinds_are_those_that_a_scenario_may_name() -> None:
    assert sorted(KINDS) == ["burst", "flapping", "long-tail", "sine", "steady", "two-kinds"]
