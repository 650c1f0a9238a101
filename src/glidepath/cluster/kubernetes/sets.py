"""What became of sets of ranks, and what is due: their objects come in, listings and duties go out.

A rank is one pod; its set is one Service, on which stands what was asked for and, where the whole set was
given up, why. It refuses to ask anything of the cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from glidepath.cluster.kubernetes.keeper import SETUP, Left, Words, words_of
from glidepath.cluster.kubernetes.pod import (
    CONTAINER,
    GO,
    LEAVE_S,
    LIMIT,
    STOP,
    VERDICT,
    WHOLE,
    Intent,
    anchor_name,
    pod_name,
)
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.core.place.rank import Cause, RankSeen, RankState, SetKey, SetSeen
from glidepath.core.quantity import Instant, NodeName
from glidepath.core.text import one_line
from glidepath.kube.shapes import ContainerStatus, Named, Pod, Terminated
from glidepath.kube.states import PodStory, Told, story

# A keeper ends its command by itself; only one that cannot is ended from here, this much later.
OVERDUE_S = 90
# Between the end of the grace and the end of a pod by force.
FORCE_S = 20
IMAGE_TROUBLE = frozenset({"ErrImagePull", "ImagePullBackOff"})
NO_CLAIM = re.compile(r'persistentvolumeclaim "[^"]*" not found')
NEVER_COMES = ("InvalidImageName", "ErrImageNeverPull")
SIGNALS_MAX = 64
KILLED_CODE, UNKNOWN_CODE = 137, 255
# What a runtime or a kubelet says of a container whose end nobody saw.
UNSEEN_ENDS = frozenset({"Unknown", "ContainerStatusUnknown"})
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
WHY_LETTERS_MAX = 400
# Of a set that was given up: those that had no fault of their own.
SHARED = frozenset({Cause.STOPPED})


class Verdict(msgspec.Struct, frozen=True):
    """Why the whole set was given up, and by which rank."""

    cause: Cause
    why: str = ""
    rank: int = -1


_VERDICTS = msgspec.json.Decoder(Verdict)


@dataclass(frozen=True, slots=True)
class Members:
    """One set: its Service, its pods by rank, those that were deleted, and those that nobody could read."""

    anchor: Named
    intent: Intent
    pods: Mapping[int, Pod]
    gone: Mapping[int, Pod] = field(default_factory=dict)
    odd: frozenset[int] = frozenset()
    given_up: Verdict | None = None  # by us, though it may not stand there yet
    open_within: bool = True  # whether its ranks can reach each other, as far as that is for us to allow

    @property
    def key(self) -> SetKey:
        return SetKey(self.intent.key)

    @property
    def verdict(self) -> Verdict | None:
        try:
            return _VERDICTS.decode(self.anchor.metadata.annotations.get(VERDICT, ""))
        except (msgspec.DecodeError, UnicodeError):
            return self.given_up

    @property
    def whole(self) -> bool:
        """Whether all its pods were made once: one that is missing went away."""
        return bool(self.anchor.metadata.annotations.get(WHOLE))

    @property
    def complete(self) -> bool:
        """Whether all of them were seen, be it that nobody could write that down yet."""
        return {*self.pods, *self.gone, *self.odd} >= set(range(self.intent.ranks))


class Act(StrEnum):
    GO = "go"
    STOP = "stop"
    DELETE = "delete"  # only the very pod that was looked at
    WHOLE = "whole"  # it is written that all its pods were made
    GIVE_UP = "give up"  # and then it is written why


@dataclass(frozen=True, slots=True)
class Duty:
    """One thing that is to be done for a set, whoever asked for it and whenever we come to it."""

    act: Act
    pod: Pod | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """The time in both ways, so that times of the cluster can be put on our own clock."""

    now: Instant
    wall: float

    def instant(self, at: float | None) -> Instant | None:
        return None if at is None else Instant(min(self.now, self.now - int(self.wall - at)))


# What is there.


def seen(members: Members, clock: Clock, kept: Mapping[str, bool]) -> SetSeen:
    """`kept` says by name of a pod whether all that it wrote is in its place."""
    ranks = tuple(_rank(members, rank, clock, kept) for rank in range(members.intent.ranks))
    limits = [_limit(pod) for pod in members.pods.values() if not _story(pod).over] or [
        _limit(pod) for pod in members.pods.values()
    ]
    shortest = min((math.inf if limit is None else limit for limit in limits), default=math.inf)
    limit_s = None if math.isinf(shortest) else int(shortest)
    made = members.whole or members.verdict is not None or members.complete
    return SetSeen(members.key, ranks, limit_s, made)


def _rank(members: Members, rank: int, clock: Clock, kept: Mapping[str, bool]) -> RankSeen:
    pod, verdict = members.pods.get(rank), members.verdict
    host = f"{pod_name(members.key, rank)}.{anchor_name(members.key)}"
    if pod is None:
        return _missing(members, rank, host)
    told = _story(pod)
    node = NodeName(told.node)
    if rank in members.odd:
        return RankSeen(rank, node, RankState.UNSURE, why="its pod cannot be read", host=host)
    if told.told is Told.NODE_LOST and not told.over:
        return RankSeen(rank, node, RankState.UNSURE, why=told.note, host=host, began_at=_began(pod, clock))
    if not _is_over(pod, told):
        running = begun(pod)
        state = RankState.RUNNING if running else RankState.ASKED
        began_at = _began(pod, clock) if running else None
        return RankSeen(rank, node, state, why=told.note, host=host, began_at=began_at)
    if not kept.get(pod.metadata.name, False):
        why = "it has ended; what it wrote is being fetched"
        return RankSeen(rank, node, RankState.RUNNING, why=why, host=host, began_at=_began(pod, clock))
    cause, why, code, signal = end_of(pod, told, verdict, members.intent)
    ended = _ended(pod)
    return RankSeen(
        rank,
        node,
        RankState.OVER,
        cause,
        code,
        signal,
        one_line(why, letters_max=WHY_LETTERS_MAX),
        host,
        _began(pod, clock) if cause in BEGAN else None,
        clock.instant(ended.finished_at.timestamp() if ended and ended.finished_at else None),
    )


BEGAN = frozenset({Cause.EXITED, Cause.SIGNALLED, Cause.LIMIT, Cause.STOPPED, Cause.MEMORY, Cause.EVICTED})


def _missing(members: Members, rank: int, host: str) -> RankSeen:
    verdict, gone = members.verdict, members.gone.get(rank)
    node = NodeName(gone.spec.node_name) if gone is not None else NodeName("")
    if rank in members.odd:
        return RankSeen(rank, node, RankState.UNSURE, why="its pod cannot be read", host=host)
    if verdict is not None:
        cause, why = of_verdict(verdict, rank)
        return RankSeen(rank, node, RankState.OVER, cause, why=why, host=host)
    if not members.whole and gone is None:
        return RankSeen(rank, node, RankState.ASKED, why="its pod is being made", host=host)
    cause, why = Cause.EVICTED, "its pod was deleted by others"
    if gone is not None:
        told = _story(gone)
        if told.told is Told.NODE_LOST or "PodGC" in told.words:
            cause, why = Cause.NODE_LOST, told.words or "its node is gone"
        elif told.words:
            why = told.words
    return RankSeen(rank, node, RankState.OVER, cause, why=why, host=host)


def of_verdict(verdict: Verdict, rank: int) -> tuple[Cause, str]:
    """The one that was the cause has its own word; the others began nothing because of it."""
    if verdict.cause in SHARED or rank == verdict.rank or verdict.rank < 0:
        return verdict.cause, verdict.why
    return Cause.NOT_GATHERED, f"rank {verdict.rank}: {verdict.why}"


def end_of(
    pod: Pod, told: PodStory, verdict: Verdict | None, intent: Intent
) -> tuple[Cause, str, int | None, int | None]:
    """Cause, words, code, signal of a rank that is over: by who ended it, and only then by how it ended."""
    ended = _ended(pod)
    words = words_of(ended.message) if ended is not None else None
    left = words.left if words is not None else None
    by_others = {
        Told.PREEMPTED: Cause.EVICTED,
        Told.EVICTED: Cause.EVICTED,
        Told.NODE_LOST: Cause.NODE_LOST,
    }.get(told.told)
    if left in SETUP and words is not None:
        return Cause.SETUP, _setup(words, intent), None, None
    if left is Left.ALONE:
        cause, why = of_verdict(verdict, -2) if verdict is not None else (Cause.NOT_GATHERED, "")
        return cause, why or f"the others were not in place within {intent.gather_s} s", None, None
    if left is Left.LIMIT:
        return Cause.LIMIT, "its time was up", None, None
    if left is Left.MEMORY:
        return Cause.MEMORY, "the kernel ended a program of it", None, None
    if verdict is not None and words is None and not begun(pod):
        return (*of_verdict(verdict, _rank_of(pod)), None, None)
    if by_others is not None and left is not Left.EXITED:
        return by_others, told.words, None, None
    if ended is None:
        return Cause.REFUSED, told.words or "its node did not let it in", None, None
    if ended.reason == "OOMKilled" and ended.exit_code:
        return Cause.MEMORY, "it took more memory than it had asked for", None, None
    if left is Left.STOPPED:
        return _stopped(pod, verdict)
    if words is not None and left is Left.EXITED:
        return _exited(words.at)
    return _unseen(pod, ended, verdict)


def _stopped(pod: Pod, verdict: Verdict | None) -> tuple[Cause, str, None, None]:
    """By us, or by somebody who has deleted the pod."""
    if verdict is not None and not begun(pod):
        return (*of_verdict(verdict, _rank_of(pod)), None, None)
    if verdict is not None or pod.metadata.annotations.get(STOP):
        return Cause.STOPPED, "it was told to stop", None, None
    return Cause.EVICTED, "its pod was told to end by others", None, None


def _exited(code: int) -> tuple[Cause, str, int | None, int | None]:
    signal = code - 128
    # That is how a shell tells of it, and of nothing else in good use.
    if 1 <= signal <= SIGNALS_MAX:
        return Cause.SIGNALLED, f"signal {signal}", None, signal
    return Cause.EXITED, f"exit code {code}", code, None


def _unseen(
    pod: Pod, ended: Terminated, verdict: Verdict | None
) -> tuple[Cause, str, int | None, int | None]:
    """The keeper left no word: it never was, or was ended together with its container."""
    said = one_line(ended.message, letters_max=WHY_LETTERS_MAX)
    if ended.reason in NEVER_RAN:
        why = f"{ended.reason}: {said or 'the image has no `/bin/sh`'}"
        return Cause.SETUP, why, None, None
    if verdict is not None or pod.metadata.annotations.get(STOP):
        return Cause.STOPPED, "it did not end by itself and was ended", None, None
    if ended.reason in UNSEEN_ENDS or ended.exit_code == UNKNOWN_CODE:
        return Cause.RESTARTED, "its node went down and came back", None, None
    if pod.metadata.deletion_timestamp is not None:
        return Cause.EVICTED, "its pod was deleted by others", None, None
    if ended.exit_code == KILLED_CODE or ended.signal:
        return Cause.SIGNALLED, "it was killed together with its container", None, ended.signal or 9
    return Cause.EXITED, f"exit code {ended.exit_code}", ended.exit_code, None


def _setup(words: Words, intent: Intent) -> str:
    path = f" `{intent.checks[words.at]}`" if 0 <= words.at < len(intent.checks) else ""
    return {
        Left.NO_FOLDER: "the working directory is not there or cannot be entered",
        Left.NO_FILE: f"the file{path} could not be put in its place as it was sent",
        Left.NO_VOLUME: f"the volume at{path} is not there as it was asked for",
        Left.NO_COMMAND: "the command is not in the image, or cannot be run",
    }[words.left]


# What is due.


def duties(
    members: Members, settings: KubernetesClusterSettings, wall: float, since: Mapping[str, float]
) -> Iterator[Duty]:
    """`since` says by name of a pod for how many seconds it has been as it is, as far as we saw it."""
    if members.verdict is not None:
        yield from _ending(members, wall)
        if members.given_up is not None and VERDICT not in members.anchor.metadata.annotations:
            yield Duty(Act.GIVE_UP, verdict=members.given_up)
        return
    if members.complete and not members.whole:
        yield Duty(Act.WHOLE)
    at_work = any(begun(pod) or (is_over(pod) and GO in _notes(pod)) for pod in members.pods.values())
    found = None if at_work else _hopeless(members, settings, wall, since)
    if found is not None:
        yield Duty(Act.GIVE_UP, verdict=found)
        return
    ready = {rank for rank, pod in members.pods.items() if _in_place(pod)}
    waits = [pod for pod in members.pods.values() if _in_place(pod) and not _notes(pod).get(GO)]
    if (
        waits
        and members.open_within
        and (len(ready) == members.intent.ranks or any(_notes(p).get(GO) for p in members.pods.values()))
    ):
        # Or the word to begin was given before, and we were stopped in the midst of it.
        yield from (Duty(Act.GO, pod) for pod in waits)
    for pod in members.pods.values():
        yield from _overdue(pod, members.intent, wall)


def _hopeless(
    members: Members, settings: KubernetesClusterSettings, wall: float, since: Mapping[str, float]
) -> Verdict | None:
    """Nothing of it has begun: whether it ever will."""
    for rank, pod in sorted(members.pods.items()):
        told, for_s = _story(pod), since.get(pod.metadata.name, 0.0)
        if _is_over(pod, told):
            cause, why, _, _ = end_of(pod, told, None, members.intent)
            return Verdict(cause, why, rank)
        if told.told is Told.UNSCHEDULABLE and for_s > settings.refused_after:
            # Room may come; a claim that the settings name and nobody made does not come by waiting.
            lacks = NO_CLAIM.search(told.words) is not None
            return Verdict(Cause.SETUP if lacks else Cause.REFUSED, told.words, rank)
        never = told.words.startswith(NEVER_COMES)
        if told.told is Told.PULL_FAILED and (never or for_s > settings.image_after):
            return Verdict(Cause.IMAGE, told.words, rank)
        if told.told is Told.NOT_STARTABLE and for_s > settings.image_after:
            return Verdict(Cause.SETUP, told.words, rank)
    created = members.anchor.metadata.creation_timestamp
    if created is not None and wall - created.timestamp() > members.intent.gather_s + OVERDUE_S / 3:
        waits = [rank for rank in range(members.intent.ranks) if not _there(members.pods.get(rank))]
        note = (
            _story(members.pods[waits[0]]).note
            if waits and waits[0] in members.pods
            else "its pod is not made"
        )
        which = (
            f"rank {waits[0]}: {note}" if waits else "all are there, and the word to begin did not reach them"
        )
        return Verdict(Cause.NOT_GATHERED, f"not in place within {members.intent.gather_s} s; {which}")
    return None


def _ending(members: Members, wall: float) -> Iterator[Duty]:
    """The set was given up: what runs is told to stop, what has not begun goes at once."""
    for pod in members.pods.values():
        told = _story(pod)
        if _is_over(pod, told):
            continue
        if not _has_container(pod):
            yield Duty(Act.DELETE, pod)
        elif not _notes(pod).get(STOP):
            yield Duty(Act.STOP, pod)
        else:
            yield from _forced(pod, members.intent, wall)


def _overdue(pod: Pod, intent: Intent, wall: float) -> Iterator[Duty]:
    """One whose keeper does not do what it is there for."""
    if _is_over(pod, _story(pod)):
        return
    if _notes(pod).get(STOP):
        yield from _forced(pod, intent, wall)
        return
    limit, began = _limit(pod), _began_wall(pod)
    if limit is not None and began is not None and wall > began + limit + intent.grace_s + OVERDUE_S:
        yield Duty(Act.STOP, pod)


def _forced(pod: Pod, intent: Intent, wall: float) -> Iterator[Duty]:
    asked = _number(_notes(pod).get(STOP, ""))
    if asked is not None and wall > asked + intent.grace_s + LEAVE_S + FORCE_S:
        yield Duty(Act.DELETE, pod)


# One pod.


def _notes(pod: Pod) -> Mapping[str, str]:
    return pod.metadata.annotations


def _story(pod: Pod) -> PodStory:
    return story(pod, CONTAINER)


def _status(pod: Pod) -> ContainerStatus | None:
    return next((each for each in pod.status.container_statuses if each.name == CONTAINER), None)


def _ended(pod: Pod) -> Terminated | None:
    status = _status(pod)
    return status.state.terminated if status is not None else None


def told_of(pod: Pod) -> str:
    """A word that stays the same for as long as a pod waits for the same thing."""
    status = _status(pod)
    waiting = status.state.waiting if status is not None else None
    # One comes after the other for as long as the image does not.
    return "image" if waiting is not None and waiting.reason in IMAGE_TROUBLE else str(_story(pod).told)


def is_over(pod: Pod) -> bool:
    return _is_over(pod, _story(pod))


def _is_over(pod: Pod, told: PodStory) -> bool:
    return told.over or _ended(pod) is not None


def wrote(pod: Pod) -> bool:
    """Whether there is, or was, a container that may have written something.

    One that never began is called ended, too, when its pod is deleted; then it has no beginning.
    """
    status = _status(pod)
    ended = status.state.terminated if status is not None else None
    began = ended is not None and ended.started_at is not None
    return began or (status is not None and status.state.running is not None)


def _has_container(pod: Pod) -> bool:
    status = _status(pod)
    return status is not None and status.state.running is not None


def _in_place(pod: Pod) -> bool:
    status = _status(pod)
    return status is not None and status.state.running is not None and status.started is True


def _there(pod: Pod | None) -> bool:
    return pod is not None and _in_place(pod)


def begun(pod: Pod) -> bool:
    """Whether its command may have begun: the word to begin is there, and a container to hear it."""
    return bool(_notes(pod).get(GO)) and wrote(pod)


def _began_wall(pod: Pod) -> float | None:
    status = _status(pod)
    if status is None or not begun(pod):
        return None
    state = status.state
    started = state.running.started_at if state.running is not None else None
    if state.terminated is not None:
        started = state.terminated.started_at
    if started is None:
        return None
    return max(started.timestamp(), _number(_notes(pod).get(GO, "")) or 0.0)


def _began(pod: Pod, clock: Clock) -> Instant | None:
    return clock.instant(_began_wall(pod))


def _limit(pod: Pod) -> int | None:
    found = _number(_notes(pod).get(LIMIT, ""))
    return None if found is None else int(found)


def _number(text: str) -> float | None:
    return float(text) if text.isdecimal() and text.isascii() and len(text) < 13 else None


def _rank_of(pod: Pod) -> int:
    return rank_of(pod.metadata.name)


def rank_of(name: str) -> int:
    """Raises ValueError where no pod of ours is called so."""
    return int(name.rpartition("-")[2])
