"""Both queues on small worlds, played forward and drawn: a line for each node, a letter for each minute.

A dot is a free minute, a number says how many jobs share the node.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.schedule.worlds import MINUTE, Play, cluster, job, node, picture, window

from glidepath.core.because import Because
from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import (
    Cluster,
    Node,
    NodeState,
    Partition,
    PartitionName,
    ProjectName,
    Queue,
)
from glidepath.core.schedule.job import Ask, Book, Job, JobName, OnLoss, Share, Tally
from glidepath.core.schedule.promise import medians

TWO = cluster(node("n1"), node("n2"))
THREE = cluster(node("n1"), node("n2"), node("n3"))


def reasons(play: Play) -> dict[str, Because]:
    assert play.last is not None
    return {decision.about: decision.reason.because for decision in play.last.plan.decisions}


def test_a_gang_has_room_kept_and_what_ends_in_time_goes_past_it() -> None:
    play = Play(
        TWO,
        [
            job("A 1n 5 batch"),
            job("B 2n 2 batch", came=1),
            job("C 1n 4 batch", came=1),
            job("D 1n 5 batch", came=1),
        ],
    )
    assert play.until(14) == picture("""
        n1 AAAAABBDDDDD..
        n2 .CCCCBB.......
    """)


def test_interactive_jobs_start_in_the_order_they_came_and_as_promised() -> None:
    play = Play(
        TWO,
        [
            job("A 1n 3 interactive"),
            job("B 2n 2 interactive"),
            job("C 1n 1 interactive"),
            job("D 1n 3 batch"),
            job("E 1n 4 batch"),
        ],
    )
    # C would fit beside A at once, and waits its turn; D fits before B's promise, E does not.
    assert play.until(10) == picture("""
        n1 AAABBC....
        n2 DDDBBEEEE.
    """)
    assert play.told == {"A": [0], "B": [3, 3, 3, 3], "C": [5, 5, 5, 5, 5, 5]}


def test_a_promise_gets_earlier_when_others_end_early_and_is_not_taken_by_those_behind() -> None:
    play = Play(TWO, [job("A 2n 5 interactive"), job("B 2n 3 interactive"), job("C 1n 2 interactive")])
    play.runs = {"A": 2}
    assert play.until(8) == picture("""
        n1 AABBBCC.
        n2 AABBB...
    """)
    assert play.told["B"] == [5, 5, 2]
    assert play.told["C"] == [8, 8, 5, 5, 5, 5]


def test_nothing_starts_that_cannot_end_before_a_window() -> None:
    play = Play(
        cluster(node("n1"), node("n2"), windows=(window(4, 6),)),
        [job("A 1n 5 batch"), job("B 1n 3 batch"), job("C 1n 3 batch", came=2)],
    )
    assert play.until(11) == picture("""
        n1 BBB...AAAAA
        n2 ......CCC..
    """)


def test_nodes_kept_for_a_project_are_closed_for_the_others_only() -> None:
    kept = window(2, 6, "n1", projects=("astro",))
    play = Play(
        cluster(node("n1"), node("n2"), windows=(kept,)),
        [
            job("A 1n 3 batch"),
            job("B 1n 3 batch"),
            job("S 1n 3 batch", came=2, project=ProjectName("astro")),
        ],
    )
    assert play.until(9) == picture("""
        n1 ..SSS....
        n2 AAABBB...
    """)


def test_a_job_without_a_limit_is_told_and_ended_when_its_window_opens() -> None:
    world = cluster(node("n1"), node("n2"), windows=(window(6, 8, "n1"),), endless=True)
    play = Play(world, [job("M - batch"), job("B 2n 2 batch", came=1)], book=Book(notice_s=2 * MINUTE))
    drawn = play.until(4)
    assert reasons(play)["running"] is Because.GOES_ON
    play.until(5)
    assert reasons(play)["job:M"] is Because.NOTICE_GIVEN
    drawn = play.until(11)
    assert "M" in play.gone
    assert drawn == picture("""
        n1 MMMMMM..BB.
        n2 ........BB.
    """)


def test_a_whole_node_means_nobody_else_and_others_share() -> None:
    big = cluster(node("n1", cpus=4), node("n2", cpus=4))
    alone = job("X 1n 1c 2 batch")
    alone = replace(alone, ask=replace(alone.ask, exclusive=True))
    play = Play(big, [job("A 1n 1c 4 batch"), job("B 1n 2c 4 batch"), alone, job("C 1n 4c 2 batch", came=1)])
    assert play.until(5) == picture("""
        n1 2222.
        n2 XXCC.
    """)


def test_jobs_that_belong_together_start_together_on_the_same_node_if_they_say_so() -> None:
    big = cluster(node("n1", cpus=2), node("n2", cpus=2))
    play = Play(
        big,
        [
            job("A 1n 1c 3 batch"),
            job("B 1n 2c 2 batch"),
            job("P 1n 1c 3 batch"),
            job("Q 1n 1c 2 batch", beside=JobName("P"), same_node=True),
            job("R 1n 2c 2 interactive", came=6),
            job("S 1n 2c 2 interactive", came=6, beside=JobName("R")),
        ],
    )
    drawn = play.until(9)
    assert play.starts["P"] == play.starts["Q"]
    assert play.starts["R"] == play.starts["S"]
    assert drawn == picture("""
        n1 AAA...SS.
        n2 BB22P.RR.
    """)


@pytest.mark.parametrize(
    ("policy", "drawn", "gone"),
    [
        (OnLoss.END, "n1 AA......\nn2 AA......", ["A"]),
        (OnLoss.GO_ON, "n1 AAAAA...\nn2 AA......", []),
        (OnLoss.REQUEUE, "n1 AA...AAA\nn2 AA...AAA", []),
    ],
)
def test_a_job_that_loses_a_node_does_what_it_said(policy: OnLoss, drawn: str, gone: list[str]) -> None:
    play = Play(TWO, [job("A 2n 5 batch", on_loss=policy)])
    play.until(2)
    lost = tuple(replace(one, state=NodeState.LOST) if one.name == "n2" else one for one in TWO.nodes)
    play.cluster = replace(TWO, nodes=lost)
    play.until(5)
    play.cluster = TWO
    assert play.until(8) == drawn
    assert play.gone == gone


def test_a_node_that_is_not_heard_of_keeps_its_job_and_gets_no_other() -> None:
    play = Play(TWO, [job("A 2n 3 batch"), job("B 1n 2 batch", came=1)])
    play.until(1)
    unsure = tuple(replace(one, state=NodeState.UNSURE) if one.name == "n2" else one for one in TWO.nodes)
    play.cluster = replace(TWO, nodes=unsure)
    play.until(2)
    assert reasons(play)["job:A"] is Because.NODE_UNSURE
    assert play.until(6) == picture("""
        n1 AAABB.
        n2 AAA...
    """)


def test_a_lost_node_moves_a_promise_and_says_so() -> None:
    play = Play(TWO, [job("A 2n 4 batch"), job("B 2 interactive", came=1), job("C 2 interactive", came=1)])
    play.until(3)
    assert play.told["C"] == [4, 4]
    play.cluster = replace(TWO, nodes=(TWO.nodes[0], replace(TWO.nodes[1], state=NodeState.CORDONED)))
    play.until(4)
    assert reasons(play)["job:C"] is Because.PROMISE_MOVED
    assert play.told["B"][-1] == 4
    assert play.told["C"][-1] == 6
    assert next(one for one in play.memory.promises if one.job == "C").moved == 1


def test_who_is_at_his_cap_waits_and_holds_up_nobody() -> None:
    bob = Owner("bob")
    play = Play(
        THREE,
        [
            job("A 1n 3 interactive"),
            job("B 1n 3 interactive"),
            job("C 1n 3 interactive"),
            job("D 1n 2 interactive", came=1, owner=bob),
        ],
        book=Book(user_jobs_max=2),
    )
    assert play.until(6) == picture("""
        n1 AAACCC
        n2 BBB...
        n3 .DD...
    """)
    assert play.told["C"][0] == 3


def test_a_paused_queue_starts_nothing_and_goes_on_when_reopened_however_often() -> None:
    play = Play(TWO, [job("A 1n 2 interactive"), job("B 1n 2 batch"), job("C 2n 1 interactive")])
    play.paused = ("queue:interactive", "partition:main")
    play.step()
    assert set(reasons(play).values()) == {Because.QUEUE_PAUSED}
    play.now = 0
    for turn in range(1000):
        play.paused = ("partition:main",) if turn % 2 else ("queue:interactive", "queue:batch")
        if turn % 100 < 2:
            play.step()
            play.now = 0
        assert not play.starts
    play.paused = ()
    play.drawn.clear()
    assert play.until(4) == picture("""
        n1 AAC.
        n2 BBC.
    """)


def test_a_guarantee_goes_first_and_takes_back_what_others_borrowed() -> None:
    astro, bio = ProjectName("astro"), ProjectName("bio")
    book = Book(
        shares=(Share(astro, guarantee=Resources(2000, 2048)), Share(bio, guarantee=Resources(1000, 1024)))
    )
    play = Play(
        THREE,
        [
            job("A 1n 9 batch", project=bio),
            job("B 1n 9 batch", project=bio, stoppable=True),
            job("C 1n 9 batch", project=bio, stoppable=True),
            job("S 2n 3 batch", came=2, project=astro),
        ],
        book=book,
    )
    drawn = play.until(3)
    assert reasons(play)["job:B"] is Because.STOPPED_FOR
    drawn = play.until(7)
    assert drawn == picture("""
        n1 AAAAAAA
        n2 BB.SSSB
        n3 CC.SSSC
    """)


def test_borrowing_ends_at_its_bound() -> None:
    bio = ProjectName("bio")
    book = Book(shares=(Share(bio, guarantee=Resources(1000, 1024), borrow=Resources(1000, 1024)),))
    play = Play(THREE, [job(f"{name} 1n 2 batch", project=bio) for name in "ABC"], book=book)
    assert play.until(4) == picture("""
        n1 AACC
        n2 BB..
        n3 ....
    """)


def test_a_job_that_reaches_its_limit_is_ended() -> None:
    play = Play(TWO, [job("A 1n 2 batch")], runs={"A": 50})
    assert play.until(4) == picture("""
        n1 AA..
        n2 ....
    """)
    assert play.gone == ["A"]


def test_priority_goes_first_and_later_jobs_are_not_let_start_early() -> None:
    play = Play(
        cluster(node("n1")),
        [
            job("A 2 batch"),
            job("B 2 batch"),
            job("C 2 batch", priority=5),
            job("D 1 batch", first_at=Instant(60)),
        ],
    )
    assert play.until(7).startswith("n1 CC")


def test_split_nodes_keep_the_queues_apart_and_shared_ones_do_not() -> None:
    nodes = (node("n1"), node("n2"))
    split = Cluster(
        nodes,
        (
            Partition(PartitionName("main"), (NodeName("n1"),), (Queue.BATCH,)),
            Partition(PartitionName("desk"), (NodeName("n2"),), (Queue.INTERACTIVE,)),
        ),
    )
    desk = PartitionName("desk")
    jobs = [
        job("A 2 batch"),
        job("B 2 batch"),
        job("I 2 interactive", partition=desk),
        job("J 2 interactive"),
    ]
    play = Play(split, jobs)
    assert play.until(4) == picture("""
        n1 AABB
        n2 II..
    """)
    assert play.gone == ["J"]


def share(name: str, milli: int) -> Job:
    made = job(f"{name} 1n 1c 2 batch")
    return replace(made, ask=Ask(Resources(1000, 1), gpu_milli=milli))


def test_shares_of_a_gpu_lie_on_one_device_and_whole_ones_stay_whole() -> None:
    play = Play(
        cluster(node("g1", cpus=8, gpus=2)),
        [share("A", 600), share("B", 600), share("C", 400), job("W 1n 1c 1g 2 batch"), share("D", 300)],
    )
    play.step()
    devices = {one.job.name: one.places[0].devices for one in play.running}
    # Both devices have 600 taken; 400 goes beside one of them, 300 beside the other, and none is whole.
    assert devices == {"A": (0,), "B": (1,), "C": (0,), "D": (1,)}
    play.until(4)
    assert play.starts["W"] == 2


def test_a_runtime_that_takes_room_of_its_own_is_counted() -> None:
    small = replace(cluster(node("n1", cpus=4)), overheads=(("kata", Resources(500, 0)),))
    kata = [replace(one, ask=replace(one.ask, runtime="kata")) for one in (job("A 2c 2"), job("B 2c 2"))]
    play = Play(small, kata)
    assert play.until(4) == "n1 AABB"


def test_mig_profiles_are_counted() -> None:
    mig = cluster(node("n1", cpus=8, counted=(("mig-1g", 2),)))
    ask = Ask(Resources(1000, 1), counted=(("mig-1g", 1),))
    play = Play(mig, [replace(job(f"{name} 2"), ask=ask) for name in "ABC"])
    assert play.until(4) == "n1 22CC"


def test_cpu_jobs_leave_nodes_with_gpus_alone_while_they_can() -> None:
    mixed: tuple[Node, ...] = (node("g1", gpus=1), node("n1"))
    play = Play(cluster(*mixed), [job("A 1n 2 batch"), job("G 1n 1g 2 batch")])
    assert play.until(2) == picture("""
        g1 GG
        n1 AA
    """)


def test_promises_are_scored_when_the_job_runs() -> None:
    play = Play(TWO, [job("A 2n 5 interactive"), job("B 2n 3 interactive"), job("C 2n 2 interactive")])
    play.runs = {"A": 2}
    play.until(5)
    assert play.memory.tally.off_s == (0, -3 * MINUTE)
    away = tuple(replace(one, state=NodeState.CORDONED) for one in TWO.nodes)
    play.cluster = replace(TWO, nodes=away)
    play.until(12)
    play.cluster = TWO
    play.until(14)
    # C was told the eighth minute and the nodes were away until the twelfth.
    assert play.memory.tally == Tally(kept=2, broken=1, off_s=(0, -3 * MINUTE, 4 * MINUTE))
    assert medians(play.memory.tally) == (3 * MINUTE, 4 * MINUTE)
    assert reasons(play)["job:C"] is Because.PROMISE_BROKEN
