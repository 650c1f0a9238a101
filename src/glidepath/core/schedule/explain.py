"""Why one job waits, runs or is refused: a world and a name come in, all that can be said of it goes out.

The plan is made as always and looked at while it lies there, so that every number is one of the plan's own.
What would start now instead was tried in whole plans. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Reason
from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.cluster import PartitionName, ProjectName, Queue
from glidepath.core.schedule.compiled import Ints
from glidepath.core.schedule.decide import table_of, teach
from glidepath.core.schedule.estimate import estimates
from glidepath.core.schedule.eta import Range
from glidepath.core.schedule.instead import Instead, Trials, instead_of
from glidepath.core.schedule.job import Book, Job, JobName, Memory, Place, Promise, World
from glidepath.core.schedule.placing import KEPT, capped, placed_now, release
from glidepath.core.schedule.plan import Laid, View, chain, lay, view_of
from glidepath.core.schedule.shortage import (
    CapShort,
    Case,
    Holder,
    Short,
    away,
    cap_shorts,
    holders,
    shorts,
    windows_in_the_way,
)
from glidepath.core.schedule.sift import Sifted, sift
from glidepath.core.text import nearest, one_line
from glidepath.core.units import shown_cpus, shown_duration, shown_resources, shown_size

Clock = Callable[[Instant], str]


class Standing(StrEnum):
    WAITS = "waits"
    STARTS = "starts now"
    RUNS = "runs"
    REFUSED = "is refused"
    UNKNOWN = "is not known"


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a job stands among those that wait in its queue and partition."""

    queue: Queue
    partition: PartitionName
    place: int  # from 1 on
    of: int
    owner: Owner
    project: ProjectName
    ahead_of_owner: int
    ahead_of_project: int

    @property
    def ahead(self) -> int:
        return self.place - 1


@dataclass(frozen=True, slots=True)
class Explanation:
    job: JobName
    standing: Standing
    now: Instant
    reasons: tuple[Reason, ...] = ()  # what it waits for, or why it is refused
    turn: Turn | None = None
    start_at: Instant | None = None  # promised or kept; of a running one, when it began
    until: Instant | None = None  # of a running one
    places: tuple[Place, ...] = ()
    size: str = ""  # what a running one has on each node
    promise: Promise | None = None  # as it was told before
    holders: tuple[Holder, ...] = ()
    shorts: tuple[Short, ...] = ()
    instead: tuple[Instead, ...] = ()
    near: str = ""  # the name that was probably meant
    estimate: Range | None = None  # of a waiting one for which no room is kept


def explained(world: World, book: Book, memory: Memory, name: JobName) -> Explanation:
    sifted = sift(world, book, memory.at)
    for one in sifted.running:
        if one.job.name == name:
            limit_s = one.job.limit_s
            return Explanation(
                name,
                Standing.RUNS,
                sifted.now,
                start_at=one.started_at,
                until=None if limit_s is None else Instant(one.started_at + limit_s),
                places=one.places,
                size=shown_resources(one.job.ask.size),
            )
    if any(job.name == name for unit in sifted.units for row in unit.rows for job in row):
        return _waiting(world, book, memory, _Seen(sifted, name))
    for no in sifted.refusals:
        if no.job == name:
            return Explanation(name, Standing.REFUSED, sifted.now, (no.reason,))
    names = [*(job.name for job in world.waiting), *(one.job.name for one in world.running)]
    return Explanation(name, Standing.UNKNOWN, sifted.now, near=nearest(name, names))


@dataclass(frozen=True, slots=True)
class _Seen:
    sifted: Sifted
    name: JobName


def _waiting(world: World, book: Book, memory: Memory, seen: _Seen) -> Explanation:
    sifted, name = seen.sifted, seen.name
    table = table_of(sifted, book, memory)
    teach(table, world.ended)
    row = table.row_of[name]
    queue = int(table.queue[row])
    arrived = table.waiting(queue)
    view = view_of(world, sifted)
    laid = lay(table, view)
    start = laid.starts.get(row)
    places = laid.places(row) if start is not None else ()
    start_at = None if start is None else Instant(start)
    if row in laid.began:
        return Explanation(name, Standing.STARTS, sifted.now, start_at=start_at, places=places)
    order = laid.line if queue == 0 else laid.order
    lead = next(int(at) for at in arrived if row in chain(table, int(at)))
    turn = _turn(laid, order if lead in order else arrived, row, name)
    before = _before(laid, order, lead)
    rows = chain(table, lead)
    for at in rows:
        if table.work.state[at] == KEPT:
            release(laid.board, at)
    case = Case(laid, laid.board, row, sifted.now)
    reasons = tuple(_reasons(case, _Around(view, name, rows, before, sifted)))
    turned = any(reason.because is Because.NOT_ITS_TURN for reason in reasons)
    single = len(rows) == 1 and len(table.rows[row]) == 1
    # Another partition may be open where its own is paused; of a queue that rests nothing starts.
    rests = f"queue:{case.job.queue.value}" in view.paused or case.job.project in view.shut_out
    idle = rests or table.work.first_at[row] > sifted.now
    tried = () if idle or not single else instead_of(case, Trials(world, book, memory, case.job))
    return Explanation(
        name,
        Standing.WAITS,
        sifted.now,
        reasons,
        turn,
        start_at=start_at,
        places=places,
        promise=next((promise for promise in memory.promises if promise.job == name), None),
        holders=() if turned else holders(case),
        shorts=() if turned else shorts(case),
        instead=tried,
        estimate=None if start_at is not None or idle else _estimate(world, book, memory, name),
    )


