"""What users want run, what runs, and what a cycle of the scheduler sees and carries on, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from glidepath.core.quantity import Instant, NodeName, Owner, Resources, Traits
from glidepath.core.schedule.cluster import Cluster, Counted, PartitionName, ProjectName, Queue

JobName = NewType("JobName", str)


class OnLoss(StrEnum):
    """What becomes of a job on many nodes when it loses one of them."""

    END = "end"  # all of it is ended
    REQUEUE = "requeue"  # all of it is ended and waits again, where it stood
    GO_ON = "go on"  # with the rest


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """What a job needs, on each of its nodes."""

    size: Resources
    nodes: int = 1  # all of them or none
    gpu_milli: int = 0  # a share of one GPU, where no whole ones are asked for
    gpu_kinds: tuple[str, ...] = ()  # any of these; none means any
    counted: Counted = ()
    traits: Traits = ()
    runtime: str = ""  # may have an overhead
    exclusive: bool = False  # nobody else on its nodes


@dataclass(frozen=True, slots=True)
class Job:
    name: JobName
    owner: Owner
    partition: PartitionName
    queue: Queue
    ask: Ask
    came_at: Instant
    limit_s: int | None  # none: metered, and ended with notice for a window
    project: ProjectName = ProjectName("")
    application: str = ""
    priority: int = 0  # higher goes first
    first_at: Instant | None = None  # not before
    latest_at: Instant | None = None  # not later, or not at all
    deadline_at: Instant | None = None  # must be over by then
    beside: JobName | None = None  # starts with that one, or while it runs
    same_node: bool = False  # on the same nodes as that one
    on_loss: OnLoss = OnLoss.END
    stoppable: bool = False  # may be ended for others and waits again


def last_start(job: Job) -> Instant | None:
    """By its latest start and its deadline; none where it has neither."""
    ends = [] if job.latest_at is None else [job.latest_at]
    if job.deadline_at is not None:
        ends.append(Instant(job.deadline_at - (job.limit_s or 0)))
    return min(ends, default=None)


def too_late(job: Job, at: Instant) -> bool:
    """Whether a plan has room for it only when it must not start any more: no start is told then."""
    last = last_start(job)
    return last is not None and at > last


@dataclass(frozen=True, slots=True)
class Place:
    """One node of a job, and which of its GPUs."""

    node: NodeName
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    job: Job
    started_at: Instant
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended since the last cycle, by itself or by its limit, and how long it ran."""

    job: Job
    run_s: int


@dataclass(frozen=True, slots=True)
class Used:
    """What a user of a project has used, as it counted at an instant, in the unit of `billed`."""

    project: ProjectName
    owner: Owner
    amount: float
    at: Instant


@dataclass(frozen=True, slots=True)
class Share:
    """A project's part. Weights count among children of one parent; guarantees and caps are for all below."""

    name: ProjectName
    weight: int = 1
    parent: ProjectName = ProjectName("")
    guarantee: Resources = field(default_factory=Resources)
    borrow: Resources | None = None  # beyond the guarantee; none means as much as is there


@dataclass(frozen=True, slots=True)
class Book:
    """How the queues are run: what an operator decides."""

    keep: int = 1  # for how many blocked batch jobs room is kept; 1 is EASY, very many conservative
    fair: bool = False  # whether usage by project and user counts
    half_life_s: int = 7 * 86400
    shares: tuple[Share, ...] = ()
    user_cap: Resources | None = None  # of interactive jobs of one user at once
    user_jobs_max: int = 0  # likewise; 0 for no bound
    notice_s: int = 3600  # before a job without a limit is ended for a window
    stop: bool = True  # whether stoppable jobs of borrowers are ended for those within their guarantee


@dataclass(frozen=True, slots=True)
class Promise:
    """A start that a user was told, and the room that is kept for it."""

    job: JobName
    at: Instant  # as it stands; NEVER while none can be told
    places: tuple[Place, ...]
    told_at: Instant  # when the first one was made
    first: Instant  # what the first one said
    moved: int = 0  # how often it was moved to a later start


@dataclass(frozen=True, slots=True)
class Tally:
    """How promises fared: how many were kept, how many broken, and by how much the last ones were off."""

    kept: int = 0
    broken: int = 0
    off_s: tuple[int, ...] = ()  # start less the first promise, the latest last; below zero is early


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is known of the run times of one group of jobs: how much of their limits they used."""

    group: tuple[str, ...]
    weight: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Memory:
    cycle: int = 0
    at: Instant = Instant(0)
    promises: tuple[Promise, ...] = ()
    lessons: Sequence[Lesson] = ()  # by group
    passed: Sequence[tuple[JobName, float]] = ()  # work of later jobs that began before a job
    tally: Tally = Tally()


@dataclass(frozen=True, slots=True)
class World:
    """All that one cycle of the scheduler sees."""

    now: Instant
    cluster: Cluster
    waiting: tuple[Job, ...]  # in order of arrival
    running: tuple[Running, ...] = ()
    ended: tuple[Ended, ...] = ()
    used: tuple[Used, ...] = ()
    paused: tuple[str, ...] = ()  # `queue:interactive`, `partition:NAME`
    shut_out: tuple[tuple[ProjectName, str], ...] = ()  # projects whose jobs may not begin, and why
