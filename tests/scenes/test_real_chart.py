"""The chart on a real cluster, from nothing to nothing: a real glidepath in a pod, a real job in another.

A pilot that works notices neither an upgrade nor the way back, and an uninstall waits until it has gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bed.command import Ended
from bed.parts.condor import Pool
from bed.parts.kube_config import API_PORT
from bed.parts.kubernetes import Cluster
from tests.postgres import postgres

from glidepath.kube.intent import SITE
from grid.grid_world import RIGHTS, Grid
from kube.rendered import CHART, helm, values
from scenes.controller_image import UID, controller_image
from whole.running import until

pytestmark = pytest.mark.real

IMAGE = "bed.invalid/glidepath"
NAMESPACE = "charted"
WAIT_S = 300.0
UNINSTALL_S = 120
# In place of what routes the address of a Service, which the bed has not; and the probe is in a hurry.
ROUTED = """
import sys, yaml
env = [{{"name": "KUBERNETES_SERVICE_HOST", "value": "{host}"}}]
env += [{{"name": "KUBERNETES_SERVICE_PORT", "value": "{port}"}}]
made = [each for each in yaml.safe_load_all(sys.stdin) if each]
for each in made:
    if each["kind"] == "Deployment":
        container = each["spec"]["template"]["spec"]["containers"][0]
        container["env"] += env
        container["livenessProbe"] |= {{"periodSeconds": 3, "failureThreshold": 2}}
yaml.safe_dump_all(made, sys.stdout)
"""
CONFIG = """
[cycle]
min = "1s"
max = "3s"
deadline = "20s"

[pools.bed]
collector = "{address}"
stale_after = "30s"

[pools.bed.condor]
trust_domain = "bed.example"
grace = "2m"
token_folder = "/etc/glidepath/tokens.d"

[sites.chart]
kind = "kubernetes"
repeat_within = "5s"

[sites.chart.kubernetes]
image = "{image}"
token_secret = "glidepath-token"
token_key = "token"

[sites.chart.offers.small]
cpus = 1
memory = "600MiB"
disk = "1GiB"
lifetime = "1h"
idle = "10m"
limits = {{ live_max = 1 }}

