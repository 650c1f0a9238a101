"""How soon a submitted job has its pod created, on a real pool and a real control plane.

`python -m bench.kube_reaction` runs a whole `glidepath up` between the two, submits jobs of new shapes at odd
moments while others wait that fit nowhere, and takes the time from the start of `condor_submit` until a watch
on the cluster tells of the pod. The cluster has no node: pods are created and wait, as in a full one. The
PRP provisioner looks every 120 s. It needs the bed's HTCondor and Kubernetes.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bed.parts.condor import Pool

from bench.condor_demand import LIMITS, SUBMIT
from bench.condor_reaction import GAP_S, P95_S_MAX, POLL_S, WAIT_S_MAX, p95_of, token_in, wait_in_vain
from bench.kube_world import access, control_plane, pods_path
from bench.machine import header
from glidepath.kube.api import Api

WAITING = 100_000
SAMPLES = 20
START_S = 15.0
WATCH_S = 7200
CONFIG = """
[cycle]
min = "2s"
deadline = "15s"

[pools.bed]
collector = "{address}"

[pools.bed.condor]
trust_domain = "bed.example"

[pools.bed.condor.tokens]
file = "{token}"

[sites.pods]
kind = "kubernetes"

[sites.pods.kubernetes]
kubeconfig = "{kubeconfig}"
image = "bed.invalid/pilot:1"

[sites.pods.offers.small]
cpus = 1
memory = "1GiB"
disk = "2GiB"
lifetime = "1h"
"""


class Created:
    """Pods by name, with the moment at which the cluster told of them."""

    def __init__(self, kubeconfig: Path) -> None:
        self.at: dict[str, float] = {}
        self._api = Api(access(kubeconfig))
        listed = json.loads(self._api.get(pods_path()))
        self._version = listed["metadata"]["resourceVersion"]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        query = {"watch": "1", "resourceVersion": self._version, "timeoutSeconds": WATCH_S}
        live = self._over.is_set
        with self._api.lines(pods_path(), query, silent_s=WATCH_S, live=lambda: not live()) as lines:
            for line in lines:
                told = json.loads(line)
                if told["type"] == "ADDED":
                    self.at[told["object"]["metadata"]["name"]] = time.time()

    def close(self) -> None:
        self._over.set()
        self._api.close()
        self._thread.join(WAIT_S_MAX)

    def next_after(self, known: set[str], began: float) -> float:
        while time.time() - began < WAIT_S_MAX:
            fresh = [at for name, at in list(self.at.items()) if name not in known]
            if fresh:
                return min(fresh)
            if not self._thread.is_alive():
                raise RuntimeError("the watch on the cluster ended; nothing can be measured")
            time.sleep(POLL_S)
        raise TimeoutError(f"no pod was created within {WAIT_S_MAX:g} s")


def sampled(pool: Pool, created: Created, samples: int) -> list[float]:
    took = []
    draw = random.Random(1)
    for number in range(samples):
        time.sleep(draw.uniform(*GAP_S))
        path = pool.home("ben") / "one.sub"
        path.write_text(f"{SUBMIT}request_memory = {300 + number}\nqueue\n")
        known, began = set(created.at), time.time()
        pool.run("condor_submit", "-terse", str(path), user="ben").must("the job was not submitted")
        took.append(created.next_after(known, began) - began)
        print(f"{number + 1} of {samples}: {took[-1]:.2f} s", file=sys.stderr, flush=True)
    return sorted(took)


def reacted(pool: Pool, kubeconfig: Path, home: Path, samples: int) -> tuple[list[float], int]:
    """Between the pool and the cluster, a whole glidepath."""
    token = token_in(home, pool)
    config = home / "glidepath.toml"
    config.write_text(CONFIG.format(address=pool.address, token=token, kubeconfig=kubeconfig))
    created = Created(kubeconfig)
    words = [sys.executable, "-m", "glidepath", "up", "--home", str(home), "--config", str(config), "--plain"]
    with (home / "said").open("w") as said:
        run = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
        try:
            time.sleep(START_S)
            return sampled(pool, created, samples), len(created.at)
        except (TimeoutError, RuntimeError) as error:
            shown = "\n".join((home / "said").read_text().splitlines()[-20:])
            raise RuntimeError(f"{error}; glidepath said last:\n{shown}") from None
        finally:
            created.close()
            run.send_signal(signal.SIGINT)
            run.wait(60)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    given = parser.parse_args(words)
    print(header("python -m bench.kube_reaction"))
    home = Path(tempfile.mkdtemp(prefix="gp-"))
    try:
        with Pool("condor@bench") as pool, control_plane("bench") as (_, kubeconfig):
            pool.up(extra_config=LIMITS, tied=True)
            wait_in_vain(pool, given.waiting)
            took, pods = reacted(pool, kubeconfig, home, given.samples)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    p95 = p95_of(took)
    print(f"{given.waiting:,} jobs wait; {len(took)} submissions of new shapes at odd moments, {pods} pods")
    print(f"from condor_submit to the pod created: median {took[len(took) // 2]:.2f} s, p95 {p95:.2f} s")
    print(f"(target {P95_S_MAX:g} s; the PRP provisioner looks every 120 s: {120 / p95:.0f} times)")
    return 0 if p95 <= P95_S_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
