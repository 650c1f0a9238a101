"""Values that are made quickly are the same as those that are not: their fields, and that they stay."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.provision.pilot import Track
from glidepath.core.provision.quick import copied, quick

ROWS = st.tuples(st.text(max_size=3), st.integers(), st.lists(st.integers(), max_size=2).map(tuple))
NAMES = ("name", "count", "rows")


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    count: int = 3
    rows: tuple[int, ...] = ()


def quickly() -> Any:
    """The same class anew, made quick in this very test."""

    @dataclass(frozen=True, slots=True)
    class Value:
        name: str
        count: int = 3
        rows: tuple[int, ...] = ()

    plain: Any = Value.__init__
    made = quick(Value)
    assert made is Value
    assert made.__init__ is not plain, "its fields are still set one by one"
    return made


@given(ROWS, st.integers(1, 3), st.integers(0, 3))
def test_fields_are_what_was_given_and_the_defaults(row: tuple[Any, ...], count: int, by_place: int) -> None:
    kind, some = quickly(), row[:count]
    named = dict(list(zip(NAMES, some, strict=False))[by_place:])
    made, plain = kind(*some[:by_place], **named), Value(*some)
    assert type(made) is kind
    assert (made.name, made.count, made.rows) == (plain.name, plain.count, plain.rows)
    assert (made, hash(made)) == (kind(*some), hash(plain))
    assert repr(made).endswith(repr(plain))


@pytest.mark.parametrize("named", [{}, {"count": 1}])
def test_nothing_can_be_set_or_taken_away_afterwards(named: dict[str, int]) -> None:
    made = quickly()("a", **named)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"
    with pytest.raises(FrozenInstanceError):
        del made.name
    assert made.name == "a"


@pytest.mark.parametrize(("row", "named"), [((), {}), (("a", 1, (), 4), {}), (("a",), {"other": 1})])
def test_what_does_not_fit_the_fields_is_refused(row: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        quickly()(*row, **named)


def test_a_copy_by_the_library_is_equal() -> None:
    made = quickly()("a", 1, (2,))
    assert copy.deepcopy(made) == made


@given(ROWS, st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=3))
def test_a_copy_is_what_replace_makes(row: tuple[Any, ...], changes: dict[str, Any]) -> None:
    for kind in (Value, quickly()):
        assert copied(kind(*row), **changes) == replace(kind(*row), **changes)


def test_a_copy_has_no_field_that_the_class_has_not() -> None:
    with pytest.raises(KeyError):
        copied(Value("a"), other=1)


def test_the_many_fields_of_a_track_stand_in_their_own_places() -> None:
    row: list[Any] = [f"value {place}" for place, _ in enumerate(fields(Track))]
    track = Track(*row)
    assert [getattr(track, field.name) for field in fields(Track)] == row
    assert copied(track, note="new") == replace(track, note="new")
