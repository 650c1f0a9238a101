"""The rules of other systems in whole plans: what is asked for, round after round, within our limits."""

from __future__ import annotations

import pytest

from core.builders import (
    NOW,
    after,
    asked,
    demand,
    later,
    limits,
    listed,
    memory,
    offer,
    plan_of,
    reason,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from core.test_published import ALL
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import SiteState
from glidepath.core.provision.policies.glideinwms import GlideinWms
from glidepath.core.provision.policies.one_to_one import OneToOne
from glidepath.core.provision.policies.prp import Prp
from glidepath.core.provision.policies.pyglidein import Pyglidein
from glidepath.core.provision.pressure import Policy
from glidepath.core.quantity import Instant, Resources


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        # As pilots join and are claimed, the next are asked for; here none joins.
        (OneToOne(), [100, 0, 0]),
        (Prp(), [20, 0, 0]),
        (GlideinWms(), [33, 0, 0]),
        (Pyglidein(), [50, 50, 50]),
    ],
)
def test_what_is_coming_is_asked_for_again_only_by_pyglidein(policy: Policy, counts: list[int]) -> None:
    snap, mem, under = snapshot((demand(idle=100),)), memory(), rules()
    found = []
    for turn in range(len(counts)):
        plan, mem = after(later(snap, turn * 60), mem, under, policy)
        found.append(sum(asked(plan).values()))
    assert found == counts


def test_a_limit_holds_also_for_a_rule_that_asks_beyond_what_waits() -> None:
    under = rules(limits=limits(live_max=70))
    snap, mem = snapshot((demand(idle=100),)), memory()
    found = []
    for turn in range(3):
        plan, mem = after(later(snap, turn * 300), mem, under, Pyglidein())
        found.append(sum(asked(plan).values()))
    assert found == [50, 20, 0]


def queue_that_does_not_move(policy: Policy, idle: int, *, rounds: int, under: Rules) -> list[int]:
    """Pilots asked for in each round, five minutes apart, at a site where all of them stay pending."""
    mem, found = memory(), []
    for turn in range(rounds):
        waits = tuple(
            listed(t.name, SiteState.PENDING, asked_at=t.asked_at, since=t.asked_at, size=t.size)
            for t in mem.tracks
        )
        snap = later(snapshot((demand(idle=idle),), pilots={"west": waits}), turn * 300)
        plan, mem = after(snap, mem, under, policy)
        found.append(sum(asked(plan).values()))
    return found


EIGHT_EACH = rules(site("west", offer("west", "a", size=Resources(8000, 8192, 9000))))


@pytest.mark.parametrize(
    ("policy", "idle", "counts"),
    [
        (Pyglidein(), 10, [2, 2, 2]),  # Two pilots hold sixteen; as published it asks for two again.
        (Pyglidein(), 8, [1, 1, 1]),
        (Pyglidein(), 1, [1, 1, 1]),
        (Pyglidein(), 800, [50, 50, 50]),
        (OneToOne(), 10, [2, 0, 0]),
    ],
)
def test_where_a_pilot_holds_several_jobs_whole_pilots_are_asked_for_in_every_round(
    policy: Policy, idle: int, counts: list[int]
) -> None:
    assert queue_that_does_not_move(policy, idle, rounds=len(counts), under=EIGHT_EACH) == counts


@pytest.mark.parametrize(
    ("policy", "idle", "under", "counts"),
    [
        (Pyglidein(), 100, rules(), [*[50] * 20, 0, 0]),
        (Pyglidein(), 30, rules(), [*[30] * 33, 10, 0]),
        (Pyglidein(), 800, EIGHT_EACH, [*[50] * 20, 0]),
        (Pyglidein(max_idle_jobs=120), 100, rules(), [50, 50, 20, 0]),
    ],
)
def test_with_slow_starts_pyglidein_stops_at_its_limit_of_queued_pilots(
    policy: Policy, idle: int, under: Rules, counts: list[int]
) -> None:
    """Also those pending beyond our patience are in its queue, though they keep nobody else from asking."""
    assert queue_that_does_not_move(policy, idle, rounds=len(counts), under=under) == counts


def test_pilots_on_their_way_count_once_for_each_shape_that_they_fit() -> None:
    waits = tuple(listed(f"p{n}", SiteState.PENDING) for n in range(4))
    other = listed("q", SiteState.PENDING, key="west/b")
    under = rules(site("west", offer("west", "a"), offer("west", "b")))
    groups = (demand(idle=3), demand(idle=3, of=shape(1, 512), fits=("west/a", "west/b")))
    plan = plan_of(snapshot(groups, pilots={"west": (*waits, other)}), under=under, policy=Pyglidein())
    told = {d.about: dict(d.reason.facts).get("rule") for d in plan.decisions if d.about.startswith("demand")}
    assert told == {
        "demand:pool: 1 CPU 1GiB": "count = 3, beside 4 queued",
        "demand:pool: 1 CPU 512MiB": "count = 3, beside 5 queued",
    }


def test_pyglidein_asks_for_jobs_that_free_pilots_could_take() -> None:
    pilots = tuple(listed(f"p{n}") for n in range(5))
    slots = tuple(slot(f"p{n}") for n in range(5))
    snap = snapshot((demand(idle=5),), pilots={"west": pilots}, slots=slots)
    assert asked(plan_of(snap, policy=Pyglidein())) == {"west/a": 5}
    assert reason(plan_of(snap, policy=OneToOne()), "demand:pool: 1 CPU 1GiB") == "COVERED"


def test_jobs_are_counted_in_pilots_worth_for_every_rule() -> None:
    under = rules(site("west", offer("west", "a", size=Resources(8000, 8192, 9000))))
    snap = snapshot((demand(idle=80),))
    found = {name: asked(plan_of(snap, under=under, policy=kind({}))) for name, kind in ALL.items()}
    assert found == {
        "one-to-one": {"west/a": 10},
        "prp": {"west/a": 3},
        "glideinwms": {"west/a": 3},
        "pyglidein": {"west/a": 10},
    }


def test_the_reserve_of_glideinwms_needs_an_old_job() -> None:
    young = snapshot((demand(idle=60, oldest_at=Instant(NOW - 599)),))
    old = snapshot((demand(idle=60, oldest_at=Instant(NOW - 600)),))
    found = [asked(plan_of(snap, policy=GlideinWms())) for snap in (young, old)]
    assert found == [{"west/a": 20}, {"west/a": 25}]


def test_pending_pilots_count_as_waiting_for_prp() -> None:
    pilots = tuple(listed(f"p{n}", SiteState.PENDING) for n in range(4))
    snap = snapshot((demand(idle=40),), pilots={"west": pilots})
    assert asked(plan_of(snap, policy=Prp())) == {"west/a": 7}
