"""Draining by an operator's word: what waits is taken back, what runs finishes, nothing more is asked for."""

from __future__ import annotations

import pytest

from core.builders import NOW, memory, offer, plan_of, rules, site, slot, snapshot
from core.test_mutants_retire import PENDING, UNSEEN, WEST, ago, let_go, seen, targets, tracked, window
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.provision.pilot import Drain, PilotPhase, SiteState, Withdraw
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant

P = PilotPhase
EACH_PHASE = (
    seen("busy"),
    seen("idle"),
    seen("queued", PENDING),
    seen("fresh", PENDING, asked_at=Instant(NOW - 5)),
    seen("starting"),
    seen("lost", SiteState.UNKNOWN),
    seen("leaving", SiteState.LEAVING),
    seen("b-idle", key="west/b"),
    seen("b-queued", PENDING, key="west/b"),
)
EACH_SLOT = (slot("busy", 1), slot("idle"), slot("b-idle"))
TOLD = (("by", "ann"), ("why", "moving"))


@pytest.mark.parametrize(
    ("about", "drain", "withdrawn", "drained"),
    [
        ("site:west", True, ["b-queued", "queued"], ["b-idle", "busy", "idle", "starting"]),
        ("offer:west/a", True, ["queued"], ["busy", "idle", "starting"]),
        ("offer:west/b", True, ["b-queued"], ["b-idle"]),
        ("site:west", False, [], []),
        ("offer:west/a", False, [], []),
        ("site:east", True, [], []),
        ("pool:pool", True, [], []),
        ("west", True, [], []),
    ],
)
def test_a_word_to_drain_takes_back_what_waits_and_tells_the_rest_to_finish(
    about: str, drain: bool, withdrawn: list[str], drained: list[str]
) -> None:
    """What is on its way or cannot be told is left for the next look; what leaves is not told twice.

    Another pause, before it, that only stops asking changes nothing of that.
    """
    pauses = (Pause("pool:other", "bob", "for a while"), Pause(about, "ann", "moving", drain))
    snap = snapshot(pilots={"west": EACH_PHASE}, slots=EACH_SLOT, pauses=pauses)
    under = rules(site("west", offer(), offer(name="b"), repeat_s=60))
    acts = [Withdraw(WEST, targets(*withdrawn))] if withdrawn else []
    acts += [Drain(WEST, targets(*drained))] if drained else []
    reason = Reason(Because.DRAINED, TOLD)
    assert let_go(plan_of(snap, under=under)) == [Decision(about, reason, act) for act in acts]


def test_a_word_to_drain_waits_for_a_site_to_be_seen_and_not_for_its_pool() -> None:
    pauses = (Pause("site:west", "ann", "moving", drain=True),)
    blind = snapshot(pilots={"west": EACH_PHASE}, slots=UNSEEN, pauses=pauses)
    # What had joined is known from memory alone then.
    tracks = (tracked("busy", P.BUSY, joined_at=ago(60)), tracked("idle", P.IDLE, joined_at=ago(60)))
    plan = plan_of(blind, memory(tracks=tracks), rules(site("west", offer(), offer(name="b"), repeat_s=60)))
    drains = [each.action for each in let_go(plan) if isinstance(each.action, Drain)]
    assert drains == [Drain(WEST, targets("b-idle", "busy", "idle", "starting"))]
    unseen = snapshot(pilots={"west": UNSEEN}, slots=EACH_SLOT, pauses=pauses)
    assert let_go(plan_of(unseen, memory(tracks=tracks), rules(site("west", offer())))) == []


def test_what_was_told_to_leave_is_not_told_again_by_word_or_window() -> None:
    pauses = (Pause("offer:west/a", "ann", "moving", drain=True), Pause("site:west", "bob", "", drain=True))
    pilots = (seen("one"), seen("two"))
    tracks = (tracked("two", P.BUSY, joined_at=ago(60), leaving="said before"),)
    snap = snapshot(
        pilots={"west": pilots},
        slots=(slot("one", 1), slot("two", 1)),
        pauses=pauses,
        windows=(window("west", -90, 900),),
    )
    expected = Decision("offer:west/a", Reason(Because.DRAINED, TOLD), Drain(WEST, targets("one")))
    assert let_go(plan_of(snap, memory(tracks=tracks))) == [expected]
