"""New limits for jobs that run: whose start moves, what is refused, and what would have been granted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import MINUTE, Play, cluster, job, node, window

from glidepath.core.because import Because
from glidepath.core.cycle import Reason
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.cluster import Cluster, NodeState, ProjectName, Queue, Window
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.extend import PLANS_MAX, Extension, Impact, Trials, extended
from glidepath.core.schedule.job import Book, Job, JobName, Memory, OnLoss, Place, Running, World
from glidepath.core.schedule.starts import Move, starts_of

BOTH = cluster(node("n1"), node("n2"))
ONE = cluster(node("n1"))
HAS_10 = "no more than the 10m that it has"

Facts = dict[str, int | str]


def runs(text: str, *nodes: str, **more: object) -> Running:
    """Since the first minute, on the first CPU of each node."""
    return Running(job(text, **more), Instant(0), tuple(Place(NodeName(name)) for name in nodes))


def world(where: Cluster, running: list[Running], *waiting: Job, now: int = 1) -> World:
    return World(Instant(now * MINUTE), where, waiting, tuple(running))


def wish(name: str, minutes: int, forced: bool = False) -> Extension:
    return Extension(JobName(name), minutes * MINUTE, forced)


def asked(seen: World, what: Extension) -> Impact:
    return extended(seen, Book(), Memory(), what)


def moved(name: str, queue: Queue, before: int, after: int | None) -> Move:
    if after is None:
        return Move(JobName(name), queue, Instant(before * MINUTE), None, None)
    by_s = (after - before) * MINUTE
    return Move(JobName(name), queue, Instant(before * MINUTE), Instant(after * MINUTE), by_s)


def granted(minutes: int, *moves: Move, forced: int | None = None) -> Impact:
    facts: tuple[tuple[str, int | str], ...] = (("limit", f"{minutes}m"), ("moves", len(moves)))
    if forced is not None:
        facts = (*facts, ("forced", "yes"), ("promises_broken", forced))
    return Impact(JobName("R"), True, Reason(Because.EXTENDED, facts), Instant(minutes * MINUTE), moves)


def refused(because: Because, facts: Facts, *moves: Move, longest: int | None = None) -> Impact:
    longest_s = None if longest is None else longest * MINUTE
    return Impact(JobName("R"), False, Reason(because, tuple(facts.items())), None, moves, longest_s)


def test_where_nobody_waits_a_job_runs_on() -> None:
    assert asked(world(ONE, [runs("R 10", "n1")]), wish("R", 20)) == granted(20)


def test_a_promise_is_not_broken_and_an_operator_may() -> None:
    seen = world(ONE, [runs("R 10", "n1")], job("I 5 interactive"))
    late = moved("I", Queue.INTERACTIVE, 10, 20)
    told: Facts = {"promises": 1, "first": "I", "later_by": "10m", "accepted": HAS_10}
    no = refused(Because.EXTENSION_BREAKS_PROMISE, told, late)
    assert asked(seen, wish("R", 20)) == no
    assert asked(seen, wish("R", 20, forced=True)) == granted(20, late, forced=1)


def test_the_longest_limit_that_breaks_no_promise_is_told() -> None:
    # I needs both nodes, and the other one is taken until 15 anyway.
    seen = world(BOTH, [runs("R 10", "n1"), runs("S 15", "n2")], job("I 2n 5 interactive"))
    late = moved("I", Queue.INTERACTIVE, 15, 40)
    told: Facts = {"promises": 1, "first": "I", "later_by": "25m", "accepted": "at most 15m"}
    no = refused(Because.EXTENSION_BREAKS_PROMISE, told, late, longest=15)
    assert asked(seen, wish("R", 40)) == no
    assert asked(seen, wish("R", 15)) == granted(15)


def test_room_kept_in_the_batch_queue_moves_and_is_told() -> None:
    seen = world(ONE, [runs("R 10", "n1")], job("B 5"))
    assert asked(seen, wish("R", 20)) == granted(20, moved("B", Queue.BATCH, 10, 20))


def test_a_job_that_would_have_begun_now_may_have_to_wait() -> None:
    # With R there for longer, I takes the node on which B fills a hole.
    where = cluster(node("n1", 2), node("n2", 2))
    running = [runs("R 1n 2c 10", "n1"), runs("S 1n 1c 12", "n2")]
    seen = world(where, running, job("I 1n 2c 5 interactive"), job("B 15"))
    late = (moved("I", Queue.INTERACTIVE, 10, 12), moved("B", Queue.BATCH, 1, 17))
    assert asked(seen, wish("R", 30, forced=True)) == granted(30, *late, forced=1)


def test_a_shorter_limit_lets_others_start_earlier() -> None:
    seen = world(ONE, [runs("R 10", "n1")], job("I 5 interactive"))
    assert asked(seen, wish("R", 4)) == granted(4, moved("I", Queue.INTERACTIVE, 10, 4))


@pytest.mark.parametrize(
    ("limit", "shown", "now"), [(10, "10m", 1), (0, "0s", 1), (-3, "-3m", 1), (2, "2m", 2), (1, "1m", 2)]
)
def test_a_limit_that_changes_nothing_or_is_over_is_refused(limit: int, shown: str, now: int) -> None:
    seen = world(cluster(node("n1"), limit_s_max=3600), [runs("R 10", "n1")], now=now)
    told: Facts = {"limit": shown, "had": "10m", "accepted": f"more than {now}m and at most 1h"}
    assert asked(seen, wish("R", limit)) == refused(Because.EXTENSION_IN_VAIN, told, longest=60)


def test_only_an_operator_goes_beyond_the_partition() -> None:
    seen = world(cluster(node("n1"), limit_s_max=1200), [runs("R 10", "n1")])
    told: Facts = {"limit": "30m", "partition_max": "20m", "accepted": "at most 20m"}
    assert asked(seen, wish("R", 30)) == refused(Because.EXTENSION_TOO_LONG, told, longest=20)
    assert asked(seen, wish("R", 30, forced=True)) == granted(30, forced=0)


def test_what_is_told_of_the_partition_breaks_no_promise_either() -> None:
    where = cluster(node("n1"), node("n2"), limit_s_max=1200)
    seen = world(where, [runs("R 10", "n1"), runs("S 15", "n2")], job("I 2n 5 interactive"))
    told: Facts = {"limit": "30m", "partition_max": "20m", "accepted": "at most 15m"}
    assert asked(seen, wish("R", 30)) == refused(Because.EXTENSION_TOO_LONG, told, longest=15)


@pytest.mark.parametrize("forced", [False, True])
def test_nobody_runs_into_a_window(forced: bool) -> None:
    seen = world(cluster(node("n1"), windows=(window(15, 30, "n1"),)), [runs("R 10", "n1")])
    told: Facts = {"window": "w15", "opens_at": 900, "accepted": "at most 15m"}
    no = refused(Because.EXTENSION_INTO_WINDOW, told, longest=15)
    assert asked(seen, wish("R", 16, forced)) == no
    assert asked(seen, wish("R", 15)).granted


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        (window(15, 30, "n2"), True),  # another node
        (window(15, 30, projects=("sky",)), True),  # kept for its project
        (window(15, 30, projects=("sea",)), False),
        (window(15, 30), False),
        (window(5, 30), False),  # it is in it already, and would be for longer
        (window(5, 10), False),  # it is ended for it, before its old limit
        (window(0, 1), True),  # over by now
    ],
)
def test_only_windows_that_close_its_nodes_for_it_count(closed: Window, expected: bool) -> None:
    where = Cluster(BOTH.nodes, BOTH.partitions, (closed,))
    seen = world(where, [runs("R 10", "n1", project=ProjectName("sky"))])
    assert asked(seen, wish("R", 20)).granted is expected


def test_a_job_that_is_in_a_window_may_be_shortened() -> None:
    seen = world(cluster(node("n1"), windows=(window(5, 30),)), [runs("R 10", "n1")])
    assert asked(seen, wish("R", 8)) == granted(8)


def test_a_job_without_a_limit_may_get_one_before_its_window() -> None:
    where = cluster(node("n1"), windows=(window(15, 30),), endless=True)
    seen = world(where, [runs("R -", "n1")], job("I 5 interactive"))
    assert asked(seen, wish("R", 15)) == granted(15)
    assert asked(seen, wish("R", 10)) == granted(10, moved("I", Queue.INTERACTIVE, 30, 10))
    told: Facts = {"window": "w15", "opens_at": 900, "accepted": "no limit, as it has now"}
    assert asked(seen, wish("R", 20)) == refused(Because.EXTENSION_INTO_WINDOW, told)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("W", {"state": "waits", "accepted": "the limit that it is submitted with"}),
        ("lost", {"state": "lost a node and is ended", "accepted": "a job that goes on"}),
        ("training-7", {"accepted": "`training-77`"}),
        ("zzz", {"accepted": "a job that runs"}),
    ],
)
def test_who_does_not_run_is_not_extended(name: str, facts: Facts) -> None:
    where = cluster(node("n1", 3), node("n2", state=NodeState.LOST))
    seen = world(where, [runs("training-77 10", "n1"), runs("lost 2n 10", "n1", "n2")], job("W 5"))
    reason = Reason(Because.NOT_RUNNING, tuple(facts.items()))
    assert asked(seen, wish(name, 20)) == Impact(JobName(name), False, reason)


def test_a_job_that_goes_on_with_the_rest_of_its_nodes_is_extended() -> None:
    where = cluster(node("n1"), node("n2", state=NodeState.LOST), windows=(window(15, 30, "n2"),))
    seen = world(where, [runs("R 2n 10", "n1", "n2", on_loss=OnLoss.GO_ON)])
    assert asked(seen, wish("R", 20)) == granted(20)


def test_few_plans_are_made_however_long_the_queue_is() -> None:
    where = cluster(*(node(f"n{at}") for at in range(8)))
    running = [runs(f"R{at} {10 + at}", f"n{at}") for at in range(8)]
    seen = world(where, running, *(job(f"I{at} {at % 7 + 1} interactive") for at in range(60)))
    trials = Trials(seen, Book(), Memory(), running[0])
    trials.longest((10 * MINUTE, 5000 * MINUTE))
    assert len(trials.made) < PLANS_MAX


def played(jobs: list[tuple[int, int, bool, int]], minutes: int) -> Play:
    coming = [
        job(f"j{at} 1n {cpus}c {limit} {'interactive' if talks else 'batch'}", came=came)
        for at, (cpus, limit, talks, came) in enumerate(jobs)
    ]
    play = Play(cluster(node("n1", 2), node("n2", 2), windows=(window(40, 45, "n2"),)), coming)
    play.until(minutes)
    return play


some_jobs = st.lists(
    st.tuples(st.integers(1, 2), st.integers(1, 12), st.booleans(), st.integers(0, 6)),
    min_size=3,
    max_size=14,
)


@settings(max_examples=40, deadline=None)
@given(some_jobs, st.integers(3, 9), st.integers(0, 3), st.integers(1, 60))
def test_what_is_granted_unforced_moves_no_promise(
    jobs: list[tuple[int, int, bool, int]], minutes: int, which: int, limit: int
) -> None:
    play = played(jobs, minutes)
    if not play.running:
        return
    one = play.running[which % len(play.running)]
    seen = replace(play.world(), now=Instant((minutes - 1) * MINUTE), ended=())
    impact = extended(seen, play.book, play.memory, Extension(one.job.name, limit * MINUTE))
    allowed_s = limit * MINUTE if impact.granted else impact.longest_s
    if allowed_s is None:
        return
    longer = replace(one, job=replace(one.job, limit_s=allowed_s))
    running = tuple(longer if other is one else other for other in seen.running)
    before = starts_of(decide(seen, play.book, play.memory))
    after = starts_of(decide(replace(seen, running=running), play.book, play.memory))
    talks = [job.name for job in seen.waiting if job.queue is Queue.INTERACTIVE]
    assert all(after[name] <= before[name] for name in talks if name in before)
    assert extended(seen, play.book, play.memory, Extension(one.job.name, allowed_s)).granted
