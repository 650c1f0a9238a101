"""Jobs on the real cluster of the bed: a namespace of their own, the rights that are shipped, a door."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed.parts.kube_config import API_PORT
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster

from glidepath.cluster.kubernetes.door import KubernetesCluster
from glidepath.cluster.kubernetes.kind import cluster as kubernetes
from glidepath.cluster.kubernetes.rights import IN_CLUSTER, IN_NAMESPACE
from glidepath.config.checks import own_values
from glidepath.core.place.rank import ClusterName
from glidepath.ports import Place
from kube.real import Relay

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


def rules(rows: tuple[tuple[str, str, str], ...]) -> list[Mapping[str, Any]]:
    """As the shipped roles grant them."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in rows:
        verbs.setdefault(f"{resource}/{part}" if part else resource, []).append(verb)
    return [{"apiGroups": [""], "resources": [name], "verbs": found} for name, found in verbs.items()]


def sees_nodes(cluster: Cluster, namespace: str) -> None:
    """The ClusterRole that is shipped, for the account of this namespace."""
    name = f"sees-nodes-{namespace}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    cluster.apply(
        {**role, "kind": "ClusterRole", "rules": rules(IN_CLUSTER)},
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "glidepath", "namespace": namespace}],
        },
    )


def account(cluster: Cluster, namespace: str, relay: Relay | None = None) -> Path:
    """A kubeconfig with the shipped rights, in a namespace that lets in restricted pods only."""
    config = cluster.service_account("glidepath", namespace=namespace, rules=rules(IN_NAMESPACE))
    cluster.kubectl("label", "--overwrite", "namespace", namespace, RESTRICTED).must("label")
    sees_nodes(cluster, namespace)
    if relay is not None:
        direct = f"https://{cluster.node_address}:{API_PORT}"
        text = config.read_text()
        assert direct in text
        config.write_text(text.replace(direct, f"https://127.0.0.1:{relay.port}"))
    return config


def door(config: Path, home: Path, *, name: str = "pods", **own: object) -> KubernetesCluster:
    table = {
        "kubeconfig": str(config),
        "image": TINY,
        "pull_policy": "Never",
        "changes_per_second": 0,
        **own,
    }
    made = kubernetes(ClusterName(name), own_values(kubernetes, table), Place(home, ""))
    assert isinstance(made, KubernetesCluster)
    return made


def removed(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    for kind in ("clusterrole", "clusterrolebinding"):
        cluster.kubectl("delete", kind, f"sees-nodes-{namespace}", "--ignore-not-found")
