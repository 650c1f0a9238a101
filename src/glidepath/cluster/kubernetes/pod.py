"""The objects of one set of ranks: a set and settings come in, plain objects go out. Nothing is asked.

Whatever comes from a job was checked before and stands here only as the value of what it is: an argument, a
variable, an image, a path in the container. No name, no right, no source of a volume is made of it.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import msgspec

from glidepath.cluster.kubernetes import keeper
from glidepath.cluster.kubernetes.checked import image_of
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.core.place.rank import RankSet, rank_file, split_key, variables
from glidepath.core.quantity import Resources
from glidepath.core.text import one_line
from glidepath.kube.intent import label
from glidepath.kube.pod import literal, node_term, toleration
from glidepath.kube.settings import PREFIX, TolerationSettings

Object = dict[str, Any]

CLUSTER, SET, RANK, EXCLUSIVE = f"{PREFIX}cluster", f"{PREFIX}set", f"{PREFIX}rank", f"{PREFIX}exclusive"
INTENT, OWNER, PROJECT, NAME = f"{PREFIX}intent", f"{PREFIX}owner", f"{PREFIX}project", f"{PREFIX}job-name"
# What may change while a set lives. The first six are files in its pods.
GO, STOP, LIMIT, NOTICE, HOSTS, PEERS = (
    f"{PREFIX}{word}" for word in ("go", "stop", "limit", "notice", "hosts", "peers")
)
WHOLE, VERDICT = f"{PREFIX}whole", f"{PREFIX}verdict"
# The number of the job, on pods that are separated from others: all that policies select by.
JOB = f"{PREFIX}job"
CONTAINER = "job"
WORK = "/work"
DIGEST_LETTERS = 16
NAME_LETTERS_MAX = 100
# The keeper has its own grace; what the cluster gives on top is for writing the last words.
LEAVE_S = 15
PROBE_S_MAX = 5
PATHS_SHOWN_LETTERS_MAX = 100
SECRET_MODE = 0o440
TOOLS_MIB = 16


class Intent(msgspec.Struct, frozen=True):
    """What stands on a set for us to know it again."""

    key: str
    digest: str
    ranks: int
    grace_s: int
    gather_s: int
    log_bytes_max: int
    checks: tuple[str, ...] = ()  # paths of volumes and files, as the keeper numbers them
    peers: tuple[int, ...] = ()  # numbers of jobs that it is beside


def anchor_name(key: str) -> str:
    job, attempt = split_key(key)
    return f"gp-{job}-{attempt}"


def pod_name(key: str, rank: int) -> str:
    return f"{anchor_name(key)}-{rank}"


def hosts_of(ranks: RankSet) -> tuple[str, ...]:
    """Names that every pod of the namespace can resolve, for as long as the set lives."""
    anchor = anchor_name(ranks.key)
    return tuple(f"{pod_name(ranks.key, rank)}.{anchor}" for rank in range(len(ranks.seats)))


def digest(ranks: RankSet) -> str:
    """Equal for a repeated request; other for anything else under the same key."""
    facts = astuple(ranks)
    # As it was before there were peers: what was half made by an older glidepath is gone on with.
    facts = facts if ranks.peers else facts[:-1]
    return hashlib.sha256(repr(facts).encode("utf-8", "replace")).hexdigest()[:DIGEST_LETTERS]


def anchor_of(ranks: RankSet, cluster: str, *, log_bytes_max: int = 1 << 30) -> Object:
    """A headless Service: through it the names of ranks resolve, and with it everything of the set goes."""
    checks = (*(each.path for each in ranks.work.volumes), *(each.path for each in ranks.work.files))
    intent = Intent(
        ranks.key,
        digest(ranks),
        len(ranks.seats),
        ranks.grace_s,
        ranks.gather_s_max,
        min(ranks.log_bytes_max, log_bytes_max),
        tuple(one_line(path, letters_max=PATHS_SHOWN_LETTERS_MAX) for path in checks),
        ranks.peers,
    )
    made: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": anchor_name(ranks.key),
            "labels": _labels(ranks, cluster),
            "annotations": {**_about(ranks), INTENT: msgspec.json.encode(intent).decode()},
        },
        "spec": {
            "clusterIP": "None",
            # Ranks look for each other before they are ready.
            "publishNotReadyAddresses": True,
            "selector": {CLUSTER: cluster, SET: ranks.key},
        },
    }
    if ranks.work.ports:
        made["spec"]["ports"] = [{"name": f"port-{port}", "port": port} for port in ranks.work.ports]
    return made


def secret_of(ranks: RankSet, cluster: str, anchor_uid: str) -> Object:
    """The files of the job, which may be private."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{anchor_name(ranks.key)}-files",
            "labels": _labels(ranks, cluster),
            "ownerReferences": [_owner(ranks, anchor_uid)],
        },
        "immutable": True,
        "type": "Opaque",
        "stringData": {f"f{number}": file.content for number, file in enumerate(ranks.work.files)},
    }


