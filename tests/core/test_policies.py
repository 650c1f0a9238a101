"""Policies: the published rules, number by number, with the rule in words beside each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.provision.policies import seed, steady
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Need, Policy, PolicyKind, Pressure


def a_need(idle: int, **more: int) -> Need:
    rest = dict.fromkeys(("coming", "idle_jobs", "running_jobs", "oldest_s", "latency_s"), 0)
    return Need(idle, **{**rest, **more})


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


@pytest.mark.parametrize("numbers", [{"release_after_s": -1}, {"waiting_max": -1}])
def test_steady_refuses_negative_numbers(numbers: Mapping[str, int]) -> None:
    with pytest.raises(
        ValueError, match="policy `steady`: `release_after` and `waiting_max` must be 0 or more"
    ):
        steady.policy(numbers)


@pytest.mark.parametrize(
    ("policy", "name", "release_s"),
    [
        (seed.policy({}), "seed", None),  # Pilots leave by their own idle limit.
        (steady.policy({}), "steady", 300),
        (steady.policy({"release_after_s": 0}), "steady", 0),
    ],
)
def test_a_policy_says_its_name_and_when_surplus_is_released(
    policy: Policy, name: str, release_s: int | None
) -> None:
    assert (policy.name, policy.release_s) == (name, release_s)


@pytest.mark.parametrize(("kind", "made"), [(seed.policy, Seed()), (steady.policy, Steady())])
def test_the_stated_defaults_are_the_defaults(kind: PolicyKind, made: Policy) -> None:
    assert kind({}) == made
    assert kind(dict(kind.NUMBERS)) == made


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 10**6))
def test_only_what_waits_counts(idle: int, coming: int, running: int, oldest_s: int) -> None:
    """Neither rule uses more of the need: what is on its way is taken off by the caller, once."""
    bare, rich = a_need(idle), a_need(idle, coming=coming, running_jobs=running, oldest_s=oldest_s)
    for kind in (seed.policy, steady.policy):
        assert kind({}).pressure(bare) == kind({}).pressure(rich)


def test_both_are_installed_under_their_names() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="glidepath.policies")}
    assert {"seed": seed.policy, "steady": steady.policy}.items() <= found.items()
