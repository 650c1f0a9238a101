"""Logs played again: drawn as text, beside the rule as it is written down, and to the digit of the papers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from glidepath.sim.rerun.rules import RULES, played, score
from glidepath.sim.rerun.trace import Trace, trace_of
from schedule.logs import CTC, FOLDER, HPC2N, PUBLIC, SDSC, crowd, log_of, logs
from schedule.oracle import Machine


def drawn(trace: Trace, processors: int, rule: str) -> list[str]:
    """One line for each job: dots while it waits, its letter while it runs."""
    start = played(trace, processors, rule)
    lines = []
    for job, at in enumerate(start):
        come, run = int(trace.submit[job]), int(trace.run[job])
        lines.append(" " * come + "." * (int(at) - come) + chr(ord("A") + job) * run)
    return lines


# Four processors. A has three of them for six seconds. B wants all four and waits. C is short enough to end
# before B can start, D is not, E came last and is small and short.
CROWD = log_of((0, 6, 6, 3), (1, 2, 2, 4), (1, 4, 4, 1), (2, 9, 9, 1), (2, 2, 2, 1))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("fcfs", ["AAAAAA", " .....BB", " .......CCCC", "  ......DDDDDDDDD", "  ......EE"]),
        ("easy", ["AAAAAA", " .....BB", " CCCC", "  ......DDDDDDDDD", "  ......EE"]),
        ("conservative", ["AAAAAA", " .....BB", " CCCC", "  ......DDDDDDDDD", "  ......EE"]),
    ],
)
def test_small_worlds_are_played_as_drawn(rule: str, expected: list[str]) -> None:
    assert drawn(CROWD, 4, rule) == expected


@settings(max_examples=300)
@given(logs())
@pytest.mark.parametrize("rule", ["fcfs", "easy"])
def test_the_pass_does_what_the_rule_says_in_words(rule: str, trace: Trace) -> None:
    expected = Machine(trace, 8).play(past=rule == "easy")
    assert played(trace, 8, rule).tolist() == expected


# A ends early: C runs on, so B moves up to its end and no further; E ends before that, D does not.
EARLY = log_of((0, 3, 6, 3), (1, 2, 2, 4), (1, 4, 4, 1), (2, 9, 9, 1), (2, 2, 2, 1))


def test_places_move_up_when_a_job_ends_early() -> None:
    expected = ["AAA", " ....BB", " CCCC", "  .....DDDDDDDDD", "  .EE"]
    assert drawn(EARLY, 4, "conservative") == expected


@settings(max_examples=150)
@given(logs(jobs_max=20))
def test_conservative_places_are_those_of_the_rule_in_words(trace: Trace) -> None:
    assert played(trace, 8, "conservative").tolist() == Machine(trace, 8).play_conservative()


@settings(max_examples=100)
@given(logs())
@pytest.mark.parametrize("rule", sorted(RULES))
def test_no_processor_is_given_twice_and_every_job_runs(rule: str, trace: Trace) -> None:
    start = played(trace, 8, rule)
    assert (start >= trace.submit).all()
    for instant in start:
        runs = (start <= instant) & (instant < start + trace.run)
        assert trace.procs[runs].sum() <= 8


PRINT = """
from schedule.logs import crowd
from glidepath.core.schedule.profile import fits
from glidepath.sim.rerun.rules import RULES, played
print(type(fits).__name__)
for rule in sorted(RULES):
    print(rule, played(crowd(7, 400, 64), 64, rule).tolist())
"""


# As where numba is not installed.
WITHOUT = "import sys; sys.modules['numba'] = None\n"


def starts_of(before: str = "") -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", before + PRINT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return ran.stdout.splitlines()


def test_machine_code_and_plain_python_start_the_same_jobs_at_the_same_times() -> None:
    fast, *compiled = starts_of()
    slow, *plain = starts_of(WITHOUT)
    assert (fast, slow) == ("CPUDispatcher", "function")
    assert len(compiled) == len(RULES)
    assert compiled == plain


def test_a_job_that_is_larger_than_the_machine_is_not_scored_as_if_it_ran() -> None:
    trace = log_of((0, 1, 1, 9))
    with pytest.raises(ValueError, match="more processors than there are"):
        score(trace, played(trace, 8, "easy"), 8)


def test_a_long_log_of_a_crowd_is_played_alike_by_pass_and_words() -> None:
    trace = crowd(3, 1500, 64)
    assert played(trace, 64, "easy").tolist() == Machine(trace, 64).play(past=True)


if PUBLIC:
    # Mean wait in minutes, mean bounded slowdown, p95 and longest wait in minutes, as pinned for EASY.
    @pytest.mark.parametrize(
        ("name", "processors", "jobs", "expected"),
        [
            (SDSC, 128, 54_044, ("380.7", "103.39", "1880.9", "8014.0")),
            (CTC, 512, 77_222, ("21.4", "4.59", "140.2", "1689.7")),
            (CTC, 338, 77_222, ("258.3", "55.54", "1202.8", "5690.6")),
            (HPC2N, 240, 202_871, ("182.2", "88.86", "756.3", "19391.9")),
        ],
    )
    def test_easy_is_the_reference_to_the_last_digit(
        name: str, processors: int, jobs: int, expected: tuple[str, ...]
    ) -> None:
        trace = trace_of(FOLDER / name)
        found = score(trace, played(trace, processors, "easy"), processors)
        minutes = (found.wait_s_mean / 60, found.wait_s_p95 / 60, found.wait_s_max / 60)
        shown = (f"{minutes[0]:.1f}", f"{found.slowdown_mean:.2f}", f"{minutes[1]:.1f}", f"{minutes[2]:.1f}")
        assert (len(trace), shown) == (jobs, expected)

    @pytest.mark.parametrize(
        ("name", "processors", "p95", "makespan"),
        [
            (SDSC, 128, "56784.93", 68_440_542),
            (CTC, 512, "188.05", 29_306_751),
            (HPC2N, 240, "286.97", 109_256_855),
        ],
    )
    def test_first_come_first_served_is_the_published_row_to_the_last_digit(
        name: str, processors: int, p95: str, makespan: int
    ) -> None:
        """As HPCOpt defines it: a floor of 60 s, not clipped at 1, p95 by linear interpolation."""
        trace = trace_of(FOLDER / name)
        start = played(trace, processors, "fcfs")
        slowdown = (start - trace.submit + trace.run) / np.maximum(trace.run, 60)
        assert f"{np.percentile(slowdown, 95):.2f}" == p95
        assert int((start + trace.run).max() - trace.submit.min()) == makespan
