"""What was spent of budgets in their present periods: budgets and prices come in, facts for plans go out."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Iterable, Mapping

from glidepath.clock import SteadyClock
from glidepath.core.provision.offer import Budget
from glidepath.core.provision.sight import Spent
from glidepath.journal.pilot_sums import pilot_lines
from glidepath.store.engine import Store, StoreError
from glidepath.store.usage import Span, Step

DAY_S = 86400
WEEK_DAYS = 7


def spent_of(
    store: Store,
    clock: SteadyClock,
    budgets: Iterable[tuple[Budget, str]],
    *,
    price_milli: Mapping[str, int],
) -> Callable[[], tuple[Spent, ...]]:
    """Looked up anew for each plan. Where the store gives no answer, nothing is known."""
    wanted = tuple(budgets)

    def look() -> tuple[Spent, ...]:
        try:
            return tuple(
                _spent(store, clock, budget, period=period, price_milli=price_milli)
                for budget, period in wanted
            )
        except StoreError:
            return ()

    return look


def _spent(
    store: Store, clock: SteadyClock, budget: Budget, *, period: str, price_milli: Mapping[str, int]
) -> Spent:
    first, last = period_of(period, clock.wall())
    begins_at, ends_at = clock.at_wall(first), clock.at_wall(last)
    lines = pilot_lines(store, Span.of(begins_at, ends_at), Step.ALL, by=("site",), price_milli=price_milli)
    micro = sum(line.sums.cost_micro for line in lines if not budget.sites or line.whose[0] in budget.sites)
    return Spent(budget.name, micro, begins_at, ends_at)


def period_of(period: str, wall: float) -> tuple[int, int]:
    """When the day, week or month began that it is now, in UTC, and when the next one does."""
    today = int(wall // DAY_S) * DAY_S
    now = time.gmtime(today)
    if period == "day":
        return today, today + DAY_S
    if period == "week":
        monday = today - now.tm_wday * DAY_S
        return monday, monday + WEEK_DAYS * DAY_S
    year, month = (now.tm_year + 1, 1) if now.tm_mon == 12 else (now.tm_year, now.tm_mon + 1)
    first = calendar.timegm((now.tm_year, now.tm_mon, 1, 0, 0, 0))
    return first, calendar.timegm((year, month, 1, 0, 0, 0))
