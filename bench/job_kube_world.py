"""A home with a whole `glidepath up` before the bed's Kubernetes, and a watch that says when pods got where.

A cluster of the bed comes in; a configuration with the rights that are shipped, a home and moments of pods go
out. It knows no targets.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster

from bench.kube_world import access, bound_rights
from glidepath.cluster.kubernetes.rights import APART, APART_GROUP, IN_CLUSTER, IN_NAMESPACE
from glidepath.kube.api import Api

NAMESPACE = "jobs"
WATCH_S, STOP_S_MAX, POLL_S = 7200, 30.0, 0.005
CLUSTERS = """
[clusters.pods]
kind = "kubernetes"

[clusters.pods.kubernetes]
kubeconfig = "{kubeconfig}"
image = "{image}"
pull_policy = "Never"
changes_per_second = 0
sets_max = 100000

[partitions.main]
cluster = "pods"
"""


def account_of(cluster: Cluster) -> Path:
    """The kubeconfig of one that has just the rights that are shipped."""
    rights = [*bound_rights(IN_NAMESPACE), *bound_rights(APART, APART_GROUP)]
    account = cluster.service_account("glidepath", namespace=NAMESPACE, rules=rights)
    name = "sees-nodes"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    subject = {"kind": "ServiceAccount", "name": "glidepath", "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    cluster.apply(
        {**role, "kind": "ClusterRole", "rules": bound_rights(IN_CLUSTER)},
        {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    )
    return account


def clusters(account: Path) -> str:
    """Tables with no limit on changes."""
    return CLUSTERS.format(kubeconfig=account, image=TINY)


class Moments:
    """When a watch first told that a pod met a condition, by name of the pod."""

    def __init__(self, kubeconfig: Path, path: str, met: Callable[[Mapping[str, Any]], bool]) -> None:
        self.at: dict[str, float] = {}
        self._path, self._met = path, met
        self._api = Api(access(kubeconfig))
        self._version = json.loads(self._api.get(path))["metadata"]["resourceVersion"]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        """A server ends the stream of whoever does not keep up; the next one goes on where it ended."""
        live = self._over.is_set
        while not live():
            query = {"watch": "1", "resourceVersion": self._version, "timeoutSeconds": WATCH_S}
            with self._api.lines(self._path, query, silent_s=WATCH_S, live=lambda: not live()) as lines:
                for line in lines:
                    pod = json.loads(line)["object"]
                    self._version = pod["metadata"]["resourceVersion"]
                    if self._met(pod):
                        self.at.setdefault(pod["metadata"]["name"], time.monotonic())
            time.sleep(POLL_S)

    def follows(self) -> bool:
        return self._thread.is_alive()

    def of(self, name: str, *, wait_s: float) -> float:
        until = time.monotonic() + wait_s
        while name not in self.at:
            if not self.follows():
                raise RuntimeError("the watch on the cluster ended; nothing can be measured")
            if time.monotonic() > until:
                raise TimeoutError(f"`{name}` did not get there within {wait_s:g} s")
            time.sleep(POLL_S)
        return self.at[name]

    def close(self) -> None:
        self._over.set()
        self._api.close()
        self._thread.join(STOP_S_MAX)


def runs(pod: Mapping[str, Any]) -> bool:
    """Its container runs, by the kubelet's own word."""
    found = pod.get("status", {}).get("containerStatuses") or [{}]
    return "running" in found[0].get("state", {})


def is_bound(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))
