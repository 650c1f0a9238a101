"""What-if on real history: a journal is made into a scenario that behaves like what was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glidepath.core.provision.offer import PolicyRule
from glidepath.sim.change import changed
from glidepath.sim.history import HistoryError, history_of
from glidepath.sim.keep import Encoded
from glidepath.sim.study import Finished, simulated
from sim.histories import small_scenario


def recorded(**more: Any) -> tuple[Finished, Encoded]:
    kept = Encoded()
    return simulated(small_scenario(per_hour=240, **more), 3, keeps=kept), kept


def test_the_jobs_and_sites_of_a_journal_are_found_again() -> None:
    truth, kept = recorded()
    found = history_of(kept.entries(), match_s=30)
    jobs = found.scenario.workload.arrivals(1)
    # Jobs that came and went between two looks are few here; nearly all are found.
    assert truth.result.score.jobs * 0.97 <= len(tuple(jobs)) <= truth.result.score.jobs * 1.03
    site = found.scenario.sites[0]
    assert 20 <= site.start_s[0] <= 70
    assert 90 <= site.start_s[1] <= 160
    assert site.failing <= 60


def test_the_recorded_row_agrees_with_what_truly_happened() -> None:
    truth, kept = recorded()
    score, real = history_of(kept.entries()).recorded.score, truth.result.score
    assert score.wait_mean_s == pytest.approx(real.wait_mean_s, rel=0.15, abs=12)
    assert score.asked == real.asked
    assert score.wasted_h == pytest.approx(real.wasted_h, rel=0.15)
    assert score.busy_h == pytest.approx(real.busy_h, rel=0.1)


def test_simulated_again_with_the_same_rules_history_repeats_itself() -> None:
    truth, kept = recorded()
    again = simulated(history_of(kept.entries(), match_s=30).scenario, 7).result.score
    real = truth.result.score
    assert again.wait_mean_s == pytest.approx(real.wait_mean_s, rel=0.25, abs=15)
    assert again.wasted_h == pytest.approx(real.wasted_h, rel=0.25)
    assert again.asked == pytest.approx(real.asked, rel=0.25)


def test_another_policy_and_another_limit_have_another_price() -> None:
    _, kept = recorded()
    scenario = history_of(kept.entries(), match_s=30).scenario
    seed = simulated(scenario, 7).result.score
    steady = simulated(scenario, 7, policy=PolicyRule("steady")).result.score
    fewer = replace(scenario, rules=changed(scenario.rules, ["offers.west/one.live_max=10"]))
    tight = simulated(fewer, 7).result.score
    assert steady.wait_mean_s < seed.wait_mean_s
    assert tight.wait_mean_s > seed.wait_mean_s
    assert tight.wasted_h < seed.wasted_h


def test_a_journal_with_too_little_in_it_says_so() -> None:
    with pytest.raises(HistoryError, match="too few cycles"):
        history_of(())
    quiet = Encoded()
    simulated(replace(small_scenario(), workload=_Nothing()), 1, keeps=quiet, cycles=5)
    with pytest.raises(HistoryError, match="no job ever waited"):
        history_of(quiet.entries())


class _Nothing:
    def arrivals(self, seed: int) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sites.west", "is not a change of a limit"),
        ("sites.wset.live_max=3", "there is no `wset`; did you mean `west`?"),
        ("sites.west.live_mx=3", "there is no limit `live_mx`; did you mean `live_max`?"),
        ("offers.west/on.live_max=3", "did you mean `west/one`?"),
        ("pools.pol.live_max=3", "did you mean `pool`?"),
        ("limits.live_max=many", "the value must be a whole number or `none`"),
        ("limits.live_max=-1", "the value must be a whole number or `none`"),
        ("places.x.live_max=1", "is not a change of a limit"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_with_what_would(change: str, said: str) -> None:
    with pytest.raises(ValueError) as refusal:
        changed(small_scenario().rules, [change])
    assert said in str(refusal.value)


def test_limits_of_every_scope_can_be_changed_and_taken_away() -> None:
    rules = changed(
        small_scenario().rules,
        [
            "limits.live_max=9",
            "pools.pool.pending_max=8",
            "owners.ann.live_max=7",
            "sites.west.per_cycle_max=6",
            "offers.west/one.live_max=none",
        ],
    )
    assert (
        rules.limits.live_max,
        rules.pools[0].limits.pending_max,
        rules.owners[0].limits.live_max,
        rules.sites[0].limits.per_cycle_max,
        rules.sites[0].offers[0].limits.live_max,
    ) == (9, 8, 7, 6, None)
