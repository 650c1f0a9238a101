"""What goes wrong on a real cluster under a running glidepath, and how its numbers come right again."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections import Counter
from typing import Any

import pytest
from bed.command import run
from bed.namespace import first_inside
from bed.parts.kube_config import NODE
from bed.parts.kube_space import entering
from bed.parts.kubernetes import Cluster

from glidepath.kube.backend import TROUBLED_S_MAX
from grid.grid_world import RIGHTS
from kube.pods_world import IDENTITY, Pods
from whole.running import until

pytestmark = pytest.mark.real

WAIT_S = 300
OUTAGE_S = 60
CYCLES = 2  # after which what the sources say is what is told; the one that was under way is the first
ETCD_S_MAX = 20
REFUSED_S = 5  # as `refused_wait` of the site
NO_ROOM = "every offer that fits is at a limit or closed"
# Its one process has much to give back, and its parent ends before it.
SLOW_TO_END = "mkfifo full; exec 3<>full; dd if=/dev/zero of=full bs=200M; true"
# As whoever repairs a cluster by hand would: the key of one object goes, and nobody is asked.
DELETE = """
import json, sys, urllib.request
body = json.dumps({"key": sys.argv[1]}).encode()
with urllib.request.urlopen("http://127.0.0.1:2379/v3/kv/deleterange", body, timeout=10) as answer:
    sys.stdout.write(answer.read().decode())
