"""What a job lacks, node by node: a plan that lies on its board comes in, numbers to check it by go out.

What is free is told as it is in truth, not as a plan would have it: a job that overstays still has its room.
The board is only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glidepath.core.quantity import Instant, NodeName
from glidepath.core.schedule.cluster import NodeState, Window
from glidepath.core.schedule.compiled import NEVER, NONE, Ints
from glidepath.core.schedule.job import Job, JobName
from glidepath.core.schedule.layout import CPU, DISK, FIXED, GPU, JOBS, MEMORY, PLENTY, SEATS, SHARE
from glidepath.core.schedule.placing import KEPT, RUNS, Board
from glidepath.core.schedule.plan import Laid
from glidepath.core.schedule.profile import DEVICE_PARTS, Profile, earliest, fits, holds
from glidepath.core.schedule.refuse import suits
from glidepath.core.schedule.table import ENDLESS_S, Table
from glidepath.core.units import shown_cpus, shown_size

# More than three of a kind are a list, and nobody reads on.
TOLD_MAX = 3

ALONE, TAKEN_WHOLE, SEAT = "others are on it", "one job has all of it", "seats"
_SIZES = {CPU: "CPU", MEMORY: "memory", DISK: "disk"}
_CAPS = {**_SIZES, GPU: "GPU", JOBS: "jobs"}


@dataclass(frozen=True)
class Case:
    """One row of a plan that waits. Room that the plan keeps for it was given up, so that it is in no way."""

    laid: Laid
    board: Board
    row: int
    now: Instant

    @property
    def table(self) -> Table:
        return self.laid.table

    @property
    def job(self) -> Job:
        return self.table.rows[self.row][0]

    @property
    def shape(self) -> int:
        return int(self.table.work.shape[self.row])

    @property
    def need(self) -> Ints:
        return np.asarray(self.table.shapes.need[self.shape])

    @property
    def total(self) -> Ints:
        return np.asarray(self.table.shapes.total[self.shape])

    @property
    def stay(self) -> tuple[int, int]:
        return int(self.now), int(self.table.work.span[self.row])

    @property
    def wanted(self) -> int:
        return int(self.table.shapes.nodes[self.shape])

    def fitting(self) -> list[int]:
        """Nodes that are up, of the right kind and, when empty, large enough."""
        table = self.table
        allowed = np.nonzero(table.shapes.allowed[table.shapes.kind[self.shape]])[0].tolist()
        return [at for at in allowed if fits(table.layout.room(table.cluster.nodes[at]), self.need)]

    def ready(self, at: int) -> bool:
        """Whether the job could begin on this node now and stay."""
        profile = self.board.profile
        return bool(fits(profile.free[at], self.need) and holds(profile, at, self.need, self.stay))

    def caps(self) -> list[tuple[tuple[str, str], int]]:
        """The caps of the row by name, each with its row of the profile."""
        names = {at: name for name, at in self.table.caps.items()}
        base = int(self.table.work.base[self.row]) + self.wanted
        places = self.table.work.place[base : int(self.table.work.base[self.row + 1])].tolist()
        return [(names[at], at) for at in places]


def changes(profile: Profile, node: int) -> Iterator[tuple[int, Ints]]:
    """When how much comes free or, below zero, is taken on one node."""
    at = int(profile.first[node])
    while at != NONE:
        yield int(profile.when[at]), profile.amount[at]
        at = int(profile.after[at])


def lowest(profile: Profile, node: int, stay: tuple[int, int]) -> Ints:
    """What is free during all of the stay, column by column; what is not free in truth is not."""
    start, span = stay
    by: dict[int, Ints] = {}
    none = np.zeros_like(profile.room)
    for when, amount in changes(profile, node):
        # All of one instant together: who ends and who follows at the same time are not there both.
        at = max(when, start)
        by[at] = by.get(at, none) + amount
    room: Ints = profile.free[node]
    low: Ints = room.copy()
    for when in sorted(when for when in by if when < start + span):
        room = room + by[when]
        low = np.minimum(low, room)
    return low


def room_ends(profile: Profile, node: int, need: Ints, now: int) -> int:
    """Until when there is room from now on: now where there is none, NEVER where it stays."""
    if not fits(profile.free[node], need) or not holds(profile, node, need, (now, 1)):
        return now
    instants = sorted({when for when, _ in changes(profile, node) if when > now})
    first, last = 0, len(instants)
    while first < last:
        middle = (first + last) // 2
        if holds(profile, node, need, (now, instants[middle] - now + 1)):
            first = middle + 1
        else:
            last = middle
    return instants[first] if first < len(instants) else NEVER


@dataclass(frozen=True, slots=True)
class Lack:
    """So much of something is free, and so much asked for; sizes in thousandths of a CPU and MiB."""

    what: str
    free: int
    asked: int

    def __str__(self) -> str:
        if self.what in (ALONE, TAKEN_WHOLE):
            return self.what
        shown = {"CPU": shown_cpus, "memory": shown_size, "disk": shown_size}.get(self.what, str)
        return f"{shown(max(self.free, 0))} of {shown(self.asked)} {self.what} free"


@dataclass(frozen=True, slots=True)
class Short:
    """A node that almost fits."""

    node: NodeName
    lacks: tuple[Lack, ...]  # none: it has room, and not for long enough
    free_until: Instant | None  # where nothing lacks now; none where it lacks or stays free
    enough_at: Instant | None  # from when on there is room for the whole stay by the plan


def lacks(case: Case, at: int) -> Iterator[Lack]:
    """What is free now in truth and too little."""
    free, need = case.board.profile.free[at], case.need
    for part, name in _SIZES.items():
        if need[part] > free[part]:
            yield Lack(name, int(free[part]), int(need[part]))
    devices, each = int(need[-2]), int(need[-1])
    if devices:
        whole = int((free[len(need) - DEVICE_PARTS :] >= each).sum())
        if whole < devices:
            yield Lack("GPU" if each == 1000 else f"GPU with {each}/1000", whole, devices)
    for number, name in enumerate(case.table.layout.counted):
        if need[FIXED + number] > free[FIXED + number]:
            yield Lack(name, int(free[FIXED + number]), int(need[FIXED + number]))
    if need[SEATS] > free[SEATS]:
        yield Lack(SEAT, int(free[SEATS]), int(need[SEATS]))
    if need[SHARE] > free[SHARE]:
        yield Lack(ALONE if free[SHARE] > 0 else TAKEN_WHOLE, 0, 1)


def shorts(case: Case) -> tuple[Short, ...]:
    """The nodes that are short of the least, best first."""
    profile, found = case.board.profile, []
    for at in case.fitting():
        if case.ready(at):
            continue
        short = tuple(lacks(case, at))
        until = NEVER if short else room_ends(profile, at, case.need, case.now)
        enough = int(earliest(profile, at, case.need, case.stay))
        missing = sum(1 - max(lack.free, 0) / lack.asked for lack in short)
        name = case.table.cluster.nodes[at].name
        told = Short(name, short, _told(until), _told(enough))
        found.append((len(short), missing, enough, name, told))
    return tuple(told for *_, told in sorted(found, key=lambda one: one[:4])[:TOLD_MAX])


def _told(at: int) -> Instant | None:
    return Instant(at) if at < ENDLESS_S else None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has room on nodes that would fit, or for whom it is kept, from when until when."""

    job: JobName
    nodes: tuple[NodeName, ...]
    since: Instant
    until: Instant | None
    runs: bool


