"""A cycle rebuilt from a keyframe and changes equals the cycle that was written, order included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.values import a_memory, a_pilot, a_plan, a_snapshot, histories

from glidepath.core.cycle import Seen, Unseen
from glidepath.core.provision.memory import Held
from glidepath.core.quantity import Instant
from glidepath.journal import wire
from glidepath.journal.delta import EMPTY, advanced, applied, patch, patched
from glidepath.journal.frames import Cycle, followed, framed, pruned, rebuilt, unfolded

PLAIN = st.recursive(
    st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=4)
)


@settings(max_examples=60, deadline=None)
@given(histories(), st.sets(st.integers(0, 5)))
def test_any_history_is_rebuilt_exactly(history: list[Any], keyframes: set[int]) -> None:
    frame, parts = None, {}
    for number, (snapshot, memory, plan) in enumerate(history):
        cycle = Cycle(snapshot, memory, plan)
        first = frame is None
        frame, changes = framed(frame, cycle)
        if first or number in keyframes:
            frame = pruned(frame, cycle)
            parts = unfolded(wire.unpacked(wire.packed(frame.keyframe())))
        else:
            parts = followed(parts, wire.unpacked(wire.packed(changes)))
        assert rebuilt(plan.cycle, parts) == cycle


@settings(max_examples=200, deadline=None)
@given(PLAIN, PLAIN)
def test_a_patch_leads_from_any_value_to_any_other(old: Any, new: Any) -> None:
    assert patched(old, patch(old, new)) == new


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=12).map(tuple), max_size=4)
)
def test_a_change_leads_from_any_sequence_to_any_other(sequences: list[tuple[tuple[int, int], ...]]) -> None:
    part, plain = EMPTY, []
    for values in sequences:
        part, change = advanced(part, values, lambda pair: pair[0], list)
        plain = applied(plain, wire.unpacked(wire.packed(change)))
        assert plain == [list(pair) for pair in values]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abc", "abc", {}),
        ("abc", "ac", {"g": [1]}),
        ("abc", "axbc", {"a": [[1, ["x"]]]}),
        ("abcd", "dabc", {"m": [[0, 3]]}),
        ("", "ab", {"a": [[0, ["a"]], [1, ["b"]]]}),
    ],
)
def test_a_change_speaks_of_positions_and_only_of_what_changed(old: str, new: str, expected: Any) -> None:
    part, _ = advanced(EMPTY, tuple(old), str, list)
    _, change = advanced(part, tuple(new), str, list)
    assert change == expected


def a_cycle(number: int, *pilots: Any, idle: int = 0, **changes: Any) -> Cycle:
    snapshot = a_snapshot(number, *pilots, idle=idle)
    return Cycle(replace(snapshot, **changes), a_memory(number), a_plan(number))


def test_a_quiet_cycle_costs_the_time_and_nothing_else() -> None:
    pilots = tuple(a_pilot(f"p{n}") for n in range(100))
    frame, _ = framed(None, a_cycle(1, *pilots))
    fresh = tuple(a_pilot(f"p{n}") for n in range(100))  # As a door makes them: equal, not the same.
    _, changes = framed(frame, a_cycle(2, *fresh))
    assert changes == [[["snapshot"], {"c": {"0": {"0": [20]}}}]]


def test_a_site_that_was_out_of_sight_is_not_written_again() -> None:
    pilots = tuple(a_pilot(f"p{n}") for n in range(50))
    frame, _ = framed(None, a_cycle(1, *pilots))
    frame, gone = framed(frame, a_cycle(2, *pilots, sites=(("west", Unseen(Instant(20), "timed out")),)))
    frame, back = framed(frame, a_cycle(3, *pilots))
    assert len(wire.packed(gone)) < 200
    assert len(wire.packed(back)) < 200


def test_held_demand_is_found_in_the_snapshot_before() -> None:
    first = a_cycle(1, idle=3)
    frame, _ = framed(None, first)
    sight = first.snapshot.demand[0][2]
    assert isinstance(sight, Seen)
    held = Held("main", "queue", sight.at, sight.value.demands)
    second = a_cycle(2, idle=4)
    second = Cycle(second.snapshot, replace(second.memory, held=(held,)), second.plan)
    _, changes = framed(frame, second)
    assert [["memory.held", "main", "queue", "1"], "d"] in changes


@pytest.mark.parametrize(
    "keyframe", [7, [7], [[["snapshot"]]], [], [[["snapshot"], [[1.5]]]], [[["snapshot"], [7]]]], ids=str
)
def test_a_malformed_keyframe_is_refused(keyframe: Any) -> None:
    with pytest.raises(ValueError):
        rebuilt(1, unfolded(keyframe))


@pytest.mark.parametrize(
    "changes",
    [
        7,
        [7],
        [[["plan"], {"c": {"9": [1]}}]],
        [[["plan"], {"a": [[9, 1]]}]],
        [[["plan"], {"m": [[0, 9]]}]],
        [[["memory.held", "x"], "d"]],
    ],
    ids=str,
)
def test_a_malformed_change_is_refused(changes: Any) -> None:
    with pytest.raises(ValueError):
        followed({("plan",): [[0, 0, 10]]}, changes)
