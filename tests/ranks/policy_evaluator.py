"""Whether one pod reaches another, by NetworkPolicies alone: objects and ends come in, yes or no goes out.

As the documentation of the kind has it: a pod that no policy selects for a direction is open in it; one that
any selects is closed but for what some of them allows; both ends must agree; a pod always reaches itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class End:
    """A pod, or with no namespace some machine that is none."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def space(self) -> Mapping[str, str]:
        return {NAMESPACE_LABEL: self.namespace}


def reaches(policies: Iterable[Object], one: End, other: End, port: int, *, protocol: str = "TCP") -> bool:
    if one == other:
        return True
    policies = tuple(policies)
    at = (port, protocol)
    return _open(policies, one, other, at, way="Egress") and _open(policies, other, one, at, way="Ingress")


def _open(policies: tuple[Object, ...], pod: End, peer: End, at: tuple[int, str], *, way: str) -> bool:
    """Whether the end `pod` lets it through in this direction."""
    if not pod.namespace:
        return True
    mine = [
        each["spec"]
        for each in policies
        if each["metadata"].get("namespace", pod.namespace) == pod.namespace
        and selected(each["spec"]["podSelector"], pod.labels)
        and way in each["spec"]["policyTypes"]
    ]
    key, side = ("ingress", "from") if way == "Ingress" else ("egress", "to")
    rules = [rule for spec in mine for rule in spec.get(key) or ()]
    return not mine or any(
        _ports(rule.get("ports"), *at) and _peers(rule.get(side), pod, peer) for rule in rules
    )


def _ports(rows: Any, port: int, protocol: str) -> bool:
    if not rows:
        return True
    return any(
        row.get("protocol", "TCP") == protocol
        and ("port" not in row or row["port"] <= port <= row.get("endPort", row["port"]))
        for row in rows
    )


def _peers(rows: Any, pod: End, peer: End) -> bool:
    return not rows or any(_peer(row, pod, peer) for row in rows)


def _peer(row: Object, pod: End, peer: End) -> bool:
    if "ipBlock" in row:
        block, address = row["ipBlock"], ipaddress.ip_address(peer.address)
        shut = any(address in ipaddress.ip_network(each) for each in block.get("except", ()))
        return address in ipaddress.ip_network(block["cidr"]) and not shut
    if not peer.namespace:
        return False
    if "namespaceSelector" in row:
        if not selected(row["namespaceSelector"], peer.space):
            return False
    elif peer.namespace != pod.namespace:
        return False
    return selected(row.get("podSelector", {}), peer.labels)


def selected(selector: Object, labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expressed(each, labels) for each in selector.get("matchExpressions", ()))


def _expressed(row: Object, labels: Mapping[str, str]) -> bool:
    there = labels.get(row["key"])
    match row["operator"]:
        case "In":
            return there in row["values"]
        case "NotIn":
            return there not in row["values"]
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
    raise ValueError(row["operator"])
