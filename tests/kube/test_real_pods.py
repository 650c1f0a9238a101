"""The whole on a real cluster: jobs of a real schedd run in pods that glidepath made, from zero to zero."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import MEANT, nothing_is_left, pool

from glidepath.pilot import pilot_file
from grid.grid_world import RIGHTS, Grid
from kube.real import rules
from whole.running import until

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

IMAGE = "bed.invalid/pilot:1"
NAMESPACE = "pilots"
ENTRY = ("python3", "-I", "/usr/local/lib/glidepath-pilot.pyz")
TAR_S_MAX = 120
CONFIG = """
[cycle]
min = "1s"
max = "3s"
deadline = "20s"

[pilots]
withdraw_after = "1m"
left_min = "10s"
join_slack = "10s"
useful_min = "30s"

[pools.bed]
collector = "{address}"
stale_after = "30s"

[pools.bed.condor]
trust_domain = "bed.example"
grace = "{grace}"

[pools.bed.condor.tokens]
file = "{token}"

[sites.pods]
kind = "kubernetes"
failures_max = 2
refused_wait = "5s"
repeat_within = "5s"

[sites.pods.kubernetes]
kubeconfig = "{kubeconfig}"
image = "{image}"
pull_policy = "Never"

[sites.pods.offers.small]
cpus = 1
memory = "600MiB"
disk = "1GiB"
lifetime = "1h"
idle = "{idle}"
limits = {{ live_max = {live_max} }}

[sites.pods.offers.small.condor]
lines = ["UPDATE_INTERVAL = 5"]
"""


class Pods(Grid):
    """A glidepath of this machine whose pilots are pods."""

    def __init__(self, home: Path, daemons: Pool, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubeconfig = cluster.service_account("glidepath", namespace=NAMESPACE, rules=rules())
        super().__init__(home, daemons)

    def configure(
        self, *pools: Pool, live_max: int = 1, idle: str = "10s", deadline: str = "30s", image: str = IMAGE
    ) -> None:
        """`deadline` is how long a job that runs may take to finish when its pilot has to leave."""
        token = self.home / "pool.token"
        token.write_text(self.pool.token("glidepath-bed@bed.example", RIGHTS) + "\n")
        token.chmod(0o600)
        told = {"address": self.pool.address, "token": token, "kubeconfig": self.kubeconfig}
        self.config.write_text(
            CONFIG.format(**told, image=image, idle=idle, live_max=live_max, grace=deadline)
        )

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", NAMESPACE).must("kubectl").out

    def folders(self) -> list[str]:
        """Pods of which the cluster has a trace."""
        return sorted(self.kubectl("get", "pods", "-o", "name").split())


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return kube_cluster(request.config)


@pytest.fixture(scope="module")
def daemons(cluster: Cluster) -> Iterator[Pool]:
    """A pool on the end of the cluster's cable, where pods reach it."""
    with pool("condor@pods") as found:
        found.up(tied=True, address=cluster.host_address)
        MEANT.add(found.folder)
        yield found
        MEANT.discard(found.folder)


@pytest.fixture(scope="module")
def image(cluster: Cluster, daemons: Pool, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root file system of the bed's HTCondor with the pilot's file in it, and nothing of a pool."""
    folder = tmp_path_factory.mktemp("pilot")
    place = folder / "more/usr/local/lib"
    place.mkdir(parents=True)
    pilot_file(folder).rename(place / "glidepath-pilot.pyz")
    (folder / "more/work").mkdir()
    left_out = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/*", "./etc/condor/passwords.d/*")
    left_out += ("./etc/condor/config.d/*", "./var/lib/condor/*", "./run/*", "./tmp/*")
    words = ["tar", "--numeric-owner", *(f"--exclude={each}" for each in left_out), "-cf"]
    words += [
        str(folder / "root.tar"),
        "-C",
        str(daemons.build / "root"),
        ".",
        "-C",
        str(folder / "more"),
        ".",
    ]
    subprocess.run(words, check=True, timeout=TAR_S_MAX)
    cluster.import_image(folder / "root.tar", IMAGE, entry=ENTRY)
    return IMAGE


@pytest.fixture
def pods(cluster: Cluster, daemons: Pool, image: str, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path, daemons, cluster)
    yield made
    made.close()
    made.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")


def test_jobs_run_in_pods_several_in_each_and_all_of_them_go(pods: Pods) -> None:
    work = pods.submit("sleep 1", "request_memory = 100", count=6)
    run = pods.up("--until-idle")
    pods.done(work)
    assert run.wait_end(within_s=120) == 0, run.text
    assert pods.history(work, "ExitCode") == [["0"]] * 6
    asked = pods.asked()
    assert len(asked) == 1
    until(lambda: pods.folders() == [], lambda: str(pods.folders()), within_s=60)
    assert pods.slots() == []


def test_a_pod_that_is_deleted_under_a_job_lets_it_finish(pods: Pods) -> None:
    work = pods.submit("sleep 12", "request_memory = 100")
    pods.up()
    pods.running(work, 1)
    (name,) = pods.folders()
    pods.kubectl("delete", name, "--wait=false")
    pods.done(work)
    assert pods.history(work, "ExitCode", "NumJobStarts") == [["0", "1"]]
    assert pods.asked() == [name.removeprefix("pod/")]


def test_an_image_that_is_missing_rests_the_offer_and_is_told(pods: Pods) -> None:
    pods.configure(image="bed.invalid/missing:1")
    pods.submit("true", "request_memory = 100")
    pods.up()

    def told() -> bool:
        shown = pods.ask("pilot", "list", "--ended", "--limit", "10")["items"]
        return any("ErrImageNeverPull" in json.dumps(item) for item in shown)

    until(told, pods.said, within_s=90)
    until(lambda: "fail" in json.dumps(pods.ask("site", "status")["items"]), pods.said, within_s=60)
    assert len(pods.asked()) <= 4