def holders(case: Case) -> tuple[Holder, ...]:
    """Those that end next on nodes that would fit, then those that such nodes are kept for in its time."""
    table, work = case.table, case.table.work
    wanted = {at for at in case.fitting() if not case.ready(at)}
    start, span = case.stay
    running: list[Holder] = []
    kept: list[Holder] = []
    for row in range(len(table.rows)):
        state = int(work.state[row])
        if row == case.row or state not in (RUNS, KEPT):
            continue
        base = int(work.base[row])
        places = work.place[base : base + int(table.shapes.nodes[work.shape[row]])].tolist()
        nodes = tuple(table.cluster.nodes[at].name for at in places if at in wanted)
        since = int(work.at[row])
        if not nodes or since >= start + span:
            continue
        until = _told(since + int(work.span[row]))
        holder = Holder(table.rows[row][0].name, nodes, Instant(since), until, state == RUNS)
        (running if holder.runs else kept).append(holder)
    running.sort(key=lambda one: (one.until is None, one.until or 0, one.job))
    kept.sort(key=lambda one: (one.since, one.job))
    return (*running[:TOLD_MAX], *kept[:TOLD_MAX])


@dataclass(frozen=True, slots=True)
class CapShort:
    """A cap with too little room: what is held, kept for others, allowed and asked for."""

    of: str
    lack: str
    held: int
    kept: int
    limit: int
    asked: int


def cap_shorts(case: Case) -> Iterator[CapShort]:
    table, profile, total = case.table, case.board.profile, case.total
    for (sort, name), at in case.caps():
        if sort == "user":
            limit = table.layout.cap(table.book.user_cap, table.book.user_jobs_max)
        else:
            share = next(share for share in table.shares.values() if share.name == name)
            assert share.borrow is not None
            limit = table.layout.cap(share.guarantee + share.borrow)
        low = lowest(profile, at, case.stay)
        for part, what in _CAPS.items():
            if limit[part] < PLENTY and total[part] > low[part]:
                held = int(limit[part] - profile.free[at, part])
                kept = int(profile.free[at, part] - low[part])
                yield CapShort(f"{sort} {name}", what, held, kept, int(limit[part]), int(total[part]))


def windows_in_the_way(case: Case) -> tuple[list[int], Window | None]:
    """Nodes that are free now and that a window closes before the job is over; the first such window."""
    start, span = case.stay
    endless, job = case.job.limit_s is None, case.job
    closed, first = [], None
    for at in case.fitting():
        if case.ready(at) or not fits(case.board.profile.free[at], case.need):
            continue
        name = case.table.cluster.nodes[at].name
        near = [
            window
            for window in case.table.cluster.windows
            if window.touches((name,))
            and not window.admits(job.project, job.owner)
            and window.closes_at > start
            and window.opens_at < (start + 1 if endless else start + span)
        ]
        if near:
            closed.append(at)
            first = min([*near, *([first] if first else [])], key=lambda w: (w.opens_at, w.name))
    return closed, first


def away(case: Case, pinned: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes that would fit and are not up, with their state."""
    table = case.table
    inside = table.members[case.job.partition]
    found = [
        f"{node.name} {node.state.value}"
        for node in table.cluster.nodes
        if node.state is not NodeState.UP
        and node.name in inside
        and (not pinned or node.name in pinned)
        and all(suits(job.ask, node) for job in table.rows[case.row])
        and fits(table.layout.room(node), case.need)
    ]
    return tuple(found)
