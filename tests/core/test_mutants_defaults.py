"""What holds where nothing is said: the defaults of rules, memory, sights and pilots, all of them."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

from glidepath.core.provision.demand import Demand, DemandSight, JobAd
from glidepath.core.provision.flow import Flow
from glidepath.core.provision.memory import Health, Memory, NodeHealth
from glidepath.core.provision.offer import (
    JobKind,
    Limits,
    Offer,
    OwnerRules,
    PolicyRule,
    PoolRules,
    Rules,
    SiteRules,
)
from glidepath.core.provision.pilot import Ended, SitePilot, Slot, Track
from glidepath.core.provision.policies.glideinwms import GlideinWms
from glidepath.core.provision.policies.one_to_one import OneToOne
from glidepath.core.provision.policies.prp import Prp
from glidepath.core.provision.policies.pyglidein import Pyglidein
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.pressure import Reactive
from glidepath.core.provision.share import Counts, Room
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot

NONE = Limits(live_max=None, pending_max=None, per_cycle_max=None, per_s_max=None)


@pytest.mark.parametrize(
    ("of", "numbers"),
    [
        (
            SiteRules,
            {
                "limits": NONE,
                "stale_s_max": 180,
                "listing_lag_s": 0,
                "appear_s_max": 600,
                "missing_s_max": 300,
                "pending_s_max": 21_600,
                "patience_s": 900,
                "failures_max": 5,
                "backoff_s": 60,
                "backoff_s_max": 3600,
                "refused_s": 600,
                "drain_lead_s": 3600,
                "node_failures_max": 3,
                "quarantine_s": 3600,
                "repeat_s": 120,
            },
        ),
        (
            PoolRules,
            {"limits": NONE, "stale_s_max": 180, "hold_s": 600, "decay_s": 600, "silence_s_max": 900},
        ),
        (OwnerRules, {"limits": NONE}),
        (
            Rules,
            {
                "policy": PolicyRule("steady", ()),
                "cycle_s_min": 10,
                "cycle_s_max": 120,
                "withdraw_after_s": 120,
                "left_s_min": 300,
                "slack_s": 120,
                "useful_s_min": 900,
                "limits": NONE,
            },
        ),
        (
            Offer,
            {
                "lifetime_s": 50_400,
                "idle_s": 600,
                "limits": NONE,
                "weight": 100,
                "price_milli": 0,
                "together": 1,
                "jobs": JobKind.ANY,
            },
        ),
        (JobAd, {"run_s_max": None, "count": 1}),
        (Demand, {"running": 0, "oldest_at": None, "run_s_max": None}),
        (DemandSight, {"complete": True}),
        (SiteListing, {"complete": True, "room": None, "avoids_nodes": True}),
        (PoolSlots, {"complete": True}),
        (Snapshot, {"stopping": False}),
        (Flow, {"risen": 0, "before": 0}),
        (
            Health,
            {
                "failures": 0,
                "opened_at": None,
                "retry_at": None,
                "openings": 0,
                "latency_s": 0,
                "joined": 0,
                "failed": 0,
            },
        ),
        (NodeHealth, {"until": None, "at": 0, "eats": False}),
        (Memory, {"cycle": 0, "at": None, "quiet": 0}),
        (SitePilot, {"ends_at": None}),
        (Slot, {"draining": False, "ends_at": None, "jobs_run": 0, "jobs_failed": 0}),
        (
            Track,
            {
                "started_at": None,
                "joined_at": None,
                "ends_at": None,
                "missing_since": None,
                "silent_since": None,
                "busy_s": 0,
                "idle_s": 0,
                "jobs_run": 0,
            },
        ),
        (Ended, {"cpu_milli": 0}),
        (Counts, {"live": 0, "pending": 0}),
        (Room, {"left": 1 << 40, "live": 0, "pending": 0}),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_each_number_that_is_not_given_has_its_documented_value(of: type, numbers: dict[str, Any]) -> None:
    given = {each.name: each.default for each in fields(of) if each.default is not MISSING}
    left_out = {name: value for name, value in given.items() if name not in numbers}
    assert {name: given[name] for name in numbers} == numbers
    # What is not in the table above is an empty text, an empty tuple, or nothing asked for.
    assert all(not value or value is None for value in left_out.values()), left_out


@pytest.mark.parametrize(
    ("policy", "name", "release_s", "withdraws", "beyond"),
    [
        (GlideinWms(), "glideinwms", None, True, False),
        (OneToOne(), "one-to-one", None, False, False),
        (Prp(), "prp", None, False, False),
        (Pyglidein(), "pyglidein", None, False, True),
        (Seed(), "seed", None, False, False),
        (Steady(), "steady", 300, True, False),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_each_rule_says_how_it_lets_pilots_go_and_whether_it_asks_beyond_what_waits(
    policy: Any, name: str, release_s: int | None, withdraws: bool, beyond: bool
) -> None:
    # Only `steady` looks ahead; the published rules look at what waits.
    assert isinstance(policy, Reactive) is (name != "steady")
    told = (policy.name, policy.release_s, policy.withdraws, policy.beyond)
    assert told == (name, release_s, withdraws, beyond)


@pytest.mark.parametrize(
    ("module", "made", "cycle_s"),
    [
        ("glideinwms", GlideinWms(), 60),
        ("one_to_one", OneToOne(), 10),
        ("prp", Prp(), 120),
        ("pyglidein", Pyglidein(), 300),
        ("seed", Seed(), 120),
        ("steady", Steady(), 10),
    ],
)
def test_a_rule_chosen_by_name_without_numbers_is_the_rule_as_published(
    module: str, made: Any, cycle_s: int
) -> None:
    import importlib

    kind = importlib.import_module(f"glidepath.core.provision.policies.{module}").policy
    assert (kind({}), kind(kind.NUMBERS), kind.CYCLE_S) == (made, made, cycle_s)
