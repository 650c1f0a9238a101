"""What the bed decides about Kubernetes without starting a server: machines, pieces, images, names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from bed.machine import Machine
from bed.parts import kube_build, kube_fake, kube_image, kube_space
from bed.parts.kube_access import bound
from bed.parts.kubernetes import Cluster, Kubernetes
from bed.place import Instance, Place
from bed.trouble import Trouble

from bed import golang, leaks

WAIT_S_MAX = 120
HOST = Machine(
    uid=0,
    system="debian",
    codename="bookworm",
    architecture="x86_64",
    tools=frozenset({"apt-get", "dpkg-deb", "go", "ip", "nsenter", "openssl", "setpriv", "unshare"}),
    namespaces=True,
    mirror="http://mirror.example/debian",
    go=(1, 26),
    control_groups=frozenset({"cpu", "cpuacct", "cpuset", "memory", "pids", "systemd"}),
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(cache=tmp_path / "cache", run=Path(f"/tmp/gp-rules-{os.getpid()}"))


# What a machine can host.


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"uid": 1000}, ["not root"]),
        ({"architecture": "aarch64"}, ["this is aarch64"]),
        ({"namespaces": False}, ["forbids private mount"]),
        ({"control_groups": frozenset()}, ["no control groups of version 1"]),
        ({"control_groups": HOST.control_groups - {"pids"}}, ["written for pids ("]),
        ({"go": ()}, ["no `go`"]),
        ({"go": (1, 19)}, ["Go 1.19, and it is built"]),
        ({"system": "fedora"}, ["not Debian but `fedora`"]),
        ({"mirror": ""}, ["no apt source of `bookworm`"]),
        ({"tools": HOST.tools - {"unshare"}}, ["`unshare`"]),
        ({"tools": HOST.tools - {"dpkg-deb"}}, ["no packages can be had"]),
        ({"tools": HOST.tools - {"ip", "openssl"}}, []),
        ({"uid": 1000, "go": ()}, ["not root", "no `go`"]),
    ],
)
def test_a_machine_that_cannot_host_kubernetes_says_why(
    facts: dict[str, object], expected: list[str], place: Place
) -> None:
    reasons = Kubernetes().obstacles(dataclasses.replace(HOST, **facts), place)  # type: ignore[arg-type]  # A table of any words.
    assert len(reasons) == len(expected), reasons
    assert all(part in reason for part, reason in zip(expected, reasons, strict=True))


def test_what_is_cached_needs_no_go_but_the_tools_of_a_start(place: Place) -> None:
    part = Kubernetes()
    for name in kube_build.PIECES:
        assert not part.prepared(place)
        kube_build.piece(place, name, part.table).mkdir(parents=True)
    assert part.obstacles(dataclasses.replace(HOST, go=(), system="fedora"), place) == []
    bare = dataclasses.replace(HOST, tools=HOST.tools - {"ip"})
    assert part.obstacles(bare, place) == ["no `ip` (package iproute2)"]


def test_each_piece_is_built_anew_only_when_its_own_versions_change(place: Place) -> None:
    table = Kubernetes().table
    changed = {**table, "kwok": {"version": "v9"}}
    same = [
        kube_build.piece(place, n, table) == kube_build.piece(place, n, changed) for n in kube_build.PIECES
    ]
    assert dict(zip(kube_build.PIECES, same, strict=True)) == {
        "etcd": True,
        "node": True,
        "servers": True,
        "kwok": False,
    }


def test_a_folder_that_the_cluster_would_not_see_is_refused(place: Place) -> None:
    kube_space.refuse_hidden(place)
    with pytest.raises(Trouble, match="cannot see `/var/lib/bed`"):
        kube_space.refuse_hidden(dataclasses.replace(place, cache=Path("/var/lib/bed")))


@pytest.mark.parametrize(
    ("words", "told"), [({"nodes": 2}, "one or none"), ({"extra": {"x": []}}, "no server `x`")]
)
def test_what_a_cluster_cannot_be_is_refused(words: dict[str, object], told: str, place: Place) -> None:
    with pytest.raises(Trouble, match=told):
        Cluster(place=place).up(**words)  # type: ignore[arg-type]  # A table of any words.
    with pytest.raises(Trouble, match="is not a cluster"):
        Cluster("condor", place=place)


# The long build.

BUILD = """
import sys, time
print("a/package", "no package at all", "b.c/other", sep="\\n", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""


def watched(code: int) -> int:
    words = [sys.executable, "-c", BUILD, str(code)]
    return golang.watched(words, environ=os.environ, folder=Path("/"), tell=print)


def test_a_build_tells_how_many_packages_it_compiled() -> None:
    assert watched(0) == 2


def test_a_build_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(Trouble, match=r"(?s)ended with 3: .*no package at all"):
        watched(3)


def test_a_recipe_of_another_version_is_refused() -> None:
    recipe = kube_build.RECIPES / "kwok"
    golang.must_name(recipe, "sigs.k8s.io/kwok", Kubernetes().table["kwok"]["version"])
    golang.must_name(
        kube_build.RECIPES / "kube", "k8s.io/kubernetes", Kubernetes().table["servers"]["version"]
    )
    with pytest.raises(Trouble, match=r"does not name sigs.k8s.io/kwok v0\.8;"):
        golang.must_name(recipe, "sigs.k8s.io/kwok", "v0.8")


# Images.


def test_the_program_of_a_pod_that_only_waits_waits(tmp_path: Path) -> None:
    kube_image.pause_tree(tmp_path / "tree")
    with subprocess.Popen([tmp_path / "tree/pause"]) as child:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.5)
        finally:
            child.kill()


