"""Whether jobs that belong together could ever have room at once: rows come in, yes or no goes out.

They are laid on the cluster as it would be with every node up, no window and nobody else there. What finds no
hole in that never starts, and would wait for ever without a word.
"""

from __future__ import annotations

from dataclasses import replace

from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Cluster, NodeState
from glidepath.core.schedule.compiled import NEVER, NONE
from glidepath.core.schedule.job import Book
from glidepath.core.schedule.placing import chain_placed, release_chain
from glidepath.core.schedule.table import Row, Table

_Key = tuple[object, ...]


class Emptied:
    """A cluster with nothing on it; what it found for one set of shapes it remembers for the next."""

    def __init__(self, cluster: Cluster, book: Book, now: Instant) -> None:
        nodes = tuple(replace(node, state=NodeState.UP) for node in cluster.nodes)
        self.table = Table(replace(cluster, nodes=nodes, windows=()), book, now)
        self.known: dict[_Key, bool] = {}

    def holds(self, rows: tuple[Row, ...], pinned: tuple[tuple[str, ...], ...]) -> bool:
        shapes = tuple(
            tuple((job.ask, job.partition, job.project, job.owner, job.queue) for job in row) for row in rows
        )
        key = (shapes, pinned)
        if key not in self.known:
            self.known[key] = self._placed(rows, pinned)
        return self.known[key]

    def _placed(self, rows: tuple[Row, ...], pinned: tuple[tuple[str, ...], ...]) -> bool:
        table, first = self.table, NONE
        for row, only in zip(reversed(rows), reversed(pinned), strict=True):
            at = table.add(row, only)
            table.work.beside[at] = first
            first = at
        board = table.board
        if chain_placed(board, first, int(table.now), False) == NEVER:
            return False
        release_chain(board, first, NONE)
        return True
