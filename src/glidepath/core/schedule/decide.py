"""Deciding: a world, the book of rules and the memory come in, a plan goes out, with a reason for every line.

Whatever is acted on has a decision of its own; jobs that are left to wait have one for each queue, partition
and shape, and `explain` tells of a single one. The memory that comes out holds whether acts succeed or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Fact, Plan, Reason
from glidepath.core.quantity import Instant
from glidepath.core.schedule.acts import JobAction, Refuse, Start
from glidepath.core.schedule.compiled import NEVER, NONE, Ints
from glidepath.core.schedule.job import Book, Ended, Job, JobName, Lesson, Memory, Place, Promise, World
from glidepath.core.schedule.later import Later
from glidepath.core.schedule.order import Kind
from glidepath.core.schedule.placing import WAITS, all_capped
from glidepath.core.schedule.plan import Laid, View, lay, view_of
from glidepath.core.schedule.promise import scored, tallied
from glidepath.core.schedule.runs import running_decisions
from glidepath.core.schedule.sift import Sifted, sift
from glidepath.core.schedule.stop import stops
from glidepath.core.schedule.table import Table
from glidepath.core.units import shown_duration

WAKE_S_MAX = 60
QUEUES = ("interactive", "batch")


@dataclass(frozen=True)
class Schedule:
    """What was decided, and what to know next time."""

    plan: Plan[JobAction]
    memory: Memory


def decide(world: World, book: Book, memory: Memory, kind: int = Kind.STEADY) -> Schedule:
    sifted = sift(world, book, memory.at)
    table = table_of(sifted, book, memory)
    teach(table, world.ended)
    return scheduled(table, sifted, memory, view_of(world, sifted, kind))


def table_of(sifted: Sifted, book: Book, memory: Memory) -> Table:
    """A table of everything that runs and waits."""
    table = Table(sifted.cluster, book, sifted.now)
    for one in sifted.running:
        if one.job.partition in table.line_of:
            table.add((one.job,))
            table.start(one)
    for unit in sifted.units:
        after = NONE
        for row, pinned in zip(reversed(unit.rows), reversed(unit.pinned), strict=True):
            at = table.add(row, pinned)
            table.work.beside[at] = after
            if after != NONE:
                table.follows[after] = 1
            after = at
    table.recall(memory)
    return table


def teach(table: Table, ended: tuple[Ended, ...]) -> None:
    for one in ended:
        table.learn_from(one.job, one.run_s)


def scheduled(table: Table, sifted: Sifted, memory: Memory, view: View) -> Schedule:
    """The plan on this table, which is left as it was but for what is learnt of those that begin."""
    had = {promise.job: promise for promise in memory.promises}
    laid = lay(table, view)
    decisions: list[Decision[JobAction]] = [
        Decision(flaw.about, Reason(Because.NOT_SOUND, (("why", flaw.why), ("accepted", flaw.accepted))))
        for flaw in sifted.flaws
    ]
    if sifted.back_s:
        decisions.append(Decision("clock", Reason(Because.CLOCK_WENT_BACK, (("seconds", sifted.back_s),))))
    decisions += [Decision(f"job:{no.job}", no.reason, Refuse(no.job)) for no in sifted.refusals]
    scores = scored(had, sifted.running)
    decisions += [decision for decision, _ in scores]
    decisions += running_decisions(sifted, table.book)
    decisions += stops(laid, sifted)
    decisions += _starts(laid)
    decisions += _promised(laid, had, view.now)
    decisions += _kept(laid)
    decisions += _left(laid, view)
    promises = tuple(_promises(laid, had, view.now))
    wake = min([at - view.now for at in laid.starts.values() if at > view.now], default=WAKE_S_MAX)
    began = list(laid.began)
    laid.lift()
    for row in began:
        table.pass_by(row)
    # Whoever begins is passed by nobody any more; if it does not begin after all it counts from here.
    table.lore.passed[began] = 0.0
    tally = tallied(memory.tally, (off_s for _, off_s in scores))
    base = Memory(cycle=memory.cycle + 1, at=view.now, promises=promises, tally=tally)
    after = memory_of(table, base)
    return Schedule(Plan(memory.cycle + 1, view.now, tuple(decisions), min(wake, WAKE_S_MAX)), after)


def memory_of(table: Table, memory: Memory) -> Memory:
    """The memory with what the table has learnt by now; what the table learns later does not change it."""
    groups, weight, ratio = len(table.groups), table.lore.weight.copy(), table.lore.ratio.copy()
    count = len(table.rows)
    rows, names = table.rows, table.groups
    waiting = np.nonzero((table.work.state[:count] == WAITS) & (table.lore.passed[:count] > 0))[0]
    work = table.lore.passed[waiting]

    def lessons() -> tuple[Lesson, ...]:
        # Both only ever grow, so that the first of them are those of now.
        found = zip(islice(names, groups), weight.tolist(), ratio.tolist(), strict=False)
        return tuple(Lesson(name, seen, sum_of) for name, seen, sum_of in sorted(found) if seen)

    def passed() -> tuple[tuple[JobName, float], ...]:
        pairs = zip(waiting.tolist(), work.tolist(), strict=True)
        return tuple((rows[at][0].name, amount) for at, amount in pairs)

    return replace(memory, lessons=Later(lessons), passed=Later(passed))


def _until(job: Job, start: int) -> Instant | None:
    return None if job.limit_s is None else Instant(start + job.limit_s)


def _starts(laid: Laid) -> Iterator[Decision[JobAction]]:
    for row in laid.began:
        places = laid.places(row)
        for job in laid.table.rows[row]:
            facts: tuple[Fact, ...] = (("queue", job.queue.value), ("nodes", _nodes(places)))
            start = Start(job.name, places, _until(job, laid.starts[row]))
            yield Decision(f"job:{job.name}", Reason(Because.STARTS, facts), start)


def _promised(laid: Laid, had: Mapping[JobName, Promise], now: Instant) -> Iterator[Decision[JobAction]]:
    for row in laid.promised:
        at, places = laid.starts[row], laid.places(row)
        for job in laid.table.rows[row]:
            before = had.get(job.name)
            facts: tuple[Fact, ...]
            if before is not None and at > max(before.at, now):
                later = ("later_by", shown_duration(at - before.at))
                facts = (("at", at), ("nodes", _nodes(places)), later)
                yield Decision(f"job:{job.name}", Reason(Because.PROMISE_MOVED, facts))
                continue
            same = (at, places)
            told = laid.table.told.get(job.name)
            if told is None or told[0] != same:
                facts = (("at", at), ("nodes", _nodes(places)))
                told = (same, Decision(f"job:{job.name}", Reason(Because.PROMISED, facts)))
                laid.table.told[job.name] = told
            yield told[1]


def _nodes(places: tuple[Place, ...]) -> str:
    return ",".join(place.node for place in places)


def _promises(laid: Laid, had: Mapping[JobName, Promise], now: Instant) -> Iterator[Promise]:
    """What is promised from now on; a job that begins keeps its promise until it is seen to run."""
    interactive = [row for row in laid.began if laid.table.queue[row] == 0]
    for row in (*interactive, *laid.promised):
        at, places = Instant(laid.starts[row]), laid.places(row)
        for job in laid.table.rows[row]:
            before = had.get(job.name)
            if before is None:
                yield Promise(job.name, at, places, now, at)
            elif before.at == at and before.places == places:
                yield before
            else:
                moved = before.moved + (at > max(before.at, now))
                yield Promise(job.name, at, places, before.told_at, before.first, moved)
    for name, before in had.items():
        waits = laid.table.row_of.get(name)
        if waits is not None and laid.table.work.state[waits] == WAITS:
            # While its nodes are away or its queue rests none can be told; what was told is not forgotten.
            yield replace(before, at=Instant(NEVER), places=(), moved=before.moved + (before.at != NEVER))


def _kept(laid: Laid) -> Iterator[Decision[JobAction]]:
    for row in laid.kept:
        facts: tuple[Fact, ...] = (("at", laid.starts[row]), ("nodes", _nodes(laid.places(row))))
        for job in laid.table.rows[row]:
            yield Decision(f"job:{job.name}", Reason(Because.ROOM_KEPT, facts))


def _left(laid: Laid, view: View) -> Iterator[Decision[JobAction]]:
    """Jobs that are left to wait without a start, by queue, partition, shape and why."""
    table = laid.table
    count = len(table.rows)
    rows = np.nonzero(table.work.state[:count] == WAITS)[0].astype(np.int64)
    if not len(rows):
        return
    parts = (table.queue[rows], table.line[rows], table.work.shape[rows], whys(laid, rows, view))
    bounds = (len(QUEUES), len(table.line_of), table.shape_count, len(LEFT))
    # One number for each combination: counting them is quicker by far than comparing rows.
    numbers = np.bincount(np.ravel_multi_index(parts, bounds))
    ranks = table.shape_ranks()
    names = {at: name for name, at in table.line_of.items()}
    there = np.nonzero(numbers)[0]
    columns = [column.tolist() for column in (*np.unravel_index(there, bounds), numbers[there])]
    found = zip(*columns, strict=True)
    # By what is asked for, as shapes are numbered in the order in which a table came to know them.
    for queue, line, of, code, number in sorted(found, key=lambda one: (*one[:2], ranks[one[2]], one[3])):
        told = table.told.get((queue, line, of, code))
        if told is None or told[0] != number:
            about = f"queue:{QUEUES[queue]}/{names[line]} {table.shape_words[of]}"
            told = (number, Decision(about, Reason(LEFT[code], (("waiting", number),))))
            table.told[queue, line, of, code] = told
        yield told[1]


LEFT = (
    Because.NODES_TAKEN,
    Because.QUEUE_PAUSED,
    Because.NOT_YET,
    Because.CAPPED,
    Because.NODES_AWAY,
    Because.NO_RIGHT,
)


def whys(laid: Laid, rows: Ints, view: View) -> Ints:
    """For each row that is left to wait a number of LEFT."""
    table = laid.table
    now = int(view.now)
    why = np.zeros(len(rows), np.int64)
    shapes, work = table.shapes, table.work
    kinds = shapes.kind[work.shape[rows]]
    usable = shapes.allowed.sum(axis=1)[kinds]
    why[usable < shapes.nodes[work.shape[rows]]] = 4
    if table.caps:
        held = np.zeros(len(rows), np.bool_)
        all_capped(laid.board, rows, now, held)
        why[held] = 3
    why[work.first_at[rows] > now] = 2
    for name, line in table.line_of.items():
        if f"partition:{name}" in view.paused:
            why[table.line[rows] == line] = 1
    for queue, word in enumerate(QUEUES):
        if f"queue:{word}" in view.paused:
            why[table.queue[rows] == queue] = 1
    if view.shut_out:
        numbers = [table.project_of[name] for name in view.shut_out if name in table.project_of]
        why[np.isin(table.project[rows], numbers)] = 5
    return why
