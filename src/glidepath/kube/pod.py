"""The pod of one pilot: a specification and settings go in, a plain object comes out. Nothing is asked.

Whatever comes from jobs reaches a pod only as the value of a trait that the offer lists, and there only
through the tables of the settings: no path, no volume, no right and no name of an object is made of it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import Any

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import NodeName
from glidepath.kube import presets
from glidepath.kube.intent import ATTRIBUTES, DRAIN, SETTINGS, annotations_of, labels_of, node_named
from glidepath.kube.settings import (
    NEVER_SET,
    SHM,
    TOKEN_FOLDERS,
    USERS,
    GpuSettings,
    NodeTermSettings,
    PodSettings,
    TolerationSettings,
)
from glidepath.kube.states import CONTAINER

Object = dict[str, Any]

GRACE_S = 1200
# What a pilot needs after that to give its jobs back; killed before, they would be missed for many minutes.
LEAVE_S = 45
# Beyond its lifetime and grace a pod is ended by the cluster itself, should everything else have failed.
OVERDUE_S = 900
DEADLINE_S_MAX = 2**31 - 1
# What is written to the log counts as disk of the pod, and must not cost jobs theirs.
LOG_MIB = 100
PRP_CPU_MORE_MILLI, PRP_MEMORY_MORE_MIB = 250, 1000
SECRET_MODE = 0o440


def pod_of(spec: PilotSpec, settings: PodSettings, *, community: str = "", namespace: str = "") -> Object:
    told = presets.PRESETS[settings.preset](spec, settings, namespace)
    grace_s = _grace_s(spec)
    written = {**settings.annotations, **annotations_of(spec)}
    if told.settings:
        written[SETTINGS] = json.dumps(dict(told.settings), sort_keys=True)
    if told.attributes:
        written[ATTRIBUTES] = told.attributes
    mounts, volumes = _volumes(spec, settings, told)
    container: Object = {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "resources": _resources(spec, settings),
        "env": _env(settings, told),
        "securityContext": _container_security(settings),
        "volumeMounts": mounts,
        # The last lines of the log, where the pilot could leave no word of its own.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if told.arguments:
        container["args"] = [literal(word) for word in told.arguments]
    lives_s = max(spec.lifetime_s, told.lives_s)
    pod_spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s + LEAVE_S,
        "activeDeadlineSeconds": min(lives_s + grace_s + OVERDUE_S, DEADLINE_S_MAX),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _pod_security(settings),
        "containers": [container],
        "volumes": volumes,
        **_placed(spec, settings),
    }
    if settings.user_namespace:
        pod_spec["hostUsers"] = False
    if settings.pull_secrets:
        pod_spec["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": spec.name,
            "labels": {**settings.labels, **told.labels, **labels_of(spec, community)},
            "annotations": written,
        },
        "spec": pod_spec,
    }


def secret_of(spec: PilotSpec, owner_uid: str) -> Object:
    """The pilot's own tokens; the cluster removes them with the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(spec),
            "labels": labels_of(spec, ""),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": spec.name, "uid": owner_uid, "controller": True}
            ],
        },
        "immutable": True,
        "type": "Opaque",
        "stringData": dict(spec.secrets),
    }


def secret_name(spec: PilotSpec) -> str:
    return f"{spec.name}-token"


def _grace_s(spec: PilotSpec) -> int:
    said = dict(spec.join).get("GLIDEPATH_GRACE_S", "")
    return int(said) if said.isdecimal() else GRACE_S


