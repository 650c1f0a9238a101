"""Jobs are played on a cluster of nodes in virtual time, by the very decisions of the product.

A cluster, jobs with how long they really run, and one who plans come in: `decide` from values, or a follower
that keeps its table. When each job started, and where, goes out. At an instant jobs end first, then others
come, then one plan is made and done. A job that runs to its limit is ended there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from glidepath.core.quantity import Instant
from glidepath.core.schedule.acts import Refuse, Start
from glidepath.core.schedule.cluster import Cluster
from glidepath.core.schedule.compiled import Ints
from glidepath.core.schedule.decide import Schedule, decide
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import Book, Ended, Job, JobName, Memory, Place, Running, World
from glidepath.core.schedule.order import Kind
from glidepath.sim.rerun.rules import Rerun, Score, score
from glidepath.sim.rerun.trace import Trace

Planner = Callable[[World, Book, Memory], Schedule]


@dataclass(frozen=True, slots=True)
class Timed:
    """A job, and how long it would run if it had no limit; at least a second."""

    job: Job
    run_s: int

    @property
    def lasts_s(self) -> int:
        return self.run_s if self.job.limit_s is None else min(self.run_s, self.job.limit_s)


@dataclass(frozen=True, slots=True)
class Began:
    at: Instant
    places: tuple[Place, ...]


@dataclass
class _Played:
    cluster: Cluster
    book: Book
    planner: Planner
    runs: dict[JobName, int]
    waiting: dict[JobName, Job] = field(default_factory=dict)
    running: dict[JobName, Running] = field(default_factory=dict)
    ends: list[tuple[int, int, JobName]] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    began: dict[JobName, Began] = field(default_factory=dict)

    def end_due(self, now: int) -> tuple[Ended, ...]:
        ended = []
        while self.ends and self.ends[0][0] <= now:
            _, _, name = heapq.heappop(self.ends)
            ended.append(Ended(self.running.pop(name).job, self.runs[name]))
        return tuple(ended)

    def plan(self, now: int, ended: tuple[Ended, ...]) -> None:
        waiting, running = tuple(self.waiting.values()), tuple(self.running.values())
        world = World(Instant(now), self.cluster, waiting, running, ended)
        found = self.planner(world, self.book, self.memory)
        self.memory = found.memory
        for act in found.plan.actions:
            if isinstance(act, Refuse):
                self.waiting.pop(act.job, None)
            elif isinstance(act, Start):
                job = self.waiting.pop(act.job)
                self.began[job.name] = Began(Instant(now), act.places)
                self.running[job.name] = Running(job, Instant(now), act.places)
                heapq.heappush(self.ends, (now + self.runs[job.name], len(self.began), job.name))


def placed(
    cluster: Cluster, jobs: Sequence[Timed], book: Book, planner: Planner | None = None
) -> dict[JobName, Began]:
    """When and where each job starts; those that are refused, or never have room, are not among them."""
    play = _Played(cluster, book, planner or Follower().schedule, {one.job.name: one.lasts_s for one in jobs})
    coming = sorted(jobs, key=lambda one: one.job.came_at)
    if any(one.run_s < 1 for one in jobs):
        raise ValueError("a job that takes no time cannot be played here")
    come = 0
    while come < len(coming) or play.ends:
        now = min(
            [int(one.job.came_at) for one in coming[come : come + 1]] + [at for at, _, _ in play.ends[:1]]
        )
        ended = play.end_due(now)
        while come < len(coming) and coming[come].job.came_at <= now:
            play.waiting[coming[come].job.name] = coming[come].job
            come += 1
        play.plan(now, ended)
    return play.began


def from_values(kind: int = Kind.STEADY) -> Planner:
    """One who plans every time from nothing but values."""
    return lambda world, book, memory: decide(world, book, memory, kind)


# The rules of logs that the product's own decisions can follow on nodes.
NODE_RULES = {"easy": Kind.ARRIVAL, "steady": Kind.STEADY}


def rerun_on(cluster: Cluster, jobs: Sequence[Timed], name: str) -> tuple[Trace, int, Rerun]:
    """Jobs played on nodes with one rule: a log of those that started, how many CPUs there are, the score."""
    began = placed(cluster, jobs, Book(), Follower(NODE_RULES[name]).schedule)
    if not began:
        raise ValueError("none of the jobs fits on any of the nodes")
    trace, start = as_log(jobs, began)
    processors = processors_of(cluster)
    return trace, processors, Rerun(name, start, score(trace, start, processors))


def processors_of(cluster: Cluster) -> int:
    return max(1, sum(node.size.cpu_milli for node in cluster.nodes) // 1000)


def score_of(cluster: Cluster, jobs: Sequence[Timed], began: dict[JobName, Began]) -> Score:
    """As for logs, a job's size in processors being its CPUs on all of its nodes."""
    return score(*as_log(jobs, began), processors_of(cluster))


def as_log(jobs: Sequence[Timed], began: dict[JobName, Began]) -> tuple[Trace, Ints]:
    """Those that started, in order of arrival, and when."""
    rows = sorted((one for one in jobs if one.job.name in began), key=lambda one: one.job.came_at)
    sizes = [max(1, one.job.ask.size.cpu_milli * one.job.ask.nodes // 1000) for one in rows]
    columns = (
        [one.job.came_at for one in rows],
        [one.lasts_s for one in rows],
        [one.job.limit_s or one.run_s for one in rows],
        sizes,
        [0] * len(rows),
    )
    trace = Trace(*(np.array(column, np.int64) for column in columns))
    return trace, np.array([began[one.job.name].at for one in rows], np.int64)
