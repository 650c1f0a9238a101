"""A plan for a small cluster with a bit of everything, made so that all loops are compiled for what comes.

Nothing comes in and nothing goes out: what counts is that every loop was run with what it is run with in
earnest.
"""

from __future__ import annotations

from dataclasses import replace

from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import (
    Cluster,
    Node,
    Partition,
    PartitionName,
    ProjectName,
    Queue,
    Window,
)
from glidepath.core.schedule.explain import explained
from glidepath.core.schedule.extend import Extension, extended
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import (
    Ask,
    Book,
    Ended,
    Job,
    JobName,
    Memory,
    Place,
    Running,
    Share,
    Used,
    World,
)

NOW = Instant(1_000_000)
HOUR_S = 3600
PART, ASTRO = PartitionName("main"), ProjectName("astro")


def rehearse() -> None:
    for book in (Book(), _fair_book()):
        follower, memory = Follower(), Memory()
        world = _world()
        for step in range(3):
            schedule = follower.schedule(replace(world, now=Instant(NOW + step)), book, memory)
            memory = schedule.memory
        longer = Extension(JobName("11"), 3 * HOUR_S)
        extended(world, book, memory, longer)
        for name in ("2", "3", "6"):
            explained(world, book, memory, JobName(name))


def _fair_book() -> Book:
    shares = (Share(ASTRO, 2, guarantee=Resources(4000, 4096)), Share(ProjectName("geo")))
    return Book(keep=3, fair=True, shares=shares, user_cap=Resources(6000, 8192), user_jobs_max=3)


def _world() -> World:
    nodes = tuple(
        Node(
            NodeName(f"n{at}"),
            Resources(4000, 8192, 1024, 2),
            gpu_kind="g",
            counted=(("mig", 2),),
            jobs_max=8,
        )
        for at in range(4)
    )
    names = tuple(node.name for node in nodes)
    windows = (
        Window("closed", Instant(NOW + 5 * HOUR_S), Instant(NOW + 6 * HOUR_S), names[:1]),
        Window("kept", Instant(NOW - 5), Instant(NOW + HOUR_S), names[1:2], (ASTRO,)),
    )
    cluster = Cluster(
        nodes, (Partition(PART, names, endless=True),), windows, (("kata", Resources(100, 64)),)
    )
    running = (
        Running(_job(11, Ask(Resources(2000, 1024))), Instant(NOW - 100), (Place(names[0]),)),
        Running(_job(12, Ask(Resources(1000, 1024, 0, 1))), Instant(NOW - 50), (Place(names[2], (0,)),)),
    )
    ended = (Ended(_job(10, Ask(Resources(1000, 512))), 600),)
    used = (Used(ASTRO, Owner("ann"), 5.0, NOW),)
    return World(NOW, cluster, tuple(_waiting()), running, ended, used)


def _job(number: int, ask: Ask, queue: Queue = Queue.BATCH) -> Job:
    return Job(
        name=JobName(str(number)),
        owner=Owner("ann"),
        partition=PART,
        queue=queue,
        ask=ask,
        came_at=Instant(NOW - 1000 + number),
        limit_s=HOUR_S,
        project=ASTRO,
        stoppable=number % 2 == 0,
    )


def _waiting() -> list[Job]:
    one, whole = Ask(Resources(1000, 512)), Ask(Resources(4000, 8000))
    gang = replace(whole, nodes=3)
    jobs = [
        _job(20 + at, ask, queue)
        for at, (ask, queue) in enumerate(
            (ask, queue)
            for queue in (Queue.INTERACTIVE, Queue.BATCH)
            for ask in (
                one,
                whole,
                gang,
                replace(one, exclusive=True, nodes=2),
                replace(one, gpu_milli=300),
                Ask(Resources(1000, 512, 0, 2)),
                replace(one, counted=(("mig", 1),)),
                replace(one, runtime="kata"),
            )
        )
    ]
    first = jobs[0]
    jobs += [
        replace(first, name=JobName("2"), beside=JobName("11"), same_node=True),
        replace(first, name=JobName("3"), first_at=Instant(NOW + 600), latest_at=Instant(NOW + 7200)),
        replace(first, name=JobName("4"), limit_s=None, deadline_at=Instant(NOW + 9 * HOUR_S)),
        replace(jobs[1], name=JobName("7")),
        replace(jobs[1], name=JobName("8"), beside=JobName("7")),
        replace(jobs[8], name=JobName("5"), beside=JobName("6")),
        replace(jobs[8], name=JobName("6"), project=ProjectName("geo"), priority=3),
    ]
    return jobs
