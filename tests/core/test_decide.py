"""Deciding on small worlds: what is asked for, where, and the reason beside every number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import (
    NOW,
    POOL,
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
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Failed, Plan, Reason, Refused, Seen, Unseen
from glidepath.core.provision.memory import Health, NodeHealth
from glidepath.core.provision.offer import OwnerRules, PoolRules
from glidepath.core.provision.pilot import SiteState, Submit
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.sight import Pause, SiteListing, Window
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
)

UNSEEN = Unseen(Instant(NOW - 30), "timed out")
BOTH = ("east/a", "west/a")
TWO_SITES = rules(site("east", offer("east")), site("west"))


def quiet(now: int = 0) -> tuple[tuple[str, Instant], ...]:
    return (("quiet", Instant(now)),)


def test_a_whole_plan_reads_like_its_reasons() -> None:
    assert plan_of(snapshot((demand(idle=2),))) == Plan(
        cycle=1,
        at=NOW,
        decisions=(
            Decision(
                "demand:pool: 1 CPU 1GiB",
                Reason(
                    Because.ASKED,
                    (
                        ("idle", 2),
                        ("free", 0),
                        ("coming", 0),
                        ("wanted", 2),
                        ("rule", "idle = 2, below nmin = 5"),
                        ("asked", 2),
                    ),
                ),
            ),
            Decision("site:west", Reason(Because.SITE_OPEN, (("live", 0),))),
            Decision(
                "offer:west/a",
                Reason(Because.ASKED_HERE, (("live", 0), ("pending", 0), ("asked", 2))),
                Submit(
                    site=SiteName("west"),
                    offer=OfferKey("west/a"),
                    pool=POOL,
                    size=Resources(1000, 1024, 100_000),
                    traits=(),
                    lifetime_s=14 * 3600,
                    idle_s=600,
                    names=(PilotName("gp-test-1-0"), PilotName("gp-test-1-1")),
                    owner=Owner("alice"),
                ),
            ),
        ),
        wake_after_s=10,
        marks=quiet(),
    )


@pytest.mark.parametrize(
    ("idle", "wanted"), [(0, 0), (1, 1), (4, 4), (5, 5), (8, 5), (20, 5), (24, 6), (100, 25), (1000, 250)]
)
def test_the_seed_rule_asks_for_the_published_number_of_waiting_pilots(idle: int, wanted: int) -> None:
    assert sum(asked(plan_of(snapshot((demand(idle=idle),)))).values()) == wanted


def test_four_idle_jobs_and_two_sites_ask_for_four_pilots_not_seven() -> None:
    snap = snapshot((demand(idle=4, fits=BOTH),), pilots={"east": (), "west": ()})
    assert asked(plan_of(snap, under=TWO_SITES)) == {"east/a": 2, "west/a": 2}


def test_pilots_on_their_way_are_not_asked_for_again() -> None:
    under = rules()
    snap = snapshot((demand(idle=20),))
    plan, mem = after(snap, memory(), under)
    assert sum(asked(plan).values()) == 5
    plan, mem = after(later(snap, 10), mem, under)
    assert (asked(plan), reason(plan, "demand:pool: 1 CPU 1GiB")) == ({}, "ENOUGH_PRESSURE")


def test_unclaimed_slots_are_subtracted_before_the_rule() -> None:
    pilots = tuple(listed(f"p{n}") for n in range(3))
    snap = snapshot((demand(idle=4),), pilots={"west": pilots}, slots=tuple(slot(f"p{n}") for n in range(3)))
    assert sum(asked(plan_of(snap)).values()) == 1


@pytest.mark.parametrize(
    ("free", "ends_in_s", "run_s", "wanted"),
    [
        (Resources(1000, 1024, 9000), 7200, 3600, 0),
        (Resources(1000, 1024, 9000), 1800, 3600, 1),  # dies before the job could end
        (Resources(1000, 512, 9000), 7200, 3600, 1),  # memory-starved
        (Resources(1000, 1024, 9000), 200, None, 1),  # too little life left for anyone
        (Resources(500, 4096, 9000), 7200, 3600, 1),
    ],
)
def test_a_free_slot_counts_only_if_its_resources_and_remaining_life_fit(
    free, ends_in_s, run_s, wanted
) -> None:
    heard = slot("p1", claims=1, free=free, ends_at=Instant(NOW + ends_in_s))
    snap = snapshot((demand(idle=1, run_s_max=run_s),), pilots={"west": (listed("p1"),)}, slots=(heard,))
    assert sum(asked(plan_of(snap)).values()) == wanted


def test_a_gpu_full_pilot_is_no_supply_for_a_gpu_job() -> None:
    gpu = offer("west", "a", size=Resources(8000, 8192, 9000, 2))
    heard = slot("p1", claims=2, free=Resources(6000, 6000, 9000, 0))
    job = demand(idle=1, of=shape(1, 512, gpus=1))
    snap = snapshot((job,), pilots={"west": (listed("p1", size=gpu.size),)}, slots=(heard,))
    assert asked(plan_of(snap, under=rules(site("west", gpu)))) == {"west/a": 1}


@pytest.mark.parametrize(
    ("demands", "pilots"),
    [
        ((demand(idle=48),), 1),
        ((demand(idle=49),), 2),
        (tuple(demand(idle=1, of=shape(1, 100 + n)) for n in range(40)), 1),
        ((demand(idle=2, of=shape(24, 1024)), demand(idle=3)), 2),
        ((demand(idle=3, of=shape(1, 40 * 1024)),), 3),
    ],
)
def test_demand_is_counted_in_pilots_worth_also_across_shapes(demands, pilots) -> None:
    big = offer("west", "a", size=Resources(48_000, 48 * 1024, 9000))
    plan = plan_of(snapshot(demands), under=rules(site("west", big)), policy=Steady())
    assert asked(plan) == {"west/a": pilots}


def test_fitted_offers_are_sized_from_the_shape_and_kinds_are_provisioned_apart() -> None:
    fitted = offer(
        "west",
        "a",
        size=Resources(16_000, 65_536, 100_000, 4),
        size_min=Resources(1000, 4096, 8000),
        step=Resources(1000, 1024, 0),
        choices=(("gpu_type", ("a10", "h100")), ("volume", ("data",))),
    )
    plain = demand(idle=1, of=shape(2, 5000))
    gpu = demand(idle=1, of=shape(1, 100, gpus=1, gpu_type="a10", volume="data"))
    plan = plan_of(snapshot((plain, gpu)), under=rules(site("west", fitted)))
    kinds = [(a.size, a.traits) for a in plan.actions if isinstance(a, Submit)]
    assert kinds == [
        (Resources(1000, 4096, 8000, 1), (("gpu_type", "a10"), ("volume", "data"))),
        (Resources(2000, 5120, 8000), ()),
    ]


def test_a_pilot_fitted_for_one_kind_does_not_count_for_another() -> None:
    fitted = offer("west", "a", size=Resources(8000, 8192, 0), size_min=Resources(1000, 1024, 0))
    coming = listed("p1", SiteState.PENDING, size=Resources(4000, 4096, 0))
    snap = snapshot((demand(idle=1),), pilots={"west": (coming,)})
    plan = plan_of(snap, under=rules(site("west", fitted)))
    assert [a.size for a in plan.actions if isinstance(a, Submit)] == [Resources(1000, 1024, 0)]


@pytest.mark.parametrize(
    ("west", "east", "expected"),
    [
        ({"weight": 300}, {"weight": 100}, {"west/a": 9, "east/a": 3}),
        ({}, {"price_milli": 2000}, {"west/a": 9, "east/a": 3}),
        ({"limits": limits(live_max=2)}, {}, {"west/a": 2, "east/a": 10}),
        ({"limits": limits(pending_max=1)}, {"limits": limits(per_cycle_max=4)}, {"west/a": 1, "east/a": 4}),
    ],
)
def test_pilots_are_shared_by_weight_price_and_room(west, east, expected) -> None:
    under = rules(site("east", offer("east", **east)), site("west", offer("west", **west)))
    snap = snapshot((demand(idle=12, fits=BOTH),), pilots={"east": (), "west": ()})
    assert asked(plan_of(snap, under=under, policy=Steady())) == expected


def test_a_slow_or_failing_site_gets_less() -> None:
    snap = snapshot((demand(idle=12, fits=BOTH),), pilots={"east": (), "west": ()})
    slow = memory(health=(Health("east/a", latency_s=1800),))
    failing = memory(health=(Health("east/a", failures=2),))
    assert asked(plan_of(snap, slow, TWO_SITES, Steady())) == {"west/a": 10, "east/a": 2}
    assert asked(plan_of(snap, failing, TWO_SITES, Steady())) == {"west/a": 10, "east/a": 2}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"sites": (site("west", limits=limits(live_max=3)),)}, 3),
        ({"sites": (site("west", offer("west", limits=limits(live_max=2))),)}, 2),
        ({"pools": (PoolRules(POOL, limits(live_max=1)),)}, 1),
        ({"limits": limits(live_max=4)}, 4),
        ({"owners": (OwnerRules(Owner("alice"), limits(live_max=2)),)}, 2),
        ({"owners": (OwnerRules(Owner("*"), limits(live_max=3)),)}, 3),
        ({"owners": (OwnerRules(Owner("bob"), limits(live_max=0)),)}, 9),
        ({"sites": (site("west", limits=limits(pending_max=3)),)}, 3),
        ({"sites": (site("west", limits=limits(per_cycle_max=2)),)}, 2),
        ({"sites": (site("west", limits=limits(per_s_max=1)),)}, 9),
        ({"sites": (site("west", limits=limits(live_max=0)),)}, 0),
    ],
)
def test_every_limit_holds_by_itself(more, wanted: int) -> None:
    sites = more.pop("sites", (site("west"),))
    plan = plan_of(snapshot((demand(idle=9),)), under=rules(*sites, **more), policy=Steady())
    assert sum(asked(plan).values()) == wanted


def test_a_limit_per_second_counts_the_seconds_since_the_last_cycle() -> None:
    under = rules(site("west", limits=limits(per_s_max=2)))
    plan = plan_of(snapshot((demand(idle=90),)), memory(at=Instant(NOW - 3)), under, Steady())
    assert sum(asked(plan).values()) == 6


def test_owners_share_what_is_asked_and_their_limits_count_what_was_asked_in_their_name() -> None:
    under = rules(owners=(OwnerRules(Owner("eve"), limits(live_max=1)),))
    group = demand(idle=9, owners=((Owner("eve"), 6), (Owner("bob"), 3)))
    plan = plan_of(snapshot((group,)), under=under, policy=Steady())
    assert [(a.owner, len(a.names)) for a in plan.actions if isinstance(a, Submit)] == [
        ("bob", 3),
        ("eve", 1),
    ]


@pytest.mark.parametrize(
    ("change", "about", "because"),
    [
        ({"pilots": {"west": UNSEEN}}, "offer:west/a", "SITE_UNSEEN"),
        ({"pilots": {"west": Seen(NOW, SiteListing((), complete=False))}}, "offer:west/a", "SITE_PARTIAL"),
        ({"pilots": {"west": Seen(Instant(NOW - 500), SiteListing(()))}}, "offer:west/a", "SITE_STALE"),
        ({"slots": UNSEEN}, "demand:pool: 1 CPU 1GiB", "POOL_UNSEEN"),
        ({"pauses": (Pause("site:west", "bob", "moving"),)}, "offer:west/a", "PAUSED"),
        ({"pauses": (Pause("offer:west/a", "bob"),)}, "offer:west/a", "PAUSED"),
        ({"pauses": (Pause("pool:pool", "bob"),)}, "demand:pool: 1 CPU 1GiB", "POOL_PAUSED"),
        (
            {"windows": (Window(SiteName("west"), Instant(NOW - 5), Instant(NOW + 50), "psu"),)},
            "offer:west/a",
            "IN_WINDOW",
        ),
        (
            {"windows": (Window(SiteName("west"), Instant(NOW + 600), Instant(NOW + 900), "psu"),)},
            "offer:west/a",
            "WINDOW_NEAR",
        ),
    ],
)
def test_nothing_is_asked_for_where_it_must_not_be_and_the_reason_is_told(change, about, because) -> None:
    plan = plan_of(snapshot((demand(idle=9),), **change))
    assert (plan.actions, reason(plan, about)) == ((), because)


@pytest.mark.parametrize(
    ("group", "because"),
    [
        (demand(idle=0, running=3), "NOTHING_WAITS"),
        (demand(idle=3, fits=()), "NO_OFFER_FITS"),
        (demand(idle=3, run_s_max=20 * 3600), "NO_OFFER_LASTS"),
        (demand(idle=3, fits=("gone/x",)), "NO_OFFER_FITS"),
    ],
)
def test_a_shape_that_gets_nothing_is_told_why(group, because) -> None:
    plan = plan_of(snapshot((group,)))
    assert (plan.actions, reason(plan, f"demand:{group.name}")) == ((), because)


@pytest.mark.parametrize(("opens_in_s", "lives_s"), [(100, []), (101, [1])])
def test_no_pilot_without_any_life_is_asked_for_before_a_window(opens_in_s: int, lives_s: list[int]) -> None:
    window = Window(SiteName("west"), Instant(NOW + opens_in_s), Instant(NOW + 9000), "psu")
    known = memory(health=(Health("west/a", latency_s=100),))
    plan = plan_of(snapshot((demand(idle=1),), windows=(window,)), known, rules(useful_s_min=0, left_s_min=0))
    assert [each.lifetime_s for each in plan.actions if isinstance(each, Submit)] == lives_s


def test_a_pilot_before_a_window_is_asked_for_with_the_life_that_is_left() -> None:
    window = Window(SiteName("west"), Instant(NOW + 7200), Instant(NOW + 9000), "psu")
    plan = plan_of(snapshot((demand(idle=1, run_s_max=3600),), windows=(window,)))
    assert [a.lifetime_s for a in plan.actions if isinstance(a, Submit)] == [7200]
    long = plan_of(snapshot((demand(idle=1, run_s_max=8000),), windows=(window,)))
    assert reason(long, "demand:pool: 1 CPU 1GiB run<=8000s") == "NO_OFFER_LASTS"


def test_after_a_lost_memory_a_laggy_site_is_watched_before_the_first_ask() -> None:
    under = rules(site("west", listing_lag_s=180))
    snap = snapshot((demand(idle=3),))
    early = plan_of(snap, memory(at=None, born_at=Instant(NOW - 60)), under)
    late = plan_of(snap, memory(at=None, born_at=Instant(NOW - 181)), under)
    assert (reason(early, "offer:west/a"), asked(early), asked(late)) == ("SITE_SETTLING", {}, {"west/a": 3})


def test_failures_in_a_row_shrink_the_ask_open_the_breaker_and_a_single_probe_reopens_it() -> None:
    under = rules(site("west", failures_max=5, backoff_s=60))
    snap, mem, calm = snapshot((demand(idle=100),)), memory(), Steady(reserve_percent=0)
    counts = []
    for _ in range(3):
        plan, mem = after(snap, mem, under, calm, outcome=Failed("no route"))
        counts.append(sum(asked(plan).values()))
        snap = later(snap, 10)
    assert (counts, reason(plan, "offer:west/a")) == ([100, 0, 0], "BREAKER_OPEN")
    snap = later(snap, 60)
    plan, mem = after(snap, mem, under, calm)
    assert asked(plan) == {"west/a": 1}
    plan, mem = after(later(snap, 10), mem, under, calm)
    assert (asked(plan), reason(plan, "offer:west/a")) == ({}, "BREAKER_PROBE")
    name = mem.tracks[0].name
    joined = replace(
        later(snap, 20),
        sites=snapshot(pilots={"west": (listed(name),)}, now=Instant(snap.now + 20)).sites,
        slots=snapshot(slots=(slot(name, 1),), now=Instant(snap.now + 20)).slots,
    )
    plan, mem = after(joined, mem, under, calm)
    assert sum(asked(plan).values()) == 100


def test_a_refusal_closes_the_offer_for_its_own_wait_and_shows_the_words() -> None:
    under = rules(site("west", refused_s=600))
    snap = snapshot((demand(idle=3),))
    _, mem = after(snap, memory(), under, outcome=Refused("quota exceeded: pods=10"))
    plan, mem = after(later(snap, 599), mem, under)
    told = next(d.reason for d in plan.decisions if d.about == "offer:west/a")
    assert (told.because, dict(told.facts)["last"]) == (Because.BREAKER_OPEN, "quota exceeded: pods=10")
    plan, _ = after(later(snap, 601), mem, under)
    assert asked(plan) == {"west/a": 1}


def test_nodes_in_quarantine_are_named_to_be_avoided() -> None:
    bad = NodeHealth(SiteName("west"), NodeName("n7"), 3, Instant(NOW + 60))
    plan = plan_of(snapshot((demand(idle=1),)), memory(nodes=(bad,)))
    assert [a.avoid for a in plan.actions if isinstance(a, Submit)] == [("n7",)]


def test_a_pilot_pending_beyond_patience_no_longer_keeps_others_from_being_asked_for() -> None:
    under = rules(site("east", offer("east")), site("west", patience_s=900))
    stuck = listed("p1", SiteState.PENDING, asked_at=Instant(NOW - 901))
    snap = snapshot((demand(idle=1, fits=BOTH),), pilots={"west": (stuck,), "east": ()})
    assert asked(plan_of(snap, under=under)) == {"east/a": 1}


@pytest.mark.parametrize(("quiet_before", "wait_s"), [(0, 20), (1, 40), (2, 80), (3, 120), (9, 120)])
def test_the_cadence_stretches_while_nothing_happens(quiet_before: int, wait_s: int) -> None:
    assert plan_of(snapshot(), memory(quiet=quiet_before)).wake_after_s == wait_s


def test_the_cadence_is_short_while_jobs_wait_and_ends_where_something_is_due() -> None:
    assert plan_of(snapshot((demand(idle=1, fits=()),)), memory(quiet=9)).wake_after_s == 10
    window = Window(SiteName("west"), Instant(NOW + 47), Instant(NOW + 99), "")
    assert plan_of(snapshot(windows=(window,)), memory(quiet=9)).wake_after_s == 47


def test_two_pools_are_served_apart_and_a_site_may_accept_only_one() -> None:
    other = PoolName("other")
    under = rules(site("west", pools=(POOL,)), pools=(PoolRules(other), PoolRules(POOL)))
    snap = snapshot((demand(idle=2), demand(idle=2, pool=other)))
    snap = replace(snap, slots=(*snap.slots, (other, snap.slots[0][1])))
    plan = plan_of(snap, under=under)
    assert {a.pool for a in plan.actions if isinstance(a, Submit)} == {POOL}
    assert reason(plan, "demand:other: 1 CPU 1GiB") == "NO_OFFER_FITS"


def test_a_limit_that_spans_sites_waits_for_every_site_after_a_lost_memory() -> None:
    under = rules(site("east", offer("east")), site("west"), pools=(PoolRules(POOL, limits(live_max=9)),))
    snap = snapshot((demand(idle=2, fits=BOTH),), pilots={"west": (), "east": UNSEEN})
    lost = plan_of(snap, memory(at=None), under)
    kept = plan_of(snap, memory(), under)
    assert (asked(lost), reason(lost, "demand:pool: 1 CPU 1GiB"), asked(kept)) == (
        {},
        "SITES_UNPROVEN",
        {"west/a": 2},
    )


def test_held_demand_keeps_its_claim_on_pilots_but_asks_for_none() -> None:
    under = rules()
    _, mem = after(snapshot((demand(idle=3),)), memory(), under)
    blind = later(snapshot(UNSEEN), 10)
    plan, mem = after(blind, mem, under)
    assert (plan.actions, reason(plan, "demand:pool: 1 CPU 1GiB")) == ((), "HELD_DEMAND")
