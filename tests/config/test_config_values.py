"""Every value of the core can be configured, in a fixed order, and the default suits a laptop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from config_builders import CATALOG, GOOD, FakeCatalog, loaded, written
from pydantic import ValidationError

from glidepath.config import default_settings, kind_settings, load, partitions_of, rules_of, show, windows_of
from glidepath.core.provision.offer import (
    Budget,
    First,
    JobKind,
    Limits,
    Offer,
    OwnerRules,
    PolicyRule,
    PoolRules,
    Rules,
    SiteRules,
)
from glidepath.core.quantity import Owner, PoolName, Resources, SiteName
from glidepath.plugins import BACKENDS

EVERYTHING = """\
first = ["-memory", "oldest"]

[store]
url = "sqlite:///journal.db"
retention = "1d"
cycles_max = 9

[cycle]
min = "1s"
max = "2s"
deadline = "3s"

[pilots]
withdraw_after = "4s"
left_min = "5s"
join_slack = "7s"
useful_min = "6s"

[policy]
name = "seed"
nmin = 7
divisor = 8

[limits]
live_max = 1
pending_max = 2
per_cycle_max = 3
per_second_max = 4

[budgets.cloud]
amount = 12.5
per = "week"
sites = ["s"]

[owners."bob"]
[owners."alice"]
limits = { live_max = 5 }

[pools.b]
kind = "embedded"

[pools.a]
kind = "embedded"
limits = { pending_max = 6 }
stale_after = "11s"
hold = "12s"
decay = "13s"
silent_after = "14s"
embedded = { any = [1, 2.5, "\\u202e"], when = 2030-01-01, deep = { x = true } }

[sites.s]
kind = "local"
pools = ["b", "a", "b"]
limits = { per_cycle_max = 7 }
pool_limits = { b = { live_max = 9 } }
on_exit = "leave"
stale_after = "21s"
listing_lag = "22s"
appear_within = "23s"
missing_after = "24s"
pending_max_age = "25s"
patience = "26s"
failures_max = 27
backoff = "28s"
backoff_max = "29s"
refused_wait = "30s"
drain_lead = "31s"
node_failures_max = 32
quarantine = "33s"
repeat_within = "34s"
share_lost_after = "35s"

[sites.s.offers.fixed]
cpus = 1.5
memory = "1GiB"

[sites.s.offers.any]
cpus = 8
memory = "16GiB"
disk = "1TiB"
gpus = 2
jobs = "gpu"
traits = { os = "el9", arch = "x86_64" }
lifetime = "1h"
idle = "41s"
price = 0.125
weight = 42
limits = { per_second_max = 8 }
fitted = true
min = { cpus = "500m", memory = "1GiB", disk = "2GiB", gpus = 1 }
step = { cpus = 1, memory = "512MiB", disk = "1GiB", gpus = 1 }
choices = { gpu_type = ["b", "a"] }

[[sites.s.windows]]
start = 2030-01-02T01:00:00+01:00
end = 2030-01-02T02:00:00.5+01:00
[[sites.s.windows]]
start = 1970-01-01T00:00:00Z
end = 1970-01-01T00:00:09Z
why = "early"

