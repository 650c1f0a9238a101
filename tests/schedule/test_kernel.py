"""The kernel, `decide` on values and a table that follows start the same jobs at the same times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import Cluster, Node, Partition, PartitionName, Queue
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import Ask, Book, Job, JobName
from glidepath.core.schedule.order import Kind
from glidepath.sim.rerun.placed import Timed, from_values, placed, score_of
from glidepath.sim.rerun.rules import played, score
from glidepath.sim.rerun.trace import Trace
from schedule.logs import crowd, logs

KINDS = {"easy": Kind.ARRIVAL, "steady": Kind.STEADY}
YEAR_S = 366 * 86400


def one_node(processors: int) -> Cluster:
    node = Node(NodeName("all"), Resources(processors * 1000, 1 << 20))
    return Cluster((node,), (Partition(PartitionName("main"), (node.name,), limit_s_max=YEAR_S),))


def within(trace: Trace) -> Trace:
    """Jobs that take some time and keep to their limits: others are ended by the product, and by no log."""
    run = np.maximum(trace.run, 1)
    return Trace(trace.submit, run, np.maximum(trace.limit, run), trace.procs, trace.user)


def jobs_of(trace: Trace) -> list[Timed]:
    rows = zip(*(column.tolist() for column in vars(trace).values()), strict=True)
    return [
        Timed(
            Job(
                name=JobName(f"j{at}"),
                owner=Owner(f"u{user}"),
                partition=PartitionName("main"),
                queue=Queue.BATCH,
                ask=Ask(Resources(procs * 1000)),
                came_at=Instant(submit),
                limit_s=limit,
            ),
            run,
        )
        for at, (submit, run, limit, procs, user) in enumerate(rows)
    ]


def starts(trace: Trace, processors: int, rule: str, *, follows: bool) -> list[int]:
    planner = Follower(KINDS[rule]).schedule if follows else from_values(KINDS[rule])
    jobs = jobs_of(trace)
    began = placed(one_node(processors), jobs, Book(), planner)
    return [began[one.job.name].at for one in jobs]


@pytest.mark.parametrize("rule", KINDS)
@settings(max_examples=30, deadline=None)
@given(trace=logs(jobs_max=25))
def test_decide_starts_what_the_kernel_starts(rule: str, trace: Trace) -> None:
    trace = within(trace)
    assert starts(trace, 8, rule, follows=False) == played(trace, 8, rule).tolist()


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("rule", KINDS)
def test_a_crowd_starts_as_in_the_kernel(rule: str, follows: bool) -> None:
    trace = within(crowd(7, 150, 32))
    assert starts(trace, 32, rule, follows=follows) == played(trace, 32, rule).tolist()


def test_the_score_is_that_of_the_kernel() -> None:
    trace = within(crowd(3, 60, 16))
    jobs, cluster = jobs_of(trace), one_node(16)
    found = score_of(cluster, jobs, placed(cluster, jobs, Book()))
    assert found == score(trace, played(trace, 16, "steady"), 16)


@st.composite
def gangs(draw: st.DrawFn) -> list[Timed]:
    """Jobs on several nodes, with whole GPUs and shares, in both queues."""
    rows = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300)), min_size=1, max_size=20))
    now, made = 0, []
    for at, (gap, run_s) in enumerate(rows):
        now += gap
        nodes, gpus, share = draw(
            st.sampled_from(
                ((1, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 1, 0), (2, 1, 0), (1, 2, 0), (1, 0, 400))
            )
        )
        ask = Ask(
            Resources(draw(st.integers(1, 6)) * 1000, draw(st.integers(1, 6)) * 512, 0, gpus), nodes, share
        )
        made.append(
            Timed(
                Job(
                    name=JobName(f"j{at}"),
                    owner=Owner(draw(st.sampled_from("ab"))),
                    partition=PartitionName("main"),
                    queue=draw(st.sampled_from(Queue)),
                    ask=ask,
                    came_at=Instant(now),
                    limit_s=run_s + draw(st.sampled_from((0, 0, 100, 500))),
                ),
                run_s,
            )
        )
    return made


@pytest.mark.parametrize("keep", [1, 4])
@settings(max_examples=25, deadline=None)
@given(jobs=gangs())
def test_a_follower_starts_gangs_and_gpus_when_and_where_decide_does(keep: int, jobs: list[Timed]) -> None:
    sizes = ((4, 0), (8, 0), (8, 2), (16, 4))
    nodes = tuple(
        Node(NodeName(f"n{at}"), Resources(cpus * 1000, cpus * 1024, 0, gpus))
        for at, (cpus, gpus) in enumerate(sizes)
    )
    cluster = Cluster(nodes, (Partition(PartitionName("main"), tuple(node.name for node in nodes)),))
    follower = Follower()
    whole = placed(cluster, jobs, Book(keep=keep), from_values())
    assert placed(cluster, jobs, Book(keep=keep), follower.schedule) == whole
    assert follower.made == 1
