"""The picture to the letter: what one look makes of demand, of its sources, and of what was not seen in time.

Snapshots with ages to the second come in, whole rows of the picture are compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    SOURCE,
    demand,
    listed,
    memory,
    picture_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from glidepath.core.because import Because
from glidepath.core.cycle import Seen, Unseen
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.memory import Held
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.picture import Wanted
from glidepath.core.provision.pilot import PilotPhase, Track
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

WEST = SiteName("west")
ELSEWHERE = PoolName("elsewhere")
SECOND = SourceName("ap2")
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
ALICE, BOB = Owner("alice"), Owner("bob")


def ago(seconds: int) -> Instant:
    return Instant(NOW - seconds)


def told(*demands: Demand, age_s: int = 0) -> Seen[DemandSight]:
    return Seen(ago(age_s), DemandSight(demands))


def sources(*rows: tuple[PoolName, SourceName, Any]) -> Snapshot:
    return replace(snapshot(), demand=rows)


def row(**more: Any) -> Demand:
    """One waiting job, as old as all the others and with one offer to go to, unless said otherwise."""
    return demand(**{"idle": 1, "oldest_at": ago(60), **more})


TWO = ("east/a", "west/a")
OS_7, OS_9 = shape(os="el7"), shape(os="el9")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Each wins by one thing, and would lose by all that come after it.
        (row(of=shape(8, gpus=1), fits=TWO, oldest_at=ago(5)), row(oldest_at=ago(90))),
        (row(of=shape(8, gpus=2), fits=TWO, oldest_at=ago(5)), row(of=shape(gpus=1), oldest_at=ago(90))),
        (row(of=shape(8), oldest_at=ago(5)), row(fits=TWO, oldest_at=ago(90))),
        (row(of=shape(8), fits=TWO, oldest_at=ago(5)), row(fits=(), oldest_at=ago(90))),
        (row(of=shape(8), oldest_at=ago(90)), row(oldest_at=ago(5))),
        (row(of=shape(8), oldest_at=ago(5)), row(oldest_at=None)),
        (row(of=OS_7), row(of=shape(8))),
        (row(of=OS_7, run_s_max=9), row(of=OS_9)),
        (row(), row(run_s_max=1)),
        (row(run_s_max=100), row(run_s_max=200)),
    ],
)
def test_gpus_come_first_then_few_offers_then_age_then_what_is_small_and_short(
    first: Demand, second: Demand
) -> None:
    for rows in ((first, second), (second, first)):
        assert picture_of(snapshot(rows)).wanted == (Wanted(first), Wanted(second))


def test_pools_are_ordered_by_name_before_all_else() -> None:
    first, second = row(pool=ELSEWHERE), row(of=shape(gpus=1))
    under = rules(pools=(PoolRules(POOL), PoolRules(ELSEWHERE)))
    snap = sources((POOL, SOURCE, told(second)), (ELSEWHERE, SOURCE, told(first)))
    assert picture_of(snap, under=under).wanted == (Wanted(first), Wanted(second))


@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [
        (
            row(idle=3, running=5, owners=((ALICE, 3),), oldest_at=ago(60), fits=("west/a", "west/c")),
            row(idle=6, running=2, owners=((BOB, 5), (ALICE, 1)), oldest_at=ago(90), fits=("west/b",)),
            {
                "idle": 9,
                "running": 7,
                "owners": ((BOB, 5), (ALICE, 4)),
                "oldest_at": ago(90),
                "fits": ("west/a", "west/b", "west/c"),
            },
        ),
        (row(oldest_at=ago(90)), row(oldest_at=ago(60)), {"idle": 2, "owners": ((ALICE, 2),)}),
        (row(oldest_at=ago(90)), row(idle=0, running=4, oldest_at=None), {"running": 4}),
        (
            row(idle=0, running=4, oldest_at=None),
            row(oldest_at=ago(90)),
            {"idle": 1, "owners": ((ALICE, 1),), "oldest_at": ago(90)},
        ),
        (row(idle=0, oldest_at=None), row(idle=0, running=1, oldest_at=None), {"running": 1}),
    ],
)
def test_the_same_group_of_two_sources_is_one_row_with_all_that_both_said(
    one: Demand, other: Demand, changes: dict[str, Any]
) -> None:
    snap = sources((POOL, SOURCE, told(one)), (POOL, SECOND, told(other)))
    assert picture_of(snap).wanted == (Wanted(replace(one, **changes)),)


@pytest.mark.parametrize(
    ("age_s", "idle"),
    [(600, 6000), (601, 5990), (602, 5980), (900, 3000), (1199, 10), (1200, None), (1201, None)],
)
def test_a_source_that_is_no_longer_named_fades_and_is_then_forgotten(age_s: int, idle: int | None) -> None:
    left = Held(POOL, SECOND, ago(age_s), (row(idle=6000),))
    now = Held(POOL, SOURCE, NOW, (row(idle=2),))
    picture = picture_of(snapshot(now.demands), memory(held=(left,)))
    faded = (Wanted(replace(left.demands[0], idle=idle), held=True),) if idle else ()
    assert (picture.held, picture.wanted, picture.held_pools) == (
        (now, left) if age_s <= 1200 else (now,),
        (Wanted(now.demands[0]), *faded),
        frozenset({POOL}) if age_s <= 1200 else frozenset(),
    )


@pytest.mark.parametrize(("age_s", "idle"), [(600, 6000), (601, 5990), (1199, 10), (1200, None)])
def test_a_silent_source_keeps_its_last_word_to_the_second_and_then_fades(
    age_s: int, idle: int | None
) -> None:
    held = Held(POOL, SOURCE, ago(age_s), (row(idle=6000),))
    picture = picture_of(snapshot(UNSEEN), memory(held=(held,)))
    faded = (Wanted(replace(held.demands[0], idle=idle), held=True),) if idle else ()
    assert (picture.held, picture.wanted, picture.held_pools) == ((held,), faded, frozenset({POOL}))


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (Held(POOL, SOURCE, ago(10), (row(idle=4),)), told(row(idle=4), age_s=10)),
        (Held(POOL, SOURCE, ago(10), (row(idle=4),)), told(row(idle=5), age_s=10)),
        (Held(POOL, SOURCE, ago(10), (row(idle=4),)), told(row(idle=4))),
        (Held(POOL, SOURCE, ago(10), (row(idle=4),)), told(row(idle=5))),
        (None, told(row(idle=5))),
    ],
)
def test_the_last_full_answer_of_a_source_is_what_is_held_of_it(
    before: Held | None, said: Seen[DemandSight]
) -> None:
    picture = picture_of(snapshot(said), memory(held=(before,) if before else ()))
    assert picture.held == (Held(POOL, SOURCE, said.at, said.value.demands),)
    assert picture.wanted == tuple(Wanted(each) for each in said.value.demands)


@pytest.mark.parametrize(
    ("age_s", "wanted", "held_pools"), [(180, (Wanted(row()),), frozenset()), (181, (), frozenset({POOL}))]
)
def test_demand_is_acted_on_up_to_the_last_second_of_its_bound(
    age_s: int, wanted: Any, held_pools: Any
) -> None:
    picture = picture_of(snapshot(told(row(), age_s=age_s)))
    assert (picture.wanted, picture.held_pools) == (wanted, held_pools)


@pytest.mark.parametrize(("age_s", "blind"), [(180, {}), (181, {POOL: Because.POOL_UNSEEN})])
def test_slots_are_believed_up_to_the_last_second_of_their_bound(age_s: int, blind: Any) -> None:
    heard = slot("p1")
    picture = picture_of(snapshot(slots=Seen(ago(age_s), PoolSlots((heard,)))))
    assert (picture.blind_pools, picture.slots) == (blind, {} if blind else {"p1": heard})


@pytest.mark.parametrize(("age_s", "closed"), [(180, {}), (181, {WEST: Because.SITE_STALE})])
def test_a_site_is_open_up_to_the_last_second_of_its_bound(age_s: int, closed: Any) -> None:
    listing = Seen(ago(age_s), SiteListing((listed("p1"),)))
    picture = picture_of(snapshot(pilots={"west": listing}))
    assert (picture.closed_sites, [each.name for each in picture.tracks]) == (
        closed,
        [] if closed else ["p1"],
    )


def test_pools_and_sites_that_no_rule_names_change_nothing() -> None:
    snap = snapshot((row(),), pilots={"west": (listed("p1"),)}, slots=(slot("p1"),))
    strange = replace(
        snap,
        demand=((ELSEWHERE, SOURCE, told(row(pool=ELSEWHERE))), *snap.demand),
        slots=((ELSEWHERE, Seen(NOW, PoolSlots((slot("p9"),)))), *snap.slots),
        sites=((SiteName("afar"), UNSEEN), *snap.sites),
    )
    assert replace(picture_of(strange), snapshot=snap) == picture_of(snap)


def test_a_pool_that_names_no_source_is_unseen_and_nothing_is_taken_from_it() -> None:
    under = rules(pools=(PoolRules(POOL), PoolRules(ELSEWHERE)))
    assert picture_of(snapshot(), under=under).held_pools == {ELSEWHERE}


@pytest.mark.parametrize(
    ("ages_s", "risen"), [((10, 10), 7), ((1800, 10), 7), ((1801, 10), 0), ((10, 1801), 0), ((None, 10), 0)]
)
def test_jobs_count_as_arrived_only_if_every_source_of_their_pool_was_seen_not_long_ago(
    ages_s: tuple[int | None, int], risen: int
) -> None:
    held = tuple(
        replace(SEEN_BEFORE, source=source, at=ago(age_s))
        for source, age_s in zip((SOURCE, SECOND), ages_s, strict=True)
        if age_s is not None
    )
    snap = sources((POOL, SOURCE, told()), (POOL, SECOND, told(row(idle=7))))
    assert picture_of(snap, memory(held=held)).flows == (Flow(POOL, shape(), None, 7, NOW, risen),)


@pytest.mark.parametrize(
    ("mem", "unproven"),
    [
        ({"unproven": (SiteName("afar"), WEST, SiteName("east"))}, (WEST,)),
        ({"unproven": ()}, ()),
        ({"at": None}, (WEST,)),
    ],
)
def test_only_configured_sites_that_were_not_seen_since_stay_unproven(
    mem: dict[str, Any], unproven: tuple[SiteName, ...]
) -> None:
    under = rules(site("east"), site("west"))
    snap = snapshot(pilots={"east": (), "west": UNSEEN})
    assert picture_of(snap, memory(**mem), under).unproven == unproven


def test_a_pool_that_was_not_seen_makes_no_pilot_silent() -> None:
    busy = Track(
        PilotName("p1"),
        WEST,
        OfferKey("west/a"),
        POOL,
        Resources(1000, 1024, 100_000),
        PilotPhase.BUSY,
        ago(50),
        ago(100),
        started_at=ago(45),
        joined_at=ago(40),
    )
    snap = snapshot(pilots={"west": (listed("p1"),)}, slots=UNSEEN)
    assert picture_of(snap, memory(tracks=(busy,))).tracks == (busy,)
