"""Jobs like this one, and how long they waited: many small trees of yes-no questions, on columns.

Rows of numbers with the wait of each come in; for other rows, how the waits of like jobs spread comes out, as
shares on a grid of doublings. What a number means is the caller's business; NaN is "not known". Nothing is
left to chance: what each tree is not shown follows from counting, and the same rows give the same trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glidepath.core.schedule.compiled import Floats, Ints

# The grid: fifths of a doubling, from a second to two years.
STEPS = 5
CELLS = 26 * STEPS
# More of them depend less on what each is shown, and take longer; sixty on a month of jobs take seconds.
TREES = 60
# A tree is shown this share of the batches, and at each level this share of the columns: trees that saw the
# same would err alike, and their mean would be no better than one of them.
BATCHES_SHOWN = 0.5
COLUMNS_SHOWN = 0.3
COLUMNS_SHOWN_MIN = 4
JOBS_MIN = 12  # in a leaf; with fewer the ends of a range are the luck of one job
LEVELS_MAX = 14
CUTS = 31  # into which each column is divided, by equal counts
# A batch of jobs that are alike and came together has one fate; it counts as the square root of its jobs, and
# of a large one so many are looked at, from its first to its last.
BATCH_POWER = 0.5
BATCH_JOBS_MAX = 32

Cells = NDArray[np.uint8]
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Tree(NamedTuple):
    column: Ints  # [node] asked for; -1 at a leaf
    cut: Ints  # [node] cells up to this go left
    left: Ints  # [node] the right one is the next
    shares: NDArray[np.float32]  # [node, cell of the grid]
    jobs: Ints  # [node]


class Forest(NamedTuple):
    edges: tuple[Floats, ...]  # [column]
    trees: tuple[Tree, ...]
    jobs: int  # learnt from


def cell_of(wait_s: Floats) -> Ints:
    found = np.floor(np.log2(np.maximum(wait_s, 1.0)) * STEPS).astype(np.int64)
    return np.asarray(np.minimum(found, CELLS - 1), np.int64)


def middle_s(cell: Floats) -> Floats:
    """The wait in the middle of a cell; between cells for fractions."""
    return np.asarray(np.exp2((cell + 0.5) / STEPS), np.float64)


def forest_of(features: Floats, wait_s: Floats, batch: Ints) -> Forest:
    """Learnt from jobs that have started, a row each; batches are numbers, alike for jobs of one batch."""
    known = len(wait_s)
    kept = _thinned(batch)
    features, wait_s, batch = features[kept], wait_s[kept], batch[kept]
    edges = tuple(_edges(column) for column in features.T)
    if known == 0:
        return Forest(edges, (), 0)
    cells = _cells(features, edges)
    grid = cell_of(wait_s)
    height = np.log2(np.maximum(wait_s, 1.0))
    _, batch, size = np.unique(batch, return_inverse=True, return_counts=True)
    batch = batch.reshape(-1)
    weight = np.asarray(size[batch] ** (BATCH_POWER - 1.0), np.float64)
    trees = []
    for number in range(TREES):
        shown = np.flatnonzero(_mixed(len(size), number)[batch] < BATCHES_SHOWN)
        if len(shown) == 0:
            shown = np.arange(len(batch))
        rows = _Rows(np.ascontiguousarray(cells[shown].T), height[shown], weight[shown], grid[shown])
        trees.append(_grown(rows, number))
    return Forest(edges, tuple(trees), known)


def spread(forest: Forest, features: Floats) -> tuple[Floats, Floats]:
    """For each row: the shares on the grid, and how many jobs they are from, both as the mean of trees."""
    shares, jobs = np.zeros((len(features), CELLS)), np.zeros(len(features))
    cells = _cells(features, forest.edges)
    for tree in forest.trees:
        leaf = _leaf_of(tree, cells)
        shares += tree.shares[leaf]
        jobs += tree.jobs[leaf]
    return shares / max(1, len(forest.trees)), jobs / max(1, len(forest.trees))


class _Rows(NamedTuple):
    cells: Cells  # [column, row]
    height: Floats
    weight: Floats
    grid: Ints


def _mixed(count: int, salt: int) -> Floats:
    """Numbers from 0 to 1 in no order to speak of, always the same for one salt (splitmix64)."""
    with np.errstate(over="ignore"):
        found = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(salt) * np.uint64(1 << 32)) * _MIX[0]
        found = (found ^ (found >> np.uint64(30))) * _MIX[1]
        found = (found ^ (found >> np.uint64(27))) * _MIX[2]
        found ^= found >> np.uint64(31)
    return np.asarray(found >> np.uint64(11), np.float64) / float(1 << 53)


def _thinned(batch: Ints) -> Ints:
    """The rows to look at: of each batch so many at most, at even steps."""
    _, batch, size = np.unique(batch, return_inverse=True, return_counts=True)
    batch = batch.reshape(-1)
    order = np.argsort(batch, kind="stable")
    place = np.empty(len(batch), np.int64)
    place[order] = np.arange(len(batch)) - np.repeat(np.cumsum(size) - size, size)
    jobs = size[batch]
    most = np.minimum(jobs, BATCH_JOBS_MAX)
    return np.flatnonzero(place * most // jobs != (place - 1) * most // jobs)


def _edges(column: Floats) -> Floats:
    known = column[~np.isnan(column)]
    if len(known) == 0:
        return np.zeros(0)
    # Values that occur, not means of two of them: a cut must lie between what was seen.
    wanted = np.linspace(0, 1, CUTS)[1:-1]
    return np.asarray(np.unique(np.quantile(known, wanted, method="lower")), np.float64)


def _cells(features: Floats, edges: tuple[Floats, ...]) -> Cells:
    """Unknown is the first cell; a value that is one of the edges goes below it."""
    found = np.zeros(features.shape, np.uint8)
    for at, edge in enumerate(edges):
        column = features[:, at]
        found[:, at] = np.where(np.isnan(column), 0, 1 + np.searchsorted(edge, column, side="left"))
    return found


def _grown(rows: _Rows, salt: int) -> Tree:
    """A tree, level by level; all nodes of a level are divided at once."""
    column, cut, left, leaf_of = [-1], [0], [0], np.zeros(len(rows.height), np.int64)
    nodes, inside = np.array([0]), np.arange(len(rows.height))
    place = np.zeros(len(rows.height), np.int64)  # of each row inside, among the nodes of the level
    for level in range(LEVELS_MAX):
        chosen, at = _best(rows, inside, place, (len(nodes), salt * LEVELS_MAX + level))
        divided = np.flatnonzero(chosen >= 0)
        if len(divided) == 0:
            break
        first = np.full(len(nodes), -1)
        first[divided] = 2 * np.arange(len(divided))
        for number in divided.tolist():
            column[nodes[number]], cut[nodes[number]] = int(chosen[number]), int(at[number])
            left[nodes[number]] = len(column)
            column += [-1, -1]
            cut += [0, 0]
            left += [0, 0]
        kept = first[place] >= 0
        inside, place = inside[kept], place[kept]
        right = rows.cells[chosen[place], inside] > at[place]
        place = first[place] + right
        nodes = np.arange(len(column) - 2 * len(divided), len(column))
        leaf_of[inside] = nodes[place]
    count = len(column)
    shares = np.bincount(leaf_of * CELLS + rows.grid, rows.weight, count * CELLS).reshape(count, CELLS)
    total = np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    jobs = np.bincount(leaf_of, minlength=count)
    return Tree(np.array(column), np.array(cut), np.array(left), (shares / total).astype(np.float32), jobs)


def _best(rows: _Rows, inside: Ints, place: Ints, level: tuple[int, int]) -> tuple[Ints, Ints]:
    """For each node the column and the cut that leave the waits on both sides most alike; -1 for none."""
    nodes, salt = level
    chosen, at, best = np.full(nodes, -1), np.zeros(nodes, np.int64), np.full(nodes, 1e-9)
    weight = rows.weight[inside]
    lift = weight * rows.height[inside]
    cells = CUTS + 1
    # A column that is the same for all divides nothing; a level that was shown only such would be the last.
    usable = np.flatnonzero(rows.cells.min(axis=1) < rows.cells.max(axis=1))
    order = usable[np.argsort(_mixed(len(usable), salt + (1 << 20)), kind="stable")]
    for column in order[: max(COLUMNS_SHOWN_MIN, round(len(usable) * COLUMNS_SHOWN))].tolist():
        key = place * cells + rows.cells[column, inside]
        count, mass, sums = (
            np.cumsum(np.bincount(key, part, nodes * cells).reshape(nodes, cells), axis=1)
            for part in (None, weight, lift)
        )
        enough = (count >= JOBS_MIN) & (count[:, -1:] - count >= JOBS_MIN)
        mass_right = np.where(enough, mass[:, -1:] - mass, 1.0)
        mass_left = np.where(enough, mass, 1.0)
        gain = sums**2 / mass_left + (sums[:, -1:] - sums) ** 2 / mass_right
        gain = np.where(enough, gain - sums[:, -1:] ** 2 / np.maximum(mass[:, -1:], 1e-300), -np.inf)
        cut = np.argmax(gain, axis=1)
        found = gain[np.arange(nodes), cut]
        better = found > best
        chosen[better], at[better], best[better] = column, cut[better], found[better]
    return chosen, at


def _leaf_of(tree: Tree, cells: Cells) -> Ints:
    node = np.zeros(len(cells), np.int64)
    for _ in range(LEVELS_MAX):
        column = tree.column[node]
        inner = np.flatnonzero(column >= 0)
        if len(inner) == 0:
            break
        at = node[inner]
        node[inner] = tree.left[at] + (cells[inner, column[inner]] > tree.cut[at])
    return node
