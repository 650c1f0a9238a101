"""The published rules at their edges: the last value that is not yet capped, raised or refused."""

from __future__ import annotations

from typing import Any

import pytest

from glidepath.core.provision.policies import glideinwms, prp, pyglidein, seed, steady
from glidepath.core.provision.pressure import Arriving, Need, Pressure


def a_need(**more: int) -> Need:
    names = ("idle", "coming", "free", "pending", "idle_jobs", "running_jobs", "expected_jobs")
    row: dict[str, Any] = dict.fromkeys((*names, "oldest_s", "latency_s"), 0)
    return Need(**{**row, "jobs_each": 1, **more})


@pytest.mark.parametrize(
    ("numbers", "need", "expected"),
    [
        (
            {"running_glideins_per_entry_max": 1},
            {"idle": 9},
            Pressure(1, "idle = 9, room = 1, the lesser/3 = 0, raised to 1"),
        ),
        ({}, {"idle": 3}, Pressure(1, "idle = 3, room = 1000, the lesser/3 = 1")),
        (
            {"ramp_up_attenuation": 1, "relative_to_queue_percent": 100},
            {"idle": 30, "running_jobs": 200, "free": 4},
            Pressure(27, "idle = 30, room = 996, the lesser/1 = 30, 204 of at most 231 glideins are there"),
        ),
        (
            {"ramp_up_attenuation": 1, "relative_to_queue_percent": 100},
            {"idle": 27, "running_jobs": 200, "free": 1},
            Pressure(27, "idle = 27, room = 999, the lesser/1 = 27"),
        ),
        (
            {"idle_glideins_per_entry_max": 10},
            {"idle": 30},
            Pressure(10, "idle = 30, room = 1000, the lesser/3 = 10"),
        ),
        (
            {"idle_glideins_per_entry_max": 10},
            {"idle": 33},
            Pressure(
                10, "idle = 33, room = 1000, the lesser/3 = 11, capped by idle_glideins_per_entry_max = 10"
            ),
        ),
    ],
)
def test_glideinwms_caps_and_raises_only_past_its_edges(
    numbers: dict[str, int], need: dict[str, int], expected: Pressure
) -> None:
    assert glideinwms.policy(numbers).pressure(a_need(**need)) == expected


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (76, Pressure(20, "idle = 76, 1 + idle/4 = 20")),
        (
            100,
            Pressure(
                20, "idle = 100, 1 + idle/4 = 26, above 20 one in 4 = 21, capped by max_pods_per_cluster = 20"
            ),
        ),
    ],
)
def test_prp_caps_only_past_its_edge(idle: int, expected: Pressure) -> None:
    assert prp.policy({}).pressure(a_need(idle=idle)) == expected


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (50, Pressure(50, "count = 50, beside 0 queued")),
        (51, Pressure(50, "count = 51, capped by limit_per_submit = 50, beside 0 queued")),
    ],
)
def test_pyglidein_caps_only_past_its_edge(idle: int, expected: Pressure) -> None:
    assert pyglidein.policy({}).pressure(a_need(idle=idle)) == expected


LEAST = {"idle_glideins_per_entry_reserve": 0, "old_after_s": 0}


@pytest.mark.parametrize(
    ("kind", "key", "least"),
    [
        *((glideinwms.policy, key, LEAST.get(key, 1)) for key in glideinwms.policy.NUMBERS),
        *((prp.policy, key, 1) for key in prp.policy.NUMBERS),
        *((pyglidein.policy, key, 1) for key in pyglidein.policy.NUMBERS),
        *((seed.policy, key, 1) for key in seed.policy.NUMBERS),
        *((steady.policy, key, 0) for key in steady.policy.NUMBERS),
    ],
)
def test_each_number_of_a_rule_may_be_as_low_as_it_makes_sense_and_no_lower(
    kind: Any, key: str, least: int
) -> None:
    named = "release_s" if key == "release_after_s" else key
    assert getattr(kind({key: least}), named) == least
    with pytest.raises(ValueError, match=f"`{key.removesuffix('_s')}`"):
        kind({key: least - 1})


@pytest.mark.parametrize(
    ("percent", "jobs", "in_pool", "expected"),
    [
        (100, 9, 9, 3),
        (200, 9, 9, 6),
        (200, 3, 9, 2),
        (100_000, 90_000, 90_000, 300_000),
        (0, 9, 9, 0),
        (200, 0, 0, 0),
    ],
)
def test_the_reserve_of_steady_is_so_many_percent_of_the_root_of_what_arrives(
    percent: int, jobs: int, in_pool: int, expected: int
) -> None:
    assert steady.policy({"reserve_percent": percent}).expected(Arriving(jobs, in_pool)) == expected
