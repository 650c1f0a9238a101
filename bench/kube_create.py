"""Creating 1,000 pods, with no limit of ours: glidepath's own way beside bare HTTP with four threads.

`python -m bench.kube_create` makes them on one real apiserver, in turns and in programs of their own: a plan
carried out by the provisioner as the loop does it, and the same bodies sent by `http.client` over connections
that stay open. Nobody schedules them meanwhile, or the two cores would be the scheduler's. It needs the bed's
Kubernetes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bed.parts.kubernetes import Cluster

from bench.kube_world import (
    JOIN,
    NAMESPACE,
    OFFER,
    POOL,
    SITE,
    THREADS,
    control_plane,
    pods_path,
    posted,
    settings,
    spec,
    told,
)
from bench.machine import header
from glidepath.calls import ThreadCalls
from glidepath.clock import SteadyClock
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Done, Outcome, Plan, Reason
from glidepath.core.provision.offer import Offer, PolicyRule, Rules, SiteRules
from glidepath.core.provision.pilot import PilotAction, Submit
from glidepath.core.quantity import OfferKey, PilotName
from glidepath.kube.backend import KubernetesBackend
from glidepath.kube.pod import pod_of
from glidepath.policy import policy_of
from glidepath.ports import Place
from glidepath.provisioner import Doors, Provisioner

PODS = 1_000
ROUNDS = 5
SHARE_MIN = 0.8
ACT_S_MAX = 240.0
CLEAR_S_MAX = 120
SECRETS = (("pool.token", "eyJhbGciOiJIUzI1NiJ9." + "x" * 200),)


class Joined:
    """As much of a pool as is asked of it when pilots are started."""

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        return JOIN

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return SECRETS


def names(count: int) -> tuple[PilotName, ...]:
    return tuple(PilotName(f"gp-{number:06d}") for number in range(count))


def backend_of(kubeconfig: str, *, own_secrets: bool) -> KubernetesBackend:
    table = settings(kubeconfig, **({} if own_secrets else {"token_secret": "tokens"}))
    backend = KubernetesBackend(SITE, table, Place(Path("/"), ""))
    # As in a cycle: it was looked at before something is started.
    assert not backend.list(now=SteadyClock().now()).pilots
    return backend


# Each of these runs in a program of its own, and says how long all pods took.


def bare(kubeconfig: str, count: int, *, threads: int) -> float:
    table = settings(kubeconfig, token_secret="tokens").pod("worker")
    bodies = [
        json.dumps(pod_of(spec(name), table, namespace=NAMESPACE), separators=(",", ":")).encode()
        for name in names(count)
    ]
    return posted(Path(kubeconfig), pods_path(), bodies, threads=threads)


def by_plan(kubeconfig: str, count: int, *, own_secrets: bool = False) -> float:
    """A plan of so many pilots, carried out as the loop does it."""
    backend, clock = backend_of(kubeconfig, own_secrets=own_secrets), SteadyClock()
    one = spec("gp-0")
    offer = Offer(SITE, OFFER.partition("/")[2], one.size)
    rules = Rules(pools=(), sites=(SiteRules(SITE, (offer,)),))
    doors = Doors({POOL: Joined()}, {SITE: backend}, ThreadCalls(), clock, act_s_max=ACT_S_MAX)  # type: ignore[dict-item]  # No more of a pool is asked for.
    shell = Provisioner(doors, rules, policy_of(PolicyRule("steady")))
    submit = Submit(SITE, OFFER, POOL, one.size, (), one.lifetime_s, one.idle_s, names(count), one.owner)
    decided: Decision[PilotAction] = Decision(OFFER, Reason(Because.ASKED, ()), submit)
    began = time.perf_counter()
    done = shell.act(Plan(1, clock.now(), (decided,), 10))
    took_s = time.perf_counter() - began
    _all_done([each.outcome for each in done], count)
    return took_s


def at_once(kubeconfig: str, count: int) -> float:
    """The same backend, were it asked by four threads."""
    backend = backend_of(kubeconfig, own_secrets=False)
    specs = [spec(name) for name in names(count)]
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = list(pool.map(backend.submit, specs))
    took_s = time.perf_counter() - began
    _all_done(outcomes, count)
    return took_s


def _all_done(outcomes: Sequence[Outcome], count: int) -> None:
    odd = [each for each in outcomes if not isinstance(each, Done)]
    if odd or len(outcomes) != count:
        raise RuntimeError(f"{len(odd)} of {count} pods were not made: {odd[:1]}")


WAYS: Mapping[str, tuple[str, Callable[[str, int], float]]] = {
    "bare": (f"bare HTTP, {THREADS} threads", partial(bare, threads=THREADS)),
    "plan": ("glidepath", by_plan),
    "one": ("bare HTTP, one thread", partial(bare, threads=1)),
    "four": (f"glidepath's backend, asked by {THREADS} threads", at_once),
    "secrets": ("glidepath, a Secret for each pod", partial(by_plan, own_secrets=True)),
}


def cleared(cluster: Cluster) -> None:
    for kind in ("pods", "secrets"):
        path = f"/api/v1/namespaces/{NAMESPACE}/{kind}"
        cluster.kubectl("delete", "--raw", path, timeout_s=CLEAR_S_MAX).must(f"the {kind} are still there")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--way", choices=[*WAYS], help=argparse.SUPPRESS)
    parser.add_argument("given", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.way:
        given = json.loads(options.given)
        took_s = WAYS[options.way][1](given["kubeconfig"], given["pods"])
        print(json.dumps({"per_s": given["pods"] / took_s}))
        return 0
    print(header("python -m bench.kube_create"))
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with control_plane("bench") as (cluster, kubeconfig):
        cluster.kill("scheduler")
        for number in range(ROUNDS):
            for way, rates in found.items():
                command = [sys.executable, "-m", "bench.kube_create", "--way", way]
                rates.append(told(command, kubeconfig=str(kubeconfig), pods=options.pods)["per_s"])
                cleared(cluster)
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    print(f"{options.pods:,} pods, the median of {ROUNDS}")
    rates_of = {way: statistics.median(rates) for way, rates in found.items()}
    for way, (shown, _) in WAYS.items():
        print(f"  {shown:42} {rates_of[way]:5.0f} a second, {rates_of[way] / rates_of['bare']:.2f} of bare")
    share = rates_of["plan"] / rates_of["bare"]
    print(f"{share:.2f} of the rate of bare HTTP with {THREADS} threads (target {SHARE_MIN:g})")
    return 0 if share >= SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
