"""The tray of a site that calls: what is asked, given, taken, refused and taken back, once each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.agent_builders import (
    NOW,
    TERMS,
    WEST,
    answer,
    call,
    pilot,
    renamed,
    spec,
    starts,
    tray_with,
    wishes,
)
from glidepath.called.post import digest_of
from glidepath.called.tray import Tray, asked, drained, listing_of, removed, windows_in, withdrawn
from glidepath.called.words import Downtime
from glidepath.core.cycle import Done, NotTried, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.provision.sight import Window
from glidepath.core.quantity import Instant, Owner, PilotName

P1 = PilotName("p1")


def states(tray: Tray, *, now: int = NOW) -> dict[str, SiteState]:
    listing = listing_of(tray, Instant(now), lapse_s=TERMS.lapse_s)
    return {each.name: each.state for each in listing.pilots}


def test_what_is_asked_for_waits_is_given_once_and_is_then_what_the_site_says() -> None:
    tray, _ = call(tray_with())
    tray, outcome = asked(tray, spec(), digest_of(spec()))
    assert outcome == Done()
    assert states(tray) == {"p1": SiteState.PENDING}
    tray, orders = call(tray)
    assert starts(orders) == ["p1"]
    tray, orders = call(tray, pilot(state="pending"), answers=[answer()])
    assert starts(orders) == []
    tray, orders = call(tray, pilot(state="running"))
    assert (starts(orders), states(tray)) == ([], {"p1": SiteState.RUNNING})


def test_an_order_without_a_word_of_it_comes_again_under_the_same_name() -> None:
    tray, first = call(tray_with(spec()))
    tray, second = call(tray)
    assert starts(first) == starts(second) == ["p1"]
    assert tray.given == 1
    late = NOW + TERMS.lapse_s + 1
    tray, third = call(tray, now=late)
    assert starts(third) == [], "so long after, whether it was started is for the listing to say"
    assert states(tray, now=late) == {"p1": SiteState.PENDING}, "unknown is not gone"


@pytest.mark.parametrize("late_s", [0, 1])
def test_a_request_that_nobody_fetched_in_time_is_over_and_never_given(late_s: int) -> None:
    tray, _ = call(tray_with())
    tray, _ = asked(tray, spec(), digest_of(spec()))
    now = NOW + TERMS.lapse_s + late_s
    expected = SiteState.WITHDRAWN if late_s else SiteState.PENDING
    assert states(tray, now=now) == {"p1": expected}
    tray, orders = call(tray, now=now)
    assert starts(orders) == ([] if late_s else ["p1"])


def test_a_site_that_was_unseen_gets_nothing_of_before_and_gives_back_what_it_has_no_word_of() -> None:
    tray, _ = call(tray_with(spec()))
    tray, _ = asked(tray, renamed(spec(), "p2"), "d")
    now = NOW + TERMS.silent_s + 1
    tray, orders = call(tray, now=now)
    assert (starts(orders), wishes(orders)) == ([], [("withdraw", "p1")])
    assert states(tray, now=now) == {"p1": SiteState.PENDING, "p2": SiteState.WITHDRAWN}


def test_the_same_name_twice_is_one_request_and_for_something_else_refused() -> None:
    tray = tray_with(spec())
    again, outcome = asked(tray, spec(asked_at=NOW + 5), digest_of(spec(asked_at=NOW + 5)))
    assert (again, outcome) == (tray, Done("it was asked for before"))
    other = replace(spec(), idle_s=7)
    assert asked(tray, other, digest_of(other)) == (tray, Refused("`p1` exists for something else"))


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_what_the_site_refused_has_failed_with_its_words_and_is_forgotten_when_cleared(outcome: str) -> None:
    tray, _ = call(tray_with(spec()))
    tray, orders = call(tray, answers=[answer(outcome=outcome, why="no such account")])
    assert starts(orders) == []
    listing = listing_of(tray, NOW, lapse_s=300)
    assert [(p.state, p.note) for p in listing.pilots] == [(SiteState.FAILED, "no such account")]
    assert (tray.given, tray.refused, tray.last_refusal) == (1, 1, "no such account")
    tray, gone = removed(tray, P1, "")
    assert (gone, tray.requests) == (Done(), ())


def test_what_was_not_handed_out_is_taken_back_at_once_and_nobody_failed() -> None:
    tray, _ = call(tray_with())
    tray, _ = asked(tray, spec(), digest_of(spec()))
    tray, outcome = withdrawn(tray, P1, "")
    assert (outcome, states(tray)) == (Done(), {"p1": SiteState.WITHDRAWN})
    tray, orders = call(tray)
    assert (starts(orders), wishes(orders)) == ([], [])
    tray, _ = removed(tray, P1, "")
    assert tray.requests == ()


def test_withdrawing_what_was_handed_out_needs_the_word_of_the_agent() -> None:
    tray, _ = call(tray_with(spec()))
    tray, outcome = withdrawn(tray, P1, "")
    assert isinstance(outcome, Unsure)
    tray, orders = call(tray)
    assert (starts(orders), wishes(orders)) == ([], [("withdraw", "p1")]), (
        "not started after it was taken back"
    )
    tray, orders = call(tray, answers=[answer(verb="withdraw")])
    assert (states(tray), wishes(orders)) == ({"p1": SiteState.WITHDRAWN}, [])


def test_a_pilot_that_started_meanwhile_is_left_alone() -> None:
    tray, _ = call(tray_with(spec()))
    tray, _ = call(tray, pilot(), answers=[answer()])
    tray, _ = withdrawn(tray, P1, "")
    tray, orders = call(tray, pilot(state="running"))
    assert wishes(orders) == [("withdraw", "p1")]
    tray, orders = call(tray, pilot(state="running"), answers=[answer(verb="withdraw", outcome="refused")])
    assert (wishes(orders), states(tray)) == ([], {"p1": SiteState.RUNNING})
    assert withdrawn(tray, P1, "") == (tray, Refused("`p1` has started"))


def test_a_drain_is_told_until_it_is_done_and_a_removal_until_it_is_gone() -> None:
    tray, _ = call(tray_with(spec()))
    tray, _ = call(tray, pilot(state="running"), answers=[answer()])
    tray, outcome = drained(tray, P1, "77")
    assert isinstance(outcome, Done)
    tray, orders = call(tray, pilot(state="running"))
    assert [(w.verb, w.native_id) for w in orders.wishes] == [("drain", "77")]
    tray, orders = call(tray, pilot(state="leaving"), answers=[answer(verb="drain")])
    assert wishes(orders) == []
    tray, _ = removed(tray, P1, "")
    for _ in range(2):
        tray, orders = call(tray, pilot(state="ended"), answers=[answer(verb="remove")])
        assert wishes(orders) == [("remove", "p1")], "its traces are still listed"
    tray, orders = call(tray)
    assert (tray.requests, wishes(orders)) == ((), [])


def test_pilots_that_a_lost_store_asked_for_are_listed_and_can_be_told_to_leave() -> None:
    tray, orders = call(Tray(WEST), pilot("gp-old-1-0", "running", native_id="9", left_s=60))
    assert starts(orders) == []
    found = listing_of(tray, NOW, lapse_s=300).pilots[0]
    assert (found.name, found.native_id, found.ends_at, found.owner) == ("gp-old-1-0", "9", NOW + 60, "")
    tray, _ = drained(tray, PilotName("gp-old-1-0"), "9")
    _, orders = call(tray, pilot("gp-old-1-0", "running"))
    assert wishes(orders) == [("drain", "gp-old-1-0")]


def test_no_more_is_given_or_asked_than_the_site_has_room_for() -> None:
    many = [renamed(spec(), f"p{n}") for n in range(5)]
    tray, orders = call(tray_with(*many), room=2)
    assert starts(orders) == ["p0", "p1"]
    full, outcome = asked(tray, renamed(spec(), "p9"), "d")
    assert (full, outcome) == (tray, NotTried("the site's agent takes no more now, and 3 wait for its call"))


def test_the_room_that_a_site_told_is_less_by_what_is_on_its_way_there() -> None:
    def told(tray: Tray) -> int | None:
        return listing_of(tray, NOW, lapse_s=300).room

    tray, _ = call(tray_with(), room=3)
    assert told(tray) == 3
    for name, left in (("p1", 2), ("p2", 1)):
        tray, _ = asked(tray, renamed(spec(), name), "d")
        assert told(tray) == left
    tray, _ = call(tray, room=3)
    assert told(tray) == 1, "they were handed out after the agent had counted"
    tray, _ = call(tray, pilot("p1"), pilot("p2"), answers=[answer("p1"), answer("p2")], room=1)
    assert told(tray) == 1, "it has counted them itself"
    tray, _ = call(tray, pilot("p1"), pilot("p2"))
    assert told(tray) is None, "it has no limits any more"


@pytest.mark.parametrize("unseen", [True, False])
def test_nothing_is_given_to_a_site_that_is_closed_or_cannot_be_seen(unseen: bool) -> None:
    more = (
        {"seen": False, "why": "sinfo: no answer"} if unseen else {"downtimes": [Downtime(in_s=0, for_s=60)]}
    )
    tray, orders = call(tray_with(spec()), **more)
    assert starts(orders) == []
    assert [each.step for each in tray.requests] == ["asked"]


def test_the_listing_says_what_was_handed_out_refused_and_declared() -> None:
    tray, _ = call(tray_with(spec()), agent="glidepath agent 1", room=7)
    more = {"agent": "glidepath agent 1", "downtimes": [Downtime(in_s=60, for_s=60, why="switches")]}
    tray, _ = call(tray, answers=[answer(outcome="refused", why="no such account")], **more)
    tray, _ = asked(tray, renamed(spec(), "p2"), "d")
    assert listing_of(tray, NOW, lapse_s=300).notes == (
        "its admin declared a downtime: switches",
        "1 of its pilots wait for the next call of glidepath agent 1",
        "1 pilots were handed to glidepath agent 1, 1 were refused, the last: no such account",
    )


def test_an_order_does_not_say_for_whom() -> None:
    secret = replace(spec(), owner=Owner("mallory-of-physics"))
    _, orders = call(tray_with(secret))
    assert "mallory" not in orders.model_dump_json()


def test_downtimes_begin_as_long_after_the_call_as_the_site_says() -> None:
    told = [Downtime(in_s=60, for_s=600, why="new switches")]
    assert windows_in(WEST, told, NOW) == (
        Window(WEST, Instant(NOW + 60), Instant(NOW + 660), "new switches"),
    )


def test_what_is_gone_is_done_with() -> None:
    tray, _ = call(tray_with())
    for act in (withdrawn, drained, removed):
        assert act(tray, PilotName("never"), "1") == (tray, Done("it is gone"))
