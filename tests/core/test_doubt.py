"""Doubt counts against limits: pilots that are unknown, sites that were never seen, names told twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import (
    NOW,
    POOL,
    SOURCE,
    asked,
    demand,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    site,
    slot,
    snapshot,
)
from glidepath.core.because import Because
from glidepath.core.check import check
from glidepath.core.cycle import Unseen
from glidepath.core.provision.memory import Held, Memory
from glidepath.core.provision.offer import Limits, PoolRules
from glidepath.core.provision.pilot import PilotPhase, SiteState, Submit, Track
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant, OfferKey, PilotName, Resources, SiteName


def pending(name: str) -> Track:
    return Track(
        name=PilotName(name),
        site=SiteName("west"),
        offer=OfferKey("west/a"),
        pool=POOL,
        size=Resources(1000, 1024, 100_000),
        phase=PilotPhase.PENDING,
        since=Instant(NOW - 20),
        asked_at=Instant(NOW - 20),
    )


def test_what_is_missing_from_a_listing_may_still_be_pending_and_counts_as_such() -> None:
    under = rules(site("west", offer(limits=Limits(pending_max=3))))
    mem = memory(tracks=(pending("p1"), pending("p2")))
    plan = plan_of(snapshot((demand(10),), {"west": ()}), mem, under)
    assert asked(plan) == {"west/a": 1}


def test_the_check_counts_it_too() -> None:
    under = rules(site("west", offer(limits=Limits(pending_max=3))))
    free = rules(site("west", offer()))
    mem = memory(tracks=(pending("p1"), pending("p2")))
    picture = picture_of(snapshot((demand(10),), {"west": ()}), mem, under)
    unlimited = plan_of(picture.snapshot, mem, free)
    assert sum(len(a.names) for a in unlimited.actions if isinstance(a, Submit)) > 1
    assert [breach.invariant for breach in check(picture, under, unlimited)] == ["cap"]


@pytest.mark.parametrize(
    ("east", "expected"),
    [
        ({"limits": Limits(live_max=6)}, 4),  # At most six can be hidden there.
        ({"offers": (3,)}, 7),
        ({"limits": Limits(live_max=6), "offers": (3,)}, 7),
        ({"limits": Limits(live_max=20)}, 0),
        ({}, 0),  # Nobody can say how many are there.
    ],
)
def test_a_site_that_was_never_seen_takes_only_what_it_can_have_from_limits_that_span_sites(
    east: dict[str, object], expected: int
) -> None:
    bounds = east.pop("offers", (None,))
    assert isinstance(bounds, tuple)
    offers = [offer("east", f"o{n}", limits=Limits(live_max=bound)) for n, bound in enumerate(bounds)]
    under = rules(
        site("east", *offers, **east),
        site("west"),
        pools=(PoolRules(POOL, Limits(live_max=10)),),
    )
    seen = snapshot((demand(50),), {"west": (), "east": Unseen(Instant(NOW - 60), "no answer")})
    newborn = Memory("new", Instant(NOW - 1))
    plan = plan_of(seen, newborn, under)
    assert sum(asked(plan).values()) == expected


def test_a_pilot_that_a_listing_names_twice_is_one_pilot() -> None:
    twice = (listed("p1", SiteState.PENDING), listed("p1", SiteState.PENDING))
    for mem in (memory(), memory(tracks=(pending("p1"),))):
        picture = picture_of(snapshot((demand(1),), {"west": twice}), mem)
        assert [track.name for track in picture.tracks] == ["p1"]


def test_a_source_that_was_silent_for_long_brings_a_backlog_and_no_arrivals() -> None:
    known = picture_of(snapshot((demand(5),)), memory())
    assert [flow.risen for flow in known.flows] == [0]
    later = replace(known.memory, held=known.held, flows=known.flows, at=NOW)
    after_hours = snapshot((demand(900),), now=Instant(NOW + 3 * 3600))
    assert [flow.risen for flow in picture_of(after_hours, later).flows] == [0]
    soon = snapshot((demand(9),), now=Instant(NOW + 60))
    assert [flow.risen for flow in picture_of(soon, later).flows] == [4]


def test_a_pilot_that_its_pool_hears_of_is_not_missing_and_the_count_begins_anew() -> None:
    under = rules(site("west", missing_s_max=300))
    joined = replace(pending("p1"), phase=PilotPhase.IDLE, joined_at=Instant(NOW - 20))
    mem = memory(tracks=(joined,))
    now, heard_at = NOW, 290
    for age_s, heard in ((0, False), (heard_at, True), (heard_at + 20, False)):
        now = Instant(NOW + age_s)
        seen = snapshot(pilots={"west": ()}, slots=(slot("p1", jobs_run=2),) if heard else (), now=now)
        picture = picture_of(seen, mem, under)
        assert [track.name for track in picture.tracks] == ["p1"], f"written off after {age_s} s"
        mem = remember(picture, plan_of(seen, mem, under), (), under)
    assert (mem.tracks[0].missing_since, mem.tracks[0].jobs_run) == (now, 2)


def test_unseen_demand_is_held_also_where_it_does_not_fade_but_ends() -> None:
    under = rules(pools=(PoolRules(POOL, hold_s=600, decay_s=0),))
    mem = memory(held=(Held(POOL, SOURCE, Instant(NOW - 300), (demand(100),)),))
    seen = snapshot(Unseen(Instant(NOW - 5), "no answer"))
    assert [wanted.demand.idle for wanted in picture_of(seen, mem, under).wanted] == [100]
    later = snapshot(Unseen(Instant(NOW - 5), "no answer"), now=Instant(NOW + 301))
    assert picture_of(later, mem, under).wanted == ()


def test_the_offer_that_is_blamed_is_the_one_that_would_have_served() -> None:
    under = rules(site("west", offer(name="a", lifetime_s=3600), offer(name="b", lifetime_s=90_000)))
    long = demand(1, fits=("west/a", "west/b"), run_s_max=20_000)
    plan = plan_of(snapshot((long,), pauses=(Pause("offer:west/b", "ann", "upgrade"),)), None, under)
    told = {decision.about: decision.reason for decision in plan.decisions}
    assert dict(told[f"demand:{long.name}"].facts)["first"] == f"west/b: {Because.PAUSED.value}"
    assert told["offer:west/a"].because is Because.OPEN