def _estimate(world: World, book: Book, memory: Memory, name: JobName) -> Range | None:
    """Without a start by a plan, as where its partition rests, a range would hold anything: none is told."""
    return estimates(world, book, memory, (name,), planned_only=True).get(name)


def _turn(laid: Laid, order: Ints, row: int, name: JobName) -> Turn:
    """Among those of its queue and partition that are left to wait, in the order of the queue."""
    table, began = laid.table, set(laid.began)
    line: list[Job] = [
        job
        for lead in order.tolist()
        if lead not in began
        for at in chain(table, lead)
        if table.line[at] == table.line[row]
        for job in table.rows[at]
    ]
    place = next(at for at, job in enumerate(line) if job.name == name)
    job, ahead = line[place], line[:place]
    return Turn(
        job.queue,
        job.partition,
        place + 1,
        len(line),
        job.owner,
        job.project,
        sum(one.owner == job.owner for one in ahead),
        sum(one.project == job.project for one in ahead),
    )


def _before(laid: Laid, order: Ints, lead: int) -> tuple[JobName, Instant] | None:
    """In a strict line the one before it that starts last."""
    table = laid.table
    if table.queue[lead] != 0 or lead not in order:
        return None
    ahead = order[: order.tolist().index(lead)].tolist()
    found = [
        (laid.starts[at], at) for at in ahead if at in laid.starts and table.line[at] == table.line[lead]
    ]
    if not found:
        return None
    when, at = max(found)
    return table.rows[at][0].name, Instant(when)


@dataclass(frozen=True)
class _Around:
    """What is known of a case beside its own row."""

    view: View
    name: JobName
    rows: list[int]  # of its chain
    before: tuple[JobName, Instant] | None
    sifted: Sifted

    def pinned(self, name: JobName) -> tuple[str, ...]:
        for unit in self.sifted.units:
            for row, only in zip(unit.rows, unit.pinned, strict=True):
                if any(job.name == name for job in row):
                    return only
        return ()


def _reasons(case: Case, around: _Around) -> Iterator[Reason]:
    """All that keeps the job from starting, what is hardest to change first."""
    job, now, table = case.job, case.now, case.table
    for paused in (f"queue:{job.queue.value}", f"partition:{job.partition}"):
        if paused in around.view.paused:
            yield Reason(Because.QUEUE_PAUSED, (("paused", paused),))
    if why := around.view.shut_out.get(job.project):
        yield Reason(Because.NO_RIGHT, (("why", why),))
    first_at = int(table.work.first_at[case.row])
    if first_at > now:
        yield Reason(Because.NOT_YET, (("not_before", first_at), ("in", shown_duration(first_at - now))))
    fit = case.fitting()
    if len(fit) < case.wanted:
        gone = ", ".join(away(case, around.pinned(job.name))) or "none"
        facts: tuple[Fact, ...] = (("asked", case.wanted), ("up", len(fit)), ("away", gone))
        yield Reason(Because.NODES_AWAY, facts)
    for short in cap_shorts(case):
        yield _cap_reason(short)
    others = [one.name for row in around.rows for one in table.rows[row] if one.name != around.name]
    if others:
        yield Reason(Because.BESIDE_WAITS, (("beside", ", ".join(sorted(others))),))
    ready = sum(case.ready(at) for at in fit)
    if ready >= case.wanted:
        if _could_begin(case) and around.before is not None and around.before[1] > now:
            name, at = around.before
            yield Reason(Because.NOT_ITS_TURN, (("before", name), ("starts_in", shown_duration(at - now))))
        return
    closed, window = windows_in_the_way(case)
    if window is not None:
        facts = (("window", window.name), ("opens_in", shown_duration(window.opens_at - now)))
        yield Reason(Because.WINDOW_IN_THE_WAY, (*facts, ("nodes", len(closed))))
    if len(fit) >= case.wanted and ready + len(closed) < len(fit):
        facts = (("asked", case.wanted), ("fit", len(fit)), ("free", ready))
        yield Reason(Because.NODES_TAKEN, facts)


