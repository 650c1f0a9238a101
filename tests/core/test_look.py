"""Reading a snapshot: unseen is not empty, gone is not done, pilots stay on the books until proof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import (
    NOW,
    POOL,
    SEEN_BEFORE,
    SOURCE,
    after,
    demand,
    later,
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
from glidepath.core.cycle import Seen, Unseen, Unsure
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Held
from glidepath.core.provision.offer import PoolRules
from glidepath.core.provision.pilot import PilotPhase, SiteState, Track
from glidepath.core.provision.sight import PoolSlots, SiteListing
from glidepath.core.quantity import Instant, OfferKey, PilotName, Resources, SiteName

P = PilotPhase
UNSEEN = Unseen(Instant(NOW - 30), "timed out")


def track(name: str = "p1", phase: PilotPhase = P.PENDING, **more: object) -> Track:
    asked_at = more.pop("asked_at", Instant(NOW - 100))
    return Track(
        PilotName(name),
        SiteName("west"),
        OfferKey("west/a"),
        POOL,
        Resources(1000, 1024, 100_000),
        phase,
        more.pop("since", asked_at),  # type: ignore[arg-type]
        asked_at,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


JOINED = {"started_at": Instant(NOW - 90), "joined_at": Instant(NOW - 80)}


@pytest.mark.parametrize(
    ("known", "listing", "slots", "phase"),
    [
        (track(), (listed("p1", SiteState.PENDING),), (), P.PENDING),
        (track(), (listed("p1"),), (), P.STARTING),
        (track(), (listed("p1"),), (slot("p1"),), P.IDLE),
        (track(), (listed("p1", SiteState.PENDING),), (slot("p1", 1),), P.BUSY),
        (track(phase=P.BUSY, **JOINED), (listed("p1"),), UNSEEN, P.BUSY),
        (track(phase=P.BUSY, **JOINED), (listed("p1"),), (), P.BUSY),
        (track(phase=P.BUSY, **JOINED), (), (), P.UNKNOWN),
        (track(phase=P.BUSY, **JOINED), (), (slot("p1", 1),), P.BUSY),
        (track(phase=P.IDLE, **JOINED), (listed("p1", SiteState.LEAVING),), (slot("p1"),), P.DRAINING),
        (track(), (listed("p1", SiteState.UNKNOWN, note="REVOKED"),), (), P.UNKNOWN),
        (track(phase=P.EXPECTED), (), (), P.EXPECTED),
        (track(phase=P.EXPECTED), UNSEEN, (), P.EXPECTED),
        (track(phase=P.PENDING), UNSEEN, (), P.PENDING),
    ],
)
def test_a_known_pilot_gets_the_phase_that_site_and_pool_agree_on(known, listing, slots, phase) -> None:
    snap = snapshot(pilots={"west": listing}, slots=slots)
    seen = picture_of(snap, memory(tracks=(known,)))
    assert [(t.name, t.phase) for t in seen.tracks] == [("p1", phase)]


@pytest.mark.parametrize(
    ("known", "because"),
    [
        (track(phase=P.EXPECTED, asked_at=Instant(NOW - 601)), Because.NEVER_APPEARED),
        (track(phase=P.UNKNOWN, missing_since=Instant(NOW - 301)), Because.VANISHED),
        (track(phase=P.PENDING, leaving="withdrawn"), Because.ENDED),
    ],
)
def test_a_pilot_is_written_off_only_past_the_bounds_of_its_site_or_when_we_removed_it(
    known, because
) -> None:
    seen = picture_of(snapshot(), memory(tracks=(known,)))
    assert (seen.tracks, [(lost.track.name, lost.because, lost.listed) for lost in seen.lost]) == (
        (),
        [("p1", because, False)],
    )


@pytest.mark.parametrize(
    ("since_s", "phase", "listing"),
    [
        (600, P.EXPECTED, ()),
        (299, P.UNKNOWN, ()),
        (70_000, P.PENDING, UNSEEN),
        (10_000, P.BUSY, Seen(NOW, SiteListing((), complete=False))),
        (10_000, P.BUSY, Seen(Instant(NOW - 181), SiteListing(()))),
    ],
)
def test_a_pilot_stays_on_the_books_while_it_may_live(since_s: int, phase, listing) -> None:
    missing = Instant(NOW - since_s) if phase is P.UNKNOWN else None
    lived = JOINED if phase is P.BUSY else {}
    known = track(phase=phase, asked_at=Instant(NOW - since_s), missing_since=missing, **lived)
    seen = picture_of(snapshot(pilots={"west": listing}), memory(tracks=(known,)))
    assert [t.name for t in seen.tracks] == ["p1"]


def test_pilots_of_an_earlier_life_are_adopted_by_label() -> None:
    pilots = (listed("old1"), listed("old2", SiteState.PENDING), listed("old3", SiteState.FAILED, note="oom"))
    seen = picture_of(snapshot(pilots={"west": pilots}, slots=(slot("old1", 1),)), memory(at=None))
    assert [(t.name, t.phase) for t in seen.tracks] == [("old1", P.BUSY), ("old2", P.PENDING)]
    assert [(lost.track.name, lost.why) for lost in seen.lost] == [("old3", "oom")]


def test_an_emptied_collector_turns_no_pilot_into_a_lost_one_before_its_silence_is_long() -> None:
    under = rules(pools=(PoolRules(POOL, silence_s_max=900),))
    snap = snapshot(pilots={"west": (listed("p1"),)})
    mem = memory(tracks=(track(phase=P.BUSY, **JOINED),))
    for _ in range(9):
        _, mem = after(snap, mem, under)
        assert [(t.phase, t.silent_since) for t in mem.tracks] == [(P.BUSY, NOW)]
        snap = later(snap, 100)
    _, mem = after(later(snap, 1), mem, under)
    assert [t.phase for t in mem.tracks] == [P.UNKNOWN]


def test_an_old_report_does_not_revive_what_has_ended() -> None:
    done = track(phase=P.DONE, **JOINED)
    seen = picture_of(snapshot(pilots={"west": (listed("p1"),)}), memory(tracks=(done,)))
    assert (seen.tracks, [lost.track.phase for lost in seen.lost]) == ((), [P.DONE])


def test_a_lagging_listing_does_not_bring_back_a_pilot_that_was_cleared() -> None:
    mem = memory(cleared=((PilotName("p1"), Instant(NOW - 5)),))
    seen = picture_of(snapshot(pilots={"west": (listed("p1", SiteState.ENDED),)}), mem)
    assert (seen.tracks, seen.lost) == ((), ())


HELD = Held(POOL, SOURCE, Instant(NOW - 30), (demand(idle=100),))


@pytest.mark.parametrize(
    ("age_s", "idle"), [(0, 100), (599, 100), (600, 100), (900, 50), (1194, 1), (1200, None), (9999, None)]
)
def test_unseen_demand_is_held_and_then_decays_to_nothing(age_s: int, idle: int | None) -> None:
    held = replace(HELD, at=Instant(NOW - age_s))
    seen = picture_of(snapshot(demands=UNSEEN), memory(held=(held,)))
    found = [(w.demand.idle, w.held) for w in seen.wanted]
    assert found == ([] if idle is None else [(idle, True)])
    assert seen.held_pools == {POOL}


@pytest.mark.parametrize(
    "sighting",
    [
        UNSEEN,
        Seen(NOW, DemandSight((demand(idle=3),), complete=False)),
        Seen(Instant(NOW - 181), DemandSight((demand(idle=3),))),
    ],
)
def test_unseen_partial_and_old_demand_are_held_alike(sighting) -> None:
    seen = picture_of(snapshot(demands=sighting), memory(held=(HELD,)))
    assert [(w.demand.idle, w.held) for w in seen.wanted] == [(100, True)]


def test_sources_of_one_pool_are_summed_into_one_group_per_shape() -> None:
    one, two = Seen(NOW, DemandSight((demand(idle=4),))), Seen(NOW, DemandSight((demand(idle=3),)))
    snap = replace(snapshot(), demand=((POOL, SOURCE, one), (POOL, "ap2", two)))  # type: ignore[arg-type]
    assert [(w.demand.idle, w.demand.owners) for w in picture_of(snap).wanted] == [(7, (("alice", 7),))]


@pytest.mark.parametrize(
    ("state", "note", "lived", "failures"),
    [
        (SiteState.FAILED, "image not found", {}, 1),
        (SiteState.ENDED, "", {}, 1),
        (SiteState.ENDED, "", JOINED, 0),
        (SiteState.FAILED, "evicted", JOINED, 0),
    ],
)
def test_an_end_before_joining_is_a_failure_of_the_offer_and_a_later_one_is_not(
    state, note, lived, failures
) -> None:
    known = track(phase=P.BUSY if lived else P.STARTING, **lived)
    seen = picture_of(snapshot(pilots={"west": (listed("p1", state, note=note),)}), memory(tracks=(known,)))
    assert (seen.health_of("west/a").failures, seen.health_of("west").failures) == (failures, failures)


def test_an_end_that_we_did_not_watch_is_nobodys_failure() -> None:
    known = track(phase=P.STARTING)
    mem = memory(tracks=(known,), at=Instant(NOW - 3600))
    seen = picture_of(snapshot(pilots={"west": (listed("p1", SiteState.ENDED),)}), mem)
    assert seen.health_of("west/a").failures == 0


def test_a_join_is_timed_and_clears_the_offer() -> None:
    mem = memory(tracks=(track(asked_at=Instant(NOW - 70)),))
    seen = picture_of(snapshot(pilots={"west": (listed("p1"),)}, slots=(slot("p1"),)), mem)
    assert (seen.health_of("west/a").latency_s, seen.health_of("west").joined) == (70, 1)


def test_a_bad_node_is_quarantined_by_name_and_paroled_when_its_time_is_over() -> None:
    under = rules(site("west", node_failures_max=3, quarantine_s=600))
    mem = memory()
    for n in range(3):
        mem = replace(mem, tracks=(track(f"p{n}", P.STARTING),))
        snap = snapshot(pilots={"west": (listed(f"p{n}", SiteState.FAILED, node="n7"),)})
        _, mem = after(snap, mem, under)
    assert [(n.node, n.until) for n in mem.nodes] == [("n7", NOW + 600)]
    _, mem = after(later(snapshot(), 601), mem, under)
    assert mem.nodes == ()


def test_a_lost_answer_to_a_submit_makes_the_pilot_expected() -> None:
    plan, mem = after(snapshot((demand(idle=2),)), memory(), rules(), outcome=Unsure("no answer"))
    names = [name for action in plan.actions for name in action.names]  # type: ignore[union-attr]
    assert [(t.name, t.phase) for t in mem.tracks] == [(name, P.EXPECTED) for name in names]


def test_slots_that_are_unseen_partial_or_old_make_the_pool_blind() -> None:
    for sighting in (UNSEEN, Seen(NOW, PoolSlots((), complete=False)), Seen(Instant(0), PoolSlots(()))):
        assert picture_of(snapshot(slots=sighting)).blind_pools == {POOL: Because.POOL_UNSEEN}


def test_groups_of_one_shape_that_fit_other_offers_stay_apart_and_are_each_explained() -> None:
    everywhere = demand(idle=2, fits=("west/a", "west/b"))
    there = demand(idle=3, fits=("west/b",), variant="only west/b")
    under = rules(site("west", offer("west", "a"), offer("west", "b")))
    snap = snapshot((everywhere, there, everywhere))
    picture = picture_of(snap, memory(held=(SEEN_BEFORE,)), under)
    assert [(each.demand.name, each.demand.idle) for each in picture.wanted] == [
        ("pool: 1 CPU 1GiB [only west/b]", 3),
        ("pool: 1 CPU 1GiB", 4),
    ]
    assert [(flow.variant, flow.idle) for flow in picture.flows] == [("only west/b", 3), ("", 4)]
    plan = plan_of(snap, under=under)
    told = {decision.about for decision in plan.decisions if decision.about.startswith("demand:")}
    assert told == {"demand:pool: 1 CPU 1GiB", "demand:pool: 1 CPU 1GiB [only west/b]"}
