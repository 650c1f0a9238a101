"""Pods bound a second: queued jobs through API, store and scheduler, beside the kube-scheduler alone.

A real control plane with nodes that kwok makes up, and no limit of ours on changes. Ours: one submission of
so many jobs over HTTP to a whole `glidepath up`; each is a Service and a pod that is pinned to its node,
which the kube-scheduler binds. Alone: pods of the same specification, without the pin, sent by `http.client`
with four threads while the kube-scheduler binds them, as its own `scheduler_perf` has it; and, as the
strictest measure, all of them made first and bound then. The time is to the last that a watch tells to be
bound. It needs the bed's Kubernetes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed.parts.kubernetes import Cluster

from bench.agents import cpu_s
from bench.job_kube_world import NAMESPACE, Moments, account_of, clusters, is_bound
from bench.job_world import Home
from bench.kube_world import HASTE, pods_path, posted
from bench.machine import header
from glidepath.core.place.record import Phase

NODES, PODS, ROUNDS = 500, 2_500, 2
SHARE_MIN = 0.7
# Nothing ends while it is measured.
RUN_S = 3600.0
WAIT_S_MAX, WARM_S_MAX, LOOK_S = 400.0, 600.0, 0.25
WISH = {"queue": "batch", "cpus": 1, "mem": "64MiB", "time": "1h", "command": ["true"]}
# Controllers that do for their part what each Service and pod asks of them.
SERVERS = {**HASTE, "controller-manager": ["--kube-api-qps=5000", "--kube-api-burst=5000"]}
# What is a pod's own, and nothing that was asked for.
OWN = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "name",
    "generation",
    "finalizers",
)
Body = dict[str, Any]


def bound_s(moments: Moments, count: int, began: float) -> float:
    until = time.monotonic() + WAIT_S_MAX
    while len(moments.at) < count:
        assert moments.follows(), "the watch on the cluster ended; nothing can be measured"
        assert time.monotonic() < until, f"{len(moments.at)} of {count} pods were bound"
        time.sleep(LOOK_S)
    return max(moments.at.values()) - began


def watched(cluster: Cluster, what: Callable[[Moments], float]) -> float:
    moments = Moments(cluster.kubeconfig, pods_path(NAMESPACE), is_bound)
    try:
        return what(moments)
    finally:
        moments.close()


def warmed(home: Home) -> None:
    """One job was started, so that machine code is there: it is made once, and is no part of a rate."""
    home.caller().ask("POST", "/jobs?wait=0", WISH)
    until = time.monotonic() + WARM_S_MAX
    while not home.count(Phase.RUNNING):
        assert time.monotonic() < until, "the first job did not start"
        time.sleep(LOOK_S)


def ours(cluster: Cluster, tables: str, count: int) -> tuple[float, Body]:
    """Seconds for all, and one of the pods."""
    with tempfile.TemporaryDirectory(prefix="gp-bind-") as folder:
        home = Home(Path(folder), clusters=tables, program="glidepath")
        with home.up() as child:
            home.until(home.answers, "the server did not start")
            warmed(home)
            caller = home.caller()  # A server keeps no connection that rests for minutes.

            def submitted(moments: Moments) -> float:
                began, used_s = time.monotonic(), cpu_s(child.pid)
                caller.ask("POST", f"/jobs?count={count}&wait=0", WISH)
                took_s = bound_s(moments, count, began)
                used = (cpu_s(child.pid) - used_s) / took_s
                print(f"  glidepath: {count / took_s:.0f} a second; it used {used:.2f} of a core", flush=True)
                return took_s

            took_s = watched(cluster, submitted)
        shown = cluster.kubectl("get", "--raw", f"{pods_path(NAMESPACE)}?limit=1")
    found: Body = json.loads(shown.must("the pods").out)["items"][0]
    return took_s, found


def unpinned(pod: Mapping[str, Any], count: int) -> list[bytes]:
    """As many of the same, for the kube-scheduler to find nodes for."""
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "affinity")}
    about = {key: value for key, value in pod["metadata"].items() if key not in OWN}
    return [
        json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {**about, "name": f"alone-{at}"}, "spec": spec}
        ).encode()
        for at in range(count)
    ]


def alone(cluster: Cluster, account: Path, bodies: list[bytes]) -> float:
    def made(moments: Moments) -> float:
        began = time.monotonic()
        posted(account, pods_path(NAMESPACE), bodies)
        took_s = bound_s(moments, len(bodies), began)
        print(f"  kube-scheduler, while pods are made: {len(bodies) / took_s:.0f} a second", flush=True)
        return took_s

    return watched(cluster, made)


def alone_after(cluster: Cluster, account: Path, bodies: list[bytes]) -> float:
    """From the first that is bound: how long a scheduler takes to begin is not its rate."""
    cluster.kill("scheduler")
    posted(account, pods_path(NAMESPACE), bodies)

    def bound(moments: Moments) -> float:
        cluster.restart("scheduler")
        bound_s(moments, len(bodies), 0.0)
        took_s = max(moments.at.values()) - min(moments.at.values())
        print(f"  kube-scheduler, all pods made before: {len(bodies) / took_s:.0f} a second", flush=True)
        return took_s

    return watched(cluster, bound)


def cleared(cluster: Cluster) -> None:
    for kind in ("services", "pods"):
        words = ("--namespace", NAMESPACE, "--all", "--grace-period=0", "--force", "--wait=false")
        cluster.kubectl("delete", kind, *words, timeout_s=WAIT_S_MAX).must(f"the {kind} are still there")
    until = time.monotonic() + WAIT_S_MAX
    shown = ("get", "pods,services", "--namespace", NAMESPACE, "-o", "name")
    while cluster.kubectl(*shown).out.strip():
        assert time.monotonic() < until, "the pods do not go away"
        time.sleep(LOOK_S)


def measured(nodes: int, pods: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"ours": [], "alone": [], "after": []}
    with Cluster("kubernetes@bind") as cluster:
        cluster.up(nodes=0, tied=True, extra=SERVERS)
        account = account_of(cluster)
        cluster.fake_nodes(nodes, run_s=RUN_S)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}; load {os.getloadavg()[0]:.1f}", flush=True)
            took_s, pod = ours(cluster, clusters(account), pods)
            cleared(cluster)
            bodies = unpinned(pod, pods)
            for name, of in (("alone", alone), ("after", alone_after)):
                found[name].append(of(cluster, account, bodies))
                cleared(cluster)
            found["ours"].append(took_s)
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.job_bind", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args(words)
    print(header("python -m bench.job_bind"), flush=True)
    found = measured(asked.nodes, asked.pods, asked.rounds)
    rates = {name: asked.pods / statistics.median(took_s) for name, took_s in found.items()}
    share, strict = rates["ours"] / rates["alone"], rates["ours"] / rates["after"]
    print(
        f"{asked.pods:,} jobs on {asked.nodes} nodes, {asked.rounds} rounds: "
        f"{rates['ours']:.0f} bound a second"
    )
    print(
        f"{share:.2f} of the kube-scheduler's alone while pods are made, {rates['alone']:.0f} a second ",
        end="",
    )
    print(f"(target {SHARE_MIN:g}); {strict:.2f} of {rates['after']:.0f}, where all were made before")
    return 0 if share >= SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
