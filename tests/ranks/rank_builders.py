"""Builders for tests of sets of ranks: they fill what does not matter, so that a test shows what does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from glidepath.cluster.kubernetes.pod import CONTAINER, anchor_of, pod_of
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.config.checks import own_values
from glidepath.config.tables import rebuilt
from glidepath.core.place.rank import RankSet, Seat, SetKey, Work
from glidepath.core.quantity import NodeName, Resources
from glidepath.kube.shapes import Decoder, Named, Pod

UID = "uid-of-the-set"
WALL = datetime(2030, 1, 1, 10, 0, tzinfo=UTC).timestamp()
_PODS, _ANCHORS = Decoder(Pod), Decoder(Named)


class Kind:
    """The kind as a configuration file meets it."""

    Settings = KubernetesClusterSettings


def settings(**said: Any) -> KubernetesClusterSettings:
    """Through the very steps that a configuration file takes."""
    return rebuilt(KubernetesClusterSettings, own_values(Kind, said))


def work(**more: Any) -> Work:
    return Work(**{"command": ("python3", "train.py"), "image": "images.example.org/lab/torch:2", **more})


def ranks(*, nodes: tuple[str, ...] = ("n1",), **more: Any) -> RankSet:
    own = {
        name: more.pop(name) for name in tuple(more) if name in Work.__dataclass_fields__ and name != "name"
    }
    return RankSet(
        **{
            "key": SetKey("7.2"),
            "seats": tuple(Seat(NodeName(node)) for node in nodes),
            "work": work(**own),
            "size": Resources(2000, 4096),
            "owner": "ada",
            **more,
        }
    )


def pod(of: RankSet, rank: int = 0, *, whole: Any = None, gpu_kind: str = "", **said: Any) -> dict[str, Any]:
    pinned = bool(said.pop("pinned", True))
    return pod_of(
        of,
        rank,
        settings(**said),
        cluster="lab",
        anchor_uid=UID,
        whole=whole,
        gpu_kind=gpu_kind,
        pinned=pinned,
    )


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["spec"]["containers"]
    return dict(only)


def env(found: dict[str, Any]) -> dict[str, str]:
    rows = container(found)["env"]
    assert len({row["name"] for row in rows}) == len(rows), "a variable is there twice"
    return {row["name"]: row.get("value", "<from the pod>") for row in rows}


def mounts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each path in the container with what is mounted there and how."""
    volumes = {row["name"]: {k: row[k] for k in row if k != "name"} for row in found["spec"]["volumes"]}
    rows = container(found)["volumeMounts"]
    assert len({row["mountPath"] for row in rows}) == len(rows)
    return {
        row["mountPath"]: {
            **volumes[row["name"]],
            **{k: row[k] for k in row if k not in ("name", "mountPath")},
        }
        for row in rows
    }


# What a cluster says of them.


def anchor_seen(of: RankSet, *, notes: dict[str, str] | None = None, whole: bool = True) -> Named:
    made = anchor_of(of, "lab")
    made["metadata"] |= {"uid": UID, "resourceVersion": "1", "creationTimestamp": stamp(0)}
    made["metadata"]["annotations"] |= {**({"glidepath/whole": "yes"} if whole else {}), **(notes or {})}
    return _ANCHORS.item(json.dumps(made).encode())


def pod_seen(
    of: RankSet,
    rank: int = 0,
    *,
    phase: str = "Pending",
    state: dict[str, Any] | None = None,
    notes: dict[str, str] | None = None,
    started: bool | None = None,
    status: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
) -> Pod:
    """A pod as the cluster shows it; `state` is that of its container."""
    made = pod(of, rank)
    made["metadata"] |= {"uid": f"uid-{rank}", "resourceVersion": "5", **(meta or {})}
    made["metadata"]["annotations"] |= notes or {}
    made["spec"]["nodeName"] = of.seats[rank].node
    statuses = [{"name": CONTAINER, "state": state or {}, "started": started}] if state is not None else []
    scheduled = {"type": "PodScheduled", "status": "True"}
    made["status"] = {
        "phase": phase,
        "conditions": [scheduled],
        "containerStatuses": statuses,
        **(status or {}),
    }
    return _PODS.item(json.dumps(made).encode())


def stamp(at_s: float) -> str:
    return datetime.fromtimestamp(WALL + at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def runs(at_s: float = 0) -> dict[str, Any]:
    return {"running": {"startedAt": stamp(at_s)}}


def ended(code: int, words: dict[str, Any] | str = "", **more: Any) -> dict[str, Any]:
    message = words if isinstance(words, str) else msgspec.json.encode(words).decode()
    times = {"startedAt": stamp(0), "finishedAt": stamp(60)}
    return {"terminated": {"exitCode": code, "message": message, "reason": "Error", **times, **more}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}
