"""Many pods: 3,500 jobs of a real schedd, 500 nodes that are not there, and no pod beyond the limit."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import cluster as a_cluster
from tests.bed_pool import condor_pool

from scenes.several import Several, head, pods_in, pool_table, seldom, site_table
from whole.running import Running

pytestmark = pytest.mark.real

NAMESPACE = "many"
NODES, EACH = 500, 6
PODS = NODES * EACH
JOBS = PODS + 500
WAIT_S = 240
DEADLINE_S = 60
# Not measured here, but a process that needs more than this for some thousand pods keeps something too much.
BYTES_MAX = 1 << 30
# By their own defaults, the scheduler binds fifty pods in a second and nobody would wait for that.
QUICK = ["--kube-api-qps=500", "--kube-api-burst=1000"]
# One token for all: a Secret for each pod would be collected at twenty in a second when the pods go.
SITE = 'changes_per_second = 200\ntoken_secret = "pool"'


def slow_to_start(cluster: Cluster) -> None:
    """From now on pods on fake nodes are bound and then wait, as for a large image.

    A fake pod that runs would be a pilot that never joins its pool, and never leaves for want of jobs.
    """
    stages = cluster.layout.config("kwok.yaml")
    kept = [each for each in stages.read_text().split("\n---\n") if '"pod-run"' not in each]
    stages.write_text("\n---\n".join(kept))
    cluster.restart("kwok")


@pytest.fixture
def crowd() -> Iterator[Cluster]:
    with a_cluster("kubernetes@many") as found:
        found.up(nodes=0, tied=True, extra={"scheduler": QUICK, "controller-manager": QUICK})
        found.fake_nodes(NODES, resources={"pods": str(EACH)})
        slow_to_start(found)
        yield found


class Many(Several):
    def __init__(self, home: Path, pool: Pool, cluster: Cluster) -> None:
        self.cluster, self.most = cluster, 0
        tables = head(deadline=f"{DEADLINE_S}s") + pool_table(home, "bed", pool)
        tables += site_table("crowd", cluster, NAMESPACE, live_max=PODS, kubernetes=SITE)
        super().__init__(home, pool, tables)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pool", "namespace": NAMESPACE}}
        cluster.apply({**secret, "stringData": {"pool.token": (home / "bed.token").read_text()}})

    def count(self) -> int:
        """Pods that there are, as the server counts them."""
        shown = self._first_of("")
        found = len(shown["items"]) + int(shown["metadata"].get("remainingItemCount", 0))
        self.most = max(self.most, found)
        return found

    def bound(self) -> bool:
        """Whether every pod has a node."""
        return not self._first_of("&fieldSelector=spec.nodeName%3D")["items"]

    def _first_of(self, more: str) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?limit=1{more}"
        found: dict[str, Any] = json.loads(self.cluster.kubectl("get", "--raw", path).must("no list").out)
        return found

    def offer(self) -> dict[str, Any]:
        (found,) = self.ask_of("one", "site", "status")["items"]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def many(request: pytest.FixtureRequest, crowd: Cluster, tmp_path: Path) -> Iterator[Many]:
    made = Many(tmp_path, condor_pool(request.config), crowd)
    yield made
    made.close()


def used(run: Running) -> tuple[int, float]:
    """The most memory that a process had, in bytes, and the seconds of a processor that it took."""
    status = Path(f"/proc/{run.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    stat = Path(f"/proc/{run.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(found[1]) << 10, (int(stat[11]) + int(stat[12])) / 100


def test_three_thousand_pods_on_five_hundred_nodes_come_and_go(many: Many) -> None:
    began = time.monotonic()
    many.jobs(JOBS)
    run = many.start("one")
    seldom(lambda: many.count() >= PODS, many.said, within_s=WAIT_S)
    made_s = time.monotonic() - began
    seldom(lambda: many.offer()["live"] == PODS and not many.offer()["expected"], many.said, within_s=WAIT_S)
    seldom(many.bound, many.said, within_s=WAIT_S)
    bound_s = time.monotonic() - began
    placed = Counter(pod["spec"]["nodeName"] for pod in pods_in(many.cluster, NAMESPACE))
    assert placed == Counter({f"fake-{number}": EACH for number in range(NODES)})
    offer = many.offer()
    assert (offer["live"], offer["live_max"]) == (PODS, PODS)
    assert f"live={PODS}" in offer["why"]
    assert "limit" in offer["why"]
    full, busy_s = used(run)

    many.take_away()
    seldom(lambda: many.count() == 0, many.said, within_s=WAIT_S)
    gone_s = time.monotonic() - began
    seldom(lambda: many.offer()["live"] == 0, many.said, within_s=WAIT_S)
    assert many.most == PODS
    most, all_s = used(run)
    print(
        f"{PODS} pods made {made_s:.0f} s, bound {bound_s:.0f} s and gone {gone_s:.0f} s after the jobs; "
        f"{full >> 20} and {most >> 20} MiB, {busy_s:.0f} and {all_s:.0f} s of a processor"
    )
    assert most < BYTES_MAX
    assert "no answer in time" not in run.text
