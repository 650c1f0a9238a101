"""Sites on the real cluster of the bed: a namespace of their own, the rights that are shipped, an image.

The image has a stand-in for the pilot, a few lines of shell that keep to what a pod of ours can count on:
its arguments, the word to drain, its last words. Real pilots are in `test_real_pods.py`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed.parts.kube_config import API_PORT
from bed.parts.kubernetes import Cluster

from glidepath.backends.kubernetes import backend as kubernetes
from glidepath.config.checks import own_values
from glidepath.core.quantity import SiteName
from glidepath.kube.backend import KubernetesBackend
from glidepath.kube.checkup import NEEDED
from glidepath.ports import Place

IMAGE = "bed.invalid/stand-in:1"
WAIT_S_MAX = 240
POLL_S = 0.2
PILOT = """\
#!/bin/sh
echo "pilot $*"
trap 'echo stopped; exit 0' TERM
while [ ! -s /etc/glidepath/told/drain ]; do sleep 0.1; done
echo '{"why": "drained", "ok": true, "jobs_run": 2}' > /dev/termination-log
"""
_brought: set[Path] = set()
_lock = threading.Lock()


class Relay:
    """Between a backend and its apiserver, whose certificate holds for this machine too: a cable to cut."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.port = 0
        self.mend()

    def mend(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:  # Until the listener is closed.
                near, _ = listener.accept()
                far = socket.create_connection(self._to)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        self._open.add(one)
        with contextlib.suppress(OSError):
            while part := one.recv(1 << 16):
                other.sendall(part)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        self._open.discard(one)
        one.close()


def bring_image(cluster: Cluster, folder: Path) -> None:
    """Once for each cluster."""
    with _lock:
        if cluster.folder in _brought:
            return
        tree = folder / "image"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin/sh").write_bytes((cluster.layout.tree / "bin/busybox").read_bytes())
        (tree / "bin/sh").chmod(0o755)
        for name in ("sleep", "echo"):
            (tree / "bin" / name).symlink_to("sh")
        (tree / "bin/pilot").write_text(PILOT)
        (tree / "bin/pilot").chmod(0o755)
        for name in ("tmp", "work", "etc/glidepath", "dev", "proc", "sys"):
            (tree / name).mkdir(parents=True)
        cluster.import_image(tree, IMAGE, entry=["/bin/pilot"])
        _brought.add(cluster.folder)


def rules() -> list[Mapping[str, Any]]:
    """As the shipped Role grants them."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in NEEDED:
        verbs.setdefault(f"{resource}/{part}" if part else resource, []).append(verb)
    granted = [
        {"apiGroups": [""], "resources": [name], "verbs": list(found)} for name, found in verbs.items()
    ]
    return [*granted, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]


def site(
    cluster: Cluster, namespace: str, name: str = "pods", *, relay: Relay | None = None, **own: object
) -> KubernetesBackend:
    """A backend with the rights of the shipped Role in that namespace, and nothing else."""
    config = cluster.service_account("glidepath", namespace=namespace, rules=rules())
    if relay is not None:
        direct = f"https://{cluster.node_address}:{API_PORT}"
        text = config.read_text()
        assert direct in text
        config.write_text(text.replace(direct, f"https://127.0.0.1:{relay.port}"))
    table = {"kubeconfig": str(config), "image": IMAGE, "pull_policy": "Never", **own}
    made = kubernetes(SiteName(name), own_values(kubernetes, table), Place(Path("/"), ""))
    assert isinstance(made, KubernetesBackend)
    return made


def until(what: str, met: Callable[[], bool], *, wait_s: float = WAIT_S_MAX) -> None:
    deadline = time.monotonic() + wait_s
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)
