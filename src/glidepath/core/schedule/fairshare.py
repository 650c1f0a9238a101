"""Fair share: whoever has used least of what is his comes next, from the top of the tree of projects down.

Usage fades by half in every half-life. Jobs come in as the rule ordered them, and go out in turns: at each
fork the branch with the least usage for its weight is taken, its next job is charged to it as if it had run
already, and so on. So a project with three times the weight gets three turns of one, within one plan and
over the weeks, and the order of jobs of one user stays what the rule made it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.cluster import Flaw, ProjectName
from glidepath.core.schedule.compiled import NONE, Floats, Ints, compiled
from glidepath.core.schedule.job import Share, Used

# A path of projects longer than this is a circle or a mistake.
DEPTH_MAX = 16


class Tree(NamedTuple):
    """Projects and, below them, users; the root is the first."""

    parent: Ints  # [branch] its fork, NONE for the root
    weight: Floats  # [branch]
    usage: Floats  # [branch] of everybody below, faded to now
    first: Ints  # [branch] its first child, or NONE
    after: Ints  # [branch] the next child of its parent, or NONE


class Grown(NamedTuple):
    tree: Tree
    leaf: dict[tuple[ProjectName, Owner], int]


def faded(amount: float, age_s: int, half_life_s: int) -> float:
    """What is left of a usage after so long; whole half-lives exactly, the rest by a straight line.

    A straight line between halves differs from the curve by six percent at most, and is rounded alike on
    every machine.
    """
    if age_s <= 0 or half_life_s <= 0:
        return amount
    halves, rest = divmod(age_s, half_life_s)
    if halves > 60:
        return 0.0
    return float(amount / (1 << halves) * (1.0 - 0.5 * (rest / half_life_s)))


def sound_usage(used: Iterable[Used], now: Instant) -> tuple[list[Used], list[Flaw]]:
    """Records that can be so; one from the future or below zero counts for nothing and is named."""
    kept, flaws = [], []
    for record in used:
        about = f"usage:{record.project}/{record.owner}"
        if record.at > now:
            flaws.append(Flaw(about, f"it is of {record.at - now} s from now", "an instant that has passed"))
        elif not 0 <= record.amount < float("inf"):
            flaws.append(Flaw(about, f"it is {record.amount}", "zero or more"))
        else:
            kept.append(record)
    return kept, flaws


def sound_shares(shares: Iterable[Share]) -> tuple[dict[ProjectName, Share], list[Flaw]]:
    """Projects whose path leads to the top; others hang below it at once, with the weight they have."""
    known: dict[ProjectName, Share] = {}
    flaws = []
    for share in shares:
        if share.weight < 1:
            flaws.append(Flaw(f"project:{share.name}", f"its weight is {share.weight}", "1 or more"))
        elif share.name in known:
            flaws.append(
                Flaw(f"project:{share.name}", "it is there twice; the first one counts", "each once")
            )
        else:
            known[share.name] = share
    for name, share in list(known.items()):
        at = share
        for _ in range(DEPTH_MAX):
            if at.parent not in known:
                break
            at = known[at.parent]
        else:
            flaws.append(Flaw(f"project:{name}", "its parents lead to no top", "a path that ends"))
            known[name] = Share(share.name, share.weight, ProjectName(""), share.guarantee, share.borrow)
    return known, flaws


def tree_of(
    shares: dict[ProjectName, Share],
    used: Iterable[Used],
    people: Iterable[tuple[ProjectName, Owner]],
    when: tuple[Instant, int],
) -> Grown:
    """The tree for these people, with their usage faded to now; `when` is now and the half-life."""
    now, half_life_s = when
    people = sorted(set(people))
    number: dict[ProjectName, int] = {}
    parent, weight = [NONE], [1.0]
    names = sorted({*shares, *(project for project, _ in people)})
    for name in names:
        number[name] = len(parent)
        parent.append(0)
        weight.append(float(shares[name].weight) if name in shares else 1.0)
    for name in names:
        above = shares[name].parent if name in shares else ProjectName("")
        parent[number[name]] = number.get(above, 0) if above and above != name else 0
    leaf = {}
    for project, owner in people:
        leaf[project, owner] = len(parent)
        parent.append(number[project])
        weight.append(1.0)
    usage = np.zeros(len(parent))
    for record in used:
        amount = faded(record.amount, now - record.at, half_life_s)
        at = leaf.get((record.project, record.owner), number.get(record.project, 0))
        for _ in range(DEPTH_MAX + 2):
            usage[at] += amount
            if at == 0:
                break
            at = parent[at]
    first, after = np.full(len(parent), NONE, np.int64), np.full(len(parent), NONE, np.int64)
    for branch in range(len(parent) - 1, 0, -1):
        after[branch], first[parent[branch]] = first[parent[branch]], branch
    return Grown(Tree(np.array(parent), np.array(weight), usage, first, after), leaf)


@compiled
def turns(tree: Tree, order: Ints, leaf: Ints, cost: Floats) -> Ints:
    """Jobs of an order, each with its leaf and cost, in turns by usage and weight."""
    count, branches = len(order), len(tree.parent)
    usage = tree.usage.copy()
    waiting = np.zeros(branches, np.int64)
    by_leaf = np.argsort(leaf, kind="mergesort")
    next_of = np.full(branches, NONE, np.int64)
    for at in range(count - 1, -1, -1):
        next_of[leaf[by_leaf[at]]] = at
    for at in range(count):
        branch = leaf[at]
        while branch != NONE:
            waiting[branch] += 1
            branch = tree.parent[branch]
    result = np.empty(count, np.int64)
    for turn in range(count):
        branch = 0
        while tree.first[branch] != NONE:
            best, child = NONE, tree.first[branch]
            while child != NONE:
                least = best == NONE or usage[child] * tree.weight[best] < usage[best] * tree.weight[child]
                if waiting[child] and least:
                    best = child
                child = tree.after[child]
            branch = best
        at = by_leaf[next_of[branch]]
        next_of[branch] += 1
        result[turn] = order[at]
        while branch != NONE:
            usage[branch] += cost[at]
            waiting[branch] -= 1
            branch = tree.parent[branch]
    return result
