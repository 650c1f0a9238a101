"""Projects in a tree, allocations with a time, and which of them a charge is drawn from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from glidepath.core.account.wallet import (
    DEPTH_MAX,
    Allocation,
    Drawn,
    Purse,
    Tree,
    TreeFlaw,
    credits,
    drawn,
    dry_above,
    given_back,
    placed_below,
    purses,
)
from glidepath.core.quantity import Instant

NOW = Instant(1000)
TREE = Tree({"optics": "physics", "physics": "science", "biology": "science"})


def grant(id: int, granted: int, *, ends_at: int = 2000, drawn: int = 0, of: str = "physics") -> Allocation:
    return Allocation(id, of, granted, Instant(0), Instant(ends_at), drawn)


def test_a_project_draws_from_itself_and_all_above_it() -> None:
    assert [TREE.path(name) for name in ("optics", "science", "unheard", "")] == [
        ("optics", "physics", "science"),
        ("science",),
        ("unheard",),
        (),
    ]


@pytest.mark.parametrize(
    ("project", "parent", "why"),
    [
        ("science", "optics", "a circle: `science` below `optics` below `physics` below `science`"),
        ("science", "science", "a circle: `science` below `science`"),
    ],
)
def test_a_circle_of_projects_is_refused_with_the_circle(project: str, parent: str, why: str) -> None:
    with pytest.raises(TreeFlaw, match=why):
        placed_below(TREE, project, parent)


def test_a_project_may_move_and_not_go_too_deep() -> None:
    assert placed_below(TREE, "optics", "biology").path("optics") == ("optics", "biology", "science")
    deep = Tree({f"p{n + 1}": f"p{n}" for n in range(DEPTH_MAX - 2)})
    with pytest.raises(TreeFlaw, match="levels deep"):
        placed_below(deep, "more", f"p{DEPTH_MAX - 2}")
    with pytest.raises(TreeFlaw, match="levels deep"):
        placed_below(deep, "p0", "above")


def test_what_ends_first_is_spent_first_and_the_last_goes_into_debt() -> None:
    grants = [grant(1, 100), grant(2, 50, ends_at=1500), grant(3, 70, ends_at=900)]
    assert drawn(grants, 60, NOW) == (Drawn(2, 50), Drawn(1, 10))
    assert drawn(grants, 500, NOW) == (Drawn(2, 50), Drawn(1, 450))
    assert drawn([grant(3, 70, ends_at=900)], 5, NOW) == ()
    assert drawn(grants, 0, NOW) == ()


grants = some.lists(
    some.builds(
        grant,
        some.integers(1, 10**6),
        some.integers(0, 10**9),
        ends_at=some.integers(0, 3000),
        drawn=some.integers(0, 10**9),
    ),
    max_size=6,
    unique_by=lambda each: each.id,
)


@given(grants, some.integers(0, 10**10))
def test_all_of_a_charge_is_drawn_where_anything_is_in_force(given: list[Allocation], amount: int) -> None:
    found = drawn(given, amount, NOW)
    usable = [each for each in given if each.in_force(NOW)]
    assert sum(each.amount for each in found) == (amount if usable else 0)
    assert len({each.allocation for each in found}) == len(found)
    last = max(usable, key=lambda a: (a.ends_at, a.id), default=None)
    for each in found:
        left = next(one.left for one in usable if one.id == each.allocation)
        assert each.amount <= left or (last is not None and each.allocation == last.id)


@given(grants, some.integers(0, 10**10))
def test_a_refund_comes_back_to_where_it_was_drawn_and_never_more_than_that(
    given: list[Allocation], amount: int
) -> None:
    found = given_back(given, amount, NOW)
    back = sum(-each.amount for each in found)
    assert back == min(amount, sum(each.drawn for each in given if each.starts_at <= NOW))
    of = {each.id: each.drawn for each in given}
    assert all(0 < -each.amount <= of[each.allocation] for each in found)


def test_a_level_without_allocations_sets_no_bound_and_one_whose_time_is_over_has_nothing() -> None:
    found = purses([grant(1, 100, drawn=30), grant(2, 50), grant(3, 9, of="science", ends_at=500)], NOW)
    assert found == {"physics": Purse("physics", 150, 120), "science": Purse("science", 0, 0)}
    assert dry_above(TREE, found, "optics") == Purse("science", 0, 0)
    assert dry_above(TREE, {"physics": Purse("physics", 5, 1)}, "optics") is None


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0"), (1_000_000, "1"), (1_234_567, "1.235"), (10_500_000, "10.5"), (-400, "0"), (-2_000_000, "-2")],
)
def test_credits_are_shown_as_people_write_them(amount: int, shown: str) -> None:
    assert credits(amount) == shown
