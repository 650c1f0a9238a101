"""Glidepaths with any pools and sites, and a count of all pods that ever were in a namespace.

Nodes are not needed here: pods of these sites ask for one that no cluster has and wait, unless they are told
otherwise. A pod that is waited for is asked for all the same.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster

from glidepath.kube.intent import POOL as POOL_LABEL
from grid.grid_world import RIGHTS, Grid
from kube.pods_world import IDENTITY, IMAGE
from kube.real import rules
from whole.running import Running, until

NOWHERE = '[{ key = "bed.invalid/nowhere", exists = true }]'
# No reserve: pods are counted against jobs.
HEAD = """
[cycle]
min = "1s"
max = "3s"
deadline = "{deadline}"

[policy]
name = "steady"
reserve_percent = 0

[pilots]
withdraw_after = "{withdraw_after}"
left_min = "10s"
join_slack = "10s"
"""
POOL = """
[pools.{name}]
collector = "{address}"
stale_after = "30s"

[pools.{name}.condor]
trust_domain = "bed.example"

[pools.{name}.condor.tokens]
file = "{token}"
"""
SITE = """
[sites.{name}]
kind = "kubernetes"
repeat_within = "1s"

[sites.{name}.kubernetes]
kubeconfig = "{kubeconfig}"
image = "{image}"
pull_policy = "Never"
{kubernetes}

[sites.{name}.offers.small]
cpus = 1
memory = "600MiB"
disk = "1GiB"
lifetime = "1h"
idle = "30s"
limits = {{ live_max = {live_max} }}
"""
CLOSE_S_MAX = 30
SELDOM_S = 1.0


def head(*, deadline: str = "20s", withdraw_after: str = "1s", store: str = "") -> str:
    text = HEAD.format(deadline=deadline, withdraw_after=withdraw_after)
    return text + (f'\n[store]\nurl = "{store}"\n' if store else "")


def pool_table(home: Path, name: str, pool: Pool) -> str:
    token = home / f"{name}.token"
    token.write_text(pool.token(IDENTITY, RIGHTS) + "\n")
    token.chmod(0o600)
    return POOL.format(name=name, address=pool.address, token=token)


def site_table(
    name: str,
    cluster: Cluster,
    namespace: str,
    *,
    live_max: int = 100,
    kubernetes: str = f"nodes = {NOWHERE}",
) -> str:
    kubeconfig = cluster.service_account("glidepath", namespace=namespace, rules=rules())
    told = {"name": name, "kubeconfig": kubeconfig, "image": IMAGE, "kubernetes": kubernetes}
    return SITE.format(**told, live_max=live_max)


class Several(Grid):
    """Glidepaths of one configuration, each in its own home; jobs go to `pool` where no other is said."""

    def __init__(self, home: Path, pool: Pool, tables: str) -> None:
        self.tables = tables
        super().__init__(home, pool)

    def configure(self, *_: object, **__: object) -> None:
        self.config.write_text(self.tables)

    def start(self, name: str) -> Running:
        """One more of them; it is not waited for."""
        home = self.home / name
        home.mkdir(exist_ok=True)
        run = Running(home, "--config", str(self.config))
        self.runs.append(run)
        return run

    def jobs(self, count: int, pool: Pool | None = None) -> int:
        """Jobs that need a pilot each."""
        return self.submit("true", "request_memory = 100", "request_cpus = 1", count=count, pool=pool)

    def take_away(self) -> None:
        """All jobs of this scene."""
        while self.clusters:
            pool, cluster = self.clusters.pop()
            pool.run("condor_rm", str(cluster)).must("jobs are removed")

    def ask_of(self, name: str, *words: str) -> Any:
        """As a person asks beside the glidepath of that name."""
        outer, self.home = self.home, self.home / name
        try:
            return self.ask(*words)
        finally:
            self.home = outer


def seldom(true: Callable[[], bool], what: Callable[[], str], *, within_s: float) -> None:
    """Waits as `until` does, for what costs the machine more to ask than it should."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what()}"
        time.sleep(SELDOM_S)


def pods_in(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    shown = cluster.kubectl("get", "pods", "--namespace", namespace, "-o", "json").must("no list").out
    found: list[dict[str, Any]] = json.loads(shown)["items"]
    return found


def by_pool(cluster: Cluster, namespace: str) -> Counter[str]:
    """So many pods there are for each pool."""
    return Counter(pod["metadata"]["labels"][POOL_LABEL] for pod in pods_in(cluster, namespace))


class Ever:
    """Every pod that came into a namespace since this began, also those that were gone at once."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        row = 'jsonpath={.metadata.name} {.metadata.uid}{"\\n"}'
        words = [
            str(cluster.folder / "kubectl"),
            "get",
            "pods",
            "--namespace",
            namespace,
            "--watch",
            "-o",
            row,
        ]
        self._watch = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self._rows: set[tuple[str, str]] = set()
        self._odd: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._watch.stdout is not None
        for line in self._watch.stdout:
            name, _, uid = line.strip().partition(" ")
            if name.startswith("gp-") and uid:
                self._rows.add((name, uid))
            elif line.strip():
                self._odd.append(line.strip())

    @property
    def names(self) -> list[str]:
        """Once for each pod: a name that was used twice is there twice."""
        assert self._watch.poll() is None, f"the watch has ended, so that nothing is known: {self._odd}"
        return sorted(name for name, _ in set(self._rows))

    def come_to(self, count: int, what: Callable[[], str], *, within_s: float) -> None:
        until(
            lambda: len(self.names) >= count,
            lambda: f"{len(self.names)} of {count}: {what()}",
            within_s=within_s,
        )

    def close(self) -> None:
        self._watch.kill()
        self._watch.wait(CLOSE_S_MAX)
        self._reader.join(CLOSE_S_MAX)
        assert self._watch.stdout is not None
        self._watch.stdout.close()


@contextmanager
def counted(cluster: Cluster, namespace: str) -> Iterator[Ever]:
    ever = Ever(cluster, namespace)
    try:
        yield ever
    finally:
        ever.close()
