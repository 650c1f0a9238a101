"""Pods whose containers go one after the other, and what is told of each while ours waits for the others."""

from __future__ import annotations

from typing import Any

import pytest

from glidepath.kube.states import Told
from kube.test_states import (
    BACK_OFF,
    LOW,
    NEVER_JOINED,
    PLACED,
    SCHEDULED,
    STARTED,
    F,
    L,
    P,
    condition,
    ended,
    ours,
    pod,
    told,
    waiting,
)


def initializing(*before: dict[str, Any]) -> dict[str, Any]:
    """A pod whose pilot waits for these."""
    return pod(
        "Pending",
        conditions=[*PLACED, condition("PodReadyToStartContainers")],
        initContainerStatuses=list(before),
        containerStatuses=[waiting("PodInitializing")],
    )


def uninitialized(*before: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A pod whose pilot never began."""
    waits = [waiting("PodInitializing")]
    return pod("Failed", initContainerStatuses=list(before), containerStatuses=waits, **status)


HOOK_DONE = ended(0, "Completed", name="fetch")
HOOK_RUNS = ours({"running": {"startedAt": STARTED}}, "hook")
HOOK_NEXT = waiting("PodInitializing", name="hook")
WAITS_FOR_INIT = {
    "an init container runs": (
        initializing(HOOK_DONE, HOOK_RUNS),
        *(Told.STARTING, P, "init container `hook`: it runs"),
    ),
    "the second init container is next": (
        initializing(ours({"running": {}}, "fetch"), HOOK_NEXT),
        *(Told.STARTING, P, "init container `fetch`: it runs"),
    ),
    "no init container has begun": (
        initializing(ours({}, "fetch"), HOOK_NEXT),
        *(Told.STARTING, P, "PodInitializing"),
    ),
    "fetches the image of an init container": (
        initializing(HOOK_DONE, waiting("ErrImagePull", "not found", name="hook")),
        *(Told.PULLING, P, "init container `hook`: ErrImagePull: not found"),
    ),
    "image of an init container missing": (
        initializing(waiting("ImagePullBackOff", BACK_OFF, name="fetch"), HOOK_NEXT),
        *(Told.PULL_FAILED, F, f"init container `fetch`: ImagePullBackOff: {BACK_OFF}"),
    ),
    "secret of an init container missing": (
        initializing(waiting("CreateContainerConfigError", 'secret "x" not found', name="fetch")),
        *(Told.NOT_STARTABLE, F, 'init container `fetch`: CreateContainerConfigError: secret "x" not found'),
    ),
    "one beside ours runs, the next cannot be fetched": (
        initializing(HOOK_RUNS, waiting("ImagePullBackOff", "no", name="fetch")),
        *(Told.PULL_FAILED, F, "init container `fetch`: ImagePullBackOff: no"),
    ),
    "an init container has failed and may be started again": (
        initializing(ended(3, message="no such host", name="fetch")),
        *(Told.STARTING, P, "init container `fetch`: exit code 3: no such host"),
    ),
    "all init containers are done": (initializing(HOOK_DONE), Told.PULLING, P, "PodInitializing"),
    "init containers are done, the image is missing": (
        pod(
            "Pending",
            conditions=PLACED,
            initContainerStatuses=[HOOK_DONE],
            containerStatuses=[waiting("ImagePullBackOff", BACK_OFF)],
        ),
        *(Told.PULL_FAILED, F, f"ImagePullBackOff: {BACK_OFF}"),
    ),
    "being deleted while an init container runs": (
        {**initializing(HOOK_RUNS), "metadata": pod(deleted=True)["metadata"]},
        *(Told.TERMINATING, L, ""),
    ),
}

WITHOUT_INIT = {
    "an init container failed": (
        uninitialized(HOOK_DONE, ended(3, message="no such host\n", name="hook"), HOOK_NEXT),
        *(Told.INIT_FAILED, F, "`hook`: exit code 3: no such host"),
    ),
    "an init container was out of memory": (
        uninitialized(ended(137, "OOMKilled", name="hook")),
        *(Told.INIT_FAILED, F, "`hook`: the kernel ended it at its memory limit"),
    ),
    "an init container has no such program": (
        uninitialized(ended(128, "StartError", "exec: not found", name="hook")),
        *(Told.INIT_FAILED, F, "`hook`: exit code 128: exec: not found"),
    ),
    "evicted while an init container ran": (
        uninitialized(ended(137, name="hook"), reason="Evicted", message=LOW),
        *(Told.EVICTED, F, LOW),
    ),
    "ours failed beside one that had begun before": (
        pod(
            "Failed",
            initContainerStatuses=[ended(143, name="beside")],
            containerStatuses=[ended(1, message=NEVER_JOINED)],
        ),
        *(Told.FAILED, F, "the collector refused its token, 0 jobs run"),
    ),
    "all init containers were done": (uninitialized(HOOK_DONE), Told.FAILED, F, ""),
}
CASES = {**WAITS_FOR_INIT, **WITHOUT_INIT}


@pytest.mark.parametrize("name", CASES)
def test_what_comes_before_ours_is_told_apart(name: str) -> None:
    table, expected, state, words = CASES[name]
    found = told(table)
    assert (found.told, found.state, found.words) == (expected, state, words)


def test_it_began_to_wait_when_it_had_a_node() -> None:
    found = told(CASES["image of an init container missing"][0]).since
    assert found is not None
    assert found.strftime("%Y-%m-%dT%H:%M:%SZ") == SCHEDULED
