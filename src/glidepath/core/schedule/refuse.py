"""Whether a job could ever run: job and cluster come in, a refusal goes out, with what would be accepted.

It is asked at submission, and again for every job in every plan: nodes are taken away, and one bad job must
never stop the others. It looks at what there is, not at what is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Reason
from glidepath.core.quantity import Instant, Resources
from glidepath.core.schedule.cluster import (
    DEVICE_MILLI,
    Cluster,
    Node,
    Partition,
    PartitionName,
    Queue,
    Window,
)
from glidepath.core.schedule.fairshare import DEPTH_MAX, sound_shares
from glidepath.core.schedule.job import Ask, Book, Job, JobName
from glidepath.core.text import nearest
from glidepath.core.units import shown_cpus, shown_duration, shown_resources, shown_size

# So many jobs may be started together; a circle is found long before.
BESIDE_MAX = 16
# Windows that end a century after the steady clock began mean to be for ever.
FOR_EVER = 100 * 366 * 86400


Alike = tuple[Node, ...]  # at least one, and all of the same size and kind


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, and what would be accepted instead."""

    job: JobName
    because: Because
    accepted: str
    facts: tuple[Fact, ...] = ()

    @property
    def reason(self) -> Reason:
        return Reason(self.because, (*self.facts, ("accepted", self.accepted)))


def grown(ask: Ask, cluster: Cluster) -> Resources:
    """What the job takes on each node, with what its runtime takes beside it."""
    return ask.size + dict(cluster.overheads).get(ask.runtime, Resources())


def suits(ask: Ask, node: Node) -> bool:
    """Whether the node is of the right kind, whatever its size."""
    kind = not ask.gpu_kinds or node.gpu_kind in ask.gpu_kinds
    return kind and set(ask.traits) <= set(node.traits)


def holds_ask(ask: Ask, need: Resources, node: Node) -> bool:
    """Whether the empty node is large enough for its part of the job."""
    counted = dict(node.counted)
    return (
        need.fits_in(node.size)
        and (not ask.gpu_milli or node.size.gpus > 0)
        and all(count <= counted.get(name, 0) for name, count in ask.counted)
    )


class Refuser:
    """Asked for every job of a plan; what it found for one shape of job it remembers for the next."""

    def __init__(self, cluster: Cluster, book: Book, now: Instant) -> None:
        self.cluster, self.book, self.now = cluster, book, now
        self.partitions = {part.name: part for part in cluster.partitions}
        self.shares, _ = sound_shares(book.shares)
        self.large: dict[tuple[PartitionName, Ask], tuple[Alike, ...] | Refusal] = {}
        self.alike = {part.name: alike_of(part, cluster) for part in cluster.partitions}
        self.for_ever = any(window.closes_at >= FOR_EVER for window in cluster.windows)
        self.gaps: dict[tuple[object, ...], Refusal | None] = {}

    def turn_to(self, now: Instant) -> None:
        """Go on at another time; what it found about times is forgotten."""
        self.now = now
        self.gaps.clear()

    def refusal(self, job: Job) -> Refusal | None:
        """Why the job can never run on this cluster, or nothing."""
        part = self.partitions.get(job.partition)
        if part is None:
            near = nearest(job.partition, self.partitions)
            known = ", ".join(sorted(self.partitions)) or "none is there"
            return Refusal(job.name, Because.NO_SUCH_PARTITION, f"`{near}`" if near else known)
        early = _asks_nothing(job) or _times(job, part, self.now) or self._over_cap(job)
        if early is not None:
            return early
        key = (job.partition, job.ask)
        large = self.large.get(key)
        if large is None:
            large = self.large[key] = _nodes(job, self.alike[job.partition], self.cluster)
        if isinstance(large, Refusal):
            return replace(large, job=job.name)
        return self._shut_out(job, large)

    def _over_cap(self, job: Job) -> Refusal | None:
        """Whether the job alone is more than its user or one of its projects may hold."""
        caps = [self.book.user_cap] if job.queue is Queue.INTERACTIVE else []
        name = job.project
        for _ in range(DEPTH_MAX):
            share = self.shares.get(name)
            if share is None:
                break
            if share.borrow is not None:
                caps.append(share.guarantee + share.borrow)
            name = share.parent
        bounds = [cap for cap in caps if cap is not None]
        if not bounds:
            return None
        need = grown(job.ask, self.cluster)
        for cap in bounds:
            for asked, most in zip(need.as_tuple(), cap.as_tuple(), strict=True):
                # Nothing said of a part is no bound.
                if most and asked * job.ask.nodes > most:
                    facts = (("asked", shown_resources(need)), ("nodes", job.ask.nodes))
                    return Refusal(job.name, Because.OVER_CAP, f"at most {_shown_cap(cap)}", facts)
        return None

    def _shut_out(self, job: Job, fit: tuple[Alike, ...]) -> Refusal | None:
        """Whether windows leave enough nodes a gap as long as the job, before it is of no use."""
        if not self.for_ever and job.latest_at is None and job.deadline_at is None:
            return None
        admitted = tuple(window.admits(job.project, job.owner) for window in self.cluster.windows)
        times = (job.limit_s, job.first_at, job.latest_at, job.deadline_at)
        key = (job.partition, job.ask, admitted, times)
        if key not in self.gaps:
            nodes = tuple(node for nodes in fit for node in nodes)
            self.gaps[key] = _windows(job, nodes, self.cluster, self.now)
        found = self.gaps[key]
        return found and replace(found, job=job.name)