def pod_of(
    ranks: RankSet,
    rank: int,
    settings: KubernetesClusterSettings,
    *,
    cluster: str,
    anchor_uid: str,
    whole: Resources | None = None,
    gpu_kind: str = "",
    pinned: bool = True,
    peers: str = "",
) -> Object:
    """`whole` is what a node has to give to us, for a job that shares it with nobody; `peers` is a file."""
    mounts, volumes = _volumes(ranks, settings)
    container: Object = {
        "name": CONTAINER,
        "image": image_of(ranks.work, settings),
        "imagePullPolicy": settings.pull_policy,
        "command": [f"{keeper.TOOLS}/sh" if settings.tools else "/bin/sh", "-c", literal(keeper.SCRIPT)],
        "args": [literal(word) for word in (*_keeper_words(ranks), *ranks.work.command)],
        "workingDir": "/",
        "resources": _resources(ranks, settings, whole=whole, gpu_kind=gpu_kind),
        "env": _env(ranks, rank, settings),
        "securityContext": _CONFINED,
        "volumeMounts": mounts,
        "terminationMessagePolicy": "File",
    }
    if ranks.work.ports:
        container["ports"] = [{"containerPort": port} for port in ranks.work.ports]
    if len(ranks.seats) > 1:
        container["startupProbe"] = _probe(ranks, settings)
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": ranks.grace_s + LEAVE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": pod_name(ranks.key, rank),
        "subdomain": anchor_name(ranks.key),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user,
            "runAsGroup": settings.user,
            "fsGroup": settings.user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
        **_placed(ranks, rank, settings, pinned=pinned),
    }
    if settings.tools:
        spec["initContainers"] = [_bringer(settings)]
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(ranks, rank, cluster, anchor_uid, peers=peers, apart=settings.network.separate),
        "spec": spec,
    }


def _meta(ranks: RankSet, rank: int, cluster: str, anchor_uid: str, *, peers: str, apart: bool) -> Object:
    labels = {**_labels(ranks, cluster), RANK: str(rank)}
    if apart:
        labels[JOB] = str(split_key(ranks.key)[0])
    notes = {
        **_about(ranks),
        LIMIT: "" if ranks.limit_s is None else str(ranks.limit_s),
        HOSTS: rank_file(hosts_of(ranks)),
        # A rank that is alone has nobody to wait for.
        **({GO: "yes"} if len(ranks.seats) == 1 else {}),
        **({PEERS: peers} if peers else {}),
    }
    return {
        "name": pod_name(ranks.key, rank),
        "labels": labels | ({EXCLUSIVE: "yes"} if ranks.exclusive else {}),
        "annotations": notes,
        "ownerReferences": [_owner(ranks, anchor_uid)],
    }


_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _owner(ranks: RankSet, uid: str) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "name": anchor_name(ranks.key), "uid": uid}


def _labels(ranks: RankSet, cluster: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "glidepath-job",
        "app.kubernetes.io/managed-by": "glidepath",
        CLUSTER: cluster,
        SET: ranks.key,
        OWNER: label(ranks.owner),
    }


def _about(ranks: RankSet) -> dict[str, str]:
    """For people who look with `kubectl`."""
    told = {OWNER: ranks.owner, PROJECT: ranks.project, NAME: ranks.name}
    return {key: one_line(text, letters_max=NAME_LETTERS_MAX) for key, text in told.items() if text}


