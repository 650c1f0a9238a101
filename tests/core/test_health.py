"""Health: breakers open after failures in a row, wait longer each time, probe, and close on a join."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.builders import NOW, after, demand, later, memory, picture_of, rules, site, snapshot
from core.leaf_builders import WEST, some_rules
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.health import (
    OPENINGS_MAX,
    WHY_LENGTH_MAX,
    Gate,
    after_failure,
    after_join,
    after_refusal,
    gate,
    node_after_failure,
    shrunk,
)
from glidepath.core.provision.memory import Health, NodeHealth
from glidepath.core.provision.pilot import PilotPhase, Submit
from glidepath.core.quantity import Instant, NodeName, SiteName

RULES = some_rules(failures_max=3, backoff_s=60, backoff_s_max=3600, refused_s=600)
NODE_RULES = some_rules(node_failures_max=3, quarantine_s=3600)
NEW = Health("west/big")


def failed(health: Health, times: int, at: int, *, whole_site: bool = False) -> Health:
    for _ in range(times):
        health = after_failure(health, "boom", Instant(at), RULES, whole_site=whole_site)
    return health


@pytest.mark.parametrize(
    ("retry_at", "now", "state"),
    [
        (None, 0, Gate.CLOSED),
        (100, 99, Gate.OPEN),
        (100, 100, Gate.PROBE),
        (100, 9999, Gate.PROBE),
        (0, 0, Gate.PROBE),
    ],
)
def test_the_gate_follows_the_time_of_the_next_try(retry_at: int | None, now: int, state: Gate) -> None:
    health = Health("west", retry_at=None if retry_at is None else Instant(retry_at))
    assert gate(health, Instant(now)) is state


@pytest.mark.parametrize(
    ("times", "whole_site", "state"),
    [
        (2, False, Gate.CLOSED),
        (3, False, Gate.OPEN),
        (5, True, Gate.CLOSED),  # A whole site takes twice as many as one offer.
        (6, True, Gate.OPEN),
    ],
)
def test_failures_in_a_row_open_the_breaker_at_the_threshold(
    times: int, whole_site: bool, state: Gate
) -> None:
    health = failed(NEW, times, 1000, whole_site=whole_site)
    assert gate(health, Instant(1000)) is state
    assert (health.failures, health.failed, health.why) == (times, times, "boom")


def test_an_opening_keeps_when_and_for_how_long() -> None:
    assert failed(NEW, 3, 1000) == Health(
        "west/big", 3, opened_at=Instant(1000), retry_at=Instant(1060), openings=1, why="boom", failed=3
    )


def test_failures_while_the_breaker_is_open_are_counted_and_do_not_prolong_it() -> None:
    health = failed(failed(NEW, 3, 1000), 4, 1059)
    assert (health.failures, health.retry_at, health.openings) == (7, 1060, 1)


def test_each_failed_probe_doubles_the_wait_up_to_the_bound() -> None:
    health, now, waits = failed(NEW, 3, 0), 0, []
    for _ in range(9):
        assert health.retry_at is not None
        waits.append(health.retry_at - now)
        now = health.retry_at
        assert gate(health, Instant(now - 1)) is Gate.OPEN
        assert gate(health, Instant(now)) is Gate.PROBE
        health = failed(health, 1, now)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@pytest.mark.parametrize("whole_site", [False, True])
@pytest.mark.parametrize(("now", "reopened"), [(1599, False), (1600, True), (9999, True)])
def test_a_failed_probe_reopens_the_breaker_however_few_failures_came_before(
    now: int, reopened: bool, whole_site: bool
) -> None:
    """A refusal opens with one failure; a probe that fails is no first failure of a healthy offer."""
    refused = after_refusal(NEW, "no such account", Instant(1000), RULES)
    health = failed(refused, 1, now, whole_site=whole_site)
    assert gate(health, Instant(now)) is Gate.OPEN
    assert (health.failures, health.openings) == (2, 2 if reopened else 1)
    assert health.retry_at == (now + 2 * RULES.backoff_s if reopened else 1600)


def test_a_thousand_openings_stay_within_the_bound() -> None:
    health, now = NEW, 0
    for _ in range(1000):
        health = failed(health, 1, now)
        now = health.retry_at if health.retry_at is not None else now
    assert health.openings == OPENINGS_MAX
    assert health.retry_at is not None
    assert health.opened_at is not None
    assert health.retry_at - health.opened_at == RULES.backoff_s_max


@given(st.lists(st.tuples(st.integers(0, 500), st.sampled_from(["fail", "refuse", "join"])), max_size=40))
def test_no_history_waits_longer_than_the_bounds_and_a_join_always_closes(
    history: list[tuple[int, str]],
) -> None:
    health, now, in_a_row = NEW, 0, 0
    for after_s, event in history:
        now += after_s
        before = gate(health, Instant(now))
        if event == "join":
            health, in_a_row = after_join(health, 30), 0
            assert gate(health, Instant(now)) is Gate.CLOSED
        elif event == "fail":
            health, in_a_row = failed(health, 1, now), in_a_row + 1
        else:
            health, in_a_row = after_refusal(health, "no", Instant(now), RULES), in_a_row + 1
            assert gate(health, Instant(now)) is Gate.OPEN
        assert health.failures == in_a_row
        if in_a_row >= RULES.failures_max or (event != "join" and before is not Gate.CLOSED):
            assert gate(health, Instant(now)) is Gate.OPEN
        if health.retry_at is not None:
            assert health.retry_at - now <= max(RULES.backoff_s_max, RULES.refused_s)
    assert health.joined == sum(event == "join" for _, event in history)
    assert health.failed == sum(event != "join" for _, event in history)


def test_a_join_closes_the_breaker_and_forgets_the_row_of_failures() -> None:
    assert after_join(failed(NEW, 5, 1000), 45) == Health("west/big", latency_s=45, joined=1, failed=5)


def test_after_a_join_the_wait_starts_small_again() -> None:
    health = failed(NEW, 3, 0)
    for now in (60, 180, 420):
        health = failed(health, 1, now)
    assert failed(after_join(health, 10), 3, 5000).retry_at == 5060


@pytest.mark.parametrize(
    ("before_s", "latency_s", "after_s"),
    [(0, 100, 100), (0, 0, 1), (0, -5, 1), (100, 100, 100), (100, 500, 200), (100, 0, 75), (1, 1, 1)],
)
def test_start_latency_is_smoothed_and_never_zero_once_known(
    before_s: int, latency_s: int, after_s: int
) -> None:
    assert after_join(Health("west", latency_s=before_s), latency_s).latency_s == after_s


def test_one_refusal_opens_the_breaker_for_the_refusals_own_span() -> None:
    health = after_refusal(NEW, "no such account", Instant(1000), RULES)
    assert health == Health(
        "west/big", 1, Instant(1000), Instant(1600), openings=1, why="no such account", failed=1
    )
    again = after_refusal(health, "still not", Instant(1599), RULES)
    assert (again.failures, again.retry_at, again.why) == (2, 1600, "still not")
    assert after_refusal(health, "still not", Instant(1600), RULES).retry_at == 2200


@pytest.mark.parametrize(
    ("per_cycle", "failures", "left"),
    [(64, 0, 64), (64, 1, 32), (64, 3, 8), (64, 6, 1), (64, 10**6, 1), (1, 1, 1), (10, 2, 2)],
)
def test_failures_halve_what_is_asked_for_down_to_one_pilot(per_cycle: int, failures: int, left: int) -> None:
    assert shrunk(per_cycle, Health("west", failures)) == left


@pytest.mark.parametrize(
    ("before", "site_failures", "until"),
    [
        (0, 1, None),  # One failure on a node proves nothing.
        (1, 2, None),
        (2, 3, 4600),  # All failures of the site were on this node.
        (2, 5, 4600),  # More than half of them were.
        (2, 6, None),  # Half of what fails is elsewhere: the node is not to blame.
        (2, 100, None),
        (2, 0, 4600),  # Pilots that had joined died here, and nothing else fails at the site.
        (9, 19, 4600),
        (9, 20, None),
    ],
)
def test_a_node_is_quarantined_only_when_it_is_to_blame(
    before: int, site_failures: int, until: int | None
) -> None:
    node = NodeHealth(WEST, NodeName("n7"), before)
    found = node_after_failure(node, "disk", Instant(1000), NODE_RULES, site_failures=site_failures)
    expected = None if until is None else Instant(until)
    assert found == NodeHealth(WEST, NodeName("n7"), before + 1, expected, "disk", Instant(1000))


def test_a_quarantine_stands_when_the_next_failure_blames_others() -> None:
    node = NodeHealth(WEST, NodeName("n7"), 3, Instant(5000))
    found = node_after_failure(node, "disk", Instant(4000), NODE_RULES, site_failures=100)
    assert (found.until, found.at) == (5000, 4000)


@pytest.mark.parametrize(
    ("until", "failed_at", "later_s", "known"),
    [
        (None, NOW, 3599, True),
        (None, NOW, 3600, False),  # Never that bad, and quiet for as long as a quarantine takes.
        (None, NOW - 3599, 0, True),
        (None, NOW - 3600, 0, False),
        (NOW + 60, NOW, 59, True),  # A quarantine has an end of its own.
        (NOW + 60, NOW, 60, False),
        (NOW + 9999, NOW - 9999, 0, True),
    ],
)
def test_a_node_is_forgotten_when_it_was_quiet_for_long_enough(
    until: int | None, failed_at: int, later_s: int, known: bool
) -> None:
    """Three failures in a year are not three in a row."""
    expected = None if until is None else Instant(until)
    node = NodeHealth(WEST, NodeName("n7"), 2, expected, "disk", Instant(failed_at))
    under = rules(site("west", quarantine_s=3600))
    seen = picture_of(later(snapshot(), later_s), memory(nodes=(node,)), under)
    assert list(seen.nodes.values()) == ([node] if known else [])


def test_the_nodes_of_a_site_that_is_no_longer_configured_are_forgotten() -> None:
    node = NodeHealth(SiteName("east"), NodeName("n7"), 2, at=NOW)
    assert picture_of(snapshot(), memory(nodes=(node,))).nodes == {}


def test_a_long_message_of_a_site_is_cut_before_it_is_remembered() -> None:
    long = "x" * 10_000
    kept = "x" * WHY_LENGTH_MAX
    assert after_failure(NEW, long, Instant(0), RULES, whole_site=False).why == kept
    assert after_refusal(NEW, long, Instant(0), RULES).why == kept
    node = NodeHealth(WEST, NodeName("n7"), 0)
    assert node_after_failure(node, long, Instant(0), NODE_RULES, site_failures=1).why == kept


@pytest.mark.parametrize(
    ("outcome", "expected", "failures"),
    [
        (Done(), 2, 0),
        (Unsure("no answer"), 2, 0),
        (Failed("queue full"), 0, 2),
        (Refused("no such account"), 0, 2),
        (NotTried("the cycle's time was up"), 0, 0),
    ],
)
def test_only_what_was_tried_is_expected_or_counts_against_the_offer(
    outcome: Outcome, expected: int, failures: int
) -> None:
    _, mem = after(snapshot((demand(idle=2),)), memory(), rules(), outcome=outcome)
    assert [track.phase for track in mem.tracks] == [PilotPhase.EXPECTED] * expected
    assert {health.about: health.failures for health in mem.health}.get("west/a", 0) == failures
    assert bool(mem.health) is bool(failures)


def test_what_was_not_tried_is_asked_for_again_at_once() -> None:
    snap = snapshot((demand(idle=2),))
    first, mem = after(snap, memory(), rules(), outcome=NotTried("the cycle's time was up"))
    again, _ = after(snap, mem, rules())
    sizes = [[len(act.names) for act in plan.actions if isinstance(act, Submit)] for plan in (first, again)]
    assert sizes == [[2], [2]]
