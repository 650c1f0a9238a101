"""What pods of jobs have of a real cluster: volumes, runtimes, parts of devices, logs; and a restart."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bed.parts.kubernetes import Cluster
from tests.bed_pool import nothing_is_left

from cluster_real.jobs_world import KEY, NODE, World, world
from glidepath.core.cycle import Done
from glidepath.core.place.rank import Cause, RankState, SetKey, Volume
from glidepath.core.quantity import Resources
from kube.real import until

__all__ = ["nothing_is_left", "world"]
pytestmark = pytest.mark.real

PART, PARTS = "bed.invalid/gpu-part", 4


def given_volume(world: World, folder: Path) -> Iterator[dict[str, Any]]:
    """A claim of the namespace, and the folder of the node behind it."""
    name, size = f"data-{world.namespace}", {"storage": "1Mi"}
    kept = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **kept,
            "capacity": size,
            "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": world.namespace},
        "spec": {**kept, "volumeName": name, "resources": {"requests": size}},
    }


def test_volumes_are_there_before_the_command_and_grant_what_was_asked(world: World) -> None:
    """A claim may be mounted twice: a kubelet would wait for ever for a pod that names it as two volumes."""
    world.again(volumes={"data": {"claim": "data"}}, refused_after="1s")
    needs = Volume("data", "/in")
    plain = world.ranks("true")
    world.start(replace(plain, key=SetKey("3.1"), work=replace(plain.work, volumes=(needs,))))
    rank = world.end("3.1")
    assert (rank.cause, 'persistentvolumeclaim "data" not found' in rank.why) == (Cause.SETUP, True), rank

    folder = world.cluster.folder / f"volume-{world.namespace}"  # The cluster sees no folder of a test.
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "note").write_text("from the volume\n")
    world.cluster.apply(*given_volume(world, folder))
    try:
        until("it is bound", lambda: '"Bound"' in world.kubectl("get", "pvc", "data", "-o", "json"))
        world.again(volumes={"data": {"claim": "data"}})
        plain = world.ranks("cat /in/note; touch /in/x 2>/dev/null || echo cannot; echo out >/out/y")
        mounted = (Volume("data", "/in", read_only=True), Volume("data", "/out"))
        world.start(replace(plain, work=replace(plain.work, volumes=mounted)))
        (rank,) = world.comes_to(RankState.OVER)
        assert (rank.cause, rank.exit_code) == (Cause.EXITED, 0), rank
        assert world.wrote() == "from the volume\ncannot\n"
        assert (folder / "y").read_text() == "out\n"
        assert not (folder / "x").exists()

        folder.chmod(0o700)
        denied = replace(plain, key=SetKey("2.1"), work=replace(plain.work, volumes=mounted))
        world.start(denied)
        rank = world.end("2.1")
        assert (rank.cause, rank.exit_code) == (Cause.SETUP, None)
        assert rank.why == "the volume at `/in` is not there as it was asked for"
    finally:
        world.kubectl("delete", "persistentvolumeclaim", "data", "--wait=false")
        world.cluster.kubectl("delete", "persistentvolume", f"data-{world.namespace}", "--wait=false")
        shutil.rmtree(folder)


def test_what_a_runtime_takes_beside_a_rank_is_in_its_pod(world: World) -> None:
    """Plans count what the settings say of it, which is what the class says here."""
    name = f"heavy-{world.namespace}"
    overhead = {"cpu": "30m", "memory": "16Mi"}
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    world.cluster.apply({**made, "handler": "runc", "overhead": {"podFixed": overhead}})
    try:
        own = {"heavy": {"runtime_class": name, "cpus": "0.03", "memory": "16MiB"}}
        world.again(runtimes=own)
        world.start(replace(world.ranks("echo ran"), runtime="heavy"))
        (rank,) = world.comes_to(RankState.OVER)
        assert (rank.cause, rank.exit_code) == (Cause.EXITED, 0), rank
        spec = json.loads(world.kubectl("get", "pod", "gp-1-1-0", "-o", "json"))["spec"]
        assert (spec["runtimeClassName"], spec["overhead"]) == (name, overhead)
    finally:
        world.cluster.kubectl("delete", "runtimeclass", name, "--ignore-not-found")


@contextmanager
def with_parts(cluster: Cluster) -> Iterator[None]:
    """The node has parts of a GPU, as a device plug-in would count them."""

    def patched(operation: str, **more: str) -> None:
        path = PART.replace("/", "~1")
        rows = [
            {"op": operation, "path": f"/status/{of}/{path}", **more} for of in ("capacity", "allocatable")
        ]
        words = ("patch", "node", NODE, "--subresource=status", "--type=json", "-p", json.dumps(rows))
        cluster.kubectl(*words).must("the node was not changed")

    patched("add", value=str(PARTS))
    try:
        yield
    finally:
        patched("remove")


def test_shares_of_a_gpu_are_counted_in_parts_by_the_cluster_itself(world: World) -> None:
    """Three quarters and a half of one GPU do not run together; a quarter still does."""
    with with_parts(world.cluster):
        world.again(gpu_share={"resource": PART, "parts": PARTS}, refused_after="2s")
        world.start(replace(world.ranks("sleep 600"), gpu_milli=700))
        world.comes_to(RankState.RUNNING)
        asked = json.loads(world.kubectl("get", "pod", "gp-1-1-0", "-o", "json"))["spec"]["containers"][0]
        assert asked["resources"]["limits"][PART] == "3"
        for key, share in (("2.1", 500), ("3.1", 250)):
            assert isinstance(
                world.door.start(replace(world.ranks("echo ran"), key=SetKey(key), gpu_milli=share)), Done
            )

        assert world.end("3.1").cause is Cause.EXITED
        refused = world.end("2.1")
        assert (refused.cause, f"Insufficient {PART}" in refused.why) == (Cause.REFUSED, True), refused
        world.door.stop(KEY)
        world.comes_to(RankState.OVER)


def parts_of(container: str) -> tuple[set[int], set[int]]:
    """The processes of a container, and the shim that keeps it."""
    inside: set[int] = set()
    shims: set[int] = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if container in (entry / "cgroup").read_text():
                inside.add(int(entry.name))
    for pid in inside:
        with suppress(OSError, ValueError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if b"containerd-shim" in Path(f"/proc/{parent}/cmdline").read_bytes():
                shims.add(parent)
    return inside, shims


def test_a_node_that_goes_down_and_comes_back_under_a_job_is_told_so(world: World) -> None:
    """All that a restart of a machine ends is ended; the cluster has not heard of it when it is back."""
    world.start(world.ranks("echo begun; sleep 600"))
    world.comes_to(RankState.RUNNING)
    until("it is written", lambda: world.says("begun"))
    status = json.loads(world.kubectl("get", "pod", "gp-1-1-0", "-o", "json"))["status"]
    inside, shims = parts_of(status["containerStatuses"][0]["containerID"].removeprefix("containerd://"))
    assert inside
    assert shims
    for server in ("kubelet", "containerd"):
        world.cluster.kill(server)
    try:
        for pid in (*shims, *inside):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        for server in ("containerd", "kubelet"):
            world.cluster.restart(server)
    (rank,) = world.comes_to(RankState.OVER)
    assert (rank.cause, rank.exit_code, rank.signal) == (Cause.RESTARTED, None, None), rank
    assert rank.why == "its node went down and came back"
    assert world.wrote() == "begun\n"
    until("the node is ready", lambda: NODE in world.cluster.ready_nodes())


def test_a_log_that_the_kubelet_turns_over_is_kept_whole_or_says_where_it_is_not(world: World) -> None:
    """Four times what a kubelet keeps in one file, by lines that say which they are, then without a line."""
    line = "0123456789" * 99
    script = (
        f"n=0; while [ $n -lt 24 ]; do n=$((n + 1)); yes '{line}' | head -n 2000; echo done $n; sleep 1; "
        "done; "
        "head -c 3000000 /dev/zero; printf '\\377\\376'"
    )
    world.start(replace(world.ranks(script), size=Resources(400, 64)))
    (rank,) = world.comes_to(RankState.OVER)
    assert (rank.cause, rank.exit_code) == (Cause.EXITED, 0), rank
    folder = world.home / "jobs" / "1" / "1" / "0"
    kept = b"".join(file.read_bytes() for file in sorted(folder.glob("stdout*")))
    assert kept.endswith(b"\0" * 100 + b"\xff\xfe")
    done = [int(row.split()[1]) for row in kept.split(b"\n") if row.startswith(b"done ")]
    assert done == sorted(set(done)), "nothing is kept twice, or out of order"
    assert done == list(range(1, 25)) or b"[glidepath: the node has thrown away older parts" in kept
