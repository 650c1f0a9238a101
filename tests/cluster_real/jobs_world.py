"""Jobs on the real cluster of the bed: a namespace of their own, the rights that are shipped, a door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bed.parts.kube_config import API_PORT
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster

from glidepath.cluster.kubernetes.door import KubernetesCluster
from glidepath.cluster.kubernetes.kind import cluster as kubernetes
from glidepath.cluster.kubernetes.rights import APART, APART_GROUP, IN_CLUSTER, IN_NAMESPACE
from glidepath.config.checks import own_values
from glidepath.core.cycle import Done
from glidepath.core.place.rank import ClusterName, RankSeen, RankSet, RankState, Seat, SetKey, Work
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.ports import Place
from glidepath.ranklog import read_log
from kube.real import Relay, until

_numbers = count()
NODE = "bed-node"
KEY = SetKey("1.1")
LONG_S = 300

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


def rules(rows: tuple[tuple[str, str, str], ...], group: str = "") -> list[Mapping[str, Any]]:
    """As the shipped roles grant them."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in rows:
        verbs.setdefault(f"{resource}/{part}" if part else resource, []).append(verb)
    return [{"apiGroups": [group], "resources": [name], "verbs": found} for name, found in verbs.items()]


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
    granted = [*rules(IN_NAMESPACE), *rules(APART, APART_GROUP)]
    config = cluster.service_account("glidepath", namespace=namespace, rules=granted)
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


class World:
    """One door to one namespace, and what is asked of it."""

    def __init__(self, cluster: Cluster, namespace: str, home: Path) -> None:
        self.cluster, self.namespace, self.home = cluster, namespace, home
        self.config = account(cluster, namespace)
        self.doors: list[KubernetesCluster] = []
        self.door = self.again()

    def again(self, **own: object) -> KubernetesCluster:
        """Another door, as after a restart."""
        self.door = door(self.config, self.home, **own)
        self.doors.append(self.door)
        return self.door

    def ranks(self, script: str, *, nodes: tuple[str, ...] = (NODE,), **more: Any) -> RankSet:
        made = RankSet(
            key=KEY,
            seats=tuple(Seat(NodeName(node)) for node in nodes),
            work=Work(("/bin/sh", "-c", script), image=TINY),
            size=Resources(50, 32),
            owner="ada",
            grace_s=3,
            gather_s_max=60,
        )
        return replace(made, **more)

    def start(self, ranks: RankSet) -> None:
        done = self.door.start(ranks)
        assert isinstance(done, Done), done

    def seen(self) -> tuple[RankSeen, ...]:
        return next((each.ranks for each in self.door.list(now=Instant(5000)).sets if each.key == KEY), ())

    def comes_to(self, state: RankState, *, wait_s: float = LONG_S) -> tuple[RankSeen, ...]:
        until(
            f"all ranks are {state}: {self.seen()}",
            lambda: bool(self.seen()) and all(rank.state is state for rank in self.seen()),
            wait_s=wait_s,
        )
        return self.seen()

    def end(self, key: str) -> RankSeen:
        """How the one rank of a set ended."""

        def over() -> tuple[RankSeen, ...]:
            found = self.door.list(now=Instant(5000)).sets
            return next((each.ranks for each in found if each.key == key and each.over), ())

        until(f"{key} is over", lambda: bool(over()), wait_s=LONG_S)
        return over()[0]

    def wrote(self, rank: int = 0) -> str:
        return read_log(self.home, KEY, rank).content.decode()

    def says(self, word: str, rank: int = 0) -> bool:
        try:
            return word in self.wrote(rank)
        except LookupError:
            return False

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", self.namespace).must("kubectl").out


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cluster = kube_cluster(request.config)
    made = World(cluster, f"placed-{next(_numbers)}", tmp_path)
    yield made
    for each in made.doors:
        each.close()
    removed(cluster, made.namespace)
