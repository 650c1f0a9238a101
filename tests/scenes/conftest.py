"""One cluster and one pool for all scenes; every scene has a glidepath of its own, and leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left

from kube.pods_world import Pods, bring_pilot, pool_of

__all__ = ["nothing_is_left"]


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return kube_cluster(request.config)


@pytest.fixture(scope="session")
def daemons(cluster: Cluster) -> Iterator[Pool]:
    with pool_of(cluster, "condor@scenes") as found:
        yield found


@pytest.fixture(scope="session")
def image(cluster: Cluster, daemons: Pool, tmp_path_factory: pytest.TempPathFactory) -> str:
    return bring_pilot(cluster, daemons, tmp_path_factory.mktemp("pilot"))


@pytest.fixture
def pods(cluster: Cluster, daemons: Pool, image: str, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path, daemons, cluster)
    yield made
    made.close()