def _resources(spec: PilotSpec, settings: PodSettings) -> Object:
    """Requests and limits. What is counted, and disk, is alike in both, as Kubernetes demands of devices."""
    size = spec.size
    asked = (size.cpu_milli, size.memory_mib)
    allowed = asked
    if settings.overhead == "prp":
        asked = (size.cpu_milli * 3 // 4, size.memory_mib * 4 // 5)
        allowed = (size.cpu_milli + PRP_CPU_MORE_MILLI, size.memory_mib + PRP_MEMORY_MORE_MIB)
    elif settings.overhead == "prp-even":
        asked = allowed = (size.cpu_milli, size.memory_mib + PRP_MEMORY_MORE_MIB)
    further: Object = dict(settings.resources)
    more_mib = LOG_MIB if settings.overhead == "none" and size.disk_mib else 0
    storage_mib = settings.storage or size.disk_mib + more_mib
    if storage_mib:
        further["ephemeral-storage"] = f"{storage_mib}Mi"
    if size.gpus:
        further[_gpus(spec, settings).resource] = str(size.gpus)
    return {
        name: {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi", **further}
        for name, (cpu_milli, memory_mib) in (("requests", asked), ("limits", allowed))
    }


def _gpus(spec: PilotSpec, settings: PodSettings) -> GpuSettings:
    return settings.gpu_types.get(dict(spec.traits).get("gpu_type", ""), settings.gpus)


def _placed(spec: PilotSpec, settings: PodSettings) -> Object:
    """Where it may run."""
    found: Object = {}
    terms = [*settings.nodes, *(_gpus(spec, settings).nodes if spec.size.gpus else ())]
    arch = dict(spec.traits).get("arch")
    if arch in ARCHITECTURES:
        terms.append(NodeTermSettings(key="kubernetes.io/arch", any_of=(ARCHITECTURES[arch],)))
    term = node_term(terms, spec.avoid)
    if term:
        needed = {"nodeSelectorTerms": [term]}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}
    if settings.tolerations:
        found["tolerations"] = [toleration(each) for each in settings.tolerations]
    priority = (settings.priority_class_gpu if spec.size.gpus else "") or settings.priority_class
    if priority:
        found["priorityClassName"] = priority
    runtime = settings.runtime_class or ("kata" if settings.level == "kata" else "")
    if runtime:
        found["runtimeClassName"] = runtime
    return found


# Names of architectures as HTCondor and Linux have them, and as Kubernetes has them.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le"}


def node_term(terms: list[NodeTermSettings], avoid: tuple[NodeName, ...]) -> Object:
    found: Object = {"matchExpressions": [_expression(each) for each in terms]} if terms else {}
    # A name that no node can have would make the cluster refuse the whole pod.
    nodes = sorted({node for node in avoid if node_named(node)})
    if nodes:
        # The field takes one value each.
        found["matchFields"] = [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes
        ]
    return found


def _expression(each: NodeTermSettings) -> Object:
    if each.exists is not None:
        return {"key": each.key, "operator": "Exists" if each.exists else "DoesNotExist"}
    return {
        "key": each.key,
        "operator": "In" if each.any_of else "NotIn",
        "values": [*each.any_of, *each.none_of],
    }


def toleration(each: TolerationSettings) -> Object:
    found: Object = {"key": each.key, "operator": "Exists" if each.value is None else "Equal"}
    if each.value is not None:
        found["value"] = each.value
    if each.effect:
        found["effect"] = each.effect
    if each.within:
        found["tolerationSeconds"] = each.within
    return found


def _open(settings: PodSettings) -> bool:
    """Whether containers run inside the container, which the usual filters do not let through."""
    return settings.level in ("apptainer", "image")


def _pod_security(settings: PodSettings) -> Object:
    found: Object = {"seccompProfile": {"type": "Unconfined" if _open(settings) else "RuntimeDefault"}}
    if _open(settings):
        found["appArmorProfile"] = {"type": "Unconfined"}
    user = settings.user or (None if settings.level == "image" else USERS[settings.preset])
    if user is None:
        return found
    return {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user, **found}


def _container_security(settings: PodSettings) -> Object:
    found: Object = {"readOnlyRootFilesystem": settings.preset == "glidepath"}
    if settings.level != "image":
        found |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if _open(settings) and settings.user_namespace:
        found["procMount"] = "Unmasked"
    return found


def _env(settings: PodSettings, told: presets.Told) -> list[Object]:
    """What the pod needs goes before what the settings say, and that before what is only usual."""
    needed = {**told.env, **told.fields}
    left_out = {*needed, *NEVER_SET.get(settings.preset, {})}
    said = {name: value for name, value in settings.env.items() if name not in left_out}
    values: Mapping[str, str] = {**told.usual, **said, **told.env}
    rows: list[Object] = [{"name": name, "value": literal(value)} for name, value in values.items()]
    rows += [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}} for name, field in told.fields.items()
    ]
    return sorted(rows, key=lambda row: str(row["name"]))


