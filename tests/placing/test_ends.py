"""Every way in which a rank comes to be over has a state, a sentence for the owner, and what comes then."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from placing_world import a_spec

from glidepath.core.place.acts import Lessen, Settle
from glidepath.core.place.judge import STARTS_MAX, judged, settled
from glidepath.core.place.rank import Cause, RankSeen, RankState, SetSeen, set_key
from glidepath.core.place.record import Phase, Record, Then
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.job import OnLoss, Place

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "ends.md"
NOW = Instant(1_000_000)
NODES = ("n1", "n2")
COMES: dict[Then, str] = {
    Then.DONE: "`done`",
    Then.FAILED: "`failed`",
    Then.AGAIN: "waits again, counted",
    Then.ANEW: "waits again",
}


def a_record(on_loss: OnLoss, *, ranks: int = 1) -> Record:
    spec = a_spec(nodes=ranks, run_s_max=7200, on_loss=on_loss, image="docker.io/library/python:3.13")
    places = tuple(Place(NodeName(node)) for node in NODES[:ranks])
    job = spec.asked(7, NOW, 7200)
    return Record(7, job, spec.work, Phase.RUNNING, attempt=1, places=places, asked_at=NOW, began_at=NOW)


def a_rank(cause: Cause, at: int = 0) -> RankSeen:
    code = {Cause.EXITED: 3}.get(cause)
    number = {Cause.SIGNALLED: 11}.get(cause)
    return RankSeen(at, NodeName(NODES[at]), RankState.OVER, cause, code, number)


def end_of(cause: Cause, on_loss: OnLoss) -> Settle:
    return settled(a_record(on_loss), SetSeen(set_key(7, 1), (a_rank(cause),)))


def goes_on(cause: Cause) -> str:
    """What is done about a gang that said that it goes on, when one of its ranks ends like this."""
    going = RankSeen(1, NodeName("n2"), RankState.RUNNING, began_at=NOW)
    seen = SetSeen(set_key(7, 1), (a_rank(cause), going), 7200)
    record = a_record(OnLoss.GO_ON, ranks=2)
    (decision,) = judged(record, seen, listed_at=NOW, now=NOW)
    if isinstance(decision.action, Lessen):
        return "goes on without it"
    then = (
        decision.action.then
        if decision.action is not None and hasattr(decision.action, "then")
        else Then.SEEN
    )
    return COMES[then]


def rows() -> list[str]:
    found = []
    for cause in Cause:
        by_loss = [COMES[end_of(cause, on_loss).then] for on_loss in (OnLoss.REQUEUE, OnLoss.END)]
        cells = [
            f"`{cause.value}`" if cause else "nothing",
            end_of(cause, OnLoss.END).why,
            *by_loss,
            goes_on(cause),
        ]
        found.append(f"| {' | '.join(cells)} |")
    return found


def test_every_cause_is_on_the_page_with_its_sentence_and_what_comes_then() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = re.findall(r"^\| (?:`[a-z ]+`|nothing) \|.*$", page.split("## Of a whole job")[0], re.MULTILINE)
    assert table == rows(), "the rows should be:\n" + "\n".join(rows())


def test_no_two_causes_are_told_in_the_same_words() -> None:
    sentences = [end_of(cause, OnLoss.END).why for cause in Cause]
    assert len(set(sentences)) == len(Cause)
    assert all(sentence.isprintable() and len(sentence) > 10 for sentence in sentences)


def test_what_a_cluster_says_of_it_stands_behind_the_sentence() -> None:
    rank = replace(a_rank(Cause.NODE_LOST), why="no heartbeat since 08:00")
    found = settled(a_record(OnLoss.REQUEUE), SetSeen(set_key(7, 1), (rank,)))
    assert found.why == "it ran on n1 and was lost with its node: no heartbeat since 08:00"


@pytest.mark.parametrize("cause", [Cause.REFUSED, Cause.NOT_GATHERED])
def test_what_never_began_is_not_started_for_ever(cause: Cause) -> None:
    record = replace(a_record(OnLoss.REQUEUE), attempt=STARTS_MAX)
    found = settled(record, SetSeen(set_key(7, STARTS_MAX), (a_rank(cause),)))
    assert (found.then, found.lost) == (Then.FAILED, False)
    assert found.why.startswith(f"it was started {STARTS_MAX} times in vain, the last: ")


def test_what_was_lost_is_tried_again_so_often_as_its_owner_says() -> None:
    seen = SetSeen(set_key(7, 1), (a_rank(Cause.EVICTED),))
    record = replace(a_record(OnLoss.REQUEUE), retries_max=2, losses=1)
    assert settled(record, seen).then is Then.AGAIN
    last = settled(replace(record, losses=2), seen)
    assert (last.then, last.lost) == (Then.FAILED, True)
    assert (
        last.why == "lost 3 times, the last: it ran on n1 and was evicted by the cluster; it may be 2 times"
    )
