"""A real control plane for the measurements, pods as glidepath makes them, and the official client beside.

Numbers come in; a cluster of the bed, specifications of pilots, bare requests and the interpreter that has
the official client go out. It knows no targets.
"""

from __future__ import annotations

import http.client
import json
import queue
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bed.parts.kubernetes import Cluster

from glidepath.config.checks import own_values
from glidepath.config.tables import rebuilt
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName
from glidepath.kube.access import Access, from_kubeconfig
from glidepath.kube.checkup import NEEDED
from glidepath.kube.credentials import Credentials
from glidepath.kube.settings import KubernetesSettings

ROOT = Path(__file__).parent.parent
OFFICIAL = ROOT / ".venv-bench/bin/python"
NAMESPACE = "pilots"
SITE, OFFER, POOL = SiteName("pods"), OfferKey("pods/worker"), PoolName("bed")
THREADS = 4
MEASURE_S_MAX = 300
READY_S_MAX = 400
JOIN = (
    ("GLIDEPATH_POOL_KIND", "condor"),
    ("GLIDEPATH_POOL", "bed"),
    ("GLIDEPATH_COLLECTOR", "cm.example.org:9618"),
    ("GLIDEPATH_GRACE_S", "600"),
)
# Its own limit of 50 a second is for shared clusters, and would be all that is measured.
HASTE = {"scheduler": ["--kube-api-qps=5000", "--kube-api-burst=5000"]}


class Kind:
    """The kind as a configuration file meets it."""

    Settings = KubernetesSettings


def settings(kubeconfig: Path | str = "", **said: Any) -> KubernetesSettings:
    table = {"kubeconfig": str(kubeconfig), "image": "bed.invalid/pilot:1", "changes_per_second": 0, **said}
    return rebuilt(KubernetesSettings, own_values(Kind, table))


def spec(name: str, **more: Any) -> PilotSpec:
    return PilotSpec(
        name=PilotName(name),
        site=SITE,
        offer=OFFER,
        pool=POOL,
        size=Resources(1000, 2048, 4096),
        traits=(),
        lifetime_s=12 * 3600,
        idle_s=1200,
        asked_at=Instant(int(time.time())),
        owner=Owner("ann"),
        join=JOIN,
        **more,
    )


def official() -> str:
    """The interpreter that has the official client; it is never in glidepath's own environment."""
    if not OFFICIAL.exists():
        print("the official client is not here; `make .venv-bench/.ready` installs it", file=sys.stderr)
        raise SystemExit(2)
    return str(OFFICIAL)


def told(words: Sequence[str], **given: Any) -> dict[str, Any]:
    """What a program of its own measured, as it says in its last line."""
    run = subprocess.run(
        [*words, json.dumps(given)], capture_output=True, text=True, timeout=MEASURE_S_MAX, cwd=ROOT
    )
    if run.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {run.returncode}:\n{run.stderr}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def peak_mib() -> float:
    """Of this program so far. `getrusage` would tell that of whoever started it where that was more."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmHWM:")) / 1024


@contextmanager
def control_plane(name: str) -> Iterator[tuple[Cluster, Path]]:
    """Without a real node, and the kubeconfig of an account with the rights that are shipped."""
    with Cluster(f"kubernetes@{name}") as cluster:
        cluster.up(nodes=0, tied=True, extra=HASTE)
        yield cluster, cluster.service_account("glidepath", namespace=NAMESPACE, rules=rights())


def rights() -> list[Mapping[str, Any]]:
    return bound_rights((("secrets", "", "create"), *NEEDED))


def bound_rights(rows: Iterable[tuple[str, str, str]], group: str = "") -> list[Mapping[str, Any]]:
    """Rows of resource, part and verb as rules of a role."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in rows:
        verbs.setdefault(f"{resource}/{part}" if part else resource, []).append(verb)
    return [{"apiGroups": [group], "resources": [name], "verbs": found} for name, found in verbs.items()]


def access(kubeconfig: Path | str) -> Access:
    return from_kubeconfig((Path(kubeconfig),), context="", namespace="", unverified=False)


class Bare:
    """Requests over one connection that is kept open, by the standard library and nothing else."""

    def __init__(self, kubeconfig: Path | str) -> None:
        found = access(kubeconfig)
        where = urlsplit(found.server)
        context = ssl.create_default_context(cadata=found.ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context)
        token = Credentials(found).now().token
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        whole = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {whole[:500]!r}")
        return whole

    def close(self) -> None:
        self._connection.close()


def posted(kubeconfig: Path, path: str, bodies: Iterable[bytes], *, threads: int = THREADS) -> float:
    """Seconds that it took to make all of these, each thread with a connection that was opened before."""
    left: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        left.put(body)
    errors: list[BaseException] = []
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        bare = Bare(kubeconfig)
        bare.ask("GET", f"{path}?limit=1")
        ready.wait()
        try:
            while True:  # Until the queue is empty.
                bare.ask("POST", path, left.get_nowait())
        except queue.Empty:
            bare.close()
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(error)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for each in workers:
        each.start()
    ready.wait()
    began = time.perf_counter()
    for each in workers:
        each.join()
    if errors:
        raise RuntimeError(f"the pods were not made: {errors[0]}")
    return time.perf_counter() - began


def pods_path(namespace: str = NAMESPACE) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