def _keeper_words(ranks: RankSet) -> tuple[str, ...]:
    """What the keeper is told besides its command: times, the folder, and what has to be there."""
    work = ranks.work
    checks: list[str] = []
    for volume in work.volumes:
        checks += ["volume", "r" if volume.read_only else "w", volume.path]
    for number, file in enumerate(work.files):
        sum_of = hashlib.sha256(file.content.encode()).hexdigest()
        checks += ["file", f"f{number}", f"{file.mode:o}", sum_of, posixpath.normpath(file.path)]
    return (
        "glidepath",
        keeper.TOLD,
        keeper.FILES,
        keeper.LAST_WORDS,
        str(ranks.grace_s),
        str(ranks.gather_s_max),
        work.workdir or WORK,
        str(ranks.notice_s),
        ranks.notice_signal.removeprefix("SIG"),
        str(len(work.volumes) + len(work.files)),
        *checks,
    )


def _probe(ranks: RankSet, settings: KubernetesClusterSettings) -> Object:
    """Started is a rank whose files and command were found: the others wait for that."""
    shell = f"{keeper.TOOLS}/sh" if settings.tools else "/bin/sh"
    return {
        "exec": {"command": [shell, "-c", keeper.READY]},
        "periodSeconds": 1,
        "timeoutSeconds": PROBE_S_MAX,
        # The keeper gives up first, and says why.
        "failureThreshold": max(1, ranks.gather_s_max) + LEAVE_S,
    }


def _bringer(settings: KubernetesClusterSettings) -> Object:
    links = "; ".join(f"ln -s busybox {keeper.TOOLS}/{name}" for name in keeper.APPLETS)
    amounts = {"cpu": "10m", "memory": f"{TOOLS_MIB}Mi"}
    return {
        "name": "tools",
        "image": settings.tools,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/bin/busybox", "sh", "-c", f"cp /bin/busybox {keeper.TOOLS}/busybox && {{ {links}; }}"],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": _CONFINED,
        "volumeMounts": [{"name": "tools", "mountPath": keeper.TOOLS}],
    }


