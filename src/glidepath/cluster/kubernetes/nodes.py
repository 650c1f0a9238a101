"""Nodes and what others have on them: objects of the cluster, or settings, come in, nodes for placing go out.

An amount that cannot be read counts as nothing on a node, and is named. It refuses to know our own pods: what
they take is the scheduler's to know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import msgspec

from glidepath.cluster.kubernetes.checked import ARCH_OF
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings, StatedNodesSettings
from glidepath.core.place.rank import NodeSeen
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import DEVICES_MAX, Node, NodeState
from glidepath.kube.settings import NodeTermSettings
from glidepath.kube.shapes import Condition, Named

_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(?:[eE]([+-]?[0-9]{1,2})|([num]|[kMGTPE]|[KMGTPE]i)?)")
_UNITS = {
    "": Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}
_MIB = 1 << 20
READY = "Ready"
# Conditions under which a kubelet takes nothing new.
PRESSED = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
SHUT = frozenset({"NoSchedule", "NoExecute"})
# A node that came, or came back, is ready before the cluster lets anything start there. Pods of ours that are
# there put up with that for a while; new ones are refused.
AWAY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
OVER = frozenset({"Succeeded", "Failed"})

Amounts = Mapping[str, str]


class Taint(msgspec.Struct, frozen=True):
    key: str
    effect: str = ""
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class NodeObject(Named, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Requested(msgspec.Struct, frozen=True):
    requests: dict[str, str] = {}


class TenantContainer(msgspec.Struct, frozen=True, rename="camel"):
    resources: Requested = Requested()
    restart_policy: str = ""


class TenantSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[TenantContainer, ...] = ()
    init_containers: tuple[TenantContainer, ...] = ()
    overhead: dict[str, str] = {}


class TenantStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class TenantPod(Named, frozen=True):
    """Any pod of the cluster, as far as it takes room."""

    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


def amount(text: str) -> Fraction:
    """Raises ValueError for what is no quantity."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError("no quantity")
    number, power, unit = found.groups()
    return Fraction(number) * (Fraction(10) ** int(power) if power else _UNITS[unit or ""])


def _of(amounts: Amounts, name: str) -> Fraction:
    try:
        return amount(amounts.get(name, "0"))
    except ValueError:
        return Fraction(0)


