"""What `make test` says of a run is read from what pytest prints, and no file of tests is left out."""

from __future__ import annotations

from dataclasses import replace

from suite import counted, unlisted, verdict

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


def test_a_test_that_passes_alone_has_failed_all_the_same() -> None:
    ran = counted("grid", 1, BROKEN, took_s=12.3, budget_s=60)
    assert verdict([replace(ran, alone=ran.failures)]) == 1
    assert verdict([counted("kube", 0, "3 passed in 1s", took_s=1, budget_s=60)]) == 0
    assert verdict([counted("kube", 0, "3 passed in 70s", took_s=70, budget_s=60)]) == 1
