"""The leaves of the core to the letter: groups, phases, health and the published rules at their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.leaf_builders import FOUR, POOL, WEST, WEST_BIG, a_job, a_shape, a_track, an_offer, some_rules
from glidepath.core.provision.demand import Demand, grouped
from glidepath.core.provision.flow import Flow, flowed
from glidepath.core.provision.health import after_failure, after_join, after_refusal, node_after_failure
from glidepath.core.provision.memory import Health, NodeHealth
from glidepath.core.provision.phase import advanced, ended
from glidepath.core.provision.pilot import Ended, PilotPhase
from glidepath.core.quantity import Instant, NodeName, Owner, PoolName

P = PilotPhase


def test_a_group_without_a_stated_run_time_comes_first_in_whatever_order_jobs_are_told() -> None:
    jobs = [a_job(run_s_max=1), a_job(run_s_max=600), a_job()]
    assert [group.run_s_max for group in grouped(POOL, jobs, [])] == [None, 1, 600]


def test_offers_told_one_by_one_are_there_for_every_group() -> None:
    jobs = [a_job(shape=a_shape(1000)), a_job(shape=a_shape(2000))]
    found = grouped(POOL, jobs, (offer for offer in [an_offer()]))
    assert [group.fits for group in found] == [("west/big",), ("west/big",)]


@pytest.mark.parametrize(("now", "busy_s"), [(1040, 47), (1000, 7), (990, 7)])
def test_no_second_is_taken_off_the_books_when_a_clock_goes_back(now: int, busy_s: int) -> None:
    track = a_track(P.BUSY, joined_at=Instant(900), started_at=Instant(900), busy_s=7)
    expected = replace(track, phase=P.IDLE, since=Instant(now), busy_s=busy_s)
    assert advanced(track, P.IDLE, Instant(now)) == expected


@pytest.mark.parametrize(
    ("track", "pending_s", "busy_s", "idle_s", "starting_s"),
    [
        ({"since": 1100, "started_at": 1040, "busy_s": 20, "idle_s": 30}, 40, 20, 30, 10),
        ({"since": 1100, "started_at": 1040, "busy_s": 500, "idle_s": 30}, 40, 60, 0, 0),
        ({"since": 1100, "started_at": 1040, "busy_s": 30, "idle_s": 500}, 40, 30, 30, 0),
        ({"since": 1100, "started_at": 990, "busy_s": 0, "idle_s": 0}, 0, 0, 0, 100),
        ({"since": 990, "started_at": 1000, "busy_s": 5, "idle_s": 5}, 0, 0, 0, 0),
    ],
)
def test_the_seconds_of_a_pilot_add_up_however_wrong_the_clocks_were(
    track: dict[str, Any], pending_s: int, busy_s: int, idle_s: int, starting_s: int
) -> None:
    """All of a pilot that was asked for at 1000."""
    over = a_track(P.DONE, **{"node": NodeName("n1"), "joined_at": Instant(1050), "jobs_run": 3, **track})
    assert ended(over, "it left") == Ended(
        over.name,
        WEST,
        WEST_BIG,
        POOL,
        Owner(""),
        P.DONE,
        "it left",
        asked_at=Instant(1000),
        ended_at=over.since,
        pending_s=pending_s,
        starting_s=starting_s,
        busy_s=busy_s,
        idle_s=idle_s,
        failed_s=0,
        jobs_run=3,
        cpu_milli=FOUR.cpu_milli,
        node=NodeName("n1"),
    )


@pytest.mark.parametrize(("openings", "after"), [(0, 1), (14, 15), (15, 16), (16, 16)])
def test_openings_in_a_row_are_counted_up_to_sixteen(openings: int, after: int) -> None:
    before = Health("west/big", failures=9, openings=openings)
    found = after_failure(before, "lost", Instant(100), some_rules(), whole_site=False)
    assert (found.failures, found.openings) == (10, after)


def test_of_a_long_complaint_three_hundred_letters_are_kept() -> None:
    long, kept, now, rules = "x" * 400, "x" * 300, Instant(100), some_rules()
    assert after_failure(Health("a"), long, now, rules, whole_site=True).why == kept
    assert after_refusal(Health("a"), long, now, rules).why == kept
    node = NodeHealth(WEST, NodeName("n1"), 0)
    assert node_after_failure(node, long, now, rules, site_failures=1).why == kept


@pytest.mark.parametrize(
    ("before_s", "took_s", "after_s"), [(0, 0, 1), (5, 0, 4), (5, -100, 4), (1, 1, 1), (40, 80, 50)]
)
def test_a_start_counts_as_one_second_at_least(before_s: int, took_s: int, after_s: int) -> None:
    found = after_join(Health("west", failures=3, latency_s=before_s, joined=7, failed=2), took_s)
    assert found == Health("west", latency_s=after_s, joined=8, failed=2)


def test_the_flow_of_a_group_that_is_gone_goes_on_only_where_the_pool_was_seen_not_long_ago() -> None:
    """Pools that were silent for long are forgotten, those that are unseen now stay as they are."""
    known, strange, unseen = PoolName("known"), PoolName("strange"), PoolName("unseen")
    flows = [Flow(pool, a_shape(), None, 5, Instant(0), 7, 3) for pool in (strange, known, unseen)]
    found = flowed(flows, (), Instant(600), unseen={unseen}, known={known})
    assert found == (replace(flows[1], idle=0), flows[2])


def test_one_unseen_pool_does_not_end_the_count_of_the_others() -> None:
    seen, unseen = PoolName("seen"), PoolName("unseen")
    demands = [Demand(unseen, a_shape(), 9), Demand(seen, a_shape(), 4)]
    found = flowed((), demands, Instant(600), unseen={unseen}, known={seen})
    assert found == (Flow(seen, a_shape(), None, 4, Instant(600), 4),)


@pytest.mark.parametrize("phase", list(P))
def test_a_pilot_lives_until_it_is_done_failed_or_gone(phase: PilotPhase) -> None:
    assert a_track(phase).live is (phase not in {P.DONE, P.FAILED, P.GONE})