def size_of(amounts: Amounts, gpu_resource: str, *, up: bool = False) -> Resources:
    """Rounded so that nothing is given away twice: what is there down, what is taken up."""
    parts = (
        _of(amounts, "cpu") * 1000,
        _of(amounts, "memory") / _MIB,
        _of(amounts, "ephemeral-storage") / _MIB,
        _of(amounts, gpu_resource),
    )
    return Resources(*(-int(-part // 1) if up else int(part) for part in parts))


def taken(pod: TenantPod, gpu_resource: str) -> Resources:
    """What the kube-scheduler counts for it: all its containers, or the largest of those before them."""
    running = _sum(
        [*pod.spec.containers, *(e for e in pod.spec.init_containers if e.restart_policy)], gpu_resource
    )
    for each in pod.spec.init_containers:
        running = running.largest(size_of(each.resources.requests, gpu_resource, up=True))
    return running + size_of(pod.spec.overhead, gpu_resource, up=True)


def _sum(containers: Iterable[TenantContainer], gpu_resource: str) -> Resources:
    total = Resources()
    for each in containers:
        total += size_of(each.resources.requests, gpu_resource, up=True)
    return total


def others_on(pods: Iterable[TenantPod], gpu_resource: str) -> dict[str, tuple[Resources, int]]:
    """By node: what they take, and how many they are."""
    found: dict[str, tuple[Resources, int]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in OVER:
            so_far, count = found.get(pod.spec.node_name, (Resources(), 0))
            found[pod.spec.node_name] = (so_far + taken(pod, gpu_resource), count + 1)
    return found


def node_seen(
    node: NodeObject,
    settings: KubernetesClusterSettings,
    others: tuple[Resources, int],
    *,
    gone: bool = False,
) -> NodeSeen:
    allocatable = node.status.allocatable
    kind = kind_of(node, settings)
    resource = settings.gpu_kinds.get(kind, settings.gpu_resource)
    size = size_of(allocatable, resource)
    if size.gpus > DEVICES_MAX:
        size = Resources(size.cpu_milli, size.memory_mib, size.disk_mib, DEVICES_MAX)
    counted = {name: int(_of(allocatable, key)) for name, key in settings.counted.items()}
    pods = int(_of(allocatable, "pods"))
    # Others are there for as long as we do not know better, and a node without a place for a pod is full.
    jobs_max = max(0, pods - others[1]) if pods else 0
    full = pods > 0 and jobs_max == 0
    return NodeSeen(
        Node(
            name=NodeName(node.metadata.name),
            size=size,
            gpu_kind=kind,
            counted=tuple(sorted((name, count) for name, count in counted.items() if count)),
            traits=_traits(node, settings),
            jobs_max=jobs_max,
            state=NodeState.LOST if gone else NodeState.CORDONED if full else state_of(node, settings),
        ),
        others[0],
    )


def kind_of(node: NodeObject, settings: KubernetesClusterSettings) -> str:
    return node.metadata.labels.get(settings.gpu_kind_label, "")


def state_of(node: NodeObject, settings: KubernetesClusterSettings) -> NodeState:
    conditions = {each.type: each.status for each in node.status.conditions}
    if conditions.get(READY) != "True" or node.metadata.deletion_timestamp is not None:
        return NodeState.UNSURE
    pressed = any(conditions.get(name) == "True" for name in PRESSED)
    shut = {
        taint.key
        for taint in node.spec.taints
        if taint.effect in SHUT and not _tolerated(taint, settings) and not _stays(taint)
    }
    if shut & AWAY:
        return NodeState.UNSURE
    return NodeState.CORDONED if node.spec.unschedulable or pressed or shut else NodeState.UP


def _stays(taint: Taint) -> bool:
    """Whether it is one that every pod of ours puts up with."""
    return taint.key in AWAY and taint.effect == "NoExecute"


def _tolerated(taint: Taint, settings: KubernetesClusterSettings) -> bool:
    return any(
        each.key == taint.key
        and (each.value is None or each.value == taint.value)
        and each.effect in ("", taint.effect)
        for each in settings.tolerations
    )


def wanted(node: NodeObject, terms: Iterable[NodeTermSettings]) -> bool:
    """Whether jobs are placed on it at all."""
    labels = node.metadata.labels
    return all(_fits(labels.get(term.key), term) for term in terms)


def _fits(value: str | None, term: NodeTermSettings) -> bool:
    if term.exists is not None:
        return (value is not None) == term.exists
    return value in term.any_of if term.any_of else value not in term.none_of


def _traits(node: NodeObject, settings: KubernetesClusterSettings) -> tuple[tuple[str, str], ...]:
    labels = node.metadata.labels
    found = {name: labels[key] for name, key in settings.traits.items() if labels.get(key)}
    if found.get("arch") in ARCH_OF:
        found["arch"] = ARCH_OF[found["arch"]]
    return tuple(sorted(found.items()))


def stated_nodes(stated: Iterable[StatedNodesSettings]) -> Iterator[NodeSeen]:
    for each in stated:
        for name in names_of(each):
            node = Node(
                name=NodeName(name),
                size=Resources(each.cpus, each.memory, each.disk, each.gpus),
                gpu_kind=each.gpu_kind,
                counted=tuple(sorted(each.counted.items())),
                traits=tuple(sorted(each.traits.items())),
                jobs_max=each.jobs_max,
            )
            yield NodeSeen(node)


def names_of(each: StatedNodesSettings) -> tuple[str, ...]:
    if each.count == 1:
        return (each.name,)
    return tuple(f"{each.name}-{number}" for number in range(each.count))
