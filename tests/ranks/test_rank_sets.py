"""What became of ranks, and what is due for them: tables of pods as a cluster shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from glidepath.cluster.kubernetes.pod import intent_of
from glidepath.cluster.kubernetes.sets import Act, Clock, Members, Verdict, duties, seen
from glidepath.core.place.rank import Cause, RankSeen, RankSet, RankState
from glidepath.core.quantity import Instant, NodeName
from glidepath.kube.shapes import Pod
from ranks.rank_builders import WALL, anchor_seen, ended, pod_seen, ranks, runs, settings, stamp, waits

NOW = Instant(5000)
CLOCK = Clock(NOW, WALL + 100)
GANG = ranks(nodes=("n1", "n2", "n3"))
ONE = ranks()
GO = {"glidepath/go": "1"}
STOP = {"glidepath/stop": str(int(WALL))}
EXITED = {"left": "exited", "at": 0, "ran_s": 60}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "message": "words of the cluster"}


def members(of: RankSet, pods: Mapping[int, Pod], **more: Any) -> Members:
    anchor = anchor_seen(of, notes=more.pop("notes", None), whole=more.pop("whole", True))
    return Members(anchor, intent_of(anchor.metadata.annotations["glidepath/intent"]), pods, **more)


def rank(of: RankSet, pod: Pod | None, *, kept: bool = True, **more: Any) -> RankSeen:
    found = members(of, {0: pod} if pod is not None else {}, **more)
    return seen(found, CLOCK, {"gp-7-2-0": kept}).ranks[0]


def over(state: dict[str, Any], **more: Any) -> Pod:
    return pod_seen(ONE, phase=more.pop("phase", "Failed"), state=state, **more)


def disrupted(reason: str) -> dict[str, Any]:
    return {"status": {"conditions": [{**DISRUPTED, "reason": reason}]}}


@pytest.mark.parametrize(
    ("pod", "cause", "code", "signal", "words"),
    [
        (over(ended(0, EXITED), phase="Succeeded"), Cause.EXITED, 0, None, "exit code 0"),
        (over(ended(3, EXITED | {"at": 3})), Cause.EXITED, 3, None, "exit code 3"),
        (over(ended(139, EXITED | {"at": 139})), Cause.SIGNALLED, None, 11, "signal 11"),
        (over(ended(200, EXITED | {"at": 200})), Cause.EXITED, 200, None, "exit code 200"),
        (over(ended(124, {"left": "limit", "at": 143})), Cause.LIMIT, None, None, "its time was up"),
        (over(ended(143, {"left": "stopped"}), notes=STOP), Cause.STOPPED, None, None, "told to stop"),
        (over(ended(143, {"left": "stopped"})), Cause.EVICTED, None, None, "by others"),
        (over(ended(125, {"left": "no file", "at": 0})), Cause.SETUP, None, None, "the file `in/note`"),
        (over(ended(125, {"left": "no folder"})), Cause.SETUP, None, None, "working directory"),
        (
            over(ended(125, {"left": "no command"})),
            Cause.SETUP,
            None,
            None,
            "the command is not in the image",
        ),
        (over(ended(125, {"left": "alone"})), Cause.NOT_GATHERED, None, None, "within 300 s"),
        (over(ended(137, EXITED | {"at": 137}, reason="OOMKilled")), Cause.MEMORY, None, None, "memory"),
        (over(ended(137, {"left": "ready"}, reason="OOMKilled")), Cause.MEMORY, None, None, "memory"),
        (over(ended(1, {"left": "memory", "at": 1})), Cause.MEMORY, None, None, "the kernel ended a program"),
        (over(ended(137, "")), Cause.SIGNALLED, None, 9, "together with its container"),
        (over(ended(255, {"left": "ready"}, reason="Unknown")), Cause.RESTARTED, None, None, "came back"),
        (over(ended(137, "", reason="ContainerStatusUnknown")), Cause.RESTARTED, None, None, "came back"),
        (
            over(ended(128, 'exec: "/bin/sh": no such file', reason="StartError")),
            *(Cause.SETUP, None, None, "/bin/sh"),
        ),
        (
            over(ended(137, {"left": "stopped"}), **disrupted("EvictionByEvictionAPI")),
            Cause.EVICTED,
            None,
            None,
            "w",
        ),
        (
            over(ended(137, ""), **disrupted("PreemptionByScheduler")),
            Cause.EVICTED,
            None,
            None,
            "words of the",
        ),
        (over(ended(137, ""), **disrupted("DeletionByPodGC")), Cause.NODE_LOST, None, None, "words of the"),
        # It ended well, whoever wanted it gone.
        (over(ended(0, EXITED), **disrupted("EvictionByEvictionAPI")), Cause.EXITED, 0, None, "exit code 0"),
        (
            pod_seen(
                ONE, phase="Failed", status={"reason": "OutOfcpu", "message": "Node didn't have enough"}
            ),
            *(Cause.REFUSED, None, None, "enough"),
        ),
    ],
)
def test_each_end_has_its_own_cause_and_words(
    pod: Pod, cause: Cause, code: int | None, signal: int | None, words: str
) -> None:
    from glidepath.core.place.rank import File

    of = ranks(files=(File("in/note", "x"),))
    found = rank(of, pod)
    assert (found.state, found.cause, found.exit_code, found.signal) == (RankState.OVER, cause, code, signal)
    assert words in found.why


@pytest.mark.parametrize(
    ("pod", "state", "words"),
    [
        (pod_seen(ONE, state=waits("ContainerCreating")), RankState.ASKED, "pulling"),
        (pod_seen(ONE, phase="Running", state=runs(), started=True), RankState.RUNNING, "running"),
        # It has ended, though the cluster does not say so of the pod.
        (pod_seen(ONE, phase="Running", state=ended(0, EXITED)), RankState.OVER, "exit code 0"),
        (
            pod_seen(
                ONE,
                phase="Running",
                state=runs(),
                status={
                    "conditions": [{"type": "Ready", "status": "False", "message": "no word of its node"}]
                },
            ),
            *(RankState.UNSURE, "no word of its node"),
        ),
    ],
)
def test_what_is_not_over_is_told_apart(pod: Pod, state: RankState, words: str) -> None:
    found = rank(ONE, pod)
    assert found.state is state
    assert words in found.why


def test_a_rank_is_over_only_once_all_that_it_wrote_is_kept() -> None:
    pod = over(ended(0, EXITED), phase="Succeeded")
    waiting = rank(ONE, pod, kept=False)
    assert (waiting.state, waiting.cause) == (RankState.RUNNING, Cause.NONE)
    done = rank(ONE, pod)
    assert done == RankSeen(
        0,
        NodeName("n1"),
        RankState.OVER,
        Cause.EXITED,
        0,
        None,
        "exit code 0",
        "gp-7-2-0.gp-7-2",
        Instant(NOW - 100),
        Instant(NOW - 40),
    )


def test_a_rank_of_a_gang_runs_from_the_word_to_begin() -> None:
    waits_for_it = pod_seen(GANG, phase="Running", state=runs(), started=True)
    assert rank(GANG, waits_for_it).state is RankState.ASKED
    told = pod_seen(
        GANG, phase="Running", state=runs(), started=True, notes={"glidepath/go": str(int(WALL) + 30)}
    )
    found = rank(GANG, told)
    assert (found.state, found.began_at) == (RankState.RUNNING, Instant(NOW - 70))


@pytest.mark.parametrize(
    ("more", "state", "cause"),
    [
        ({"whole": False}, RankState.ASKED, Cause.NONE),
        ({"odd": frozenset({0})}, RankState.UNSURE, Cause.NONE),
        ({}, RankState.OVER, Cause.EVICTED),
        (
            {"gone": {0: over(ended(137, ""), **disrupted("DeletionByPodGC"))}},
            RankState.OVER,
            Cause.NODE_LOST,
        ),
        ({"notes": {"glidepath/verdict": '{"cause": "stopped"}'}}, RankState.OVER, Cause.STOPPED),
        (
            {"notes": {"glidepath/verdict": '{"cause": "image", "rank": 0, "why": "no"}'}},
            *(RankState.OVER, Cause.IMAGE),
        ),
        (
            {"notes": {"glidepath/verdict": '{"cause": "image", "rank": 1, "why": "no"}'}},
            *(RankState.OVER, Cause.NOT_GATHERED),
        ),
        # What is no verdict of ours is none.
        ({"notes": {"glidepath/verdict": '{"cause": "whim"}'}}, RankState.OVER, Cause.EVICTED),
    ],
)
def test_a_pod_that_is_missing_is_told_by_what_is_known_of_the_set(
    more: dict[str, Any], state: RankState, cause: Cause
) -> None:
    found = rank(ONE, None, **more)
    assert (found.state, found.cause) == (state, cause)


def test_the_limit_is_the_shortest_that_is_kept() -> None:
    pods = {
        at: pod_seen(GANG, at, phase="Running", state=runs(), notes={"glidepath/limit": limit})
        for at, limit in enumerate(("60", "", "30"))
    }
    assert seen(members(GANG, pods), CLOCK, {}).limit_s == 30
    assert seen(members(GANG, {1: pods[1]}), CLOCK, {}).limit_s is None


# What is due.


def due(found: Members, *, at_s: float = 10, since_s: float = 0, **said: Any) -> list[tuple[str, Any]]:
    since = {pod.metadata.name: since_s for pod in found.pods.values()}
    rows = []
    for duty in duties(found, settings(**said), WALL + at_s, since):
        what = duty.verdict.cause if duty.verdict is not None else duty.pod and duty.pod.metadata.name[-1]
        rows.append((duty.act.value, what))
    return rows


def gang(*pods: Pod | None, **more: Any) -> Members:
    return members(GANG, {at: pod for at, pod in enumerate(pods) if pod is not None}, **more)


def there(at: int, **more: Any) -> Pod:
    return pod_seen(GANG, at, phase="Running", state=runs(), started=True, **more)


def comes(at: int) -> Pod:
    return pod_seen(GANG, at, state=waits("ContainerCreating"))


def unscheduled(message: str) -> dict[str, Any]:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"status": {"containerStatuses": [], "conditions": [why]}}


UNSCHEDULABLE = unscheduled("no room")
NO_CLAIM = unscheduled('persistentvolumeclaim "data" not found. not found')


@pytest.mark.parametrize(
    ("found", "at_s", "since_s", "expected"),
    [
        (gang(there(0), there(1), comes(2)), 10, 0, []),
        (gang(there(0), there(1), there(2)), 10, 0, [("go", "0"), ("go", "1"), ("go", "2")]),
        # The word was given to one before we were ended: the others get it too.
        (gang(there(0, notes=GO), there(1), there(2)), 10, 0, [("go", "1"), ("go", "2")]),
        (gang(there(0, notes=GO), there(1, notes=GO), there(2, notes=GO)), 10, 0, []),
        # Not made yet: nothing begins, and nothing is given up before its time.
        (gang(there(0), there(1), None), 10, 0, []),
        (gang(there(0), there(1), comes(2)), 340, 0, [("give up", Cause.NOT_GATHERED)]),
        (gang(there(0), there(1), None, whole=False), 340, 0, [("give up", Cause.NOT_GATHERED)]),
        (
            gang(
                there(0), there(1), pod_seen(GANG, 2, phase="Failed", state=ended(125, {"left": "no folder"}))
            ),
            *(10, 0, [("give up", Cause.SETUP)]),
        ),
        (gang(there(0), there(1), pod_seen(GANG, 2, **UNSCHEDULABLE)), 10, 5, []),
        (gang(there(0), there(1), pod_seen(GANG, 2, **UNSCHEDULABLE)), 10, 16, [("give up", Cause.REFUSED)]),
        (gang(pod_seen(GANG, 0, **NO_CLAIM)), 10, 16, [("give up", Cause.SETUP)]),
        (gang(pod_seen(GANG, 0, state=waits("ImagePullBackOff"))), 10, 59, []),
        (gang(pod_seen(GANG, 0, state=waits("ImagePullBackOff"))), 10, 61, [("give up", Cause.IMAGE)]),
        (gang(pod_seen(GANG, 0, state=waits("ErrImageNeverPull"))), 10, 0, [("give up", Cause.IMAGE)]),
        (gang(pod_seen(GANG, 0, state=waits("CreateContainerError"))), 10, 61, [("give up", Cause.SETUP)]),
        # Once it has begun, a rank that is over is its own end and not that of the set.
        (
            gang(
                there(0, notes=GO),
                there(1, notes=GO),
                pod_seen(GANG, 2, phase="Failed", state=ended(1, EXITED), notes=GO),
            ),
            *(999, 0, []),
        ),
    ],
)
def test_a_gang_begins_whole_or_not_at_all(
    found: Members, at_s: float, since_s: float, expected: list[tuple[str, Any]]
) -> None:
    assert due(found, at_s=at_s, since_s=since_s) == expected


GIVEN_UP = Verdict(Cause.IMAGE, "no", 2)


@pytest.mark.parametrize(
    ("found", "at_s", "expected"),
    [
        (
            gang(there(0), comes(1), None, given_up=GIVEN_UP),
            *(10, [("stop", "0"), ("delete", "1"), ("give up", Cause.IMAGE)]),
        ),
        (gang(there(0, notes=STOP), given_up=GIVEN_UP), 10, [("give up", Cause.IMAGE)]),
        (gang(there(0, notes=STOP), notes={"glidepath/verdict": '{"cause": "stopped"}'}), 10, []),
        # The grace of 30 s, what a keeper needs to leave, and a little more.
        (
            gang(there(0, notes=STOP), notes={"glidepath/verdict": '{"cause": "stopped"}'}),
            66,
            [("delete", "0")],
        ),
    ],
)
def test_a_set_that_is_given_up_ends_softly_and_then_by_force(
    found: Members, at_s: float, expected: list[tuple[str, Any]]
) -> None:
    assert due(found, at_s=at_s) == expected


@pytest.mark.parametrize(
    ("at_s", "notes", "expected"),
    [
        (60 + 30 + 80, {}, []),
        (60 + 30 + 100, {}, [("stop", "0")]),
        (60 + 30 + 100, {"glidepath/limit": "600"}, []),
        (60 + 30 + 100, {"glidepath/limit": ""}, []),
    ],
)
def test_a_keeper_that_does_not_keep_the_limit_is_helped(
    at_s: float, notes: dict[str, str], expected: list[tuple[str, Any]]
) -> None:
    of = replace(ONE, limit_s=60)
    pod = pod_seen(of, phase="Running", state=runs(), started=True, notes=notes)
    assert due(members(of, {0: pod}), at_s=at_s) == expected


def test_every_act_has_its_duty() -> None:
    assert {act.value for act in Act} == {"go", "stop", "delete", "give up", "whole"}


def test_a_time_of_the_cluster_that_is_ahead_of_ours_is_now() -> None:
    assert CLOCK.instant(WALL + 900) == NOW
    assert stamp(0) == "2030-01-01T10:00:00Z"
