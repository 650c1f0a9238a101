"""The settings of a Kubernetes cluster on which jobs are placed, as a strict, frozen model.

Every field says its meaning and why its default is what it is: the reference page is made from that.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from glidepath.config.fields import Count, Cpus, Duration, Positive, Size, Span, Text, TraitName
from glidepath.config.tables import Table
from glidepath.core.text import one_line
from glidepath.kube.settings import (
    Key,
    Label,
    MaybeName,
    NodeTermSettings,
    ObjectName,
    ResourceName,
    TolerationSettings,
    Value,
    Variable,
)

RUNNING_USER = 20000


class StatedNodesSettings(Table):
    """Nodes that are stated and not read: how many, and what each has for our jobs."""

    name: ObjectName = Field(
        description="Name of the node; with `count`, each is called so with a dash and its number."
    )
    count: Annotated[int, Field(ge=1, le=5000)] = Field(
        default=1, description="How many there are of the kind."
    )
    pinned: bool = Field(
        default=False,
        description="Whether this is the name of a real node, to which pods are pinned. Otherwise the "
        "kube-scheduler takes any node that fits.",
    )
    cpus: Cpus = Field(description="CPUs that our jobs may use there.")
    memory: Size = Field(description="Memory that they may use.")
    disk: Size = Field(default=0, description="Ephemeral storage that they may use. Zero: it is not counted.")
    gpus: Count = Field(default=0, description="GPUs that they may use.")
    gpu_kind: Label = Field(default="", description="Kind of these GPUs, as jobs name it.")
    counted: Mapping[TraitName, Count] = Field(
        default_factory=dict, description="Parts of GPUs and other things by name, as `counted` has them."
    )
    traits: Mapping[TraitName, Value] = Field(
        default_factory=dict, description="Traits that jobs may ask for."
    )
    jobs_max: Count = Field(default=0, description="Ranks that may share the node. Zero: no bound.")


class GpuShareSettings(Table):
    """A part of a GPU that the device plug-in of the nodes counts, by time slicing or MPS."""

    resource: ResourceName = Field(description="Resource that counts the parts.")
    parts: Annotated[int, Field(ge=2, le=1000)] = Field(description="Into how many parts one GPU is cut.")


class RuntimeSettings(Table):
    """A way to run containers that jobs may ask for by name, such as `kata`."""

    runtime_class: ObjectName = Field(description="RuntimeClass of the cluster.")
    cpus: Cpus = Field(
        default=0, description="CPUs that it takes beside each rank: the overhead of the class."
    )
    memory: Size = Field(default=0, description="Memory that it takes beside each rank.")


class VolumeSettings(Table):
    """Storage that jobs may ask for by name."""

    claim: ObjectName = Field(description="PersistentVolumeClaim of the namespace.")
    below: Annotated[str, Field(pattern=r"^([A-Za-z0-9_.-][A-Za-z0-9_./-]{0,200})?$")] = Field(
        default="", description="Folder of the claim that is mounted. Empty: all of it."
    )
    read_only: bool = Field(default=False, description="Whether jobs may only read, whatever they ask for.")
    projects: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), description="Projects whose jobs may have it. By default all."
    )

    @model_validator(mode="after")
    def _stays_within(self) -> VolumeSettings:
        if ".." in self.below.split("/"):
            raise ValueError("`below` must not have `..`")
        return self


def _block(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as error:
        raise ValueError(f"is no block of addresses, such as `10.0.0.0/8`: {one_line(str(error))}") from None


Block = Annotated[Text, AfterValidator(_block)]


class NetworkSettings(Table):
    """Whom the ranks of a job may speak with, beside each other and the jobs that they are connected to."""

    separate: bool = Field(
        default=True,
        description="Whether each job is kept apart by NetworkPolicies, for which the Role must have the "
        "rights that are shipped. false: whatever the cluster lets through goes through.",
    )
    outside: Annotated[tuple[Block, ...], Field(strict=False)] = Field(
        default=("0.0.0.0/0", "::/0"),
        description="Blocks of addresses that jobs may reach, such as the internet, or one server within. "
        "Empty: none.",
    )
    inside: Annotated[tuple[Block, ...], Field(strict=False)] = Field(
        default=(
            "10.0.0.0/8",
            "100.64.0.0/10",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",
            "fe80::/10",
        ),
        description="What of those they may not reach all the same: the cluster itself, its machines and "
        "what these are told by their cloud. Add the addresses of pods, Services and nodes where they are "
        "others.",
    )
    proxy: Mapping[Key, Label] = Field(
        default_factory=lambda: {"app.kubernetes.io/name": "glidepath"},
        description="Labels of the pods through which web applications of jobs are reached. Empty: no pod.",
    )
    proxy_namespace: MaybeName = Field(
        default="", description="Namespace of those pods. Empty: that of the jobs."
    )
    proxy_blocks: Annotated[tuple[Block, ...], Field(strict=False)] = Field(
        default=(), description="Addresses of a proxy that is no pod of the cluster."
    )


class KubernetesClusterSettings(Table):
    """A namespace of a Kubernetes cluster in which jobs are placed."""

    kubeconfig: Text = Field(
        default="",
        description="File that says where the cluster is. Empty: in a pod its own service account, "
        "elsewhere what `kubectl` uses.",
    )
    context: Text = Field(default="", description="Context of that file. Empty: its current one.")
    namespace: MaybeName = Field(default="", description="Namespace. Empty: that of the context or the pod.")
    tls_unverified: bool = Field(
        default=False, description="Accepts a kubeconfig that does not check who the server is."
    )
    changes_per_second: Count = Field(
        default=20, description="Objects made, changed and deleted in a second, at most. Zero: no limit."
    )
    nodes_of: Annotated[tuple[NodeTermSettings, ...], Field(strict=False)] = Field(
        default=(), description="Labels of the nodes that jobs are placed on. By default all nodes are."
    )
    stated: Annotated[tuple[StatedNodesSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="Nodes as stated here, for accounts that may not read nodes and the pods of others. "
        "Empty: both are read, which needs the ClusterRole that is shipped for it.",
    )
    image: Text = Field(default="", description="Image of jobs that name none. Empty: they must name one.")
    images: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), description="What images of jobs may begin with. By default any image is taken."
    )
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="When images are fetched."
    )
    pull_secrets: Annotated[tuple[ObjectName, ...], Field(strict=False)] = Field(
        default=(), description="Secrets with which images are fetched. By default none."
    )
    tools: Text = Field(
        default="",
        description="Image with a static busybox at `/bin/busybox`, which is brought into every pod. Empty: "
        "the shell of the job's own image is used, which must then have `/bin/sh` and the usual small tools.",
    )
    user: Annotated[int, Field(ge=1, le=2**31 - 1)] = Field(
        default=RUNNING_USER, description="Number of the user that commands run as; any but root."
    )
    gpu_resource: ResourceName = Field(default="nvidia.com/gpu", description="Resource that counts GPUs.")
    gpu_kind_label: Key = Field(
        default="nvidia.com/gpu.product", description="Label of nodes with the kind of their GPUs."
    )
    gpu_kinds: Mapping[Label, ResourceName] = Field(
        default_factory=dict, description="Resource that counts GPUs of a kind, where it is another one."
    )
    gpu_share: GpuShareSettings | None = Field(
        default=None, description="How a part of a GPU is asked for. Unset: there are none."
    )
    counted: Mapping[TraitName, ResourceName] = Field(
        default_factory=dict,
        description="Resource of what jobs count by name, such as "
        '`{ "mig-1g.5gb" = "nvidia.com/mig-1g.5gb" }`.',
    )
    traits: Mapping[TraitName, Key] = Field(
        default_factory=lambda: {"arch": "kubernetes.io/arch", "os": "kubernetes.io/os"},
        description="Labels of nodes that are traits jobs may ask for.",
    )
    runtimes: Mapping[TraitName, RuntimeSettings] = Field(
        default_factory=dict, description="Ways to run containers that jobs may ask for. By default none."
    )
    volumes: Mapping[TraitName, VolumeSettings] = Field(
        default_factory=dict, description="Storage that jobs may ask for by name. By default none."
    )
    tolerations: Annotated[tuple[TolerationSettings, ...], Field(strict=False)] = Field(
        default=(), description="Taints of nodes that pods put up with. By default none."
    )
    priority_class: MaybeName = Field(default="", description="PriorityClass of pods. By default none.")
    env: Mapping[Variable, Value] = Field(
        default_factory=dict, description="Further variables of every rank; what a job sets goes before them."
    )
    refused_after: Span = Field(
        default=15,
        description="How long the kube-scheduler may find no room on the chosen node before the start is "
        "given up and planned anew. What just ended there may still be counted for some seconds.",
    )
    image_after: Span = Field(
        default=60, description="How long an image may fail to come before the job is told so."
    )
    lost_after: Duration = Field(
        default=300,
        description="How long pods stay bound to a node that does not answer. Later the cluster takes them "
        "down as soon as it can.",
    )
    network: NetworkSettings = Field(
        default_factory=NetworkSettings, description="Whom ranks may speak with over the network."
    )
    sets_max: Positive = Field(
        default=2000, description="Jobs of ours in the namespace, at most: clusters slow down beyond."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> KubernetesClusterSettings:
        names = [each.name for each in self.stated]
        if len(set(names)) != len(names):
            raise ValueError("`stated`: a name is there twice")
        if any(each.pinned and each.count > 1 for each in self.stated):
            raise ValueError("`stated`: a node that is `pinned` is one; leave `count` out")
        if any(name.startswith("GLIDEPATH_") for name in self.env):
            raise ValueError("`env`: names that begin with `GLIDEPATH_` are set by glidepath")
        return self
