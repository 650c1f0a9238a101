"""Listing 10,000 pods, and looking at them in a steady cycle: ours beside the official Python client.

`python -m bench.kube_list` lists them in programs of their own: with our reflector, with the official client
and its models, and with a bare `msgspec` decode. First on a real apiserver, whose own time is in all of them,
with pods that nobody schedules; then from memory, with pods like one that ran on a fake node, where the
client's time is all there is. Both must meet the targets. It needs the bed's Kubernetes and `.venv-bench`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed.parts.kubernetes import Cluster

from bench.kube_stand_in import pages_of, serving
from bench.kube_world import NAMESPACE, SITE, Bare, control_plane, official, peak_mib, pods_path, posted, told
from bench.kube_world import access as access_of
from bench.kube_world import settings as settings_of
from bench.kube_world import spec as spec_of
from bench.machine import header
from glidepath.kube.access import Access

Where = Mapping[str, str]  # `kubeconfig` of a real server, or `url` of the one in memory

PODS = 10_000
ROUNDS = 3
LOOKS = 11
FASTER_MIN, SMALLER_MIN, BARE_MAX, LIGHTER_MIN = 10.0, 5.0, 2.0, 50.0
LIST_S_MAX = 120.0
RUNNING_S_MAX = 60.0
POLL_S = 0.5


def sample(cluster: Cluster, kubeconfig: Path) -> dict[str, Any]:
    """A pod as glidepath makes it, scheduled and running, as a real apiserver returns it in a list."""
    cluster.fake_nodes(1, run_s=3600)
    bare = Bare(kubeconfig)
    bare.ask("POST", pods_path(), wanted(kubeconfig, "gp-sample"))
    deadline = time.monotonic() + RUNNING_S_MAX
    while time.monotonic() < deadline:
        found: dict[str, Any] = json.loads(bare.ask("GET", pods_path()))["items"][0]
        if found["status"]["phase"] == "Running":
            cluster.kubectl("delete", "--raw", pods_path()).must("the pod is still there")
            return found
        time.sleep(POLL_S)
    raise TimeoutError(f"the pod did not run within {RUNNING_S_MAX:g} s")


def wanted(kubeconfig: Path, name: str) -> bytes:
    from glidepath.kube.pod import pod_of

    table = settings_of(kubeconfig, token_secret="tokens").pod("worker")
    return json.dumps(pod_of(spec_of(name), table, community="physics", namespace=NAMESPACE)).encode()


# Each of these runs in a program of its own.


def ours(where: Where) -> dict[str, Any]:
    """As a site does it: the reflector, from nothing to all pods known."""
    from glidepath.kube.api import Api
    from glidepath.kube.reflector import Reflector
    from glidepath.kube.shapes import Pod

    reflector = Reflector(Api(_access(where)), pods_path(), Pod)
    began, used = time.perf_counter(), time.process_time()
    heard = reflector.heard(wait_s=LIST_S_MAX)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    assert not heard.odd, heard.odd
    return {"took_s": took_s, "cpu_s": cpu_s, **_found(heard.items)}


def bare(where: Where) -> dict[str, Any]:
    """The same requests and the same shape, a page at a time: one bad pod and the page is lost. Then the
    decoding alone, of pages in memory: theirs and ours in turns, the best of each."""
    import msgspec

    from glidepath.kube.api import Api
    from glidepath.kube.shapes import Decoder, ListMeta, Pod

    shape = msgspec.defstruct("PodList", [("metadata", ListMeta), ("items", tuple[Pod, ...])], frozen=True)
    plain: Callable[[bytes], Any] = msgspec.json.Decoder(shape).decode
    apart = Decoder(Pod).page
    api, pages, items, token = Api(_access(where)), [], {}, ""
    began, used = time.perf_counter(), time.process_time()
    for _ in range(PODS):
        pages.append(api.get(pods_path(), {"limit": 500, **({"continue": token} if token else {})}))
        page = plain(pages[-1])
        items.update((item.metadata.name, item) for item in page.items)
        token = page.metadata.continue_
        if not token:
            break
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    rows = {"plain_s": plain, "apart_s": apart}
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(LOOKS):
        for name, decode in rows.items():
            began = time.perf_counter()
            kept = [decode(each) for each in pages]
            best[name] = min(best[name], time.perf_counter() - began)
            del kept
    return {"took_s": took_s, "cpu_s": cpu_s, **_found(items), **best}


def look(where: Where) -> dict[str, Any]:
    """The observe phase of a site that knows its pods already."""
    from glidepath.core.quantity import Instant
    from glidepath.kube.backend import KubernetesBackend
    from glidepath.ports import Place

    access = _access(where)
    backend = KubernetesBackend(SITE, settings_of(), Place(Path("/"), ""), access=lambda: access)
    began = int(time.time())
    pods = len(backend.list(now=Instant(began)).pilots)
    spent = []
    for number in range(LOOKS):
        used = time.process_time()
        listing = backend.list(now=Instant(began + 10 * number))
        spent.append(time.process_time() - used)
        assert listing.complete
        assert len(listing.pilots) == pods
    return {"cpu_s": statistics.median(spent), "pods": pods}


WAYS: Mapping[str, Callable[[Where], dict[str, Any]]] = {"ours": ours, "bare": bare, "look": look}


def _access(where: Where) -> Access:
    if "kubeconfig" in where:
        return access_of(where["kubeconfig"])
    return Access(server=where["url"], namespace=NAMESPACE, name="bench")


def _found(items: Mapping[str, Any]) -> dict[str, Any]:
    peak = peak_mib()
    rows = sorted((each.metadata.name, each.metadata.uid, each.status.phase) for each in items.values())
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return {"pods": len(rows), "digest": digest, "peak_mib": peak}


# All of them together.


def measured(where: Where) -> dict[str, list[dict[str, Any]]]:
    python, theirs = sys.executable, official()
    commands = {way: [python, "-m", "bench.kube_list", "--way", way] for way in WAYS}
    commands["official"] = [theirs, "-m", "bench.kube_official"]
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in commands}
    for number in range(ROUNDS):
        for way, words in commands.items():
            found[way].append(told(words, namespace=NAMESPACE, **where))
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    return found


def verdict(found: Mapping[str, list[dict[str, Any]]]) -> bool:
    """The best of each, since all that disturbs makes slower; every round's ratio is shown beside."""

    def best(way: str, name: str) -> float:
        return min(float(row[name]) for row in found[way])

    version = found["official"][0]["version"]
    for way, name in (("ours", "ours"), ("official", f"official {version}"), ("bare", "bare msgspec")):
        took, cpu, peak = (best(way, each) for each in ("took_s", "cpu_s", "peak_mib"))
        print(f"  {name:16} {took:6.2f} s, {cpu:6.2f} s of processor, {peak:5.0f} MiB at its peak")
    faster = best("official", "took_s") / best("ours", "took_s")
    smaller = best("official", "peak_mib") / best("ours", "peak_mib")
    apart, plain = best("bare", "apart_s"), best("bare", "plain_s")
    spent = best("look", "cpu_s")
    lighter = best("official", "cpu_s") / spent
    print(
        f"listed: {faster:.1f} times faster, {smaller:.1f} times less memory "
        f"(targets {FASTER_MIN:g}, {SMALLER_MIN:g})\n"
        f"decoded alone: {apart:.3f} s each for itself, {plain:.3f} s bare, {apart / plain:.2f} times that "
        f"(target {BARE_MAX:g})\n"
        f"a steady look: {spent * 1000:.0f} ms of processor, {lighter:.0f} times less than listing with the "
        f"official client (target {LIGHTER_MIN:g})"
    )
    pairs = zip(found["official"], found["ours"], strict=True)
    rounds = ", ".join(f"{theirs['took_s'] / each['took_s']:.1f}" for theirs, each in pairs)
    print(f"  round by round: {rounds} times faster")
    same = len({row["digest"] for way in ("ours", "official", "bare") for row in found[way]}) == 1
    if not same:
        print("  the pods differ")
    met = (faster >= FASTER_MIN, smaller >= SMALLER_MIN, apart / plain <= BARE_MAX, lighter >= LIGHTER_MIN)
    return same and all(met)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--way", choices=[*WAYS], help=argparse.SUPPRESS)
    parser.add_argument("given", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.way:
        print(json.dumps(WAYS[options.way](json.loads(options.given))))
        return 0
    print(header("python -m bench.kube_list"))
    official()
    with control_plane("bench") as (cluster, kubeconfig):
        pages = pages_of(sample(cluster, kubeconfig), options.pods)
        cluster.kill("scheduler")
        names = (f"gp-{number:06d}" for number in range(options.pods))
        posted(kubeconfig, pods_path(), [wanted(kubeconfig, name) for name in names])
        print(f"{options.pods:,} pods that nobody schedules, on a real apiserver", flush=True)
        met = [verdict(measured({"kubeconfig": str(kubeconfig)}))]
    bytes_each = sum(map(len, pages)) // options.pods
    print(f"{options.pods:,} pods that run, of {bytes_each:,} bytes each, from memory over HTTP", flush=True)
    with serving(pages) as server:
        met.append(verdict(measured({"url": server.url})))
    print("targets met" if all(met) else "targets missed")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
