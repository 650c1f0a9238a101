"""Every promise of a cluster's door, kept by the one to a real cluster with a real kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from bed.parts.kube_config import API_PORT
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster as BedCluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left

from cluster_real.jobs_world import account, door, removed
from glidepath.cluster.kubernetes.door import KubernetesCluster
from glidepath.conformance.cluster import ClusterConformance
from glidepath.core.quantity import Instant
from glidepath.ports import WORLD_ERRORS, Cluster
from kube.real import Relay, until

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

_numbers = count()
OLD_S = 120.0


class TestConformance(ClusterConformance):
    settle_s: ClassVar[float] = 90.0
    image: ClassVar[str] = TINY
    bed: BedCluster

    @pytest.fixture(autouse=True)
    def _cluster(self, request: pytest.FixtureRequest) -> Iterator[None]:
        type(self).bed = kube_cluster(request.config)
        self.made: list[KubernetesCluster] = []
        self.namespace = f"jobs-{next(_numbers)}"
        self.relay = Relay(self.bed.node_address, API_PORT)
        self.config = account(self.bed, self.namespace, self.relay)
        yield
        self.relay.cut()
        for each in self.made:
            each.close()
        removed(self.bed, self.namespace)

    def make(self, home: Path) -> Cluster:
        self.made.append(door(self.config, home))
        return self.made[-1]

    @contextmanager
    def break_listing(self, cluster: Cluster) -> Iterator[object]:
        """A stream that has broken is noticed at once; what it told is believed for a moment longer."""
        self.relay.cut()
        try:
            until("what was heard is too old", lambda: _unheard(cluster), wait_s=OLD_S)
            yield
        finally:
            self.relay.mend()
            until("it is heard again", lambda: not _unheard(cluster), wait_s=OLD_S)


def _unheard(cluster: Cluster) -> bool:
    try:
        cluster.list(now=Instant(0))
    except WORLD_ERRORS:
        return True
    return False