def _shown_cap(cap: Resources) -> str:
    """Only what is bounded: `0MiB` would read as none at all."""
    parts = [
        (cap.cpu_milli, f"{shown_cpus(cap.cpu_milli)} CPU"),
        (cap.memory_mib, shown_size(cap.memory_mib)),
        (cap.disk_mib, f"{shown_size(cap.disk_mib)} disk"),
        (cap.gpus, f"{cap.gpus} GPU"),
    ]
    return " ".join(shown for amount, shown in parts if amount)


def _asks_nothing(job: Job) -> Refusal | None:
    ask = job.ask
    wrong: list[tuple[bool, str, int, str]] = [
        (ask.nodes < 1, "nodes", ask.nodes, "at least 1 node"),
        (not ask.exclusive and not ask.size.cpu_milli, "cpu_milli", ask.size.cpu_milli, "some CPU, `500m`"),
        (not 0 <= ask.gpu_milli < DEVICE_MILLI, "gpu_milli", ask.gpu_milli, "1 to 999 thousandths of a GPU"),
        (bool(ask.gpu_milli and ask.size.gpus), "gpus", ask.size.gpus, "whole GPUs or a share of one"),
        (job.limit_s is not None and job.limit_s < 1, "limit_s", job.limit_s or 0, "at least 1 second"),
        *((count < 1, name, count, f"at least 1 of {name}") for name, count in ask.counted),
    ]
    for bad, name, value, accepted in wrong:
        if bad:
            return Refusal(job.name, Because.ASKS_NOTHING, accepted, ((name, value),))
    return None


def _times(job: Job, part: Partition, now: Instant) -> Refusal | None:
    if job.queue not in part.queues:
        accepted = " or ".join(part.queues) or "no queue"
        return Refusal(job.name, Because.QUEUE_NOT_SERVED, accepted, (("queue", job.queue.value),))
    if job.limit_s is None and not part.endless:
        accepted = f"a limit of at most {shown_duration(part.limit_s_max)}"
        return Refusal(job.name, Because.LIMIT_MISSING, accepted)
    if job.limit_s is not None and job.limit_s > part.limit_s_max:
        facts = (("limit", shown_duration(job.limit_s)),)
        return Refusal(job.name, Because.LIMIT_TOO_LONG, shown_duration(part.limit_s_max), facts)
    first = max(now, job.first_at or now)
    if job.latest_at is not None and job.latest_at < now:
        return Refusal(job.name, Because.TOO_LATE, f"a latest start of {first} or after")
    ends = None if job.limit_s is None else first + job.limit_s
    if job.latest_at is not None and job.latest_at < (job.first_at or job.latest_at):
        return Refusal(job.name, Because.NEVER_IN_TIME, f"a latest start of {first} or after")
    if job.deadline_at is not None and (ends is None or ends > job.deadline_at):
        room = job.deadline_at - first
        accepted = f"a limit of at most {shown_duration(room)}" if room > 0 else f"a deadline after {first}"
        return Refusal(job.name, Because.NEVER_IN_TIME, accepted)
    return None


def alike_of(part: Partition, cluster: Cluster) -> tuple[Alike, ...]:
    """The nodes of a partition, those that take the same jobs together."""
    members = set(part.nodes)
    found: dict[tuple[object, ...], list[Node]] = {}
    for node in cluster.nodes:
        if node.name in members:
            found.setdefault((node.size, node.gpu_kind, node.counted, node.traits), []).append(node)
    return tuple(tuple(nodes) for nodes in found.values())


