"""What plans of placed jobs said, line by line: a plan comes in before it is acted on and can be read again.

Most lines are those of the plan before, so a row has what is new and what is gone; now and then, and first in
each life, it has all of them. Lines of one plan have no order that would mean anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select

from glidepath.clock import Moment
from glidepath.core.cycle import Decision, Plan
from glidepath.core.place.acts import PlaceAction
from glidepath.journal import wire
from glidepath.store.placed_rows import schedule_cycles

CYCLES_KEPT = 5000
PRUNE_EVERY = 200
WHOLE_EVERY = 64

Line = tuple[str, str, str]  # about, reason, the kind of act or nothing


def line_of(decision: Decision[PlaceAction]) -> Line:
    act = type(decision.action).__name__ if decision.action else ""
    return decision.about, str(decision.reason), act


@dataclass
class ToldPlans:
    """Of one cluster; one thread writes."""

    cluster: str

    def __post_init__(self) -> None:
        self._last: tuple[Decision[PlaceAction], ...] = ()
        self._kept, self._new = 0, 0  # rows that are durable, and one that will be
        self.row = 0  # of the last plan that was kept

    def keep(self, conn: Connection, moment: Moment, plan: Plan[PlaceAction]) -> None:
        """Nothing where nothing is done and everything said was said before."""
        self._new = 0
        if not plan.actions and plan.decisions == self._last:
            return
        whole = self._kept % WHOLE_EVERY == 0
        # The same value is the same line; an equal one that was made anew is told again.
        had = {} if whole else {id(one): one for one in self._last}
        have = {id(one) for one in plan.decisions}
        new = [line_of(one) for one in plan.decisions if id(one) not in had]
        gone = [line_of(one) for number, one in had.items() if number not in have]
        self.row = int(conn.execute(select(func.max(schedule_cycles.c.cycle))).scalar() or 0) + 1
        row = {
            "cycle": self.row,
            "wall_s": moment.wall_s,
            "at": moment.at,
            "actions": len(plan.actions),
            "body": wire.compressed([self.cluster, plan.cycle, new, None if whole else gone]),
            "outcomes": None,
        }
        conn.execute(schedule_cycles.insert(), row)
        self._new = 1
        if (self._kept + 1) % PRUNE_EVERY == 0:
            oldest = schedule_cycles.c.cycle <= self.row - CYCLES_KEPT
            conn.execute(delete(schedule_cycles).where(oldest))

    def kept(self, decisions: tuple[Decision[PlaceAction], ...]) -> None:
        """Its transaction is durable; until then the next plan is told by the one before."""
        self._last = decisions
        self._kept += self._new

    def lines(self, conn: Connection, row: int) -> Counter[Line]:
        """What the plan in this row said; a LookupError where it was not kept, or what it builds on."""
        query = select(schedule_cycles.c.cycle, schedule_cycles.c.body)
        query = query.where(schedule_cycles.c.cycle <= row).order_by(schedule_cycles.c.cycle.desc())
        pieces: list[tuple[list[Any], list[Any] | None]] = []
        for found in conn.execute(query):
            cluster, _, new, gone = wire.decompressed(found.body)
            if cluster != self.cluster or (not pieces and found.cycle != row):
                continue
            pieces.append((new, gone))
            if gone is None:
                return _put_together(pieces)
        raise LookupError(f"the plan {row} of the cluster `{self.cluster}` is not kept")


def _put_together(pieces: list[tuple[list[Any], list[Any] | None]]) -> Counter[Line]:
    lines: Counter[Line] = Counter()
    for new, gone in reversed(pieces):
        lines.subtract(tuple(line) for line in gone or ())
        lines.update(tuple(line) for line in new)
    return +lines
