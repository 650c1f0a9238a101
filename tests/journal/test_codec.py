"""Every core value comes back as it went in, and what is malformed is refused with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.journal.values import values

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Did, Done, Outcome, Plan, Reason, Seen, Sighting
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import Ended, PilotAction, PilotSpec, SitePilot, Track
from glidepath.core.provision.sight import Pause, Snapshot
from glidepath.core.quantity import Instant, Resources
from glidepath.journal import wire
from glidepath.journal.codec import decode, encode

KEPT: list[Any] = [
    Snapshot,
    Memory,
    Plan[PilotAction],
    Rules,
    tuple[Did, ...],
    Outcome,
    Sighting[DemandSight],
    Ended,
    PilotSpec,
    Track,
]


@pytest.mark.parametrize("hint", KEPT, ids=str)
@settings(max_examples=60, deadline=None)
@given(draw=st.data())
def test_what_goes_in_comes_out(hint: Any, draw: st.DataObject) -> None:
    value = draw.draw(values(hint))
    stored = wire.packed(encode(hint, value))
    assert decode(hint, wire.unpacked(stored)) == value


@dataclass(frozen=True)
class Older:
    name: str
    size: int = 1


@dataclass(frozen=True)
class Newer:
    name: str
    size: int = 1
    colour: str = "grey"


def test_a_field_that_was_appended_later_takes_its_default() -> None:
    assert decode(Newer, encode(Older, Older("a", 3))) == Newer("a", 3, "grey")


def test_a_value_is_small_and_without_field_names() -> None:
    decision = Decision("west", Reason(Because.AT_LIMIT, (("idle_jobs", 12), ("owner", "alice"))))
    plain = encode(Decision[PilotAction], decision)
    assert plain == ["west", ["AT_LIMIT", [["idle_jobs", 12], ["owner", "alice"]]], None]
    assert encode(tuple[Did, ...], (Did("submit", "p1", Done()),)) == [["submit", "p1", ["Done", ""]]]


@pytest.mark.parametrize(
    ("hint", "plain", "where"),
    [
        (Resources, [1, 2, 3, "4"], "at `.gpus`: expected int, found '4'"),
        (Resources, [1, 2, 3, True], "at `.gpus`: expected int, found True"),
        (Resources, [-1, 0, 0, 0], "at `.`: resources cannot be negative"),
        (Resources, [1, 2, 3, 4, 5], "at `.`: expected 4 fields of Resources, found 5"),
        (Resources, "no", "at `.`: expected a list, found 'no'"),
        (Demand, ["pool"], "at `.`: expected 9 fields of Demand, found 1"),
        (Demand, ["pool", [[1, 2, None, 0]], 1], "at `.shape.request.disk_mib`: expected int, found None"),
        (tuple[Pause, ...], [["a"], ["b", 2]], "at `[1].by`: expected str, found 2"),
        (tuple[tuple[str, int | str], ...], [["a", 1], ["b", 1.5]], "at `[1][1]`: expected int or str"),
        (tuple[str, int], ["a"], "at `.`: expected 2 parts, found 1"),
        (Reason, ["NO_SUCH_REASON", []], "at `.because`: expected a Because, found 'NO_SUCH_REASON'"),
        (
            Outcome,
            ["Perhaps", ""],
            "expected one of Done, Refused, Failed, Unsure, NotTried, found 'Perhaps'",
        ),
        (Outcome, [], "expected one of Done, Refused, Failed, Unsure, NotTried, found None"),
        (SitePilot | None, 7, "at `.`: expected a list, found 7"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(hint: Any, plain: Any, where: str) -> None:
    with pytest.raises(ValueError) as refusal:
        decode(hint, plain)
    assert where in str(refusal.value)


def test_a_type_that_cannot_be_kept_is_a_bug_and_is_said_at_once() -> None:
    with pytest.raises(TypeError, match="cannot keep values of the type"):
        encode(dict[str, int], {})


def test_generic_values_take_the_type_that_they_were_given() -> None:
    assert encode(Seen[Pause], Seen(Instant(3), Pause("site:west"))) == [3, ["site:west", "", "", False]]
