"""Pods as an apiserver sends them, and what is told of each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.provision.pilot import SiteState
from glidepath.kube.shapes import Decoder, Pod
from glidepath.kube.states import STATES, PodStory, Told, story

DECODER = Decoder(Pod)
CREATED, SCHEDULED = "2030-01-01T10:00:00Z", "2030-01-01T10:00:05Z"
STARTED, FINISHED, DELETED = "2030-01-01T10:01:00Z", "2030-01-01T11:00:00Z", "2030-01-01T11:20:00Z"


def pod(phase: str = "Running", **status: Any) -> dict[str, Any]:
    """A whole pod with a status; `node` and `deleted` stand elsewhere in it."""
    node, deleted = status.pop("node", "n1"), status.pop("deleted", False)
    meta = {"name": "p1", "uid": "u1", "resourceVersion": "7", "creationTimestamp": CREATED}
    if deleted:
        meta |= {"deletionTimestamp": DELETED, "deletionGracePeriodSeconds": 1200}
    spec = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": phase, **status},
    }


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    found = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": SCHEDULED}
    return found | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def ours(state: dict[str, Any], name: str = "pilot") -> dict[str, Any]:
    return {
        "name": name,
        "ready": "running" in state,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": state,
    }


def waiting(reason: str, message: str = "", *, name: str = "pilot") -> dict[str, Any]:
    return ours({"waiting": {"reason": reason} | ({"message": message} if message else {})}, name)


def ended(
    code: int, reason: str = "Error", message: str = "", *, name: str = "pilot", **more: Any
) -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason, "startedAt": STARTED, "finishedAt": FINISHED, **more}
    return ours({"terminated": state | ({"message": message} if message else {})}, name)


def told(table: dict[str, Any]) -> PodStory:
    return story(DECODER.item(json.dumps(table).encode()))


RUNNING = ours({"running": {"startedAt": STARTED}})
PLACED = [condition("PodScheduled")]
READY = [*PLACED, condition("Ready"), condition("ContainersReady")]
UNREADY = [
    *PLACED,
    condition("Ready", "False", "ContainersNotReady", "containers with unready status: [pilot]"),
]
NO_NODES = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available."
GATED = "Scheduling is blocked due to non-empty scheduling gates"
BACK_OFF = 'Back-off pulling image "registry.example/none:1"'
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi."
SHUT = "Pod was terminated in response to imminent node shutdown."
DEADLINE = "Pod was active on the node longer than the specified deadline"


def disrupted(reason: str, message: str) -> dict[str, Any]:
    return condition("DisruptionTarget", "True", reason, message)


def summary(why: str, *, ok: bool, run: int = 0, failed: int = 0) -> str:
    found = {
        "name": "p1",
        "why": why,
        "ok": ok,
        "jobs_run": run,
        "jobs_failed": failed,
        "busy_s": 9,
        "idle_s": 1,
    }
    return json.dumps(found)


P, R, L, E, F, U = (
    SiteState.PENDING,
    SiteState.RUNNING,
    SiteState.LEAVING,
    SiteState.ENDED,
    SiteState.FAILED,
    SiteState.UNKNOWN,
)

BEFORE = {
    "just created": (pod("Pending", node=""), Told.WAITING, P, ""),
    "unschedulable": (
        pod("Pending", node="", conditions=[condition("PodScheduled", "False", "Unschedulable", NO_NODES)]),
        *(Told.UNSCHEDULABLE, P, NO_NODES),
    ),
    "gated": (
        pod("Pending", node="", conditions=[condition("PodScheduled", "False", "SchedulingGated", GATED)]),
        *(Told.WAITING, P, GATED),
    ),
    "placed, not seen by the kubelet": (pod("Pending", conditions=PLACED), Told.STARTING, P, ""),
    "waits for a mount": (
        pod(
            "Pending",
            conditions=[*PLACED, condition("PodReadyToStartContainers", "False")],
            containerStatuses=[waiting("ContainerCreating")],
        ),
        *(Told.STARTING, P, "ContainerCreating"),
    ),
    "waits for an init container of the cluster": (
        pod("Pending", conditions=PLACED, containerStatuses=[waiting("PodInitializing")]),
        *(Told.STARTING, P, "PodInitializing"),
    ),
    "fetches the image": (
        pod(
            "Pending",
            conditions=[*PLACED, condition("PodReadyToStartContainers")],
            containerStatuses=[waiting("ContainerCreating")],
        ),
        *(Told.PULLING, P, "ContainerCreating"),
    ),
    "first try at the image": (
        pod("Pending", conditions=PLACED, containerStatuses=[waiting("ErrImagePull", "not found")]),
        *(Told.PULLING, P, "ErrImagePull: not found"),
    ),
    "image missing": (
        pod("Pending", conditions=PLACED, containerStatuses=[waiting("ImagePullBackOff", BACK_OFF)]),
        *(Told.PULL_FAILED, F, f"ImagePullBackOff: {BACK_OFF}"),
    ),
    "image without a name": (
        pod("Pending", conditions=PLACED, containerStatuses=[waiting("InvalidImageName", "bad")]),
        *(Told.PULL_FAILED, F, "InvalidImageName: bad"),
    ),
    "secret missing": (
        pod(
            "Pending",
            conditions=PLACED,
            containerStatuses=[waiting("CreateContainerConfigError", 'secret "x" not found')],
        ),
        *(Told.NOT_STARTABLE, F, 'CreateContainerConfigError: secret "x" not found'),
    ),
    "deleted before it had a node": (pod("Pending", node="", deleted=True), Told.TERMINATING, L, ""),
}

DURING = {
    "running": (pod(conditions=READY, containerStatuses=[RUNNING]), Told.RUNNING, R, ""),
    "running, no statuses": (pod(), Told.RUNNING, R, ""),
    "running beside one that is not ready": (
        pod(conditions=UNREADY, containerStatuses=[ours({"waiting": {}}, "proxy"), RUNNING]),
        *(Told.RUNNING, R, ""),
    ),
    "only the neighbour runs": (
        pod(
            conditions=UNREADY,
            containerStatuses=[
                ours({"running": {"startedAt": STARTED}}, "proxy"),
                waiting("ImagePullBackOff", "no"),
            ],
        ),
        *(Told.PULL_FAILED, F, "ImagePullBackOff: no"),
    ),
    "ended, the neighbour runs": (
        pod(
            conditions=UNREADY,
            containerStatuses=[
                ours({"running": {}}, "proxy"),
                ended(0, "Completed", summary("idle", ok=True, run=3)),
            ],
        ),
        *(Told.COMPLETED, E, "idle, 3 jobs run"),
    ),
    "node silent": (
        pod(conditions=[*PLACED, condition("Ready", "False")], containerStatuses=[RUNNING]),
        *(Told.NODE_LOST, U, "its node does not answer"),
    ),
    "node lost, as old clusters say": (
        pod(
            reason="NodeLost",
            message="Node n1 which was running pod p1 is unresponsive",
            containerStatuses=[RUNNING],
        ),
        *(Told.NODE_LOST, U, "NodeLost: Node n1 which was running pod p1 is unresponsive"),
    ),
    "node silent, then deleted": (
        pod(
            deleted=True,
            conditions=[
                condition("Ready", "False"),
                disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
            ],
            containerStatuses=[RUNNING],
        ),
        *(Told.NODE_LOST, U, "DeletionByTaintManager: Taint manager: deleting due to NoExecute taint"),
    ),
    "tainted away from a node that lives": (
        pod(
            deleted=True,
            conditions=[*READY, disrupted("DeletionByTaintManager", "Taint manager: deleting")],
            containerStatuses=[RUNNING],
        ),
        *(Told.TERMINATING, L, "DeletionByTaintManager: Taint manager: deleting"),
    ),
    "deleted": (pod(deleted=True, conditions=READY, containerStatuses=[RUNNING]), Told.TERMINATING, L, ""),
    "being preempted": (
        pod(
            deleted=True,
            conditions=[*READY, disrupted("PreemptionByScheduler", "default-scheduler: preempting")],
            containerStatuses=[RUNNING],
        ),
        *(Told.TERMINATING, L, "PreemptionByScheduler: default-scheduler: preempting"),
    ),
    "being drained": (
        pod(
            deleted=True,
            conditions=[*READY, disrupted("EvictionByEvictionAPI", "Eviction API: evicting")],
            containerStatuses=[RUNNING],
        ),
        *(Told.TERMINATING, L, "EvictionByEvictionAPI: Eviction API: evicting"),
    ),
    "left in peace while it is deleted": (
        pod(deleted=True, containerStatuses=[ended(0, "Completed", summary("stopped", ok=True, run=1))]),
        *(Told.COMPLETED, E, "stopped, 1 job run"),
    ),
    "told to go by a drain, and left in peace": (
        pod(
            deleted=True,
            conditions=[disrupted("EvictionByEvictionAPI", "Eviction API: evicting")],
            containerStatuses=[ended(0, "Completed", summary("stopped", ok=True))],
        ),
        *(Told.COMPLETED, E, "stopped, 0 jobs run"),
    ),
    "no phase": ({**pod(), "status": {}}, Told.UNCLEAR, U, ""),
    "odd phase": (pod("Unknown"), Told.UNCLEAR, U, "its phase is `Unknown`"),
}

IDLE = summary("idle", ok=True, run=12, failed=2)
NEVER_JOINED = summary("the collector refused its token", ok=False)
AFTER = {
    "completed": (
        pod("Succeeded", containerStatuses=[ended(0, "Completed", IDLE)]),
        *(Told.COMPLETED, E, "idle, 12 jobs run, 2 failed"),
    ),
    "completed and being deleted": (
        pod("Succeeded", deleted=True, containerStatuses=[ended(0, "Completed", IDLE)]),
        *(Told.COMPLETED, E, "idle, 12 jobs run, 2 failed"),
    ),
    "completed, no statuses": (pod("Succeeded"), Told.COMPLETED, E, ""),
    "failed with its reason": (
        pod("Failed", containerStatuses=[ended(1, message=NEVER_JOINED)]),
        *(Told.FAILED, F, "the collector refused its token, 0 jobs run"),
    ),
    "failed with a summary and another code": (
        pod("Failed", containerStatuses=[ended(3, message=IDLE)]),
        *(Told.FAILED, F, "exit code 3: idle, 12 jobs run, 2 failed"),
    ),
    "failed with a log": (
        pod("Failed", containerStatuses=[ended(2, message="usage: pilot\n  --name is missing\n")]),
        *(Told.FAILED, F, "exit code 2: usage: pilot\\n  --name is missing"),
    ),
    "failed with half a summary": (
        pod("Failed", containerStatuses=[ended(1, message=NEVER_JOINED[:30])]),
        *(Told.FAILED, F, f"exit code 1: {NEVER_JOINED[:30]}"),
    ),
    "killed by a signal": (
        pod("Failed", containerStatuses=[ended(137, signal=9)]),
        *(Told.FAILED, F, "signal 9"),
    ),
    "no such program": (
        pod("Failed", containerStatuses=[ended(128, "StartError", "exec: not found")]),
        *(Told.NOT_STARTABLE, F, "exit code 128: exec: not found"),
    ),
    "out of memory": (
        pod("Failed", containerStatuses=[ended(137, "OOMKilled")]),
        *(Told.OOM_KILLED, F, "the kernel ended it at its memory limit"),
    ),
    "evicted by its node": (
        pod(
            "Failed",
            reason="Evicted",
            message=LOW,
            conditions=[disrupted("TerminationByKubelet", LOW)],
            containerStatuses=[ended(137)],
        ),
        *(Told.EVICTED, F, LOW),
    ),
    "evicted, no statuses": (pod("Failed", reason="Evicted", message=LOW), Told.EVICTED, F, LOW),
    "drained away": (
        pod(
            "Failed",
            deleted=True,
            conditions=[disrupted("EvictionByEvictionAPI", "Eviction API: evicting")],
            containerStatuses=[ended(143)],
        ),
        *(Told.EVICTED, F, "EvictionByEvictionAPI: Eviction API: evicting"),
    ),
    "preempted": (
        pod(
            "Failed",
            deleted=True,
            conditions=[disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate")],
            containerStatuses=[ended(143)],
        ),
        *(Told.PREEMPTED, F, "PreemptionByScheduler: default-scheduler: preempting to accommodate"),
    ),
    "preempted by its kubelet": (
        pod(
            "Failed",
            reason="Preempting",
            message="Preempted in order to admit critical pod",
            conditions=[disrupted("TerminationByKubelet", "Pod was preempted by Kubelet")],
        ),
        *(Told.PREEMPTED, F, "Preempting: Preempted in order to admit critical pod"),
    ),
    "preempted, but had ended": (
        pod("Succeeded", conditions=[disrupted("PreemptionByScheduler", "")], containerStatuses=[ended(0)]),
        *(Told.COMPLETED, E, ""),
    ),
    "node shut down in order": (
        pod(
            "Failed",
            reason="Terminated",
            message=SHUT,
            conditions=[disrupted("TerminationByKubelet", SHUT)],
            containerStatuses=[ended(143)],
        ),
        *(Told.EVICTED, F, f"Terminated: {SHUT}"),
    ),
    "not let in by a node that goes": (
        pod("Failed", reason="NodeShutdown", message="Pod was rejected as the node is shutting down."),
        *(Told.EVICTED, F, "NodeShutdown: Pod was rejected as the node is shutting down."),
    ),
    "collected with its node": (
        pod(
            "Failed", deleted=True, conditions=[disrupted("DeletionByPodGC", "PodGC: node no longer exists")]
        ),
        *(Told.NODE_LOST, F, "DeletionByPodGC: PodGC: node no longer exists"),
    ),
    "beyond its deadline": (
        pod("Failed", reason="DeadlineExceeded", message=DEADLINE, containerStatuses=[ended(137)]),
        *(Told.FAILED, F, f"DeadlineExceeded: {DEADLINE}"),
    ),
    "node was full": (
        pod("Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu"),
        *(Told.FAILED, F, "OutOfcpu: Node didn't have enough resource: cpu"),
    ),
    "device gone": (
        pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed due to no devices"),
        *(Told.FAILED, F, "UnexpectedAdmissionError: Allocate failed due to no devices"),
    ),
    "neighbour failed, ours did not": (
        pod(
            "Failed",
            containerStatuses=[ended(0, "Completed", IDLE), ours({"terminated": {"exitCode": 1}}, "x")],
        ),
        *(Told.COMPLETED, E, "idle, 12 jobs run, 2 failed"),
    ),
    "failed, nothing said": (pod("Failed"), Told.FAILED, F, ""),
    "an init container failed": (
        pod("Failed", initContainerStatuses=[ended(3, message="no such host\n", name="hook")]),
        *(Told.INIT_FAILED, F, "`hook`: exit code 3: no such host"),
    ),
}
CASES = {**BEFORE, **DURING, **AFTER}


@pytest.mark.parametrize("name", CASES)
def test_each_pod_is_told_apart(name: str) -> None:
    table, expected, state, words = CASES[name]
    found = told(table)
    assert (found.told, found.state, found.words) == (expected, state, words)
    assert found.note == (f"{expected}: {words}" if words else str(expected))


def test_every_class_has_a_state_and_a_case() -> None:
    assert set(STATES) == set(Told)
    assert {case[1] for case in CASES.values()} == set(Told)


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("unschedulable", CREATED),
        ("image missing", SCHEDULED),
        ("running", STARTED),
        ("deleted", DELETED),
        ("completed and being deleted", FINISHED),
        ("beyond its deadline", FINISHED),
        ("node silent", SCHEDULED),
        ("evicted, no statuses", CREATED),
        ("an init container failed", FINISHED),
    ],
)
def test_a_class_begins_when_the_cluster_says_so(name: str, since: str) -> None:
    found = told(CASES[name][0]).since
    assert found is not None
    assert found.strftime("%Y-%m-%dT%H:%M:%SZ") == since


TEXTS = st.one_of(
    st.sampled_from(
        [
            *("", "Evicted", "NodeLost", "Preempting", "OOMKilled", "ImagePullBackOff", "PodInitializing"),
            "\n\x1b[2J\u202e",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=600),
    st.builds(summary, st.text(st.characters(exclude_categories=["Cs"]), max_size=30), ok=st.booleans()),
)
STATUSES = st.sampled_from(["True", "False", "Unknown", "odd"])
KINDS = st.sampled_from(["PodScheduled", "Ready", "DisruptionTarget", "PodReadyToStartContainers", "Odd"])
CONDITIONS = st.builds(condition, KINDS, STATUSES, TEXTS, TEXTS)
CONTAINERS = st.one_of(
    st.builds(waiting, TEXTS, TEXTS),
    st.builds(ended, st.integers(-(2**31), 2**31 - 1), TEXTS, TEXTS, signal=st.integers(0, 64)),
    st.just(RUNNING),
    st.just(ours({})),
    st.just(ours({"running": {}}, "other")),
)
PODS = st.builds(
    pod,
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]),
    node=TEXTS,
    deleted=st.booleans(),
    reason=TEXTS,
    message=TEXTS,
    conditions=st.lists(CONDITIONS, max_size=4),
    containerStatuses=st.lists(CONTAINERS, max_size=2),
    initContainerStatuses=st.lists(CONTAINERS, max_size=3),
)


@given(PODS)
def test_any_mixture_is_some_state_on_one_line(table: dict[str, Any]) -> None:
    found = told(table)
    assert isinstance(found.state, SiteState)
    assert found.note.isprintable()
    assert found.node.isprintable()
    assert len(found.words) <= 400
    phase, deleted = table["status"]["phase"], "deletionTimestamp" in table["metadata"]
    if deleted:
        assert found.state is not SiteState.RUNNING
        assert found.state is not SiteState.PENDING
    if phase in ("Succeeded", "Failed"):
        assert found.state in (SiteState.ENDED, SiteState.FAILED)
    if found.state is SiteState.RUNNING:
        assert phase == "Running"
