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


moments = some.integers(0, 5 * HOUR_S)


@given(
    some.lists(moments, max_size=12),
    moments,
    some.one_of(some.none(), moments),
    some.integers(0, 10**12),
)
def test_whatever_it_is_cut_into_all_slices_are_the_total(
    looks: list[int], began_at: int, ran_s: int | None, rate: int
) -> None:
    run = a_run(began_at, None if ran_s is None else began_at + ran_s, rate=rate)
    end, last = Instant(10 * HOUR_S), Instant(0)
    charge = seconds = 0
    # Clocks that go back are looks that bring nothing; what was counted stays counted.
    for look in [*looks, end]:
        for each in slices(run, last, Instant(look)):
            charge, seconds = charge + each.charge, seconds + each.seconds
        last = Instant(max(last, look))
    assert charge == run.total(run.until(end))
    assert seconds == run.until(end) - began_at


def test_a_run_that_ended_before_it_began_costs_nothing() -> None:
    assert list(slices(a_run(100, 50), Instant(0), Instant(1000))) == []
