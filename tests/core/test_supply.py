"""Supply: what is packed into lots also fits pilot by pilot, and lives long enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.leaf_builders import FOUR, POOL, WEST_BIG, resources
from glidepath.core.provision.offer import Kind
from glidepath.core.provision.supply import FOREVER_S, Amounts, Row, Stock, copies, fits, less
from glidepath.core.quantity import OfferKey, PoolName, Resources

BIG = Kind(WEST_BIG, FOUR)
ROCKY = Kind(WEST_BIG, FOUR, (("os", "rocky9"),))
SMALL = Kind(OfferKey("west/small"), Resources(1000, 2048))
EAST = PoolName("east")
ONE: Amounts = (1000, 1024, 0, 0)
NOTHING: Amounts = (0, 0, 0, 0)


def a_row(kind: Kind = BIG, free: Resources | None = None, life_s: int = FOREVER_S, **more: object) -> Row:
    whole = bool(more.get("whole", True))
    return (
        PoolName(str(more.get("pool", POOL))),
        kind,
        (free if free is not None else kind.size).as_tuple(),
        life_s,
        whole,
    )


def stock(*rows: Row, least: Amounts = NOTHING) -> Stock:
    made = Stock(least)
    made.add_all(rows)
    return made


@pytest.mark.parametrize(
    ("request_", "room", "count"),
    [
        (ONE, (4000, 8192, 0, 0), 4),
        (ONE, (4000, 2048, 0, 0), 2),
        (ONE, (999, 9999, 9, 9), 0),
        ((1000, 1024, 0, 1), (4000, 8192, 0, 1), 1),
        (NOTHING, (4000, 8192, 0, 0), 1),
        (NOTHING, NOTHING, 1),
    ],
)
def test_so_many_requests_fit_into_one_room(request_: Amounts, room: Amounts, count: int) -> None:
    assert copies(request_, room) == count


@given(resources(9), resources(60))
def test_copies_fits_and_less_agree(request_: Resources, room: Resources) -> None:
    need, have = request_.as_tuple(), room.as_tuple()
    count = copies(need, have)
    assert fits(need, have) is (count > 0)
    assert min(less(have, need, count)) >= 0
    if request_:
        assert count == request_.copies_in(room)


@pytest.mark.parametrize(
    ("rows", "request_", "jobs", "run_s", "taken"),
    [
        ((), ONE, 5, 0, 0),
        ((a_row(),), ONE, 0, 0, 0),
        ((a_row(),), ONE, 3, 0, 3),
        ((a_row(),), ONE, 9, 0, 4),
        ((a_row(), a_row()), ONE, 9, 0, 8),
        ((a_row(free=Resources(1500, 8192), whole=False),), ONE, 9, 0, 1),
        ((a_row(free=Resources(4000, 1023)),), ONE, 9, 0, 0),
        ((a_row(),), (1000, 1024, 0, 1), 9, 0, 0),
        # A job is not counted on a pilot that dies before it is done.
        ((a_row(life_s=599),), ONE, 9, 600, 0),
        ((a_row(life_s=600),), ONE, 9, 600, 4),
        ((a_row(life_s=599), a_row(life_s=600)), ONE, 9, 600, 4),
        # Neither on another kind of pilot, nor in another pool.
        ((a_row(kind=ROCKY),), ONE, 9, 0, 0),
        ((a_row(kind=SMALL),), ONE, 9, 0, 0),
        ((a_row(pool=EAST),), ONE, 9, 0, 0),
        # A request of nothing takes one place in each pilot.
        ((a_row(), a_row(), a_row()), NOTHING, 9, 0, 3),
        ((a_row(), a_row(), a_row()), NOTHING, 2, 0, 2),
    ],
)
def test_jobs_find_the_room_that_there_is(
    rows: tuple[Row, ...], request_: Amounts, jobs: int, run_s: int, taken: int
) -> None:
    assert stock(*rows).take(POOL, [BIG], request_, jobs=jobs, run_s=run_s) == taken


def test_what_was_taken_is_not_taken_twice_and_the_rest_serves_the_next_shape() -> None:
    shelf = stock(a_row(), a_row())
    assert shelf.take(POOL, [BIG], (3000, 1024, 0, 0), jobs=5, run_s=0) == 2
    assert shelf.take(POOL, [BIG], (3000, 1024, 0, 0), jobs=5, run_s=0) == 0
    assert shelf.take(POOL, [BIG], ONE, jobs=5, run_s=0) == 2
    assert shelf.take(POOL, [BIG], ONE, jobs=5, run_s=0) == 0


def test_begun_pilots_are_filled_before_another_is_touched() -> None:
    shelf = stock(a_row(), a_row(free=Resources(2000, 4096), whole=False))
    assert shelf.take(POOL, [BIG], ONE, jobs=2, run_s=0) == 2
    assert shelf.untouched() == {(POOL, BIG): 1}
    assert shelf.take(POOL, [BIG], ONE, jobs=1, run_s=0) == 1
    assert shelf.untouched() == {}


def test_a_pilot_begun_by_one_group_is_filled_by_the_next() -> None:
    shelf = stock(*[a_row()] * 3)
    for _ in range(4):
        assert shelf.take(POOL, [BIG], ONE, jobs=1, run_s=0) == 1
    assert shelf.untouched() == {(POOL, BIG): 2}


@pytest.mark.parametrize(("jobs", "left"), [(0, 5), (1, 4), (4, 4), (5, 3), (16, 1), (17, 0), (99, 0)])
def test_untouched_pilots_are_counted(jobs: int, left: int) -> None:
    shelf = stock(*[a_row()] * 5)
    shelf.take(POOL, [BIG], ONE, jobs=jobs, run_s=0)
    assert shelf.untouched() == ({(POOL, BIG): left} if left else {})


def test_untouched_pilots_are_told_apart_by_pool_and_kind() -> None:
    rows = [a_row(), a_row(kind=ROCKY), a_row(kind=SMALL), a_row(pool=EAST), a_row(whole=False)]
    assert stock(*rows).untouched() == {(POOL, BIG): 1, (POOL, ROCKY): 1, (POOL, SMALL): 1, (EAST, BIG): 1}


def test_kinds_are_tried_in_the_order_given() -> None:
    shelf = stock(a_row(kind=SMALL), a_row())
    assert shelf.take(POOL, [SMALL, BIG], ONE, jobs=3, run_s=0) == 3
    assert shelf.untouched() == {}
    shelf = stock(a_row(kind=SMALL), a_row())
    assert shelf.take(POOL, [BIG, SMALL], ONE, jobs=3, run_s=0) == 3
    assert shelf.untouched() == {(POOL, SMALL): 1}


def test_pilots_just_asked_for_hold_jobs_too() -> None:
    shelf = Stock()
    shelf.add(POOL, BIG, 2, 3600)
    assert shelf.take(POOL, [BIG], ONE, jobs=99, run_s=3601) == 0
    assert shelf.take(POOL, [BIG], ONE, jobs=5, run_s=3600) == 5
    assert shelf.untouched() == {}


def test_room_too_small_for_anyone_is_put_away_and_a_whole_pilot_is_not() -> None:
    scraps = a_row(free=Resources(500, 8192), whole=False)
    shelf = stock(scraps, a_row(free=Resources(500, 8192)), least=ONE)
    assert shelf.take(POOL, [BIG], ONE, jobs=9, run_s=0) == 0
    assert shelf.untouched() == {(POOL, BIG): 1}


@dataclass(frozen=True, order=True)
class OnePilot:
    """One pilot, simulated by itself."""

    kind: str
    room: Amounts
    life_s: int
    untouched: bool


@dataclass(frozen=True)
class Take:
    kinds: tuple[str, ...]
    need: Amounts
    jobs: int
    run_s: int


KINDS = {"big": BIG, "rocky": ROCKY, "small": SMALL}
AMOUNTS = resources(5).map(Resources.as_tuple)
PILOTS = st.lists(
    st.builds(OnePilot, st.sampled_from(sorted(KINDS)), AMOUNTS, st.sampled_from([100, 200]), st.booleans()),
    max_size=4,
).map(tuple)
TAKES = st.lists(
    st.builds(
        Take,
        st.lists(st.sampled_from(sorted(KINDS)), unique=True, min_size=1).map(tuple),
        resources(2).map(Resources.as_tuple),
        st.integers(0, 5),
        st.sampled_from([0, 100, 150, 201]),
    ),
    max_size=3,
)


def shelved(pilots: tuple[OnePilot, ...]) -> Stock:
    return stock(*[(POOL, KINDS[p.kind], p.room, p.life_s, p.untouched) for p in pilots])


def places(pilot: OnePilot, take: Take) -> int:
    """How many jobs of one take this pilot alone can hold, counted by putting them in one by one."""
    if pilot.kind not in take.kinds or pilot.life_s < take.run_s:
        return 0
    if not any(take.need):
        return 1
    room, held = pilot.room, 0
    while fits(take.need, room):
        room, held = less(room, take.need, 1), held + 1
    return held


def ways(pilots: tuple[OnePilot, ...], take: Take, jobs: int) -> Iterator[tuple[OnePilot, ...]]:
    """Every way to put exactly so many jobs of one take into these pilots."""
    if not pilots:
        if not jobs:
            yield ()
        return
    first, rest = pilots[0], pilots[1:]
    for here in range(min(jobs, places(first, take)) + 1):
        filled = replace(
            first, room=less(first.room, take.need, here), untouched=first.untouched and not here
        )
        for others in ways(rest, take, jobs - here):
            yield (filled, *others)


@given(PILOTS, TAKES.filter(bool))
def test_the_first_group_is_packed_exactly_as_pilot_by_pilot(
    pilots: tuple[OnePilot, ...], takes: list[Take]
) -> None:
    take = takes[0]
    kinds = [KINDS[kind] for kind in take.kinds]
    taken = shelved(pilots).take(POOL, kinds, take.need, jobs=take.jobs, run_s=take.run_s)
    assert taken == min(take.jobs, sum(places(pilot, take) for pilot in pilots))


@given(PILOTS, TAKES)
@settings(deadline=None)
def test_whatever_is_packed_fits_into_single_pilots_and_leaves_the_untouched_alone(
    pilots: tuple[OnePilot, ...], takes: list[Take]
) -> None:
    shelf = shelved(pilots)
    possible = {tuple(sorted(pilots))}
    for take in takes:
        kinds = [KINDS[kind] for kind in take.kinds]
        taken = shelf.take(POOL, kinds, take.need, jobs=take.jobs, run_s=take.run_s)
        assert 0 <= taken <= take.jobs
        possible = {tuple(sorted(after)) for before in possible for after in ways(before, take, taken)}
        assert possible, f"{taken} jobs do not fit"
    counts = shelf.untouched()
    assert counts in [
        Counter((POOL, KINDS[pilot.kind]) for pilot in after if pilot.untouched) for after in possible
    ]


@given(PILOTS, TAKES, st.sampled_from([(1, 1, 0, 0), (0, 0, 0, 1), (1, 1, 1, 1)]))
def test_putting_scraps_away_changes_no_answer(
    pilots: tuple[OnePilot, ...], takes: list[Take], least: Amounts
) -> None:
    """`least` only saves looking: for requests that are no smaller, the answers are the same."""
    rows = [(POOL, KINDS[p.kind], p.room, p.life_s, p.untouched) for p in pilots]
    plain, tidy = stock(*rows), stock(*rows, least=least)
    for take in takes:
        if fits(least, take.need):
            asked = (POOL, [KINDS[k] for k in take.kinds], take.need)
            most = {"jobs": take.jobs, "run_s": take.run_s}
            assert plain.take(*asked, **most) == tidy.take(*asked, **most)
    assert plain.untouched() == tidy.untouched()
