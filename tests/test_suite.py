"""What `make test` says of a run is read from what pytest prints, and no file of tests is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from suite import Ran, counted, looked_at_alone, unlisted, verdict

BROKEN = """
..F
=========================== short test summary info ============================
FAILED tests/grid/test_real_grid.py::test_jobs_run[a b-2] - AssertionError: not yet: FAILED tests/x.py
FAILED tests/grid/test_real_grid.py::test_it_ends - assert 1 == 2
ERROR tests/grid/test_real_deaths.py::test_it_starts - bed.trouble.Trouble: no
2 failed, 41 passed, 1 error in 12.30s
"""


def test_a_broken_run_names_each_test_that_failed() -> None:
    ran = counted("grid", 1, BROKEN, took_s=12.3, budget_s=60)
    assert (ran.passed, ran.failed, ran.skipped, ran.code) == (41, 3, 0, 1)
    assert ran.failures == (
        "tests/grid/test_real_grid.py::test_jobs_run[a b-2]",
        "tests/grid/test_real_grid.py::test_it_ends",
        "tests/grid/test_real_deaths.py::test_it_starts",
    )


def test_a_good_run_names_none_and_counts_what_was_not_run() -> None:
    ran = counted("kube", 0, "....\n300 passed, 2 skipped in 99.00s", took_s=99, budget_s=60)
    assert (ran.passed, ran.failed, ran.skipped, ran.failures, ran.code) == (300, 0, 2, (), 0)


def test_what_a_test_printed_of_counts_is_not_counted() -> None:
    ran = counted("kube", 1, "17 failed\n1 skipped\n\n\n\n1 failed, 2 passed in 3s", took_s=3, budget_s=60)
    assert (ran.passed, ran.failed, ran.skipped) == (2, 1, 0)


def test_a_file_in_no_group_is_found() -> None:
    groups = ["tests/core", "tests/test_tidy.py"]
    files = ["tests/core/test_a.py", "tests/core_more/test_b.py", "tests/test_tidy.py", "tests/test_x.py"]
    assert unlisted(files, groups) == ["tests/core_more/test_b.py", "tests/test_x.py"]


def test_a_group_is_good_if_nothing_failed_within_its_budget() -> None:
    assert verdict([counted("kube", 0, "3 passed in 1s", took_s=1, budget_s=60)]) == 0
    assert verdict([counted("kube", 0, "3 passed in 70s", took_s=70, budget_s=60)]) == 1
    assert verdict([counted("grid", 1, BROKEN, took_s=12.3, budget_s=60)]) == 1


def alone(*answers: tuple[int, str]) -> tuple[list[list[str]], Callable[[str, list[str], float], Ran]]:
    """Tests that are run again, answering this in turn; and what was asked for."""
    asked: list[list[str]] = []

    def run(name: str, command: list[str], budget_s: float) -> Ran:
        asked.append(command)
        code, text = answers[len(asked) - 1]
        return counted(name, code, text, took_s=1, budget_s=budget_s)

    return asked, run


ALL_PASS = (0, "3 passed in 9s")


@pytest.mark.parametrize(
    ("group", "code", "text", "answers", "unsteady"),
    [
        ("grid", 1, BROKEN, [ALL_PASS, ALL_PASS], True),
        ("grid", 1, BROKEN, [ALL_PASS, (1, "1 failed, 2 passed in 9s")], False),
        ("grid", 1, BROKEN, [ALL_PASS, (0, "2 passed, 1 skipped in 9s")], False),
        # A test of no real server is not selected: it has no load to blame.
        ("grid", 1, BROKEN, [ALL_PASS, (0, "2 passed, 1 deselected in 9s")], False),
        ("grid", 1, BROKEN.replace("1 error", "2 errors"), [], False),  # One of them has no name.
        ("grid", 2, BROKEN, [], False),
        ("grid", 1, BROKEN + "FAILED tests/grid/test_x.py::test_y - no\n3 failed, 1 error in 9s", [], False),
        ("core", 1, BROKEN, [], False),
    ],
)
def test_a_real_server_test_that_passes_alone_each_time_is_named_and_has_failed_all_the_same(
    group: str, code: int, text: str, answers: list[tuple[int, str]], unsteady: bool
) -> None:
    asked, run = alone(*answers)
    row = counted(group, code, text, took_s=12.3, budget_s=60)
    (seen,) = looked_at_alone([row], run)
    assert seen.unsteady == (row.failures if unsteady else ())
    assert verdict([seen]) == 1
    assert [command[-5:-3] for command in asked] == [["-m", "real"]] * len(answers)
