"""What a pod says of itself: one pod comes in, a state, its class and the cluster's own words go out.

Kubernetes has five phases and a dozen ways to fail. A pod that is being deleted is still in a phase, and one
that waits may wait for a node, an image or something that will never come; here these are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.kube.shapes import Condition, ContainerState, ContainerStatus, Pod, Terminated, Waiting

CONTAINER = "pilot"
NOTE_LETTERS_MAX = 400
NODE_LETTERS_MAX = 253


class Told(StrEnum):
    """What has become of a pod, in one word."""

    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting for a node"
    PULLING = "pulling"
    PULL_FAILED = "image cannot be pulled"
    STARTING = "starting"
    NOT_STARTABLE = "cannot be started"
    INIT_FAILED = "init container failed"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    OOM_KILLED = "out of memory"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node lost"
    TERMINATING = "terminating"
    UNCLEAR = "unclear"


STATES: dict[Told, SiteState] = {
    Told.UNSCHEDULABLE: SiteState.PENDING,
    Told.WAITING: SiteState.PENDING,
    Told.PULLING: SiteState.PENDING,
    Told.PULL_FAILED: SiteState.FAILED,
    Told.STARTING: SiteState.PENDING,
    Told.NOT_STARTABLE: SiteState.FAILED,
    Told.INIT_FAILED: SiteState.FAILED,
    Told.RUNNING: SiteState.RUNNING,
    Told.COMPLETED: SiteState.ENDED,
    Told.FAILED: SiteState.FAILED,
    Told.OOM_KILLED: SiteState.FAILED,
    Told.EVICTED: SiteState.FAILED,
    Told.PREEMPTED: SiteState.FAILED,
    Told.NODE_LOST: SiteState.UNKNOWN,
    Told.TERMINATING: SiteState.LEAVING,
    Told.UNCLEAR: SiteState.UNKNOWN,
}

# What a container may wait for, and what it will wait for in vain. The kubelet goes on trying all of them.
PULLING = frozenset({"ContainerCreating", "ErrImagePull", ""})
PULL_FAILED = frozenset(
    {
        *("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    }
)
NOT_STARTABLE = frozenset(
    {
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"),
        *("PreCreateHookError", "PreStartHookError", "PostStartHookError"),
    }
)
# What our container says it waits for until all that has to end before it has ended.
INITIALIZING = "PodInitializing"
# What a runtime says of a container of which no program ever ran.
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})

# Reasons of the condition DisruptionTarget, and of the whole pod, by who has ended it.
PREEMPTED = frozenset({"PreemptionByScheduler", "PreemptionByKubeScheduler", "Preempting"})
EVICTED = frozenset(
    {
        *("Evicted", "EvictionByEvictionAPI", "TerminationByKubelet", "DeletionByTaintManager"),
        # A node that is shut down in order; the second never let the pod in.
        *("Terminated", "NodeShutdown"),
    }
)
NODE_GONE = frozenset({"NodeLost", "DeletionByPodGC"})


@dataclass(frozen=True, slots=True)
class PodStory:
    told: Told
    words: str  # of the cluster, or of the pilot
    since: datetime | None
    node: str
    over: bool = False  # whether nothing of it can run any more

    @property
    def state(self) -> SiteState:
        found = STATES[self.told]
        # What is lost is unknown only as long as it may still live.
        return SiteState.FAILED if self.over and found is SiteState.UNKNOWN else found

    @property
    def note(self) -> str:
        return f"{self.told}: {self.words}" if self.words else str(self.told)


Found = tuple[Told, str, datetime | None]


def story(pod: Pod, container: str = CONTAINER) -> PodStory:
    """A container named otherwise than ours is not looked at: a cluster may add some of its own.

    One that has to end before ours begins is, whoever has added it: ours waits for it.
    """
    status = pod.status
    found = next((each for each in status.container_statuses if each.name == container), None)
    state = found.state if found is not None else ContainerState()
    told, words, since = _told(pod, state)
    return PodStory(
        told,
        one_line(words, letters_max=NOTE_LETTERS_MAX),
        since or pod.metadata.creation_timestamp,
        one_line(pod.spec.node_name, letters_max=NODE_LETTERS_MAX),
        over=status.phase in ("Succeeded", "Failed"),
    )


def _told(pod: Pod, state: ContainerState) -> Found:
    match pod.status.phase:
        case "Succeeded":
            return Told.COMPLETED, _last_words(state.terminated), _finished(state.terminated)
        case "Failed":
            return _failed(pod, state.terminated)
        case "Pending" | "Running" if state.terminated is not None:
            # Over, though the cluster, or a container of somebody else, keeps the pod from saying so.
            return _failed(pod, state.terminated)
        case "Pending" | "Running" if pod.metadata.deletion_timestamp is not None:
            return _leaving(pod, pod.metadata.deletion_timestamp)
        case "Pending":
            return _pending(pod, state)
        case "Running":
            return _running(pod, state)
        case _:
            phase = pod.status.phase
            return Told.UNCLEAR, pod.status.message or (f"its phase is `{phase}`" if phase else ""), None


def _leaving(pod: Pod, leaving: datetime) -> Found:
    disrupted = _disrupted(pod)
    if _silent(pod) is not None or _lost(pod) or (disrupted is not None and disrupted.reason in NODE_GONE):
        return Told.NODE_LOST, _why(pod) or "its node does not answer", leaving
    return Told.TERMINATING, _why(pod), leaving


def _pending(pod: Pod, state: ContainerState) -> Found:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "True":
        if scheduled is not None and scheduled.reason == "Unschedulable":
            return Told.UNSCHEDULABLE, scheduled.message, None
        return Told.WAITING, scheduled.message if scheduled is not None else "", None
    since = scheduled.last_transition_time
    return _waiting(pod, state.waiting, since) if state.waiting is not None else (Told.STARTING, "", since)


def _waiting(pod: Pod, waiting: Waiting, since: datetime | None) -> Found:
    if waiting.reason == INITIALIZING and pod.status.init_container_statuses:
        return (*_initializing(pod.status.init_container_statuses), since)
    reason, words = waiting.reason, _joined(waiting.reason, waiting.message)
    if reason in PULL_FAILED:
        return Told.PULL_FAILED, words, since
    if reason in NOT_STARTABLE:
        return Told.NOT_STARTABLE, words, since
    furnished = _condition(pod, "PodReadyToStartContainers")
    if reason == "ContainerCreating" and furnished is not None and furnished.status != "True":
        # No image is fetched before there is a sandbox. What is missing is told in events only.
        return Told.STARTING, words or "waits for volumes and network", since
    return (Told.PULLING if reason in PULLING else Told.STARTING), words, since


def _initializing(before: tuple[ContainerStatus, ...]) -> tuple[Told, str]:
    """They go one after the other, so the last that has begun and not ended well is what ours waits for."""
    begun = [each for each in before if not _in_line(each.state) and not _ended_well(each.state)]
    if not begun:
        # Ours is next, and says the same until it is there.
        done = all(_ended_well(each.state) for each in before)
        return (Told.PULLING if done else Told.STARTING), INITIALIZING
    name, state = begun[-1].name, begun[-1].state
    if state.waiting is not None:
        reason, words = state.waiting.reason, _joined(state.waiting.reason, state.waiting.message)
        told = Told.PULLING if reason in PULLING else Told.STARTING
        told = Told.PULL_FAILED if reason in PULL_FAILED else told
        told = Told.NOT_STARTABLE if reason in NOT_STARTABLE else told
        return told, _of_init(name, words)
    # One that has failed may be of a kind that is started again; where not, the whole pod says so soon.
    words = _ended(state.terminated)[1] if state.terminated is not None else "it runs"
    return Told.STARTING, _of_init(name, words)


def _in_line(state: ContainerState) -> bool:
    waiting = state.waiting or (Waiting() if state == ContainerState() else None)
    return waiting is not None and waiting.reason in (INITIALIZING, "")


def _ended_well(state: ContainerState) -> bool:
    return state.terminated is not None and state.terminated.exit_code == 0


def _of_init(name: str, words: str) -> str:
    return f"init container `{name}`: {words}"


def _running(pod: Pod, state: ContainerState) -> Found:
    disrupted = _disrupted(pod)
    if _lost(pod) or (disrupted is not None and disrupted.reason in NODE_GONE):
        return Told.NODE_LOST, _why(pod), disrupted.last_transition_time if disrupted is not None else None
    if (silent := _silent(pod)) is not None:
        return Told.NODE_LOST, silent.message or "its node does not answer", silent.last_transition_time
    if state.waiting is not None:
        # Another container is what runs.
        return _waiting(pod, state.waiting, pod.status.start_time)
    return Told.RUNNING, "", state.running.started_at if state.running is not None else pod.status.start_time


def _failed(pod: Pod, ended: Terminated | None) -> Found:
    """By whoever has ended it; only where nobody has, by how the container ended."""
    status, disrupted, since = pod.status, _disrupted(pod), _finished(ended)
    reasons = {status.reason, disrupted.reason if disrupted is not None else ""}
    over = status.phase == "Failed"
    for told, known in (
        (Told.PREEMPTED, PREEMPTED),
        (Told.NODE_LOST, NODE_GONE),
        (Told.EVICTED, EVICTED),
    ):
        # A pilot that was told to go and left in peace has completed, whoever had told it.
        if reasons & known and (over or ended is None or ended.exit_code != 0):
            return told, _why(pod) or _last_words(ended), since
    if over and status.reason:
        # Not let in by its node, or ended by it at the deadline: the exit code says only that it was killed.
        return Told.FAILED, _joined(status.reason, status.message or _last_words(ended)), since
    if ended is not None:
        return (*_ended(ended), since)
    for each in status.init_container_statuses:
        if each.state.terminated is not None and each.state.terminated.exit_code != 0:
            found = each.state.terminated
            return Told.INIT_FAILED, f"`{each.name}`: {_ended(found)[1]}", _finished(found)
    return Told.FAILED, status.message, since


def _ended(ended: Terminated) -> tuple[Told, str]:
    words = _last_words(ended)
    if ended.reason == "OOMKilled":
        return Told.OOM_KILLED, words or "the kernel ended it at its memory limit"
    if ended.exit_code == 0:
        return Told.COMPLETED, words
    if ended.exit_code == FAILED_CODE and _summary(ended.message) is not None:
        return Told.FAILED, words
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    return (Told.NOT_STARTABLE if ended.reason in NEVER_RAN else Told.FAILED), _joined(how, words)


FAILED_CODE = 1  # of a pilot that has left its reason in words


class _Summary(msgspec.Struct, frozen=True):
    """What a pilot of ours leaves behind, as far as people read it here."""

    why: str
    ok: bool
    jobs_run: int = 0
    jobs_failed: int = 0


_SUMMARIES = msgspec.json.Decoder(_Summary)


def _summary(message: str) -> _Summary | None:
    try:
        return _SUMMARIES.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _last_words(ended: Terminated | None) -> str:
    """The pilot's summary as a sentence, or the last lines of its log where it could not write one."""
    if ended is None:
        return ""
    found = _summary(ended.message)
    if found is None:
        return ended.message.strip()
    jobs = f"{found.jobs_run} {'job' if found.jobs_run == 1 else 'jobs'} run"
    failed = f"{found.jobs_failed} failed" if found.jobs_failed else ""
    return ", ".join(part for part in (found.why.strip(), jobs, failed) if part)


def _why(pod: Pod) -> str:
    """Who ends it and why, in the cluster's words; the pod's own go before those of a condition."""
    disrupted, reason, message = _disrupted(pod), pod.status.reason, pod.status.message
    if reason or message:
        # The class says it already.
        return _joined("" if reason == "Evicted" else reason, message)
    return _joined(disrupted.reason, disrupted.message) if disrupted is not None else ""


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message


def _lost(pod: Pod) -> bool:
    return pod.status.reason in NODE_GONE


def _silent(pod: Pod) -> Condition | None:
    """A kubelet says why a pod is not ready; whoever says so in its place says nothing more.

    That is how the cluster marks the pods of a node that no longer answers.
    """
    ready = _condition(pod, "Ready")
    return ready if ready is not None and ready.status != "True" and not ready.reason else None


def _finished(ended: Terminated | None) -> datetime | None:
    return ended.finished_at if ended is not None else None


def _disrupted(pod: Pod) -> Condition | None:
    found = _condition(pod, "DisruptionTarget")
    return found if found is not None and found.status == "True" else None


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == kind), None)
