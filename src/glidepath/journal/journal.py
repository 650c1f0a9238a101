"""The journal of cycles: a plan comes in before it is acted on, outcomes after, and any kept cycle goes out.

Cycles are stored in groups that begin with a keyframe and go on with changes; all of a group share one
version, one boot and one set of rules. One thread of one process writes; any number of others read meanwhile.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from glidepath import __version__
from glidepath.clock import Moment
from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import PilotAction
from glidepath.core.provision.sight import Pause, Snapshot
from glidepath.core.quantity import Instant
from glidepath.journal import rollups, wire, words
from glidepath.journal.chain import KEYFRAME_EVERY, Group, chained, unchained
from glidepath.journal.codec import Malformed, coder
from glidepath.journal.entry import EndedPilot, Entry, Header, Note, Rollup
from glidepath.journal.frames import Cycle
from glidepath.store import schema
from glidepath.store.engine import Store, StoreBroken, StoreUnwritable, insert

# A prune that catches up after a long time must not hold up the loop.
GROUPS_PRUNED_MAX = 32
# Nothing is acted on while the plan cannot be written, so few outcomes can ever wait.
OWED_MAX = 100

_OUTCOMES = coder(tuple[Did, ...])
_RULES = coder(Rules)


class CycleDamaged(StoreBroken, ValueError):
    """One cycle cannot be read; the journal goes on, and other groups are whole."""


class Journal:
    """Nothing is read or written before the first call; a reader uses the same class on a read-only store."""

    def __init__(
        self,
        store: Store,
        *,
        keyframe_every: int = KEYFRAME_EVERY,
        version: str = __version__,
        hold: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        """`hold` is asked in each transaction of a cycle, and raises where we may not write any more."""
        self.store = store
        self._hold = hold
        self.version = version
        self.keyframe_every = keyframe_every
        self._group: Group | None = None
        self._buckets = rollups.OpenBuckets()
        self._unsure_cycle: int | None = None  # may have been kept by a write that got no answer
        self._last: tuple[Moment, Plan[PilotAction]] | None = None
        self._owed: deque[tuple[Moment, Plan[PilotAction], tuple[Did, ...]]] = deque(maxlen=OWED_MAX)

    def planned(
        self, moment: Moment, snapshot: Snapshot, memory: Memory, *, rules: Rules, plan: Plan[PilotAction]
    ) -> None:
        """Keep one cycle. Durable on return; `StoreUnwritable` means that nothing may be done."""
        cycle = Cycle(snapshot, memory, plan)
        group, body = chained(self._group, moment, cycle, rules=rules, keyframe_every=self.keyframe_every)
        row = {
            "cycle": plan.cycle,
            "first_cycle": group.first_cycle,
            "wall_s": moment.wall_s,
            "at": moment.at,
            "monotonic_s": moment.monotonic_s,
            "actions": len(plan.actions),
            "body": body,
            "outcomes": None if plan.actions else b"",  # Nothing to do is done already.
        }
        # Until the commit has answered, what is in the store is unknown: start again from a keyframe.
        unsure_cycle, self._unsure_cycle, self._group = self._unsure_cycle, None, None
        buckets, self._buckets = self._buckets, rollups.OpenBuckets()
        try:
            with self.store.write() as connection:
                self._hold(connection)
                if group.count == 1:
                    self._begin_group(connection, moment, group, unsure_cycle)
                connection.execute(insert(connection, schema.cycles), row)
                buckets.fold(connection, moment.wall_s, rollups.counted(cycle, rules))
        except StoreUnwritable:
            self._unsure_cycle = plan.cycle
            raise
        except IntegrityError as error:
            raise StoreUnwritable(
                f"the journal has cycle {plan.cycle} already: another glidepath writes to {self.store.shown}"
            ) from error
        self._group, self._buckets = group, buckets
        self._last = (moment, plan)

    def acted(self, cycle: int, outcomes: tuple[Did, ...]) -> None:
        """Keep what came of a plan, and the statistics of the pilots that it ended."""
        if self._last is not None and self._last[1].cycle == cycle:
            moment, plan = self._last
        else:
            entry = self.entry(cycle)
            moment, plan = entry.moment, entry.plan
        if outcomes or plan.actions:
            # What cannot be written now is written with the next: the pilots it ended are never seen again.
            self._owed.append((moment, plan, outcomes))
        if not self._owed:
            return
        with self.store.write() as connection:
            self._hold(connection)
            for moment, plan, outcomes in self._owed:
                body = wire.compressed(_OUTCOMES.encode(outcomes)) if outcomes else b""
                of_cycle = update(schema.cycles).where(schema.cycles.c.cycle == plan.cycle)
                connection.execute(of_cycle.values(outcomes=body))
                words.record_ended(connection, moment, plan, outcomes)
        self._owed.clear()

    def recover(self, entry: Entry) -> None:
        """Keep the statistics of pilots that a plan wrote off when nobody lived to record its outcomes."""
        if entry.outcomes is None:
            with self.store.write() as connection:
                words.record_ended(connection, entry.moment, entry.plan, ())

    def latest(self) -> Entry | None:
        """The newest cycle; None in an empty journal."""
        with self.store.read() as connection:
            newest = connection.execute(select(func.max(schema.cycles.c.cycle))).scalar()
            return None if newest is None else self._entry(connection, newest)

    def entry(self, cycle: int) -> Entry:
        """One kept cycle. Raises LookupError that says which are kept."""
        with self.store.read() as connection:
            return self._entry(connection, cycle)

    def entries(self, *, since_cycle: int = -1, until_cycle: int | None = None) -> Iterator[Entry]:
        """Kept cycles in order, each decoded from the one before it; far cheaper than one by one.

        Groups that are removed meanwhile are passed over.
        """
        groups = schema.cycle_groups.c
        with self.store.read() as connection:
            in_order = select(groups.first_cycle).order_by(groups.first_cycle)
            firsts = connection.execute(in_order).scalars().all()
        for place, first in enumerate(firsts):
            after = firsts[place + 1] if place + 1 < len(firsts) else None
            if (after is None or after > since_cycle + 1) and (until_cycle is None or first <= until_cycle):
                yield from self._entries_of(first, since_cycle, until_cycle)

    def _entries_of(self, first: int, since_cycle: int, until_cycle: int | None) -> Iterator[Entry]:
        cycles = schema.cycles.c
        query = select(schema.cycles).where(cycles.first_cycle == first).order_by(cycles.cycle)
        if until_cycle is not None:
            query = query.where(cycles.cycle <= until_cycle)
        try:
            with self.store.read() as connection:
                rows = connection.execute(query).all()
                if not rows:
                    return
                version, boot_id, rules = self._of_group(connection, first)
            wanted = [row for row in rows if row.cycle > since_cycle]
            found = unchained(((row.cycle, row.body) for row in rows), since_cycle=since_cycle + 1)
            for row, cycle in zip(wanted, found, strict=True):
                moment, memory, plan = _moment(row, boot_id), cycle.memory, cycle.plan
                try:
                    outcomes = _outcomes(row.outcomes)
                except Malformed as error:
                    raise error.under(f"cycle {row.cycle}") from error
                yield Entry(row.cycle, moment, version, cycle.snapshot, memory, rules, plan, outcomes)
        except Malformed as error:
            raise CycleDamaged(f"the journal `{self.store.shown}` is damaged: {error}") from error

    def headers(self, *, since_cycle: int = -1, limit: int = 100) -> tuple[Header, ...]:
        """Cycles after `since_cycle`, newest first."""
        cycles, groups = schema.cycles.c, schema.cycle_groups.c
        query = (
            select(cycles.cycle, cycles.wall_s, cycles.at, cycles.monotonic_s, cycles.actions,
                   cycles.outcomes.is_not(None).label("acted"), groups.version, groups.boot_id)
            .join_from(schema.cycles, schema.cycle_groups, cycles.first_cycle == groups.first_cycle)
            .where(cycles.cycle > since_cycle)
            .order_by(cycles.cycle.desc())
            .limit(limit)
        )  # fmt: skip
        with self.store.read() as connection:
            rows = connection.execute(query).all()
        return tuple(
            Header(row.cycle, _moment(row, row.boot_id), row.version, row.actions, bool(row.acted))
            for row in rows
        )

    def note(self, kind: str, text: str, by: str = "", *, wall_s: float | None = None) -> None:
        """Keep a line about something that no cycle decided, such as a changed configuration."""
        with self.store.write() as connection:
            words.add_note(connection, Note(time.time() if wall_s is None else wall_s, kind, text, by))

    def events(self, *, limit: int = 100) -> tuple[Note, ...]:
        """The notes, newest first."""
        with self.store.read() as connection:
            return words.newest_notes(connection, limit)

    def pause(
        self, about: str, by: str, why: str, *, drain: bool = False, wall_s: float | None = None
    ) -> None:
        """An operator's word that something rests: `pool:NAME`, `site:NAME` or `offer:KEY`."""
        said = Pause(about, by, why, drain)
        with self.store.write() as connection:
            words.set_pause(connection, said, time.time() if wall_s is None else wall_s)

    def resume(self, about: str) -> bool:
        """Take the word back; false when there was none."""
        with self.store.write() as connection:
            return words.end_pause(connection, about)

    def pauses(self) -> tuple[Pause, ...]:
        with self.store.read() as connection:
            return words.all_pauses(connection)

    def ended(self, *, limit: int = 100, site: str | None = None) -> tuple[EndedPilot, ...]:
        """Pilots that are over, newest first."""
        with self.store.read() as connection:
            return words.newest_ended(connection, limit, site)

    def rollups(self, span_s: int, *, since_s: float, until_s: float) -> tuple[Rollup, ...]:
        """Buckets of `span_s` seconds that touch the time from `since_s` to `until_s`, oldest first."""
        with self.store.read() as connection:
            return rollups.read_rollups(connection, span_s, since_s, until_s)

    def prune(self, now_wall_s: float, *, keep_s: float, keep_cycles_max: int) -> int:
        """Remove what is too old, whole groups and never the newest; returns how many cycles went."""
        groups, cycles = schema.cycle_groups.c, schema.cycles.c
        oldest = select(groups.first_cycle, groups.wall_s).order_by(groups.first_cycle)
        with self.store.write() as connection:
            newest = connection.execute(select(func.max(cycles.cycle))).scalar() or 0
            until = 0
            for _, after in pairwise(connection.execute(oldest.limit(GROUPS_PRUNED_MAX + 1)).all()):
                if after.wall_s < now_wall_s - keep_s or newest - after.first_cycle + 1 >= keep_cycles_max:
                    until = after.first_cycle
            gone = connection.execute(delete(schema.cycles).where(cycles.cycle < until)).rowcount
            if gone:
                connection.execute(delete(schema.cycle_groups).where(groups.first_cycle < until))
                used = select(groups.rules_id).distinct()
                connection.execute(delete(schema.rules).where(schema.rules.c.id.not_in(used)))
            rollups.prune_rollups(connection, now_wall_s)
            words.prune_words(connection, now_wall_s)
        return gone

    def _begin_group(
        self, connection: Connection, moment: Moment, group: Group, unsure_cycle: int | None
    ) -> None:
        cycle, cycles = group.first_cycle, schema.cycles.c
        newest = connection.execute(select(func.max(cycles.cycle))).scalar()
        if newest is not None and cycle == newest == unsure_cycle:
            connection.execute(delete(schema.cycles).where(cycles.cycle == cycle))
            connection.execute(delete(schema.cycle_groups).where(schema.cycle_groups.c.first_cycle == cycle))
        elif newest is not None and cycle <= newest:
            raise ValueError(f"cycle {cycle} cannot be kept: the journal has cycles up to {newest} already")
        row = {
            "first_cycle": cycle,
            "wall_s": moment.wall_s,
            "version": self.version,
            "boot_id": moment.boot_id,
            "rules_id": _rules_id(connection, group.rules),
        }
        connection.execute(insert(connection, schema.cycle_groups).values(row))

    def _entry(self, connection: Connection, cycle: int) -> Entry:
        cycles = schema.cycles.c
        row = connection.execute(select(schema.cycles).where(cycles.cycle == cycle)).first()
        if row is None:
            raise LookupError(f"cycle {cycle} is not in the journal; {_kept(connection)}")
        try:
            version, boot_id, rules = self._of_group(connection, row.first_cycle)
            bodies = (
                select(cycles.cycle, cycles.body)
                .where(cycles.cycle >= row.first_cycle, cycles.cycle <= cycle)
                .where(cycles.first_cycle == row.first_cycle)
                .order_by(cycles.cycle)
            )
            rows = [(each.cycle, each.body) for each in connection.execute(bodies)]
            *_, found = unchained(rows, since_cycle=cycle)
            outcomes = _outcomes(row.outcomes)
        except Malformed as error:
            raise CycleDamaged(
                f"cycle {cycle} of the journal `{self.store.shown}` is damaged: {error}; others may be whole"
            ) from error
        moment = _moment(row, boot_id)
        return Entry(cycle, moment, version, found.snapshot, found.memory, rules, found.plan, outcomes)

    @staticmethod
    def _of_group(connection: Connection, first_cycle: int) -> tuple[str, str, Rules]:
        groups = schema.cycle_groups.c
        of_group = select(groups.version, groups.boot_id, schema.rules.c.body).join_from(
            schema.cycle_groups, schema.rules, groups.rules_id == schema.rules.c.id
        )
        group = connection.execute(of_group.where(groups.first_cycle == first_cycle)).one()
        return group.version, group.boot_id, _RULES.decode(wire.decompressed(group.body))


def _outcomes(body: bytes | None) -> tuple[Did, ...] | None:
    if body is None:
        return None
    found: tuple[Did, ...] = _OUTCOMES.decode(wire.decompressed(body)) if body else ()
    return found


def _moment(row: Row[Any], boot_id: str) -> Moment:
    return Moment(row.wall_s, Instant(row.at), boot_id, row.monotonic_s)


def _kept(connection: Connection) -> str:
    cycles = schema.cycles.c
    low, high = connection.execute(select(func.min(cycles.cycle), func.max(cycles.cycle))).one()
    return "it is empty" if low is None else f"kept are {low} to {high}"


def _rules_id(connection: Connection, rules: Rules) -> int:
    """Rules are large and seldom change, so each content is kept once."""
    plain = _RULES.encode(rules)
    digest = hashlib.sha256(wire.packed(plain)).hexdigest()
    row = {"digest": digest, "body": wire.compressed(plain)}
    connection.execute(insert(connection, schema.rules).values(row).on_conflict_do_nothing())
    found = connection.execute(select(schema.rules.c.id).where(schema.rules.c.digest == digest))
    return int(found.scalar_one())
