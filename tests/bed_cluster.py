"""Kubernetes for tests: a cluster that all tests of a session share, and fresh ones for those that hurt it.

Clusters are tied to the test run. A machine that cannot host one skips these tests with the reason that
`bed/ctl parts` gives; under CI=true that is a failure.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster
from tests.bed_pool import MEANT, needs, place

POLL_S = 0.25
POD_S_MAX = 60

_SHARED = pytest.StashKey[Cluster]()


def cluster(name: str = "kubernetes") -> Cluster:
    """A cluster of this session that is not up yet; whoever starts it takes it down."""
    found = Cluster(name, place=place())
    needs(found.part)
    return found


def kube_cluster(config: pytest.Config) -> Cluster:
    """One cluster for the whole session, started by the first test that needs it."""
    if _SHARED not in config.stash:
        started = cluster("kubernetes@shared")
        started.up(tied=True)
        MEANT.add(started.folder)
        config.stash[_SHARED] = started
        config.add_cleanup(started.down)
    return config.stash[_SHARED]


def a_pod(
    name: str, *command: str, namespace: str = "default", image: str = TINY, **spec: Any
) -> dict[str, Any]:
    """A pod of one container that ends with its command."""
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def phase_of(cluster: Cluster, name: str, namespace: str = "default") -> str:
    shown = cluster.kubectl("get", "pod", name, "--namespace", namespace, "-o", "json")
    return str(json.loads(shown.out)["status"]["phase"]) if shown.code == 0 else ""


def wait_for_phase(cluster: Cluster, name: str, *phases: str, namespace: str = "default") -> str:
    until = time.monotonic() + POD_S_MAX
    while (found := phase_of(cluster, name, namespace)) not in phases:
        assert time.monotonic() < until, (
            cluster.kubectl("describe", "pod", name, "--namespace", namespace).out or f"{name} is {found}"
        )
        time.sleep(POLL_S)
    return found
