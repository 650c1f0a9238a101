"""What pilots may cost in a period: never more than stated, whatever they turn out to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import (
    NOW,
    asked,
    demand,
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
from glidepath.core.check import check
from glidepath.core.cycle import Decision, Plan, Reason, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.offer import Budget, Rules
from glidepath.core.provision.pilot import SiteState, Submit
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.sight import Snapshot, Spent
from glidepath.core.quantity import Instant, SiteName

HOUR_S = 3600
MICRO = 1_000_000
BOTH = ("east/a", "west/a")


def costly(name: str, price_milli: int = 1000, hours: int = 10) -> Any:
    return site(name, offer(name, price_milli=price_milli, lifetime_s=hours * HOUR_S))


def month(spent: float = 0, *, left_h: float = 500, name: str = "month") -> Spent:
    begins = Instant(NOW - 20 * HOUR_S)
    return Spent(name, int(spent * MICRO), begins, Instant(NOW + int(left_h * HOUR_S)))


def under(amount: float, *sites: str, price_milli: int = 1000) -> Rules:
    budget = Budget("month", int(amount * MICRO), tuple(map(SiteName, sites)))
    return rules(costly("east", price_milli), costly("west", price_milli), budgets=(budget,))


def wants(jobs: int, spent: tuple[Spent, ...], **more: Any) -> Snapshot:
    return snapshot((demand(jobs, fits=BOTH),), {"east": (), "west": (), **more}, spent=spent)


@pytest.mark.parametrize(
    ("amount", "sites", "spent", "expected"),
    [
        (1000, (), month(), {"east/a": 2, "west/a": 2}),
        # Each may cost ten.
        (35, (), month(), {"east/a": 2, "west/a": 1}),
        (35, (), month(26), {}),
        (35, (), month(15), {"east/a": 1, "west/a": 1}),
        (15, ("west",), month(), {"east/a": 3, "west/a": 1}),
        (9.9, ("west",), month(), {"east/a": 4}),
        # In the two hours that are left of the period each costs two.
        (9.9, ("west",), month(left_h=2), {"east/a": 2, "west/a": 2}),
        (3, ("west",), month(left_h=2), {"east/a": 3, "west/a": 1}),
        (1, (), month(5), {}),
    ],
)
def test_what_a_budget_does_not_pay_for_is_asked_for_elsewhere_or_not_at_all(
    amount: float, sites: tuple[str, ...], spent: Spent, expected: dict[str, int]
) -> None:
    assert asked(plan_of(wants(4, (spent,)), under=under(amount, *sites))) == expected


def test_what_is_free_costs_no_budget_anything() -> None:
    assert asked(plan_of(wants(4, (month(5),)), under=under(1, price_milli=0))) == {"east/a": 2, "west/a": 2}


@pytest.mark.parametrize(
    ("pilot", "expected"),
    [
        # It has not started: all of its life is still to be paid for.
        ({"state": SiteState.PENDING}, 2),
        # It must end in an hour, and joined just now.
        ({"ends_at": Instant(NOW + HOUR_S)}, 3),
        ({"ends_at": Instant(NOW + 100 * HOUR_S)}, 0),
    ],
)
def test_pilots_that_live_are_counted_with_all_that_they_can_still_cost(
    pilot: dict[str, Any], expected: int
) -> None:
    there = listed("gp-1", key="west/a", **{"state": SiteState.RUNNING, **pilot})
    heard = (slot("gp-1", 1),) if there.state is SiteState.RUNNING else ()
    seen = snapshot((demand(8, fits=BOTH),), {"east": (), "west": (there,)}, heard, spent=(month(),))
    assert sum(asked(plan_of(seen, under=under(35))).values()) == expected


def facts_of(plan: Plan[Any], about: str) -> str:
    return next(str(each.reason) for each in plan.decisions if each.about == about)


def test_a_budget_that_is_used_up_is_told_with_its_figures() -> None:
    plan = plan_of(wants(8, (month(12.5),)), under=under(20, "west"))
    figures = "budget=month, amount=20, spent=12.5, may_still_cost=0, ends_in_s=1800000"
    means = "what is left of a budget pays for no more pilots here in this period"
    told = facts_of(plan, "offer:west/a")
    assert told == f"{means} (live=0, pending=0, asked=0, {figures})"
    # It paid for some of what was wanted, and then for no more.
    plan = plan_of(wants(8, (month(),)), under=under(15))
    assert "asked=1" in facts_of(plan, "offer:east/a")
    assert "budget=month, amount=15" in facts_of(plan, "offer:west/a")


def test_of_what_nobody_knows_nothing_is_spent() -> None:
    plan = plan_of(wants(4, ()), under=under(1000, "west"))
    assert asked(plan) == {"east/a": 4}
    assert "budget=month, spent=unknown" in facts_of(plan, "offer:west/a")


def test_pilots_of_a_forgotten_life_may_cost_something_until_their_site_was_seen() -> None:
    forgotten = memory(at=None, born_at=Instant(NOW))
    both = under(1000)
    unseen = Unseen(Instant(NOW - 5), "no answer")
    seen = snapshot((demand(8, fits=BOTH),), {"east": (), "west": unseen}, spent=(month(),))
    assert asked(plan_of(seen, forgotten, both)) == {}
    assert "not_seen_yet=west" in facts_of(plan_of(seen, forgotten, both), "offer:east/a")


def test_two_budgets_both_have_to_pay() -> None:
    whole = Budget("month", 1000 * MICRO)
    narrow = Budget("week", 15 * MICRO, (SiteName("west"),))
    both = rules(costly("east"), costly("west"), budgets=(whole, narrow))
    told = (month(), month(name="week"))
    assert asked(plan_of(wants(4, told), under=both)) == {"east/a": 3, "west/a": 1}


@given(
    amount=st.integers(0, 200),
    spent=st.integers(0, 100),
    left_h=st.integers(0, 30),
    price=st.integers(1, 5000),
    hours=st.integers(1, 40),
    jobs=st.integers(0, 40),
    together=st.integers(1, 3),
)
def test_no_plan_can_cost_more_than_there_is(**given: int) -> None:
    budget = Budget("month", given["amount"] * MICRO)
    one = offer(
        "west", price_milli=given["price"], lifetime_s=given["hours"] * HOUR_S, together=given["together"]
    )
    held = rules(site("west", one), budgets=(budget,))
    seen = snapshot((demand(given["jobs"]),), spent=(month(given["spent"], left_h=given["left_h"]),))
    picture = picture_of(seen, under=held)
    plan = decide(picture, held, Seed())
    assert check(picture, held, plan) == ()
    each_s = min(given["hours"], given["left_h"]) * HOUR_S
    cost = sum(asked(plan).values()) * given["price"] / 1000 * each_s / HOUR_S
    assert cost <= max(0, given["amount"] - given["spent"]) or not cost


def test_a_plan_that_costs_more_is_a_breach_and_so_is_one_of_unknown_cost() -> None:
    held = under(15, "west")
    names = tuple(f"gp-x-{number}" for number in range(2))
    west = held.sites[1].offers[0]
    submit = Submit(
        west.site,
        west.key,
        "pool",
        west.size,
        (),
        west.lifetime_s,
        west.idle_s,
        names,  # type: ignore[arg-type]
    )
    known = ((month(),), "month: exceeded by 5")
    unknown: tuple[tuple[Spent, ...], str] = ((), "month: nobody knows what was spent of it")
    for spent, told in (known, unknown):
        picture = picture_of(wants(4, spent), under=held)
        plan = plan_of(wants(4, spent), under=held)
        whose = Decision("offer:west/a", Reason(plan.decisions[0].reason.because), submit)
        found = check(picture, held, Plan(plan.cycle, plan.at, (whose,), 1))
        assert [each.what for each in found if each.invariant == "budget"] == [told]
