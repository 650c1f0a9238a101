"""Who may spend how much: projects in a tree, each with allocations that begin and end.

A project draws from its own allocations and from those of every project above it: each level has a quota of
its own. A level that was never given anything sets no bound. It refuses to know who works in which project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from glidepath.core.account.run import MILLIONTHS
from glidepath.core.quantity import Instant
from glidepath.core.text import one_line

# Deeper than any organisation; a tree that is deeper is a mistake.
DEPTH_MAX = 8
# One allocation has no bound in numbers, and a sum of many must fit into the store.
GRANTED_MAX = 10**15
AMOUNT_FORMS = "credits such as `500` or `0.25`, with at most six digits behind the point"
_AMOUNT = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class Allocation:
    """So much may be spent between two moments. `drawn` may go beyond it: what ran, ran."""

    id: int
    project: str
    granted: int  # millionths of a credit
    starts_at: Instant
    ends_at: Instant
    drawn: int = 0

    def in_force(self, now: Instant) -> bool:
        return self.starts_at <= now < self.ends_at

    @property
    def left(self) -> int:
        return self.granted - self.drawn


@dataclass(frozen=True, slots=True)
class Tree:
    """The project above each; a project that is not named has none above it."""

    parents: Mapping[str, str] = field(default_factory=dict)

    def path(self, project: str) -> tuple[str, ...]:
        """The project and all above it, from below."""
        found = [project] if project else []
        while found and (parent := self.parents.get(found[-1], "")) and len(found) < DEPTH_MAX:
            found.append(parent)
        return tuple(found)


class TreeFlaw(ValueError):
    """Why a project cannot be where somebody wants it."""


def placed_below(tree: Tree, project: str, parent: str) -> Tree:
    """The tree with the project below another; a `TreeFlaw` where that would be a circle, or too deep."""
    above = tree.path(parent)
    if project in above:
        chain = " below ".join(f"`{name}`" for name in (project, *above[: above.index(project) + 1]))
        raise TreeFlaw(f"that would be a circle: {chain}")
    grown = Tree({**tree.parents, project: parent})
    deepest = max((len(grown.path(name)) for name in grown.parents), default=0)
    if len(above) + 1 >= DEPTH_MAX or deepest >= DEPTH_MAX:
        raise TreeFlaw(f"projects may be at most {DEPTH_MAX - 1} levels deep")
    return grown


@dataclass(frozen=True, slots=True)
class Drawn:
    """So much of one allocation."""

    allocation: int
    amount: int


def drawn(allocations: Iterable[Allocation], amount: int, now: Instant) -> tuple[Drawn, ...]:
    """What is taken from which: the one that ends first goes first, and the last one goes into debt."""
    usable = sorted((each for each in allocations if each.in_force(now)), key=lambda a: (a.ends_at, a.id))
    found: list[Drawn] = []
    for each in usable[:-1]:
        part = min(max(each.left, 0), amount)
        if part:
            found.append(Drawn(each.id, part))
            amount -= part
    if usable and amount:
        found.append(Drawn(usable[-1].id, amount))
    return tuple(found)


def given_back(allocations: Iterable[Allocation], amount: int, now: Instant) -> tuple[Drawn, ...]:
    """A refund, as draws below zero: what was drawn last comes back first; more than was drawn never does."""
    usable = [each for each in allocations if each.starts_at <= now and each.drawn > 0]
    found: list[Drawn] = []
    for each in sorted(usable, key=lambda a: (a.in_force(now), a.ends_at, a.id), reverse=True):
        part = min(each.drawn, amount)
        if part:
            found.append(Drawn(each.id, -part))
            amount -= part
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Purse:
    """What one level has at present."""

    project: str
    granted: int
    left: int

    @property
    def dry(self) -> bool:
        return self.left <= 0


def purses(allocations: Iterable[Allocation], now: Instant) -> dict[str, Purse]:
    """By project. One none of whose allocations is in force has nothing; one without any is absent."""
    found: dict[str, Purse] = {}
    for each in allocations:
        had = found.get(each.project, Purse(each.project, 0, 0))
        if each.in_force(now):
            had = Purse(each.project, had.granted + each.granted, had.left + each.left)
        found[each.project] = had
    return found


def dry_above(tree: Tree, purse: Mapping[str, Purse], project: str) -> Purse | None:
    """The nearest level that has nothing left, the project itself first."""
    return next(_dry(tree, purse, project), None)


def _dry(tree: Tree, purse: Mapping[str, Purse], project: str) -> Iterator[Purse]:
    for name in tree.path(project):
        found = purse.get(name)
        if found is not None and found.dry:
            yield found


def credits(amount: int) -> str:
    """For people: at most three digits behind the point, none that say nothing."""
    whole = f"{amount / MILLIONTHS:.3f}".rstrip("0").rstrip(".")
    return "0" if whole == "-0" else whole


def amount_of(text: str) -> int:
    """Millionths, of what people write: more than nothing, and no more than an allocation may have."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"`{one_line(text)}` is no amount; write {AMOUNT_FORMS}")
    amount = int(found[1]) * MILLIONTHS + int((found[2] or "").ljust(6, "0"))
    if not 0 < amount <= GRANTED_MAX:
        raise ValueError(f"must be more than nothing, and at most {credits(GRANTED_MAX)} credits")
    return amount
