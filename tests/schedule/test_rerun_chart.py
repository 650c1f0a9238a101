"""The numbers of a picture of a rerun: means without sampling, sizes, and places that no two share."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.sim.rerun.chart import SizeClass, busiest, by_size, edges_of, means, places
from glidepath.sim.rerun.trace import Trace
from schedule.logs import log_of, logs
from schedule.oracle import Machine

PROCESSORS = 8


def started(trace: Trace) -> np.ndarray:
    return np.array(Machine(trace, PROCESSORS).play(past=True), np.int64)


@settings(max_examples=200)
@given(logs(procs_max=PROCESSORS))
def test_no_two_jobs_have_a_processor_at_the_same_time(trace: Trace) -> None:
    start = started(trace)
    order = np.argsort(start, kind="stable")
    begin, end, procs = start[order], (start + trace.run)[order], trace.procs[order]
    found = places(begin, end, procs, processors=PROCESSORS)
    assert [sum(high - low for low, high in parts) for parts in found] == procs.tolist()
    taken: dict[tuple[int, int], int] = {}
    for job, parts in enumerate(found):
        for low, high in parts:
            assert 0 <= low < high <= PROCESSORS
            for second in range(begin[job], end[job]):
                for processor in range(low, high):
                    assert taken.setdefault((second, processor), job) == job


def test_a_job_is_in_one_piece_where_it_can_be() -> None:
    # The second leaves a hole of two, which is too small for three and large enough for the last.
    begin, end = np.array([0, 0, 0, 5, 6]), np.array([9, 5, 9, 9, 9])
    procs = np.array([1, 2, 2, 3, 2])
    expected = [[(0, 1)], [(1, 3)], [(3, 5)], [(5, 8)], [(1, 3)]]
    assert places(begin, end, procs, processors=8) == expected
    # Without one hole for all of it, it takes the lowest that are free.
    assert places(begin[:4], end[:4], np.array([1, 2, 2, 4]), processors=8)[3] == [(1, 3), (5, 7)]


@settings(max_examples=200)
@given(logs(procs_max=PROCESSORS), st.integers(1, 9))
def test_a_mean_is_that_of_a_look_at_every_second(trace: Trace, parts: int) -> None:
    start = started(trace)
    edges = edges_of(trace, [start], parts)
    assert edges[0] == trace.submit.min()
    assert edges[-1] >= (start + trace.run).max()
    assert len(edges) <= parts + 2
    used = [
        int(trace.procs[(start <= second) & (second < start + trace.run)].sum())
        for second in range(edges[0], edges[-1])
    ]
    expected = [np.mean(used[low - edges[0] : high - edges[0]]) for low, high in pairwise(edges)]
    np.testing.assert_allclose(means(start, start + trace.run, trace.procs, edges), expected)


def test_waits_are_told_by_powers_of_two() -> None:
    trace = log_of((0, 1, 1, 1), (0, 1, 1, 3), (0, 1, 1, 4), (0, 1, 1, 4), (0, 1, 1, 9))
    found = by_size(trace, np.array([7, 1, 2, 30, 4]))
    assert found == [SizeClass(1, 1, 1, 7, 7), SizeClass(3, 4, 3, 2, 2), SizeClass(9, 16, 1, 4, 4)]
    assert [str(each) for each in found] == ["1", "3–4", "9–16"]


def test_the_busiest_span_is_the_one_in_which_most_is_in_use() -> None:
    trace = log_of((100, 10, 10, 1), (115, 12, 12, 4), (131, 3, 3, 8))
    assert busiest(trace, trace.submit, 10) == 120
    assert busiest(trace, trace.submit, 5) == 130
    assert busiest(trace, trace.submit, 1000) == 100
