"""Room on nodes over time: the earliest hole is the one that a look at every second finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.schedule.compiled import NEVER
from glidepath.core.schedule.profile import (
    Profile,
    comes_free,
    devices_of,
    drop,
    earliest,
    holds,
    is_taken,
    profile_of,
    restore,
)

END = 40

amounts = st.lists(st.integers(0, 4), min_size=2, max_size=2)
changes = st.lists(st.tuples(st.integers(0, END), amounts, st.sampled_from((1, -1))), max_size=12)


def noted(profile: Profile, when: int, amount: list[int], sign: int) -> int:
    return (comes_free if sign > 0 else is_taken)(profile, 0, when, np.array(amount))


def filled(free: list[int], told: list[tuple[int, list[int], int]]) -> Profile:
    profile = profile_of(np.array([free]), len(told))
    for when, amount, sign in told:
        noted(profile, when, amount, sign)
    return profile


def needed(amounts: list[int], devices: int = 0, share: int = 0) -> np.ndarray:
    return np.array([*amounts, devices, share])


def room(free: list[int], told: list[tuple[int, list[int], int]], at: int) -> np.ndarray:
    return np.array(free) + sum(
        (sign * np.array(amount) for when, amount, sign in told if when <= at), np.zeros(2, np.int64)
    )


@given(amounts, changes, amounts, st.integers(0, END), st.integers(1, 20))
def test_the_earliest_hole_is_the_one_that_a_look_at_every_second_finds(
    free: list[int], told: list[tuple[int, list[int], int]], need: list[int], start: int, span: int
) -> None:
    # Who needs nothing of something does not mind that others took more of it than there is.
    fits = [bool(((room(free, told, at) >= need) | (np.array(need) == 0)).all()) for at in range(END + 1)]

    def there(at: int) -> bool:
        return all(fits[min(second, END)] for second in range(at, at + span))

    expected = next((at for at in range(start, END + 1) if there(at)), NEVER)
    profile = filled(free, told)
    assert earliest(profile, 0, needed(need), (start, span)) == expected
    assert holds(profile, 0, needed(need), (start, span)) == there(start)


@given(amounts, changes, st.data())
def test_a_change_that_is_taken_back_leaves_nothing_behind(
    free: list[int], told: list[tuple[int, list[int], int]], data: st.DataObject
) -> None:
    also = [*told, (5, [1, 1], 1)]
    profile = profile_of(np.array([free]), len(also))
    numbers = [noted(profile, when, amount, sign) for when, amount, sign in also]
    for at in data.draw(st.permutations(range(len(also)))):
        drop(profile, 0, numbers[at])
    assert profile.first[0] == -1
    assert sorted(profile.unused[1:]) == list(range(len(also)))


@given(amounts, changes, st.data())
def test_a_change_that_is_put_back_is_where_it_was(
    free: list[int], told: list[tuple[int, list[int], int]], data: st.DataObject
) -> None:
    also = [*told, (5, [1, 1], 1)]
    profile = filled(free, also)
    before = Profile(*(column.copy() for column in profile))
    dropped = data.draw(st.lists(st.integers(0, len(also) - 1), unique=True))
    # The numbers of changes are those in which room for them was made.
    numbers = [len(also) - 1 - at for at in dropped]
    for number in numbers:
        drop(profile, 0, number)
    for number in reversed(numbers):
        restore(profile, 0, number)
    for column in ("first", "when", "amount", "after", "before"):
        assert (getattr(profile, column) == getattr(before, column)).all()
    assert profile.unused[0] == before.unused[0]


def test_a_profile_that_is_full_says_so() -> None:
    profile = profile_of(np.array([[1]]), 1)
    comes_free(profile, 0, 3, np.array([1]))
    with pytest.raises(ValueError, match="more changes than"):
        comes_free(profile, 0, 4, np.array([1]))


shares = st.lists(st.integers(0, 4), min_size=3, max_size=3)
device_changes = st.lists(st.tuples(st.integers(0, END), shares, st.sampled_from((1, -1))), max_size=10)


@given(shares, device_changes, st.integers(0, 3), st.integers(1, 4), st.integers(-2, 1), st.integers(1, 12))
def test_a_share_stays_on_one_device_and_a_need_below_zero_counts_at_the_start(
    free: list[int],
    told: list[tuple[int, list[int], int]],
    wanted: int,
    share: int,
    first: int,
    span: int,
) -> None:
    """One plain column and two devices, looked at in every second."""
    profile = filled_devices(free, told)
    seen = np.array(
        [
            np.array(free) + sum((s * np.array(a) for w, a, s in told if w <= at), np.zeros(3, np.int64))
            for at in range(END + span + 1)
        ]
    )

    def there(at: int) -> bool:
        stay = seen[at : at + span]
        steady = first <= 0 or bool((stay[:, 0] >= first).all())
        opens = first >= 0 or bool(seen[at, 0] >= -first)
        return steady and opens and int((stay[:, 1:] >= share).all(axis=0).sum()) >= wanted

    need = needed([first], wanted, share)
    expected = next((at for at in range(END + 1) if there(at)), NEVER)
    assert earliest(profile, 0, need, (0, span)) == expected
    assert holds(profile, 0, need, (3, span)) == there(3)
    if expected != NEVER:
        taken = devices_of(profile, 0, need, (expected, span))
        chosen = [device for device in range(2) if taken >> device & 1]
        assert len(chosen) == wanted
        assert (seen[expected : expected + span, 1:][:, chosen] >= share).all()


def filled_devices(free: list[int], told: list[tuple[int, list[int], int]]) -> Profile:
    profile = profile_of(np.array([free]), len(told), devices=2)
    for when, amount, sign in told:
        noted(profile, when, amount, sign)
    return profile
