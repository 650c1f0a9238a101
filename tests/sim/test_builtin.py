"""The built-in scenarios are what they are said to be, and a name that leads nowhere gets a hint."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from glidepath.core.provision.offer import Limits
from glidepath.sim.builtin import (
    BUILTIN,
    NoTrace,
    Survey,
    Trace,
    UnknownScenario,
    grid,
    one_open_site,
    scenario_of,
    three_sites,
)
from glidepath.sim.fault import NAMES
from glidepath.sim.workloads import KINDS

ROW = "{n} {at} 5 60 1 -1 -1 1 600 -1 1 7 1 1 1 -1 -1 -1\n"


def test_every_built_in_scenario_can_be_made_and_says_what_it_is(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.swf"
    for name, builtin in BUILTIN.items():
        found = scenario_of(name, 3, trace if builtin.reads_trace else None)
        assert found.name == name
        assert builtin.about
        assert {site.name for site in found.rules.sites} == {site.site for site in found.sites}
        assert {pool.name for pool in found.rules.pools} == {pool.pool for pool in found.pools}
    assert set(BUILTIN) == {*KINDS, "grid", "storm", "node-storm"}
    assert set(scenario_of("storm", 1).rates) == set(NAMES)


def test_made_up_sites_differ_in_delay_price_quota_and_limits() -> None:
    place = three_sites()
    assert len({site.start_s for site in place.sites}) == len(place.sites) == 3
    assert len({site.quota for site in place.sites}) > 1
    assert len({offer.price_milli for site in place.rules.sites for offer in site.offers}) > 1
    assert all(site.limits.live_max for site in place.rules.sites)
    for kind in KINDS.values():
        assert all(
            any(shape.request.fits_in(offer.size) for site in place.rules.sites for offer in site.offers)
            for shape in kind.options().shapes
        )


def test_on_the_open_site_only_the_policy_makes_a_difference() -> None:
    place = one_open_site()
    (site,), (behaviour,) = place.rules.sites, place.sites
    (offer,) = site.offers
    assert (site.limits, place.rules.limits, offer.limits) == (Limits(), Limits(), Limits())
    assert (offer.lifetime_s, offer.idle_s, offer.size.cpu_milli) == (10**8, 600, 1000)
    assert (behaviour.start_s, behaviour.failing, behaviour.quota, behaviour.nodes) == (
        (30, 300),
        20,
        None,
        0,
    )
    assert (site.failures_max, site.node_failures_max, place.rules.left_s_min) == (10**6, 10**6, 0)
    assert [pool.every_s for pool in place.pools] == [60]


@pytest.mark.parametrize(
    ("word", "error", "said"),
    [
        (
            "brust",
            UnknownScenario,
            "there is no scenario `brust`; did you mean `burst`? a path that ends in `.toml` is a file",
        ),
        (
            "\x1bq",
            UnknownScenario,
            "there is no scenario `\\x1bq`; there are: burst, steady, sine, two-kinds, long-tail, flapping, "
            "grid, storm, node-storm; a path that ends in `.toml` is a file",
        ),
        ("grid", NoTrace, "the scenario `grid` plays a trace: name one with `--trace FILE`"),
    ],
)
def test_a_name_that_leads_nowhere_gets_a_hint(word: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        scenario_of(word, 1)
    assert str(caught.value) == said


def test_made_up_jobs_and_a_trace_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(NoTrace, match="the scenario `sine` makes up its jobs; `--trace` is for `grid`"):
        scenario_of("sine", 1, tmp_path / "jobs.swf")


def test_a_survey_tells_what_a_trace_holds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf.gz"
    rows = [ROW.format(n=n, at=60 * n) for n in range(4)]
    rows[1] = rows[1].replace(" 60 1 ", " -1 1 ")
    path.write_bytes(gzip.compress("".join(rows).encode()))
    workload = grid(path).workload
    assert isinstance(workload, Trace)
    assert workload.survey() == Survey(3, 180, {"no run time": 1})