def _nodes(job: Job, alike: tuple[Alike, ...], cluster: Cluster) -> tuple[Alike, ...] | Refusal:
    """The nodes that could hold their part of the job, if they are enough."""
    need = grown(job.ask, cluster)
    suited = [nodes for nodes in alike if suits(job.ask, nodes[0])]
    if not suited:
        kinds = {nodes[0].gpu_kind for nodes in alike if nodes[0].gpu_kind}
        traits = {f"{key}={value}" for nodes in alike for key, value in nodes[0].traits}
        accepted = ", ".join(sorted(kinds | traits)) or "no traits and no kind of GPU"
        return Refusal(job.name, Because.TOO_LARGE, accepted, (("nodes_that_suit", 0),))
    large = tuple(nodes for nodes in suited if holds_ask(job.ask, need, nodes[0]))
    count = sum(len(nodes) for nodes in large)
    if not large:
        facts = (("asked", shown_resources(need)),)
        firsts = [min(nodes, key=lambda node: node.name) for nodes in suited]
        return Refusal(job.name, Because.TOO_LARGE, _nearest_size(job.ask, need, firsts), facts)
    if count < job.ask.nodes:
        facts_of_nodes = (("asked", job.ask.nodes), ("fit", count))
        return Refusal(job.name, Because.TOO_MANY_NODES, f"at most {count} nodes", facts_of_nodes)
    return large


def _nearest_size(ask: Ask, need: Resources, nodes: list[Node]) -> str:
    """The node that is short of the fewest things, and what to ask for at most to fit it."""
    ranked = sorted(nodes, key=lambda node: (len(short_of(ask, need, node.size, node)), node.name))
    near = ranked[0]
    return f"at most {', '.join(short_of(ask, need, near.size, near))} on one node (`{near.name}`)"


def short_of(ask: Ask, need: Resources, room: Resources, node: Node) -> list[str]:
    """What of the room is too little, each as much as there is."""
    counted = dict(node.counted)
    short = []
    if need.cpu_milli > room.cpu_milli:
        short.append(f"{shown_cpus(room.cpu_milli)} CPU")
    if need.memory_mib > room.memory_mib:
        short.append(f"{shown_size(room.memory_mib)} memory")
    if need.disk_mib > room.disk_mib:
        short.append(f"{shown_size(room.disk_mib)} disk")
    if need.gpus > room.gpus or (ask.gpu_milli and not room.gpus):
        short.append(f"{room.gpus} GPU")
    short += [f"{counted.get(name, 0)} {name}" for name, count in ask.counted if count > counted.get(name, 0)]
    return short


def _windows(job: Job, fit: tuple[Node, ...], cluster: Cluster, now: Instant) -> Refusal | None:
    closing = [window for window in cluster.windows if not window.admits(job.project, job.owner)]
    first = max(now, job.first_at or now)
    span = job.limit_s or 1
    gaps = [_gap(first, span, [w for w in closing if w.touches((n.name,))]) for n in fit]
    starts = sorted(at for at, _ in gaps)
    last = FOR_EVER if job.latest_at is None else job.latest_at
    if job.deadline_at is not None:
        last = min(last, Instant(job.deadline_at - span))
    if starts[job.ask.nodes - 1] <= last:
        return None
    longest = max(length for _, length in gaps)
    accepted = (
        f"a limit of at most {shown_duration(longest)}" if longest > 0 else "a time when windows are over"
    )
    return Refusal(job.name, Because.NEVER_OPEN, accepted, (("windows", len(closing)),))


def _gap(start: int, span: int, windows: Iterable[Window]) -> tuple[int, int]:
    """The first start of a gap that is long enough, and the length of the longest before it that is not."""
    longest = 0
    for window in sorted(windows, key=lambda w: (w.opens_at, w.closes_at)):
        if window.opens_at - start >= span:
            break
        longest = max(longest, window.opens_at - start)
        start = max(start, window.closes_at)
    return start, longest


def circles(jobs: Mapping[JobName, Job]) -> set[JobName]:
    """Jobs whose `beside` leads back to them, or that lead there."""
    bad: set[JobName] = set()
    for job in jobs.values():
        seen: list[JobName] = [job.name]
        at = job
        for _ in range(BESIDE_MAX):
            if at.beside is None or at.beside not in jobs:
                break
            if at.beside in seen:
                bad.update(seen)
                break
            at = jobs[at.beside]
            seen.append(at.name)
        else:
            bad.add(job.name)
    return bad
