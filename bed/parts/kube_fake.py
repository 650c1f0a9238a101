"""Nodes that are not there: node objects, and the stages by which kwok keeps them and their pods, go out.

Pods on such a node run without running anything. One that may end does so by itself, after the time that its
annotation says or that was said for all; one that is deleted is gone at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

# A pod's own time, such as `5s`; the annotation wins over what was said for all.
RUNS_FOR = "bed.invalid/runs-for"
# A pod's own end: `Failed` where it says so.
ENDS_AS = "bed.invalid/ends-as"
LABEL = "bed.invalid/fake"
HEARTBEAT_MS = 300_000

CONDITIONS = """{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
"""
INITIALIZE = """phase: Running
addresses:
- type: Hostname
  address: {{ .metadata.name | Quote }}
- type: InternalIP
  address: {{ NodeIP | Quote }}
"""
RUNNING = """{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
{{ range $type := (list "Initialized" "Ready" "ContainersReady") }}
- type: {{ $type | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""
ENDED = """{{ $now := Now }}
{{ $said := or .metadata.annotations dict }}
{{ $phase := or (index $said "ENDS_AS") "Succeeded" }}
{{ $started := .status.startTime }}
phase: {{ $phase | Quote }}
conditions:
- type: Ready
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ $now | Quote }}
- type: ContainersReady
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ $now | Quote }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{ if eq $phase "Failed" }}1{{ else }}0{{ end }}
      reason: {{ if eq $phase "Failed" }}Error{{ else }}Completed{{ end }}
      startedAt: {{ $started | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
""".replace("ENDS_AS", ENDS_AS)

READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
DELETED = ".metadata.deletionTimestamp"


def stages_text(run_s: float) -> str:
    """The stages of nodes and pods, one document each; pods that may end run for `run_s`."""
    alive = {"key": DELETED, "operator": "DoesNotExist"}
    stages = [
        stage("node-initialize", "Node", [where(READY, "NotIn", "True")], status=CONDITIONS + INITIALIZE),
        stage(
            "node-heartbeat",
            "Node",
            [where(READY, "In", "True")],
            status=CONDITIONS,
            delay={"durationMilliseconds": HEARTBEAT_MS, "jitterDurationMilliseconds": HEARTBEAT_MS + 10_000},
        ),
        stage("pod-run", "Pod", [alive, where(".status.phase", "In", "Pending")], status=RUNNING),
        stage(
            "pod-end",
            "Pod",
            [
                alive,
                where(".status.phase", "In", "Running"),
                where(".spec.restartPolicy", "In", "Never", "OnFailure"),
            ],
            status=ENDED,
            delay={
                "durationMilliseconds": round(run_s * 1000),
                "durationFrom": {"expressionFrom": f'.metadata.annotations["{RUNS_FOR}"]'},
            },
        ),
        stage("pod-delete", "Pod", [{"key": DELETED, "operator": "Exists"}]),
    ]
    return "\n---\n".join(json.dumps(one) for one in stages) + "\n"


def where(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def stage(
    name: str,
    kind: str,
    conditions: Sequence[Mapping[str, Any]],
    *,
    status: str = "",
    delay: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One step of an object's life; without a status it is the last one."""
    step: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": list(conditions)},
        "next": {"statusTemplate": status} if status else {"finalizers": {"empty": True}, "delete": True},
    }
    if delay:
        step["delay"] = dict(delay)
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": step,
    }


def node(
    name: str, *, resources: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """One node object as kwok takes it over."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                LABEL: "true",
                **labels,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"taints": list(taints)},
        "status": {"capacity": dict(resources), "allocatable": dict(resources)},
    }
