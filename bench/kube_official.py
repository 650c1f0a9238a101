"""The official Python client, as its own documentation has it used. Run by the interpreter of `.venv-bench`.

An address or a kubeconfig comes in as JSON; seconds, processor seconds and peak memory go out, in one line
of JSON. It knows nothing of glidepath, whose libraries are not there.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

PAGE = 500
PAGES_MAX = 2_000


def listed(core: Any, namespace: str) -> dict[str, Any]:
    """Every pod, page by page, as models; all of them are kept, as ours are."""
    items: list[Any] = []
    token = None
    began, used = time.perf_counter(), time.process_time()
    for _ in range(PAGES_MAX):
        page = core.list_namespaced_pod(namespace, limit=PAGE, _continue=token)
        items += page.items
        token = page.metadata._continue
        if not token:
            break
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    rows = sorted((each.metadata.name, each.metadata.uid, each.status.phase) for each in items)
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return {"took_s": took_s, "cpu_s": cpu_s, "pods": len(rows), "digest": digest}


def watched(core: Any, namespace: str, for_s: float) -> dict[str, Any]:
    """Follows the list as its example does, until the time is up; the server counts."""
    version = core.list_namespaced_pod(namespace, limit=1).metadata.resource_version

    def follow() -> None:
        watch = importlib.import_module("kubernetes.watch").Watch()
        for _ in watch.stream(core.list_namespaced_pod, namespace, resource_version=version):
            pass

    threading.Thread(target=follow, daemon=True).start()
    time.sleep(for_s)
    return {}


def peak_mib() -> float:
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmHWM:")) / 1024


def main(words: list[str]) -> NoReturn:
    given = json.loads(words[-1])
    client = importlib.import_module("kubernetes.client")
    settings = client.Configuration(host=given.get("url"))
    if "kubeconfig" in given:
        config = importlib.import_module("kubernetes.config")
        config.load_kube_config(given["kubeconfig"], client_configuration=settings)
    core = client.CoreV1Api(client.ApiClient(settings))
    if "for_s" in given:
        found = watched(core, given["namespace"], given["for_s"])
    else:
        found = listed(core, given["namespace"])
    version = importlib.import_module("kubernetes").__version__
    print(json.dumps({**found, "peak_mib": peak_mib(), "version": version}), flush=True)
    # Its watch does not end, and an interpreter that ends around a busy thread may abort.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