def _could_begin(case: Case) -> bool:
    free = not capped(case.board, case.row, case.stay)
    return bool(free and placed_now(case.board, case.row, case.now))


def _cap_reason(short: CapShort) -> Reason:
    shown = {"CPU": shown_cpus, "memory": shown_size, "disk": shown_size, "GPU": shown_cpus}.get(
        short.lack, str
    )
    facts: list[Fact] = [("of", short.of), ("what", short.lack), ("held", shown(short.held))]
    if short.kept > 0:
        facts.append(("kept_for_others", shown(short.kept)))
    facts += [("limit", shown(short.limit)), ("asked", shown(short.asked))]
    return Reason(Because.CAPPED, tuple(facts))


# In words.


def lines(told: Explanation, clock: Clock | None = None) -> list[str]:
    """What people read. The core knows no calendar: without a clock, times are told from now on."""
    words = _Words(told, clock or (lambda at: _from_now(at - told.now)))
    name = f"job `{one_line(told.job)}`"
    match told.standing:
        case Standing.UNKNOWN:
            hint = f"; did you mean `{one_line(told.near)}`?" if told.near else ""
            return [f"no {name} waits or runs{hint}"]
        case Standing.REFUSED:
            return [f"{name} is refused: {reason}" for reason in told.reasons]
        case Standing.RUNS:
            return [f"{name} runs on {words.places()}", *words.rest()]
        case Standing.STARTS:
            return [f"{name} starts now on {words.places()}"]
        case Standing.WAITS:
            return [f"{name} waits", *words.waiting()]


def _from_now(seconds: int) -> str:
    if seconds == 0:
        return "now"
    return f"in {shown_duration(seconds)}" if seconds > 0 else f"{shown_duration(-seconds)} ago"


@dataclass(frozen=True, slots=True)
class _Words:
    told: Explanation
    clock: Clock

    def at(self, instant: Instant | None) -> str:
        return "never" if instant is None else self.clock(instant)

    def places(self) -> str:
        shown = []
        for place in self.told.places:
            devices = f" (GPU {', '.join(map(str, place.devices))})" if place.devices else ""
            shown.append(f"{one_line(place.node)}{devices}")
        return ", ".join(shown) or "no node"

    def rest(self) -> Iterator[str]:
        ends = (
            "it has no limit"
            if self.told.until is None
            else f"its limit is reached {self.at(self.told.until)}"
        )
        yield f"it has {self.told.size} on each"
        yield f"it began {self.at(self.told.start_at)}; {ends}"

    def waiting(self) -> Iterator[str]:
        told, turn = self.told, self.told.turn
        if turn is not None:
            ahead = [f"{turn.ahead_of_owner} of {one_line(turn.owner)}"]
            if turn.project:
                ahead.append(f"{turn.ahead_of_project} of project {one_line(turn.project)}")
            where = f"{turn.queue.value}/{one_line(turn.partition)}"
            yield f"its place in {where}: {turn.place} of {turn.of}; before it {', '.join(ahead)}"
        if told.start_at is not None:
            sort = "promised" if turn is not None and turn.queue is Queue.INTERACTIVE else "room is kept"
            yield f"{sort}: {self.at(told.start_at)} on {self.places()}"
        if told.estimate is not None:
            low, likely, high = (shown_duration(round(end)) for end in told.estimate[:3])
            sure = round(100 * told.estimate.confidence)
            yield f"it will probably start in {likely}; {sure} of 100 such jobs within {low} to {high}"
        if told.promise is not None and told.promise.moved:
            yield f"first promised: {self.at(told.promise.first)}; moved {told.promise.moved} times since"
        yield from (f"it waits: {reason}" for reason in told.reasons)
        yield from (self._holder(one) for one in told.holders)
        yield from (self._short(one) for one in told.shorts)
        for one in told.instead:
            anew = "" if one.anew else ", if it keeps its turn"
            yield f"would start now: {one.change}{anew}"

    def _holder(self, one: Holder) -> str:
        nodes = ", ".join(one_line(node) for node in one.nodes)
        if not one.runs:
            return f"kept: {nodes} for `{one_line(one.job)}`, {self.at(one.since)}"
        overdue = one.until is not None and one.until <= self.told.now
        verb = "should have ended" if overdue else "ends"
        ends = "has no limit" if one.until is None else f"{verb} {self.at(one.until)}"
        return f"taken: {nodes} by `{one_line(one.job)}`, which {ends}"

    def _short(self, one: Short) -> str:
        enough = "never enough by the plan" if one.enough_at is None else f"enough {self.at(one.enough_at)}"
        if one.lacks:
            lacks = ", ".join(str(lack) for lack in one.lacks)
            return f"almost: {one_line(one.node)}: {lacks}; {enough}"
        until = "" if one.free_until is None else f", and closed or wanted {self.at(one.free_until)}"
        return f"almost: {one_line(one.node)}: free{until}; {enough}"