def _resources(
    ranks: RankSet, settings: KubernetesClusterSettings, *, whole: Resources | None, gpu_kind: str
) -> Object:
    """Requests are limits, as the scheduler has counted them."""
    size = ranks.size
    if ranks.exclusive and whole is not None:
        # All that is left there, so that the kube-scheduler puts nobody else on the node.
        size = Resources(*map(max, size.as_tuple(), (*whole.as_tuple()[:2], size.disk_mib, size.gpus)))
    found = {"cpu": f"{size.cpu_milli}m", "memory": f"{size.memory_mib}Mi"}
    if size.disk_mib:
        found["ephemeral-storage"] = f"{size.disk_mib}Mi"
    if size.gpus:
        found[settings.gpu_kinds.get(gpu_kind, settings.gpu_resource)] = str(size.gpus)
    elif ranks.gpu_milli and settings.gpu_share is not None:
        share = settings.gpu_share
        found[share.resource] = str(-(-ranks.gpu_milli * share.parts // 1000))
    for name, count in ranks.counted:
        if count:
            found[settings.counted[name]] = str(count)
    return {"requests": found, "limits": dict(found)}


def _placed(ranks: RankSet, rank: int, settings: KubernetesClusterSettings, *, pinned: bool) -> Object:
    """Bound to the node that was chosen, but by the kube-scheduler, who knows the pods of others."""
    found: Object = {}
    term = node_term(list(settings.nodes_of), ())
    if pinned:
        only = {"key": "metadata.name", "operator": "In", "values": [ranks.seats[rank].node]}
        term = {**term, "matchFields": [only]}
    affinity: Object = {}
    if term:
        needed = {"nodeSelectorTerms": [term]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": needed}
    if ranks.exclusive:
        # It holds both ways: pods of ours that come later are kept away from one that is there.
        terms = [
            {
                "labelSelector": {
                    "matchExpressions": [
                        {"key": CLUSTER, "operator": "Exists"},
                        {"key": SET, "operator": "NotIn", "values": [ranks.key]},
                    ]
                },
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if affinity:
        found["affinity"] = affinity
    lost = [
        TolerationSettings.model_construct(
            key=f"node.kubernetes.io/{word}", value=None, effect="NoExecute", within=settings.lost_after
        )
        for word in ("not-ready", "unreachable")
    ]
    found["tolerations"] = [toleration(each) for each in (*settings.tolerations, *lost)]
    if settings.priority_class:
        found["priorityClassName"] = settings.priority_class
    if ranks.runtime:
        found["runtimeClassName"] = settings.runtimes[ranks.runtime].runtime_class
    return found


def _env(ranks: RankSet, rank: int, settings: KubernetesClusterSettings) -> list[Object]:
    told = variables(ranks, rank, hosts_of(ranks))
    # Which devices a container sees is for the cluster's own plug-in to say.
    told.pop("GLIDEPATH_GPUS", None)
    told["GLIDEPATH_RANK_FILE"] = f"{keeper.TOLD}/hosts"
    # Others may come to be beside it while it runs, so that a variable would soon be wrong.
    told["GLIDEPATH_PEER_FILE"] = f"{keeper.TOLD}/peers"
    if settings.tools:
        told["GLIDEPATH_TOOLS"] = keeper.TOOLS
    usual: Mapping[str, str] = {"HOME": ranks.work.workdir or WORK, **settings.env}
    values = {**usual, **dict(ranks.work.env), **told}
    rows: list[Object] = [{"name": name, "value": literal(value)} for name, value in sorted(values.items())]
    node = {"name": "GLIDEPATH_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return [*rows, node]


def _volumes(ranks: RankSet, settings: KubernetesClusterSettings) -> tuple[list[Object], list[Object]]:
    mounts: list[Object] = []
    volumes: list[Object] = []

    def add(name: str, path: str, source: Object, **mount: Any) -> None:
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": path, **mount})

    rows = [
        {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
        for file, key in zip(keeper.TOLD_FILES, (GO, STOP, LIMIT, NOTICE, HOSTS, PEERS), strict=True)
    ]
    add("told", keeper.TOLD, {"downwardAPI": {"items": rows}}, readOnly=True)
    mounted = {posixpath.normpath(each.path) for each in ranks.work.volumes}
    if WORK not in mounted:
        room = {"sizeLimit": f"{ranks.size.disk_mib}Mi"} if ranks.size.disk_mib else {}
        add("work", WORK, {"emptyDir": room})
    if ranks.work.shm_mib:
        add("shm", "/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": f"{ranks.work.shm_mib}Mi"}})
    if ranks.work.files:
        source = {"secretName": f"{anchor_name(ranks.key)}-files", "defaultMode": SECRET_MODE}
        add("files", keeper.FILES, {"secret": source}, readOnly=True)
    if settings.tools:
        volumes.append({"name": "tools", "emptyDir": {}})
        mounts.append({"name": "tools", "mountPath": keeper.TOOLS, "readOnly": True})
    _add_claims(ranks, settings, mounts, volumes)
    return mounts, volumes


def _add_claims(
    ranks: RankSet, settings: KubernetesClusterSettings, mounts: list[Object], volumes: list[Object]
) -> None:
    """A claim stands once in a pod, however often it is mounted: with two, a kubelet waits for ever."""
    claims: dict[str, Object] = {}
    for number, volume in enumerate(ranks.work.volumes):
        known = settings.volumes[volume.name]
        read_only = volume.read_only or known.read_only
        source = {"claimName": known.claim, "readOnly": read_only}
        row = claims.setdefault(known.claim, {"name": f"volume-{number}", "persistentVolumeClaim": source})
        row["persistentVolumeClaim"]["readOnly"] &= read_only
        mount = {"name": row["name"], "mountPath": posixpath.normpath(volume.path), "readOnly": read_only}
        mounts.append({**mount, "subPath": known.below} if known.below else mount)
    volumes += claims.values()


def intent_of(text: str) -> Intent:
    """Raises ValueError where this is not what we wrote."""
    try:
        found = msgspec.json.decode(text, type=Intent)
        split_key(found.key)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        said = one_line(str(error)) or type(error).__name__
        raise ValueError(f"the annotation `{INTENT}` is not ours: {said}") from None
    return found


def written_verdict(cause: str, why: str, rank: int) -> str:
    return json.dumps({"cause": cause, "why": one_line(why, letters_max=400), "rank": rank})
