"""Resources are whole, never negative, and compare part by part; a shape has one spelling."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.leaf_builders import resources
from glidepath.core.quantity import Resources, Shape


@pytest.mark.parametrize("parts", [(-1, 0, 0, 0), (0, -1, 0, 0), (0, 0, -1, 0), (0, 0, 0, -1)])
def test_no_part_may_be_negative(parts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="resources cannot be negative"):
        Resources(*parts)


def test_taking_more_than_there_is_is_a_bug_and_says_so() -> None:
    with pytest.raises(ValueError, match="resources cannot be negative"):
        _ = Resources(1000, 10) - Resources(1000, 11)


@pytest.mark.parametrize(
    ("need", "room", "fits"),
    [
        (Resources(), Resources(), True),
        (Resources(1, 2, 3, 4), Resources(1, 2, 3, 4), True),
        (Resources(2, 2, 3, 4), Resources(1, 9, 9, 9), False),
        (Resources(1, 3, 3, 4), Resources(9, 2, 9, 9), False),
        (Resources(1, 2, 4, 4), Resources(9, 9, 3, 9), False),
        (Resources(1, 2, 3, 5), Resources(9, 9, 9, 4), False),
    ],
)
def test_every_part_must_fit(need: Resources, room: Resources, fits: bool) -> None:
    assert need.fits_in(room) is fits


@pytest.mark.parametrize(
    ("need", "room", "copies"),
    [
        (Resources(1000), Resources(4000), 4),
        (Resources(1000), Resources(999, 9999, 9999, 9), 0),
        (Resources(1000, 3000), Resources(48000, 8192), 2),
        (Resources(gpus=1), Resources(48000, 8192, 0, 3), 3),
        (Resources(1000, 1, 1, 1), Resources(4000, 9, 9, 0), 0),
    ],
)
def test_the_scarcest_part_says_how_many_copies_fit(need: Resources, room: Resources, copies: int) -> None:
    assert need.copies_in(room) == copies


def test_nothing_has_no_number_of_copies() -> None:
    with pytest.raises(ValueError, match="an empty request fits any number of times"):
        Resources().copies_in(Resources(1000))


@pytest.mark.parametrize(
    ("amount", "step", "rounded"),
    [
        (Resources(1001, 1, 0, 1), Resources(1000, 1024, 512, 2), Resources(2000, 1024, 0, 2)),
        (Resources(2000, 2048), Resources(1000, 1024), Resources(2000, 2048)),
        (Resources(7, 7, 7, 7), Resources(), Resources(7, 7, 7, 7)),
    ],
)
def test_rounding_goes_up_to_a_multiple_of_the_step(
    amount: Resources, step: Resources, rounded: Resources
) -> None:
    assert amount.rounded_up(step) == rounded


@given(resources(), resources())
def test_rounding_up_never_loses_and_never_adds_a_whole_step(amount: Resources, step: Resources) -> None:
    rounded = amount.rounded_up(step)
    assert amount.fits_in(rounded)
    assert rounded.rounded_up(step) == rounded
    for have, got, by in zip(amount.as_tuple(), rounded.as_tuple(), step.as_tuple(), strict=True):
        assert got - have < max(1, by)


PARTS = st.integers(0, 3) | st.integers(0, 2**60)
ANY = st.builds(Resources, PARTS, PARTS, PARTS, PARTS)


@given(ANY, ANY)
def test_comparing_and_combining_are_the_same_for_every_part(one: Resources, other: Resources) -> None:
    pairs = list(zip(one.as_tuple(), other.as_tuple(), strict=True))
    assert one.fits_in(other) is all(need <= have for need, have in pairs)
    assert one.largest(other).as_tuple() == tuple(max(pair) for pair in pairs)
    assert one.smallest(other).as_tuple() == tuple(min(pair) for pair in pairs)


@given(ANY, ANY)
def test_rounding_up_gives_the_least_multiple_that_is_enough(amount: Resources, step: Resources) -> None:
    parts = zip(amount.as_tuple(), step.as_tuple(), strict=True)
    expected = [have if not by else by * math.ceil(Fraction(have, by)) for have, by in parts]
    assert amount.rounded_up(step).as_tuple() == tuple(expected)


@given(resources(), resources(), resources())
def test_sums_and_differences_cancel_out(one: Resources, other: Resources, third: Resources) -> None:
    assert (one + other) - other == one
    assert one + other == other + one
    assert (one + other) + third == one + (other + third)
    assert one.fits_in(one + other)


@given(resources(), resources())
def test_the_largest_holds_both_and_nothing_more(one: Resources, other: Resources) -> None:
    both = one.largest(other)
    assert one.fits_in(both)
    assert other.fits_in(both)
    assert both.as_tuple() == tuple(map(max, one.as_tuple(), other.as_tuple()))


@given(resources(), resources())
def test_the_smallest_fits_into_both_and_leaves_nothing_out(one: Resources, other: Resources) -> None:
    both = one.smallest(other)
    assert both.fits_in(one)
    assert both.fits_in(other)
    assert both.as_tuple() == tuple(map(min, one.as_tuple(), other.as_tuple()))


@given(resources(6), resources(40))
def test_so_many_copies_fit_and_not_one_more(need: Resources, room: Resources) -> None:
    assume(need)
    taken = Resources()
    for _ in range(need.copies_in(room)):
        taken = taken + need
    assert taken.fits_in(room)
    assert not (taken + need).fits_in(room)


@given(resources())
def test_only_an_amount_of_nothing_is_false(amount: Resources) -> None:
    assert bool(amount) is (amount != Resources())


def test_traits_have_one_order_so_that_equal_shapes_are_equal() -> None:
    with pytest.raises(ValueError, match="traits must be sorted"):
        Shape(Resources(1000), (("os", "el9"), ("arch", "x86_64")))


@pytest.mark.parametrize("traits", [(("os", "el8"), ("os", "el9")), (("os", "el9"), ("os", "el9"))])
def test_no_trait_is_named_twice(traits: tuple[tuple[str, str], ...]) -> None:
    """Of two values for one trait, one would win in silence wherever the traits become a table."""
    with pytest.raises(ValueError, match="each named once"):
        Shape(Resources(1000), traits)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Shape(Resources(1000, 2048)), "1 CPU 2GiB"),
        (Shape(Resources(500, 512, 10240, 2)), "0.5 CPU 512MiB 10GiB disk 2 GPU"),
        (Shape(Resources(1000, 1024), (("arch", "arm64"), ("os", "el9"))), "1 CPU 1GiB arch=arm64 os=el9"),
    ],
)
def test_a_shape_reads_as_people_would_write_it(shape: Shape, text: str) -> None:
    assert str(shape) == text


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Shape(Resources(1000, 1060)), "1 CPU 1060MiB"),
        (Shape(Resources(1001, 1536)), "1.001 CPU 1536MiB"),
        (Shape(Resources(1000, 1024, 10_241)), "1 CPU 1GiB 10241MiB disk"),
        (Shape(Resources()), "0 CPU 0MiB"),
    ],
)
def test_a_shape_is_named_without_rounding(shape: Shape, text: str) -> None:
    assert str(shape) == text


AMOUNTS = st.builds(
    Resources,
    st.integers(0, 10_000),
    st.integers(0, 4096) | st.integers(0, 5).map(lambda tib: tib * 1024**2),
    st.integers(0, 4096),
    st.integers(0, 3),
)


@given(AMOUNTS, AMOUNTS)
def test_two_amounts_that_differ_never_read_alike(one: Resources, other: Resources) -> None:
    """Reasons are kept under these names: two groups of one name would overwrite each other."""
    assert (str(Shape(one)) == str(Shape(other))) is (one == other)


@given(AMOUNTS, st.sampled_from(["cpu_milli", "memory_mib", "disk_mib", "gpus"]))
def test_the_smallest_difference_shows_in_the_name(amount: Resources, part: str) -> None:
    assert str(Shape(replace(amount, **{part: getattr(amount, part) + 1}))) != str(Shape(amount))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), unique_by=lambda t: t[0]))
def test_sorted_traits_are_taken_whatever_they_are(traits: list[tuple[str, str]]) -> None:
    assert Shape(Resources(), tuple(sorted(traits))).traits == tuple(sorted(traits))
