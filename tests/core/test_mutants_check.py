"""The checker to the letter: each limit at its edge, each source just fresh enough, each pilot just alive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    SOURCE,
    limits,
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
from core.leaf_builders import a_track, an_ended
from glidepath.core.because import Because
from glidepath.core.check import Breach, check, without_actions
from glidepath.core.cycle import Decision, Plan, Reason, Seen, Unseen
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import OwnerRules, PoolRules, Rules
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    SiteState,
    Submit,
    Target,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import (
    Instant,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
    SourceName,
)

WEST, EAST = SiteName("west"), SiteName("east")
OTHER = PoolName("other")
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
ONE = (Target(PilotName("p1")),)
SIZE = Resources(1000, 1024, 100_000)


def submit(count: int = 1, owner: str = "", pool: PoolName = POOL, **more: Any) -> Submit:
    names = more.pop("names", tuple(PilotName(f"new{n}") for n in range(count)))
    return Submit(WEST, OfferKey("west/a"), pool, SIZE, (), 3600, 600, names, Owner(owner))


def breaches(
    picture: Picture, action: PilotAction, under: Rules, because: Because = Because.ASKED_HERE
) -> tuple[Breach, ...]:
    """What one action breaks that stands in a plan which otherwise says what is due and does nothing."""
    due = [f"demand:{wanted.demand.name}" for wanted in picture.wanted]
    due += [f"site:{each.name}" for each in under.sites]
    due += [f"offer:{each.key}" for each_site in under.sites for each in each_site.offers]
    said: list[Decision[PilotAction]] = [Decision(about, Reason(Because.OPEN)) for about in due]
    said.append(Decision("planted", Reason(because), action))
    return check(picture, under, Plan(1, picture.now, tuple(said), 10))


def told(found: tuple[Breach, ...]) -> list[str]:
    return [breach.what for breach in found]


@pytest.mark.parametrize(
    ("pending", "unknown", "busy", "count", "expected"),
    [
        (1, 0, 0, 1, []),
        (1, 0, 0, 2, ["site west: pending_max 2 exceeded by 1"]),
        (0, 1, 0, 1, []),
        (0, 1, 0, 2, ["site west: pending_max 2 exceeded by 1"]),
        (0, 0, 2, 2, []),
        (2, 0, 1, 3, ["site west: pending_max 2 exceeded by 3"]),
    ],
)
def test_only_pilots_that_may_be_on_their_way_count_towards_the_pending_limit(
    pending: int, unknown: int, busy: int, count: int, expected: list[str]
) -> None:
    waits = tuple(listed(f"w{n}", SiteState.PENDING) for n in range(pending))
    doubts = tuple(listed(f"u{n}", SiteState.UNKNOWN) for n in range(unknown))
    works = tuple(listed(f"b{n}") for n in range(busy))
    slots = tuple(slot(f"b{n}", 1) for n in range(busy))
    snap = snapshot(pilots={"west": (*waits, *doubts, *works)}, slots=slots)
    under = rules(site("west", limits=limits(pending_max=2)))
    assert told(breaches(picture_of(snap, None, under), submit(count), under)) == expected


@pytest.mark.parametrize(
    ("last_at", "count", "expected"),
    [
        (None, 1, []),
        (None, 2, ["site west: per_s_max 1 exceeded by 1"]),
        (NOW, 1, []),
        (NOW, 2, ["site west: per_s_max 1 exceeded by 1"]),
        (NOW - 10, 10, []),
        (NOW - 10, 11, ["site west: per_s_max 10 exceeded by 1"]),
    ],
)
def test_the_limit_per_second_counts_from_the_last_cycle_and_at_least_one_second(
    last_at: Instant | None, count: int, expected: list[str]
) -> None:
    under = rules(site("west", limits=limits(per_s_max=1)))
    picture = picture_of(snapshot(), memory(at=last_at), under)
    assert told(breaches(picture, submit(count), under)) == expected


@pytest.mark.parametrize(
    ("owners", "owner", "expected"),
    [
        ({"*": 2}, "eve", ["owner eve: live_max 2 exceeded by 1"]),
        ({"*": 2}, "", []),
        ({"*": 2, "eve": 5}, "eve", []),
        ({"*": 5, "eve": 2}, "eve", ["owner eve: live_max 2 exceeded by 1"]),
    ],
)
def test_the_limit_of_every_owner_binds_owners_only_and_yields_to_one_of_their_own(
    owners: dict[str, int], owner: str, expected: list[str]
) -> None:
    under = rules(
        owners=tuple(OwnerRules(Owner(name), limits(live_max=most)) for name, most in owners.items())
    )
    assert told(breaches(picture_of(snapshot(), None, under), submit(3, owner), under)) == expected


PAST = a_track(name=PilotName("n"), offer=OfferKey("west/a"))
UNRELATED = snapshot(pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, []),
        ({"tracks": (*picture_of(UNRELATED).tracks, PAST)}, ["n"]),
        ({"memory": memory(tracks=(PAST,))}, ["n"]),
        ({"snapshot": snapshot(pilots={"west": (listed("p1"), listed("n"))})}, ["n"]),
        ({"memory": memory(cleared=((PilotName("n"), NOW),))}, ["n"]),
    ],
)
def test_a_name_is_taken_wherever_it_is_known(known: dict[str, Any], expected: list[str]) -> None:
    picture = replace(picture_of(UNRELATED), **known)
    found = breaches(picture, submit(names=(PilotName("n"), PilotName("m"))), rules())
    once = [breach.what for breach in found if breach.invariant == "once"]
    assert once == [f"the name `{name}` is used twice" for name in expected]


def sights(**more: Any) -> Snapshot:
    """Two pools with two sources each, two sites, everything fresh unless said otherwise."""
    fresh_demand, fresh_slots = Seen(NOW, DemandSight(())), Seen(NOW, PoolSlots(()))
    pilots = SiteListing((listed("p1", SiteState.PENDING),))
    return Snapshot(
        NOW,
        demand=(
            (POOL, SOURCE, more.get("demand", fresh_demand)),
            (POOL, SourceName("ap2"), more.get("second", fresh_demand)),
            (OTHER, SOURCE, more.get("other_demand", fresh_demand)),
        ),
        slots=((POOL, more.get("slots", fresh_slots)), (OTHER, more.get("other_slots", fresh_slots))),
        sites=(
            (EAST, more.get("east", Seen(NOW, SiteListing(())))),
            (WEST, more.get("west", Seen(NOW, pilots))),
        ),
    )


# The first of each is impatient: whoever takes the wrong one for the limit trusts less than it may.
PATIENT = rules(
    site("east", offer("east"), stale_s_max=5),
    site("west", stale_s_max=180),
    pools=(PoolRules(OTHER, stale_s_max=5), PoolRules(POOL, stale_s_max=180)),
)
ASK, TAKE = submit(), Withdraw(WEST, ONE)
AT_WEST, FOR_POOL, FROM_POOL = (
    "acts at `west`, which was not fully seen",
    "asks for `pool`, which was not seen",
    "takes from `pool`, not fully seen",
)
LISTING = SiteListing((listed("p1", SiteState.PENDING),))


@pytest.mark.parametrize(
    ("seen", "action", "expected"),
    [
        ({}, ASK, []),
        ({}, TAKE, []),
        ({"west": Seen(Instant(NOW - 180), LISTING)}, TAKE, []),
        ({"west": Seen(Instant(NOW - 181), LISTING)}, TAKE, [AT_WEST]),
        ({"west": Seen(NOW, replace(LISTING, complete=False))}, TAKE, [AT_WEST]),
        ({"slots": Seen(Instant(NOW - 180), PoolSlots(()))}, ASK, []),
        ({"slots": Seen(Instant(NOW - 181), PoolSlots(()))}, ASK, [FOR_POOL]),
        ({"slots": Seen(NOW, PoolSlots((), complete=False))}, ASK, [FOR_POOL]),
        ({"demand": Seen(Instant(NOW - 180), DemandSight(()))}, TAKE, []),
        ({"demand": Seen(Instant(NOW - 181), DemandSight(()))}, TAKE, [FROM_POOL]),
        ({"demand": Seen(NOW, DemandSight((), complete=False))}, TAKE, [FROM_POOL]),
        ({"demand": UNSEEN}, TAKE, [FROM_POOL]),
        ({"demand": UNSEEN}, ASK, []),
        ({"demand": UNSEEN, "second": UNSEEN}, ASK, [FOR_POOL]),
        ({"other_demand": UNSEEN}, TAKE, []),
        ({"other_slots": UNSEEN}, ASK, []),
        ({}, submit(pool=PoolName("gone")), ["asks for `gone`, which was not seen"]),
    ],
)
@pytest.mark.parametrize("because", [Because.SURPLUS_PENDING, Because.SURPLUS_IDLE])
def test_each_source_is_trusted_up_to_its_own_age_and_only_whole(
    seen: dict[str, Any], action: PilotAction, expected: list[str], because: Because
) -> None:
    picture = picture_of(sights(), None, PATIENT)
    reason = Because.ASKED_HERE if isinstance(action, Submit) else because
    found = breaches(replace(picture, snapshot=sights(**seen)), action, PATIENT, reason)
    assert told(found) == expected


def test_a_pool_that_no_door_spoke_of_is_not_trusted() -> None:
    picture = picture_of(sights(), None, PATIENT)
    silent = replace(picture, snapshot=replace(sights(), slots=()))
    assert told(breaches(silent, ASK, PATIENT)) == [FOR_POOL]


def test_a_pool_that_is_seen_and_no_longer_configured_is_not_trusted() -> None:
    gone = PoolName("gone")
    heard, waits = Seen(NOW, PoolSlots(())), Seen(NOW, DemandSight(()))
    seen = replace(sights(), slots=((gone, heard),), demand=((gone, SOURCE, waits),))
    picture = replace(picture_of(sights(), None, PATIENT), snapshot=seen)
    found = breaches(picture, submit(pool=gone), PATIENT)
    assert told(found) == ["asks for `gone`, which was not seen"]


def test_a_limit_that_is_passed_already_is_no_breach_of_a_plan_that_asks_elsewhere() -> None:
    under = rules(site("east", offer("east"), limits=limits(live_max=0)), site("west"))
    snap = snapshot(pilots={"east": (listed("p1", key="east/a"),), "west": ()}, slots=(slot("p1", 1),))
    assert breaches(picture_of(snap, None, under), submit(), under) == ()


def test_a_site_that_is_seen_and_no_longer_configured_is_not_trusted() -> None:
    seen = (*sights().sites, (SiteName("south"), Seen(NOW, SiteListing(()))))
    picture = replace(picture_of(sights(), None, PATIENT), snapshot=replace(sights(), sites=seen))
    found = breaches(picture, Drain(SiteName("south"), ()), PATIENT)
    assert told(found) == ["acts at `south`, which was not fully seen"]


def test_the_books_may_be_written_off_at_a_site_that_is_not_seen() -> None:
    picture = picture_of(snapshot(pilots={"west": UNSEEN}))
    gone = an_ended("p9", phase=PilotPhase.GONE)
    assert breaches(picture, WriteOff(WEST, (gone,)), rules(), Because.VANISHED) == ()
    assert told(breaches(picture, Clear(WEST, (gone,), ("",)), rules())) == [AT_WEST]


P = PilotPhase
DRAINED = "`p1` is drained but not proven idle"


@pytest.mark.parametrize(
    ("phase", "heard", "because", "expected"),
    [
        (P.IDLE, slot("p1"), Because.SURPLUS_IDLE, []),
        (P.IDLE, slot("p1", 1), Because.SURPLUS_IDLE, [DRAINED]),
        (P.IDLE, None, Because.SURPLUS_IDLE, [DRAINED]),
        (P.UNKNOWN, slot("p1"), Because.SURPLUS_IDLE, [DRAINED]),
        (P.BUSY, slot("p1", 1), Because.OFFER_GONE, [DRAINED]),
        (P.BUSY, slot("p1", 1), Because.WINDOW_DRAIN, []),
        (P.BUSY, slot("p1", 1), Because.DRAINED, []),
        (P.BUSY, slot("p1", 1), Because.PAUSED, [DRAINED]),
    ],
)
def test_only_a_pilot_that_is_proven_idle_is_drained_except_for_a_window_or_by_an_operator(
    phase: PilotPhase, heard: Any, because: Because, expected: list[str]
) -> None:
    picture = picture_of(snapshot(pilots={"west": (listed("p1"),)}, slots=(slot("p1"),)))
    tracks = tuple(replace(track, phase=phase) for track in picture.tracks)
    picture = replace(picture, tracks=tracks, slots={PilotName("p1"): heard} if heard else {})
    assert told(breaches(picture, Drain(WEST, ONE), rules(), because)) == expected


ALIVE = "`p2` is listed alive and not on the books"
LONG_AGO = Instant(NOW - 1000)


@pytest.mark.parametrize(
    ("west", "closed", "expected"),
    [
        (Seen(NOW, SiteListing((listed("p1"), listed("p2")))), {}, [ALIVE]),
        (Seen(NOW, SiteListing((listed("p1"), listed("p2", since=Instant(0))))), {}, [ALIVE]),
        (Seen(NOW, SiteListing((listed("p2"),), False)), {WEST: Because.SITE_PARTIAL}, [ALIVE]),
        (Seen(LONG_AGO, SiteListing((listed("p2"),))), {WEST: Because.SITE_STALE}, []),
        (UNSEEN, {WEST: Because.SITE_UNSEEN}, []),
        (UNSEEN, {}, []),
    ],
)
def test_every_pilot_of_a_listing_that_counts_must_be_on_the_books(
    west: Any, closed: dict[SiteName, Because], expected: list[str]
) -> None:
    picture = picture_of(snapshot(pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),)))
    picture = replace(picture, snapshot=snapshot(pilots={"west": west}), closed_sites=closed)
    assert told(check(picture, rules(), plan_of(UNRELATED))) == expected


def test_a_pilot_that_is_over_may_still_be_listed_by_a_late_report() -> None:
    over = a_track(P.FAILED, name=PilotName("p2"), offer=OfferKey("west/a"), since=LONG_AGO)
    snap = snapshot(pilots={"west": (listed("p2"),)})
    mem = memory(tracks=(over,))
    assert check(picture_of(snap, mem), rules(), plan_of(snap, mem)) == ()


@pytest.mark.parametrize(("phase", "expected"), [(P.DONE, []), (P.IDLE, ["`p9` is cleared and not over"])])
def test_only_what_is_over_is_cleared(phase: PilotPhase, expected: list[str]) -> None:
    action = Clear(WEST, (an_ended("p9", phase=phase),), ("",))
    assert told(breaches(picture_of(snapshot()), action, rules())) == expected


def test_a_plan_that_is_not_carried_out_keeps_its_reasons_and_if_asked_its_write_offs() -> None:
    why = Reason(Because.VANISHED)
    write_off: Decision[PilotAction] = Decision("site:west", why, WriteOff(WEST, ()))
    ask: Decision[PilotAction] = Decision("offer:west/a", why, submit())
    plan = Plan(7, NOW, (write_off, ask), 30, (("quiet", Instant(3)),))
    bare: tuple[Decision[PilotAction], ...] = (Decision("site:west", why), Decision("offer:west/a", why))
    assert without_actions(plan) == replace(plan, decisions=bare)
    assert without_actions(plan, books_too=False) == replace(plan, decisions=(write_off, bare[1]))
