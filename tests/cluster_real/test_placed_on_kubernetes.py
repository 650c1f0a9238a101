"""The whole of glidepath with a real cluster behind it: jobs submitted by the command, run, told back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left

from cluster_real.jobs_world import account, removed
from kube.real import until

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

_numbers = count()
LONG_S = 240
COMMAND_S_MAX = 120
SETTINGS = """\
[clusters.bed]
kind = "kubernetes"
cycle_max = "2s"

[clusters.bed.kubernetes]
kubeconfig = "{config}"
image = "{image}"
pull_policy = "Never"
changes_per_second = 0

[partitions.pods]
cluster = "bed"
limit_default = "10m"
"""


class Home:
    """One glidepath: a configuration, a home, and the program, which can be killed and started again."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        config = account(cluster, namespace)
        (folder / "glidepath.toml").write_text(SETTINGS.format(config=config, image=TINY))
        self.environ = {
            **os.environ,
            "GLIDEPATH_HOME": str(folder / "home"),
            "GLIDEPATH_CONFIG": str(folder / "glidepath.toml"),
            # A handful of jobs is planned sooner than the machine code for it is made.
            "NUMBA_DISABLE_JIT": "1",
        }
        self.running: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        with (self.folder / "up.log").open("ab") as log:
            words = [sys.executable, "-m", "glidepath", "up", "--plain"]
            self.running = subprocess.Popen(words, env=self.environ, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.running is not None
        self.running.send_signal(signal.SIGKILL)
        self.running.wait(timeout=COMMAND_S_MAX)

    def down(self) -> None:
        if self.running is not None and self.running.poll() is None:
            self.running.terminate()
            try:
                self.running.wait(timeout=COMMAND_S_MAX)
            except subprocess.TimeoutExpired:
                self.running.kill()
                self.running.wait(timeout=COMMAND_S_MAX)

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "glidepath", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout

    def log(self) -> str:
        path = self.folder / "up.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def job(self, number: int) -> dict[str, Any]:
        shown = json.loads(self.run("job", "show", str(number), "-o", "json"))
        return dict(shown["items"][0] if "items" in shown else shown)

    def comes_to(self, number: int, *states: str) -> dict[str, Any]:
        until(
            f"job {number} is {states}: {self.job(number)} {self.log()}",
            lambda: self.job(number)["state"] in states,
            wait_s=LONG_S,
        )
        return self.job(number)

    def logged(self, number: int, word: str) -> bool:
        done = subprocess.run(
            [sys.executable, "-m", "glidepath", "job", "logs", str(number)],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return word in done.stdout


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    cluster = kube_cluster(request.config)
    made = Home(cluster, f"whole-{next(_numbers)}", tmp_path)
    made.up()
    yield made
    made.down()
    removed(cluster, made.namespace)


def test_a_job_is_promised_runs_in_a_pod_and_leaves_its_log(home: Home) -> None:
    told = home.run(
        *("job", "submit", "--queue", "interactive", "--cpus", "0.1", "--mem", "64MiB", "--time", "5m"),
        *("--", "/bin/sh", "-c", "echo from $GLIDEPATH_NODE; exit 3"),
    )
    assert "bed-node" in told or "1" in told
    job = home.comes_to(1, "failed", "done")
    assert (job["state"], job["exit_code"]) == ("failed", 3)
    assert home.logged(1, "from bed-node")
    nothing = ("get", "pods,services", "--namespace", home.namespace, "-o", "name")
    until("its pod is cleared", lambda: "gp-" not in home.cluster.kubectl(*nothing).out, wait_s=LONG_S)
    assert home.logged(1, "from bed-node")


def test_a_job_goes_on_while_glidepath_is_killed_and_is_told_of_afterwards(home: Home) -> None:
    home.run(
        *("job", "submit", "--queue", "interactive", "--cpus", "0.1", "--mem", "64MiB", "--time", "10m"),
        *("--", "/bin/sh", "-c", "echo begun; sleep 8; echo ended"),
    )
    until("it has begun", lambda: home.logged(1, "begun"), wait_s=LONG_S)
    home.kill()
    words = ("get", "pod", "gp-1-1-0", "--namespace", home.namespace, "-o", "jsonpath={.status.phase}")
    until("it has ended", lambda: home.cluster.kubectl(*words).out == "Succeeded", wait_s=LONG_S)
    home.up()
    home.comes_to(1, "done")
    assert home.logged(1, "ended")
