"""Jobs that belong together and could never have room at once do not wait for ever without a word."""

from __future__ import annotations

import pytest
from tests.schedule.worlds import cluster, job, node, window

from glidepath.core.because import Because
from glidepath.core.cycle import Reason
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.acts import Refuse, Start
from glidepath.core.schedule.cluster import NodeState
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, Job, JobName, Memory, Place, Running, World

A = JobName("A")
WHERE = cluster(node("n1", 4), node("n2", 4, state=NodeState.CORDONED), windows=(window(5, 9),))
CAP = Book(user_cap=Resources(5000))


@pytest.mark.parametrize(
    ("first", "second", "book", "fits"),
    [
        ("A 1n 3c 20", job("B 1n 1c 20", beside=A, same_node=True), Book(), True),
        ("A 1n 3c 20", job("B 1n 2c 20", beside=A, same_node=True), Book(), False),
        ("A 1n 3c 20", job("B 1n 2c 20", beside=A), Book(), True),  # on the other node, when it is back
        ("A 1n 3c 20", job("B 2n 1c 20", beside=A), Book(), True),
        ("A 1n 3c 20", job("B 2n 2c 20", beside=A), Book(), False),
        ("A 1n 3c 20 interactive", job("B 1n 2c 20 interactive", beside=A), CAP, True),
        ("A 1n 3c 20 interactive", job("B 1n 3c 20 interactive", beside=A), CAP, False),
    ],
)
def test_who_could_never_start_with_another_one_is_refused(
    first: str, second: Job, book: Book, fits: bool
) -> None:
    full = Running(job("R 1n 4c 99"), Instant(0), (Place(NodeName("n1")),))
    seen = World(Instant(0), WHERE, (job(first), second), (full,))
    decisions = decide(seen, book, Memory()).plan.decisions
    refused = [one.reason for one in decisions if one.action == Refuse(JobName("B"))]
    facts = (("beside", "A"), ("accepted", "smaller jobs, or jobs that need not start together"))
    assert refused == ([] if fits else [Reason(Because.BESIDE_TOO_LARGE, facts)])


def test_the_others_of_a_chain_go_with_it_and_the_first_one_runs_alone() -> None:
    chain = (
        job("A 1n 3c 4"),
        job("B 1n 2c 4", beside=A, same_node=True),
        job("C 1n 1c 4", beside=JobName("B")),
    )
    plan = decide(World(Instant(0), WHERE, chain), Book(), Memory()).plan
    told = {one.about: one.reason.because for one in plan.decisions}
    assert (told["job:B"], told["job:C"]) == (Because.BESIDE_TOO_LARGE, Because.BESIDE_TOO_LARGE)
    assert [act.job for act in plan.actions if isinstance(act, Start)] == ["A"]


def test_a_second_job_of_one_name_does_not_take_the_first_one_with_it() -> None:
    pair = (job("A 1n 1c 4"), job("B 1n 1c 4", beside=A), job("B 1n 2c 4"))
    plan = decide(World(Instant(0), WHERE, pair), Book(), Memory()).plan
    assert [act.job for act in plan.actions if isinstance(act, Start)] == ["B", "A"]
