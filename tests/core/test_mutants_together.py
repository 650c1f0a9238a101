"""Small changes to pilots that come together that only a close look notices, and what each would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import (
    NOW,
    POOL,
    demand,
    limits,
    listed,
    memory,
    offer,
    picture_of,
    plan_of,
    rules,
    shape,
    site,
    snapshot,
)
from core.test_check import planted, submit
from core.test_together import EAST_POOL, SOUTH_POOL, WEST, both_wait, facts_of, groups, pairs, pending
from glidepath.core.because import Because
from glidepath.core.cycle import Did, Done, Failed, Seen
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Health
from glidepath.core.provision.offer import Limits, OwnerRules, PoolRules, Rules
from glidepath.core.provision.pilot import SitePilot, SiteState, Submit, Target, Withdraw
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName

PAIRS = rules(site("west", pairs(), pending_s_max=600))
ANN, BEN = Owner("ann"), Owner("ben")


def withdrawn(snap: Snapshot, under: Rules = PAIRS, **more: object) -> list[str]:
    plan = plan_of(snap, memory(**more), under, Steady())
    return sorted(t.name for a in plan.actions if isinstance(a, Withdraw) for t in a.pilots)


def old(name: str, native_id: str, state: SiteState = SiteState.PENDING) -> SitePilot:
    return replace(
        pending(name, native_id), state=state, asked_at=Instant(NOW - 700), since=Instant(NOW - 700)
    )


# What must go whole.


@pytest.mark.parametrize(
    ("pilots", "gone"),
    [
        ((old("p0", "j"), old("p1", "j")), ["p0", "p1"]),
        ((old("p0", "j"), old("p1", "j", SiteState.RUNNING)), []),  # a node has started
        ((old("p0", "j"), pending("p1", "j")), []),  # its mate is not overdue
        ((old("p0", "j"), old("p1", "k")), ["p0", "p1"]),
        ((old("p0", ""), old("p1", "")), []),  # nobody knows yet which jobs these are
    ],
)
def test_overdue_pilots_go_with_all_of_their_job(pilots: tuple[SitePilot, ...], gone: list[str]) -> None:
    assert withdrawn(snapshot((), pilots={"west": pilots})) == gone


def test_a_pilot_that_comes_alone_needs_no_handle_to_be_withdrawn() -> None:
    under = rules(site("west", offer("west", cpus=4), pending_s_max=600))
    assert withdrawn(snapshot((), pilots={"west": (old("p0", ""), old("p1", ""))}), under) == ["p0", "p1"]


def test_one_that_was_told_to_go_already_does_not_keep_its_mate() -> None:
    snap = snapshot((), pilots={"west": (old("p0", "j"), old("p1", "j"))})
    picture = picture_of(snap, under=PAIRS)
    left = tuple(replace(t, leaving="withdrawn") if t.name == "p1" else t for t in picture.tracks)
    assert withdrawn(snap, tracks=left) == ["p0"]


def test_surplus_that_belongs_to_no_known_job_yet_does_not_start_to_wait() -> None:
    under = rules(site("west", pairs()), withdraw_after_s=60)
    for native_id, marked in (("", 0), ("j", 1)):
        snap = snapshot((), pilots={"west": (pending("p0", native_id), pending("p1", native_id))})
        marks = [mark for mark, _ in plan_of(snap, under=under, policy=Steady()).marks if "surplus" in mark]
        assert len(marks) == marked


# What the check counts.


def test_the_check_takes_an_offer_that_is_gone_for_one_of_single_pilots() -> None:
    snap = snapshot((demand(idle=9),))
    one = replace(submit(1), offer=OfferKey("west/gone"))
    assert "together" not in planted(snap, one)
    assert "together" in planted(snap, replace(one, together=2))


def test_the_check_looks_at_the_jobs_that_lose_something_and_at_no_other() -> None:
    under = rules(site("west", pairs()))
    others = (pending("q0", "other"), pending("q1", "other"), pending("r0", ""), pending("r1", ""))
    pilots = (pending("p0", "j"), pending("p1", "j"), *others)
    snap = snapshot((demand(idle=9),), pilots={"west": pilots})
    both = Withdraw(WEST, (Target(PilotName("p0"), "j"), Target(PilotName("p1"), "j")))
    assert planted(snap, both, under, because=Because.OVERDUE) == set()
    tracks = tuple(
        replace(t, leaving="withdrawn") if t.name == "p1" else t for t in picture_of(snap, under=under).tracks
    )
    half = Withdraw(WEST, (Target(PilotName("p0"), "j"),))
    assert planted(snap, half, under, memory(tracks=tracks), because=Because.OVERDUE) == set()


# Failures are those of requests.


@pytest.mark.parametrize(
    ("handles", "failures"), [(("j", "j"), 1), (("j", "k"), 2), (("", ""), 2), (("j", "j", "k"), 2)]
)
def test_pilots_of_one_job_that_fail_together_are_one_failure(
    handles: tuple[str, ...], failures: int
) -> None:
    under = rules(site("west", pairs(), failures_max=9))
    before = tuple(pending(f"p{n}", handle) for n, handle in enumerate(handles))
    tracks = picture_of(snapshot((), pilots={"west": before}), under=under).tracks
    after = tuple(replace(each, state=SiteState.FAILED, since=NOW) for each in before)
    found = picture_of(snapshot((), pilots={"west": after}), memory(tracks=tracks), under)
    assert (found.health_of("west/a").failures, found.health_of("west").failures) == (failures, failures)


def test_the_answer_of_a_request_is_that_of_its_first_pilot() -> None:
    under = rules(site("west", pairs(live_max=2)))
    snap = snapshot((demand(idle=8),))
    picture, plan = picture_of(snap, under=under), plan_of(snap, under=under, policy=Steady())
    (action,) = [a for a in plan.actions if isinstance(a, Submit)]
    mem = remember(picture, plan, [Did("submit", action.names[0], Done())], under)
    assert sorted(t.name for t in mem.tracks) == sorted(action.names)
    mem = remember(picture, plan, [Did("submit", action.names[0], Failed("no"))], under)
    assert (mem.tracks, [h.failures for h in mem.health if h.about == "west/a"]) == ((), [1])


# Sharing out.


def test_what_came_along_for_one_owner_serves_the_next() -> None:
    under = rules(
        site("west", offer("west", together=2)),
        owners=(OwnerRules(ANN, limits(live_max=50)), OwnerRules(BEN, limits(live_max=50))),
    )
    for ann, ben, requests in ((1, 1, 1), (1, 2, 2), (2, 1, 2), (3, 3, 3), (1, 5, 3)):
        group = demand(idle=ann + ben, owners=((ANN, ann), (BEN, ben)))
        plan = plan_of(snapshot((group,)), under=under, policy=Steady())
        assert groups(plan) == [2] * requests
        told = facts_of(plan, "demand:pool: 1 CPU 1GiB")
        assert (told["asked"], told.get("short", 0)) == (2 * requests, 0)
        assert told.get("rounded_up", 0) == 2 * requests - ann - ben


def probing(about: str) -> tuple[Health, ...]:
    return (Health(about, failures=20, opened_at=Instant(NOW - 90), retry_at=Instant(NOW - 30), openings=1),)


@pytest.mark.parametrize(
    ("about", "offers", "requests"),
    [
        ("west", (offer("west", cpus=4, together=4),), [4]),
        ("west", (offer("west", cpus=4), offer("west", "b", cpus=4, together=4)), [1]),
        ("west/a", (offer("west", cpus=4, together=3),), [3]),
        ("west", (offer("west", cpus=4),), [1]),
    ],
)
def test_a_probe_is_one_request_whatever_it_starts(about: str, offers: tuple, requests: list[int]) -> None:
    fits = tuple(each.key for each in offers)
    snap = snapshot((demand(idle=64, fits=fits),))
    plan = plan_of(snap, memory(health=probing(about)), rules(site("west", *offers)), Steady())
    assert groups(plan) == requests


def test_a_probe_of_a_site_is_one_small_request_where_only_that_fits() -> None:
    offers = (offer("west"), offer("west", "b", cpus=4, together=4))
    snap = snapshot((demand(idle=9, fits=("west/a",)),))
    plan = plan_of(snap, memory(health=probing("west")), rules(site("west", *offers)), Steady())
    assert groups(plan) == [1]


def test_a_probe_of_a_site_leaves_room_for_its_largest_request() -> None:
    offers = (offer("west"), offer("west", "b", cpus=4, together=4))
    snap = snapshot((demand(idle=4, fits=("west/b",)),))
    plan = plan_of(snap, memory(health=probing("west")), rules(site("west", *offers)), Steady())
    assert groups(plan) == [4]


# What is said where nothing goes.


def told_of(plan, about: str) -> tuple[str, dict[str, object]]:
    """The reason and those of its facts that are only there where several come together or pools differ."""
    reason = next(d.reason for d in plan.decisions if d.about == about)
    return reason.because.name, {k: v for k, v in reason.facts if k in ("together", "room", "pool", "first")}


def test_a_pool_that_has_its_share_of_a_site_is_named_and_others_go_on() -> None:
    for most, because, facts in (
        (0, "AT_LIMIT", {"pool": "east"}),
        (50, "ASKED_HERE", {}),
    ):
        under = rules(
            site("west", pool_limits=((EAST_POOL, limits(live_max=most)),)),
            pools=(PoolRules(EAST_POOL), PoolRules(SOUTH_POOL)),
        )
        only_east = replace(both_wait(9), demand=both_wait(9).demand[:1])
        plan = plan_of(only_east, under=under, policy=Steady())
        assert told_of(plan, "offer:west/a") == (because, facts)
    under = rules(
        site("west", pool_limits=((EAST_POOL, limits(live_max=0)),)),
        pools=(PoolRules(EAST_POOL), PoolRules(SOUTH_POOL)),
    )
    plan = plan_of(both_wait(9), under=under, policy=Steady())
    assert told_of(plan, "demand:east: 1 CPU 1GiB") == (
        "NO_ROOM",
        {"first": "west/a: the offer is at its limit", "pool": "east"},
    )


def test_a_full_offer_is_not_blamed_on_a_pool() -> None:
    under = rules(site("west", pairs(live_max=1), pool_limits=((POOL, limits(live_max=9)),)))
    plan = plan_of(snapshot((demand(idle=9),)), under=under, policy=Steady())
    at_limit = {"together": 2, "room": 1}
    assert told_of(plan, "offer:west/a") == ("AT_LIMIT", at_limit)
    assert told_of(plan, "demand:pool: 1 CPU 1GiB") == (
        "NO_ROOM",
        {"first": "west/a: the offer is at its limit", **at_limit},
    )


def test_a_pool_with_room_for_a_part_of_a_request_is_named_with_that_room() -> None:
    under = rules(site("west", pairs(), pool_limits=((POOL, limits(live_max=1)),)))
    plan = plan_of(snapshot((demand(idle=9),)), under=under, policy=Steady())
    assert told_of(plan, "offer:west/a") == ("AT_LIMIT", {"together": 2, "pool": "pool", "room": 1})


def test_a_pool_with_room_for_just_one_more_is_not_called_full() -> None:
    under = rules(site("west", pool_limits=((POOL, limits(live_max=2)),)))
    snap = snapshot((demand(idle=1),), pilots={"west": (listed("p", SiteState.PENDING),)})
    assert told_of(plan_of(snap, under=under, policy=Steady()), "offer:west/a") == ("OPEN", {})


def test_what_came_along_earlier_is_no_surplus_of_the_next_shape() -> None:
    other_pool = demand(idle=1, pool=SOUTH_POOL)
    under = rules(
        site("west", offer("west", cpus=4, together=3)), pools=(PoolRules(EAST_POOL), PoolRules(SOUTH_POOL))
    )
    snap = both_wait(1)
    more = (demand(idle=1, pool=EAST_POOL), demand(idle=20, of=shape(cpus=2), pool=EAST_POOL))
    first = (snap.demand[0][0], snap.demand[0][1], Seen(NOW, DemandSight(more)))
    second = (snap.demand[1][0], snap.demand[1][1], Seen(NOW, DemandSight((other_pool,))))
    plan = plan_of(replace(snap, demand=(first, second)), under=under, policy=Steady())
    told = [
        facts_of(plan, f"demand:{name}").get("rounded_up", 0)
        for name in ("east: 1 CPU 1GiB", "east: 2 CPU 1GiB", "south: 1 CPU 1GiB")
    ]
    # One of three is needed; of twenty jobs five fit into those three, and fifteen need eight of nine.
    assert told == [2, 1, 2]


def test_what_came_along_earlier_and_does_not_fit_is_told_where_it_came() -> None:
    offers = (offer("west", cpus=4, together=3), offer("west", "b", cpus=1, together=4))
    first, second = demand(idle=1, fits=("west/b",)), demand(idle=1, of=shape(cpus=4))
    plan = plan_of(snapshot((first, second)), under=rules(site("west", *offers)), policy=Steady())
    told = [facts_of(plan, f"demand:pool: {name}")["rounded_up"] for name in ("1 CPU 1GiB", "4 CPU 1GiB")]
    assert told == [3, 2]


def test_where_pilots_come_alone_each_owner_is_asked_for_apart() -> None:
    group = demand(idle=2, owners=((ANN, 1), (BEN, 1)))
    under = rules(site("west", offer("west", cpus=4)), owners=(OwnerRules(ANN, limits(live_max=9)),))
    plan = plan_of(snapshot((group,)), under=under, policy=Steady())
    assert sorted(a.owner for a in plan.actions if isinstance(a, Submit)) == ["ann", "ben"]


def with_pool(most: int, *offers, **more) -> Rules:
    return rules(site("west", *offers, **more), pools=(PoolRules(POOL, Limits(live_max=most)),))


SINGLE_AND_FOUR = (offer("west", cpus=1), offer("west", "b", cpus=1, together=4))
BOTH = ("west/a", "west/b")
NOTHING_FOR_ANN = (OwnerRules(ANN, limits(live_max=0)),)


@pytest.mark.parametrize(
    ("most", "offers", "owners", "expected"),
    [
        (3, SINGLE_AND_FOUR[1:], (), ("POOL_AT_LIMIT", {"together": 4, "room": 3})),
        (0, SINGLE_AND_FOUR, (), ("POOL_AT_LIMIT", {})),
        (2, SINGLE_AND_FOUR, NOTHING_FOR_ANN, ("OWNER_AT_LIMIT", {})),
        (4, SINGLE_AND_FOUR[1:], NOTHING_FOR_ANN, ("OWNER_AT_LIMIT", {"together": 4, "room": 0})),
        (
            9,
            SINGLE_AND_FOUR[1:],
            (OwnerRules(ANN, limits(live_max=3)), OwnerRules(BEN, limits(live_max=1))),
            ("OWNER_AT_LIMIT", {"together": 4, "room": 3}),
        ),
    ],
)
def test_the_limit_that_has_no_room_for_a_request_is_named(most, offers, owners, expected) -> None:
    under = replace(with_pool(most, *offers), owners=owners)
    fits = BOTH if len(offers) > 1 else BOTH[1:]
    group = demand(idle=8, fits=fits, owners=((ANN, 4), (BEN, 4)) if len(owners) > 1 else ((ANN, 8),))
    plan = plan_of(snapshot((group,)), under=under, policy=Steady())
    assert groups(plan) == []
    assert told_of(plan, "demand:pool: 1 CPU 1GiB") == expected


@pytest.mark.parametrize(("most", "because"), [(0, "POOL_AT_LIMIT"), (1, "NO_ROOM")])
def test_with_every_offer_full_the_pool_is_blamed_only_where_it_has_no_room_at_all(
    most: int, because: str
) -> None:
    under = with_pool(most, offer("west", limits=limits(live_max=0)))
    plan = plan_of(snapshot((demand(idle=9),)), under=under, policy=Steady())
    assert told_of(plan, "demand:pool: 1 CPU 1GiB")[0] == because
