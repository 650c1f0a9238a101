"""Kubernetes: a real control plane and one real node, with any number of nodes that are not there beside it.

A name comes in; an address, kubeconfigs for people and accounts with given rights, images and nodes go out.
All servers run in private mount, process and network namespaces: the machine sees one network device, and
ending their first process ends them, their containers, mounts and networks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bed import golang, lifecycle, versions
from bed.cache import Say, locked, silent
from bed.command import Ended, alone, namespaces, run
from bed.machine import Machine
from bed.namespace import first_inside
from bed.parts import kube_build, kube_config, kube_fake, kube_image, kube_keys, kube_space
from bed.parts.kube_access import bound, service_account_token
from bed.parts.kube_config import CLIENTS, NODE
from bed.parts.kube_servers import ABOUT, TOOL_S_MAX, UP_S_MAX, Servers, known
from bed.place import Instance, Place
from bed.running import State, began, end, remember, start, state_of
from bed.trouble import Trouble

ARCHITECTURE = "x86_64"
GO_MIN = (1, 26)
HIERARCHIES = frozenset({"cpu", "cpuacct", "cpuset", "memory", "pids"})
INSIDE_S_MAX = 20
IMPORT_S_MAX = 300
# A fake node needs some milliseconds; a thousand on a busy machine must fit.
FAKE_S_MAX = 180
IMAGE_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}:[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
FAKE_RESOURCES = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "1Ti", "pods": "110"}


class Kubernetes:
    """The part of the bed; `Cluster` is one instance of it."""

    name = "kubernetes"

    def __init__(self) -> None:
        self.table = versions.section(self.name)

    def prepared(self, place: Place) -> bool:
        return kube_build.prepared(place, self.table)

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        reasons = []
        if machine.uid != 0:
            reasons.append("not root, and only root may make network namespaces and run containers")
        if machine.architecture != ARCHITECTURE:
            reasons.append(f"the pinned packages are for {ARCHITECTURE}, this is {machine.architecture}")
        missing = sorted({"unshare", "nsenter", "setpriv"} - machine.tools)
        if missing:
            reasons.append(f"no {', '.join(f'`{tool}`' for tool in missing)} (package util-linux)")
        elif machine.uid == 0 and not machine.namespaces:
            reasons.append("the kernel or a container forbids private mount and PID namespaces")
        if absent := sorted(HIERARCHIES - machine.control_groups):
            reasons.append(
                f"no control groups of version 1 that can be written for {', '.join(absent)} (below "
                "/sys/fs/cgroup), and the bed has not been tried with those of version 2"
            )
        if not self.prepared(place):
            return [*reasons, *obstacles_to_build(machine)]
        wanted = kube_build.TOOLS
        return [*reasons, *(f"no `{t}` (package {wanted[t]})" for t in wanted if t not in machine.tools)]

    def lacking(self, place: Place) -> list[str]:
        return []

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        kube_build.build(self.table, machine, place, say)

    def up(self, instance: Instance, say: Say, port: int) -> State:
        if port:
            raise Trouble("`kubernetes` has an address of its own; leave the port out")
        return Cluster(instance.name, place=instance.place, say=say).up()

    def down(self, instance: Instance) -> None:
        state = state_of(instance)
        if state and state.alive():
            end(state, softly=[], number=signal.SIGKILL, soft_s_max=0)
        kube_space.disconnect(instance)
        kube_space.remove_groups(instance)


def obstacles_to_build(machine: Machine) -> list[str]:
    reasons = []
    if machine.system != "debian":
        reasons.append(
            f"not Debian but `{machine.system}`, and packages are taken from the machine's own apt sources"
        )
    elif not {"apt-get", "dpkg-deb"} <= machine.tools:
        reasons.append("no `apt-get` and `dpkg-deb`, so that no packages can be had")
    elif not machine.mirror:
        reasons.append(f"no apt source of `{machine.codename}` names a mirror that apt can read")
    return [*reasons, *golang.obstacles(machine, GO_MIN)]


class Cluster(Servers):
    """One cluster, by its name; any number of these objects may speak of the same one."""

    def __init__(self, name: str = "kubernetes", *, place: Place | None = None, say: Say = silent) -> None:
        self.part = Kubernetes()
        instance = Instance.named(name, place or Place.of(os.environ))
        if instance.part != self.part.name:
            raise Trouble(f"`{name}` is not a cluster; say `kubernetes` or `kubernetes@two`")
        super().__init__(instance, say)

    # Up and down.

    def up(
        self, *, nodes: int = 1, tied: bool = False, extra: Mapping[str, Sequence[str]] | None = None
    ) -> State:
        """Starts it where it is not up.

        `nodes` is 1, or 0 for a control plane alone; `tied`, it ends with us;
        `extra` has more words for the command lines of servers.
        """
        if nodes not in (0, 1):
            raise Trouble(f"{nodes} real nodes were asked for; there is one or none, more are `fake_nodes`")
        for server in extra or {}:
            known(server)
        more = {server: list(words) for server, words in (extra or {}).items()}
        return lifecycle.up(
            self.part, self.instance, self.say, lambda: self._begin(nodes, tied=tied, extra=more)
        )

    def down(self) -> None:
        lifecycle.down(self.part, self.instance, self.say)
        self._reap()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def _begin(self, nodes: int, *, tied: bool, extra: dict[str, list[str]]) -> State:
        kube_space.refuse_hidden(self.instance.place)
        for name in ("log", "config/cni", "keys", "images", "kubelet", "home"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "keys").chmod(0o700)
        locks = self.instance.place.cache / "locks"
        with locked(locks / "kubernetes-net", self.say, "an address for the cluster"):
            net = kube_space.free_net()
            self._write(ABOUT, json.dumps({"block": net.block, "nodes": nodes, "extra": extra}))
            state = self._start_first(tied=tied)
            kube_space.connect(self.instance, net, first_inside(state))
        self._furnish()
        if nodes:
            kube_space.make_groups(self.instance, Machine.here().control_groups)
        for server in ("etcd", "apiserver", *(["containerd"] if nodes else [])):
            self._launch(server)
        if nodes:
            self._bring_images()
        # Ready, it has made the roles of the others; without these they would end at once.
        self._wait_for("apiserver")
        others = ("controller-manager", "scheduler", *(["kubelet"] if nodes else []))
        for server in others:
            self._launch(server)
        for server in others:
            self._wait_for(server)
        if nodes:
            self._wait(self._node_is_ready, f"had no node that is ready in {UP_S_MAX} s")
        self._wait(self._accounts_are_made, f"made no service account in {UP_S_MAX} s")
        return state

    def _start_first(self, *, tied: bool) -> State:
        words = (alone if tied else namespaces)(*kube_space.first_words(self.instance))
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        pid = start(words, self.instance, environ=environ, output=self.logs / "first")
        layout = self.layout
        port = kube_config.API_PORT
        state = State(self.instance.name, pid, began(pid), layout.api, port, str(self.logs))
        remember(self.instance, state)
        self._wait((self.folder / kube_space.READY).exists, "made no namespaces", s_max=INSIDE_S_MAX)
        return state

    def _furnish(self) -> None:
        """Keys, configuration files and kubeconfigs."""
        layout = self.layout
        kube_keys.make_authority(layout.keys)
        for name, (user, groups) in CLIENTS.items():
            kube_keys.make_certificate(layout.keys, name, user=user, groups=groups)
        own = (f"IP:{layout.net.node}", "IP:127.0.0.1")
        named = ("DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc")
        for name, user, names in (
            ("apiserver", "kube-apiserver", (*own, *named)),
            ("kubelet-server", NODE, (*own, f"DNS:{NODE}")),
        ):
            kube_keys.make_certificate(layout.keys, name, user=user, names=names)
        for name, text in (
            ("containerd.toml", kube_config.containerd_text(layout)),
            ("kubelet.json", kube_config.kubelet_text(layout)),
            ("cni/10-pods.conflist", kube_config.network_text(layout)),
            ("resolv.conf", ""),
        ):
            self._write(f"config/{name}", text)
        for name in CLIENTS:
            shown = kube_config.certificate_user(layout, name)
            self._write(f"config/{name}.kubeconfig", kube_config.kubeconfig_text(layout, shown), mode=0o600)
        shutil.copy2(layout.kubeconfig("admin"), self.kubeconfig)
        tool = f'#!/bin/sh\nKUBECONFIG="${{KUBECONFIG:-{self.kubeconfig}}}" exec {layout.kube} kubectl "$@"'
        self._write("kubectl", tool, mode=0o755)

    def _write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.touch(mode=mode)
        path.chmod(mode)
        path.write_text(f"{text.rstrip()}\n", encoding="utf-8")
        return path

    def _node_is_ready(self) -> bool:
        ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        return self.kubectl("get", "node", NODE, "-o", ready).out == "True"

    def _accounts_are_made(self) -> bool:
        return self.kubectl("get", "serviceaccount", "default").code == 0

    # Using it.

    def kubectl(
        self,
        *words: str,
        given: str | None = None,
        kubeconfig: Path | None = None,
        timeout_s: float = TOOL_S_MAX,
    ) -> Ended:
        """Runs kubectl of the same version on the machine, as the administrator or by another kubeconfig."""
        environ = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder),
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "KUBECACHEDIR": str(self.folder / "kubectl-cache"),
        }
        done = run(
            [str(self.layout.kube), "kubectl", *words], environ=environ, limit_s=timeout_s, given=given
        )
        return Ended(("kubectl", *words), done.code, done.out, done.err)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Makes these objects, or makes those that are there be so."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "-f", "-", given=given).must("the objects were not taken")

    def service_account(
        self, name: str, *, namespace: str, rules: Sequence[Mapping[str, Any]], lifetime_s: int = 3600
    ) -> Path:
        """The kubeconfig of a service account that has just these rights in its namespace; both are made."""
        account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        there = {"name": name, "namespace": namespace}
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": there}
        first, *rest = bound(account, namespace, rules)
        self.apply(first, made, *rest)
        token = service_account_token(self.kubectl, name, namespace, lifetime_s)
        text = kube_config.kubeconfig_text(self.layout, {"token": token}, namespace=namespace)
        return self._write(f"config/account-{namespace}-{name}.kubeconfig", text, mode=0o600)

    def user(
        self, name: str, *, namespace: str, rules: Sequence[Mapping[str, Any]], groups: Sequence[str] = ()
    ) -> Path:
        """The kubeconfig of a person with a certificate, who has just these rights in one namespace."""
        subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        self.apply(*bound(subject, namespace, rules))
        file = f"user-{kube_config.file_name(name)}"
        kube_keys.make_certificate(self.layout.keys, file, user=name, groups=groups)
        shown = kube_config.certificate_user(self.layout, file)
        text = kube_config.kubeconfig_text(self.layout, shown, namespace=namespace)
        return self._write(f"config/{file}.kubeconfig", text, mode=0o600)

    # Images.

    def _bring_images(self) -> None:
        self._wait_for("containerd")
        trees = self.folder / "images"
        kube_image.pause_tree(trees / "pause")
        self.import_image(trees / "pause", kube_image.PAUSE, command=["/pause"])
        kube_image.tiny_tree(trees / "tiny", self.layout.tree / "bin/busybox")
        self.import_image(trees / "tiny", kube_image.TINY, command=["/bin/sh"])
        shutil.rmtree(trees / "pause")
        shutil.rmtree(trees / "tiny")

    def import_image(
        self, source: Path, name: str, *, command: Sequence[str] = (), entry: Sequence[str] = ()
    ) -> None:
        """Gives the node an image: of a root file system (a folder or a tar of one), or an archive as it is.

        Arguments of a pod replace `command` and come after `entry`.

        Pods name it with `imagePullPolicy: Never` or `IfNotPresent`; there is nowhere to pull it from.
        """
        if not IMAGE_NAME.fullmatch(name):
            raise Trouble(f"`{name}` is no name of an image; say one such as `bed.invalid/pilot:1`")
        ready_made = kube_image.is_image(source)
        archive = self.folder / "images" / "importing.tar"
        try:
            if ready_made:
                shutil.copyfile(source, archive)
            else:
                kube_image.pack(source, archive, name, command=command, entry=entry)
            words = ["ctr", "--namespace", "k8s.io", "images", "import", "--no-unpack=false", str(archive)]
            self._inside(*words, limit_s=IMPORT_S_MAX).must(f"the image `{name}` was not taken")
        finally:
            archive.unlink(missing_ok=True)
        shown = self._inside("ctr", "--namespace", "k8s.io", "images", "list", "-q").out.split()
        if name not in shown and f"docker.io/{name}" not in shown:
            raise Trouble(f"`{source}` brought no image `{name}`; there are {', '.join(sorted(shown))}")

    # Nodes that are not there.

    def fake_nodes(
        self,
        count: int,
        *,
        run_s: float = 1.0,
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        prefix: str = "fake",
    ) -> None:
        """So many nodes, all of them ready; pods on them that may end do so after `run_s`."""
        stages, text = self.layout.config("kwok.yaml"), kube_fake.stages_text(run_s)
        if not self.processes("kwok") or stages.read_text(encoding="utf-8") != text:
            self._write("config/kwok.yaml", text)
            self.restart("kwok")
        wanted = {**FAKE_RESOURCES, **(resources or {})}
        nodes = [
            kube_fake.node(f"{prefix}-{number}", resources=wanted, labels=labels or {}, taints=taints)
            for number in range(count)
        ]
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
        made = self.kubectl("create", "-f", "-", given=given, timeout_s=FAKE_S_MAX)
        made.must(f"{count} nodes were not made")
        names = {node["metadata"]["name"] for node in nodes}
        self._wait(
            lambda: names <= self.ready_nodes(),
            f"has nodes that are not ready in {FAKE_S_MAX} s",
            s_max=FAKE_S_MAX,
        )

    def drop_fake_nodes(self) -> None:
        """Takes all of them away in one request; their pods go with them after a while."""
        asked = f"/api/v1/nodes?labelSelector={kube_fake.LABEL}%3Dtrue"
        self.kubectl("delete", "--raw", asked).must("the fake nodes were not taken away")

    def ready_nodes(self) -> set[str]:
        shown = self.kubectl("get", "nodes", "-o", "json").must("the nodes could not be listed").out
        return {
            node["metadata"]["name"]
            for node in json.loads(shown)["items"]
            for condition in node.get("status", {}).get("conditions", [])
            if (condition["type"], condition["status"]) == ("Ready", "True")
        }
