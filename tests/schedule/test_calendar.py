"""Windows that are made, moved and cancelled while jobs run: nobody is in one that is open who may not be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.test_plans import plays
from tests.schedule.worlds import MINUTE, Play, cluster, job, node, picture, window

from glidepath.core.because import Because
from glidepath.core.quantity import Instant, NodeName, Owner
from glidepath.core.schedule.cluster import ProjectName, Window
from glidepath.core.schedule.cut import cut_by
from glidepath.core.schedule.job import Book, JobName, OnLoss, Place, Running

WHOSE: tuple[dict[str, tuple[str, ...]], ...] = ({}, {"projects": ("p",)}, {"people": ("ann",)})


def inside(play: Play, now: int) -> list[tuple[str, str]]:
    """Who is on nodes at this instant that a window keeps from them."""
    return [
        (window.name, run.job.name)
        for window in play.cluster.windows
        for run in play.running
        if window.opens_at <= now < window.closes_at
        and window.touches(place.node for place in run.places)
        and not window.admits(run.job.project, run.job.owner)
    ]


@st.composite
def calendars(draw: st.DrawFn, names: tuple[str, ...], now: int) -> tuple[Window, ...]:
    """Up to two, of which each may open at once, overlap the other, and be for somebody."""
    found = []
    for _ in range(draw(st.integers(0, 2))):
        first = now + draw(st.integers(0, 12))
        on = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        found.append(window(first, first + draw(st.integers(1, 8)), *on, **draw(st.sampled_from(WHOSE))))
    return tuple(replace(each, name=f"{each.name}.{at}") for at, each in enumerate(found))


@settings(max_examples=60, deadline=None)
@given(plays(), st.data())
def test_whatever_becomes_of_the_calendar_nobody_is_there_when_a_window_opens(
    play: Play, data: st.DataObject
) -> None:
    names = tuple(each.name for each in play.cluster.nodes)
    play.coming = [
        replace(
            one,
            project=ProjectName(data.draw(st.sampled_from(("", "p", "q")))),
            owner=Owner(data.draw(st.sampled_from(("ann", "bob")))),
            on_loss=data.draw(st.sampled_from(OnLoss)),
            stoppable=data.draw(st.booleans()),
        )
        for one in play.coming
    ]
    for _ in range(25):
        if data.draw(st.integers(0, 3)) == 0:
            play.cluster = replace(play.cluster, windows=data.draw(calendars(names, play.now)))
        now = play.now * MINUTE
        play.step()
        assert inside(play, now) == []


def test_a_job_whose_limit_a_new_window_cuts_is_told_in_time_and_ended_when_it_opens() -> None:
    play = Play(
        cluster(node("n1"), node("n2")),
        [
            job("A 20"),
            job("B 20", on_loss=OnLoss.REQUEUE),
            job("C 3", came=5),
        ],
        book=Book(notice_s=2 * MINUTE),
    )
    play.until(4)
    play.cluster = replace(play.cluster, windows=(window(8, 10),))
    play.until(6)
    assert play.last is not None
    told = {one.about: one.reason.because for one in play.last.plan.decisions if one.about.startswith("job:")}
    assert told.get("job:A") is not Because.NOTICE_GIVEN
    play.until(7)
    told = {one.about: one.reason.because for one in play.last.plan.decisions if one.about.startswith("job:")}
    assert told["job:A"] is told["job:B"] is Because.NOTICE_GIVEN
    # A is over with its policy, B waits again, and C begins beside it where A was.
    assert play.until(16) == picture("""
        n1 AAAAAAAA..BBBBBB
        n2 BBBBBBBB..CCC...
    """)
    assert play.gone == ["A"]


def test_a_window_that_is_moved_away_or_cancelled_lets_a_job_run_to_its_limit() -> None:
    for calendar in ((window(12, 14),), ()):
        play = Play(cluster(node("n1"), windows=(window(50, 60),)), [job("A 10")])
        play.until(2)
        play.cluster = replace(play.cluster, windows=(window(6, 8),))
        play.until(5)
        play.cluster = replace(play.cluster, windows=calendar)
        assert play.until(12) == "n1 AAAAAAAAAA.."


def test_nodes_that_are_kept_are_for_named_projects_and_people_alone() -> None:
    kept = window(0, 9, "n1", projects=("sky",), people=("eve",))
    play = Play(
        cluster(node("n1"), node("n2"), windows=(kept,)),
        [
            job("A 9"),
            job("B 2"),
            job("C 2", project=ProjectName("sky")),
            job("D 2", owner=Owner("eve")),
            job("E 1", owner=Owner("eve"), project=ProjectName("sea")),
        ],
    )
    assert play.until(11) == picture("""
        n1 CCDDE....BB
        n2 AAAAAAAAA..
    """)


HERE = Running(job("R 10", project=ProjectName("sky")), Instant(0), (Place(NodeName("n1")),))


@pytest.mark.parametrize(
    ("windows", "now", "expected"),
    [
        ((), 1, None),
        ((window(10, 12),), 1, None),  # opens when it is over
        ((window(9, 12),), 1, "w9"),
        ((window(9, 12), window(5, 6, "n1")), 1, "w5"),  # the first
        ((window(5, 6, "n2"),), 1, None),
        ((window(5, 6, projects=("sky",)),), 1, None),
        ((window(5, 6, people=("ann",)),), 1, None),
        ((window(5, 6, people=("eve",), projects=("sea",)),), 1, "w5"),
        ((window(5, 6),), 6, None),  # closed by now
        ((window(5, 7),), 6, "w5"),  # made late
    ],
)
def test_the_window_that_ends_a_job_is_the_first_that_keeps_a_node_of_it(
    windows: tuple[Window, ...], now: int, expected: str | None
) -> None:
    found = cut_by(HERE, windows, Instant(now * MINUTE))
    assert (found.name if found else None) == expected
    endless = replace(HERE, job=replace(HERE.job, name=JobName("M"), limit_s=None))
    assert cut_by(endless, (window(10, 12),), Instant(now * MINUTE)) == window(10, 12)
