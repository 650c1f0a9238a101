"""A cluster without processes, for measurements: ranks begin when asked for and end after a run time.

`python -m bench.job_door up ...` is the whole `glidepath` with this door in the place of the local one. Nodes
come from `nodes.json` in its home; a job says with the variable `RUN_S` how long it runs, by default it does
so until it is stopped.
"""

from __future__ import annotations

import heapq
import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from glidepath.cluster import KINDS
from glidepath.core.cycle import Done, Outcome, Refused
from glidepath.core.place.rank import (
    Cause,
    ClusterName,
    NodeListing,
    NodeSeen,
    RankSeen,
    RankSet,
    RankState,
    SetKey,
    SetListing,
    SetSeen,
)
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Cluster, Node
from glidepath.ports import Place

NODES = "nodes.json"
RUN_S = "RUN_S"


def nodes_kept(home: Path, cluster: Cluster) -> None:
    """Write down what the door is to say of its nodes."""
    rows = [[node.name, list(node.size.as_tuple()), node.gpu_kind] for node in cluster.nodes]
    (home / NODES).write_text(json.dumps(rows))


class Paper:
    """Sets of ranks that are nothing but lines of a table."""

    limit_s = 5.0

    def __init__(self, name: ClusterName, nodes: tuple[Node, ...]) -> None:
        self.name = name
        self._listing = NodeListing(tuple(NodeSeen(node) for node in nodes))
        self._sets: dict[SetKey, SetSeen] = {}
        self._asked: dict[SetKey, RankSet] = {}
        self._ends: list[tuple[float, SetKey]] = []
        self._now = Instant(0)
        self._turn = threading.Lock()
        self._changed = False

    def nodes(self, *, now: Instant) -> NodeListing:
        return self._listing

    def list(self, *, now: Instant) -> SetListing:
        with self._turn:
            self._now = now
            self._end_due()
            self._changed = False
            return SetListing(tuple(self._sets.values()))

    def changed(self) -> bool:
        with self._turn:
            self._end_due()
            return self._changed

    def _end_due(self) -> None:
        at = time.monotonic()
        while self._ends and self._ends[0][0] <= at:
            self._over(heapq.heappop(self._ends)[1], Cause.EXITED, 0)

    def _over(self, key: SetKey, cause: Cause, code: int | None) -> None:
        seen = self._sets.get(key)
        if seen is None or seen.over:
            return
        ranks = tuple(
            replace(rank, state=RankState.OVER, cause=cause, exit_code=code, ended_at=self._now)
            for rank in seen.ranks
        )
        self._sets[key], self._changed = replace(seen, ranks=ranks), True

    def start(self, ranks: RankSet) -> Outcome:
        with self._turn:
            had = self._asked.get(ranks.key)
            if had is not None:
                return Done() if had == ranks else Refused("the key is another set's")
            seen = tuple(
                RankSeen(at, seat.node, RankState.RUNNING, began_at=self._now)
                for at, seat in enumerate(ranks.seats)
            )
            self._asked[ranks.key] = ranks
            self._sets[ranks.key], self._changed = SetSeen(ranks.key, seen, ranks.limit_s), True
            run_s = dict(ranks.work.env).get(RUN_S)
            if run_s is not None:
                heapq.heappush(self._ends, (time.monotonic() + float(run_s), ranks.key))
            return Done()

    def extend(self, key: SetKey, limit_s: int | None) -> Outcome:
        with self._turn:
            if key not in self._sets:
                return Refused("it is gone")
            self._sets[key] = replace(self._sets[key], limit_s=limit_s)
            return Done()

    def give_notice(self, key: SetKey) -> Outcome:
        return Done()

    def stop(self, key: SetKey) -> Outcome:
        with self._turn:
            self._over(key, Cause.STOPPED, None)
            return Done()

    def clear(self, key: SetKey) -> Outcome:
        with self._turn:
            seen = self._sets.get(key)
            if seen is not None and not seen.over:
                return Refused("it is not over")
            self._sets.pop(key, None)
            self._asked.pop(key, None)
            return Done()


def door(name: ClusterName, settings: Mapping[str, object], place: Place) -> Paper:
    rows = json.loads((place.home / NODES).read_text())
    return Paper(
        name, tuple(Node(NodeName(node), Resources(*size), gpu_kind=kind) for node, size, kind in rows)
    )


def main(words: list[str]) -> int:
    from glidepath.cli.main import main as glidepath

    KINDS["local"] = "bench.job_door:door"
    return glidepath(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
