"""Jobs, nodes, windows and records that cannot be so: each is named, with what would be accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.schedule.worlds import MINUTE, cluster, job, node, window

from glidepath.core.because import Because
from glidepath.core.cycle import Reason
from glidepath.core.quantity import Instant, Owner, Resources
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Cluster, PartitionName, ProjectName, Queue, Window
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, Job, JobName, Memory, Share, Used, World

GOOD = job("good 1n 1c 5 batch")
NODES = (node("n1", cpus=4), node("n2", cpus=2, gpus=1, gpu_kind="T4"))
PLAIN = cluster(*NODES, limit_s_max=3600)


def asking(**parts: Any) -> Job:
    return replace(job("bad 5"), ask=replace(job("bad 5").ask, **parts))


def told(world: World, book: Book | None = None, memory: Memory | None = None) -> dict[str, Reason]:
    made = decide(world, book or Book(), memory or Memory())
    starts = [action for action in made.plan.actions if isinstance(action, Start)]
    # Whatever is wrong with one, the good job starts.
    assert [start.job for start in starts] == ["good"]
    return {decision.about: decision.reason for decision in made.plan.decisions}


def world(*jobs: Job, at: Cluster = PLAIN, now: int = 0, **more: Any) -> World:
    return World(Instant(now), at, (*jobs, GOOD), **more)


@pytest.mark.parametrize(
    ("bad", "because", "accepted"),
    [
        (asking(nodes=0), Because.ASKS_NOTHING, "at least 1 node"),
        (asking(nodes=-3), Because.ASKS_NOTHING, "at least 1 node"),
        (asking(size=Resources()), Because.ASKS_NOTHING, "some CPU, `500m`"),
        (asking(gpu_milli=-1), Because.ASKS_NOTHING, "1 to 999 thousandths of a GPU"),
        (asking(gpu_milli=1000), Because.ASKS_NOTHING, "1 to 999 thousandths of a GPU"),
        (
            asking(size=Resources(1, 1, 0, 1), gpu_milli=5),
            Because.ASKS_NOTHING,
            "whole GPUs or a share of one",
        ),
        (asking(counted=(("mig", 0),)), Because.ASKS_NOTHING, "at least 1 of mig"),
        (job("bad 0"), Because.ASKS_NOTHING, "at least 1 second"),
        (job("bad -"), Because.LIMIT_MISSING, "a limit of at most 1h"),
        (job("bad 61"), Because.LIMIT_TOO_LONG, "1h"),
        (job("bad 8c 5"), Because.TOO_LARGE, "at most 4 CPU on one node (`n1`)"),
        (job("bad 4g 5"), Because.TOO_LARGE, "at most 0 GPU on one node (`n1`)"),
        (asking(counted=(("mig", 1),)), Because.TOO_LARGE, "at most 0 mig on one node (`n1`)"),
        (asking(gpu_kinds=("A100",)), Because.TOO_LARGE, "T4"),
        (job("bad 3n 5"), Because.TOO_MANY_NODES, "at most 2 nodes"),
        (job("bad 2n 3c 5"), Because.TOO_MANY_NODES, "at most 1 nodes"),
        (replace(job("bad 5"), partition=PartitionName("mian")), Because.NO_SUCH_PARTITION, "`main`"),
        (job("bad 5", latest_at=Instant(60), first_at=Instant(120)), Because.NEVER_IN_TIME, "120"),
        (job("bad 5", latest_at=Instant(-1)), Because.TOO_LATE, "a latest start of 0 or after"),
        (job("bad 5", deadline_at=Instant(240)), Because.NEVER_IN_TIME, "a limit of at most 4m"),
        (job("bad 5", beside=JobName("nobody")), Because.BESIDE_GONE, "a job that waits or runs"),
        (job("bad 5", beside=JobName("bad")), Because.BESIDE_CIRCLE, "a job that is beside none of them"),
        (job("good 5"), Because.NAMED_TWICE, "another name"),
    ],
)
def test_a_job_that_can_never_run_is_refused_with_what_could(
    bad: Job, because: Because, accepted: str
) -> None:
    if because is Because.NAMED_TWICE:
        made = decide(World(Instant(0), PLAIN, (GOOD, bad)), Book(), Memory())
        reasons = {d.about: d.reason for d in made.plan.decisions if d.reason.because is because}
    else:
        reasons = told(world(bad))
    reason = reasons[f"job:{bad.name}"]
    assert reason.because is because
    assert accepted in str(dict(reason.facts)["accepted"])


def test_a_negative_amount_cannot_even_be_written_down() -> None:
    with pytest.raises(ValueError, match="resources cannot be negative"):
        Resources(-1, 5)


def test_a_circle_of_three_is_refused_and_who_hangs_on_it_too() -> None:
    circle = [
        job("a 5", beside=JobName("b")),
        job("b 5", beside=JobName("c")),
        job("c 5", beside=JobName("a")),
        job("d 5", beside=JobName("c")),
    ]
    reasons = told(world(*circle))
    assert {name: reasons[f"job:{name}"].because for name in "abcd"} == dict.fromkeys(
        "abcd", Because.BESIDE_CIRCLE
    )


def test_whoever_is_beside_a_refused_job_is_refused_with_it() -> None:
    reasons = told(world(job("a 99c 5"), job("b 5", beside=JobName("a"))))
    assert reasons["job:a"].because is Because.TOO_LARGE
    assert reasons["job:b"].because in (Because.BESIDE_REFUSED, Because.BESIDE_GONE)


def test_a_queue_that_the_partition_does_not_serve_is_named() -> None:
    desk = cluster(*NODES, queues=(Queue.BATCH,))
    reason = told(world(job("bad 5 interactive"), at=desk))["job:bad"]
    assert reason == Reason(Because.QUEUE_NOT_SERVED, (("queue", "interactive"), ("accepted", "batch")))


def test_a_job_over_its_cap_is_refused_with_the_cap() -> None:
    book = Book(shares=(Share(ProjectName("p"), borrow=Resources(1000, 1024)),))
    reason = told(world(job("bad 2c 5", project=ProjectName("p"))), book)["job:bad"]
    assert reason.because is Because.OVER_CAP
    assert ("accepted", "at most 1 CPU 1GiB") in reason.facts


def test_of_a_cap_only_what_is_bounded_is_told() -> None:
    book = Book(user_cap=Resources(1000, 0, 0, 1))
    reason = told(world(job("bad 1n 2c 5 interactive")), book)["job:bad"]
    assert ("accepted", "at most 1 CPU 1 GPU") in reason.facts


def test_a_window_that_ends_before_it_starts_is_left_out() -> None:
    at = replace(PLAIN, windows=(Window("w", Instant(500), Instant(100)),))
    reason = told(world(at=at))["window:w"]
    assert reason.because is Because.NOT_SOUND
    assert ("accepted", "an end after the start") in reason.facts


def test_two_windows_over_all_nodes_for_ever_refuse_what_could_only_run_then() -> None:
    ever = Instant(1 << 45)
    shut = (Window("a", Instant(10 * MINUTE), ever), Window("b", Instant(20 * MINUTE), ever))
    reason = told(world(job("bad 30"), at=replace(PLAIN, windows=shut)))["job:bad"]
    assert reason.because is Because.NEVER_OPEN
    assert ("accepted", "a limit of at most 10m") in reason.facts


def test_a_deadline_that_a_window_covers_is_refused() -> None:
    at = replace(PLAIN, windows=(window(1, 20),))
    reason = told(
        replace(
            world(job("bad 5", deadline_at=Instant(10 * MINUTE)), job("x 1"), at=at),
            waiting=(job("bad 5", deadline_at=Instant(10 * MINUTE)), job("good 1")),
        )
    )["job:bad"]
    assert reason.because is Because.NEVER_OPEN


def test_a_clock_that_goes_back_is_told_and_nothing_is_planned_in_the_past() -> None:
    made = decide(world(now=100), Book(), Memory(at=Instant(400)))
    reasons = {decision.about: decision.reason for decision in made.plan.decisions}
    assert reasons["clock"] == Reason(Because.CLOCK_WENT_BACK, (("seconds", 300),))
    assert made.plan.at == 400
    assert made.memory.at == 400


def test_a_clock_that_jumps_far_ahead_still_makes_a_plan() -> None:
    assert told(world(job("bad 99c 5"), now=1 << 40))


def test_usage_from_the_future_or_below_zero_counts_for_nothing() -> None:
    project = ProjectName("p")
    used = (
        Used(project, Owner("ann"), 5.0, Instant(100)),
        Used(project, Owner("bob"), -5.0, Instant(0)),
        Used(project, Owner("eve"), float("nan"), Instant(0)),
    )
    reasons = told(world(used=used), Book(fair=True))
    found = [about for about, reason in reasons.items() if reason.because is Because.NOT_SOUND]
    assert found == ["usage:p/ann", "usage:p/bob", "usage:p/eve"]


def test_nodes_that_cannot_be_are_left_out_and_the_others_are_used() -> None:
    odd = (*NODES, replace(NODES[0], name="n9", size=Resources(0, 5)), replace(NODES[0], name="n1"))
    at = cluster(*odd)
    reasons = told(world(at=at))
    assert reasons["node:n9"].because is Because.NOT_SOUND
    assert reasons["nodes"].because is Because.NOT_SOUND


def test_an_empty_cluster_refuses_and_goes_on() -> None:
    made = decide(World(Instant(0), Cluster((), ()), (GOOD,)), Book(), Memory())
    assert [decision.reason.because for decision in made.plan.decisions] == [Because.NO_SUCH_PARTITION]


def test_jobs_on_the_same_nodes_must_be_alike() -> None:
    pair = [job("a 2n 5"), job("b 5", beside=JobName("a"), same_node=True)]
    made = decide(World(Instant(0), PLAIN, tuple(pair)), Book(), Memory())
    reasons = {decision.about: decision.reason.because for decision in made.plan.decisions}
    assert reasons["job:b"] is Because.BESIDE_UNLIKE
