"""Builders for tests of pods: they fill what does not matter, so that a test shows only what does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glidepath.config.checks import own_values
from glidepath.config.tables import rebuilt
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
)
from glidepath.kube.pod import pod_of
from glidepath.kube.settings import KubernetesSettings, PodSettings

GOLDEN = Path(__file__).parent / "golden"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.a-token-that-nobody-may-see"
JOIN = (
    ("GLIDEPATH_POOL_KIND", "condor"),
    ("GLIDEPATH_POOL", "pool"),
    ("GLIDEPATH_COLLECTOR", "cm.example.org:9618"),
    ("GLIDEPATH_GRACE_S", "600"),
)


class Kind:
    """The kind as a configuration file meets it."""

    Settings = KubernetesSettings


def spec(**more: Any) -> PilotSpec:
    more.setdefault("size", Resources(4000, 8192, 20480))
    more.setdefault("traits", ())
    more["avoid"] = tuple(NodeName(node) for node in more.get("avoid", ()))
    more["owner"] = Owner(more.get("owner", "alice"))
    return PilotSpec(
        name=PilotName(more.pop("name", "gp-1")),
        site=SiteName("k8s"),
        offer=OfferKey("k8s/worker"),
        pool=PoolName(more.pop("pool", "pool")),
        lifetime_s=more.pop("lifetime_s", 12 * 3600),
        idle_s=more.pop("idle_s", 1200),
        asked_at=Instant(1000),
        join=more.pop("join", JOIN),
        secrets=more.pop("secrets", (("pool.token", TOKEN),)),
        **more,
    )


def settings(**said: Any) -> KubernetesSettings:
    """Through the very steps that a configuration file takes."""
    return rebuilt(KubernetesSettings, own_values(Kind, {"image": "pilot:1", **said}))


def pod(told: PilotSpec | None = None, *, offer: str = "worker", **said: Any) -> dict[str, Any]:
    found: PodSettings = settings(**said).pod(offer)
    return pod_of(told or spec(), found, community="physics", namespace="ns")


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["spec"]["containers"]
    return dict(only)


def env(found: dict[str, Any]) -> dict[str, str]:
    """Variables with their values, or with the field that fills them."""
    rows = container(found)["env"]
    assert len({row["name"] for row in rows}) == len(rows), "a variable is there twice"
    return {
        row["name"]: row["value"] if "value" in row else f"<{row['valueFrom']['fieldRef']['fieldPath']}>"
        for row in rows
    }


def mounts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each path in the container with what is mounted there and how."""
    volumes = {
        row["name"]: {key: row[key] for key in row if key != "name"} for row in found["spec"]["volumes"]
    }
    rows = container(found)["volumeMounts"]
    assert len({row["mountPath"] for row in rows}) == len(rows) == len(volumes)
    return {
        row["mountPath"]: {
            **volumes[row["name"]],
            **{key: row[key] for key in row if key not in ("name", "mountPath")},
        }
        for row in rows
    }


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, however deep."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key, each
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
