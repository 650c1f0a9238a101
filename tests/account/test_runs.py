"""Charges are whole numbers that add up, however a run is cut and however often it is looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from glidepath.core.account.run import HOUR_S, MILLIONTHS, Held, Payer, Rates, Run, slices
from glidepath.core.quantity import Instant

PAYER = Payer("ada", "physics", "main")


def a_run(began_at: int = 0, ended_at: int | None = None, *, rate: int = MILLIONTHS) -> Run:
    return Run(PAYER, Held(1000), rate, Instant(began_at), None if ended_at is None else Instant(ended_at))


def test_what_is_held_has_one_rate() -> None:
    rates = Rates(cpu=MILLIONTHS, memory=100_000, gpu=20 * MILLIONTHS, disk=1)
    assert Held(500, 2048, 1024, 250).rate(rates) == 500_000 + 200_000 + 1 + 5 * MILLIONTHS


def test_an_hour_of_a_cpu_is_a_credit_and_half_of_it_half() -> None:
    assert [a_run().total(Instant(at)) for at in (-5, 0, 1800, 3600)] == [0, 0, 500_000, MILLIONTHS]


def test_slices_are_cut_at_hours_of_the_clock() -> None:
    found = list(slices(a_run(3000, 8000), Instant(0), Instant(99_999)))
    assert [(each.hour, each.seconds) for each in found] == [(0, 600), (1, 3600), (2, 800)]


def test_an_end_that_is_told_late_takes_back_what_was_counted_too_much() -> None:
    found = list(slices(a_run(3000, 3500), Instant(7300), Instant(7300)))
    assert [(each.hour, each.seconds) for each in found] == [(0, -100), (1, -3600), (2, -100)]
    assert sum(each.charge for each in found) == a_run().total(Instant(500)) - a_run().total(Instant(4300))


moments = some.integers(0, 5 * HOUR_S)


@given(some.lists(moments, max_size=12), moments, moments, some.integers(0, 10**12))
def test_whatever_it_is_cut_into_all_slices_are_the_total(
    looks: list[int], began_at: int, ran_s: int, rate: int
) -> None:
    """Its end is known only at the last look; looks at which clocks went back bring nothing."""
    running, over = a_run(began_at, rate=rate), a_run(began_at, began_at + ran_s, rate=rate)
    last = Instant(0)
    charge = seconds = 0
    for run, look in [*((running, look) for look in looks), (over, 0)]:
        until = Instant(max(last, look))
        for each in slices(run, last, until):
            charge, seconds = charge + each.charge, seconds + each.seconds
        last = until
    if last >= began_at + ran_s:
        assert (charge, seconds) == (over.total(Instant(began_at + ran_s)), ran_s)
    else:
        assert (charge, seconds) == (over.total(last), max(last - began_at, 0))


def test_a_run_that_ended_before_it_began_costs_nothing() -> None:
    assert list(slices(a_run(100, 50), Instant(0), Instant(1000))) == []