def literal(text: str) -> str:
    """So that a container sees what is written: `$(NAME)` would be replaced by what a variable holds.

    A trait of a job could have read another's secret that way. Half a surrogate has no form on the wire.
    """
    return text.replace("$", "$$").encode("utf-8", "replace").decode()


def _volumes(spec: PilotSpec, settings: PodSettings, told: presets.Told) -> tuple[list[Object], list[Object]]:
    mounts: list[Object] = []
    volumes: list[Object] = []

    def add(name: str, path: str, source: Object, **mount: Any) -> None:
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": path, **mount})

    theirs = {posixpath.normpath(claim.path) for claim in settings.claims}
    for name, path in told.scratch:
        if path not in theirs:
            room = {"sizeLimit": f"{spec.size.disk_mib}Mi"} if spec.size.disk_mib else {}
            add(name, path, {"emptyDir": room})
    if settings.shm:
        add("shm", SHM, {"emptyDir": {"medium": "Memory", "sizeLimit": f"{settings.shm}Mi"}})
    if told.settings:
        add("told", presets.TOLD, _written({"settings.json": SETTINGS, "drain": DRAIN}), readOnly=True)
    if told.attributes:
        file = posixpath.basename(presets.OSG_ATTRIBUTES)
        add("told", presets.OSG_ATTRIBUTES, _written({file: ATTRIBUTES}), readOnly=True, subPath=file)
    if source := _token(spec, settings, told):
        add("tokens", TOKEN_FOLDERS[settings.preset], source, readOnly=True)
    for number, claim in enumerate(settings.claims):
        mount: Object = {"readOnly": claim.read_only}
        if claim.shares_mounts:
            mount["mountPropagation"] = "HostToContainer"
        source = {"persistentVolumeClaim": {"claimName": claim.claim, "readOnly": claim.read_only}}
        add(f"claim-{number}", claim.path, source, **mount)
    for number, each in enumerate(settings.configs):
        mount = {"subPath": each.key} if each.key else {}
        add(f"config-{number}", each.path, {"configMap": {"name": each.name}}, readOnly=True, **mount)
    for number, each in enumerate(settings.secrets):
        mount = {"subPath": each.key} if each.key else {}
        source = {"secret": {"secretName": each.name, "defaultMode": SECRET_MODE}}
        add(f"secret-{number}", each.path, source, readOnly=True, **mount)
    return mounts, volumes


def _written(files: Mapping[str, str]) -> Object:
    """Annotations of the pod as files in it."""
    rows = [
        {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
        for file, key in files.items()
    ]
    return {"downwardAPI": {"items": rows}}


def _token(spec: PilotSpec, settings: PodSettings, told: presets.Told) -> Object:
    """The volume with the token, under the name by which the image looks for it; empty without any."""
    key = settings.token_key
    if not settings.token_secret:
        if not spec.secrets:
            return {}
        key = spec.secrets[0][0] if told.token_file else ""
    source: Object = {
        "secretName": settings.token_secret or secret_name(spec),
        "defaultMode": SECRET_MODE,
    }
    if key:
        source["items"] = [{"key": key, "path": told.token_file or key}]
    return {"secret": source}
