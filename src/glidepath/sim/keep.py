"""Where a simulated controller writes its cycles, and what the next life reads after a crash.

Nowhere but in memory, where only scores count; as the journal encodes them, without a database; or in the
journal of a real store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from glidepath.clock import Moment
from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import PilotAction
from glidepath.core.provision.sight import Snapshot
from glidepath.journal.chain import Group, chained, unchained
from glidepath.journal.entry import Entry
from glidepath.journal.frames import Cycle
from glidepath.journal.journal import Journal
from glidepath.store.engine import Store

# Bytes are thrown away after the run; squeezing them at all is wasted time.
LEVEL = 0


class Keep(Protocol):
    """A place for cycles. One life of a controller writes through one of these."""

    def planned(
        self, moment: Moment, snapshot: Snapshot, memory: Memory, *, rules: Rules, plan: Plan[PilotAction]
    ) -> None: ...

    def acted(self, cycle: int, outcomes: tuple[Did, ...]) -> None: ...

    def latest(self) -> Entry | None: ...


class Keeps(Protocol):
    """What outlives a life."""

    def opened(self) -> Keep:
        """For a new life, as a restarted program would open it."""
        ...

    def entries(self) -> Iterator[Entry]:
        """All that was kept, as a reader would find it."""
        ...


class InMemory:
    """The last cycle and nothing else; for runs in which only scores count."""

    def __init__(self) -> None:
        self._last: Entry | None = None

    def opened(self) -> Keep:
        return self

    def entries(self) -> Iterator[Entry]:
        return iter(())

    def planned(
        self, moment: Moment, snapshot: Snapshot, memory: Memory, *, rules: Rules, plan: Plan[PilotAction]
    ) -> None:
        self._last = Entry(plan.cycle, moment, "", snapshot, memory, rules, plan, None)

    def acted(self, cycle: int, outcomes: tuple[Did, ...]) -> None:
        last = self._last
        if last is not None and last.cycle == cycle:
            self._last = Entry(
                cycle, last.moment, "", last.snapshot, last.memory, last.rules, last.plan, outcomes
            )

    def latest(self) -> Entry | None:
        return self._last


class Encoded:
    """Every cycle in the bytes of the journal, groups and keyframes as it has them, but no database."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, bytes]] = {}  # cycle: first of its group, bytes
        self._moments: dict[int, tuple[Moment, Rules]] = {}
        self._outcomes: dict[int, tuple[Did, ...]] = {}

    def opened(self) -> Keep:
        return _Writer(self)

    def keep(self, cycle: int, first: int, body: bytes, about: tuple[Moment, Rules]) -> None:
        if cycle in self._rows:
            raise OSError(f"cycle {cycle} is kept already: another controller writes here")
        self._rows[cycle] = (first, body)
        self._moments[cycle] = about

    def acted(self, cycle: int, outcomes: tuple[Did, ...]) -> None:
        self._outcomes[cycle] = outcomes

    def latest(self) -> Entry | None:
        if not self._rows:
            return None
        newest = max(self._rows)
        *_, last = self._group(self._rows[newest][0], since_cycle=newest)
        return last

    def entries(self) -> Iterator[Entry]:
        for first in sorted({first for first, _ in self._rows.values()}):
            yield from self._group(first)

    def _group(self, first: int, *, since_cycle: int = 0) -> Iterator[Entry]:
        rows = [(cycle, body) for cycle, (of, body) in sorted(self._rows.items()) if of == first]
        numbers = [cycle for cycle, _ in rows if cycle >= since_cycle]
        for cycle, found in zip(numbers, unchained(rows, since_cycle=since_cycle), strict=True):
            moment, rules = self._moments[cycle]
            outcomes = self._outcomes.get(cycle)
            yield Entry(cycle, moment, "", found.snapshot, found.memory, rules, found.plan, outcomes)


class _Writer:
    """The writing end of one life: what it has not finished is lost with it."""

    def __init__(self, kept: Encoded) -> None:
        self.kept = kept
        self._group: Group | None = None

    def planned(
        self, moment: Moment, snapshot: Snapshot, memory: Memory, *, rules: Rules, plan: Plan[PilotAction]
    ) -> None:
        cycle = Cycle(snapshot, memory, plan)
        group, body = chained(self._group, moment, cycle, rules=rules, level=LEVEL)
        self._group = None
        self.kept.keep(plan.cycle, group.first_cycle, body, (moment, rules))
        if not plan.actions:
            self.kept.acted(plan.cycle, ())  # Nothing to do is done already, as the journal has it.
        self._group = group

    def acted(self, cycle: int, outcomes: tuple[Did, ...]) -> None:
        self.kept.acted(cycle, outcomes)

    def latest(self) -> Entry | None:
        return self.kept.latest()


class InStore:
    """The journal of production."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def opened(self) -> Keep:
        return Journal(self.store)

    def entries(self) -> Iterator[Entry]:
        return Journal(self.store).entries()
