"""Two clusters and two pools in one process: demand is shared out once, and one cluster may be away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import cluster as a_cluster
from tests.bed_pool import condor_pool

from scenes.several import Several, by_pool, head, pool_table, seldom, site_table

pytestmark = pytest.mark.real

NAMESPACE = "shared"
WAIT_S = 300
# So many more cycles must pass before it is said that nothing more comes.
CYCLES = 3


class Both(Several):
    """One glidepath with a namespace in each of two clusters, for the jobs of two pools."""

    def __init__(self, home: Path, pools: dict[str, Pool], clusters: dict[str, Cluster]) -> None:
        self.pools, self.clusters_of = pools, clusters
        tables = head() + "".join(pool_table(home, name, pool) for name, pool in pools.items())
        tables += "".join(site_table(name, at, NAMESPACE) for name, at in clusters.items())
        super().__init__(home, pools["ours"], tables)
        self.run = self.start("one")

    def pods(self, site: str) -> Counter[str]:
        return by_pool(self.clusters_of[site], NAMESPACE)

    def total(self) -> Counter[str]:
        return self.pods("near") + self.pods("far")

    def cycle(self) -> int:
        return int(self.ask_of("one", "journal", "list")["items"][-1]["cycle"])

    def some_cycles_later(self) -> None:
        after = self.cycle() + CYCLES
        seldom(lambda: self.cycle() >= after, self.said, within_s=WAIT_S)

    def source(self, site: str) -> dict[str, Any]:
        """What `site status` says of how the site was seen."""
        sources = self.ask_of("one", "site", "status")["sources"]
        found: dict[str, Any] = next(each for each in sources if each["name"] == f"site {site}")
        return found


@pytest.fixture
def far() -> Iterator[Cluster]:
    """A control plane alone: its pods wait for a node."""
    with a_cluster("kubernetes@two") as found:
        found.up(nodes=0, tied=True)
        yield found


@pytest.fixture
def pools(request: pytest.FixtureRequest, daemons: Pool) -> dict[str, Pool]:
    return {"ours": daemons, "theirs": condor_pool(request.config)}


@pytest.fixture
def both(pools: dict[str, Pool], cluster: Cluster, far: Cluster, tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path, pools, {"near": cluster, "far": far})
    yield made
    made.close()
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_demand_of_two_pools_is_shared_between_two_clusters_and_none_is_counted_twice(
    both: Both, far: Cluster
) -> None:
    both.jobs(10)
    both.jobs(6, both.pools["theirs"])
    wanted = Counter(ours=10, theirs=6)
    seldom(lambda: both.total() >= wanted, both.said, within_s=WAIT_S)
    both.some_cycles_later()
    near, away = both.pods("near"), both.pods("far")
    assert near + away == wanted
    for pool in wanted:
        assert abs(near[pool] - away[pool]) <= 2, f"{pool}: {near} and {away}"
    assert both.source("far")["state"] == "seen"

    far.kill("apiserver")
    both.jobs(4)
    near += Counter(ours=4)
    seldom(lambda: both.pods("near") >= near, both.said, within_s=WAIT_S)
    seldom(lambda: both.source("far")["state"] == "unseen", both.said, within_s=WAIT_S)
    told = both.source("far")
    assert told["age_s"] >= 20
    assert "nothing was heard for" in told["why"]
    assert both.source("near")["state"] == "seen"
    both.some_cycles_later()
    assert both.pods("near") == near
    listed = {each["name"]: each["live"] for each in both.ask_of("one", "site", "list")["items"]}
    assert listed == {"near": near.total(), "far": away.total()}

    far.restart("apiserver")
    seldom(lambda: both.source("far")["state"] == "seen", both.said, within_s=WAIT_S)
    both.some_cycles_later()
    assert (both.pods("near"), both.pods("far")) == (near, away)
    both.take_away()
    seldom(lambda: not both.total(), both.said, within_s=WAIT_S)
