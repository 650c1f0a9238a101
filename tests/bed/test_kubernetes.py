"""Kubernetes of the bed: up, down, pods, rights, images, nodes that are not there, servers that are hurt."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.parts.kube_fake import ENDS_AS, RUNS_FOR
from bed.parts.kubernetes import Cluster
from bed.trouble import Trouble
from tests.bed_cluster import a_pod, cluster, kube_cluster, wait_for_phase
from tests.bed_pool import place

from bed import leaks

pytestmark = pytest.mark.real

ROOT = Path(__file__).parent.parent.parent
OWNER_S_MAX = 180
END_S_MAX = 30
POLL_S = 0.25
NODES = 50
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
# What the kubelet would set for the whole machine if it could.
KUBELET_WANTS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def of_others(name: str) -> bool:
    """Another run of the bed on this machine, beside this one, is none of our business."""
    return name.startswith(leaks.TAG) and not leaks.of_place([name], place(), [])


def devices() -> set[str]:
    return {name for _, name in socket.if_nameindex() if not of_others(name)}


def settings() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in KUBELET_WANTS]


def ctl(*words: str) -> subprocess.CompletedProcess[str]:
    place()
    command = [sys.executable, "bed/ctl", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=OWNER_S_MAX, check=False)


def row_of(name: str) -> dict[str, object]:
    [row] = json.loads(ctl("status", name, "-o", "json").stdout)["instances"]
    return dict(row)


def groups() -> set[str]:
    found = (path for path in Path("/sys/fs/cgroup").glob("*/*") if path.is_dir())
    return {str(path) for path in found if not of_others(path.name)}


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> Cluster:
    return kube_cluster(request.config)


@pytest.fixture
def fresh() -> Iterator[Cluster]:
    """A cluster of this test's own, which goes with it."""
    with cluster("kubernetes@fresh") as found:
        yield found


# Up and down.


def test_kubernetes_goes_up_once_and_down_without_a_trace() -> None:
    cluster()
    before = (Path("/proc/self/mountinfo").read_text(), settings(), devices(), groups())
    first = ctl("up", "kubernetes")
    try:
        assert first.returncode == 0, first.stderr
        row = row_of("kubernetes")
        found = Cluster(place=place())
        assert (row["state"], row["address"]) == ("up", f"https://{found.node_address}:6443")
        assert "was up already" in ctl("up", "kubernetes").stdout
        found.apply(a_pod("one", "sleep", "1000"))
        wait_for_phase(found, "one", "Running")
        told = ctl("leaks").stdout
        assert f"process {row['pid']}: " in told
        assert f"network device: {leaks.tag(found.folder)}\n" in told
        assert "control group: " in told
        assert f"run folder: {found.folder}\n" in told
        # Neither a mount nor a setting of the machine, with a pod that runs.
        assert (Path("/proc/self/mountinfo").read_text(), settings()) == before[:2]
        assert devices() - before[2] == {leaks.tag(found.folder)}
        assert {Path(path).name for path in groups() - before[3]} == {leaks.tag(found.folder)}
    finally:
        down = ctl("down", "kubernetes")
    assert (down.returncode, down.stderr) == (0, "")
    assert ctl("down", "kubernetes").stdout == "kubernetes: was not up\n"
    assert (Path("/proc/self/mountinfo").read_text(), settings(), devices(), groups()) == before
    assert not (place().run / "kubernetes").exists()


