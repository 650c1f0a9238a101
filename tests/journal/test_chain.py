"""Cycles in groups: what begins one, and that reading in order gives what reading one by one gives."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.journal.test_journal import keep, submit
from tests.journal.values import (
    RULES,
    a_memory,
    a_moment,
    a_pilot,
    a_plan,
    a_snapshot,
    a_track,
    histories,
)

from glidepath.core.cycle import Did, Done, Unseen
from glidepath.core.quantity import Instant
from glidepath.journal import wire
from glidepath.journal.chain import Group, chained, unchained
from glidepath.journal.codec import Malformed
from glidepath.journal.entry import Entry
from glidepath.journal.frames import Cycle, Decoded, followed, framed, rebuilt, unfolded
from glidepath.journal.journal import CycleDamaged, Journal
from glidepath.store import schema
from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate

OTHER_RULES = replace(RULES, cycle_s_min=11)


def a_cycle(number: int, *pilots: Any, **changes: Any) -> Cycle:
    snapshot = replace(a_snapshot(number, *pilots, idle=number), **changes)
    return Cycle(snapshot, a_memory(number, a_track("a")), a_plan(number))


def until_damage(reading: Iterator[Any], kind: type[Exception]) -> tuple[list[Any], str]:
    """What was read before the damage, and what is said of it."""
    found = []
    try:
        for each in reading:
            found.append(each)
    except kind as error:
        return found, str(error)
    pytest.fail("the damage was not noticed")


def written(cycles: list[Cycle], keyframe_every: int = 4) -> dict[int, list[tuple[int, bytes]]]:
    """Numbers and bytes, by the first cycle of their group."""
    group: Group | None = None
    rows: dict[int, list[tuple[int, bytes]]] = {}
    for cycle in cycles:
        number = cycle.plan.cycle
        group, body = chained(group, a_moment(number), cycle, rules=RULES, keyframe_every=keyframe_every)
        rows.setdefault(group.first_cycle, []).append((number, body))
    return rows


@settings(max_examples=25, deadline=None)
@given(histories(), st.integers(1, 4), st.integers(0, 7))
def test_any_group_is_read_in_order_from_any_cycle_on(
    history: list[Any], keyframe_every: int, since_cycle: int
) -> None:
    cycles = [Cycle(*each) for each in history]
    groups = written(cycles, keyframe_every)
    assert sorted(groups) == list(range(1, len(cycles) + 1, keyframe_every))
    assert [cycle for first in sorted(groups) for cycle in unchained(groups[first])] == cycles
    later = [cycle for first in sorted(groups) for cycle in unchained(groups[first], since_cycle=since_cycle)]
    assert later == [cycle for cycle in cycles if cycle.plan.cycle >= since_cycle]


@pytest.mark.parametrize(
    ("changes", "count", "firsts"),
    [
        ({}, 4, [1, 1, 1, 1]),
        ({"keyframe_every": 3}, 7, [1, 1, 1, 4, 4, 4, 7]),
        ({"keyframe_every": 1}, 3, [1, 2, 3]),
        ({"boot": {3: "next", 4: "next"}}, 4, [1, 1, 3, 3]),
        ({"boot": {3: "next"}}, 4, [1, 1, 3, 4]),
        ({"rules": {3: OTHER_RULES, 4: OTHER_RULES}}, 4, [1, 1, 3, 3]),
        ({"rules": {3: replace(RULES)}}, 4, [1, 1, 1, 1]),  # Equal, though read anew.
    ],
)
def test_a_group_ends_when_it_is_long_enough_and_with_its_boot_and_its_rules(
    changes: dict[str, Any], count: int, firsts: list[int]
) -> None:
    group: Group | None = None
    found = []
    for number in range(1, count + 1):
        moment = a_moment(number, boot_id=changes.get("boot", {}).get(number, "boot"))
        rules = changes.get("rules", {}).get(number, RULES)
        every = changes.get("keyframe_every", 64)
        group, _ = chained(group, moment, a_cycle(number), rules=rules, keyframe_every=every)
        found.append(group.first_cycle)
    assert found == firsts


def test_a_group_that_was_not_kept_can_be_left_and_the_one_before_it_is_as_it_was() -> None:
    """What is in the store is unknown after a failed write: the journal then begins a new group."""
    first, body = chained(None, a_moment(1), a_cycle(1), rules=RULES)
    before = (first.first_cycle, first.count, first.frame)
    chained(first, a_moment(2), a_cycle(2), rules=RULES)
    assert (first.first_cycle, first.count, first.frame) == before
    assert list(unchained([(1, body)])) == [a_cycle(1)]


def test_a_keyframe_leaves_out_sites_that_are_gone_and_changes_keep_them_as_a_base() -> None:
    group: Group | None = None
    shown = []
    for number in range(1, 4):
        gone = {"sites": ()} if number > 1 else {}
        cycle = a_cycle(number, a_pilot("a"), **gone)
        group, _ = chained(group, a_moment(number), cycle, rules=RULES, keyframe_every=2)
        shown.append(("snapshot.sites", "west", "1") in group.frame.parts)
    assert shown == [True, True, False]


@pytest.mark.parametrize(
    ("damaged", "body", "whole"),
    [
        (1, b"\xff" * 9, []),
        (3, b"\xff" * 9, [1, 2]),
        (3, b"", [1, 2]),
        (4, wire.Stream().piece([7]), [1, 2, 3]),
    ],
)
def test_a_damaged_cycle_is_named_after_those_before_it_were_read(
    damaged: int, body: bytes, whole: list[int]
) -> None:
    (rows,) = written([a_cycle(number) for number in range(1, 5)]).values()
    rows[damaged - 1] = (damaged, body)
    found, said = until_damage(unchained(rows), Malformed)
    assert ([cycle.plan.cycle for cycle in found], f"cycle {damaged}" in said) == (whole, True)


def test_nothing_is_made_of_no_rows() -> None:
    assert list(unchained([])) == []


def sights(cycle: Cycle) -> dict[str, Any]:
    (_, sight), *_ = cycle.snapshot.sites
    return {} if isinstance(sight, Unseen) else {pilot.name: pilot for pilot in sight.value.pilots}


def test_what_did_not_change_is_decoded_once_for_a_whole_group() -> None:
    pilots = [a_pilot("a"), a_pilot("b"), a_pilot("c")]
    moved = [replace(pilots[1], node="n7"), pilots[0], pilots[2]]
    cycles = [a_cycle(1, *pilots), a_cycle(2, *pilots), a_cycle(3, *moved), a_cycle(4, *moved)]
    (rows,) = written(cycles).values()
    one, two, three, four = (sights(cycle) for cycle in unchained(rows))
    assert [name for name in "abc" if one[name] is not two[name]] == []
    assert [name for name in "abc" if two[name] is not three[name]] == ["b"]
    assert [name for name in "abc" if three[name] is not four[name]] == []
    assert three["b"].node == "n7"


def test_a_pilot_that_was_out_of_sight_comes_back_as_it_is_then() -> None:
    dark = {"sites": (("west", Unseen(Instant(20), "timed out")),)}
    cycles = [a_cycle(1, a_pilot("a")), a_cycle(2, **dark), a_cycle(3, a_pilot("a", node="n7"))]
    (rows,) = written(cycles).values()
    assert list(unchained(rows)) == cycles


@settings(max_examples=25, deadline=None)
@given(histories())
def test_values_that_are_kept_from_cycle_to_cycle_are_those_that_would_be_decoded(history: list[Any]) -> None:
    frame, parts, decoded = None, {}, Decoded()
    for each in history:
        cycle, first = Cycle(*each), frame is None
        frame, changes = framed(frame, cycle)
        plain = wire.unpacked(wire.packed(frame.keyframe() if first else changes))
        parts = unfolded(plain) if first else followed(parts, plain)
        assert rebuilt(cycle.plan.cycle, parts, decoded) == rebuilt(cycle.plan.cycle, parts) == cycle


def kept_in(store: Store) -> list[Entry]:
    """Cycles 1 to 12 in groups that begin at 1, 4, 7, 8 and 11: a restart came after the seventh."""
    found = []
    for numbers in (range(1, 8), range(8, 13)):
        journal = Journal(store, keyframe_every=3)
        for number in numbers:
            found.append(keep(journal, number, *([submit(number)] if number % 2 else [])))
            if number % 4 == 1:
                outcomes = (Did("submit", f"gp-{number}-1", Done()),)
                journal.acted(number, outcomes)
                found[-1] = replace(found[-1], outcomes=outcomes)
    return found


def test_reading_in_order_gives_what_reading_one_by_one_gives(store: Store) -> None:
    written_ones = kept_in(store)
    journal = Journal(store)
    assert list(journal.entries()) == written_ones
    assert [journal.entry(entry.cycle) for entry in written_ones] == written_ones
    assert [entry.outcomes for entry in journal.entries(until_cycle=3)] == [
        (Did("submit", "gp-1-1", Done()),),
        (),
        None,
    ]


@pytest.mark.parametrize(
    ("bounds", "cycles"),
    [
        ({}, range(1, 13)),
        ({"since_cycle": -1}, range(1, 13)),
        ({"since_cycle": 0}, range(1, 13)),
        ({"since_cycle": 2}, range(3, 13)),
        ({"since_cycle": 3}, range(4, 13)),  # The last of a group.
        ({"since_cycle": 4}, range(5, 13)),
        ({"since_cycle": 11}, range(12, 13)),
        ({"since_cycle": 12}, range(0)),
        ({"since_cycle": 99}, range(0)),
        ({"until_cycle": 0}, range(0)),
        ({"until_cycle": 1}, range(1, 2)),
        ({"until_cycle": 3}, range(1, 4)),
        ({"until_cycle": 7}, range(1, 8)),  # The first of a group.
        ({"until_cycle": 99}, range(1, 13)),
        ({"since_cycle": 4, "until_cycle": 8}, range(5, 9)),
        ({"since_cycle": 7, "until_cycle": 8}, range(8, 9)),
        ({"since_cycle": 8, "until_cycle": 8}, range(0)),
        ({"since_cycle": 9, "until_cycle": 4}, range(0)),
    ],
)
def test_cycles_after_one_and_up_to_another_are_read(
    store: Store, bounds: dict[str, int], cycles: range
) -> None:
    written_ones = {entry.cycle: entry for entry in kept_in(store)}
    found = list(Journal(store).entries(**bounds))
    assert found == [written_ones[number] for number in cycles]


def test_rules_boot_and_version_are_those_of_each_group(store: Store) -> None:
    journal = Journal(store, version="1")
    first = [keep(journal, 1), keep(journal, 2, moment=a_moment(2, boot_id="next"))]
    second = [keep(Journal(store, version="2"), 3, rules=OTHER_RULES)]
    assert list(Journal(store).entries()) == [*first, *second]


@settings(max_examples=15, deadline=None)
@given(histories(), st.integers(1, 4), st.sets(st.integers(1, 6)), st.integers(-1, 7))
def test_any_history_comes_back_in_order(
    history: list[Any], keyframe_every: int, restarts: set[int], since_cycle: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/s.db") as store:
        migrate(store)
        journal = Journal(store, keyframe_every=keyframe_every)
        for snapshot, memory, plan in history:
            if plan.cycle in restarts:
                journal = Journal(store, keyframe_every=keyframe_every)
            journal.planned(a_moment(plan.cycle), snapshot, memory, rules=RULES, plan=plan)
        found = list(journal.entries(since_cycle=since_cycle))
        wanted = [plan.cycle for _, _, plan in history if plan.cycle > since_cycle]
        assert found == [journal.entry(number) for number in wanted]


def test_damage_in_one_cycle_is_named_after_the_whole_ones_and_later_groups_are_read(store: Store) -> None:
    written_ones = kept_in(store)
    with store.write() as connection:
        connection.execute(update(schema.cycles).where(schema.cycles.c.cycle == 5).values(body=b"\xff" * 30))
    journal = Journal(store)
    found, said = until_damage(journal.entries(), CycleDamaged)
    assert found == written_ones[:4]
    assert said.startswith(f"the journal `{store.shown}` is damaged: at `cycle 5`: ")
    assert list(journal.entries(since_cycle=6)) == written_ones[6:]
    assert list(journal.entries(until_cycle=3)) == written_ones[:3]


def test_cycles_that_come_while_others_are_read_do_no_harm(store: Store) -> None:
    journal = Journal(store, keyframe_every=3)
    written_ones = [keep(journal, number) for number in range(1, 5)]
    reading = Journal(store).entries()
    found = [next(reading)]
    written_ones += [keep(journal, number) for number in range(5, 9)]
    found += list(reading)
    assert found == written_ones[: len(found)]
    assert len(found) >= 4


def test_an_empty_journal_has_no_entries(store: Store) -> None:
    assert list(Journal(store).entries()) == []


def test_damage_after_the_last_cycle_asked_for_is_not_met(store: Store) -> None:
    written = kept_in(store)
    with store.write() as connection:
        connection.execute(update(schema.cycles).where(schema.cycles.c.cycle == 6).values(body=b"\xff" * 30))
    assert list(Journal(store).entries(until_cycle=5)) == written[:5]


def test_damaged_outcomes_name_their_cycle(store: Store) -> None:
    written = kept_in(store)
    with store.write() as connection:
        connection.execute(
            update(schema.cycles).where(schema.cycles.c.cycle == 5).values(outcomes=b"\xff" * 30)
        )
    found, said = until_damage(Journal(store).entries(), CycleDamaged)
    assert (found, "cycle 5" in said) == (written[:4], True)


def test_damaged_rules_are_a_damaged_journal(store: Store) -> None:
    kept_in(store)
    with store.write() as connection:
        connection.execute(update(schema.rules).values(body=b"\xff" * 30))
    found, _ = until_damage(Journal(store).entries(), CycleDamaged)
    assert found == []


def test_groups_that_were_removed_while_others_are_read_are_passed_over(store: Store) -> None:
    journal = Journal(store, keyframe_every=3)
    written = [keep(journal, number) for number in range(1, 11)]
    reading = Journal(store).entries()
    found = [next(reading)]
    journal.prune(1e12, keep_s=0, keep_cycles_max=1)
    assert [*found, *reading] == [*written[:3], written[9]]
