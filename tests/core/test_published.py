"""The rules of other systems as they were published, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.test_policies import a_need
from glidepath.core.provision.policies import glideinwms, one_to_one, prp, pyglidein, seed, steady
from glidepath.core.provision.policies.glideinwms import GlideinWms
from glidepath.core.provision.policies.one_to_one import OneToOne
from glidepath.core.provision.policies.prp import Prp
from glidepath.core.provision.policies.pyglidein import Pyglidein
from glidepath.core.provision.pressure import Arriving, Need, Policy, PolicyKind, Pressure

ALL: dict[str, PolicyKind] = {
    "glideinwms": glideinwms.policy,
    "one-to-one": one_to_one.policy,
    "prp": prp.policy,
    "pyglidein": pyglidein.policy,
}
COUNTS = st.integers(0, 3000)
NEEDS = st.builds(
    lambda **given: a_need(given.pop("idle"), **given),
    idle=COUNTS,
    free=COUNTS,
    coming=COUNTS,
    pending=COUNTS,
    running_jobs=COUNTS,
    oldest_s=COUNTS,
    jobs_each=st.integers(1, 48),
)


@pytest.mark.parametrize(
    ("idle", "before_the_cap", "rule"),
    [
        (0, 0, "idle = 0"),
        (1, 1, "idle = 1, 1 + idle/4 = 1"),
        (3, 1, "idle = 3, 1 + idle/4 = 1"),
        (4, 2, "idle = 4, 1 + idle/4 = 2"),
        (8, 3, "idle = 8, 1 + idle/4 = 3"),
        (40, 11, "idle = 40, 1 + idle/4 = 11"),
        (76, 20, "idle = 76, 1 + idle/4 = 20"),
        (80, 20, "idle = 80, 1 + idle/4 = 21, above 20 one in 4 = 20"),
        (1000, 77, "idle = 1000, 1 + idle/4 = 251, above 20 one in 4 = 77"),
    ],
)
def test_prp_has_the_published_vectors(idle: int, before_the_cap: int, rule: str) -> None:
    uncapped = prp.policy({"max_pods_per_cluster": 10_000})
    assert uncapped.pressure(a_need(idle)) == Pressure(before_the_cap, rule)
    assert prp.policy({}).pressure(a_need(idle)).waiting == min(20, before_the_cap)


@pytest.mark.parametrize(
    ("need", "pressure"),
    [
        (
            a_need(1000),
            Pressure(
                20,
                "idle = 1000, 1 + idle/4 = 251, above 20 one in 4 = 77, capped by max_pods_per_cluster = 20",
            ),
        ),
        (a_need(37, free=3), Pressure(8, "idle = 40, 1 + idle/4 = 11, less 3 unmatched")),
        (a_need(0, free=12), Pressure(0, "idle = 12, 1 + idle/4 = 4, less 12 unmatched")),
        (a_need(40, coming=11), Pressure(11, "idle = 40, 1 + idle/4 = 11")),
        (a_need(40, running_jobs=999), Pressure(11, "idle = 40, 1 + idle/4 = 11")),
        (a_need(40, running_jobs=1000), Pressure(0, "pods = 1000, at max_submit_pods_per_cluster = 1000")),
        (
            a_need(40, running_jobs=980, coming=15, free=6),
            Pressure(0, "pods = 1001, at max_submit_pods_per_cluster = 1000"),
        ),
        (a_need(40, running_jobs=7992, jobs_each=8), Pressure(11, "idle = 40, 1 + idle/4 = 11")),
        (
            a_need(40, running_jobs=7993, jobs_each=8),
            Pressure(0, "pods = 1000, at max_submit_pods_per_cluster = 1000"),
        ),
    ],
)
def test_prp_subtracts_unmatched_pods_and_stops_at_its_caps(need: Need, pressure: Pressure) -> None:
    assert prp.policy({}).pressure(need) == pressure


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_prp_submits_what_its_code_submits(waiting: int, unmatched: int, claimed: int, more: int) -> None:
    """The published form, counted from scratch: what it submits, not what should be waiting."""
    idle = unmatched + more
    need = a_need(more, free=unmatched, coming=waiting, running_jobs=claimed)
    m = 1 + idle // 4 if idle else 0
    m = 20 + (m - 20) // 4 if m > 20 else m
    m = 0 if waiting + unmatched + claimed >= 1000 else min(m, 20)
    assert max(0, Prp().pressure(need).waiting - waiting) == max(0, m - (waiting + unmatched))


@pytest.mark.parametrize(
    ("need", "pressure"),
    [
        (a_need(0, free=9), Pressure(0, "idle = 0")),
        (a_need(1), Pressure(1, "idle = 1, room = 1000, the lesser/3 = 0, raised to 1")),
        (a_need(90), Pressure(30, "idle = 90, room = 1000, the lesser/3 = 30")),
        (a_need(90, oldest_s=599), Pressure(30, "idle = 90, room = 1000, the lesser/3 = 30")),
        (
            a_need(90, oldest_s=600),
            Pressure(35, "idle = 90, room = 1000, the lesser/3 = 30, 5 in reserve as the oldest waits 600 s"),
        ),
        (
            a_need(6, oldest_s=700),
            Pressure(4, "idle = 6, room = 1000, the lesser/3 = 2, 2 in reserve as the oldest waits 700 s"),
        ),
        (
            a_need(900),
            Pressure(
                100,
                "idle = 900, room = 1000, the lesser/3 = 300, capped by idle_glideins_per_entry_max = 100",
            ),
        ),
        (a_need(90, free=4), Pressure(30, "idle = 90, room = 996, the lesser/3 = 30")),
        (
            a_need(90, free=5),
            Pressure(
                15,
                "idle = 90, room = 995, the lesser/3 = 30, halved by 1 curbs with 5 glideins, "
                "5 of them idle = 15",
            ),
        ),
        (a_need(900, free=100), Pressure(0, "at a limit with 100 glideins, 100 of them idle")),
        (a_need(90, running_jobs=9970), Pressure(10, "idle = 90, room = 30, the lesser/3 = 10")),
        (a_need(90, running_jobs=10_000), Pressure(0, "at a limit with 10000 glideins, 0 of them idle")),
        (
            a_need(1, free=50, running_jobs=10),
            Pressure(
                0,
                "idle = 1, room = 950, the lesser/3 = 0, halved by 1 curbs with 60 glideins, "
                "50 of them idle = 0, raised to 1, 60 of at most 13 glideins are there",
            ),
        ),
    ],
)
def test_glideinwms_is_the_frontends_count_of_idle_glideins(need: Need, pressure: Pressure) -> None:
    assert glideinwms.policy({}).pressure(need) == pressure


@pytest.mark.parametrize(
    ("free", "running_jobs", "waiting"),
    [
        (0, 0, 100),
        (5, 0, 50),
        (199, 0, 50),
        (200, 0, 6),  # The entry's curb and those of group, frontend and pool: four halvings.
        (0, 90_000, 12),  # Three.
        (200, 90_000, 1),  # Seven: 100 becomes 0, and at least 1 is requested.
    ],
)
def test_each_curb_of_glideinwms_halves_the_request(free: int, running_jobs: int, waiting: int) -> None:
    wide = {"idle_vms_per_entry_max": 10**6, "running_glideins_per_entry_max": 10**6}
    need = a_need(900, free=free, running_jobs=running_jobs)
    assert glideinwms.policy(wide).pressure(need).waiting == waiting


@pytest.mark.parametrize(
    ("key", "need", "waiting"),
    [
        ("running_glideins_per_entry_max", a_need(90, running_jobs=41), 3),
        ("running_glideins_total_max", a_need(90, running_jobs=41), 3),
        ("running_glideins_total_max", a_need(90, running_jobs=38, free=3), 3),
        ("running_glideins_total_max", a_need(90, running_jobs=50), 0),
        ("running_glideins_total_max", a_need(90, running_jobs=60), 0),
        ("idle_vms_total_max", a_need(90, free=4, running_jobs=60), 15),
        ("idle_vms_total_max", a_need(90, free=50), 0),
        ("idle_vms_per_entry_max", a_need(90, free=49), 15),
        ("idle_vms_per_entry_max", a_need(90, free=50), 0),
    ],
)
def test_every_limit_of_glideinwms_leaves_a_third_of_its_room(key: str, need: Need, waiting: int) -> None:
    assert glideinwms.policy({key: 50}).pressure(need).waiting == waiting


@given(NEEDS)
def test_glideinwms_asks_for_at_least_one_wherever_neither_a_limit_nor_the_ceiling_is_reached(
    need: Need,
) -> None:
    claimed = -(-need.running_jobs // need.jobs_each)
    joined = claimed + need.free
    below = need.free < 100 and joined < 10_000 and joined < (need.idle + claimed) * 115 // 100 + 1
    assert (GlideinWms().pressure(need).waiting >= 1) is bool(need.idle and below)


@pytest.mark.parametrize(
    ("need", "pressure"),
    [
        (a_need(0), Pressure(0, "count = 0, beside 0 queued")),
        (a_need(20), Pressure(20, "count = 20, beside 0 queued")),
        (a_need(20, coming=20), Pressure(40, "count = 20, beside 20 queued")),  # Once more for the same jobs.
        (a_need(15, free=5), Pressure(20, "count = 20, beside 0 queued")),  # Free glideins are not seen.
        (a_need(80), Pressure(50, "count = 80, capped by limit_per_submit = 50, beside 0 queued")),
        (
            a_need(80, running_jobs=970),
            Pressure(30, "count = 80, capped by max_total_jobs - running = 1000 - 970, beside 0 queued"),
        ),
        (
            a_need(80, running_jobs=970, free=10),
            Pressure(20, "count = 90, capped by max_total_jobs - running = 1000 - 980, beside 0 queued"),
        ),
        (
            a_need(80, running_jobs=1010),
            Pressure(0, "count = 80, capped by max_total_jobs - running = 1000 - 1010, beside 0 queued"),
        ),
        (
            a_need(80, coming=990),
            Pressure(1000, "count = 80, capped by max_idle_jobs - queued = 1000 - 990, beside 990 queued"),
        ),
        (
            a_need(80, coming=1010),
            Pressure(1010, "count = 80, capped by max_idle_jobs - queued = 1000 - 1010, beside 1010 queued"),
        ),
        # What counts as queued is every pilot on its way, also one that is late or for other jobs.
        (a_need(20, pending=300), Pressure(20, "count = 20, beside 300 queued")),
        (
            a_need(80, coming=7, pending=995),
            Pressure(12, "count = 80, capped by max_idle_jobs - queued = 1000 - 995, beside 995 queued"),
        ),
        (
            a_need(80, coming=7, pending=1000),
            Pressure(7, "count = 80, capped by max_idle_jobs - queued = 1000 - 1000, beside 1000 queued"),
        ),
    ],
)
def test_pyglidein_asks_for_every_waiting_job_in_every_round(need: Need, pressure: Pressure) -> None:
    assert pyglidein.policy({}).pressure(need) == pressure


@given(NEEDS)
def test_pyglidein_submits_what_its_client_submits(need: Need) -> None:
    claimed = -(-need.running_jobs // need.jobs_each)
    limit = min(50, 1000 - (claimed + need.free), max(1000 - need.pending, 0))
    submitted = Pyglidein().pressure(need).waiting - need.coming
    assert submitted == max(0, min(need.idle + need.free, limit))


@pytest.mark.parametrize(
    ("need", "pressure"),
    [
        (a_need(0), Pressure(0, "idle - unclaimed = 0 - 0 = 0")),
        (a_need(7, coming=5), Pressure(7, "idle - unclaimed = 7 - 0 = 7")),
        (a_need(7, free=3), Pressure(7, "idle - unclaimed = 10 - 3 = 7")),
    ],
)
def test_one_to_one_wants_a_pilot_for_every_job_without_one(need: Need, pressure: Pressure) -> None:
    assert one_to_one.policy({}).pressure(need) == pressure


@pytest.mark.parametrize(
    ("policy", "name", "withdraws", "beyond"),
    [
        (prp.policy({}), "prp", False, False),
        (glideinwms.policy({}), "glideinwms", True, False),
        (pyglidein.policy({}), "pyglidein", False, True),
        (one_to_one.policy({}), "one-to-one", False, False),
    ],
)
def test_each_says_its_name_and_what_it_does_besides(
    policy: Policy, name: str, withdraws: bool, beyond: bool
) -> None:
    assert (policy.name, policy.withdraws, policy.beyond) == (name, withdraws, beyond)
    assert (policy.release_s, policy.expected(Arriving(1000, 1000))) == (None, 0)


@pytest.mark.parametrize(
    ("kind", "made", "cycle_s"),
    [
        (prp.policy, Prp(), 120),
        (glideinwms.policy, GlideinWms(), 60),
        (pyglidein.policy, Pyglidein(), 300),
        (one_to_one.policy, OneToOne(), 10),
    ],
)
def test_defaults_and_cadence_are_the_published_ones(kind: PolicyKind, made: Policy, cycle_s: int) -> None:
    assert (kind({}), kind(dict(kind.NUMBERS)), kind.CYCLE_S) == (made, made, cycle_s)


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_number_is_a_setting_that_reaches_the_rule(name: str) -> None:
    kind = ALL[name]
    for key in kind.NUMBERS:
        assert getattr(kind({key: 77}), key) == 77


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        *(
            (
                prp.policy,
                {key: 0},
                "policy `prp`: `divisor`, `knee`, `max_pods_per_cluster` and "
                "`max_submit_pods_per_cluster` must be 1 or more",
            )
            for key in prp.policy.NUMBERS
        ),
        *(
            (
                pyglidein.policy,
                {key: -1},
                "policy `pyglidein`: `limit_per_submit`, `max_total_jobs` and `max_idle_jobs` "
                "must be 1 or more",
            )
            for key in pyglidein.policy.NUMBERS
        ),
        (
            glideinwms.policy,
            {"ramp_up_attenuation": 0},
            "policy `glideinwms`: `ramp_up_attenuation` must be 1 or more",
        ),
        (glideinwms.policy, {"old_after_s": -1}, "policy `glideinwms`: `old_after` must be 0 or more"),
        (
            glideinwms.policy,
            {"idle_glideins_per_entry_reserve": -1},
            "policy `glideinwms`: `idle_glideins_per_entry_reserve` must be 0 or more",
        ),
        (one_to_one.policy, {"nmin": 5}, "policy `one-to-one`: it takes no numbers"),
    ],
)
def test_numbers_that_make_no_rule_are_refused(
    kind: PolicyKind, numbers: Mapping[str, int], message: str
) -> None:
    with pytest.raises(ValueError) as refused:
        kind(numbers)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", sorted(ALL))
@given(need=NEEDS, more=COUNTS)
def test_none_is_ever_negative_and_more_waiting_jobs_never_make_less(
    name: str, need: Need, more: int
) -> None:
    rule = ALL[name]({})
    fewer = rule.pressure(need)
    richer = replace(need, idle=need.idle + more, idle_jobs=need.idle_jobs + more)
    assert 0 <= fewer.waiting <= rule.pressure(richer).waiting


@pytest.mark.parametrize("name", sorted(ALL))
@given(need=NEEDS)
def test_every_sentence_has_numbers_and_is_one_line(name: str, need: Need) -> None:
    rule = ALL[name]({}).pressure(need).rule
    assert any(letter.isdigit() for letter in rule)
    assert "\n" not in rule
    assert len(rule) < 250


@given(NEEDS)
def test_only_pyglidein_ever_wants_more_than_waits(need: Need) -> None:
    for name, kind in ALL.items():
        waiting = kind({}).pressure(need).waiting
        assert name == "pyglidein" or waiting <= max(need.idle, 0)


def test_all_are_installed_under_their_names() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="glidepath.policies")}
    assert {**ALL, "seed": seed.policy, "steady": steady.policy}.items() <= found.items()
