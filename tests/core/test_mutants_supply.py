"""Supply to the letter: which pilot is filled first, from how many lots, and what room counts."""

from __future__ import annotations

import pytest

from core.leaf_builders import FOUR, POOL, WEST_BIG
from glidepath.core.provision.offer import Kind
from glidepath.core.provision.supply import FOREVER_S, Amounts, Row, Stock
from glidepath.core.quantity import Resources

BIG = Kind(WEST_BIG, FOUR)
ONE: Amounts = (1000, 1024, 0, 0)


def a_row(free: Resources = FOUR, life_s: int = FOREVER_S, whole: bool = False) -> Row:
    return (POOL, BIG, free.as_tuple(), life_s, whole)


def stock(*rows: Row) -> Stock:
    made = Stock()
    made.add_all(rows)
    return made


def taken(made: Stock, request: Amounts, jobs: int, run_s: int = 0) -> int:
    return made.take(POOL, [BIG], request, jobs=jobs, run_s=run_s)


def test_jobs_go_on_to_the_next_lot_when_one_is_full() -> None:
    made = stock(a_row(Resources(1000, 1024)), a_row(Resources(2000, 2048)), a_row(FOUR))
    assert taken(made, ONE, 6) == 6
    assert taken(made, ONE, 6) == 1


@pytest.mark.parametrize(
    "most", [Resources(9, 1, 1, 1), Resources(1, 9, 1, 1), Resources(1, 1, 9, 1), Resources(1, 1, 1, 9)]
)
def test_the_largest_room_of_each_sort_counts_wherever_it_is(most: Resources) -> None:
    assert taken(stock(a_row(Resources(1, 1, 1, 1)), a_row(most)), most.as_tuple(), 5) == 1


def test_a_full_pilot_has_a_place_for_a_job_that_asks_for_nothing() -> None:
    assert taken(stock(a_row(Resources())), (0, 0, 0, 0), 5) == 1


def test_a_begun_pilot_is_filled_before_a_whole_one_that_ends_sooner() -> None:
    made = stock(a_row(life_s=500, whole=True), a_row(life_s=900))
    assert taken(made, ONE, 1) == 1
    assert made.untouched() == {(POOL, BIG): 1}


def test_the_fullest_is_filled_first_even_if_it_lives_longer() -> None:
    made = stock(a_row(Resources(3000, 3072), life_s=500), a_row(Resources(1000, 1024), life_s=900))
    assert taken(made, ONE, 1) == 1
    assert taken(made, (3000, 1024, 0, 0), 1) == 1


def test_of_equally_full_ones_that_which_ends_first_is_filled_first() -> None:
    made = stock(a_row(Resources(1000, 1024), life_s=900), a_row(Resources(1000, 1024), life_s=500))
    assert taken(made, ONE, 1) == 1
    assert taken(made, ONE, 1, run_s=900) == 1


def test_what_is_newly_asked_for_is_untouched_until_something_is_packed_into_it() -> None:
    made = Stock()
    made.add(POOL, BIG, 3, 600)
    assert made.untouched() == {(POOL, BIG): 3}
    assert taken(made, ONE, 5) == 5
    assert made.untouched() == {(POOL, BIG): 1}