[sites.s.local]
folder = "x"
"""

ANY = Offer(
    site=SiteName("s"),
    name="any",
    size=Resources(8000, 16384, 1024**2, 2),
    size_min=Resources(500, 1024, 2048, 1),
    step=Resources(1000, 512, 1024, 1),
    traits=(("arch", "x86_64"), ("os", "el9")),
    choices=(("gpu_type", ("a", "b")),),
    lifetime_s=3600,
    idle_s=41,
    limits=Limits(per_s_max=8),
    weight=42,
    price_milli=125,
    together=3,
    jobs=JobKind.GPU,
)
SITE = SiteRules(
    name=SiteName("s"),
    offers=(ANY, Offer(SiteName("s"), "fixed", Resources(1500, 1024))),
    pools=(PoolName("a"), PoolName("b")),
    limits=Limits(per_cycle_max=7),
    stale_s_max=21,
    listing_lag_s=22,
    appear_s_max=23,
    missing_s_max=24,
    pending_s_max=25,
    patience_s=26,
    failures_max=27,
    backoff_s=28,
    backoff_s_max=29,
    refused_s=30,
    drain_lead_s=31,
    node_failures_max=32,
    quarantine_s=33,
    repeat_s=34,
    share_lost_s=35,
    pool_limits=((PoolName("b"), Limits(live_max=9)),),
)
POOL = PoolRules(PoolName("a"), Limits(pending_max=6), 11, 12, 13, 14)
RULES = Rules(
    pools=(POOL, PoolRules(PoolName("b"))),
    sites=(SITE,),
    owners=(OwnerRules(Owner("alice"), Limits(live_max=5)), OwnerRules(Owner("bob"))),
    budgets=(Budget("cloud", 12_500_000, (SiteName("s"),)),),
    policy=PolicyRule("seed", (("divisor", 8), ("nmin", 7))),
    cycle_s_min=1,
    cycle_s_max=2,
    withdraw_after_s=4,
    left_s_min=5,
    slack_s=7,
    useful_s_min=6,
    limits=Limits(1, 2, 3, 4),
    first=((First.MEMORY, True), (First.OLDEST, False)),
)


class Threes:
    """A kind that starts three pilots of one offer with each request."""

    def together(self, settings: Mapping[str, object], offers: tuple[str, ...]) -> dict[str, int]:
        assert (dict(settings), set(offers)) == ({"folder": "x"}, {"any", "fixed"})
        return {"any": 3}


def test_every_key_reaches_its_rule(tmp_path: Path) -> None:
    threes = FakeCatalog({(BACKENDS, "local"): Threes()})
    assert rules_of(loaded(tmp_path, EVERYTHING).settings, catalog=threes) == RULES


def test_a_kind_that_cannot_be_loaded_leaves_the_rules_as_they_are(tmp_path: Path) -> None:
    gone = FakeCatalog({(BACKENDS, "local"): None})
    (site,) = rules_of(loaded(tmp_path).settings, catalog=gone).sites
    assert [offer.together for offer in site.offers] == [1]


def unset(value: object) -> list[str]:
    """Fields that have their default, so that a forgotten mapping could hide behind them."""
    return [
        f"{type(value).__name__}.{field.name}"
        for field in dataclasses.fields(value)  # type: ignore[arg-type]
        if getattr(value, field.name) == field.default
    ]


def test_the_example_above_leaves_no_field_of_the_rules_at_its_default() -> None:
    found = [name for value in (RULES, SITE, POOL, ANY, RULES.limits, RULES.policy) for name in unset(value)]
    assert found == []


def test_what_is_not_configured_has_the_defaults_of_the_core(tmp_path: Path) -> None:
    offer = Offer(SiteName("west"), "small", Resources(4000, 8192))
    # Of kind `local`, where nothing is between that could repeat a request.
    site = SiteRules(SiteName("west"), (offer,), (PoolName("campus"),), repeat_s=0)
    assert rules_of(loaded(tmp_path).settings) == Rules((PoolRules(PoolName("campus")),), (site,))


def test_windows_are_wall_seconds_in_order_and_never_shorter_than_written(tmp_path: Path) -> None:
    assert windows_of(loaded(tmp_path, EVERYTHING).settings) == (
        ("s", 0, 9, "early"),
        ("s", 1893542400, 1893546001, ""),
    )


def test_windows_at_the_ends_of_time_do_not_overflow(tmp_path: Path) -> None:
    text = (
        GOOD + "[[sites.west.windows]]\nstart = 0001-01-01T00:00:00+14:00\nend = 9999-12-31T23:59:59-12:00\n"
    )
    ((_, start, end, _),) = windows_of(loaded(tmp_path, text).settings)
    assert start < 0 < end


def test_a_pool_without_a_partition_has_one_of_its_name(tmp_path: Path) -> None:
    assert partitions_of(loaded(tmp_path).settings) == (("campus", "campus"),)
    named = (
        GOOD
        + '[pools.b]\nkind = "embedded"\n[partitions.x]\npool = "campus"\n[partitions.y]\npool = "campus"\n'
    )
    found = loaded(tmp_path, named).settings
    assert partitions_of(found) == (("b", "b"), ("x", "campus"), ("y", "campus"))


def test_local_pilots_are_stopped_on_exit_and_others_left(tmp_path: Path) -> None:
    more = FakeCatalog({(BACKENDS, "far"): object()})
    text = GOOD + GOOD.split("\n\n", 1)[1].replace("west", "east").replace("local", "far")
    sites = load(written(tmp_path, text), catalog=more).settings.sites
    assert (sites["west"].on_exit, sites["east"].on_exit) == ("stop", "leave")


@pytest.mark.parametrize(
    ("kind", "said", "repeat_s"),
    [
        ("local", "", 0),
        ("far", "", 120),
        ("local", 'repeat_within = "90s"', 90),
        ("far", 'repeat_within = "0s"', 0),
        ("far", 'repeat_within = "5m"', 300),
    ],
)
def test_names_are_kept_while_a_request_may_be_repeated_and_on_this_machine_none_is(
    tmp_path: Path, kind: str, said: str, repeat_s: int
) -> None:
    more = FakeCatalog({(BACKENDS, "far"): object()})
    text = GOOD.replace('kind = "local"', f'kind = "{kind}"\n{said}')
    (site,) = rules_of(load(written(tmp_path, text), catalog=more).settings).sites
    assert site.repeat_s == repeat_s


@dataclasses.dataclass(frozen=True)
class Keys:
    folder: str
    depth: int = 3


class Folders:
    Settings = Keys


def test_a_kind_gets_its_own_keys_validated_with_defaults_or_as_written(tmp_path: Path) -> None:
    found = loaded(tmp_path, EVERYTHING).settings
    assert kind_settings(found.sites["s"], catalog=CATALOG) == {"folder": "x"}
    folders = FakeCatalog({(BACKENDS, "local"): Folders()})
    assert kind_settings(found.sites["s"], catalog=folders) == {"folder": "x", "depth": 3}
    assert sorted(kind_settings(found.pools["a"], catalog=CATALOG)) == ["any", "deep", "when"]


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    found = loaded(tmp_path).settings
    with pytest.raises(ValidationError, match="frozen"):
        found.cycle = found.cycle  # type: ignore[misc]


def test_the_default_without_a_file_serves_on_this_machine(tmp_path: Path) -> None:
    found = default_settings(cpus=8, memory_mib=16_000, disk_mib=500_000)
    rules = rules_of(found)
    (site,) = rules.sites
    (worker,) = site.offers
    assert ([pool.name for pool in rules.pools], site.name, site.pools) == (["local"], "here", ())
    assert partitions_of(found) == (("local", "local"),)
    assert worker == Offer(
        SiteName("here"),
        "worker",
        Resources(4000, 6400, 8192),
        lifetime_s=14 * 3600,
        idle_s=30,
        limits=Limits(2, 2),
    )
    assert (rules.cycle_s_min, rules.cycle_s_max) == (1, 10)
    assert rules.policy == PolicyRule("steady", (("release_after_s", 20),))
    assert (found.sites["here"].on_exit, site.repeat_s) == ("stop", 0)


def test_the_default_passes_the_checks_of_a_file_on_any_machine(tmp_path: Path) -> None:
    for cpus, memory_mib, disk_mib in ((1, 512, 0), (2, 1, 1), (256, 10**6, 10**7)):
        found = default_settings(cpus, memory_mib, disk_mib)
        assert load(written(tmp_path, show(found)), catalog=CATALOG).settings == found
