"""What several of these tests put between a glidepath and its cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bed_cluster import kube_cluster

from jobs_real.fault_proxy import FaultProxy, fault_proxy


@pytest.fixture(scope="module")
def proxy(request: pytest.FixtureRequest) -> Iterator[FaultProxy]:
    with fault_proxy(kube_cluster(request.config)) as found:
        yield found
