"""The tables of clusters and partitions: where jobs are placed, by which rules, and who takes from a pool.

Every field says its meaning and why its default is what it is: the reference page is made from that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from glidepath.config.fields import Count, Cpus, Duration, Name, Positive, Size, Span, Text, Word
from glidepath.config.site import AmountSettings
from glidepath.config.tables import DAY_S, HOUR_S, MINUTE_S, OwnTable, Table, with_own

# As a process reads its own in `/proc/self/cgroup`: below the top, with nothing in it that leads elsewhere.
CGROUP = r"^((/[A-Za-z0-9_@:-][A-Za-z0-9_.@:-]{0,99}){1,8})?$"

# Kinds with a table of their own, which is named like them: what makes a door and knows its keys.
OWN_KINDS = {"kubernetes": "glidepath.cluster.kubernetes.kind:cluster"}


class ClusterKinds:
    """Kinds of clusters as a catalog of plug-ins; each is imported when it is asked for."""

    def names(self, group: str) -> tuple[str, ...]:
        return tuple(sorted(OWN_KINDS))

    def load(self, group: str, name: str) -> object:
        module, _, maker = OWN_KINDS[name].partition(":")
        return getattr(import_module(module), maker)


class ClusterWindowSettings(Table):
    """A span in which nodes of the cluster are closed, or kept for projects."""

    start: AwareDatetime = Field(description="When it begins: a TOML date and time with its offset.")
    end: AwareDatetime = Field(description="When it ends, written like `start`.")
    why: Text = Field(default="maintenance", description="What people are told about it.")
    nodes: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(), description="The nodes that it is about. By default all of the cluster."
    )
    projects: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(), description="Projects that the nodes are kept for. By default nobody may be there."
    )


class ClusterSettings(Table):
    """One cluster that glidepath places jobs on, and how its queues are run."""

    kind: Literal["local", "kubernetes"] = Field(
        description="`local` is this machine, `kubernetes` a namespace of a cluster of Kubernetes."
    )
    cpus: Cpus = Field(default=0, description="For `local`: CPUs that jobs may have. Zero: all of them.")
    memory: Size = Field(
        default=0, description="For `local`: memory that jobs may have. Zero: four fifths of the machine."
    )
    disk: Size = Field(default=0, description="For `local`: scratch disk for jobs. By default none.")
    gpus: Count = Field(default=0, description="For `local`: GPUs that jobs may have. By default none.")
    gpu_kind: Word | None = Field(default=None, description="For `local`: what its GPUs are called.")
    nodes: Annotated[Positive, Field(le=64)] = Field(
        default=1,
        description="For `local`: into how many equal nodes the machine is cut; a job of several ranks "
        "needs as many. One is what a machine is.",
    )
    cgroup: Annotated[str, Field(pattern=CGROUP)] = Field(
        default="",
        description="For `local`: the control group below which each job gets one of its own, such as "
        "`/glidepath`, so that the kernel keeps it within its memory, CPUs and processes. No job starts "
        "while it cannot be used. Empty: a group that systemd handed over to glidepath (`Delegate=yes`); "
        "without one, the memory of jobs is measured and their CPUs are not limited.",
    )
    processes: Count = Field(
        default=4096,
        description="For `local`: processes and threads that one rank may have, where the kernel keeps that. "
        "Zero: no limit. A fork that never ends is held by it, and hardly anything in good use.",
    )
    keep: Count = Field(
        default=1,
        description="For how many blocked batch jobs room is kept. One is EASY backfill: most jobs start "
        "sooner that way.",
    )
    notice: Duration = Field(
        default=HOUR_S,
        description="So long before a window a job without a time limit is told that it will be ended.",
    )
    user_jobs_max: Count = Field(
        default=0, description="Interactive jobs that one user may have running. Zero: no bound."
    )
    user_cap: AmountSettings = Field(
        default_factory=AmountSettings,
        description="What the interactive jobs of one user may hold at once. By default there is no bound.",
    )
    stale_after: Span = Field(
        default=2 * MINUTE_S,
        description="Nodes and ranks seen longer ago than this are not acted on. A few missed readings are "
        "normal, more are not.",
    )
    cycle_min: Span = Field(
        default=1,
        description="Shortest time between two plans that nothing calls for. Whoever submits or cancels is "
        "answered at once, and what a cluster says is planned with sooner where plans are quick.",
    )
    cycle_max: Span = Field(default=5, description="Longest time between two plans when nothing changes.")
    windows: Annotated[tuple[ClusterWindowSettings, ...], Field(strict=False)] = Field(
        default=(), description="When nodes are closed, or kept for projects. By default never."
    )
    own: OwnTable = Field(
        default_factory=dict,
        description="The sub-table named like `kind`: keys that only this kind of cluster knows.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_apart(cls, raw: object) -> object:
        return with_own(raw, cls.model_fields)


class PartitionSettings(Table):
    """A place that jobs are submitted to: a pool whose pilots take them, or a cluster they are placed on."""

    pool: Name | None = Field(
        default=None, description="The pool whose pilots take the jobs of this partition; or `cluster`."
    )
    cluster: Name | None = Field(
        default=None, description="The cluster that jobs of this partition are placed on; or `pool`."
    )
    nodes: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(), description="Of a cluster: its nodes by name. By default all of them."
    )
    queues: Annotated[tuple[Literal["interactive", "batch"], ...], Field(strict=False)] = Field(
        default=("interactive", "batch"), description="Of a cluster: the queues that it serves."
    )
    limit_max: Span = Field(
        default=7 * DAY_S,
        description="Of a cluster: the longest time limit of a job. A week suits most.",
    )
    limit_default: Span = Field(
        default=HOUR_S,
        description="Of a cluster: the time limit of a job that names none. Short ones start sooner, and a "
        "limit can be extended.",
    )
    endless: bool = Field(
        default=False,
        description="Of a cluster: whether jobs may run without a limit, with `--time none`. They are ended "
        "with notice for a window.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> PartitionSettings:
        if (self.pool is None) == (self.cluster is None):
            raise ValueError("needs either `pool` or `cluster`")
        fields = type(self).model_fields
        odd = [key for key, field in fields.items() if key != "pool" and getattr(self, key) != field.default]
        if self.pool is not None and odd:
            raise ValueError(f"`{odd[0]}` is only for a partition of a cluster")
        return self
