"""Small worlds in a few words, played forward and drawn as text, so that a reader sees the schedule.

`A 2n 1c 3 batch` is job A on 2 nodes with 1 CPU each and a limit of 3 time units. A unit is a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.acts import End, Refuse, Requeue, Shrink, Start
from glidepath.core.schedule.cluster import (
    Cluster,
    Node,
    Partition,
    PartitionName,
    ProjectName,
    Queue,
    Window,
)
from glidepath.core.schedule.decide import Schedule, decide
from glidepath.core.schedule.job import Ask, Book, Ended, Job, JobName, Memory, Running, World
from glidepath.core.schedule.order import Kind

MINUTE = 60


def node(name: str, cpus: int = 1, gpus: int = 0, **more: Any) -> Node:
    size = Resources(cpus * 1000, cpus * 1024, 0, gpus)
    return Node(NodeName(name), size, **more)


def cluster(*nodes: Node, windows: tuple[Window, ...] = (), **more: Any) -> Cluster:
    part = Partition(PartitionName("main"), tuple(node.name for node in nodes), **more)
    return Cluster(nodes, (part,), windows)


def window(
    first: int, last: int, *names: str, projects: tuple[str, ...] = (), people: tuple[str, ...] = ()
) -> Window:
    circle = tuple(ProjectName(name) for name in projects)
    opens, closes = Instant(first * MINUTE), Instant(last * MINUTE)
    return Window(
        f"w{first}", opens, closes, tuple(NodeName(name) for name in names), circle, tuple(map(Owner, people))
    )


def job(text: str, came: int = 0, **more: Any) -> Job:
    """`A 2n 1c 3 batch`; the limit may be `-`."""
    name, *words = text.split()
    nodes, cpus, gpus, limit, queue = 1, 1, 0, None, Queue.BATCH
    for word in words:
        if word in tuple(Queue):
            queue = Queue(word)
        elif word.endswith("n"):
            nodes = int(word[:-1])
        elif word.endswith("c"):
            cpus = int(word[:-1])
        elif word.endswith("g"):
            gpus = int(word[:-1])
        elif word != "-":
            limit = int(word) * MINUTE
    made = Job(
        name=JobName(name),
        owner=Owner("ann"),
        partition=PartitionName("main"),
        queue=queue,
        ask=Ask(Resources(cpus * 1000, 1, 0, gpus), nodes),
        came_at=Instant(came * MINUTE),
        limit_s=limit,
    )
    return replace(made, **more)


@dataclass
class Play:
    """A world that goes on: jobs come, run as long as they are said to, and each minute is decided anew."""

    cluster: Cluster
    coming: list[Job]
    book: Book = field(default_factory=Book)
    kind: int = Kind.ARRIVAL  # so that a drawing can be followed with a finger
    runs: dict[str, int] = field(default_factory=dict)  # how many minutes; others run to their limit
    paused: tuple[str, ...] = ()
    now: int = 0
    waiting: list[Job] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    drawn: dict[str, list[str]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    told: dict[str, list[int]] = field(default_factory=dict)
    last: Schedule | None = None
    gone: list[str] = field(default_factory=list)

    def world(self) -> World:
        return World(
            now=Instant(self.now * MINUTE),
            cluster=self.cluster,
            waiting=tuple(self.waiting),
            running=tuple(self.running),
            ended=tuple(self.ended),
            paused=self.paused,
        )

    def step(self) -> Schedule:
        """One minute: who is due ends, who comes waits, the plan is made and done."""
        due = [one for one in self.running if self._ends(one) <= self.now * MINUTE]
        self.running = [one for one in self.running if one not in due]
        self.ended = [Ended(one.job, self.now * MINUTE - one.started_at) for one in due]
        self.waiting += [one for one in self.coming if one.came_at <= self.now * MINUTE]
        self.coming = [one for one in self.coming if one.came_at > self.now * MINUTE]
        made = decide(self.world(), self.book, self.memory, self.kind)
        self.memory, self.last = made.memory, made
        for promise in made.memory.promises:
            if promise.places:
                self.told.setdefault(promise.job, []).append(promise.at // MINUTE)
        for action in made.plan.actions:
            self.act(action)
        self._draw()
        self.now += 1
        return made

    def _ends(self, one: Running) -> int:
        if one.job.name in self.runs:
            return one.started_at + self.runs[one.job.name] * MINUTE
        return one.started_at + (one.job.limit_s or 10**9)

    def act(self, action: object) -> None:
        jobs = {one.name: one for one in self.waiting}
        match action:
            case Start(name, places, _):
                self.waiting.remove(jobs[name])
                self.running.append(Running(jobs[name], Instant(self.now * MINUTE), places))
                self.starts.setdefault(name, self.now)
            case Refuse(name):
                self.waiting = [one for one in self.waiting if one.name != name]
                self.gone.append(name)
            case End(name):
                self.running = [one for one in self.running if one.job.name != name]
                self.gone.append(name)
            case Requeue(name):
                back = [one.job for one in self.running if one.job.name == name]
                self.running = [one for one in self.running if one.job.name != name]
                self.waiting = sorted(back + self.waiting, key=lambda one: (one.came_at, one.name))
            case Shrink(name, places):
                self.running = [
                    replace(one, places=places) if one.job.name == name else one for one in self.running
                ]

    def _draw(self) -> None:
        for one in self.cluster.nodes:
            on = [run.job.name for run in self.running for place in run.places if place.node == one.name]
            self.drawn.setdefault(one.name, []).append(on[0] if len(on) == 1 else str(len(on)) if on else ".")

    def until(self, minutes: int) -> str:
        """Play so long and draw it: a line for each node, a letter for each minute, a number for several."""
        for _ in range(minutes - self.now):
            self.step()
        return "\n".join(f"{name} {''.join(row)}" for name, row in self.drawn.items())


def picture(text: str) -> str:
    """A drawing in a test, without what only makes it look well there."""
    return "\n".join(line.strip() for line in text.strip().splitlines())
