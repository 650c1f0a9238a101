"""The checker catches what must never be: plans with one planted fault each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    after,
    demand,
    limits,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    site,
    slot,
    snapshot,
)
from glidepath.core.because import Because
from glidepath.core.check import Breach, check, without_actions
from glidepath.core.cycle import Decision, Plan, Reason, Unseen
from glidepath.core.provision.offer import OwnerRules, PoolRules
from glidepath.core.provision.phase import ended
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    SiteState,
    Submit,
    Target,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, Resources, SiteName

UNSEEN = Unseen(Instant(NOW - 30), "timed out")
WEST = SiteName("west")


def submit(count: int = 1, **more: Any) -> Submit:
    names = more.pop("names", tuple(PilotName(f"new{n}") for n in range(count)))
    size = Resources(1000, 1024, 100_000)
    return Submit(WEST, OfferKey("west/a"), POOL, size, (), 3600, 600, names, **more)


def planted(snap: Snapshot, action: PilotAction, under: Any = None, mem: Any = None, **more: Any) -> set[str]:
    """The invariants that a plan breaks when this action is planted into an otherwise sound one."""
    under = under or rules()
    because = more.get("because", Because.ASKED_HERE)
    sound = without_actions(plan_of(snap, mem, under))
    plan = replace(sound, decisions=(*sound.decisions, Decision("planted", Reason(because), action)))
    return {breach.invariant for breach in check(picture_of(snap, mem, under), under, plan)}


@pytest.mark.parametrize(
    "under",
    [
        rules(site("west", limits=limits(live_max=3))),
        rules(site("west", offer("west", limits=limits(live_max=3)))),
        rules(site("west", limits=limits(pending_max=2))),
        rules(site("west", limits=limits(per_cycle_max=2))),
        rules(site("west", limits=limits(per_s_max=0))),
        rules(pools=(PoolRules(POOL, limits(live_max=3)),)),
        rules(limits=limits(live_max=3)),
        rules(owners=(OwnerRules(Owner("eve"), limits(live_max=2)),)),
        rules(owners=(OwnerRules(Owner("*"), limits(live_max=2)),)),
    ],
)
def test_asking_past_any_limit_is_a_breach(under) -> None:
    snap = snapshot((demand(idle=9),), pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),))
    assert planted(snap, submit(3, owner=Owner("eve")), under) == {"cap"}


def test_a_name_used_twice_is_a_breach() -> None:
    snap = snapshot((demand(idle=9),), pilots={"west": (listed("p1"),)})
    assert planted(snap, submit(names=(PilotName("p1"),))) == {"once"}
    assert planted(snap, submit(names=(PilotName("n"), PilotName("n")))) == {"once"}
    mem = memory(cleared=((PilotName("n"), NOW),))
    assert planted(snap, submit(names=(PilotName("n"),)), mem=mem) == {"once"}


@pytest.mark.parametrize("blind", [{"pilots": {"west": UNSEEN}}, {"slots": UNSEEN}, {"demands": UNSEEN}])
def test_asking_on_what_was_not_seen_is_a_breach(blind) -> None:
    demands = blind.pop("demands", (demand(idle=9),))
    assert planted(snapshot(demands, **blind), submit()) == {"no decision on bad data"}


@pytest.mark.parametrize(
    ("state", "heard", "action", "because"),
    [
        (SiteState.RUNNING, slot("p1", 1), Withdraw(WEST, (Target(PilotName("p1")),)), Because.OVERDUE),
        (SiteState.RUNNING, slot("p1", 0), Withdraw(WEST, (Target(PilotName("p1")),)), Because.OVERDUE),
        (SiteState.RUNNING, slot("p1", 1), Drain(WEST, (Target(PilotName("p1")),)), Because.SURPLUS_IDLE),
        (SiteState.PENDING, None, Drain(WEST, (Target(PilotName("p1")),)), Because.SURPLUS_IDLE),
    ],
)
def test_ending_a_pilot_that_may_have_work_is_a_breach(state, heard, action, because) -> None:
    snap = snapshot(pilots={"west": (listed("p1", state),)}, slots=(heard,) if heard else ())
    assert planted(snap, action, because=because) == {"never kill"}


def test_taking_surplus_from_a_pool_that_is_not_fully_seen_is_a_breach() -> None:
    snap = snapshot(UNSEEN, pilots={"west": (listed("p1"),)}, slots=(slot("p1"),))
    drain = Drain(WEST, (Target(PilotName("p1")),))
    assert planted(snap, drain, because=Because.SURPLUS_IDLE) == {"no decision on bad data"}


def test_clearing_what_lives_is_a_breach() -> None:
    snap = snapshot(pilots={"west": (listed("p1"),)})
    track = replace(picture_of(snap).tracks[0], phase=PilotPhase.DONE)
    for action in (Clear(WEST, (ended(track, "x"),), ("",)), WriteOff(WEST, (ended(track, "x"),))):
        assert planted(snap, action) == {"unknown is not gone"}


def test_a_pilot_that_is_listed_alive_and_not_on_the_books_is_a_breach() -> None:
    snap = snapshot(pilots={"west": (listed("p1"),)})
    picture = replace(picture_of(snap), tracks=())
    assert {b.invariant for b in check(picture, rules(), plan_of(snap))} == {"unknown is not gone"}


def test_silence_about_a_shape_a_site_or_an_offer_is_a_breach() -> None:
    snap = snapshot((demand(idle=1),))
    empty: Plan[PilotAction] = Plan(1, NOW, (), 10)
    assert check(picture_of(snap), rules(), empty) == (
        Breach("explained", "nothing is said about `demand:pool: 1 CPU 1GiB`"),
        Breach("explained", "nothing is said about `site:west`"),
        Breach("explained", "nothing is said about `offer:west/a`"),
    )


def test_a_sound_plan_has_no_breach() -> None:
    snap = snapshot((demand(idle=9),), pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),))
    assert check(picture_of(snap), rules(), plan_of(snap)) == ()
    _, mem = after(snap, memory(), rules())
    assert mem.cycle == 1
