"""The local door keeps every promise of a cluster, with real processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glidepath.cluster.local import LocalCluster
from glidepath.conformance.cluster import ClusterConformance
from glidepath.core.place.rank import ClusterName
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import Node
from glidepath.ports import Cluster, Place

NODES = tuple(Node(NodeName(f"localhost-{at}"), Resources(2000, 2048, 1024)) for at in (1, 2))


class TestLocalCluster(ClusterConformance):
    def make(self, home: Path) -> LocalCluster:
        return LocalCluster(ClusterName("here"), NODES, Place(home, ""))

    @contextmanager
    def break_listing(self, cluster: Cluster) -> Iterator[None]:
        assert isinstance(cluster, LocalCluster)
        home = cluster._home
        away = home.with_name("away")
        home.rename(away)
        try:
            yield
        finally:
            away.rename(home)
