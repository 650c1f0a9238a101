"""Phases: a closed table that always can end, one phase for every pair of reports, and books that add up."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.leaf_builders import a_slot, a_track
from glidepath.core.provision.phase import ALONE, advanced, ended, phase_by_slot, phase_of
from glidepath.core.provision.pilot import (
    COMING,
    ENDED,
    JOINED,
    NEXT,
    PilotPhase,
    SiteState,
    Slot,
    Track,
)
from glidepath.core.quantity import Instant

P, S = PilotPhase, SiteState
SLOTS = {
    "none": None,
    "idle": a_slot(),
    "busy": a_slot(claims=2),
    "draining": a_slot(claims=1, draining=True),
}


def reached(start: Iterable[PilotPhase]) -> frozenset[PilotPhase]:
    found = frozenset(start)
    for _ in PilotPhase:
        found |= frozenset(phase for old in found for phase in NEXT[old])
    return found


def test_the_table_of_phases_is_closed() -> None:
    assert set(NEXT) == set(PilotPhase)
    assert all(following <= set(PilotPhase) for following in NEXT.values())


def test_every_phase_is_reachable_from_expected() -> None:
    assert reached([P.EXPECTED]) == set(PilotPhase)


def test_no_phase_follows_itself_and_nothing_is_expected_twice() -> None:
    assert not [phase for phase in PilotPhase if phase in NEXT[phase]]
    assert not [phase for phase in PilotPhase if P.EXPECTED in NEXT[phase]]


def test_every_way_can_end_and_nothing_comes_back_from_the_end() -> None:
    assert {phase for phase in PilotPhase if not NEXT[phase]} == ENDED
    for phase in set(PilotPhase) - ENDED:
        assert reached([phase]) >= ENDED


def test_the_named_sets_of_phases_do_not_overlap() -> None:
    assert not ENDED & COMING
    assert not ENDED & JOINED
    assert not COMING & JOINED
    assert set(PilotPhase) - {P.UNKNOWN} == ENDED | COMING | JOINED


# For each word of the site: the phase without a slot (never joined, joined as idle, busy, unknown), and the
# phase with an idle, a busy and a draining slot, whatever it was before.
MATRIX: dict[SiteState, tuple[tuple[PilotPhase, ...], tuple[PilotPhase, ...]]] = {
    S.PENDING: ((P.PENDING, P.IDLE, P.BUSY, P.UNKNOWN), (P.IDLE, P.BUSY, P.DRAINING)),
    S.RUNNING: ((P.STARTING, P.IDLE, P.BUSY, P.UNKNOWN), (P.IDLE, P.BUSY, P.DRAINING)),
    S.UNKNOWN: ((P.UNKNOWN, P.IDLE, P.BUSY, P.UNKNOWN), (P.IDLE, P.BUSY, P.DRAINING)),
    S.LEAVING: ((P.DRAINING,) * 4, (P.DRAINING,) * 3),
    S.ENDED: ((P.DONE,) * 4, (P.DONE,) * 3),
    S.FAILED: ((P.FAILED,) * 4, (P.FAILED,) * 3),
    S.WITHDRAWN: ((P.DONE,) * 4, (P.DONE,) * 3),
}
JOINED_AS = (None, P.IDLE, P.BUSY, P.UNKNOWN)
ROWS = [
    (state, slot, joined_as, without[place] if slot == "none" else by_slot[list(SLOTS).index(slot) - 1])
    for state, (without, by_slot) in MATRIX.items()
    for slot in SLOTS
    for place, joined_as in enumerate(JOINED_AS)
]


def test_the_matrix_of_reports_is_full() -> None:
    assert len({row[:3] for row in ROWS}) == len(SiteState) * len(SLOTS) * len(JOINED_AS)
    assert set(ALONE) == set(SiteState)


@pytest.mark.parametrize(("state", "slot", "joined_as", "phase"), ROWS)
def test_site_and_pool_together_give_one_phase(
    state: SiteState, slot: str, joined_as: PilotPhase | None, phase: PilotPhase
) -> None:
    assert phase_of(state, SLOTS[slot], joined_as) is phase


@pytest.mark.parametrize(
    ("slot", "phase"),
    [
        (a_slot(), P.IDLE),
        (a_slot(claims=1), P.BUSY),
        (a_slot(draining=True), P.DRAINING),
        (a_slot(claims=1, draining=True), P.DRAINING),
    ],
)
def test_a_slot_alone_gives_a_phase(slot: Slot, phase: PilotPhase) -> None:
    assert phase_by_slot(slot) is phase


def heard_of(old: PilotPhase, *, joined: bool) -> set[PilotPhase]:
    """Every phase that one more look can give a pilot: listed, heard in its pool, missing, written off."""
    joined_as = [old, P.UNKNOWN] if joined and old in {*JOINED, P.UNKNOWN} else [None]
    listed = {phase_of(state, slot, j) for state in SiteState for slot in SLOTS.values() for j in joined_as}
    unlisted = {phase_by_slot(slot) for slot in SLOTS.values() if slot is not None}
    return (listed | unlisted | {P.UNKNOWN, P.GONE, P.DONE}) - {old}


# Idle and busy are reached only by joining; the phases before that only without. A pilot may drain before it
# was ever heard in its pool, when its site says that it leaves.
@pytest.mark.parametrize(
    ("old", "joined"),
    [
        (P.EXPECTED, False),
        (P.PENDING, False),
        (P.STARTING, False),
        (P.UNKNOWN, False),
        (P.UNKNOWN, True),
        (P.IDLE, True),
        (P.BUSY, True),
        (P.DRAINING, True),
        (P.DRAINING, False),
    ],
)
def test_whatever_is_heard_next_moves_along_the_table(old: PilotPhase, joined: bool) -> None:
    assert heard_of(old, joined=joined) <= NEXT[old]


@pytest.mark.parametrize(
    ("new", "joined"),
    [
        (P.PENDING, None),
        (P.STARTING, None),
        (P.IDLE, 1500),
        (P.BUSY, 1500),
        (P.UNKNOWN, None),
        (P.DONE, None),
    ],
)
def test_a_drain_can_be_called_off(new: PilotPhase, joined: int | None) -> None:
    track = advanced(a_track(P.DRAINING), new, Instant(1500))
    assert (track.phase, track.since, track.joined_at) == (new, 1500, joined)


FORBIDDEN = [
    (old, new) for old in PilotPhase for new in PilotPhase if new is not old and new not in NEXT[old]
]


@pytest.mark.parametrize(("old", "new"), FORBIDDEN)
def test_a_move_outside_the_table_is_a_bug_and_says_so(old: PilotPhase, new: PilotPhase) -> None:
    with pytest.raises(AssertionError, match=f"p1: {old} cannot become {new}"):
        advanced(a_track(old), new, Instant(1500))


def test_nothing_may_leave_the_end_and_a_joined_pilot_does_not_wait_again() -> None:
    assert {(old, new) for old in ENDED for new in set(PilotPhase) - {old}} <= set(FORBIDDEN)
    assert {(old, new) for old in (P.IDLE, P.BUSY) for new in COMING} <= set(FORBIDDEN)


def test_the_same_phase_again_changes_nothing() -> None:
    track = a_track(P.BUSY)
    assert advanced(track, P.BUSY, Instant(9999)) is track


@pytest.mark.parametrize(
    ("old", "new", "started", "joined"),
    [
        (P.EXPECTED, P.PENDING, False, False),
        (P.EXPECTED, P.UNKNOWN, False, False),
        (P.PENDING, P.STARTING, True, False),
        (P.PENDING, P.IDLE, True, True),
        (P.EXPECTED, P.BUSY, True, True),
        (P.PENDING, P.DRAINING, True, False),
        (P.PENDING, P.FAILED, False, False),
        (P.PENDING, P.GONE, False, False),
    ],
)
def test_a_pilot_has_started_when_it_runs_and_joined_when_its_pool_knows_it(
    old: PilotPhase, new: PilotPhase, started: bool, joined: bool
) -> None:
    track = advanced(a_track(old), new, Instant(1500))
    assert (track.phase, track.since, track.asked_at) == (new, 1500, 1000)
    assert track.started_at == (1500 if started else None)
    assert track.joined_at == (1500 if joined else None)


def test_the_first_start_and_the_first_join_are_kept() -> None:
    track = a_track(P.PENDING)
    for at, phase in ((1010, P.STARTING), (1030, P.IDLE), (1060, P.UNKNOWN), (1100, P.BUSY)):
        track = advanced(track, phase, Instant(at))
    assert (track.started_at, track.joined_at, track.since) == (1010, 1030, 1100)


def test_a_join_at_instant_zero_is_a_join() -> None:
    """Simulated time starts at zero: there, too, the seconds out of sight of a joined pilot are idle ones."""
    track = a_track(since=Instant(0), asked_at=Instant(0))
    for at, phase in ((0, P.IDLE), (10, P.UNKNOWN), (50, P.GONE)):
        track = advanced(track, phase, Instant(at))
    closing = ended(track, "over")
    assert (track.started_at, track.joined_at) == (0, 0)
    assert (closing.pending_s, closing.starting_s, closing.idle_s, closing.failed_s) == (0, 0, 50, 0)


def test_a_pilot_that_has_not_ended_has_no_closing_statistics() -> None:
    with pytest.raises(AssertionError, match="busy"):
        ended(a_track(P.BUSY), "too soon")


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        # pending, starting, busy, idle, failed
        (
            ((P.PENDING, 10), (P.STARTING, 100), (P.IDLE, 130), (P.BUSY, 140), (P.DONE, 500)),
            (100, 30, 360, 10, 0),
        ),
        (((P.PENDING, 10), (P.STARTING, 100), (P.FAILED, 160)), (100, 0, 0, 0, 60)),
        (((P.PENDING, 10), (P.FAILED, 160)), (160, 0, 0, 0, 0)),
        (((P.GONE, 600),), (600, 0, 0, 0, 0)),
        (((P.PENDING, 10), (P.STARTING, 100), (P.DONE, 160)), (100, 60, 0, 0, 0)),
        (((P.IDLE, 50), (P.UNKNOWN, 60), (P.GONE, 400)), (50, 0, 0, 350, 0)),
        (((P.BUSY, 50), (P.DRAINING, 60), (P.DONE, 400)), (50, 0, 350, 0, 0)),
        (((P.BUSY, 50), (P.FAILED, 400)), (50, 0, 350, 0, 0)),
        (((P.STARTING, 50), (P.PENDING, 60), (P.IDLE, 100), (P.DONE, 110)), (50, 50, 0, 10, 0)),
        (((P.DONE, 0),), (0, 0, 0, 0, 0)),
    ],
)
def test_seconds_are_booked_where_they_went(
    steps: tuple[tuple[PilotPhase, int], ...], seconds: tuple[int, int, int, int, int]
) -> None:
    closing = ended(walked(steps), "over")
    assert (
        closing.pending_s,
        closing.starting_s,
        closing.busy_s,
        closing.idle_s,
        closing.failed_s,
    ) == seconds
    assert (closing.phase, closing.why, closing.cpu_milli) == (steps[-1][0], "over", 4000)


def walked(steps: Iterable[tuple[PilotPhase, int]]) -> Track:
    """A pilot asked for at 1000 that took these phases, so many seconds after that."""
    track = a_track()
    for phase, after_s in steps:
        track = advanced(track, phase, Instant(1000 + after_s))
    return track


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[PilotPhase, int]]:
    """A random walk along the table, at random and sometimes equal times, that ends."""
    at, phase, steps = 0, P.EXPECTED, list[tuple[PilotPhase, int]]()
    for _ in range(draw(st.integers(0, 12))):
        onward = sorted(NEXT[phase] - ENDED)
        phase = draw(st.sampled_from(onward or [P.UNKNOWN]))
        at += draw(st.integers(0, 1000))
        steps.append((phase, at))
    last = draw(st.sampled_from(sorted(ENDED)))
    return [*steps, (last, at + draw(st.integers(0, 1000)))]


@given(histories())
def test_the_seconds_of_any_history_add_up_and_go_where_they_belong(
    steps: list[tuple[PilotPhase, int]],
) -> None:
    closing = ended(walked(steps), "over")
    total_s = closing.ended_at - closing.asked_at
    parts = (closing.pending_s, closing.starting_s, closing.busy_s, closing.idle_s, closing.failed_s)
    assert total_s == steps[-1][1]
    assert min(parts) >= 0
    assert sum(parts) == total_s
    # Counted again, interval by interval; places and not times, because two reports may share a second.
    started = next((at for phase, at in steps if phase in JOINED or phase is P.STARTING), total_s)
    joined = next((place for place, (phase, _) in enumerate(steps) if phase in (P.IDLE, P.BUSY)), None)
    busy_s = idle_s = 0
    for place, ((phase, at), (_, until)) in enumerate(pairwise(steps)):
        if phase in (P.BUSY, P.DRAINING):
            busy_s += until - at
        if phase is P.IDLE or (phase is P.UNKNOWN and joined is not None and joined < place):
            idle_s += until - at
    assert closing.pending_s == started
    assert closing.busy_s == busy_s
    assert closing.idle_s == idle_s
    assert (closing.failed_s == 0) or (joined is None and closing.phase is not P.DONE)
