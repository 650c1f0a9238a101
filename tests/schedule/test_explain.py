"""One job explained: where it stands, what it lacks, and what would start now instead and does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import MINUTE, Play, cluster, job, node, picture, window

from glidepath.core.because import Because
from glidepath.core.cycle import Reason
from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import Cluster, NodeState, Partition, PartitionName, ProjectName, Queue
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.explain import Explanation, Standing, Turn, explained, lines
from glidepath.core.schedule.instead import Instead
from glidepath.core.schedule.job import Ask, Book, Job, JobName, Memory, Place, Promise, Running, Share, World
from glidepath.core.schedule.shortage import Holder, Lack, Short
from glidepath.core.schedule.starts import moves, starts_of

SKY = ProjectName("sky")


def runs(text: str, *nodes: str, **more: object) -> Running:
    """Since the first minute."""
    return Running(job(text, **more), Instant(0), tuple(Place(NodeName(name)) for name in nodes))


def world(where: Cluster, running: list[Running], *waiting: Job, paused: tuple[str, ...] = ()) -> World:
    return World(Instant(MINUTE), where, waiting, tuple(running), paused=paused)


def of(seen: World, name: str, book: Book | None = None, memory: Memory | None = None) -> Explanation:
    return explained(seen, book or Book(), memory or Memory(), JobName(name))


def told(seen: World, name: str, book: Book | None = None) -> str:
    return "\n".join(lines(of(seen, name, book)))


def changes(seen: World, name: str, book: Book | None = None) -> list[str]:
    return [one.change for one in of(seen, name, book).instead]


def at(minute: int) -> Instant:
    return Instant(minute * MINUTE)


def test_a_blocked_job_is_explained_with_all_its_numbers() -> None:
    where = cluster(node("n1", 4), node("n2", 4))
    wide = job("W 2n 3c 20", project=SKY)
    seen = world(where, [runs("R 1n 3c 10", "n1"), runs("S 1n 2c 15", "n2")], wide)
    n1, n2 = NodeName("n1"), NodeName("n2")
    smaller = replace(wide, ask=replace(wide.ask, size=Resources(1000, 1)))
    assert of(seen, "W") == Explanation(
        JobName("W"),
        Standing.WAITS,
        at(1),
        (Reason(Because.NODES_TAKEN, (("asked", 2), ("fit", 2), ("free", 0))),),
        Turn(Queue.BATCH, PartitionName("main"), 1, 1, Owner("ann"), SKY, 0, 0),
        start_at=at(15),
        places=(Place(n1), Place(n2)),
        holders=(
            Holder(JobName("R"), (n1,), at(0), at(10), True),
            Holder(JobName("S"), (n2,), at(0), at(15), True),
        ),
        shorts=(
            Short(n2, (Lack("CPU", 2000, 3000),), None, at(15)),
            Short(n1, (Lack("CPU", 1000, 3000),), None, at(10)),
        ),
        instead=(Instead("1 CPU 1MiB", smaller, True),),
    )
    assert told(seen, "W") == picture("""
        job `W` waits
        its place in batch/main: 1 of 1; before it 0 of ann, 0 of project sky
        room is kept: in 14m on n1, n2
        it waits: the nodes that fit are taken or kept for jobs before it (asked=2, fit=2, free=0)
        taken: n1 by `R`, which ends in 9m
        taken: n2 by `S`, which ends in 14m
        almost: n2: 2 of 3 CPU free; enough in 14m
        almost: n1: 1 of 3 CPU free; enough in 9m
        would start now: 1 CPU 1MiB
    """)


def test_times_are_told_by_the_clock_that_is_handed_over() -> None:
    seen = world(cluster(node("n1")), [runs("R 10", "n1")], job("W 20"))
    shown = lines(of(seen, "W"), lambda instant: f"14:{instant // MINUTE:02d}")
    assert "room is kept: 14:10 on n1" in shown
    assert "taken: n1 by `R`, which ends 14:10" in shown


def test_a_running_job_says_since_when_until_when_and_what_it_has() -> None:
    where = cluster(node("n1", 4, 2), endless=True)
    timed = Running(job("R 1n 2c 1g 10"), Instant(0), (Place(NodeName("n1"), (1,)),))
    seen = world(where, [timed, runs("E -", "n1")])
    assert told(seen, "R") == picture("""
        job `R` runs on n1 (GPU 1)
        it has 2 CPU 1MiB 1 GPU on each
        it began 1m ago; its limit is reached in 9m
    """)
    assert lines(of(seen, "E"))[-1] == "it began 1m ago; it has no limit"


def test_a_refused_job_says_what_would_be_accepted() -> None:
    seen = world(cluster(node("n1", 4)), [], job("W 1n 8c 5"))
    assert told(seen, "W") == (
        "job `W` is refused: no node of the partition is as large "
        "(asked: 8 CPU 1MiB, accepted: at most 4 CPU on one node (`n1`))"
    )


def test_a_name_that_is_not_there_is_guessed_at() -> None:
    seen = world(cluster(node("n1", 4)), [runs("training 5", "n1")], job("fitting 1n 9c 5"))
    assert told(seen, "trianing") == "no job `trianing` waits or runs; did you mean `training`?"
    assert told(seen, "zzz\n") == "no job `zzz\\n` waits or runs"


def test_a_job_that_starts_in_this_plan_says_so() -> None:
    assert told(world(cluster(node("n1", 4)), [], job("W 5")), "W") == "job `W` starts now on n1"


def test_its_place_counts_who_is_left_before_it_and_whose_they_are() -> None:
    bob = {"owner": Owner("bob")}
    waiting = [job(f"I{n} 9 interactive", **(bob if n % 2 else {"project": SKY})) for n in range(6)]
    seen = world(cluster(node("n1")), [], *waiting)
    main, ann = PartitionName("main"), Owner("ann")
    # The first one starts now and is before nobody any more.
    assert of(seen, "I4").turn == Turn(Queue.INTERACTIVE, main, 4, 5, ann, SKY, 1, 1)
    assert of(seen, "I5").turn == Turn(Queue.INTERACTIVE, main, 5, 5, Owner("bob"), ProjectName(""), 2, 2)


def test_a_promise_that_was_moved_says_what_was_promised_first() -> None:
    where = cluster(node("n1"))
    promise = Promise(JobName("I"), at(10), (Place(NodeName("n1")),), at(0), at(5), moved=2)
    seen = of(
        world(where, [runs("R 10", "n1")], job("I 5 interactive")), "I", memory=Memory(promises=(promise,))
    )
    assert seen.promise == promise
    assert lines(seen)[2:4] == ["promised: in 9m on n1", "first promised: in 4m; moved 2 times since"]


def test_in_a_strict_line_one_may_have_room_and_not_the_turn() -> None:
    running = [runs("R 1n 3c 10", "n1")]
    seen = world(cluster(node("n1", 4)), running, job("A 1n 4c 5 interactive"), job("B 1n 1c 4 interactive"))
    turn = Reason(Because.NOT_ITS_TURN, (("before", "A"), ("starts_in", "9m")))
    assert (of(seen, "B").reasons, of(seen, "B").shorts) == ((turn,), ())


CAP = Book(user_cap=Resources(3000), user_jobs_max=2)
BORROW = Book(shares=(Share(SKY, guarantee=Resources(2000), borrow=Resources(1000)),))


@pytest.mark.parametrize(
    ("text", "more", "book", "paused", "expected"),
    [
        ("W 1n 1c 5", {}, Book(), ("queue:batch",), [(Because.QUEUE_PAUSED, {"paused": "queue:batch"})]),
        (
            "W 1n 1c 5",
            {},
            Book(),
            ("partition:main",),
            [(Because.QUEUE_PAUSED, {"paused": "partition:main"})],
        ),
        ("W 1n 1c 5", {"first_at": 180}, Book(), (), [(Because.NOT_YET, {"not_before": 180, "in": "2m"})]),
        (
            "W 1n 2c 5 interactive",
            {},
            CAP,
            (),
            [(Because.CAPPED, {"of": "user ann", "what": "CPU", "held": "2", "limit": "3", "asked": "2"})],
        ),
        (
            "W 1n 2c 5",
            {"project": SKY},
            BORROW,
            (),
            [(Because.CAPPED, {"of": "project sky", "what": "CPU", "held": "2", "limit": "3", "asked": "2"})],
        ),
        ("W 2n 8c 5", {}, Book(), (), [(Because.NODES_AWAY, {"asked": 2, "up": 1, "away": "n2 cordoned"})]),
        (
            "W 1n 1c 30",
            {},
            Book(),
            (),
            [(Because.WINDOW_IN_THE_WAY, {"window": "w20", "opens_in": "19m", "nodes": 1})],
        ),
    ],
)
def test_what_it_waits_for_has_its_numbers(
    text: str,
    more: dict[str, object],
    book: Book,
    paused: tuple[str, ...],
    expected: list[tuple[Because, dict[str, int | str]]],
) -> None:
    where = cluster(node("n1", 8), node("n2", 8, state=NodeState.CORDONED), windows=(window(20, 30),))
    held = runs("R 1n 2c 10 interactive", "n1", project=SKY)
    seen = world(where, [held], job(text, **more), paused=paused)
    assert of(seen, "W", book).reasons == tuple(Reason(why, tuple(facts.items())) for why, facts in expected)


def test_who_starts_with_another_one_says_with_whom() -> None:
    pair = (job("A 1n 3c 5"), job("B 1n 3c 5", beside=JobName("A")))
    seen = world(cluster(node("n1", 4), node("n2", 4)), [runs("R 1n 3c 10", "n1")], *pair)
    for name, other in (("A", "B"), ("B", "A")):
        assert Reason(Because.BESIDE_WAITS, (("beside", other),)) in of(seen, name).reasons
        assert of(seen, name).start_at == at(10)


@pytest.mark.parametrize(
    ("ask", "lack"),
    [
        (Ask(Resources(1000, 1), exclusive=True), "others are on it"),
        (Ask(Resources(1000, 4000)), "2GiB of 3.9GiB memory free"),
        (Ask(Resources(1000, 1, 0, 2)), "1 of 2 GPU free"),
        (Ask(Resources(1000, 1), counted=(("mig", 3),)), "2 of 3 mig free"),
        (Ask(Resources(3500, 1)), "2 of 3.5 CPU free"),
    ],
)
def test_what_is_short_on_a_node_is_told_as_it_is_in_truth(ask: Ask, lack: str) -> None:
    where = cluster(node("n1", 4, 2, counted=(("mig", 3),)))
    held = replace(job("R 10"), ask=Ask(Resources(2000, 2048, 0, 1), counted=(("mig", 1),)))
    seen = world(where, [Running(held, Instant(0), (Place(NodeName("n1"), (0,)),))], job("W 5", ask=ask))
    assert f"almost: n1: {lack}; enough in 9m" in lines(of(seen, "W"))


def test_a_share_of_a_gpu_is_looked_for_on_one_device() -> None:
    half = Ask(Resources(1000, 1), gpu_milli=500)
    held = [
        Running(job(f"R{n} 10", ask=replace(half, gpu_milli=600)), Instant(0), (Place(NodeName("n1"), (n,)),))
        for n in range(2)
    ]
    seen = world(cluster(node("n1", 8, 2)), held, job("W 5", ask=half))
    assert "almost: n1: 0 of 1 GPU with 500/1000 free; enough in 9m" in lines(of(seen, "W"))


def test_an_overdue_job_still_has_its_room() -> None:
    seen = replace(world(cluster(node("n1")), [runs("R 10", "n1")], job("W 5")), now=at(11))
    assert lines(of(seen, "W"))[-2:] == [
        "taken: n1 by `R`, which should have ended 1m ago",
        "almost: n1: 0 of 1 CPU free; enough now",
    ]


def two_parts(*nodes: str) -> Cluster:
    where = cluster(node("n1", 4), node("n2", 4), node("n3", 4))
    parts = (
        Partition(PartitionName("main"), (NodeName("n1"), NodeName("n2"))),
        Partition(PartitionName("talks"), (NodeName("n3"),), (Queue.INTERACTIVE,)),
        Partition(PartitionName("spare"), tuple(NodeName(name) for name in nodes)),
    )
    return Cluster(where.nodes, parts)


BUSY = [runs("R 1n 3c 10", "n1"), runs("S 1n 4c 15", "n2")]


@pytest.mark.parametrize(
    ("where", "waiting", "name", "expected"),
    [
        (two_parts("n3"), [job("W 1n 4c 20")], "W", ["1 CPU 1MiB", "the partition `spare`"]),
        (two_parts("n2"), [job("W 1n 4c 20")], "W", ["1 CPU 1MiB"]),
        (two_parts(), [job("W 2n 1c 20")], "W", ["1 of 2 nodes"]),
        # Room is kept for K on n1 from 10 on.
        (two_parts(), [job("K 1n 4c 20", priority=1), job("W 1n 1c 20")], "W", ["a limit of at most 9m"]),
        (
            two_parts(),
            [job("W 1n 1c 20", ask=Ask(Resources(1000, 1), exclusive=True))],
            "W",
            ["nodes that it shares (not `exclusive`)"],
        ),
        (two_parts(), [job("W 1n 4c 20", first_at=Instant(300))], "W", []),
    ],
)
def test_what_would_start_now_instead(
    where: Cluster, waiting: list[Job], name: str, expected: list[str]
) -> None:
    assert changes(world(where, BUSY, *waiting), name) == expected


def test_where_its_partition_is_paused_another_one_may_be_open() -> None:
    for paused, expected in (("partition:main", ["the partition `spare`"]), ("queue:batch", [])):
        assert changes(world(two_parts("n3"), BUSY, job("W 1n 4c 20"), paused=(paused,)), "W") == expected


def test_without_its_turn_it_would_wait_behind_the_others() -> None:
    seen = world(cluster(node("n1", 4)), [runs("R 1n 3c 10", "n1")], job("A 1n 2c 5 interactive"))
    behind = replace(seen, waiting=(*seen.waiting, job("B 1n 4c 5 interactive")))
    assert lines(of(seen, "A"))[-1] == "would start now: 1 CPU 1MiB"
    assert lines(of(behind, "A"))[-1] == "would start now: 1 CPU 1MiB, if it keeps its turn"


some_jobs = st.lists(
    st.tuples(
        *(st.integers(1, 2), st.integers(1, 4), st.integers(1, 12)),
        *(st.booleans(), st.booleans(), st.integers(0, 6)),
    ),
    min_size=4,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(some_jobs, st.integers(2, 8), st.integers(0, 20))
def test_whatever_is_suggested_starts_and_nobody_waits_longer_for_it(
    jobs: list[tuple[int, int, int, bool, bool, int]], minutes: int, which: int
) -> None:
    coming = []
    for number, (nodes, cpus, limit, talks, alone, came) in enumerate(jobs):
        one = job(f"j{number} {nodes}n {cpus}c {limit} {'interactive' if talks else 'batch'}", came=came)
        coming.append(replace(one, ask=replace(one.ask, exclusive=alone and cpus == 1)))
    where = two_parts("n2", "n3")
    play = Play(replace(where, windows=(window(15, 20, "n2"),)), coming)
    play.until(minutes)
    if not play.waiting:
        return
    seen = replace(play.world(), now=at(minutes - 1), ended=())
    asked = play.waiting[which % len(play.waiting)]
    promises = tuple(promise for promise in play.memory.promises if promise.job != asked.name)
    forgot = replace(play.memory, promises=promises)
    before = starts_of(decide(seen, play.book, play.memory))
    for one in explained(seen, play.book, play.memory, asked.name).instead:
        others = tuple(job for job in seen.waiting if job is not asked)
        changed = tuple(one.job if job is asked else job for job in seen.waiting)
        for waiting in [changed, (*others, replace(one.job, came_at=seen.now))][: 1 + one.anew]:
            after = starts_of(decide(replace(seen, waiting=waiting), play.book, forgot))
            assert after[asked.name] == seen.now
            late = [move for move in moves(replace(seen, waiting=others), before, after) if move.later]
            assert not [move for move in late if move.before > seen.now or move.breaks_promise]
