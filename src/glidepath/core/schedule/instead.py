"""What would start now instead of a job that waits: fewer nodes, less, shorter, elsewhere, not alone.

The board of a plan says what to try; then the whole plan is made with that job in place of the other. Only
what starts in that plan, and moves no promised or kept start to a later time, is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from glidepath.core.quantity import Resources
from glidepath.core.schedule.cluster import DEVICE_MILLI, Queue
from glidepath.core.schedule.compiled import Ints
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, Job, Memory, World
from glidepath.core.schedule.layout import CPU, DISK, FIXED, JOBS, MEMORY, OPEN, SEATS, SHARE
from glidepath.core.schedule.refuse import grown
from glidepath.core.schedule.shortage import Case, lowest, room_ends
from glidepath.core.schedule.starts import Starts, moves, starts_of
from glidepath.core.units import shown_duration, shown_resources

# A plan of a large cluster takes a good part of a second, and somebody waits for this.
TRIALS_MAX = 14
PARTITIONS_TRIED_MAX = 4
# Nothing is done in less than a minute by a job that asked for more.
LIMIT_S_MIN = 60


@dataclass(frozen=True, slots=True)
class Instead:
    """A job that would start now. It keeps the turn of the other; `anew` says that it need not."""

    change: str
    job: Job
    anew: bool


class Trials:
    """Plans with another job in place of one that waits."""

    def __init__(self, world: World, book: Book, memory: Memory, job: Job) -> None:
        self.world, self.book, self.job = world, book, job
        self.starts: Starts = starts_of(decide(world, book, memory))
        self.left = TRIALS_MAX
        promises = tuple(promise for promise in memory.promises if promise.job != job.name)
        self.memory = replace(memory, promises=promises)

    def begins(self, other: Job, *, anew: bool) -> bool:
        """Whether it starts now, and nobody with a promise or with room kept starts later for it."""
        if not self.left:
            return False
        self.left -= 1
        waiting = [other if job is self.job else job for job in self.world.waiting]
        if anew:
            waiting.remove(other)
            waiting.append(replace(other, came_at=max(self.world.now, self.memory.at)))
        world = replace(self.world, waiting=tuple(waiting))
        schedule = decide(world, self.book, self.memory)
        after = starts_of(schedule)
        others = replace(world, waiting=tuple(job for job in waiting if job.name != other.name))
        if after.get(other.name) != schedule.plan.at:
            return False
        # A batch job that would begin in this very plan has been told nothing yet.
        told = [m for m in moves(others, self.starts, after) if m.later]
        return not any(m.queue is Queue.INTERACTIVE or m.before > schedule.plan.at for m in told)


def instead_of(case: Case, trials: Trials) -> tuple[Instead, ...]:
    """At most one of each kind, all of them tried."""
    found = []
    for changed in (_shorter(case), _narrower(case), _smaller(case), _shared(case)):
        if changed is not None and trials.begins(changed[1], anew=False):
            found.append(changed)
    elsewhere = (one for one in _elsewhere(case) if trials.begins(one[1], anew=False))
    found += [one for one in [next(elsewhere, None)] if one is not None]
    return tuple(Instead(change, job, trials.begins(job, anew=True)) for change, job in found)


Change = tuple[str, Job]


def _limited(case: Case) -> Ints:
    """What the job needs on each node if it has a limit."""
    job, cluster = case.job, case.table.cluster
    belongs = case.table.layout.belongs(job.project, job.owner)
    return case.table.layout.need(job.ask, grown(job.ask, cluster), belongs=belongs, endless=False)


def _shorter(case: Case) -> Change | None:
    """The longest limit with which it could begin on enough nodes now, and end before they are wanted."""
    job, now, profile = case.job, int(case.now), case.board.profile
    need = _limited(case)
    ends = sorted((room_ends(profile, at, need, now) for at in case.fitting()), reverse=True)
    if len(ends) < case.wanted:
        return None
    caps = [room_ends(profile, at, case.total, now) for _, at in case.caps()]
    most = case.table.longest[job.partition]
    limit_s = min(ends[case.wanted - 1] - now, most, *(end - now for end in caps))
    if limit_s < LIMIT_S_MIN or (job.limit_s is not None and limit_s >= job.limit_s):
        return None
    return f"a limit of at most {shown_duration(limit_s)}", replace(job, limit_s=limit_s)


def _narrower(case: Case) -> Change | None:
    job = case.job
    ready = sum(case.ready(at) for at in case.fitting())
    if not 0 < ready < job.ask.nodes:
        return None
    change = f"{ready} of {job.ask.nodes} nodes"
    return change, replace(job, ask=replace(job.ask, nodes=ready))


def _smaller(case: Case) -> Change | None:
    """As much on each node as the best nodes have free for all of the stay."""
    job, asked = case.job, case.job.ask.size
    if job.ask.exclusive:
        return None
    rooms = [_part(case, lowest(case.board.profile, at, case.stay)) for at in case.fitting()]
    sizes = sorted((size for size in rooms if size is not None), key=lambda size: -_worth(size, asked))
    if len(sizes) < case.wanted:
        return None
    size = asked
    for one in sizes[: case.wanted]:
        size = size.smallest(one)
    for _, at in case.caps():
        low = lowest(case.board.profile, at, case.stay)
        if low[JOBS] < 1:
            return None
        cpu, memory, disk = (max(int(low[part]) // case.wanted, 0) for part in (CPU, MEMORY, DISK))
        size = size.smallest(Resources(cpu, memory, disk, asked.gpus))
    size = _round(size)
    gone = any(part == 0 < had for part, had in zip(size.as_tuple(), asked.as_tuple(), strict=True))
    if size == asked or gone:
        return None
    return shown_resources(size), replace(job, ask=replace(job.ask, size=size))


def _part(case: Case, low: Ints) -> Resources | None:
    """The part of the job's size that this room has; nothing where it lacks what cannot be asked for less."""
    ask, need = case.job.ask, case.need
    counted = len(case.table.layout.counted)
    rules = [SHARE, SEATS, OPEN, *range(FIXED, FIXED + counted)]
    circles = range(FIXED + counted, case.table.layout.parts)
    if any(abs(need[part]) > low[part] for part in (*rules, *circles)):
        return None
    devices = low[case.table.layout.parts :]
    if ask.gpu_milli and not (devices >= ask.gpu_milli).any():
        return None
    beside = grown(ask, case.table.cluster) - ask.size
    cpu = max(int(low[CPU]) - beside.cpu_milli, 0)
    memory = max(int(low[MEMORY]) - beside.memory_mib, 0)
    disk = max(int(low[DISK]) - beside.disk_mib, 0)
    return ask.size.smallest(Resources(cpu, memory, disk, int((devices >= DEVICE_MILLI).sum())))


def _worth(size: Resources, asked: Resources) -> float:
    """The smallest part of what was asked for."""
    pairs = zip(size.as_tuple(), asked.as_tuple(), strict=True)
    return min((part / had for part, had in pairs if had), default=0.0)


def _round(size: Resources) -> Resources:
    """Down to whole CPUs, or to tenths of one where there is less than one."""
    step = 1000 if size.cpu_milli >= 1000 else 100
    return Resources(size.cpu_milli // step * step, size.memory_mib, size.disk_mib, size.gpus)


def _shared(case: Case) -> Change | None:
    job = case.job
    if not job.ask.exclusive or not job.ask.size.cpu_milli:
        return None
    return "nodes that it shares (not `exclusive`)", replace(job, ask=replace(job.ask, exclusive=False))


def _elsewhere(case: Case) -> Iterator[Change]:
    job = case.job
    others = [part for part in case.table.cluster.partitions if part.name != job.partition]
    for part in [part for part in others if job.queue in part.queues][:PARTITIONS_TRIED_MAX]:
        yield f"the partition `{part.name}`", replace(job, partition=part.name)
