"""What is due for sets of ranks, done without being asked: one thread that looks, and does what it finds.

It gives the word to begin, gives up what cannot begin, ends what was told to stop and does not, and has logs
fetched. All that it goes by stands on the objects, so that another one goes on where this one was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from glidepath.cluster.kubernetes.fetching import Fetching, Wanted
from glidepath.cluster.kubernetes.objects import Objects
from glidepath.cluster.kubernetes.peers import peer_marks
from glidepath.cluster.kubernetes.pod import GO, PEERS, STOP, VERDICT, WHOLE, written_verdict
from glidepath.cluster.kubernetes.separation import Separation
from glidepath.cluster.kubernetes.sets import Act, Duty, Members, Verdict, duties, is_over, told_of, wrote
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.core.place.rank import SetKey
from glidepath.core.text import one_line
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import Pod

# How often it is looked; most of what happens is seen within this.
LOOK_S = 0.2
# After something failed, so that a server in trouble is not asked for the same five times a second.
REST_S = 2.0
WORLD = (OSError, KubeError, AccessError, ValueError)


class Steward:
    """For one cluster; begins with `begin` and ends with `close`."""

    def __init__(
        self,
        objects: Objects,
        settings: KubernetesClusterSettings,
        logs: Fetching,
        separation: Separation,
        *,
        ours: Callable[[], bool],
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects, self._settings, self.logs = objects, settings, logs
        self.separation = separation
        self._ours, self._wall, self._mono = ours, wall, mono
        self._over, self._wake = threading.Event(), threading.Event()
        self.given_up: dict[SetKey, Verdict] = {}
        self.trouble = ""
        # By name of a pod: how it was when we first saw it so, and when that was.
        self._since: dict[str, tuple[str, float]] = {}
        self._rests: dict[SetKey, float] = {}

    def begin(self) -> None:
        name = f"steward of {self._objects.cluster}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        self._over.set()
        self._wake.set()
        self.logs.close()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._turn()
            except WORLD as error:
                self.trouble = one_line(str(error) or type(error).__name__)
                self._over.wait(REST_S)
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def _turn(self) -> None:
        members, _ = self._objects.members(self.given_up)
        now, wall = self._mono(), self._wall()
        since = self._ages((pod for each in members for pod in each.pods.values()), now)
        self.logs.follow(_logs(members))
        if not self._ours():
            return
        self.separation.see_to(members)
        self._tell_peers(members)
        for each in members:
            if self._rests.get(each.key, 0.0) > now:
                continue
            try:
                self._see_to(each, [*duties(each, self._settings, wall, since)])
            except WORLD as error:
                self.trouble = one_line(f"{each.key}: {error}")
                self._rests[each.key] = now + REST_S
        keys = {each.key for each in members}
        self._rests = {key: at for key, at in self._rests.items() if key in keys and at > now}
        self.given_up = {key: found for key, found in self.given_up.items() if key in keys}

    def _tell_peers(self, members: Sequence[Members]) -> None:
        due = [*peer_marks(members)]
        try:
            self._objects.each(due, lambda row: self._objects.mark_pod(row[0], {PEERS: row[1]}))
        except WORLD as error:
            self.trouble = one_line(f"names of connected jobs: {error}")

    def _ages(self, pods: Iterable[Pod], now: float) -> dict[str, float]:
        """For how long each pod has been as it is."""
        fresh = {}
        for pod in pods:
            state, before = f"{pod.metadata.uid} {told_of(pod)}", self._since.get(pod.metadata.name)
            fresh[pod.metadata.name] = before if before and before[0] == state else (state, now)
        self._since = fresh
        return {name: now - at for name, (_, at) in fresh.items()}

    def _see_to(self, members: Members, due: Sequence[Duty]) -> None:
        last = [duty for duty in due if duty.act is Act.GIVE_UP]
        if any(duty.act is Act.WHOLE for duty in due):
            self._objects.mark_anchor(members.anchor, {WHOLE: "yes"})
        self._objects.each([duty for duty in due if duty.pod is not None], self._do)
        for duty in last:
            assert duty.verdict is not None
            if members.given_up is None:
                # First nothing of it may begin any more; why is written after that.
                self.given_up[members.key] = duty.verdict
                self.wake()
            else:
                verdict = members.given_up
                text = written_verdict(verdict.cause, verdict.why, verdict.rank)
                self._objects.mark_anchor(members.anchor, {VERDICT: text})

    def _do(self, duty: Duty) -> None:
        assert duty.pod is not None
        if duty.act is Act.DELETE:
            self._objects.delete_pod(duty.pod)
        else:
            key = GO if duty.act is Act.GO else STOP
            self._objects.mark_pod(duty.pod, {key: str(int(self._wall()))})


def _logs(members: Iterable[Members]) -> Mapping[str, Wanted]:
    wanted = {}
    for each in members:
        for rank, pod in each.pods.items():
            name, ended = pod.metadata.name, is_over(pod)
            if ended or wrote(pod):
                bytes_max, gone = each.intent.log_bytes_max, ended and not wrote(pod)
                wanted[name] = Wanted(name, pod.metadata.uid, each.key, rank, bytes_max, ended, gone)
    return wanted
