"""A whole glidepath with a real cluster behind it: a configuration, a home, and the program.

The program is a process of its own that can be stopped, killed and started again. Verbs run in the process of
the test, with words and streams as a shell would give them: a process for each look would cost more than all
that is looked at.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bed.parts.kube_config import API_PORT, NODE
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster

from cluster_real.jobs_world import account, removed
from glidepath.cli.main import main
from glidepath.cli.verb import Caller
from kube.real import until

# A machine that runs three lanes of tests may take minutes for what takes a second alone.
LONG_S = 300
COMMAND_S_MAX = 120
LOG_LETTERS = 4000
ON_THE_REAL_NODE = f'nodes_of = [{{ key = "kubernetes.io/hostname", any_of = ["{NODE}"] }}]'


def cluster_text(name: str, config: Path, *, more: str = "", part: str = "") -> str:
    """A cluster and the partition of its name, and what is said of both beside."""
    return f"""
[clusters.{name}]
kind = "kubernetes"
cycle_max = "2s"

[clusters.{name}.kubernetes]
kubeconfig = "{config}"
image = "{TINY}"
pull_policy = "Never"
changes_per_second = 0
{more}

[partitions.{name}]
cluster = "{name}"
limit_default = "10m"
{part}
"""


class House:
    """One glidepath in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, port: int = 0) -> None:
        """`port` is that of whatever stands between it and its apiserver."""
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.account = account(cluster, namespace)
        if port:
            direct = f"https://{cluster.node_address}:{API_PORT}"
            text = self.account.read_text()
            assert direct in text
            self.account.write_text(text.replace(direct, f"https://127.0.0.1:{port}"))
        self.environ = {
            **os.environ,
            "GLIDEPATH_HOME": str(folder / "home"),
            "GLIDEPATH_CONFIG": str(folder / "glidepath.toml"),
            # A handful of jobs is planned sooner than the machine code for it is made.
            "NUMBA_DISABLE_JIT": "1",
        }
        self.running: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def configure(self, text: str) -> None:
        (self.folder / "glidepath.toml").write_text(text)

    # The program.

    def up(self) -> None:
        with (self.folder / "up.log").open("ab") as log:
            words = [sys.executable, "-m", "glidepath", "up", "--plain"]
            self.running = subprocess.Popen(words, env=self.environ, stdout=log, stderr=log)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def down(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.running is None:
            return
        self.running.send_signal(number)
        try:
            self.running.wait(timeout=COMMAND_S_MAX)
        finally:
            self.running.kill()
            self.running.wait()
            self.running = None

    def log(self) -> str:
        path = self.folder / "up.log"
        return path.read_text(errors="replace")[-LOG_LETTERS:] if path.exists() else ""

    # People.

    def told(self, *words: str) -> tuple[int, str, str]:
        """What a verb ends with, and both its streams."""
        out, err = io.StringIO(), io.StringIO()
        caller = Caller(out, err, self.environ, time.sleep, time.time)
        code = int(main(list(words), caller=caller))
        return code, out.getvalue(), err.getvalue()

    def says(self, *words: str) -> str:
        code, out, err = self.told(*words)
        assert code == 0, f"{words} ended with {code}: {out}{err}\n{self.log()}"
        return out

    def refuses(self, *words: str) -> str:
        code, out, err = self.told(*words)
        assert code == 1, f"{words} ended with {code}: {out}{err}\n{self.log()}"
        return err

    def submit(self, partition: str, *words: str, script: str) -> int:
        size = () if "--cpus" in words else ("--cpus", "0.05")
        given = ("--partition", partition, *size, "--mem", "32MiB", *words)
        return int(self.says("job", "submit", *given, "--", "/bin/sh", "-c", script).split()[-1])

    def item(self, *words: str) -> dict[str, Any]:
        (found,) = json.loads(self.says(*words, "-o", "json"))["items"]
        return dict(found)

    def job(self, number: int) -> dict[str, Any]:
        return self.item("job", "show", str(number))

    def comes_to(self, number: int, *states: str) -> dict[str, Any]:
        self.until(f"job {number} is {states}", lambda: self.job(number)["state"] in states)
        return self.job(number)

    def until(self, what: str, met: Callable[[], bool]) -> None:
        try:
            until(what, met, wait_s=LONG_S)
        except AssertionError:
            shown = self.told("job", "list", "--all", "-o", "json")[1]
            raise AssertionError(f"{what}\n{shown}\n{self.log()}") from None

    def events(self, number: int, kind: str) -> list[str]:
        return [each["text"] for each in self.job(number)["events"] if each["kind"] == kind]

    def ranks(self, number: int, attempt: int = 1) -> list[tuple[str, str]]:
        """State and cause of each."""
        rows = self.job(number)["rank_list"]
        return [(each["state"], each["cause"]) for each in rows if each["attempt"] == attempt]

    def logged(self, number: int, *words: str) -> str:
        """What a rank wrote; nothing where there is nothing yet."""
        return self.told("job", "logs", str(number), *words)[1]

    def cancelled(self, *numbers: int) -> None:
        self.says("job", "cancel", *map(str, numbers))
        for number in numbers:
            self.comes_to(number, "cancelled", "done", "failed")

    # The cluster behind it.

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", self.namespace).must("kubectl").out

    def objects(self) -> list[str]:
        """What there is of jobs."""
        names = self.kubectl("get", "pods,services,secrets", "-o", "name").split()
        return sorted(name for name in names if "/gp-" in name)

    def pod(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self.kubectl("get", "pod", name, "-o", "json")))

    def evict(self, pod: str) -> None:
        """As `kubectl drain` does it."""
        about = {"name": pod, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.cluster.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(body)).must("the eviction")


@contextmanager
def house(cluster: Cluster, namespace: str, folder: Path, *, port: int = 0) -> Iterator[House]:
    made = House(cluster, namespace, folder, port)
    try:
        yield made
    finally:
        made.down()
        removed(cluster, namespace)
