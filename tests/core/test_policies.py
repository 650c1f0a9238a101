"""Policies: `seed` and `steady`, number by number, with the rule in words beside each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.provision.policies import seed, steady
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Arriving, Need, Policy, PolicyKind, Pressure


def a_need(idle: int, **more: int) -> Need:
    """One job to a pilot, and as many pilots on their way as are coming for it, unless said otherwise."""
    zeros = dict.fromkeys(("coming", "free", "running_jobs", "expected_jobs", "oldest_s", "latency_s"), 0)
    counts = {"pending": more.get("coming", 0), "idle_jobs": idle + more.get("free", 0), "jobs_each": 1}
    return Need(idle, **{**zeros, **counts, **more})


@pytest.mark.parametrize(
    ("idle", "waiting", "rule"),
    [
        (0, 0, "idle = 0, below nmin = 5"),
        (1, 1, "idle = 1, below nmin = 5"),
        (4, 4, "idle = 4, below nmin = 5"),
        (5, 5, "idle/4 = 1, raised to nmin = 5"),
        (8, 5, "idle/4 = 2, raised to nmin = 5"),
        (19, 5, "idle/4 = 4, raised to nmin = 5"),
        (20, 5, "idle/4 = 5, raised to nmin = 5"),
        (21, 5, "idle/4 = 5, raised to nmin = 5"),
        (24, 6, "idle/4 = 6"),
        (40, 10, "idle/4 = 10"),
        (100, 25, "idle/4 = 25"),
        (1000, 250, "idle/4 = 250"),
    ],
)
def test_seed_is_the_published_rule(idle: int, waiting: int, rule: str) -> None:
    assert seed.policy({}).pressure(a_need(idle)) == Pressure(waiting, rule)


@pytest.mark.parametrize(
    ("numbers", "idle", "waiting"),
    [
        ({"nmin": 1}, 1, 1),
        ({"nmin": 1}, 3, 1),
        ({"nmin": 2}, 1, 1),
        ({"nmin": 2}, 7, 2),
        ({"nmin": 2}, 12, 3),
        ({"divisor": 1}, 100, 100),
        ({"divisor": 10}, 100, 10),
        ({"nmin": 50, "divisor": 10}, 100, 50),
        ({"nmin": 50, "divisor": 10}, 49, 49),
    ],
)
def test_the_constants_of_seed_are_settings(numbers: Mapping[str, int], idle: int, waiting: int) -> None:
    assert seed.policy(numbers).pressure(a_need(idle)).waiting == waiting


@pytest.mark.parametrize(
    "numbers", [{"nmin": 0}, {"nmin": -1}, {"divisor": 0}, {"divisor": -4}, {"nmin": 0, "divisor": 0}]
)
def test_seed_refuses_numbers_that_make_no_rule(numbers: Mapping[str, int]) -> None:
    with pytest.raises(ValueError, match="policy `seed`: `nmin` and `divisor` must be 1 or more"):
        seed.policy(numbers)


@given(st.integers(0, 10**6), st.integers(1, 100), st.integers(1, 100))
def test_seed_never_wants_more_than_waits_and_something_while_anything_waits(
    idle: int, nmin: int, divisor: int
) -> None:
    waiting = Seed(nmin, divisor).pressure(a_need(idle)).waiting
    assert waiting <= idle
    assert (waiting > 0) is (idle > 0)
    assert waiting == (idle if idle < nmin else max(nmin, idle // divisor))


@given(st.integers(0, 10**4), st.integers(1, 50), st.integers(1, 50))
def test_seed_wants_no_less_when_more_waits(idle: int, nmin: int, divisor: int) -> None:
    rule = Seed(nmin, divisor)
    assert rule.pressure(a_need(idle)).waiting <= rule.pressure(a_need(idle + 1)).waiting


@pytest.mark.parametrize(
    ("numbers", "idle", "pressure"),
    [
        ({}, 0, Pressure(0, "idle = 0")),
        ({}, 1000, Pressure(1000, "idle = 1000")),
        ({"waiting_max": 20}, 20, Pressure(20, "idle = 20")),
        ({"waiting_max": 20}, 21, Pressure(20, "idle = 21, capped by waiting_max = 20")),
        ({"waiting_max": 0}, 21, Pressure(21, "idle = 21")),
    ],
)
def test_steady_wants_all_that_waits_up_to_its_cap(
    numbers: Mapping[str, int], idle: int, pressure: Pressure
) -> None:
    assert steady.policy(numbers).pressure(a_need(idle)) == pressure


@pytest.mark.parametrize(
    ("numbers", "need", "pressure"),
    [
        (
            {},
            a_need(10, expected_jobs=6),
            Pressure(10, "idle = 10, of it 6 jobs in reserve for those that come while a pilot starts"),
        ),
        (
            {"waiting_max": 8},
            a_need(10, expected_jobs=6),
            Pressure(
                8,
                "idle = 10, of it 6 jobs in reserve for those that come while a pilot starts, "
                "capped by waiting_max = 8",
            ),
        ),
        ({}, a_need(10, expected_jobs=0), Pressure(10, "idle = 10")),
    ],
)
def test_steady_says_how_much_of_it_is_reserve(
    numbers: Mapping[str, int], need: Need, pressure: Pressure
) -> None:
    assert steady.policy(numbers).pressure(need) == pressure


@pytest.mark.parametrize(
    ("reserve_percent", "jobs", "in_pool", "expected"),
    [
        (200, 0, 0, 0),
        (200, 0, 100, 0),  # Less than one job of this shape while a pilot starts.
        (200, 1, 1, 2),
        (200, 2, 2, 2),  # 2.83
        (200, 4, 4, 4),
        (200, 100, 100, 20),
        (200, 10_000, 10_000, 200),
        (100, 100, 100, 10),
        (50, 100, 100, 5),
        (50, 1, 1, 0),
        (0, 100, 100, 0),
        (200, 25, 100, 5),  # A quarter of the pool's flow has a quarter of its reserve.
        (200, 75, 100, 15),
        (200, 1, 100, 0),
    ],
)
def test_the_reserve_of_steady_is_a_multiple_of_the_root_of_what_comes_while_a_pilot_starts(
    reserve_percent: int, jobs: int, in_pool: int, expected: int
) -> None:
    assert Steady(reserve_percent=reserve_percent).expected(Arriving(jobs, in_pool)) == expected


@given(st.integers(0, 1000), st.lists(st.integers(0, 10**5), min_size=1, max_size=8))
def test_all_shapes_of_a_pool_together_have_the_reserve_of_one(percent: int, parts: list[int]) -> None:
    """In whole numbers: rounding takes less than one job of each shape, and adds at most one in a hundred."""
    rule, total = Steady(reserve_percent=percent), sum(parts)
    together = sum(rule.expected(Arriving(part, total)) for part in parts)
    whole = rule.expected(Arriving(total, total))
    assert whole - len(parts) < together <= whole
    assert whole * 100 <= (percent * (isqrt(total) + 1)) * 101 // 100


@given(st.integers(0, 1000), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_reserve_grows_with_the_flow_and_slower_than_it(percent: int, jobs: int, more: int) -> None:
    rule = Steady(reserve_percent=percent)
    small, large = rule.expected(Arriving(jobs, jobs)), rule.expected(Arriving(jobs + more, jobs + more))
    assert 0 <= small <= large + 1  # The root of whole numbers is whole: one less is rounding.
    assert rule.expected(Arriving(4 * jobs, 4 * jobs)) <= 2 * small + 2


@pytest.mark.parametrize("numbers", [{"release_after_s": -1}, {"waiting_max": -1}, {"reserve_percent": -1}])
def test_steady_refuses_negative_numbers(numbers: Mapping[str, int]) -> None:
    with pytest.raises(
        ValueError,
        match="policy `steady`: `release_after`, `waiting_max` and `reserve_percent` must be 0 or more",
    ):
        steady.policy(numbers)


@pytest.mark.parametrize(
    ("policy", "name", "release_s", "withdraws"),
    [
        (seed.policy({}), "seed", None, False),  # Pilots leave by their own idle limit.
        (steady.policy({}), "steady", 300, True),
        (steady.policy({"release_after_s": 0}), "steady", 0, True),
    ],
)
def test_a_policy_says_its_name_and_when_surplus_is_released(
    policy: Policy, name: str, release_s: int | None, withdraws: bool
) -> None:
    assert (policy.name, policy.release_s, policy.withdraws) == (name, release_s, withdraws)
    assert not policy.beyond


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_seed_looks_only_at_what_waits(jobs: int, in_pool: int) -> None:
    assert Seed().expected(Arriving(jobs, in_pool)) == 0


@pytest.mark.parametrize(
    ("kind", "made", "cycle_s"), [(seed.policy, Seed(), 120), (steady.policy, Steady(), 10)]
)
def test_the_stated_defaults_are_the_defaults(kind: PolicyKind, made: Policy, cycle_s: int) -> None:
    assert kind({}) == made
    assert kind(dict(kind.NUMBERS)) == made
    assert cycle_s == kind.CYCLE_S


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 10**6))
def test_only_what_waits_counts(idle: int, coming: int, running: int, oldest_s: int) -> None:
    """Neither rule uses more of the need: what is on its way is taken off by the caller, once."""
    bare = a_need(idle)
    rich = a_need(idle, coming=coming, free=7, running_jobs=running, oldest_s=oldest_s, latency_s=90)
    for kind in (seed.policy, steady.policy):
        assert kind({}).pressure(bare) == kind({}).pressure(rich)


def test_both_are_installed_under_their_names() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="glidepath.policies")}
    assert {"seed": seed.policy, "steady": steady.policy}.items() <= found.items()