[sites.chart.offers.small.condor]
lines = ["UPDATE_INTERVAL = 5"]
"""
# Runs until somebody listens there.
ASKS = 'import socket; socket.create_connection((\\""{host}\\"", {port}), 2)'
JOB = f'until python3 -c ""{ASKS}"" 2>/dev/null; do sleep 0.5; done'


class Charted(Grid):
    """A release of the chart, and jobs of the pool that it serves."""

    def __init__(self, home: Path, daemons: Pool, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(home, daemons)
        routed = {"host": cluster.node_address, "port": API_PORT}
        self.routing = home / "routing"
        self.routing.write_text(f"#!{sys.executable}\n{ROUTED.format(**routed)}")
        self.routing.chmod(0o755)

    def configure(self, *pools: Pool, live_max: int = 1, idle: str = "", deadline: str = "") -> None:
        """What is configured is a value of the chart."""

    def helm(self, *words: str) -> Ended:
        access, within_s = self.cluster.kubeconfig, UNINSTALL_S + 30
        return helm(*words, "--namespace", NAMESPACE, kubeconfig=access, limit_s=within_s)

    def release(self, verb: str, image: str, *more: str, store: str = "") -> None:
        config = CONFIG.format(address=self.pool.address, image=image)
        config += f'\n[store]\nurl = "{store}"\n' if store else ""
        set_ = (f"image.repository={IMAGE}", "image.tag=bed", "home.storageClass=bed", "drain.sites={chart}")
        set_ += ("pool.readTokenSecret=glidepath-read", *more)
        words = ("--post-renderer", str(self.routing), *values(*set_, config=config))
        self.helm(verb, "glidepath", str(CHART), *words).must(f"no {verb}")

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", NAMESPACE).must("kubectl").out

    def items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", *words, "-o", "json"))["items"]
        return found

    def controllers(self, word: str = "started") -> list[str]:
        """The pods of glidepath that are `started` or `ready`, and not on their way out."""
        names = []
        for pod in self.items("pods", "-l", "app.kubernetes.io/component=controller"):
            now = [each[word] for each in pod["status"].get("containerStatuses", [])]
            if now == [True] and "deletionTimestamp" not in pod["metadata"]:
                names.append(str(pod["metadata"]["name"]))
        return names

    def controller(self, word: str = "started") -> str:
        """The only such pod, or nothing."""
        return next(iter(self.controllers(word)), "")

    def standing_by(self) -> set[str]:
        """Those of them that found the store taken when they started."""
        logs = {name: self.kubectl("logs", f"pod/{name}") for name in self.controllers()}
        return {name for name, told in logs.items() if "standing by: " in told and "owns the store" in told}

    def cycle(self) -> int:
        """The number of the last cycle that anybody wrote down."""
        told = self.ask_inside("journal", "list", "--limit", "1", "-o", "json")
        return max((item["cycle"] for item in json.loads(told)["items"]), default=0) if told else 0

    def alive(self, name: str) -> bool:
        inside = ("exec", f"pod/{name}", "-n", NAMESPACE, "--", "glidepath", "alive")
        return self.cluster.kubectl(*inside).out.startswith("alive: ")

    def restarts(self, name: str) -> int:
        (pod,) = [each for each in self.items("pods") if each["metadata"]["name"] == name]
        return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))

    def loop_pid(self, pod: str) -> int:
        """The glidepath in the pod, as the machine sees it."""
        ours = f"HOSTNAME={pod}".encode()
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if b"--plain" in words and ours in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
        raise AssertionError(f"no glidepath runs in the pod:\n{self.said()}")

    def pilots(self) -> list[dict[str, Any]]:
        return [pod["metadata"] for pod in self.items("pods", "-l", f"{SITE}=chart")]

    def follows(self, before: str) -> str:
        """The pod of glidepath that came in the place of that one."""
        until(lambda: self.controller() not in ("", before), self.said, within_s=WAIT_S)
        return self.controller()

    def ask_inside(self, *words: str) -> str:
        """What a person is told who asks there; nothing while there is nobody to ask."""
        inside = ("exec", "deploy/glidepath", "-n", NAMESPACE, "--", "glidepath", *words)
        return self.cluster.kubectl(*inside).out

    def said(self) -> str:
        told = [self.cluster.kubectl("get", "pods,jobs,pvc", "-n", NAMESPACE, "-o", "wide").out]
        for name in ("deployment/glidepath", "job/glidepath-drain"):
            told.append(self.cluster.kubectl("logs", name, "-n", NAMESPACE, "--tail=40").out)
        told.append(self.cluster.kubectl("get", "events", "-n", NAMESPACE).out[-4000:])
        return "\n".join(told)

    def ours(self) -> list[str]:
        kinds = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,persistentvolumeclaim"
        found = self.kubectl("get", kinds, "-o", "name").split()
        usual = ("configmap/kube-root-ca.crt", "serviceaccount/default", *GIVEN)
        return sorted(set(found) - set(usual))


GIVEN = ("secret/glidepath-token", "secret/glidepath-read", "secret/database")


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    archive = controller_image(tmp_path_factory.mktemp("controller") / "root.tar")
    cluster.import_image(archive, f"{IMAGE}:bed", entry=("glidepath",), command=("up", "--plain"))
    archive.unlink()


@pytest.fixture
def charted(cluster: Cluster, daemons: Pool, controller: None, tmp_path: Path) -> Iterator[Charted]:
    # A volume that belongs to glidepath, as one that a cluster makes for a claim does.
    volume = cluster.folder / "volumes/glidepath"
    volume.mkdir(parents=True)
    os.chown(volume, UID, UID)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "glidepath"},
            "spec": {
                "capacity": {"storage": "2Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "bed",
                "hostPath": {"path": str(volume)},
            },
        },
        secret("glidepath-token", daemons.token("glidepath-bed@bed.example", RIGHTS) + "\n"),
        secret("glidepath-read", daemons.token("reader@bed.example", ("READ",)) + "\n"),
    )
    made = Charted(tmp_path, daemons, cluster)
    yield made
    made.close()
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
    cluster.kubectl("delete", "persistentvolume", "glidepath", "--timeout=30s")
    shutil.rmtree(volume)


def secret(name: str, value: str, key: str = "token") -> dict[str, Any]:
    about = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": {key: value}}


def test_a_job_outlives_upgrade_and_rollback_and_an_uninstall_leaves_nothing(
    charted: Charted, image: str
) -> None:
    with socket.socket() as door, ThreadPoolExecutor(1) as beside:
        door.bind((charted.cluster.host_address, 0))
        host, port = door.getsockname()
        work = charted.submit(JOB.format(host=host, port=port), "request_memory = 50")
        charted.release("install", image)
        charted.running(work, 1)
        until(lambda: charted.controller("ready") != "", charted.said, within_s=WAIT_S)
        first = charted.controller()
        [pilot] = charted.pilots()
        # Another limit makes another pod of glidepath, and the way back a third.
        charted.release("upgrade", image, "resources.limits.memory=900Mi")
        second = charted.follows(first)
        charted.helm("rollback", "glidepath").must("no way back")
        charted.follows(second)
        until(lambda: pilot["name"] in charted.ask_inside("pilot", "list", "-o", "name"), charted.said)
        assert [each["uid"] for each in charted.pilots()] == [pilot["uid"]]
        assert charted.ask_inside("alive").startswith("alive: ")

        # In too short a time nothing is removed; the site is drained all the same, and the next one goes on.
        assert charted.helm("uninstall", "glidepath", "--timeout", "2s").code != 0
        assert charted.controller() != ""
        removing = beside.submit(charted.helm, "uninstall", "glidepath", "--timeout", f"{UNINSTALL_S}s")
        drained = "jsonpath={.items[*].metadata.annotations.glidepath/drain}"
        told = ("get", "pods", "-l", f"{SITE}=chart", "-o", drained)
        until(lambda: charted.kubectl(*told) == "yes", charted.said, within_s=WAIT_S)
        assert (removing.done(), charted.waiting(work)) == (False, 1), "it did not wait for the job"
        door.listen()
        charted.done(work)
        removed = removing.result()
    assert removed.code == 0, f"{removed.err}\n{charted.said()}"
    assert charted.history(work, "ExitCode", "NumJobStarts") == [["0", "1"]]
    until(lambda: charted.ours() == [], lambda: str(charted.ours()), within_s=WAIT_S)


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    """A PostgreSQL that pods reach and that wants a password; its address is without."""
    with postgres(cluster.host_address) as server:
        server.execute("CREATE ROLE gp LOGIN PASSWORD 'of the bed'")
        server.execute("CREATE DATABASE gp OWNER gp")
        cluster.apply(secret("database", "of the bed", key="password"))
        yield f"postgresql://gp@{cluster.host_address}:{server.started.port}/gp"


def test_of_two_replicas_one_that_hangs_is_started_anew_and_one_leads(
    charted: Charted, database: str, image: str
) -> None:
    more = ("replicas=2", f"store.url={database}", "store.passwordSecret=database")
    charted.release("install", image, *more, store=database)
    until(lambda: len(charted.controllers()) == 2, charted.said, within_s=WAIT_S)
    until(lambda: len(charted.standing_by()) == 1 and charted.cycle() > 0, charted.said, within_s=WAIT_S)
    (leader,) = set(charted.controllers()) - charted.standing_by()
    before = charted.cycle()
    os.kill(charted.loop_pid(leader), signal.SIGSTOP)
    # It may be started anew before its lease is over or after; whoever leads then, one does.
    until(lambda: charted.restarts(leader) == 1, charted.said, within_s=WAIT_S)
    until(lambda: charted.cycle() > before + 1, charted.said, within_s=WAIT_S)
    until(lambda: len(charted.controllers()) == 2, charted.said, within_s=WAIT_S)
    for name in charted.controllers():
        until(lambda name=name: charted.alive(name), charted.said, within_s=WAIT_S)
    assert charted.helm("uninstall", "glidepath", "--timeout", f"{UNINSTALL_S}s").code == 0, charted.said()
    until(lambda: charted.ours() == [], lambda: str(charted.ours()), within_s=WAIT_S)