@pytest.mark.parametrize("packed", ["folder", "tar", "gzip"])
def test_an_image_is_a_layer_with_its_checksum_and_a_name(tmp_path: Path, packed: str) -> None:
    tree = tmp_path / "tree"
    for name in ("etc", "proc", "dev"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/word").write_text("x")
    (tree / "proc/1").write_text("left out")
    source = tree
    if packed != "folder":
        source = tmp_path / "packed"
        with tarfile.open(source, "w:gz" if packed == "gzip" else "w") as made:
            made.add(tree / "etc", "etc")
    assert not kube_image.is_image(source)
    archive = tmp_path / "image.tar"
    kube_image.pack(source, archive, "bed.invalid/x:1", command=["/x"])
    assert kube_image.is_image(archive)
    with tarfile.open(archive) as opened:
        files = {m.name: f.read() for m in opened if (f := opened.extractfile(m))}
    [manifest] = json.loads(files["manifest.json"])
    config = json.loads(files[manifest["Config"]])
    [layer] = manifest["Layers"]
    assert manifest["RepoTags"] == ["bed.invalid/x:1"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(files[layer]).hexdigest()}"]
    assert config["config"]["Cmd"] == ["/x"]
    (tmp_path / "layer").write_bytes(files[layer])
    with tarfile.open(tmp_path / "layer") as opened:
        names = {name.removeprefix("./") for name in opened.getnames()}
    assert {"etc/word"} <= names
    assert "proc/1" not in names
    assert sorted(path.name for path in tmp_path.glob("image*")) == ["image.tar"]


# Names.


def test_what_is_left_is_told_for_one_place_and_not_for_another() -> None:
    one, other = Place(Path("/c"), Path("/tmp/one")), Place(Path("/c"), Path("/tmp/other"))
    names = [leaks.tag(Instance.named(name, one).folder) for name in ("kubernetes", "kubernetes@two")]
    assert all(len(name) <= 15 for name in names)  # As long as the kernel takes it for a device.
    assert leaks.of_place([*names, "eth0"], one, []) == sorted(names)
    assert leaks.of_place(names, one, [Path("/tmp/one/kubernetes")]) == names[1:]
    assert leaks.of_place(names, other, []) == []


def test_a_persons_name_becomes_the_name_of_a_role() -> None:
    subject = {"kind": "User", "name": "Ann O'Hara@example.org"}
    _, role, binding = bound(subject, "west", [])
    assert role["metadata"] == {"name": "user-ann-o-hara-example.org", "namespace": "west"}
    assert binding["subjects"] == [subject]


def test_stages_are_documents_that_say_how_long_a_pod_runs() -> None:
    stages = [json.loads(text) for text in kube_fake.stages_text(2.5).split("\n---\n")]
    delays = {
        one["metadata"]["name"]: one["spec"].get("delay", {}).get("durationMilliseconds") for one in stages
    }
    assert delays["pod-end"] == 2500
    assert {"node-initialize", "node-heartbeat", "pod-run", "pod-delete"} <= set(delays)
