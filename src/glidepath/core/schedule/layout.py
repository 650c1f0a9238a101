"""Which number of a row means what: nodes, needs, caps and windows become rows of whole numbers.

Columns that look like resources and are none make rules out of room. `SHARE`: whoever wants a node for itself
takes all of it, everybody else a crumb. `OPEN`: everybody needs it, windows take it away; a job without a
limit needs it only at the start. One column for each circle of projects and people that nodes are kept for:
who does not belong needs it, and the window takes it away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glidepath.core.quantity import Owner, Resources
from glidepath.core.schedule.cluster import DEVICE_MILLI, Cluster, Node, ProjectName, Window
from glidepath.core.schedule.compiled import Ints
from glidepath.core.schedule.job import Ask
from glidepath.core.schedule.profile import DEVICE_PARTS

CPU, MEMORY, DISK, GPU, SHARE, JOBS, SEATS, OPEN = range(8)
FIXED = 8
# More than any sum of what is asked for, and far from overflowing when a few of them are added.
PLENTY = 1 << 50
# All of a node; what is left of it when somebody is there is less.
WHOLE = 1 << 30

Circle = tuple[tuple[ProjectName, ...], tuple[Owner, ...]]


@dataclass(frozen=True)
class Layout:
    """The columns of one cluster."""

    counted: tuple[str, ...]
    circles: tuple[Circle, ...]
    devices: int

    @property
    def parts(self) -> int:
        return FIXED + len(self.counted) + len(self.circles)

    def room(self, node: Node) -> Ints:
        """What an empty node has."""
        row = np.zeros(self.parts + self.devices, np.int64)
        size, counted = node.size, dict(node.counted)
        row[CPU], row[MEMORY], row[DISK] = size.cpu_milli, size.memory_mib, size.disk_mib
        row[GPU], row[SHARE] = size.gpus * DEVICE_MILLI, WHOLE
        row[JOBS], row[OPEN] = PLENTY, PLENTY
        row[SEATS] = node.jobs_max or PLENTY
        for at, name in enumerate(self.counted):
            row[FIXED + at] = counted.get(name, 0)
        row[FIXED + len(self.counted) : self.parts] = PLENTY
        row[self.parts : self.parts + size.gpus] = DEVICE_MILLI
        return row

    def cap(self, most: Resources | None, jobs_max: int = 0) -> Ints:
        """What somebody may hold at once; nothing said of a part is no bound."""
        row = np.full(self.parts + self.devices, PLENTY, np.int64)
        if most is not None:
            row[CPU], row[MEMORY] = most.cpu_milli or PLENTY, most.memory_mib or PLENTY
            row[DISK], row[GPU] = most.disk_mib or PLENTY, most.gpus * DEVICE_MILLI or PLENTY
        if jobs_max:
            row[JOBS] = jobs_max
        return row

    def belongs(self, project: ProjectName, owner: Owner) -> tuple[bool, ...]:
        """To which of the circles; those who belong to the same are alike."""
        return tuple(project in projects or owner in people for projects, people in self.circles)

    def need(self, ask: Ask, size: Resources, *, belongs: tuple[bool, ...], endless: bool) -> Ints:
        """What a job takes on each node; the size is with what its runtime takes."""
        row = np.zeros(self.parts + DEVICE_PARTS, np.int64)
        row[CPU], row[MEMORY], row[DISK] = size.cpu_milli, size.memory_mib, size.disk_mib
        row[GPU] = size.gpus * DEVICE_MILLI + ask.gpu_milli
        row[SHARE] = WHOLE if ask.exclusive else 1
        row[SEATS] = 1
        row[OPEN] = -1 if endless else 1
        for name, count in ask.counted:
            row[FIXED + self.counted.index(name)] = count
        for at, inside in enumerate(belongs):
            if not inside:
                row[FIXED + len(self.counted) + at] = -1 if endless else 1
        row[-2] = size.gpus or (1 if ask.gpu_milli else 0)
        row[-1] = DEVICE_MILLI if size.gpus else ask.gpu_milli
        return row

    def total(self, need: Ints, nodes: int) -> Ints:
        """What a job takes of caps: all its nodes together, and one job."""
        row = np.zeros_like(need)
        for part in (CPU, MEMORY, DISK, GPU):
            row[part] = need[part] * nodes
        row[JOBS] = 1
        return row

    def closing(self, window: Window) -> Ints:
        """What a window takes away."""
        row = np.zeros(self.parts + self.devices, np.int64)
        if window.kept:
            at = self.circles.index(circle_of(window))
            row[FIXED + len(self.counted) + at] = PLENTY
        else:
            row[OPEN] = PLENTY
        return row


def circle_of(window: Window) -> Circle:
    return tuple(sorted(set(window.projects))), tuple(sorted(set(window.people)))


def layout_of(cluster: Cluster) -> Layout:
    return Layout(
        counted=tuple(sorted({name for node in cluster.nodes for name, _ in node.counted})),
        circles=tuple(sorted({circle_of(window) for window in cluster.windows if window.kept})),
        devices=max((node.size.gpus for node in cluster.nodes), default=0),
    )
