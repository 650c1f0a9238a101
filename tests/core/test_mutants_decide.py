"""The plan to the letter: its lines in their order, with their numbers, and when the next plan is due.

Pictures of small scenes come in, whole plans and whole decisions are compared.
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
    limits,
    listed,
    memory,
    offer,
    plan_of,
    rules,
    shape,
    site,
    slot,
    snapshot,
)
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Fact, Plan, Reason, Seen, Unseen
from glidepath.core.provision.decide import base36
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Health, Held, NodeHealth
from glidepath.core.provision.offer import OwnerRules, PoolRules
from glidepath.core.provision.pilot import PilotAction, SiteState, Submit
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.sight import Pause, PoolSlots, Window
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
    SourceName,
)

EAST, WEST = SiteName("east"), SiteName("west")
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
ALICE, BOB = Owner("alice"), Owner("bob")
BUSY = {"pilots": {"west": (listed("p1"),)}, "slots": (slot("p1", 1),)}


def told(plan: Plan[PilotAction], start: str) -> list[Decision[PilotAction]]:
    return [each for each in plan.decisions if each.about.startswith(start)]


def test_a_plan_tells_of_demand_then_sites_then_offers_and_is_the_next_of_its_life() -> None:
    mem = memory(cycle=45, quiet=7)
    plan = plan_of(snapshot((demand(idle=2),), **BUSY), mem)
    numbers = (("idle", 2), ("free", 0), ("coming", 0))
    wanted = (("wanted", 2), ("rule", "idle = 2, below nmin = 5"), ("asked", 2))
    submit = Submit(
        site=WEST,
        offer=OfferKey("west/a"),
        pool=POOL,
        size=Resources(1000, 1024, 100_000),
        traits=(),
        lifetime_s=14 * 3600,
        idle_s=600,
        names=(PilotName("gp-test-1a-0"), PilotName("gp-test-1a-1")),
        owner=ALICE,
    )
    room = (("live", 1), ("pending", 0), ("asked", 2))
    assert plan == Plan(
        cycle=46,
        at=NOW,
        decisions=(
            Decision("demand:pool: 1 CPU 1GiB", Reason(Because.ASKED, (*numbers, *wanted))),
            Decision("site:west", Reason(Because.SITE_OPEN, (("live", 1),))),
            Decision("offer:west/a", Reason(Because.ASKED_HERE, room), submit),
        ),
        wake_after_s=10,
        marks=(("quiet", Instant(0)),),
    )


def test_held_demand_takes_the_free_place_before_what_is_fresh() -> None:
    gone = SourceName("ap2")
    held, fresh = demand(idle=1, of=shape(1, 512)), demand(idle=1, of=shape(1, 256))
    snap = snapshot(pilots={"west": (listed("p1"),)}, slots=(slot("p1"),))
    rows = ((POOL, SOURCE, Seen(NOW, DemandSight((fresh,)))), (POOL, gone, UNSEEN))
    mem = memory(held=(Held(POOL, gone, Instant(NOW - 30), (held,)),))
    plan = plan_of(replace(snap, demand=rows), mem)
    found = [(each.about, each.reason.because, each.reason.facts[:3]) for each in told(plan, "demand:")]
    assert found == [
        (f"demand:{held.name}", Because.HELD_DEMAND, (("idle", 1), ("free", 1), ("coming", 0))),
        (f"demand:{fresh.name}", Because.ASKED, (("idle", 1), ("free", 0), ("coming", 0))),
    ]


@pytest.mark.parametrize(
    ("seen", "quiet", "wait_s"),
    [
        ({}, 2, 40),
        (BUSY, 2, 40),
        ({"demands": (demand(idle=0, running=1),), **BUSY}, 2, 40),
        # It acts; jobs wait that nobody takes; a pilot that is on its way takes them.
        ({"demands": (demand(idle=1),)}, 0, 10),
        ({"demands": (demand(idle=1, fits=()),)}, 0, 10),
        ({"demands": (demand(idle=1),), "pilots": {"west": (listed("p1", SiteState.PENDING),)}}, 0, 10),
    ],
)
def test_a_cycle_is_quiet_when_nothing_is_done_nothing_is_short_and_nothing_is_on_its_way(
    seen: dict[str, Any], quiet: int, wait_s: int
) -> None:
    plan = plan_of(snapshot(**seen), memory(quiet=1))
    assert (plan.marks, plan.wake_after_s) == ((("quiet", Instant(quiet)),), wait_s)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (10, 11), (11, 12), (12, 12), (99, 12)])
def test_quiet_cycles_are_counted_up_to_a_dozen(before: int, after: int) -> None:
    assert plan_of(snapshot(), memory(quiet=before)).marks == (("quiet", Instant(after)),)


@pytest.mark.parametrize(
    ("window", "retry_in_s", "wait_s"),
    [
        (None, None, 40),
        ((25, 90), None, 25),
        ((-5, 30), None, 30),
        ((-5, 90), None, 40),
        ((0, 90), None, 40),
        ((-90, 0), None, 40),
        ((-90, -5), None, 40),
        ((4, 90), None, 10),
        (None, 35, 35),
        (None, 0, 40),
        (None, -5, 40),
        ((25, 90), 15, 15),
        ((25, 90), 35, 25),
    ],
)
def test_the_next_cycle_is_never_past_what_is_due_and_what_was_due_hurries_nobody(
    window: tuple[int, int] | None, retry_in_s: int | None, wait_s: int
) -> None:
    windows = (Window(WEST, Instant(NOW + window[0]), Instant(NOW + window[1])),) if window else ()
    retry_at = None if retry_in_s is None else Instant(NOW + retry_in_s)
    health = (Health("west/a", failures=1, retry_at=retry_at), Health("west"))
    plan = plan_of(snapshot(windows=windows), memory(quiet=1, health=health))
    assert plan.wake_after_s == wait_s


BAD_NODES = (
    NodeHealth(WEST, NodeName("n9"), 3, Instant(NOW + 60)),
    NodeHealth(EAST, NodeName("n5"), 3, Instant(NOW + 60)),
    NodeHealth(WEST, NodeName("n2"), 3, Instant(NOW + 60)),
    NodeHealth(WEST, NodeName("n4"), 1, None, "", Instant(NOW - 10)),
)


def test_every_site_is_told_of_with_its_own_pilots_and_its_own_nodes_in_quarantine() -> None:
    names = (SiteName("afar"), EAST, WEST)
    under = rules(*(site(name) for name in names))
    pilots = {
        "afar": UNSEEN,
        "east": (listed("e1", key="east/a"),),
        "west": (listed("p1"), listed("p2"), listed("p3", SiteState.PENDING)),
    }
    heard = tuple(slot(name, 1) for name in ("e1", "p1", "p2"))
    snap = snapshot((demand(idle=1),), pilots=pilots, slots=heard)
    plan = plan_of(snap, memory(nodes=BAD_NODES), under)
    assert told(plan, "site:") == [
        Decision("site:afar", Reason(Because.SITE_UNSEEN, (("live", 0),))),
        Decision("site:east", Reason(Because.SITE_OPEN, (("live", 1), ("quarantined", "n5")))),
        Decision("site:west", Reason(Because.SITE_OPEN, (("live", 3), ("quarantined", "n2,n9")))),
    ]


def test_pilots_are_kept_from_the_nodes_in_quarantine_at_their_own_site() -> None:
    under = rules(site("east"), site("west"))
    rows = (demand(idle=1, fits=("east/a",)), demand(idle=1, of=shape(1, 512)))
    plan = plan_of(snapshot(rows, pilots={"east": (), "west": ()}), memory(nodes=BAD_NODES), under)
    found = [(each.site, each.avoid) for each in plan.actions if isinstance(each, Submit)]
    assert found == [(EAST, ("n5",)), (WEST, ("n2", "n9"))]


def test_submits_of_one_offer_go_by_pool_size_traits_and_owner_and_share_one_run_of_names() -> None:
    other = PoolName("another")
    fitted = offer(
        size=Resources(8000, 8192, 100_000),
        size_min=Resources(1000, 1024, 0),
        choices=(("os", ("el7", "el9")),),
        traits=(("arch", "x86"),),
        lifetime_s=7200,
        idle_s=77,
    )
    owners = ((BOB, 2), (ALICE, 1))
    rows = (
        demand(idle=1, of=shape(4, 4096, os="el9"), owners=((BOB, 1),)),
        demand(idle=2, of=shape(4, 4096, os="el7"), owners=((BOB, 2),)),
        demand(idle=3, of=shape(2, 2048), owners=owners),
        demand(idle=1, of=shape(8, 8192), owners=((ALICE, 1),), pool=other),
    )
    snap = replace(
        snapshot(),
        demand=(
            (POOL, SOURCE, Seen(NOW, DemandSight(rows[:3]))),
            (other, SOURCE, Seen(NOW, DemandSight(rows[3:]))),
        ),
        slots=((POOL, Seen(NOW, PoolSlots(()))), (other, Seen(NOW, PoolSlots(())))),
    )
    under = rules(
        site("west", fitted),
        pools=(PoolRules(POOL), PoolRules(other)),
        owners=(OwnerRules(Owner("*"), limits(live_max=99)),),
    )
    plan = plan_of(snap, memory(cycle=1295), under, Steady(reserve_percent=0))
    reason = Reason(Because.ASKED_HERE, (("live", 0), ("pending", 0), ("asked", 7)))
    x86, serial = ("arch", "x86"), 0
    expected = []
    for pool, cpus, traits, owner, count in (
        (other, 8, (x86,), ALICE, 1),
        (POOL, 2, (x86,), ALICE, 1),
        (POOL, 2, (x86,), BOB, 2),
        (POOL, 4, (x86, ("os", "el7")), BOB, 2),
        (POOL, 4, (x86, ("os", "el9")), BOB, 1),
    ):
        submit = Submit(
            site=WEST,
            offer=OfferKey("west/a"),
            pool=pool,
            size=Resources(cpus * 1000, cpus * 1024, 0),
            traits=traits,
            lifetime_s=7200,
            idle_s=77,
            names=tuple(PilotName(f"gp-test-100-{n}") for n in range(serial, serial + count)),
            owner=owner,
        )
        serial += count
        expected.append(Decision("offer:west/a", reason, submit))
    assert told(plan, "offer:") == expected


NOBODY: tuple[Fact, ...] = (("live", 0), ("pending", 0), ("asked", 0))
FULL: tuple[Fact, ...] = (("live", 1), ("pending", 0), ("asked", 0))


@pytest.mark.parametrize(
    ("seen", "of_offer", "of_site", "reason"),
    [
        ({}, {}, {}, Reason(Because.NO_DEMAND, NOBODY)),
        ({"demands": (demand(idle=1, fits=()),)}, {}, {}, Reason(Because.NO_DEMAND, NOBODY)),
        (
            {"demands": (demand(idle=1),), "pilots": {"west": (listed("p1"),)}, "slots": (slot("p1"),)},
            {},
            {},
            Reason(Because.OPEN, FULL),
        ),
        ({"demands": (demand(idle=0, running=1),), **BUSY}, {}, {}, Reason(Because.OPEN, FULL)),
        # At its limit, whoever sets it, and whether or not somebody waits.
        (BUSY, {"live_max": 1}, {}, Reason(Because.AT_LIMIT, FULL)),
        (BUSY, {}, {"live_max": 1}, Reason(Because.AT_LIMIT, FULL)),
        (BUSY, {"live_max": 2}, {"live_max": 2}, Reason(Because.NO_DEMAND, FULL)),
        ({"demands": (demand(idle=1),), **BUSY}, {"live_max": 1}, {}, Reason(Because.AT_LIMIT, FULL)),
        ({"demands": (demand(idle=1),), **BUSY}, {}, {"live_max": 1}, Reason(Because.AT_LIMIT, FULL)),
        (
            {"pauses": (Pause("site:west", "bob", "moving"),)},
            {},
            {},
            Reason(Because.PAUSED, (*NOBODY, ("by", "bob"), ("why", "moving"))),
        ),
        (
            {"demands": (demand(idle=9),), "pauses": (Pause("site:west", "bob", "moving", drain=True),)},
            {},
            {},
            Reason(Because.DRAINED, (*NOBODY, ("by", "bob"), ("why", "moving"))),
        ),
        (
            {"demands": (demand(idle=9),), "pauses": (Pause("offer:west/a", "bob", "", drain=True),)},
            {},
            {},
            Reason(Because.DRAINED, (*NOBODY, ("by", "bob"), ("why", ""))),
        ),
        (
            {"demands": (demand(idle=1),), "pilots": {"west": UNSEEN}},
            {"live_max": 0},
            {},
            Reason(Because.SITE_UNSEEN, (*NOBODY, ("age_s", 30), ("why", "timed out"))),
        ),
    ],
)
def test_an_offer_of_which_nothing_is_asked_says_why_in_one_line(
    seen: dict[str, Any], of_offer: dict[str, int], of_site: dict[str, int], reason: Reason
) -> None:
    under = rules(site("west", offer(limits=limits(**of_offer)), limits=limits(**of_site)))
    assert told(plan_of(snapshot(**seen), under=under), "offer:") == [Decision("offer:west/a", reason)]


def test_an_offer_that_gives_its_last_pilot_says_that_it_is_asked() -> None:
    under = rules(site("west", offer(limits=limits(live_max=1))))
    plan = plan_of(snapshot((demand(idle=3),)), under=under)
    room = (("live", 0), ("pending", 0), ("asked", 1))
    assert [each.reason for each in told(plan, "offer:")] == [Reason(Because.ASKED_HERE, room)]


@pytest.mark.parametrize(
    ("number", "digits"),
    [
        (0, "0"),
        (9, "9"),
        (10, "a"),
        (35, "z"),
        (36, "10"),
        (71, "1z"),
        (1295, "zz"),
        (1296, "100"),
        (46_655, "zzz"),
        (46_656, "1000"),
        (1_000_000, "lfls"),
    ],
)
def test_numbers_in_names_are_written_with_digits_and_small_letters(number: int, digits: str) -> None:
    assert base36(number) == digits
    assert int(digits, 36) == number
