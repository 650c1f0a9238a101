"""Nodes for placing, out of what the cluster says of them and of the pods of others."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.cluster.kubernetes.nodes import (
    NodeObject,
    TenantPod,
    amount,
    node_seen,
    others_on,
    stated_nodes,
    taken,
    wanted,
)
from glidepath.core.place.rank import NodeSeen
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import Node, NodeState
from glidepath.kube.shapes import Decoder
from ranks.rank_builders import settings

GPU = "nvidia.com/gpu"
META = {"uid": "u", "resourceVersion": "1"}


def node(*, labels: Any = None, taints: Any = (), conditions: Any = None, **spec: Any) -> NodeObject:
    allocatable = spec.pop("allocatable", {"cpu": "32", "memory": "128Gi", "pods": "110", GPU: "4"})
    ready = [{"type": "Ready", "status": "True"}] if conditions is None else conditions
    made = {
        "metadata": {"name": "n1", "labels": labels or {}, **META},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": allocatable, "conditions": ready},
    }
    return Decoder(NodeObject).item(json.dumps(made).encode())


def tenant(*requests: dict[str, str], phase: str = "Running", on: str = "n1", **spec: Any) -> TenantPod:
    rows = [{"resources": {"requests": each}} for each in requests]
    made = {
        "metadata": {"name": "t", "namespace": "theirs", **META},
        "spec": {"nodeName": on, "containers": rows, **spec},
        "status": {"phase": phase},
    }
    return Decoder(TenantPod).item(json.dumps(made).encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("32", 32), ("500m", Fraction(1, 2)), ("0.5", Fraction(1, 2)), ("1.", 1), ("128Gi", 128 << 30)),
        *(("1Ki", 1024), ("1k", 1000), ("2M", 2_000_000), ("1E", 10**18), ("1e3", 1000), ("1E3", 1000)),
        *(("5e-1", Fraction(1, 2)), ("100n", Fraction(1, 10**7)), ("7u", Fraction(7, 10**6))),
    ],
)
def test_quantities_are_read_exactly(text: str, expected: Fraction) -> None:
    assert amount(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "1GiB", "ki", "1ni", "0x10", "1e999", "٣", "9" * 40])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        amount(text)


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    try:
        assert amount(text) >= 0
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (tenant({"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1"}), Resources(2500, 1024)),
        # Rounded up: what is taken is never less than it says.
        (tenant({"cpu": "1u", "memory": "1"}), Resources(1, 1)),
        (
            tenant({"cpu": "1"}, initContainers=[{"resources": {"requests": {"cpu": "4"}}}]),
            Resources(4000),
        ),
        (
            tenant(
                {"cpu": "1"},
                initContainers=[{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
            ),
            Resources(2000),
        ),
        (tenant({"cpu": "1"}, overhead={"cpu": "250m", "memory": "160Mi"}), Resources(1250, 160)),
        (tenant({"cpu": "1", GPU: "2"}), Resources(1000, 0, 0, 2)),
        (tenant({}), Resources()),
    ],
)
def test_what_a_pod_takes_is_what_the_kube_scheduler_counts(pod: TenantPod, expected: Resources) -> None:
    assert taken(pod, GPU) == expected


def test_pods_that_are_over_or_on_no_node_take_nothing() -> None:
    pods = [
        tenant({"cpu": "1"}),
        tenant({"cpu": "2"}),
        tenant({"cpu": "4"}, phase="Succeeded"),
        tenant({"cpu": "8"}, phase="Failed"),
        tenant({"cpu": "16"}, on=""),
    ]
    assert others_on(pods, GPU) == {"n1": (Resources(3000), 2)}


def test_a_node_has_its_whole_size_and_what_others_take_beside_it() -> None:
    labels = {"nvidia.com/gpu.product": "A100", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    allocatable = {
        "cpu": "31900m",
        "memory": "131072500Ki",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        GPU: "4",
        "nvidia.com/mig-1g.5gb": "7",
    }
    found = node_seen(
        node(labels=labels, allocatable=allocatable),
        settings(counted={"mig-1g.5gb": "nvidia.com/mig-1g.5gb"}),
        (Resources(1000, 512), 10),
    )
    assert found == NodeSeen(
        Node(
            name=NodeName("n1"),
            size=Resources(31_900, 128_000, 1 << 20, 4),
            gpu_kind="A100",
            counted=(("mig-1g.5gb", 7),),
            traits=(("arch", "x86_64"), ("os", "linux")),
            jobs_max=100,
        ),
        Resources(1000, 512),
    )


TAINT = {"key": "lab", "value": "x", "effect": "NoSchedule"}
AWAY = {"key": "node.kubernetes.io/not-ready"}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("found", "said", "state"),
    [
        (node(), {}, NodeState.UP),
        (node(unschedulable=True), {}, NodeState.CORDONED),
        (node(conditions=[{"type": "Ready", "status": "Unknown"}]), {}, NodeState.UNSURE),
        (node(conditions=[]), {}, NodeState.UNSURE),
        (
            node(
                conditions=[{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"}]
            ),
            *({}, NodeState.CORDONED),
        ),
        (node(taints=[TAINT]), {}, NodeState.CORDONED),
        (node(taints=[TAINT]), {"tolerations": [{"key": "lab"}]}, NodeState.UP),
        (node(taints=[TAINT]), {"tolerations": [{"key": "lab", "value": "y"}]}, NodeState.CORDONED),
        (node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, NodeState.UP),
        # It is ready, and the cluster has not yet taken note of that: the kube-scheduler refuses it.
        (node(taints=[{**AWAY, "effect": "NoSchedule"}]), {}, NodeState.UNSURE),
        (node(taints=[{**AWAY, "effect": "NoExecute"}]), {}, NodeState.UP),
        (node(taints=[PRESSURE]), {}, NodeState.CORDONED),
        (node(allocatable={"cpu": "1", "memory": "1Gi", "pods": "2"}), {}, NodeState.CORDONED),
    ],
)
def test_only_a_node_that_takes_pods_is_up(found: NodeObject, said: dict[str, Any], state: NodeState) -> None:
    assert node_seen(found, settings(**said), (Resources(), 2)).node.state is state


def test_a_node_that_was_deleted_is_lost_and_not_forgotten() -> None:
    assert node_seen(node(), settings(), (Resources(), 0), gone=True).node.state is NodeState.LOST


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        ({"key": "pool", "any_of": ["a", "b"]}, True),
        ({"key": "pool", "any_of": ["b"]}, False),
        ({"key": "pool", "none_of": ["a"]}, False),
        ({"key": "other", "none_of": ["a"]}, True),
        ({"key": "pool", "exists": True}, True),
        ({"key": "other", "exists": True}, False),
    ],
)
def test_labels_choose_the_nodes(term: dict[str, Any], fits: bool) -> None:
    assert wanted(node(labels={"pool": "a"}), settings(nodes_of=[term]).nodes_of) is fits


def test_stated_nodes_are_as_they_are_stated() -> None:
    said = settings(
        stated=[
            {"name": "cap", "count": 2, "cpus": 8, "memory": "16GiB"},
            {"name": "gpu-1", "pinned": True, "cpus": 4, "memory": "8GiB", "gpus": 2, "gpu_kind": "T4"},
        ]
    )
    assert [(each.node.name, each.node.size) for each in stated_nodes(said.stated)] == [
        ("cap-0", Resources(8000, 16 << 10)),
        ("cap-1", Resources(8000, 16 << 10)),
        ("gpu-1", Resources(4000, 8 << 10, 0, 2)),
    ]


def test_an_amount_that_cannot_be_read_counts_as_nothing() -> None:
    odd = node(allocatable={"cpu": "many", "memory": "1Gi", "pods": "x"})
    assert node_seen(odd, settings(), (Resources(), 0)).node.size == Resources(0, 1024)
