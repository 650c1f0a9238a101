"""A job of another queue in words: its number is told from others, every term that fails is named."""

from __future__ import annotations

from typing import Any

import pytest

from glidepath.cli.explainjob import JOB, item_of, lines_of
from glidepath.core.quantity import OfferKey, Resources
from glidepath.story import FailedTerm, JobStory, OfferStory

EAST, WEST = OfferKey("east/big"), OfferKey("west/small")
MEMORY = FailedTerm("job", "TARGET.Memory >= RequestMemory", "false")
OWNER = FailedTerm("offer", 'TARGET.Owner =?= "ben"', "false")


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("1842.7", True),
        ("ap1.example.org#1842.7", True),
        ("slot1@ap#3.0", True),
        ("1842", False),
        ("here/small", False),
        ("1842.", False),
        (".7", False),
        ("1.2.3", False),
        ("a b#1.2", False),
        ("#1.2", False),
        ("1842.7\n", False),
        ("1234567890123.1", False),
    ],
)
def test_the_number_of_a_job_is_told_from_other_words(text: str, job: bool) -> None:
    assert bool(JOB.fullmatch(text)) is job


def story(**more: Any) -> JobStory:
    row: dict[str, Any] = {"job": "1842.7", "schedd": "ap1", "owner": "ann", "state": "idle", "age_s": 90}
    return JobStory(**{**row, "request": Resources(1000, 300, 1), **more})


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        (
            story(offers=(OfferStory(EAST, True), OfferStory(WEST, False, (MEMORY, OWNER)))),
            [
                "job ap1#1842.7 (ann) in `bed` is idle, 1m30s old",
                "  needs 1 CPU 300MiB 1MiB disk",
                "  decided: nothing yet; the next cycle will count it",
                "  east/big: fits",
                "  west/small: job: TARGET.Memory >= RequestMemory is false; "
                'offer: TARGET.Owner =?= "ben" is false',
            ],
        ),
        (
            story(state="held", hold_reason="no such file", run_s_max=3600),
            [
                "job ap1#1842.7 (ann) in `bed` is held, 1m30s old",
                "  held: no such file",
                "  needs 1 CPU 300MiB 1MiB disk, for at most 1h",
            ],
        ),
        (
            story(request=None, set_aside="RequestMemory is negative"),
            [
                "job ap1#1842.7 (ann) in `bed` is idle, 1m30s old",
                "  set aside, nothing is started for it: RequestMemory is negative",
            ],
        ),
        (
            story(state="running", offers=(OfferStory(WEST, False, note="its terms are no text"),)),
            [
                "job ap1#1842.7 (ann) in `bed` is running, 1m30s old",
                "  needs 1 CPU 300MiB 1MiB disk",
                "  west/small: its terms are no text",
            ],
        ),
    ],
)
def test_a_job_is_told_in_the_order_in_which_a_person_asks(told: JobStory, lines: list[str]) -> None:
    assert lines_of(item_of("bed", told, None)) == lines
