"""What the servers of a cluster are told: folders and addresses come in, command lines and texts go out.

It starts nothing and writes nothing. Every setting that is not a server's own default says why it is here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.parts.kube_image import PAUSE
from bed.parts.kube_space import Net

NODE = "bed-node"
SERVICES = "10.198.0.0/24"
API_PORT = 6443
ISSUER = "https://kubernetes.default.svc"
# Who the servers are to each other; the groups and rights of these names are Kubernetes' own.
CLIENTS = {
    "admin": ("admin", ("system:masters",)),
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "kubelet": (f"system:node:{NODE}", ("system:nodes",)),
    "kwok": ("kwok", ("system:masters",)),
    "apiserver-client": ("kube-apiserver", ("system:masters",)),
}
SERVERS = ("etcd", "apiserver", "controller-manager", "scheduler", "containerd", "kubelet", "kwok")


@dataclass(frozen=True)
class Layout:
    """Where everything of one cluster is."""

    folder: Path
    etcd: Path
    tree: Path
    kube: Path
    kwok: Path
    net: Net
    group: str

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def api(self) -> str:
        return f"https://{self.net.node}:{API_PORT}"

    @property
    def path(self) -> str:
        """Where programs are looked for: containerd finds its shims by it, and the kubelet `mount`."""
        return f"{self.tree}/usr/bin:{self.tree}/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin"

    def config(self, name: str) -> Path:
        return self.folder / "config" / name

    def kubeconfig(self, name: str) -> Path:
        return self.folder / "config" / f"{name}.kubeconfig"


def words(layout: Layout, server: str) -> list[str]:
    """The command line of one server."""
    kube = str(layout.kube)
    match server:
        case "etcd":
            return [str(layout.etcd), *flags(etcd_flags(layout))]
        case "containerd":
            return [f"{layout.tree}/usr/bin/containerd", "--config", str(layout.config("containerd.toml"))]
        case "apiserver":
            return [kube, server, *flags(apiserver_flags(layout))]
        case "controller-manager":
            return [kube, server, *flags(controller_flags(layout))]
        case "scheduler":
            return [kube, server, *flags(scheduler_flags(layout))]
        case "kubelet":
            return [kube, server, *flags(kubelet_flags(layout))]
        case "kwok":
            return [str(layout.kwok), *flags(kwok_flags(layout))]
        case _:
            raise AssertionError(server)


def flags(settings: dict[str, object]) -> list[str]:
    return [f"--{name}={str(v).lower() if isinstance(v, bool) else v}" for name, v in settings.items()]


def etcd_flags(layout: Layout) -> dict[str, object]:
    local, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return {
        "data-dir": layout.folder / "etcd",
        # Local inside: nobody but the API server is to read what it keeps, a pod least of all.
        "listen-client-urls": local,
        "advertise-client-urls": local,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
        # Nothing of a test must survive a power cut.
        "unsafe-no-fsync": True,
        "logger": "zap",
        "log-level": "warn",
    }


def apiserver_flags(layout: Layout) -> dict[str, object]:
    keys = layout.keys
    return {
        "etcd-servers": "http://127.0.0.1:2379",
        "advertise-address": layout.net.node,
        "bind-address": layout.net.node,
        "secure-port": API_PORT,
        "service-cluster-ip-range": SERVICES,
        "authorization-mode": "Node,RBAC",
        "client-ca-file": keys / "ca.crt",
        "tls-cert-file": keys / "apiserver.crt",
        "tls-private-key-file": keys / "apiserver.key",
        "kubelet-certificate-authority": keys / "ca.crt",
        "kubelet-client-certificate": keys / "apiserver-client.crt",
        "kubelet-client-key": keys / "apiserver-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": ISSUER,
        "service-account-key-file": keys / "accounts.pub",
        "service-account-signing-key-file": keys / "accounts.key",
        "allow-privileged": True,
        "enable-admission-plugins": "NodeRestriction",
    }


def controller_flags(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": layout.kubeconfig("controller-manager"),
        "authentication-kubeconfig": layout.kubeconfig("controller-manager"),
        "authorization-kubeconfig": layout.kubeconfig("controller-manager"),
        "bind-address": layout.net.node,
        "cert-dir": layout.folder / "controller-manager",
        "service-account-private-key-file": layout.keys / "accounts.key",
        "root-ca-file": layout.keys / "ca.crt",
        "use-service-account-credentials": True,
        # The default is a folder of the machine, which it makes.
        "flex-volume-plugin-dir": layout.folder / "controller-manager/volume-plugins",
        # There is only one: it need not ask whether it may, and is back at once after a restart.
        "leader-elect": False,
    }


def scheduler_flags(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": layout.kubeconfig("scheduler"),
        "authentication-kubeconfig": layout.kubeconfig("scheduler"),
        "authorization-kubeconfig": layout.kubeconfig("scheduler"),
        "bind-address": layout.net.node,
        "cert-dir": layout.folder / "scheduler",
        "leader-elect": False,
    }


def kubelet_flags(layout: Layout) -> dict[str, object]:
    return {
        "config": layout.config("kubelet.json"),
        "kubeconfig": layout.kubeconfig("kubelet"),
        "root-dir": layout.folder / "kubelet",
        "cert-dir": layout.folder / "kubelet/pki",
        "hostname-override": NODE,
        "node-ip": layout.net.node,
    }


def kwok_flags(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": layout.kubeconfig("kwok"),
        "config": layout.config("kwok.yaml"),
        # The machine's one real node is its own kubelet's.
        "manage-all-nodes": False,
        "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
        "node-ip": layout.net.node,
        "server-address": f"{layout.net.node}:10247",
        "node-lease-duration-seconds": 40,
    }


# Files.


def kubelet_text(layout: Layout) -> str:
    settings: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.net.node,
        "healthzBindAddress": layout.net.node,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(layout.keys / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(layout.keys / "kubelet-server.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # No systemd is asked for anything, and all groups are below one that `down` takes away.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.group}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # The defaults are folders of the machine.
        "podLogsDir": str(layout.folder / "log/pods"),
        "volumePluginDir": str(layout.folder / "kubelet/volume-plugins"),
        "resolvConf": str(layout.config("resolv.conf")),
        # A full disk of the machine must not evict what a test runs, nor images that cannot be fetched again.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "oomScoreAdj": 0,
    }
    return json.dumps(settings, indent=1)


def containerd_text(layout: Layout) -> str:
    """The runtime, with one liberty less: a container may not have the right to lower its risk of a kill."""
    return f"""version = 2
