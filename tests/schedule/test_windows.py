"""The table of RLScheduler: windows of logs, five orders, with and without going past the blocked."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from glidepath.sim.rerun.trace import Trace, trace_of
from glidepath.sim.rerun.windows import FIRSTS, JOBS, in_window
from schedule.logs import FOLDER, HPC2N, LUBLIN_1, LUBLIN_2, PUBLIC, SDSC, log_of

# Four processors: A holds three of them, B wants all four. C would end before B can start, D would not.
CROWD = log_of((0, 6, 8, 3), (1, 2, 2, 4), (2, 3, 5, 1), (2, 3, 7, 1), (3, 1, 1, 1))


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        # B blocks until A ends; then each in turn.
        (False, [0, 6, 8, 8, 8]),
        # By its limit A ends at 8: C fits before that, D would end at 9 and waits, E goes past at 3.
        (True, [0, 6, 2, 8, 5]),
    ],
)
def test_the_chosen_job_blocks_and_others_may_go_past_it(past: bool, expected: list[int]) -> None:
    assert in_window(CROWD, CROWD.submit.tolist(), 4, past=past) == expected


def keys(window: Trace, order: str) -> np.ndarray:
    """The orders as published; two of them use a wait that was never set, which is kept here as it was."""
    limit, procs = window.limit.astype(float), window.procs.astype(float)
    submit = window.submit.astype(float)
    wait = -1 - submit
    return {
        "FCFS": lambda: submit,
        "WFP3": lambda: -((wait / limit) ** 3) * procs,
        "UNI": lambda: -(wait + 1e-15) / (np.log2(procs + 1e-15) * limit),
        "SJF": lambda: limit,
        "F1": lambda: np.log10(np.maximum(limit, 1)) * procs + 870 * np.log10(submit),
    }[order]()


@lru_cache(maxsize=4)
def public(name: str) -> Trace:
    trace = trace_of(FOLDER / name, "largest")
    return trace.part(0, 10_000)


def slowdown(name: str, processors: int, order: str, *, past: bool) -> str:
    means = []
    for first in FIRSTS:
        window = public(name).part(first, JOBS)
        start = np.array(in_window(window, keys(window, order).tolist(), processors, past=past))
        spent = start - window.submit + window.run
        means.append(np.maximum(1, spent / np.maximum(window.run, 10)).mean())
    return f"{np.mean(means):.2f}"


if PUBLIC:

    @pytest.mark.parametrize(
        ("name", "processors", "past", "row"),
        [
            (LUBLIN_1, 256, False, "7273.77 19753.53 22274.74 277.35 258.37"),
            (SDSC, 128, False, "1727.54 3000.88 1848.45 2680.55 1232.06"),
            (HPC2N, 240, False, "297.18 426.99 609.77 157.71 118.01"),
            (LUBLIN_2, 256, False, "7842.47 9523.18 11265.31 787.89 698.34"),
            (LUBLIN_1, 256, True, "235.82 133.87 307.23 73.31 75.07"),
            (SDSC, 128, True, "1595.12 1083.12 548.01 2167.84 1098.22"),
            (HPC2N, 240, True, "127.38 97.39 175.12 122.04 71.95"),
            (LUBLIN_2, 256, True, "247.61 318.35 379.59 91.99 148.25"),
        ],
    )
    def test_the_published_table_comes_out_to_the_last_digit(
        name: str, processors: int, past: bool, row: str
    ) -> None:
        orders = ("FCFS", "WFP3", "UNI", "SJF", "F1")
        assert " ".join(slowdown(name, processors, order, past=past) for order in orders) == row
