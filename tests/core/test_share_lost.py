"""A site that stays unseen loses its share, and gets it back; what never started is nobody's failure."""

from __future__ import annotations

import pytest

from core.builders import (
    NOW,
    after,
    asked,
    demand,
    later,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    site,
    snapshot,
)
from glidepath.core.cycle import Seen, Unseen
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import PilotPhase, SiteState
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant

LOST_S = 100
BOTH = ("east/a", "west/a")


def under(**more: object) -> Rules:
    away = site("west", share_lost_s=LOST_S, patience_s=10_000, **more)
    return rules(site("east", offer("east")), away)


@pytest.mark.parametrize(("unseen_s", "expected"), [(LOST_S, {}), (LOST_S + 1, {"east/a": 1})])
def test_what_is_on_its_way_to_a_site_without_a_share_keeps_nothing_from_others(
    unseen_s: int, expected: dict[str, int]
) -> None:
    mem = _waiting_at_west()
    snap = snapshot(
        (demand(1, fits=BOTH),),
        {"west": Unseen(Instant(NOW + 60 - unseen_s), "nobody called"), "east": ()},
        now=Instant(NOW + 60),
    )
    assert asked(plan_of(snap, mem, under())) == expected


def test_a_listing_that_is_old_counts_as_unseen_since_it_was_made() -> None:
    mem = _waiting_at_west()
    old = Seen(Instant(NOW + 60 - LOST_S - 1), SiteListing((listed("p1", SiteState.PENDING),)))
    snap = snapshot((demand(1, fits=BOTH),), {"west": old, "east": ()}, now=Instant(NOW + 60))
    assert asked(plan_of(snap, mem, under(stale_s_max=50))) == {"east/a": 1}


def test_its_pilots_still_count_while_they_may_live() -> None:
    snap = snapshot((), {"west": Unseen(Instant(NOW - 10 * LOST_S), "nobody called"), "east": ()})
    picture = picture_of(snap, _waiting_at_west(), under())
    assert [track.name for track in picture.tracks] == ["p1"]


def test_a_site_that_returns_has_its_share_and_nothing_is_asked_twice() -> None:
    mem = _waiting_at_west()
    pilots = {"west": (listed("p1", SiteState.PENDING),), "east": ()}
    assert asked(plan_of(later(snapshot((demand(1, fits=BOTH),), pilots), 60), mem, under())) == {}


def test_a_pilot_that_never_started_is_over_and_nobody_failed() -> None:
    mem = _waiting_at_west()
    for state, failures in ((SiteState.WITHDRAWN, []), (SiteState.ENDED, [1])):
        snap = later(snapshot((), {"west": (listed("p1", state),), "east": ()}), 60)
        plan, kept = after(snap, mem, under())
        assert [each.name for action in plan.actions for each in action.ended] == ["p1"]
        assert [each.failures for each in kept.health if each.about == "west/a"] == failures


def test_no_site_may_speak_for_a_pilot_of_another() -> None:
    mem = _waiting_at_west()
    claimed = listed("p1", SiteState.FAILED, "east/a", note="it is mine")
    snap = later(snapshot((), {"east": (claimed,), "west": (listed("p1", SiteState.PENDING),)}), 60)
    picture = picture_of(snap, mem, under())
    assert [(t.name, t.site, t.phase) for t in picture.tracks] == [("p1", "west", PilotPhase.PENDING)]
    assert picture.lost == ()


def _waiting_at_west() -> Memory:
    """The memory of a look at which one pilot was pending at the site."""
    pilots = {"west": (listed("p1", SiteState.PENDING),), "east": ()}
    _, mem = after(snapshot((demand(1, fits=BOTH),), pilots), memory(), under())
    return mem
