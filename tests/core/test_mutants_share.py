"""Sharing out to the letter: the room that every limit leaves, why an offer is closed, and who gets what.

Pictures of small scenes come in; rooms, scores, reasons and shares are compared as whole values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    asked,
    demand,
    limits,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Seen, Unseen
from glidepath.core.provision.memory import Health, Memory
from glidepath.core.provision.offer import Kind, Limits, OwnerRules, PoolRules, Rules
from glidepath.core.provision.pilot import SiteState
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.share import (
    UNLIMITED,
    Candidate,
    Given,
    Market,
    OpenOffer,
    Room,
    market,
)
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot, Window
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, SiteName

EAST, WEST = SiteName("east"), SiteName("west")
OTHER = PoolName("another")
ALICE, BOB, ANYONE, NOBODY = Owner("alice"), Owner("bob"), Owner("*"), Owner("")
KEY = OfferKey("west/a")
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
PENDING = SiteState.PENDING


def ago(seconds: int) -> Instant:
    return Instant(NOW - seconds)


def market_of(snap: Snapshot | None = None, mem: Memory | None = None, under: Rules | None = None) -> Market:
    under = under or rules()
    return market(picture_of(snap or snapshot(), mem, under), under)


def entry_of(*scene: Any, **more: Any) -> OpenOffer:
    return market_of(*scene, **more).offers[KEY]


@pytest.mark.parametrize(
    ("under", "left"),
    [
        (limits(), UNLIMITED),
        (limits(live_max=5), 1),
        (limits(live_max=4), 0),
        (limits(live_max=2), 0),
        (limits(pending_max=1), 0),
        (limits(pending_max=9, live_max=6), 2),
        (limits(per_cycle_max=3), 3),
        (limits(per_s_max=7), 70),
    ],
)
def test_the_room_of_a_limit_is_what_is_left_and_never_less_than_none(under: Limits, left: int) -> None:
    assert Room.under(under, 4, 3, 10) == Room(left, live=4, pending=3)


@pytest.mark.parametrize(
    ("at", "elapsed_s"), [(None, 1), (NOW + 5, 1), (NOW, 1), (NOW - 1, 1), (NOW - 2, 2), (NOW - 90, 90)]
)
def test_a_limit_per_second_counts_from_the_last_cycle_and_at_least_one_second(
    at: int | None, elapsed_s: int
) -> None:
    mem = memory(at=None if at is None else Instant(at))
    found = market_of(mem=mem, under=rules(limits=limits(per_s_max=7)))
    assert (found.elapsed_s, found.overall) == (elapsed_s, Room(7 * elapsed_s))


def test_every_limit_counts_its_own_pilots_and_what_may_still_wait_as_pending() -> None:
    both = limits(live_max=100, pending_max=50)
    under = rules(
        site("east", offer("east", limits=both), limits=both),
        site("west", offer("west", limits=both), offer("west", "b", limits=both), limits=both),
        pools=(PoolRules(OTHER, both), PoolRules(POOL, both)),
        owners=(OwnerRules(ALICE, both), OwnerRules(ANYONE, both)),
        limits=both,
    )
    pilots = {
        "east": (listed("e1", PENDING, "east/a", pool=OTHER, owner=ALICE),),
        "west": (
            listed("w1", PENDING, owner=ALICE),
            listed("w2", owner=ALICE),
            listed("w3", SiteState.UNKNOWN, owner=BOB),
            listed("w4", key="west/b", owner=BOB),
        ),
    }
    found = market_of(snapshot(pilots=pilots, slots=(slot("w2"),)), under=under)
    rooms = {key: (entry.room, entry.site_room) for key, entry in found.offers.items()}
    assert rooms == {
        "east/a": (Room(49, 1, 1), Room(49, 1, 1)),
        "west/a": (Room(48, 3, 2), Room(47, 4, 3)),
        "west/b": (Room(49, 1, 1), Room(47, 4, 3)),
    }
    assert found.pools == {OTHER: Room(49, 1, 1), POOL: Room(47, 4, 3)}
    assert found.owners == {ALICE: Room(48, 3, 2)}  # What everyone may have is nobody's own room.
    assert found.overall == Room(46, 5, 4)
    assert [entry.tally for entry in found.offers.values()] == [1, 2, 1]


EVERYONE = rules(owners=(OwnerRules(ALICE, limits(live_max=1)), OwnerRules(ANYONE, limits(live_max=3))))


def test_an_owner_has_the_room_named_for_it_or_that_of_everyone_and_nobody_has_no_limit() -> None:
    found = market_of(snapshot(pilots={"west": (listed("w1", owner=BOB),)}), under=EVERYONE)
    rooms = [found.owner_room(owner) for owner in (ALICE, BOB, Owner("carol"), NOBODY)]
    assert rooms == [Room(1, 0, 0), Room(2, 1, 1), Room(3, 0, 0), None]
    assert market_of().owner_room(ALICE) is None


@pytest.mark.parametrize(("owner", "pilots"), [(ALICE, 1), (BOB, 3), (NOBODY, 8)])
def test_the_room_of_an_owner_holds_for_all_shapes_of_one_cycle(owner: Owner, pilots: int) -> None:
    # Neither fits beside the other, so that each would get pilots of its own.
    rows = tuple(demand(idle=4, of=shape(1, mib), owners=((owner, 4),)) for mib in (600, 1024))
    plan = plan_of(snapshot(rows), under=EVERYONE, policy=Steady())
    assert asked(plan) == {"west/a": pilots}


@pytest.mark.parametrize("of", ["pools", "limits"])
def test_the_room_of_a_pool_and_of_all_holds_for_all_shapes_of_one_cycle(of: str) -> None:
    three: Any = limits(live_max=3) if of == "limits" else (PoolRules(POOL, limits(live_max=3)),)
    rows = tuple(demand(idle=2, of=shape(1, mib)) for mib in (600, 1024))
    plan = plan_of(snapshot(rows), under=rules(**{of: three}), policy=Steady())
    assert asked(plan) == {"west/a": 3}


LIVE, WAITING = limits(live_max=10), limits(pending_max=10)


@pytest.mark.parametrize(
    ("of_site", "of_offers", "of_all", "hidden", "left"),
    [
        # The site's own limit, or that of its offers together, whichever is less; less by the known ones.
        (7, (None, None), LIVE, 5, 3),
        (7, (0, 4), LIVE, 2, 6),
        (3, (0, 4), LIVE, 1, 7),
        (None, (0, 4), LIVE, 2, 6),
        (2, (None, 9), LIVE, 0, 8),
        (1, (None, None), LIVE, 0, 8),
        (0, (None, None), LIVE, 0, 8),
        (99, (None, None), LIVE, 97, 0),
        (7, (None, None), WAITING, 5, 3),
        (None, (None, 4), LIVE, None, 0),
        (None, (None, 4), WAITING, None, 0),
        # Where pilots at other sites do not count, those that are not seen do not either.
        (7, (None, None), limits(per_cycle_max=10), 5, 10),
        (None, (None, 4), limits(per_cycle_max=10), None, 10),
        (None, (None, 4), limits(), None, UNLIMITED),
    ],
)
def test_what_may_be_at_a_site_never_seen_takes_room_from_limits_that_span_sites(
    of_site: int | None, of_offers: tuple[int | None, ...], of_all: Limits, hidden: int | None, left: int
) -> None:
    east = tuple(offer("east", f"o{n}", limits=Limits(live_max=m)) for n, m in enumerate(of_offers))
    under = rules(
        site("east", *east, limits=Limits(live_max=of_site)),
        site("west"),
        pools=(PoolRules(POOL, of_all),),
        owners=(OwnerRules(ALICE, of_all),),
        limits=of_all,
    )
    # Two of them are known from the part of the listing that came.
    part = tuple(listed(f"e{n}", PENDING, "east/o0", owner=ALICE) for n in range(2))
    snap = snapshot(pilots={"east": Seen(NOW, SiteListing(part, complete=False)), "west": ()})
    found = market_of(snap, memory(unproven=(EAST,)), under)
    assert found.hidden == hidden
    assert found.overall == found.pools[POOL] == found.owners[ALICE] == Room(left, 2, 2)


def test_what_everyone_may_have_is_less_by_what_may_be_at_a_site_never_seen() -> None:
    under = rules(
        site("east", limits=limits(live_max=3)),
        site("west"),
        owners=(OwnerRules(ANYONE, limits(live_max=10)),),
    )
    found = market_of(snapshot(pilots={"east": UNSEEN}), memory(unproven=(EAST,)), under)
    assert [found.owner_room(BOB), found.owner_room(BOB)] == [Room(7), Room(7)]


@pytest.mark.parametrize(
    ("weight", "price_milli", "latency_s", "failures", "score"),
    [
        (100, 0, 0, 0, 100_000_000),
        (7, 0, 0, 0, 7_000_000),
        (100, 0, 600, 0, 50_000_000),
        (100, 0, 900, 0, 40_000_000),
        (100, 1000, 0, 0, 50_000_000),
        (100, 3000, 0, 0, 25_000_000),
        (100, 1000, 600, 1, 12_500_000),
        (10_000, 0, 0, 29, 18),
        (10_000, 0, 0, 30, 9),
        (10_000, 0, 0, 31, 9),
        (1, 0, 0, 30, 1),
        (0, 0, 0, 0, 1),
    ],
)
def test_the_score_falls_with_latency_and_price_and_is_halved_by_failures(
    weight: int, price_milli: int, latency_s: int, failures: int, score: int
) -> None:
    under = rules(site("west", offer(weight=weight, price_milli=price_milli)))
    health = (Health("west/a", failures=failures, latency_s=latency_s),)
    assert entry_of(mem=memory(health=health), under=under).score == score


@pytest.mark.parametrize(("own_s", "of_site_s", "told_s"), [(0, 0, 0), (0, 90, 90), (60, 90, 60)])
def test_the_latency_of_an_offer_that_has_none_yet_is_that_of_its_site(
    own_s: int, of_site_s: int, told_s: int
) -> None:
    health = (Health("west/a", latency_s=own_s), Health("west", latency_s=of_site_s))
    assert entry_of(mem=memory(health=health)).latency_s == told_s


@pytest.mark.parametrize(
    ("of_offer", "failures", "left"),
    [
        (limits(), 0, UNLIMITED),
        (limits(), 1, 32),
        (limits(), 4, 4),
        (limits(), 99, 1),
        (limits(per_cycle_max=200), 0, 200),
        (limits(per_cycle_max=200), 1, 32),
        (limits(per_cycle_max=10), 1, 5),
        (limits(live_max=3), 1, 3),
        (limits(live_max=0), 9, 0),
    ],
)
def test_after_failures_less_is_asked_for_in_one_cycle_than_any_limit_says(
    of_offer: Limits, failures: int, left: int
) -> None:
    under = rules(site("west", offer(limits=of_offer)))
    assert entry_of(mem=memory(health=(Health("west/a", failures=failures),)), under=under).room.left == left


Told = tuple[Because | None, tuple[Fact, ...]]
OPEN: Told = (None, ())


def closed(entry: OpenOffer) -> Told:
    return (entry.closed, entry.why)


@pytest.mark.parametrize(
    ("sites", "told"),
    [
        ({"west": ()}, OPEN),
        ({"west": UNSEEN}, (Because.SITE_UNSEEN, (("age_s", 30), ("why", "timed out")))),
        ({"west": Seen(ago(181), SiteListing(()))}, (Because.SITE_STALE, (("age_s", 181),))),
        ({"west": Seen(ago(5), SiteListing((), complete=False))}, (Because.SITE_PARTIAL, (("age_s", 5),))),
        ({}, (Because.SITE_UNSEEN, ())),
    ],
)
def test_an_offer_of_a_site_not_fully_seen_is_closed_and_tells_since_when(
    sites: dict[str, Any], told: Told
) -> None:
    snap = snapshot(pilots=sites or None)
    snap = snap if sites else replace(snap, sites=())
    assert closed(entry_of(snap)) == told


@pytest.mark.parametrize(
    ("lag_s", "born_ago_s", "told"),
    [
        (60, 0, (Because.SITE_SETTLING, (("left_s", 60),))),
        (60, 59, (Because.SITE_SETTLING, (("left_s", 1),))),
        (60, 60, OPEN),
        (60, 61, OPEN),
        (0, 0, OPEN),
        (0, -5, OPEN),
    ],
)
def test_a_site_whose_listing_trails_settles_for_so_long_and_one_without_lag_never(
    lag_s: int, born_ago_s: int, told: Told
) -> None:
    under = rules(site("west", listing_lag_s=lag_s))
    assert closed(entry_of(mem=memory(born_at=ago(born_ago_s)), under=under)) == told


def window(opens_in_s: int, closes_in_s: int, at: str = "west", why: str = "psu") -> Window:
    return Window(SiteName(at), Instant(NOW + opens_in_s), Instant(NOW + closes_in_s), why)


def near(opens_in_s: int) -> Told:
    return (Because.WINDOW_NEAR, (("opens_in_s", opens_in_s), ("why", "psu")))


def inside(left_s: int) -> Told:
    return (Because.IN_WINDOW, (("left_s", left_s), ("why", "psu")))


LIFE_S = 14 * 3600
PAST, AWAY = window(-90, 0), window(-90, 90, "east")


@pytest.mark.parametrize(
    ("windows", "told", "lifetime_s"),
    [
        ((PAST, AWAY), OPEN, LIFE_S),
        ((window(-90, -1),), OPEN, LIFE_S),
        ((window(10, 90, "east"),), OPEN, LIFE_S),
        ((window(2000, 9000, "east"),), OPEN, LIFE_S),
        ((window(-90, 1),), inside(1), LIFE_S),
        ((window(0, 90),), inside(90), LIFE_S),
        ((PAST, AWAY, window(-5, 90)), inside(90), LIFE_S),
        # A pilot takes 100 s to join, and 900 s of work are the least that is of use.
        ((window(1, 90),), near(1), LIFE_S),
        ((window(999, 9000),), near(999), LIFE_S),
        ((window(1000, 9000),), OPEN, 900),
        ((window(1001, 9000),), OPEN, 901),
        ((window(5000, 9000), window(3000, 4000)), OPEN, 2900),
        ((window(3000, 4000), window(99_000, 99_999)), OPEN, 2900),
        ((window(999_999, 9_999_999),), OPEN, LIFE_S),
        # The first that closes it is told.
        ((window(500, 9000), window(-5, 90)), near(500), LIFE_S),
        ((window(-5, 90), window(500, 9000)), inside(90), LIFE_S),
        ((window(2000, 9000), window(500, 9000)), near(500), 1900),
    ],
)
def test_a_window_closes_its_site_when_too_little_is_left_and_shortens_lives_before(
    windows: tuple[Window, ...], told: Told, lifetime_s: int
) -> None:
    entry = entry_of(snapshot(windows=windows), memory(health=(Health("west/a", latency_s=100),)))
    assert (closed(entry), entry.lifetime_s) == (told, lifetime_s)


def tripped(about: str, retry_in_s: int, failures: int = 6) -> Health:
    return Health(about, failures=failures, retry_at=Instant(NOW + retry_in_s), why=f"no {about}")


def breaker(because: Because, about: str, retry_in_s: int, failures: int = 6) -> Told:
    facts = (("failures", failures), ("retry_in_s", retry_in_s), ("last", f"no {about}"))
    return (because, facts)


@pytest.mark.parametrize(
    ("health", "told", "left"),
    [
        ((), OPEN, (UNLIMITED, UNLIMITED)),
        ((tripped("west/a", 40),), breaker(Because.BREAKER_OPEN, "west/a", 40), (1, UNLIMITED)),
        ((tripped("west/a", 1),), breaker(Because.BREAKER_OPEN, "west/a", 1), (1, UNLIMITED)),
        ((tripped("west", 40),), breaker(Because.BREAKER_OPEN, "west", 40), (UNLIMITED, UNLIMITED)),
        # The wait is over: one pilot may try.
        ((tripped("west/a", 0, 1),), OPEN, (1, UNLIMITED)),
        ((tripped("west", 0, 1),), OPEN, (UNLIMITED, 1)),
        ((tripped("west/a", -9, 1), tripped("west", -9, 1)), OPEN, (1, 1)),
        # Of two that are open, that of the offer is told.
        (
            (tripped("west/a", 40), tripped("west", 70)),
            breaker(Because.BREAKER_OPEN, "west/a", 40),
            (1, UNLIMITED),
        ),
        (
            (tripped("west/a", 0, 1), tripped("west", 70)),
            breaker(Because.BREAKER_OPEN, "west", 70),
            (1, UNLIMITED),
        ),
    ],
)
def test_an_open_breaker_closes_and_one_whose_wait_is_over_lets_one_pilot_try(
    health: tuple[Health, ...], told: Told, left: tuple[int, int]
) -> None:
    entry = entry_of(mem=memory(health=health))
    assert (closed(entry), (entry.room.left, entry.site_room.left)) == (told, left)


def test_a_window_is_told_before_a_breaker() -> None:
    mem = memory(health=(tripped("west/a", 40),))
    assert closed(entry_of(snapshot(windows=(window(-5, 90),)), mem)) == inside(90)


UNDER_WAY = breaker(Because.BREAKER_PROBE, "west/a", 0)


@pytest.mark.parametrize(
    ("state", "asked_ago_s", "key", "told"),
    [
        (PENDING, 20, "west/a", UNDER_WAY),
        (PENDING, 19, "west/a", UNDER_WAY),
        (SiteState.RUNNING, 5, "west/a", UNDER_WAY),
        # It may live, and nobody can say.
        (SiteState.UNKNOWN, 5, "west/a", UNDER_WAY),
        # It was asked for before, it is leaving, or it is of another offer.
        (PENDING, 21, "west/a", OPEN),
        (SiteState.LEAVING, 5, "west/a", OPEN),
        (PENDING, 5, "west/b", OPEN),
        (PENDING, 5, "west/c", OPEN),
    ],
)
def test_a_probe_is_under_way_while_a_pilot_asked_for_since_then_may_still_join(
    state: SiteState, asked_ago_s: int, key: str, told: Told
) -> None:
    under = rules(site("west", *(offer("west", name) for name in "abc")))
    # Another offer fares well, and of a third nothing is known yet.
    health = (tripped("west/a", -20), Health("west/b", latency_s=5))
    pilot = listed("p1", state, key, asked_at=ago(asked_ago_s), since=ago(asked_ago_s))
    found = market_of(snapshot(pilots={"west": (pilot,)}), memory(health=health), under)
    assert closed(found.offers[KEY]) == told
    assert closed(found.offers[OfferKey("west/b")]) == OPEN


def test_a_probe_of_the_whole_site_is_under_way_whichever_offer_it_is_of() -> None:
    under = rules(site("west", offer("west"), offer("west", "b")))
    pilot = listed("p1", PENDING, "west/b", asked_at=ago(5), since=ago(5))
    snap = snapshot(pilots={"west": (pilot,)}, slots=Seen(NOW, PoolSlots(())))
    found = market_of(snap, memory(health=(tripped("west", -20),)), under)
    told = breaker(Because.BREAKER_PROBE, "west", 0)
    assert [closed(entry) for entry in found.offers.values()] == [told, told]
    # The probe of the offer is told before the breaker of its site.
    both = memory(health=(tripped("west/b", -20), tripped("west", 70)))
    assert closed(market_of(snap, both, under).offers[OfferKey("west/b")]) == breaker(
        Because.BREAKER_PROBE, "west/b", 0
    )


def candidates(found: Market, each: int) -> list[Candidate]:
    entries = found.offers.values()
    return [Candidate(e, Kind(e.offer.key, e.offer.size, e.offer.traits), each) for e in entries]


@pytest.mark.parametrize(
    ("weights", "rooms", "of_all", "each", "jobs", "given"),
    [
        # The best comes first, wherever it stands; then those with least for their score.
        ((10, 20, 100), (9, 9, 9), 99, 1, 1, {"c": (1, 1)}),
        ((10, 20, 100), (9, 9, 9), 99, 1, 7, {"c": (6, 6), "b": (1, 1)}),
        ((100, 100), (9, 9), 99, 1, 5, {"a": (3, 3), "b": (2, 2)}),
        # Each pilot holds four jobs, and the last one is not full.
        ((100,), (9,), 99, 4, 10, {"a": (3, 10)}),
        ((100, 100), (9, 9), 99, 4, 10, {"a": (2, 6), "b": (1, 4)}),
        ((100,), (2,), 99, 4, 10, {"a": (2, 8)}),
        # The room of all holds for the sum, also when only one is left to choose.
        ((100,), (9,), 3, 1, 10, {"a": (3, 3)}),
        ((100, 100), (1, 9), 3, 1, 10, {"a": (1, 1), "b": (2, 2)}),
        ((100, 100), (9, 9), 3, 1, 10, {"a": (2, 2), "b": (1, 1)}),
        ((100, 100), (9, 9), 0, 1, 10, {}),
        ((100, 100), (0, 0), 9, 1, 10, {}),
        ((100, 100), (9, 9), 9, 1, 0, {}),
    ],
)
def test_pilots_go_to_the_best_offer_with_room_and_every_room_is_less_by_them(
    weights: tuple[int, ...],
    rooms: tuple[int, ...],
    of_all: int,
    each: int,
    jobs: int,
    given: dict[str, tuple[int, int]],
) -> None:
    offers = [
        offer("west", "abc"[n], weight=weight, limits=limits(live_max=room))
        for n, (weight, room) in enumerate(zip(weights, rooms, strict=True))
    ]
    under = rules(site("west", *offers, limits=limits(live_max=50)), limits=limits(live_max=of_all))
    found = market_of(under=under)
    chosen = candidates(found, each)
    got = found.ask(POOL, NOBODY, chosen, jobs)
    by_name = {one.kind.offer[-1]: one for one in chosen}
    assert got == [Given(by_name[name], *numbers) for name, numbers in given.items()]
    total = sum(pilots for pilots, _ in given.values())
    assert (found.overall.left, found.pools[POOL].left) == (of_all - total, UNLIMITED - total)
    for (name, one), room in zip(by_name.items(), rooms, strict=True):
        pilots = given.get(name, (0, 0))[0]
        entry = one.entry
        assert (entry.asked, entry.tally, entry.room.left) == (pilots, pilots, room - pilots)
        assert entry.site_room.left == 50 - total
    assert found.asks == {(POOL, by_name[name].kind, NOBODY): row[0] for name, row in given.items()}