OWNER = """
import os, signal, sys
from bed.parts.kubernetes import Cluster
print(Cluster(sys.argv[1]).up(tied=True).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_tied_cluster_ends_with_its_owner_and_can_be_started_over_the_remains(fresh: Cluster) -> None:
    words = [sys.executable, "-c", OWNER, fresh.instance.name]
    owner = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=OWNER_S_MAX, check=False)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    until = time.monotonic() + END_S_MAX
    while leaks.marked(fresh.folder) or leaks.tag(fresh.folder) in devices():
        assert time.monotonic() < until, "the cluster outlived its owner"
        time.sleep(POLL_S)
    assert row_of(fresh.instance.name)["state"] == "dead"
    fresh.up(nodes=0, tied=True)
    assert fresh.kubectl("get", "nodes").out == ""


def test_a_server_that_does_not_start_is_told_with_its_log_and_leaves_nothing(fresh: Cluster) -> None:
    with pytest.raises(Trouble) as raised:
        fresh.up(tied=True, extra={"scheduler": ["--no-such-word"]})
    assert "its scheduler has ended" in str(raised.value)
    assert "no-such-word" in str(raised.value).partition("--- end of scheduler")[2]
    assert not fresh.folder.exists()


# Pods.


def test_a_pod_of_our_own_image_runs_to_its_end_and_its_log_is_read(shared: Cluster, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    busybox = shared.layout.tree / "bin/busybox"
    (tree / "bin/sh").write_bytes(busybox.read_bytes())
    (tree / "bin/sh").chmod(0o755)
    (tree / "word").write_text("from the image\n")
    shared.import_image(tree, "bed.invalid/own:1")
    script = "read -r line < /word; echo $line"
    shared.apply(a_pod("own", "/bin/sh", "-c", script, image="bed.invalid/own:1"))
    assert wait_for_phase(shared, "own", "Succeeded", "Failed") == "Succeeded"
    assert shared.kubectl("logs", "own").out == "from the image\n"
    assert shared.kubectl("delete", "pod", "own").code == 0


def test_a_pod_and_a_server_on_this_machine_reach_each_other(shared: Cluster) -> None:
    with socket.socket() as listener:
        listener.bind((shared.host_address, 0))
        listener.listen()
        listener.settimeout(END_S_MAX)
        port = listener.getsockname()[1]
        script = f"nc -l -p 7 -e echo back & sleep 1; echo hello | nc {shared.host_address} {port}; wait"
        shared.apply(a_pod("talks", "sh", "-c", script))
        connection, (address, _) = listener.accept()
        with connection:
            assert connection.makefile().readline() == "hello\n"
    wait_for_phase(shared, "talks", "Running")
    shown = json.loads(shared.kubectl("get", "pod", "talks", "-o", "json").out)
    assert shown["status"]["podIP"] == address
    with socket.create_connection((address, 7), timeout=END_S_MAX) as other_way:
        assert other_way.makefile().readline() == "back\n"
    assert wait_for_phase(shared, "talks", "Succeeded", "Failed") == "Succeeded"
    shared.kubectl("delete", "pod", "talks")


def test_a_pod_of_the_restricted_kind_runs_and_another_is_refused(shared: Cluster) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    shared.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": label}})
    user = {"runAsUser": 20000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    tight = a_pod(
        "tight",
        *("sh", "-c", "id -u; touch /new"),
        namespace="strict",
        securityContext=user,
        automountServiceAccountToken=False,
    )
    given = json.dumps(a_pod("loose", "true", namespace="strict"))
    assert "violates PodSecurity" in shared.kubectl("create", "-f", "-", given=given).err
    [container] = tight["spec"]["containers"]
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    shared.apply(tight)
    wait_for_phase(shared, "tight", "Failed", namespace="strict")
    said = shared.kubectl("logs", "tight", "--namespace", "strict").out
    assert sorted(said.splitlines()) == ["20000", "touch: /new: Read-only file system"]
    shared.kubectl("delete", "namespace", "strict", "--wait=false")


def test_a_pod_reaches_neither_etcd_nor_the_kubelet_without_a_name(shared: Cluster) -> None:
    node = shared.node_address
    script = f"nc -w 2 {node} 2379 < /dev/null && exit 1; wget -q -O - --no-check-certificate https://{node}:10250/pods"
    shared.apply(a_pod("curious", "sh", "-c", script))
    assert wait_for_phase(shared, "curious", "Succeeded", "Failed") == "Failed"
    assert "401" in shared.kubectl("logs", "curious").out
    shared.kubectl("delete", "pod", "curious")


# Rights.


@pytest.mark.parametrize("kind", ["account", "user"])
def test_a_kubeconfig_has_the_rights_that_were_given_and_no_others(shared: Cluster, kind: str) -> None:
    make = shared.service_account if kind == "account" else shared.user
    config = make(f"ann-{kind}", namespace=f"of-{kind}", rules=[READ_PODS])
    assert config.stat().st_mode & 0o077 == 0
    assert shared.kubectl("get", "pods", "-o", "name", kubeconfig=config).code == 0
    for words in (["get", "secrets"], ["get", "pods", "--namespace", "default"], ["get", "nodes"]):
        refused = shared.kubectl(*words, kubeconfig=config)
        assert (refused.code, "Forbidden" in refused.err) == (1, True), refused
    shared.kubectl("delete", "namespace", f"of-{kind}", "--wait=false")


# Images.


def test_what_is_no_image_is_refused(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("no archive")
    with pytest.raises(Trouble, match="is no archive that tar reads"):
        shared.import_image(tmp_path / "odd", "bed.invalid/odd:1")
    with pytest.raises(Trouble, match="is no name of an image"):
        shared.import_image(tmp_path, "--all")
    assert list((shared.folder / "images").iterdir()) == []


# Nodes that are not there.


def test_fifty_nodes_that_are_not_there_are_ready_and_pods_on_them_end(shared: Cluster) -> None:
    shared.fake_nodes(NODES, taints=[{"key": "fake", "effect": "NoSchedule"}])
    assert len(shared.ready_nodes()) == NODES + 1
    there = {"nodeSelector": {"bed.invalid/fake": "true"}, "tolerations": [{"operator": "Exists"}]}
    stays, ends, fails = (a_pod(name, "none", **there) for name in ("stays", "ends", "fails"))
    stays["metadata"]["annotations"] = {RUNS_FOR: "1h"}
    fails["metadata"]["annotations"] = {ENDS_AS: "Failed"}
    shared.apply(stays, ends, fails)
    assert wait_for_phase(shared, "ends", "Succeeded", "Failed") == "Succeeded"
    assert wait_for_phase(shared, "fails", "Succeeded", "Failed") == "Failed"
    assert wait_for_phase(shared, "stays", "Running", "Succeeded") == "Running"
    assert shared.kubectl("delete", "pod", "stays", "ends", "fails").code == 0
    shared.drop_fake_nodes()
    assert shared.ready_nodes() == {"bed-node"}


# Hurt.


def test_a_killed_server_stays_dead_until_it_is_restarted_and_a_paused_one_answers_later(
    fresh: Cluster,
) -> None:
    fresh.up(tied=True)
    for server in ("etcd", "apiserver", "controller-manager", "scheduler", "containerd", "kubelet"):
        before = fresh.processes(server)
        assert len(before) == 1, server
        fresh.kill(server)
        assert fresh.processes(server) == []
        with pytest.raises(Trouble, match=f"has no {server} that runs"):
            fresh.pause(server)
        fresh.restart(server)
        assert fresh.processes(server) != before
    fresh.pause("apiserver")
    with pytest.raises(Trouble, match="did not end"):
        fresh.kubectl("get", "nodes", timeout_s=2)
    fresh.resume("apiserver")
    assert fresh.kubectl("get", "nodes").code == 0
    with pytest.raises(Trouble, match="there is no server `nothing`"):
        fresh.kill("nothing")
    fresh.pause("etcd")  # A stopped server must not stop the cluster from going down.
    fresh.down()
    with pytest.raises(Trouble, match="is not up"):
        _ = fresh.state
