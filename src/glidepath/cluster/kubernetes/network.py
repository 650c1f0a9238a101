"""Who may speak with the ranks of a job: settings and sets come in, NetworkPolicies go out. Nothing is asked.

A policy only ever allows. One floor for all pods of ours denies what nobody allows, and lets in the proxy and
out to names and to the world. A job of one rank that is beside nobody needs no policy of its own. Otherwise
one names a group, by the numbers of jobs, whose ranks may all speak with each other: so what is allowed one
way is allowed the other.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glidepath.cluster.kubernetes.pod import CLUSTER, JOB, SET, Intent, anchor_name
from glidepath.cluster.kubernetes.sets import Members
from glidepath.cluster.kubernetes.settings import NetworkSettings
from glidepath.core.place.rank import SetKey, split_key
from glidepath.kube.settings import PREFIX
from glidepath.kube.shapes import Named

Object = dict[str, Any]

# What a floor says, in short: other settings make another one.
RULES = f"{PREFIX}rules"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
NAMES_PORT = 53
DIGEST_LETTERS = 16


def floor_name(cluster: str) -> str:
    return f"gp-floor-{cluster}"


def floor_of(cluster: str, settings: NetworkSettings) -> Object:
    """For pods of ours with the number of their job: those of an older glidepath go on as they were."""
    selects = {"matchLabels": {CLUSTER: cluster}, "matchExpressions": [{"key": JOB, "operator": "Exists"}]}
    into, out = _proxies(settings), _outside(settings)
    names = {"ports": [{"port": NAMES_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")]}
    spec: Object = {
        "podSelector": selects,
        "policyTypes": ["Ingress", "Egress"],
        # An empty list of peers would let in everybody.
        "ingress": [{"from": into}] if into else [],
        "egress": [names, *([{"to": out}] if out else [])],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": floor_name(cluster),
            "labels": {"app.kubernetes.io/managed-by": "glidepath", CLUSTER: cluster},
            "annotations": {RULES: _digest(spec)},
        },
        "spec": spec,
    }


def _digest(spec: Object) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:DIGEST_LETTERS]


def _proxies(settings: NetworkSettings) -> list[Object]:
    found: list[Object] = []
    if settings.proxy:
        pods: Object = {"podSelector": {"matchLabels": dict(settings.proxy)}}
        if settings.proxy_namespace:
            pods["namespaceSelector"] = {"matchLabels": {NAMESPACE_LABEL: settings.proxy_namespace}}
        found.append(pods)
    return [*found, *({"ipBlock": {"cidr": block}} for block in settings.proxy_blocks)]


def _outside(settings: NetworkSettings) -> list[Object]:
    """A block that lies within what is closed was named on purpose, and is open."""
    inside = [ipaddress.ip_network(block) for block in settings.inside]
    found: list[Object] = []
    for each in map(ipaddress.ip_network, settings.outside):
        shut = [str(net) for net in inside if net.prefixlen > each.prefixlen and net.network_address in each]
        found.append({"ipBlock": {"cidr": str(each), **({"except": shut} if shut else {})}})
    return found


def policies_of(intent: Intent, cluster: str, anchor_uid: str) -> tuple[Object, ...]:
    """What a set needs beside the floor; with its Service they go."""
    job, _ = split_key(intent.key)
    return tuple(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": name,
                "labels": {"app.kubernetes.io/managed-by": "glidepath", CLUSTER: cluster, SET: intent.key},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "name": anchor_name(intent.key),
                        "uid": anchor_uid,
                    }
                ],
            },
            "spec": _among(cluster, (job, *beside)),
        }
        for name, beside in _groups(intent)
    )


def policy_names(intent: Intent) -> tuple[str, ...]:
    return tuple(name for name, _ in _groups(intent))


def _groups(intent: Intent) -> Iterator[tuple[str, tuple[int, ...]]]:
    """One for each job that it is beside, as those are not beside each other; or one of its own ranks."""
    name = anchor_name(intent.key)
    job, _ = split_key(intent.key)
    peers = sorted({*intent.peers} - {job})
    if not peers and intent.ranks > 1:
        yield f"{name}-ranks", ()
    for peer in peers:
        yield f"{name}-with-{peer}", (peer,)


def _among(cluster: str, jobs: tuple[int, ...]) -> Object:
    group: Object = {
        "matchLabels": {CLUSTER: cluster},
        "matchExpressions": [{"key": JOB, "operator": "In", "values": [str(job) for job in sorted(jobs)]}],
    }
    return {
        "podSelector": group,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": group}]}],
        "egress": [{"to": [{"podSelector": group}]}],
    }


@dataclass(frozen=True, slots=True)
class Amiss:
    """What is not as it should be: policies that are missing, and those that belong to nothing."""

    missing: tuple[Object, ...] = ()
    stray: tuple[Named, ...] = ()


def stands(floor: Object, policies: Mapping[str, Named]) -> bool:
    """Whether the floor is there and says what it should."""
    meta = floor["metadata"]
    found = policies.get(meta["name"])
    return found is not None and found.metadata.annotations.get(RULES) == meta["annotations"][RULES]


def amiss(cluster: str, members: Iterable[Members], policies: Mapping[str, Named]) -> Amiss:
    """`policies` are all of ours by name. The floor is not looked at: it belongs to no set."""
    known: dict[SetKey, Members] = {each.key: each for each in members}
    missing = [
        body
        for each in known.values()
        if each.verdict is None and not {*policy_names(each.intent)} <= policies.keys()
        for body in policies_of(each.intent, cluster, each.anchor.metadata.uid)
        if body["metadata"]["name"] not in policies
    ]
    stray = [
        policy
        for name, policy in sorted(policies.items())
        if name != floor_name(cluster)
        and policy.metadata.deletion_timestamp is None
        and not _belongs(policy, known)
    ]
    return Amiss(tuple(missing), tuple(stray))


def _belongs(policy: Named, known: Mapping[SetKey, Members]) -> bool:
    members = known.get(SetKey(policy.metadata.labels.get(SET, "")))
    if members is None or policy.metadata.name not in policy_names(members.intent):
        return False
    # Under the name of a set that was there before it would go with that one, and too early.
    return any(each.uid == members.anchor.metadata.uid for each in policy.metadata.owner_references)