"""


def status(pods: Pods) -> dict[str, Any]:
    """`site status` with its sources by name and its one offer."""
    told = pods.ask("site", "status")
    (offer,) = told["items"]
    sources = {each["name"].partition(" ")[0]: each for each in told["sources"]}
    return {"offer": offer, "sources": sources, "notes": " ".join(told.get("notes", ()))}


def cycle(pods: Pods) -> int:
    return int(status(pods)["sources"]["cycle"]["name"].split()[1])


def reach(pods: Pods, number: int) -> None:
    until(lambda: cycle(pods) >= number, pods.said, within_s=WAIT_S)


def phases(pods: Pods) -> dict[str, int]:
    """The pilots of the offer by phase, those that are none left out."""
    names = ("expected", "pending", "starting", "idle", "busy", "draining", "unknown")
    offer = status(pods)["offer"]
    return {name: offer[name] for name in names if offer[name]}


def there(pods: Pods) -> dict[str, int]:
    """The same as cluster and collector tell it themselves, who are its sources."""
    claimed = ("-constraint", 'State == "Claimed"', "-af", "GlidepathPilot")
    busy = set(pods.pool.run("condor_status", *claimed).must("no collector").out.split())
    items = json.loads(pods.kubectl("get", "pods", "-o", "json"))["items"]
    names = {each["metadata"]["name"]: each["status"]["phase"].lower() for each in items}
    return dict(Counter("busy" if name in busy else phase for name, phase in names.items()))


def comes_right(pods: Pods, **wanted: int) -> None:
    """Two cycles after its sources say so the numbers are right, and stay so."""
    until(lambda: there(pods) == wanted, lambda: f"{there(pods)}\n{pods.said()}", within_s=WAIT_S)
    fresh = cycle(pods)
    for later in (CYCLES, 2 * CYCLES):
        reach(pods, fresh + later)
        assert phases(pods) == wanted, pods.said()
        assert status(pods)["sources"]["site"]["state"] == "seen"


def told_of(pods: Pods, words: str, *, notes: bool = True) -> None:
    """`site status` shows these words: beside the numbers, or as the reason of what was decided."""

    def shown() -> bool:
        found = status(pods)
        return words in (found["notes"] if notes else found["offer"]["why"])

    until(shown, lambda: f"`{words}` in {status(pods)}\n{pods.said()}", within_s=WAIT_S)


def why_over(pods: Pods, name: str) -> str:
    """Why a pilot is over, as `explain` tells it."""
    until(lambda: name in {each["name"] for each in pods.ended()}, pods.said, within_s=WAIT_S)
    (story,) = pods.ask("explain", name)["items"]
    return str(story["why"])


def explained(pods: Pods, job: str) -> str:
    """What was decided for a job, without the numbers."""
    (story,) = pods.ask("explain", job)["items"]
    return str(story["decided"]).partition(" (")[0]


def only_pod(pods: Pods) -> str:
    (found,) = pods.folders()
    return found.removeprefix("pod/")


def host(pods: Pods, cluster: int) -> str:
    return pods.pool.run("condor_q", str(cluster), "-af", "RemoteHost").must("no queue").out.strip()


def served_by_another(pods: Pods, cluster: int, before: str) -> str:
    """The pilot that runs the job once it no longer is on the one before."""

    def pilot() -> str:
        _, _, at = host(pods, cluster).partition("@")
        return at.partition("@")[0]

    until(lambda: pilot() not in ("", before), pods.said, within_s=WAIT_S)
    return pilot()


def drained(cluster: Cluster, *, timeout: str) -> str:
    words = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={timeout}")
    done = cluster.kubectl("drain", NODE, *words)
    return done.out + done.err


def test_a_drained_node_lets_the_job_finish_and_takes_pods_again_afterwards(
    pods: Pods, cluster: Cluster
) -> None:
    first = pods.submit("sleep 10", "request_memory = 100")
    pods.up()
    pods.running(first, 1)
    name = only_pod(pods)
    try:
        assert f"evicting pod {pods.namespace}/{name}" in drained(cluster, timeout="2s")
        until(lambda: "EvictionByEvictionAPI" in json.dumps(pods.pilots()), pods.said, within_s=WAIT_S)
        second = pods.submit("true", "request_memory = 100")
        pods.done(first)
        assert pods.history(first, "ExitCode", "NumJobStarts") == [["0", "1"]]
        told_of(pods, "unschedulable: 0/1 nodes are available: 1 node(s) were unschedulable")
        comes_right(pods, pending=1)
        (story,) = pods.ask("explain", f"{second}.0")["items"]
        assert story["pilots"] == [f"{only_pod(pods)} pending"]
        assert why_over(pods, name).startswith("completed: drained")
    finally:
        cluster.kubectl("uncordon", NODE).must("the node takes no pods any more")
    pods.done(second)
    assert pods.history(second, "ExitCode") == [["0"]]
    assert len(pods.asked()) == 2


def keep_token(pods: Pods, token: str) -> None:
    """The Secret that the owner of the namespace keeps."""
    named = {"name": "pool-token", "namespace": pods.namespace}
    pods.cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": {"pool.token": token}}
    )


def test_a_token_secret_that_is_rotated_lets_the_next_pilots_in(pods: Pods) -> None:
    pods.configure(kubernetes='token_secret = "pool-token"', site='backoff = "5s"')
    keep_token(pods, pods.pool.token("stranger@bed.example", RIGHTS))
    try:
        work = pods.submit("true", "request_memory = 100")
        pods.up()
        told_of(pods, "stranger@bed.example")
        (refused, *_) = pods.asked()
        keep_token(pods, pods.pool.token(IDENTITY, RIGHTS))
        pods.done(work)
        assert "refused: " in why_over(pods, refused)
        assert pods.history(work, "ExitCode", "NumJobStarts") == [["0", "1"]]
        assert pods.kubectl("get", "secrets", "-o", "name").split() == ["secret/pool-token"]
    finally:
        pods.kubectl("delete", "secret", "pool-token")


def secret_of(pods: Pods, name: str) -> str:
    found = json.loads(pods.kubectl("get", "secret", f"{name}-token", "-o", "json"))["data"]
    (value,) = found.values()
    return base64.b64decode(value).decode().strip()


def test_a_pod_that_is_taken_out_of_etcd_is_missed_and_its_job_is_served(
    pods: Pods, cluster: Cluster
) -> None:
    pods.configure(deadline="5s")
    work = pods.submit("sleep 600", "request_memory = 100")
    pods.up()
    pods.running(work, 1)
    name = only_pod(pods)
    key = base64.b64encode(f"/registry/pods/{pods.namespace}/{name}".encode()).decode()
    inside = entering(first_inside(cluster.state), sys.executable, "-I", "-c", DELETE, key)
    gone = run(inside, limit_s=ETCD_S_MAX).must("etcd kept the pod")
    assert json.loads(gone.out)["deleted"] == "1"
    assert why_over(pods, name) == "its pod was deleted; it was running"
    other = served_by_another(pods, work, name)
    comes_right(pods, busy=1)
    assert (only_pod(pods), pods.asked()) == (other, sorted([name, other]))


def quota(pods: Pods, count: int) -> None:
    named = {"name": "few", "namespace": pods.namespace}
    hard = {"hard": {"pods": str(count)}}
    pods.cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": named, "spec": hard})

    def counted() -> bool:
        shown = json.loads(pods.kubectl("get", "resourcequota", "few", "-o", "json"))["status"]
        return bool(shown.get("hard") == hard["hard"] and "used" in shown)

    until(counted, "the quota is counted", within_s=WAIT_S)


def test_a_quota_stops_asking_with_the_servers_words_until_it_is_raised(pods: Pods) -> None:
    pods.configure(live_max=3)
    quota(pods, 1)
    try:
        work = pods.submit("sleep 600", "request_memory = 100", count=3)
        pods.up()
        pods.running(work, 1)
        told_of(pods, "exceeded quota: few", notes=False)
        comes_right(pods, busy=1)
        assert len(pods.folders()) == 1
        # One try at a time, and not in every cycle; what is told may be a cycle old at both ends.
        began, first, before = time.monotonic(), cycle(pods), status(pods)["offer"]["failed"]
        reach(pods, first + 6)
        tries = status(pods)["offer"]["failed"] - before
        assert tries <= 2 + (time.monotonic() - began) / REFUSED_S
        until(lambda: explained(pods, f"{work}.2") == NO_ROOM, pods.said, within_s=WAIT_S)
        quota(pods, 3)
        pods.running(work, 2)
        # The one node has two CPUs; the third pod waits for one of them.
        told_of(pods, "Insufficient cpu")
        comes_right(pods, busy=2, pending=1)
        assert len(pods.folders()) == 3
    finally:
        pods.kubectl("delete", "resourcequota", "few")


def test_a_pod_that_is_deleted_as_a_long_job_begins_gives_it_to_one_with_the_new_token(pods: Pods) -> None:
    pods.configure(deadline="5s")
    work = pods.submit(SLOW_TO_END, "request_memory = 400")
    pods.up()
    pods.running(work, 1)
    first, old = only_pod(pods), pods.token.read_text().strip()
    assert secret_of(pods, first) == old
    pods.renew_token()
    new = pods.token.read_text().strip()
    assert new != old
    pods.kubectl("delete", f"pod/{first}", "--wait=false")
    second = served_by_another(pods, work, first)
    comes_right(pods, busy=1)
    assert (only_pod(pods), secret_of(pods, second)) == (second, new)
    assert pods.asked() == sorted([first, second])


def test_an_apiserver_that_is_gone_for_a_minute_ends_and_doubles_nothing(
    pods: Pods, cluster: Cluster
) -> None:
    pods.configure(live_max=2)
    first = pods.submit(f"sleep {OUTAGE_S - 10}", "request_memory = 100")
    pods.up()
    pods.running(first, 1)
    name = only_pod(pods)
    began = time.monotonic()
    cluster.kill("apiserver")
    try:
        until(lambda: status(pods)["sources"]["site"]["state"] == "unseen", pods.said, within_s=WAIT_S)
        source = status(pods)["sources"]["site"]
        assert source["age_s"] >= TROUBLED_S_MAX
        assert "nothing was heard for" in source["why"]
        # One finds the pilot free when the first is done; the other needs a pod, and none can be made.
        second = pods.submit("sleep 600", "request_memory = 100", count=2)
        told_of(pods, "the site cannot be seen, so nothing is done there", notes=False)
        until(lambda: explained(pods, f"{second}.1") == NO_ROOM, pods.said, within_s=WAIT_S)
        pods.done(first)
        pods.running(second, 1)
        assert status(pods)["sources"]["site"]["age_s"] > source["age_s"]
        assert pods.asked() == [name]
        time.sleep(max(0.0, began + OUTAGE_S - time.monotonic()))
    finally:
        cluster.restart("apiserver")
        # Left alone, each of these notices only after half a minute that it is back.
        for server in ("controller-manager", "scheduler", "kubelet"):
            cluster.restart(server)
    pods.running(second, 2)
    comes_right(pods, busy=2)
    assert pods.folders() == [f"pod/{each}" for each in pods.asked()]
    assert (len(pods.asked()), name in pods.asked()) == (2, True)
    assert pods.history(first, "ExitCode", "NumJobStarts") == [["0", "1"]]
