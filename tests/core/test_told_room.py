"""A site that says how many more it takes: no more is asked for there, and the rest goes elsewhere."""

from __future__ import annotations

import pytest

from core.builders import NOW, after, asked, demand, memory, offer, plan_of, reason, rules, site, snapshot
from glidepath.core.cycle import NotTried, Seen
from glidepath.core.provision.sight import SiteListing, Snapshot
from glidepath.core.quantity import Instant

BOTH = ("east/a", "west/a")
TWO_SITES = rules(site("east", offer("east")), site("west", offer("west")))


def told(room: int | None, *, idle: int = 4) -> Snapshot:
    west = Seen(Instant(NOW), SiteListing((), room=room))
    return snapshot((demand(idle, fits=BOTH),), {"west": west, "east": ()})


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (None, {"east/a": 2, "west/a": 2}),
        (9, {"east/a": 2, "west/a": 2}),
        (1, {"east/a": 3, "west/a": 1}),
        (0, {"east/a": 4}),
    ],
)
def test_what_a_site_has_no_room_for_is_asked_for_elsewhere(
    room: int | None, expected: dict[str, int]
) -> None:
    assert asked(plan_of(told(room), under=TWO_SITES)) == expected


def test_a_site_that_is_full_by_its_own_word_is_at_its_limit_and_that_is_told() -> None:
    plan = plan_of(told(0), under=TWO_SITES)
    [decision] = [each for each in plan.decisions if each.about == "offer:west/a"]
    facts = "live=0, pending=0, asked=0, site_takes=0"
    assert str(decision.reason) == f"the offer is at its limit ({facts})"


def test_what_was_not_tried_shuts_no_site() -> None:
    plan, kept = after(told(None), memory(), TWO_SITES, outcome=NotTried("it takes no more now"))
    assert asked(plan) == {"east/a": 2, "west/a": 2}
    assert kept.health == ()
    again = plan_of(told(None), kept, TWO_SITES)
    assert (asked(again), reason(again, "offer:west/a")) == ({"east/a": 2, "west/a": 2}, "ASKED_HERE")
