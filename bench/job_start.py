"""From a submission to its container running on an idle node, beside a bare `kubectl run` of the same image.

A whole `glidepath up` before a real control plane with a real kubelet. In turns: a job by the HTTP API, one
by `glidepath job submit`, and a pod by `kubectl run`, all with the same command. The time is from sending the
request, or from starting the program, until a watch tells that the container runs; and until the command
itself began, which for a job is after the word that all its ranks are in place. It needs the bed's
Kubernetes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bed.parts.kube_image import TINY
from bed.parts.kubernetes import Cluster

from bench.job_kube_world import NAMESPACE, Moments, account_of, clusters, runs
from bench.job_world import Home, Http
from bench.machine import header

SAMPLES, WARM_UP = 20, 2
OVER_S_MAX = 1.0
WAIT_S_MAX, LOOK_S = 120.0, 0.25
# The kernel's own time since it started is the same inside a container; a while later the container ends.
COMMAND = ("/bin/sh", "-c", "cat /proc/uptime; sleep 2")
SIZE = ("--cpus", "0.1", "--mem", "32MiB", "--time", "10m")
Begun = tuple[float, float]  # on both clocks: when it was sent


def now() -> Begun:
    return time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Arm:
    """One way to have a pod: what is done returns when it began, and the names of namespace and pod."""

    name: str
    ask: Callable[[int], tuple[Begun, str, str]]
    running_s: list[float] = field(default_factory=list)
    begun_s: list[float] = field(default_factory=list)


def by_http(home: Home) -> Callable[[int], tuple[Begun, str, str]]:
    caller: Http = home.caller()

    def ask(_: int) -> tuple[Begun, str, str]:
        wish = {"queue": "interactive", "cpus": 0.1, "mem": "32MiB", "time": "10m", "command": COMMAND}
        began = now()
        number = caller.ask("POST", "/jobs", wish)["jobs"][0]["id"]
        return began, NAMESPACE, f"gp-{number}-1-0"

    return ask


def by_verb(home: Home) -> Callable[[int], tuple[Begun, str, str]]:
    words = [sys.executable, "-m", "glidepath", "job", "submit", "--queue", "interactive", *SIZE]
    environ = {**os.environ, "GLIDEPATH_HOME": str(home.folder), "GLIDEPATH_CONFIG": str(home.config)}

    def ask(_: int) -> tuple[Begun, str, str]:
        began = now()
        done = subprocess.run(
            [*words, "--", *COMMAND], env=environ, capture_output=True, text=True, timeout=WAIT_S_MAX
        )
        assert done.returncode == 0, done.stderr
        return began, NAMESPACE, f"gp-{done.stdout.split()[-1]}-1-0"

    return ask


def by_kubectl(cluster: Cluster) -> Callable[[int], tuple[Begun, str, str]]:
    words = ("--image", TINY, "--image-pull-policy", "Never", "--restart", "Never", "--command", "--")

    def ask(at: int) -> tuple[Begun, str, str]:
        began = now()
        cluster.kubectl("run", f"bare-{at}", *words, *COMMAND).must("the pod was not made")
        return began, "default", f"bare-{at}"

    return ask


def sampled(arm: Arm, at: int, cluster: Cluster, moments: Moments) -> None:
    (began, booted), namespace, name = arm.ask(at)
    running_s = moments.of(name, wait_s=WAIT_S_MAX) - began
    said = cluster.kubectl("logs", name, "--namespace", namespace).must("its log").out
    if at >= WARM_UP:
        arm.running_s.append(running_s)
        arm.begun_s.append(float(said.split()[0]) - booted)


def idle(cluster: Cluster) -> None:
    """The pod before is gone, also from the node, before the next is asked for."""
    until = time.monotonic() + WAIT_S_MAX
    cluster.kubectl("delete", "pods", "--all", "--namespace", "default", "--now")
    while cluster.kubectl("get", "pods", "--namespace", NAMESPACE, "-o", "name").out.strip():
        assert time.monotonic() < until, "the job before does not go away"
        time.sleep(LOOK_S)


def p95(found: list[float]) -> float:
    return sorted(found)[int(0.95 * (len(found) - 1))]


def told(what: str, found: list[float]) -> str:
    return f"{what} {statistics.median(found):.2f} s, p95 {p95(found):.2f} s"


def measured(folder: Path, samples: int) -> list[Arm]:
    with Cluster("kubernetes@start") as cluster:
        cluster.up(tied=True)
        home = Home(folder, clusters=clusters(account_of(cluster)), program="glidepath")
        moments = Moments(cluster.kubeconfig, "/api/v1/pods", runs)
        with home.up():
            home.until(home.answers, "the server did not start")
            arms = [
                Arm("`kubectl run`", by_kubectl(cluster)),
                Arm("HTTP API", by_http(home)),
                Arm("`glidepath job submit`", by_verb(home)),
            ]
            for at in range(samples + WARM_UP):
                for arm in arms:
                    sampled(arm, at, cluster, moments)
                    idle(cluster)
                print(f"{at + 1} of {samples + WARM_UP}", file=sys.stderr, flush=True)
        moments.close()
    return arms


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.job_start", description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    asked = parser.parse_args(words)
    print(header("python -m bench.job_start"), flush=True)
    with tempfile.TemporaryDirectory(prefix="gp-start-") as folder:
        arms = measured(Path(folder), asked.samples)
    print(f"{asked.samples} each, in turns; load {os.getloadavg()[0]:.1f}; medians")
    for arm in arms:
        print(
            f"  {arm.name:22} {told('container runs', arm.running_s)}; {told('command began', arm.begun_s)}"
        )
    bare, ours = arms[0], arms[1]
    over_s = statistics.median(ours.running_s) - statistics.median(bare.running_s)
    begun_s = statistics.median(ours.begun_s) - statistics.median(bare.begun_s)
    print(
        f"by HTTP {over_s:+.2f} s to the container, {begun_s:+.2f} s to the command (target {OVER_S_MAX:g} s)"
    )
    return 0 if over_s <= OVER_S_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
