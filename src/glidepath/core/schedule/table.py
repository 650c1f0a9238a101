"""Values become columns, and stay so from one plan to the next: the world comes in, a board goes out.

A table is made from a whole world. After that it can follow: jobs that came, started or ended since are rows
that are added or changed, and whatever else is different makes the table anew. A plan made on a table that
followed is the plan that a new table would make; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.cluster import Cluster, Node, NodeState, ProjectName, Queue
from glidepath.core.schedule.compiled import NEVER, NONE, Ints
from glidepath.core.schedule.cut import shutting
from glidepath.core.schedule.fairshare import sound_shares
from glidepath.core.schedule.job import Ask, Book, Job, JobName, Memory, Place, Promise, Running
from glidepath.core.schedule.layout import CPU, GPU, MEMORY, Layout, layout_of
from glidepath.core.schedule.order import Lore, learn, lore_of, note_start
from glidepath.core.schedule.placing import (
    OVER,
    RUNS,
    WAITS,
    Board,
    Shapes,
    Work,
    begin,
    finish,
    scratch_of,
    work_of,
)
from glidepath.core.schedule.profile import Profile, comes_free, is_taken, profile_of
from glidepath.core.schedule.refuse import grown, suits
from glidepath.core.units import shown_resources

# How long a job without a limit is planned for: beyond everything else.
ENDLESS_S = 1 << 50
# Levels of groups that run times are learnt for: everybody, the user, and the same with ever more alike.
LEVELS = 4

Row = tuple[Job, ...]  # jobs on the same nodes, the first leads
ShapeKey = tuple[Ask, str, tuple[bool, ...], bool, tuple[Ask, ...], tuple[str, ...]]


def longer(array: Any, length: int) -> Any:
    """The same column with room for so many, and then some."""
    if len(array) >= length:
        return array
    wider = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider


def groups_of(job: Job, size: int) -> tuple[tuple[str, ...], ...]:
    """From everybody to the narrowest: whose past tells how long this one runs."""
    user, limit = str(job.owner), str(job.limit_s or 0)
    return ((), (user,), (user, job.application, limit), (user, job.application, limit, str(size)))


class Table:
    """The board of a cluster, and which row is which job."""

    def __init__(self, cluster: Cluster, book: Book, now: Instant) -> None:
        self.cluster, self.book, self.now = cluster, book, now
        self.shares, _ = sound_shares(book.shares)
        self.layout: Layout = layout_of(cluster)
        self._places: dict[int, tuple[bytes, tuple[Place, ...]]] = {}
        # Decisions of the plan before, which mostly are those of the next one; see `decide`.
        self.told: dict[Any, Any] = {}
        self.names = [node.name for node in cluster.nodes]
        self.node_at = {name: at for at, name in enumerate(self.names)}
        self.members = {part.name: set(part.nodes) for part in cluster.partitions}
        self.longest = {part.name: part.limit_s_max for part in cluster.partitions}
        self.rows: list[Row] = []
        self.row_of: dict[JobName, int] = {}
        self.line_of = {part.name: at for at, part in enumerate(cluster.partitions)}
        self.caps: dict[tuple[str, str], int] = {}
        self.groups: dict[tuple[str, ...], int] = {}
        self.shape_of: dict[ShapeKey, int] = {}
        # The same to sort by: plain values are compared sooner.
        self.shape_keys: list[tuple[object, ...]] = []
        self._shape_ranks: list[int] = []
        self.shape_words: list[str] = []  # what is asked for
        self.kind_of: dict[tuple[Any, ...], int] = {}
        self.capacity = self._capacity()
        nodes = len(cluster.nodes)
        rooms = [self.layout.room(node) for node in cluster.nodes]
        width = self.layout.parts + self.layout.devices
        free = np.stack(rooms) if rooms else np.zeros((0, width), np.int64)
        profile = profile_of(free, 2 * nodes * len(cluster.windows) + 64, self.layout.devices)
        none = np.zeros(0, np.int64)
        shapes = Shapes(
            need=np.zeros((0, self.layout.parts + 2), np.int64),
            total=np.zeros((0, self.layout.parts + 2), np.int64),
            nodes=none,
            kind=none,
            allowed=np.zeros((0, nodes), np.bool_),
            order=np.zeros((0, nodes), np.int64),
        )
        self.work: Work = work_of(none, none, none)
        self.shapes, self.profile = shapes, profile
        self.lore: Lore = self._lore()
        self.queue: Ints = none  # [row] 0 interactive, 1 batch
        self.line: Ints = none  # [row] which partition
        self.priority: Ints = none
        self.project: Ints = none  # [row] by `project_of`; jobs that share nodes are of one
        self.project_of: dict[ProjectName, int] = {}
        self.follows: Ints = none  # [row] whether another one of its chain stands for it
        self.shape_count = self.kind_count = self.place_count = 0
        self._close()

    def _capacity(self) -> tuple[int, int, int]:
        sizes = [node.size for node in self.cluster.nodes]
        cpu = sum(size.cpu_milli for size in sizes)
        return (
            max(cpu, 1),
            max(sum(size.memory_mib for size in sizes), 1),
            sum(s.gpus for s in sizes) * 1000,
        )

    def _lore(self) -> Lore:
        none = np.zeros(0, np.int64)
        # A size is in CPUs, or as many as its largest share of the cluster is worth.
        cpus = max(1, self.capacity[0] // 1000)
        return lore_of(none, none, none, group=np.zeros((LEVELS, 0), np.int64), capacity=cpus)

    def _close(self) -> None:
        """Windows take away what everybody, or everybody else, needs."""
        for window in self.cluster.windows:
            amount = self.layout.closing(window)
            for name in window.nodes or tuple(self.node_at):
                if name in self.node_at:
                    is_taken(self.profile, self.node_at[name], window.opens_at, amount)
                    comes_free(self.profile, self.node_at[name], window.closes_at, amount)

    @property
    def board(self) -> Board:
        scratch = scratch_of(self.profile, self.shapes, max(len(self.rows), 1))
        return Board(self.profile, self.shapes, self.work, scratch)

    # Rows.

    def add(self, row: Row, pinned: tuple[str, ...] = ()) -> int:
        """Jobs that share their nodes wait from now on; `pinned` are the only nodes they may have."""
        at = len(self.rows)
        lead = row[0]
        shape = self._shape(row, pinned)
        caps = self._caps(lead)
        nodes = lead.ask.nodes
        self._make_room(at + 1, nodes + len(caps))
        work = self.work
        work.shape[at], work.span[at] = shape, max(job.limit_s or ENDLESS_S for job in row)
        work.first_at[at] = max(job.first_at or 0 for job in row)
        work.state[at], work.at[at], work.beside[at] = WAITS, NEVER, NONE
        base = self.place_count
        work.place[base + nodes : base + nodes + len(caps)] = caps
        self.place_count = base + nodes + len(caps)
        work.base[at], work.base[at + 1] = base, self.place_count
        self._learn_of(at, lead)
        self.queue[at] = 0 if lead.queue is Queue.INTERACTIVE else 1
        self.line[at], self.priority[at] = self.line_of[lead.partition], lead.priority
        self.project[at] = self.project_of.setdefault(lead.project, len(self.project_of))
        self.follows[at] = 0
        self.rows.append(row)
        for job in row:
            self.row_of[job.name] = at
        return at

    def size(self, shape: int) -> int:
        """In whole CPUs, or as many as the largest share of the cluster is worth."""
        cpu, memory, gpu = self.capacity
        need, nodes = self.shapes.need[shape], int(self.shapes.nodes[shape])
        worth = [int(need[CPU]) * nodes, int(need[MEMORY]) * nodes * cpu // memory]
        if gpu:
            worth.append(int(need[GPU]) * nodes * cpu // gpu)
        return max(1, max(worth) // 1000)

    def _learn_of(self, at: int, job: Job) -> None:
        size = self.size(int(self.work.shape[at]))
        lore = self.lore
        lore.submit[at], lore.limit[at] = job.came_at, self.limit_of(job)
        lore.size[at], lore.expected[at], lore.passed[at] = size, float(lore.limit[at]), 0.0
        for level, group in enumerate(groups_of(job, size)):
            lore.group[level, at] = self._group(group)

    def limit_of(self, job: Job) -> int:
        """The limit by which a job is ranked; one without is taken for the longest."""
        return job.limit_s or self.longest[job.partition]

    def _group(self, name: tuple[str, ...]) -> int:
        at = self.groups.setdefault(name, len(self.groups))
        if at >= len(self.lore.weight):
            self.lore = self.lore._replace(
                weight=longer(self.lore.weight, at + 1), ratio=longer(self.lore.ratio, at + 1)
            )
        return at

    def _make_room(self, rows: int, places: int) -> None:
        work = self.work
        if rows > len(work.shape):
            flat = ("shape", "span", "first_at", "brief", "beside", "state", "at")
            self.work = work = work._replace(**{name: longer(getattr(work, name), rows) for name in flat})
            self.work = work = work._replace(base=longer(work.base, len(work.shape) + 1))
            told = ("submit", "limit", "size", "key", "expected", "passed")
            lore = self.lore
            group = longer(lore.group.T, rows).T
            self.lore = lore._replace(group=group, **{n: longer(getattr(lore, n), rows) for n in told})
            self.queue, self.line = longer(self.queue, rows), longer(self.line, rows)
            self.priority, self.follows = longer(self.priority, rows), longer(self.follows, rows)
            self.project = longer(self.project, rows)
        if self.place_count + places > len(work.place):
            need = self.place_count + places
            per_place = ("place", "devices", "mark", "kept_mark")
            self.work = work._replace(**{name: longer(getattr(work, name), need) for name in per_place})
        if self.profile.unused[0] < 4 * places + 64:
            self.profile = _more_changes(self.profile, len(self.profile.when) + 4 * places + 64)

    def make_changes_for(self, count: int) -> None:
        """Room in the profile for so many more changes."""
        if self.profile.unused[0] < count:
            self.profile = _more_changes(self.profile, len(self.profile.when) + count)

    # Shapes and kinds.

    def _shape(self, row: Row, pinned: tuple[str, ...]) -> int:
        lead = row[0]
        endless = any(job.limit_s is None for job in row)
        belongs = self.layout.belongs(lead.project, lead.owner)
        key: ShapeKey = (
            lead.ask,
            lead.partition,
            belongs,
            endless,
            tuple(job.ask for job in row[1:]),
            pinned,
        )
        found = self.shape_of.get(key)
        if found is not None:
            return found
        need = sum(
            self.layout.need(job.ask, grown(job.ask, self.cluster), belongs=belongs, endless=endless)
            for job in row
        )
        need = np.asarray(need, np.int64)
        shares = [job.ask.gpu_milli or 1000 for job in row if job.ask.gpu_milli or job.ask.size.gpus]
        need[-1] = shares[0] if shares else 0
        at = self.shape_count
        shapes = self.shapes
        self.shapes = shapes = shapes._replace(
            need=longer(shapes.need, at + 1),
            total=longer(shapes.total, at + 1),
            nodes=longer(shapes.nodes, at + 1),
            kind=longer(shapes.kind, at + 1),
        )
        shapes.need[at], shapes.nodes[at] = need, lead.ask.nodes
        shapes.total[at] = self.layout.total(need, lead.ask.nodes)
        shapes.kind[at] = self._kind(row, pinned)
        self.shape_of[key] = at
        asks = tuple(astuple(job.ask) for job in row)
        self.shape_keys.append((asks, *key[1:4], pinned))
        nodes = f" x {lead.ask.nodes} nodes" if lead.ask.nodes > 1 else ""
        self.shape_words.append(f"{shown_resources(lead.ask.size)}{nodes}")
        self.shape_count += 1
        return at

    def shape_ranks(self) -> list[int]:
        """For each shape its place among all, by what is asked for."""
        if len(self._shape_ranks) != self.shape_count:
            keys = self.shape_keys
            self._shape_ranks = [0] * self.shape_count
            for rank, at in enumerate(sorted(range(self.shape_count), key=keys.__getitem__)):
                self._shape_ranks[at] = rank
        return self._shape_ranks

    def _kind(self, row: Row, pinned: tuple[str, ...]) -> int:
        asks = tuple(job.ask for job in row)
        devices = any(ask.gpu_milli or ask.size.gpus for ask in asks)
        kinds = tuple(sorted({(ask.gpu_kinds, ask.traits) for ask in asks}))
        key = (row[0].partition, kinds, pinned, devices)
        found = self.kind_of.get(key)
        if found is not None:
            return found
        at = self.kind_count
        shapes = self.shapes
        self.shapes = shapes = shapes._replace(
            allowed=longer(shapes.allowed, at + 1), order=longer(shapes.order, at + 1)
        )
        inside = self.members[row[0].partition]
        for node in self.cluster.nodes:
            usable = node.state is NodeState.UP and node.name in inside
            suited = all(suits(ask, node) for ask in asks) and (not pinned or node.name in pinned)
            shapes.allowed[at, self.node_at[node.name]] = usable and suited
        shapes.order[at] = _order(self.cluster.nodes, devices)
        self.kind_of[key] = at
        self.kind_count += 1
        return at

    # Caps.

    def _caps(self, job: Job) -> list[int]:
        """The caps that a job counts against: its user's in the interactive queue, its projects'."""
        book, found = self.book, []
        if job.queue is Queue.INTERACTIVE and (book.user_cap or book.user_jobs_max):
            row = self.layout.cap(book.user_cap, book.user_jobs_max)
            found.append(self._cap(("user", job.owner), row))
        name: ProjectName = job.project
        for _ in range(16):
            share = self.shares.get(name)
            if share is None:
                break
            if share.borrow is not None:
                row = self.layout.cap(share.guarantee + share.borrow)
                found.append(self._cap(("project", name), row))
            name = share.parent
        return found

    def _cap(self, name: tuple[str, str], row: Ints) -> int:
        at = self.caps.get(name)
        if at is None:
            at = self.caps[name] = len(self.cluster.nodes) + len(self.caps)
            profile = self.profile
            if at >= len(profile.free):
                first = np.full(max(at + 1, 2 * len(profile.first)), NONE, np.int64)
                first[: len(profile.first)] = profile.first
                self.profile = profile._replace(free=longer(profile.free, at + 1), first=first)
            self.profile.free[at] = row
        return at

    # What happens.

    def start(self, running: Running) -> None:
        """A job runs; if it waited here, the others know that it went past them."""
        at = self.row_of[running.job.name]
        work = self.work
        base = int(work.base[at])
        for offset, place in enumerate(running.places):
            work.place[base + offset] = self.node_at[place.node]
            work.devices[base + offset] = sum(1 << device for device in place.devices)
        work.span[at] = max(1, self._end(running) - running.started_at)
        begin(self.board, at, running.started_at)

    def pass_by(self, at: int) -> None:
        """Those that wait and came before this row were passed by it."""
        note_start(self.lore, at, self.waiting(1))

    def end(self, name: JobName) -> None:
        """A job is no longer there; what it teaches is told by `learn_from`."""
        at = self.row_of.pop(name)
        work = self.work
        if work.state[at] == RUNS:
            finish(self.board, at)
        work.state[at] = OVER

    def learn_from(self, job: Job, run_s: int) -> None:
        """A job that is over, and perhaps no row any more, ran for so long."""
        if job.limit_s is None or job.partition not in self.line_of or run_s < 0:
            return
        at = self.row_of.get(job.name)
        if at is None:
            at = self.add((job,))
            self.work.state[at] = OVER
            del self.row_of[job.name]
        learn(self.lore, at, run_s)

    def _end(self, running: Running) -> int:
        """When the room of a running job comes free by the plan: its limit, or the window it is ended for."""
        limit_s = running.job.limit_s
        end = running.started_at + (ENDLESS_S if limit_s is None else limit_s)
        ahead = [w for w in self.cluster.windows if running.started_at < w.opens_at < end]
        return min((window.opens_at for window in shutting(running, ahead)), default=end)

    def waiting(self, queue: int) -> Ints:
        """Rows of a queue that wait, in order of arrival; of a chain the one that stands for it."""
        count = len(self.rows)
        chosen = (
            (self.work.state[:count] == WAITS) & (self.queue[:count] == queue) & (self.follows[:count] == 0)
        )
        return np.nonzero(chosen)[0].astype(np.int64)

    def running(self) -> list[int]:
        return [int(at) for at in np.nonzero(self.work.state[: len(self.rows)] == RUNS)[0]]

    def places(self, at: int) -> tuple[Place, ...]:
        """The nodes of a row as values."""
        base = int(self.work.base[at])
        end = base + int(self.shapes.nodes[self.work.shape[at]])
        where, devices = self.work.place[base:end], self.work.devices[base:end]
        key = where.tobytes() + devices.tobytes()
        known = self._places.get(at)
        # Mostly a row is where it was in the plan before, and values of its places are there already.
        if known is None or known[0] != key:
            known = self._places[at] = (key, self._places_of(where.tolist(), devices.tolist()))
        return known[1]

    def _places_of(self, nodes: list[int], masks: list[int]) -> tuple[Place, ...]:
        count = range(self.layout.devices)
        return tuple(
            Place(self.names[node], tuple(device for device in count if mask >> device & 1) if mask else ())
            for node, mask in zip(nodes, masks, strict=True)
        )

    def recall(self, memory: Memory) -> None:
        """What was learnt and promised before."""
        for lesson in memory.lessons:
            at = self._group(lesson.group)
            self.lore.weight[at], self.lore.ratio[at] = lesson.weight, lesson.ratio
        for name, work in memory.passed:
            if name in self.row_of:
                self.lore.passed[self.row_of[name]] = work
        self.recall_promises(memory.promises)

    def recall_promises(self, promises: Iterable[Promise]) -> None:
        """Only these count: one that was made before and is not among them is forgotten."""
        count = len(self.rows)
        self.work.at[:count][self.work.state[:count] == WAITS] = NEVER
        for promise in promises:
            self.recall_promise(promise)

    def recall_promise(self, promise: Promise) -> None:
        """The start and the nodes that a row was promised; places that no longer are there are left out."""
        at = self.row_of.get(promise.job)
        if at is None or self.work.state[at] != WAITS:
            return
        nodes = int(self.shapes.nodes[self.work.shape[at]])
        there = all(place.node in self.node_at for place in promise.places)
        if len(promise.places) != nodes or not there:
            return
        base = int(self.work.base[at])
        for offset, place in enumerate(promise.places):
            self.work.place[base + offset] = self.node_at[place.node]
        self.work.at[at] = promise.at


def _order(nodes: Sequence[Node], devices: bool) -> Ints:
    """Who asks for no GPU goes to nodes with the fewest first, so that GPUs are not left without CPUs."""
    by = range(len(nodes))
    if devices:
        return np.array(sorted(by, key=lambda at: (nodes[at].size.gpus, nodes[at].size.cpu_milli)), np.int64)
    return np.array(sorted(by, key=lambda at: (nodes[at].size.gpus, at)), np.int64)


def _more_changes(profile: Profile, changes_max: int) -> Profile:
    """The same profile with room for more changes."""
    had = len(profile.when)
    wide = max(changes_max, 2 * had)
    unused = np.empty(wide + 1, np.int64)
    left = int(profile.unused[0])
    unused[1 : 1 + wide - had] = np.arange(had, wide)
    unused[1 + wide - had : 1 + wide - had + left] = profile.unused[1 : 1 + left]
    unused[0] = wide - had + left
    return profile._replace(
        when=longer(profile.when, wide),
        amount=longer(profile.amount, wide),
        after=longer(profile.after, wide),
        before=longer(profile.before, wide),
        unused=unused,
    )


def people(rows: Iterable[Row]) -> set[tuple[ProjectName, Owner]]:
    return {(row[0].project, row[0].owner) for row in rows}
