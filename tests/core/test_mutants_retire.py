"""Letting go to the letter: which pilots, in which order, for which reason and with which numbers.

Small scenes come in, whole decisions of a plan are compared. What may not be taken is in every scene.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    POOL,
    SOURCE,
    demand,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from core.leaf_builders import a_track, an_ended
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Plan, Reason, Seen, Unseen
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    Ended,
    PilotAction,
    PilotPhase,
    SiteState,
    Slot,
    Submit,
    Target,
    Track,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.retire import retire
from glidepath.core.provision.serve import shelves
from glidepath.core.provision.sight import PoolSlots, SiteListing, Window
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SiteName

EAST, WEST = SiteName("east"), SiteName("west")
OTHER = PoolName("another")
FULL = Resources(1000, 1024, 100_000)
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
EAGER = Steady(release_s=100)
RUNNING, PENDING = SiteState.RUNNING, SiteState.PENDING


def ago(seconds: int) -> Instant:
    return Instant(NOW - seconds)


def let_go(plan: Plan[PilotAction]) -> list[Decision[PilotAction]]:
    return [d for d in plan.decisions if d.action is not None and not isinstance(d.action, Submit)]


def targets(*names: str) -> tuple[Target, ...]:
    return tuple(Target(PilotName(name), f"id-{name}") for name in names)


def seen(name: str, state: SiteState = RUNNING, key: str = "west/a", **more: Any) -> Any:
    return listed(name, state, key, native_id=f"id-{name}", **more)


def tracked(name: str, phase: PilotPhase, **more: Any) -> Track:
    row: dict[str, Any] = {"offer": OfferKey("west/a"), "size": FULL, "native_id": f"id-{name}"}
    row |= {"since": ago(50), "asked_at": ago(100), "name": PilotName(name)}
    return a_track(phase, **{**row, **more})


def window(site_name: str, opens_in_s: int, closes_in_s: int) -> Window:
    return Window(SiteName(site_name), Instant(NOW + opens_in_s), Instant(NOW + closes_in_s), "psu")


ONE_OF_EACH = {
    "pilots": {"west": (seen("busy"), seen("idle"), seen("queued", PENDING), seen("starting"))},
    "slots": (slot("busy", 1), slot("idle")),
}


@pytest.mark.parametrize(
    ("opens_in_s", "closes_in_s", "told_s", "withdrawn", "drained"),
    [
        (3601, 9000, None, [], []),
        (3600, 9000, 3600, [], ["busy", "idle"]),
        (900, 9000, 900, [], ["busy", "idle"]),
        # What waits could live for too short a time to be of use.
        (899, 9000, 899, ["queued"], ["busy", "idle"]),
        (1, 9000, 1, ["queued"], ["busy", "idle"]),
        (0, 9000, 0, ["queued"], ["busy", "idle"]),
        (-1, 9000, 0, ["queued"], ["busy", "idle"]),
        (-9000, 1, 0, ["queued"], ["busy", "idle"]),
        (-9000, 0, None, [], []),
        (-9000, -1, None, [], []),
    ],
)
def test_a_window_takes_what_waits_and_what_has_joined_from_its_lead_until_it_closes(
    opens_in_s: int, closes_in_s: int, told_s: int | None, withdrawn: list[str], drained: list[str]
) -> None:
    snap = snapshot(windows=(window("west", opens_in_s, closes_in_s),), **ONE_OF_EACH)
    plan = plan_of(snap, under=rules(site("west", drain_lead_s=3600), useful_s_min=900))
    reason = Reason(Because.WINDOW_DRAIN, (("opens_in_s", told_s or 0), ("why", "psu")))
    acts = [Withdraw(WEST, targets(*withdrawn))] if withdrawn else []
    acts += [Drain(WEST, targets(*drained))] if drained else []
    assert let_go(plan) == [Decision("site:west", reason, act) for act in acts]


def test_a_pilot_that_ends_by_itself_when_the_window_opens_is_left_alone() -> None:
    ends = {"before": 2999, "just": 3000, "after": 3001}
    pilots = tuple(seen(name, ends_at=Instant(NOW + ends_s)) for name, ends_s in ends.items())
    heard = tuple(slot(name) for name in ends)
    snap = snapshot(pilots={"west": pilots}, slots=heard, windows=(window("west", 3000, 9000),))
    assert [each.action for each in let_go(plan_of(snap))] == [Drain(WEST, targets("after"))]


def test_every_window_is_for_its_own_site_and_those_that_do_not_count_hide_none() -> None:
    windows = (
        window("north", 60, 900),
        window("west", -90, 0),
        window("west", 5000, 9000),
        window("east", 60, 900),
        window("east", 70, 900),
    )
    pilots = {
        "east": (seen("e1", key="east/a"), seen("e2", PENDING, key="east/a")),
        "west": ONE_OF_EACH["pilots"]["west"],  # type: ignore[index]
    }
    heard = (*ONE_OF_EACH["slots"], slot("e1"))
    snap = snapshot(pilots=pilots, slots=heard, windows=windows)
    reason = Reason(Because.WINDOW_DRAIN, (("opens_in_s", 60), ("why", "psu")))
    # Of two windows the first takes them; nobody goes twice.
    assert let_go(plan_of(snap, under=rules(site("east"), site("west")))) == [
        Decision("site:east", reason, Withdraw(EAST, targets("e2"))),
        Decision("site:east", reason, Drain(EAST, targets("e1"))),
    ]


def test_pilots_of_offers_or_pools_that_are_gone_go_offer_by_offer_and_others_stay() -> None:
    pilots = (
        seen("a-idle"),
        seen("a-queued", PENDING),
        seen("lost-pool", PENDING, pool=PoolName("past")),
        seen("old-busy", key="west/old"),
        seen("old-idle", key="west/old"),
        seen("old-queued", PENDING, key="west/old"),
        seen("old-going", PENDING, key="west/old"),
        seen("elder", PENDING, key="west/elder"),
    )
    heard = (slot("a-idle"), slot("old-busy", 1), slot("old-idle"))
    going = tracked("old-going", PilotPhase.PENDING, offer=OfferKey("west/old"), leaving="told to go")
    plan = plan_of(snapshot(pilots={"west": pilots}, slots=heard), memory(tracks=(going,)))

    def gone(count: int) -> Reason:
        return Reason(Because.OFFER_GONE, (("pilots", count),))

    assert let_go(plan) == [
        Decision("offer:west/a", gone(1), Withdraw(WEST, targets("lost-pool"))),
        Decision("offer:west/elder", gone(1), Withdraw(WEST, targets("elder"))),
        Decision("offer:west/old", gone(3), Withdraw(WEST, targets("old-queued"))),
        Decision("offer:west/old", gone(3), Drain(WEST, targets("old-idle"))),
    ]


def test_a_pool_that_is_gone_is_noticed_where_all_offers_are_still_there() -> None:
    plan = plan_of(snapshot(pilots={"west": (seen("p1", PENDING, pool=PoolName("past")),)}))
    reason = Reason(Because.OFFER_GONE, (("pilots", 1),))
    assert let_go(plan) == [Decision("offer:west/a", reason, Withdraw(WEST, targets("p1")))]


def test_overdue_pilots_are_counted_at_their_own_site_and_only_those_that_may_go() -> None:
    under = rules(
        site("east", pending_s_max=100), site("west", pending_s_max=50, repeat_s=500), withdraw_after_s=0
    )
    ages = {"e100": 100, "e101": 101, "e150": 150, "e-going": 999}
    pilots = {
        "east": (
            *(seen(name, PENDING, key="east/a", asked_at=ago(age_s)) for name, age_s in ages.items()),
            seen("e-starting", key="east/a", asked_at=ago(999)),
        ),
        "west": tuple(seen(f"w{age_s}", PENDING, asked_at=ago(age_s)) for age_s in (499, 500, 600)),
    }
    going = tracked("e-going", PilotPhase.PENDING, site=EAST, offer=OfferKey("east/a"), leaving="told to go")
    plan = plan_of(snapshot(pilots=pilots), memory(tracks=(going,)), under)
    east = (("pilots", 2), ("oldest_s", 150), ("pending_s_max", 100))
    west = (("pilots", 2), ("oldest_s", 600), ("pending_s_max", 50))
    assert let_go(plan) == [
        Decision("site:east", Reason(Because.OVERDUE, east), Withdraw(EAST, targets("e101", "e150"))),
        Decision("site:west", Reason(Because.OVERDUE, west), Withdraw(WEST, targets("w500", "w600"))),
    ]


def test_a_pilot_that_goes_for_a_window_is_not_counted_as_overdue_or_surplus() -> None:
    under = rules(site("west", pending_s_max=50), withdraw_after_s=0)
    snap = snapshot(windows=(window("west", 60, 900),), **ONE_OF_EACH)
    found = [(each.reason.because, each.action) for each in let_go(plan_of(snap, under=under, policy=EAGER))]
    assert found == [
        (Because.WINDOW_DRAIN, Withdraw(WEST, targets("queued"))),
        (Because.WINDOW_DRAIN, Drain(WEST, targets("busy", "idle"))),
    ]


def mark(key: str, pool: PoolName = POOL) -> str:
    return f"surplus:{pool}:{key}:(1000, 1024, 100000, 0):()"


OFFERS = tuple(offer("west", name) for name in "abc")
PATIENT = rules(site("west", *OFFERS, patience_s=200), withdraw_after_s=120)


def test_pending_pilots_on_time_and_late_are_surplus_together() -> None:
    pilots = (
        seen("a1", PENDING, asked_at=ago(150)),
        seen("a2", PENDING, asked_at=ago(160)),
        seen("a3", PENDING, asked_at=ago(201)),
        seen("a4", PENDING, asked_at=ago(202)),
        seen("b1", PENDING, key="west/b", asked_at=ago(300)),
    )
    marks = ((mark("west/a"), ago(130)), (mark("west/b"), ago(140)))
    snap = snapshot((demand(idle=1),), pilots={"west": pilots})
    plan = plan_of(snap, memory(marks=marks), PATIENT, EAGER)
    a = (("pilots", 3), ("surplus", 3), ("surplus_s", 130))
    b = (("pilots", 1), ("surplus", 1), ("surplus_s", 140))
    because = Because.SURPLUS_PENDING
    assert let_go(plan) == [
        Decision("offer:west/a", Reason(because, a), Withdraw(WEST, targets("a1", "a2", "a3"))),
        Decision("offer:west/b", Reason(because, b), Withdraw(WEST, targets("b1"))),
    ]
    assert plan.marks == (*marks, ("quiet", Instant(0)))


def test_a_kind_that_was_not_surplus_for_long_or_has_nobody_pending_keeps_no_other_from_going() -> None:
    pilots = (
        seen("a1"),
        seen("b1", PENDING, key="west/b"),
        seen("c1", PENDING, key="west/c"),
    )
    marks = ((mark("west/b"), ago(119)), (mark("west/c"), ago(120)))
    plan = plan_of(snapshot(pilots={"west": pilots}), memory(marks=marks), PATIENT, EAGER)
    facts = (("pilots", 1), ("surplus", 1), ("surplus_s", 120))
    reason = Reason(Because.SURPLUS_PENDING, facts)
    assert let_go(plan) == [Decision("offer:west/c", reason, Withdraw(WEST, targets("c1")))]
    # What is starting cannot be withdrawn, so that nobody waits for it to have been surplus for long.
    assert plan.marks == (*marks, ("quiet", Instant(0)))


def test_surplus_that_is_new_is_marked_with_this_cycle_and_stays() -> None:
    plan = plan_of(snapshot(pilots={"west": (seen("p1", PENDING),)}), under=PATIENT, policy=EAGER)
    assert (let_go(plan), plan.marks[:-1]) == ([], ((mark("west/a"), NOW),))


def test_a_pool_whose_demand_is_unseen_keeps_its_pilots_and_another_pool_does_not() -> None:
    pilots = tuple(
        seen(f"{pool}-{n}", state, pool=pool, since=ago(100))
        for pool in (OTHER, POOL)
        for n, state in enumerate((PENDING, RUNNING))
    )
    snap = replace(
        snapshot(pilots={"west": pilots}),
        demand=((OTHER, SOURCE, UNSEEN), (POOL, SOURCE, Seen(NOW, DemandSight(())))),
        slots=tuple((pool, Seen(NOW, PoolSlots((slot(f"{pool}-1"),)))) for pool in (OTHER, POOL)),
    )
    under = rules(pools=(PoolRules(OTHER), PoolRules(POOL)), withdraw_after_s=0)
    plan = plan_of(snap, memory(), under, EAGER)
    assert [each.action for each in let_go(plan)] == [
        Withdraw(WEST, targets("pool-0")),
        Drain(WEST, targets("pool-1")),
    ]
    assert plan.marks[:-1] == ((mark("west/a"), NOW),)


def test_free_pilots_go_longest_idle_first_as_many_as_nothing_was_packed_into() -> None:
    idle = {"i99": 99, "i100": 100, "i130": 130, "i120": 120}
    pilots = tuple(seen(name, since=ago(idle_s)) for name, idle_s in idle.items())
    # The site says that it leaves, whatever its pool still hears.
    leaving = seen("leaving", SiteState.LEAVING, since=ago(900))
    snap = snapshot(
        (demand(idle=2),),
        pilots={"west": (*pilots, leaving)},
        slots=(*(slot(name) for name in idle), slot("leaving")),
    )
    facts = (("pilots", 2), ("idle_s", 130), ("release_s", 100))
    assert let_go(plan_of(snap, policy=EAGER)) == [
        Decision("offer:west/a", Reason(Because.SURPLUS_IDLE, facts), Drain(WEST, targets("i120", "i130")))
    ]


@pytest.mark.parametrize(
    ("heard", "drained"),
    [
        (slot("p2"), ["p1", "p2"]),
        (slot("p2", 1), ["p1"]),
        (slot("p2", draining=True), ["p1"]),
        (None, ["p1"]),
    ],
)
def test_what_the_books_call_idle_is_drained_only_if_its_slot_says_so_too(
    heard: Slot | None, drained: list[str]
) -> None:
    pilots = tuple(seen(name, since=ago(500)) for name in ("p1", "p2"))
    picture = picture_of(snapshot(pilots={"west": pilots}, slots=(slot("p1"), slot("p2"))))
    supply = shelves(picture, rules())
    slots = {"p1": slot("p1")} | ({"p2": heard} if heard else {})
    found, marks = retire(replace(picture, slots=slots), rules(), supply, EAGER)
    assert [each.action for each in found] == [Drain(WEST, targets(*drained))]
    assert marks == ()


def test_without_free_or_coming_pilots_there_is_nothing_to_let_go() -> None:
    snap = snapshot((demand(idle=0, of=shape(), running=1),), pilots={"west": (seen("p1"),)})
    snap = replace(snap, slots=((POOL, Seen(NOW, PoolSlots((slot("p1", 1),)))),))
    plan = plan_of(snap, policy=EAGER)
    assert (let_go(plan), plan.marks) == ([], (("quiet", Instant(1)),))


def over(name: str, phase: PilotPhase, why: str, **more: Any) -> Ended:
    row: dict[str, Any] = {"phase": phase, "why": why, "asked_at": ago(100), "ended_at": ago(50)}
    row |= {"offer": OfferKey("west/a"), "cpu_milli": 1000, "pending_s": 50}
    return an_ended(name, **{**row, **more})


P = PilotPhase
PAST = {"site": EAST, "offer": OfferKey("east/a"), "ends_at": ago(9999), "started_at": ago(90), "busy_s": 5}
TOLD = {"leaving": "it was surplus", "started_at": ago(80), "joined_at": ago(70), "asked_at": ago(90)}


def told(because: Because, *numbers: int) -> Reason:
    names = ("pilots", "jobs_run", "busy_s", "idle_s", "failed")
    return Reason(because, tuple(zip(names, numbers, strict=True)))


def test_what_ended_is_cleared_with_its_handles_and_what_is_gone_is_written_off() -> None:
    """The sites are named so that one that may not be touched comes first of its kind."""
    under = rules(site("east"), site("west", repeat_s=95))
    tracks = (
        # At a site that cannot be seen: it had ended, and it is past the end of its life.
        tracked("e-done", P.DONE, site=EAST, offer=OfferKey("east/a")),
        tracked("e-past", P.BUSY, **PAST),
        # It was told to go, and is no longer listed: nothing of it is left to be cleared.
        tracked("w-left", P.IDLE, **TOLD),
    )
    pilots = (
        seen("w-young", SiteState.FAILED, asked_at=ago(94)),
        seen("w-failed", SiteState.FAILED, note="no image"),
        seen("w-ended", SiteState.ENDED, note="bye"),
    )
    plan = plan_of(snapshot(pilots={"east": UNSEEN, "west": pilots}), memory(tracks=tracks), under)
    (vanished, written, cleared) = let_go(plan)
    why = "its lifetime has passed and its site cannot be seen"
    assert vanished.reason == told(Because.VANISHED, 1, 0, 55, 0, 1)
    assert isinstance(vanished.action, WriteOff)
    assert [(e.name, e.why) for e in vanished.action.ended] == [("e-past", why)]
    assert written.about == "site:west"
    assert written.reason == told(Because.ENDED, 1, 0, 0, 50, 0)
    assert isinstance(written.action, WriteOff)
    assert [(e.name, e.why) for e in written.action.ended] == [("w-left", "it was surplus")]
    both = (over("w-ended", P.DONE, "bye", pending_s=50), over("w-failed", P.FAILED, "no image"))
    assert cleared == Decision(
        "site:west", told(Because.ENDED, 2, 0, 0, 0, 1), Clear(WEST, both, ("id-w-ended", "id-w-failed"))
    )


def test_what_ended_at_a_site_that_was_seen_in_part_is_not_cleared_there() -> None:
    found = (seen("p1", SiteState.ENDED),)
    for complete, acts in ((False, []), (True, [Clear])):
        snap = snapshot(pilots={"west": Seen(NOW, SiteListing(found, complete))})
        assert [type(each.action) for each in let_go(plan_of(snap))] == acts
