"""Where jobs can be placed, as values: nodes, partitions, windows.

Everything here was read from somewhere else and checked by nobody yet: `flaws` says what is wrong with it,
in words, and the plan is made without the parts that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, TypeVar

from glidepath.core.quantity import Instant, NodeName, Owner, Resources, Traits

PartitionName = NewType("PartitionName", str)
ProjectName = NewType("ProjectName", str)

# So many devices have a bit each in one whole number, with room to spare.
DEVICES_MAX = 32
# A whole device in the unit that shares of it are counted in.
DEVICE_MILLI = 1000

Counted = tuple[tuple[str, int], ...]


class Queue(StrEnum):
    INTERACTIVE = "interactive"  # in strict order, everybody with a promised start
    BATCH = "batch"  # reordered, and holes are filled


class NodeState(StrEnum):
    UP = "up"
    CORDONED = "cordoned"  # nothing new starts; what runs goes on
    UNSURE = "unsure"  # not heard of; what runs there may go on, so that nothing is done about it
    LOST = "lost"  # known to be gone, and what ran there with it


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. All its GPUs are of one kind; parts of them that are sold by the piece are counted."""

    name: NodeName
    size: Resources
    gpu_kind: str = ""
    counted: Counted = ()  # MIG profiles and whatever else there is a number of, by name
    traits: Traits = ()
    jobs_max: int = 0  # how many jobs may share it; 0 for no bound
    state: NodeState = NodeState.UP


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes with rules. Two partitions may share nodes, so that queues share them or are kept apart."""

    name: PartitionName
    nodes: tuple[NodeName, ...]
    queues: tuple[Queue, ...] = (Queue.INTERACTIVE, Queue.BATCH)
    limit_s_max: int = 7 * 86400
    endless: bool = False  # whether jobs without a limit are taken


@dataclass(frozen=True, slots=True)
class Window:
    """A span in which nodes are closed, or kept for projects and people."""

    name: str
    opens_at: Instant
    closes_at: Instant
    nodes: tuple[NodeName, ...] = ()  # none means all
    projects: tuple[ProjectName, ...] = ()
    people: tuple[Owner, ...] = ()  # where both are empty it is closed for everybody
    number: int = 0  # in the calendar; none for those of the settings

    @property
    def kept(self) -> bool:
        """For somebody; else nobody may be there."""
        return bool(self.projects or self.people)

    def admits(self, project: ProjectName, owner: Owner) -> bool:
        return project in self.projects or owner in self.people

    def touches(self, nodes: Iterable[NodeName]) -> bool:
        return not self.nodes or any(name in self.nodes for name in nodes)


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: tuple[Node, ...]
    partitions: tuple[Partition, ...]
    windows: tuple[Window, ...] = ()
    overheads: tuple[tuple[str, Resources], ...] = ()  # what a runtime takes beside each job: Kata
    notes: tuple[str, ...] = field(default=(), compare=False)  # of its door, for people
    unkept: tuple[str, ...] = field(default=(), compare=False)  # limits of jobs that are not kept there

    @property
    def told(self) -> tuple[str, ...]:
        """All that its door has to say."""
        return (*self.notes, *self.unkept)


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with one thing, and what would be accepted."""

    about: str
    why: str
    accepted: str


Named = TypeVar("Named", Node, Partition)


def sound(cluster: Cluster) -> tuple[Cluster, tuple[Flaw, ...]]:
    """The cluster without what is wrong in it, and what that was."""
    found = tuple(flaws(cluster))
    bad = {flaw.about for flaw in found}
    names = {node.name for node in cluster.nodes}
    return Cluster(
        nodes=tuple(node for node in _first_named(cluster.nodes) if f"node:{node.name}" not in bad),
        partitions=tuple(
            Partition(
                part.name,
                tuple(dict.fromkeys(name for name in part.nodes if name in names)),
                part.queues,
                part.limit_s_max,
                part.endless,
            )
            for part in _first_named(cluster.partitions)
            if f"partition:{part.name}" not in bad
        ),
        windows=tuple(window for window in cluster.windows if f"window:{window.name}" not in bad),
        overheads=cluster.overheads,
    ), found


def _first_named(things: tuple[Named, ...]) -> tuple[Named, ...]:
    seen: dict[str, Named] = {}
    for thing in things:
        seen.setdefault(thing.name, thing)
    return tuple(seen.values())


def flaws(cluster: Cluster) -> Iterator[Flaw]:
    names = {node.name for node in cluster.nodes}
    for node in cluster.nodes:
        yield from _node_flaws(node)
    yield from _twice("node", [node.name for node in cluster.nodes])
    yield from _twice("partition", [part.name for part in cluster.partitions])
    for part in cluster.partitions:
        if part.limit_s_max <= 0:
            yield Flaw(f"partition:{part.name}", "its longest limit is not above zero", "at least 1 second")
        for name in part.nodes:
            if name not in names:
                yield Flaw(f"node:{name}", f"partition {part.name} names it, and it is not there", "a node")
    for window in cluster.windows:
        if window.closes_at <= window.opens_at:
            yield Flaw(
                f"window:{window.name}",
                f"it ends at {window.closes_at} and starts at {window.opens_at}",
                "an end after the start",
            )
        for name in window.nodes:
            if name not in names:
                yield Flaw(f"node:{name}", f"window {window.name} names it, and it is not there", "a node")


def _node_flaws(node: Node) -> Iterator[Flaw]:
    about = f"node:{node.name}"
    if not node.size.cpu_milli or not node.size.memory_mib:
        yield Flaw(about, "it has no CPU or no memory", "both above zero")
    if node.size.gpus > DEVICES_MAX:
        yield Flaw(about, f"it has {node.size.gpus} GPUs", f"at most {DEVICES_MAX}")
    if node.jobs_max < 0 or any(count < 0 for _, count in node.counted):
        yield Flaw(about, "a count is below zero", "zero or more")


def _twice(sort: str, names: list[str] | list[NodeName] | list[PartitionName]) -> Iterator[Flaw]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield Flaw(f"{sort}s", f"`{name}` is there twice; the first one counts", "each name once")
        seen.add(name)
