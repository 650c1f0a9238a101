"""Periods of budgets, and what was spent in them."""

from __future__ import annotations

import calendar
from typing import NoReturn

import pytest

from glidepath.clock import Moment, SteadyClock
from glidepath.core.provision.offer import Budget
from glidepath.core.provision.sight import Spent
from glidepath.core.quantity import Instant, SiteName
from glidepath.journal.budgets import period_of, spent_of
from glidepath.store.engine import Store, StoreError
from journal.values import an_end, written_off

DAY = 86400


def utc(*when: int) -> int:
    return calendar.timegm((*when, 0, 0))


@pytest.mark.parametrize(
    ("period", "now", "begins", "ends"),
    [
        ("day", utc(2026, 11, 20, 23), utc(2026, 11, 20, 0), utc(2026, 11, 21, 0)),
        ("week", utc(2026, 11, 20, 23), utc(2026, 11, 16, 0), utc(2026, 11, 23, 0)),
        ("week", utc(2026, 11, 16, 0), utc(2026, 11, 16, 0), utc(2026, 11, 23, 0)),
        ("week", utc(2027, 1, 1, 5), utc(2026, 12, 28, 0), utc(2027, 1, 4, 0)),
        ("month", utc(2026, 11, 20, 23), utc(2026, 11, 1, 0), utc(2026, 12, 1, 0)),
        ("month", utc(2026, 12, 31, 23), utc(2026, 12, 1, 0), utc(2027, 1, 1, 0)),
        ("month", utc(2028, 2, 29, 1), utc(2028, 2, 1, 0), utc(2028, 3, 1, 0)),
    ],
)
def test_a_period_begins_and_ends_by_the_calendar(period: str, now: int, begins: int, ends: int) -> None:
    assert period_of(period, now + 0.5) == (begins, ends)


NOW = utc(2026, 11, 20, 12)
PRICES = {"west/big": 2000, "east/big": 500}


def clock() -> SteadyClock:
    """Its timeline is the clock on the wall."""
    return SteadyClock(
        Moment(float(NOW), Instant(NOW), "boot", 0.0),
        wall=lambda: float(NOW),
        mono=lambda: 0.0,
        boot="boot",
    )


def test_what_was_spent_is_of_the_sites_and_of_this_period(store: Store) -> None:
    hours = {"pending_s": 0, "starting_s": 0, "idle_s": 1800}
    written_off(
        store,
        an_end("a", ended_at=Instant(utc(2026, 11, 19, 3)), busy_s=1800, **hours),
        an_end("b", "east", ended_at=Instant(utc(2026, 11, 2, 3)), busy_s=5400, **hours),
        an_end("c", ended_at=Instant(utc(2026, 10, 31, 3)), busy_s=9000, **hours),
    )
    budgets = (
        (Budget("all", 1), "month"),
        (Budget("east", 1, (SiteName("east"),)), "month"),
        (Budget("day", 1), "day"),
    )
    look = spent_of(store, clock(), budgets, price_milli=PRICES)
    month = Instant(utc(2026, 11, 1, 0)), Instant(utc(2026, 12, 1, 0))
    today = Instant(utc(2026, 11, 20, 0)), Instant(utc(2026, 11, 21, 0))
    assert look() == (
        Spent("all", 3_000_000, *month),
        Spent("east", 1_000_000, *month),
        Spent("day", 0, *today),
    )


class Silent:
    """A store whose server is away."""

    def read(self) -> NoReturn:
        raise StoreError("no answer")


def test_where_the_store_gives_no_answer_nothing_is_known() -> None:
    budgets = ((Budget("all", 1), "month"),)
    assert spent_of(Silent(), clock(), budgets, price_milli={})() == ()  # type: ignore[arg-type]