root = "{layout.folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{layout.tree}/usr/lib/cni"
conf_dir = "{layout.config("cni")}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{layout.tree}/usr/sbin/runc"
SystemdCgroup = false
"""


def network_text(layout: Layout) -> str:
    """A bridge inside, routed and not translated: pods and the machine see each other's own addresses."""
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": layout.net.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}, indent=1)


def kubeconfig_text(layout: Layout, user: dict[str, str], *, namespace: str = "default") -> str:
    """For a client of the cluster, in JSON, which every reader of YAML reads; the file stands for itself."""
    cluster = {"server": layout.api, "certificate-authority-data": encoded(layout.keys / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": "bed", "user": user}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed", "namespace": namespace}}],
        "current-context": "bed",
    }
    return json.dumps(config, indent=1)


def certificate_user(layout: Layout, name: str) -> dict[str, str]:
    return {
        "client-certificate-data": encoded(layout.keys / f"{name}.crt"),
        "client-key-data": encoded(layout.keys / f"{name}.key"),
    }


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def file_name(user: str) -> str:
    """A user's name in letters that are safe in a file's, and still its own."""
    plain = "".join(c if c.isalnum() or c == "-" else "-" for c in user)
    return f"{plain[:40]}-{hashlib.sha256(user.encode()).hexdigest()[:8]}"
