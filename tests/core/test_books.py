"""The books of pilots: the short way through a listing books the same, and only what is full is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import (
    NOW,
    POOL,
    SOURCE,
    demand,
    listed,
    memory,
    offer,
    picture_of,
    rules,
    site,
    slot,
    snapshot,
)
from glidepath.core.cycle import Seen, Sighting, Unseen
from glidepath.core.provision.books import Books
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.picture import Picture, look
from glidepath.core.provision.pilot import JOINED, PilotPhase, SitePilot, SiteState, Slot, Track
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
)

P = PilotPhase
OTHER = PoolName("other")
SIZE = Resources(1000, 1024, 100_000)
NAMES = [PilotName(f"p{n}") for n in range(8)]
WHERE = {"west": ("west/a", "west/b"), "east": ("east/a",)}
UNDER = rules(
    site("east", offer("east")),
    site("west", offer("west"), offer("west", "b")),
    pools=(PoolRules(OTHER), PoolRules(POOL)),
    withdraw_after_s=0,
)
TIMES = st.integers(NOW - 2000, NOW - 1).map(Instant)
ENDS = st.none() | st.sampled_from([Instant(NOW + 600), Instant(NOW + 9000)])
# One part alone is enough to have room, so each of them is once the only one.
ROOMY = [SIZE, Resources(1), Resources(0, 1), Resources(0, 0, 1), Resources(0, 0, 0, 1)]
FREE = st.just(Resources()) | st.sampled_from(ROOMY)


@dataclass(frozen=True)
class Sight:
    """One pilot: what is remembered, listed and heard of it, each or not."""

    track: Track | None
    pilot: SitePilot | None
    slot: Slot | None


def unchanged(track: Track, free: Resources) -> Sight:
    """The pilot as a site and a pool show it that have nothing new to tell."""
    claims = 1 if track.phase is P.BUSY else 0
    pilot = listed(
        track.name,
        SiteState.RUNNING,
        key=track.offer,
        pool=track.pool,
        owner=track.owner,
        ends_at=track.ends_at,
        **{field: getattr(track, field) for field in ("node", "native_id", "note", "asked_at", "size")},
    )
    return Sight(track, pilot, Slot(track.name, free, claims, jobs_run=track.jobs_run, ends_at=track.ends_at))


@st.composite
def tracks(draw: st.DrawFn, name: PilotName) -> Track:
    where = draw(st.sampled_from(sorted(WHERE)))
    phase = draw(st.sampled_from([P.BUSY, P.BUSY, P.IDLE]) | st.sampled_from(P))
    asked_at = draw(TIMES)
    since = Instant(draw(st.integers(asked_at, NOW)))
    joined = phase in JOINED or (phase is P.UNKNOWN and draw(st.booleans()))
    seldom = st.sampled_from([None, None, None, since])
    return Track(
        name=name,
        site=SiteName(where),
        offer=OfferKey(draw(st.sampled_from(WHERE[where]))),
        pool=draw(st.sampled_from([POOL, OTHER])),
        size=SIZE,
        phase=phase,
        since=since,
        asked_at=asked_at,
        owner=Owner(draw(st.sampled_from(["", "eve"]))),
        native_id=draw(st.sampled_from(["", "1"])),
        node=NodeName(draw(st.sampled_from(["", "n1"]))),
        started_at=since if joined else None,
        joined_at=since if joined else None,
        ends_at=draw(ENDS),
        silent_since=draw(seldom) if joined else None,
        missing_since=draw(seldom),
        leaving=draw(st.sampled_from(["", "", "surplus"])),
        jobs_run=draw(st.integers(0, 2)),
        note=draw(st.sampled_from(["", "hold"])),
    )


PILOT_CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "state": st.sampled_from(SiteState),
    "node": st.sampled_from(["", "n1", "n2"]),
    "native_id": st.sampled_from(["", "1", "2"]),
    "note": st.sampled_from(["", "hold", "oom"]),
    "ends_at": ENDS,
    "since": TIMES,
}
SLOT_CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "claims": st.integers(0, 2),
    "draining": st.booleans(),
    "ends_at": ENDS,
    "jobs_run": st.integers(0, 3),
    "free": FREE,
}


def changes(of: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[list[str]]:
    return st.just([]) | st.lists(st.sampled_from(sorted(of)), max_size=2)


@st.composite
def sights(draw: st.DrawFn, name: PilotName) -> Sight:
    """Often nothing has changed, or one thing; sometimes a pilot is not listed, not heard or not known."""
    found = unchanged(draw(tracks(name)), draw(FREE))
    pilot, heard = found.pilot, found.slot
    for key in draw(changes(PILOT_CHANGES)):
        pilot = replace(pilot, **{key: draw(PILOT_CHANGES[key])})
    for key in draw(changes(SLOT_CHANGES)):
        heard = replace(heard, **{key: draw(SLOT_CHANGES[key])})
    lacks = draw(st.sampled_from([(), (), (), ("track",), ("pilot",), ("slot",), ("track", "slot")]))
    return replace(Sight(found.track, pilot, heard), **dict.fromkeys(lacks))


WORLDS = st.integers(0, len(NAMES)).flatmap(lambda count: st.tuples(*map(sights, NAMES[:count])))


def a_memory(world: tuple[Sight, ...]) -> Memory:
    return memory(
        tracks=tuple(each.track for each in world if each.track is not None),
        cleared=((NAMES[0], Instant(NOW - 700)),),
    )


def booked(books: Books) -> tuple[Any, ...]:
    return books.tracks, books.lost, books.health, books.nodes, books.before


@settings(deadline=None, max_examples=250)
@given(WORLDS, st.sets(st.sampled_from([POOL, OTHER])))
def test_the_short_way_for_unchanged_pilots_books_what_the_long_way_does(
    world: tuple[Sight, ...], pools_seen: set[PoolName]
) -> None:
    short, long = (Books(NOW, a_memory(world), UNDER) for _ in range(2))
    pilots = tuple(each.pilot for each in world if each.pilot is not None)
    heard: dict[str, Slot] = {each.slot.pilot: each.slot for each in world if each.slot is not None}
    short.read_listing(SiteName("west"), SiteListing(pilots), heard, frozenset(pools_seen))
    for pilot in pilots:
        old = long.before.get(pilot.name)
        if old is not None and old.site == SiteName("west"):
            del long.before[pilot.name]
            long._follow(old, pilot, heard.get(pilot.name), pilot.pool in pools_seen)
        elif old is None and not long._old_news(pilot):
            long._adopt(SiteName("west"), pilot, heard.get(pilot.name))
    assert booked(short) == booked(long)


JOINED_AT: dict[str, Any] = {"started_at": Instant(NOW - 90), "joined_at": Instant(NOW - 80)}


def a_track(phase: PilotPhase = P.BUSY, **more: Any) -> Track:
    row: dict[str, Any] = {**JOINED_AT, "since": Instant(NOW - 50), "asked_at": Instant(NOW - 100), **more}
    return Track(NAMES[0], SiteName("west"), OfferKey("west/a"), POOL, SIZE, phase, **row)


@pytest.mark.parametrize(
    ("pilot", "heard"),
    [
        ({}, {}),
        ({"node": "n2"}, {}),
        ({"native_id": "7"}, {}),
        ({"note": "held"}, {}),
        ({"ends_at": Instant(NOW + 5)}, {}),
        ({"state": SiteState.LEAVING}, {}),
        ({}, {"ends_at": Instant(NOW + 5)}),
        ({}, {"jobs_run": 1}),
        ({}, {"claims": 0}),
        ({}, {"draining": True}),
    ],
)
def test_whatever_changes_is_seen_and_what_does_not_is_the_very_same_track(
    pilot: dict[str, Any], heard: dict[str, Any]
) -> None:
    old = a_track()
    same = unchanged(old, Resources())
    assert same.pilot is not None
    assert same.slot is not None
    snap = snapshot(pilots={"west": (replace(same.pilot, **pilot),)}, slots=(replace(same.slot, **heard),))
    (track,) = picture_of(snap, memory(tracks=(old,))).tracks
    assert (track is old) is (not pilot and not heard)
    assert (track == old) is (not pilot and not heard)


def sighting(draw: st.DrawFn, value: SiteListing | PoolSlots) -> Sighting[Any]:
    blind = draw(st.sampled_from(["no"] * 6 + ["unseen", "old", "partial"]))
    if blind == "unseen":
        return Unseen(Instant(NOW - 30), "timed out")
    whole = value if blind != "partial" else replace(value, complete=False)
    return Seen(Instant(NOW - 9999) if blind == "old" else NOW, whole)


@st.composite
def snapshots(draw: st.DrawFn, world: tuple[Sight, ...]) -> Snapshot:
    waits = demand(idle=draw(st.integers(0, 4)), fits=("east/a", "west/a", "west/b"))
    pilots = [each.pilot for each in world if each.pilot is not None]
    heard = [(each.pilot or each.track, each.slot) for each in world if each.slot is not None]
    by_site = [(SiteName(at), tuple(p for p in pilots if p.offer in keys)) for at, keys in WHERE.items()]
    by_pool = [(pool, tuple(s for p, s in heard if p and p.pool == pool)) for pool in (POOL, OTHER)]
    return Snapshot(
        now=NOW,
        demand=(
            (OTHER, SOURCE, Seen(NOW, DemandSight(()))),
            (POOL, SOURCE, Seen(NOW, DemandSight((waits,)))),
        ),
        slots=tuple((pool, sighting(draw, PoolSlots(slots))) for pool, slots in by_pool),
        sites=tuple((where, sighting(draw, SiteListing(found))) for where, found in sorted(by_site)),
    )


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    world = draw(WORLDS)
    return look(draw(snapshots(world)), a_memory(world), UNDER)


def full(picture: Picture, track: Track) -> bool:
    """It is busy, was heard, and has nothing free."""
    heard = picture.slots.get(track.name)
    return track.phase is P.BUSY and heard is not None and heard.free == Resources()


def left_out(picture: Picture) -> set[str]:
    return {track.name for track in picture.tracks} - {track.name for track in picture.unfilled}


@settings(deadline=None, max_examples=150)
@given(pictures())
def test_only_pilots_that_are_full_of_work_are_left_out_and_all_are_counted_by_kind(picture: Picture) -> None:
    known = {track.name: track for track in picture.tracks}
    assert picture.unfilled == tuple(t for t in picture.tracks if t.name not in left_out(picture))
    assert [name for name in sorted(left_out(picture)) if not full(picture, known[name])] == []
    assert picture.kinds == Counter((t.offer, t.site, t.pool, t.owner, t.phase) for t in picture.tracks)


@settings(deadline=None, max_examples=150)
@given(pictures())
def test_once_nothing_changes_exactly_the_full_pilots_that_their_site_lists_are_left_out(
    picture: Picture,
) -> None:
    known = (*picture.tracks, *(lost.track for lost in picture.lost))
    again = look(picture.snapshot, replace(picture.memory, tracks=known), UNDER)
    shown = {
        pilot.name: (pilot.node, pilot.native_id)
        for _, seen in picture.snapshot.sites
        if isinstance(seen, Seen) and seen.at == NOW
        for pilot in seen.value.pilots
        if pilot.state is SiteState.RUNNING
    }
    assert left_out(again) == {
        track.name
        for track in again.tracks
        if full(again, track)
        and shown.get(track.name) == (track.node, track.native_id)
        and track.silent_since is None
    }


@settings(deadline=None, max_examples=100)
@given(pictures(), st.sampled_from([Steady(release_s=0), Steady(release_s=600), Steady(waiting_max=1)]))
def test_no_decision_depends_on_the_pilots_that_are_left_out(picture: Picture, policy: Steady) -> None:
    whole = replace(picture, unfilled=picture.tracks)
    assert decide(picture, UNDER, policy) == decide(whole, UNDER, policy)


@pytest.mark.parametrize(
    ("phase", "claims", "free", "expected"),
    [
        (P.BUSY, 1, Resources(), []),
        (P.BUSY, 1, Resources(1), ["p0"]),
        (P.BUSY, 1, Resources(0, 1), ["p0"]),
        (P.BUSY, 1, Resources(0, 0, 1), ["p0"]),
        (P.BUSY, 1, Resources(0, 0, 0, 1), ["p0"]),
        (P.IDLE, 0, SIZE, ["p0"]),
        (P.IDLE, 0, Resources(), ["p0"]),  # It has no room, yet it is not at work and may be let go.
    ],
)
def test_a_busy_pilot_with_room_in_any_part_is_not_full(
    phase: PilotPhase, claims: int, free: Resources, expected: list[str]
) -> None:
    snap = snapshot(pilots={"west": (listed("p0"),)}, slots=(slot("p0", claims, free),))
    seen = picture_of(snap, memory(tracks=(a_track(phase),)))
    assert [track.name for track in seen.unfilled] == expected
