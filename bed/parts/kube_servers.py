"""The servers of one cluster: an instance comes in, their processes and logs go out.

Each is started, waited for, stopped for a while, killed and started again by its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bed import versions
from bed.cache import Say
from bed.command import Ended, run
from bed.leaks import every_pid, read, tag
from bed.namespace import first_inside, space_of
from bed.parts import kube_build, kube_config
from bed.parts.kube_config import SERVERS, Layout
from bed.parts.kube_health import answers
from bed.parts.kube_space import Net, entering
from bed.place import Instance
from bed.running import State, began, send, start, state_of
from bed.trouble import Trouble

UP_S_MAX = 120
TOOL_S_MAX = 60
POLL_S = 0.1
ABOUT = "cluster.json"


class Servers:
    """What one cluster consists of; `Cluster` is what is done with it."""

    def __init__(self, instance: Instance, say: Say) -> None:
        self.instance = instance
        self.table = versions.section(instance.part)
        self.folder = instance.folder
        self.say = say
        # What this object started, by server: whoever starts a program has to take note of its end.
        self._children: dict[str, int] = {}

    # What it is.

    @property
    def state(self) -> State:
        state = state_of(self.instance)
        if not state or not state.alive():
            raise Trouble(f"`{self.instance.name}` is not up")
        return state

    @property
    def layout(self) -> Layout:
        return self._layout(Net(int(self._about()["block"])))

    @property
    def node_address(self) -> str:
        """Where the node and the API server are, for the machine and for pods."""
        return self.layout.net.node

    @property
    def host_address(self) -> str:
        """The machine's own address on the cable: a server that listens here is reached by pods."""
        return self.layout.net.host

    @property
    def kubeconfig(self) -> Path:
        """For the administrator; everything is in the one file."""
        return self.folder / "kubeconfig"

    @property
    def logs(self) -> Path:
        """The folder with one log for each server, and `pods` with those of containers."""
        return self.folder / "log"

    def log(self, server: str) -> str:
        path = self.logs / known(server)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def _layout(self, net: Net) -> Layout:
        place, table = self.instance.place, self.table
        folder = {name: kube_build.piece(place, name, table) for name in kube_build.PIECES}
        return Layout(
            folder=self.folder,
            etcd=folder["etcd"] / "tree/usr/bin/etcd",
            tree=folder["node"] / "tree",
            kube=folder["servers"] / "kube",
            kwok=folder["kwok"] / "kwok",
            net=net,
            group=tag(self.folder),
        )

    def _about(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / ABOUT).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise Trouble(f"`{self.instance.name}` is not up: {error}") from error

    # Starting and waiting.

    def _launch(self, server: str) -> None:
        layout = self.layout
        words = [*kube_config.words(layout, server), *self._about()["extra"].get(server, [])]
        inside = entering(first_inside(self.state), *words)
        environ = self._environ()
        self._children[server] = start(inside, self.instance, environ=environ, output=self.logs / server)

    def _environ(self) -> dict[str, str]:
        home = str(self.folder / "home")
        return {"PATH": self.layout.path, "LC_ALL": "C.UTF-8", "HOME": home, "TMPDIR": home}

    def _reap(self) -> None:
        for pid in self._children.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _inside(self, *words: str, limit_s: float = TOOL_S_MAX) -> Ended:
        """Runs a program beside the servers."""
        entered = entering(first_inside(self.state), *words)
        done = run(entered, environ=self._environ(), limit_s=limit_s)
        return Ended(words, done.code, done.out, done.err)

    def _wait(self, done: Callable[[], bool], otherwise: str, *, s_max: float = UP_S_MAX) -> None:
        until = time.monotonic() + s_max
        while not done():
            state = state_of(self.instance)
            if not state or not state.alive():
                raise Trouble(f"`{self.instance.name}`: its first program has ended")
            if time.monotonic() > until:
                raise Trouble(f"`{self.instance.name}` {otherwise}")
            time.sleep(POLL_S)

    def _wait_for(self, server: str) -> None:
        def done() -> bool:
            self._reap()
            if server in self._children and not began(self._children[server]):
                raise Trouble(f"`{self.instance.name}`: its {server} has ended")
            return bool(self.processes(server)) and self._answers(server)

        self._wait(done, f"has a {server} that does not answer in {UP_S_MAX} s")

    def _answers(self, server: str) -> bool:
        if server == "containerd":
            return self._inside("ctr", "version").code == 0
        if server == "etcd" and not self.processes("apiserver"):
            return True  # It answers nobody else.
        return answers(self.layout.net.node, self.layout.keys / "ca.crt", server)

    # Hurting it.

    def processes(self, server: str) -> list[int]:
        """The processes of one server, by its command; containers and shims are not among them."""
        wanted = [word.encode() for word in kube_config.words(self.layout, known(server))[:2]]
        space = space_of(first_inside(self.state))
        return [
            pid
            for pid in every_pid()
            if space_of(pid) == space and read(pid, "cmdline").split(b"\0")[:2] == wanted
        ]

    def kill(self, server: str) -> None:
        """Ends it without a word; it stays dead until `restart`."""
        self._send(server, signal.SIGKILL)
        self._wait(lambda: not self.processes(server), f"still has a {server} after it was killed")
        self._reap()

    def pause(self, server: str) -> None:
        """It accepts and never answers, until `resume`."""
        self._send(server, signal.SIGSTOP)

    def resume(self, server: str) -> None:
        self._send(server, signal.SIGCONT)

    def restart(self, server: str) -> None:
        """Starts it anew, killed or not, and waits until it answers."""
        if self.processes(server):
            self.kill(server)
        self._launch(server)
        self._wait_for(server)

    def _send(self, server: str, number: signal.Signals) -> None:
        found = self.processes(server)
        if not found:
            raise Trouble(f"`{self.instance.name}` has no {server} that runs")
        for pid in found:
            send(pid, number)


def known(server: str) -> str:
    if server not in SERVERS:
        raise Trouble(f"there is no server `{server}`; there are {', '.join(SERVERS)}")
    return server
