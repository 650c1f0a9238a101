"""The door to a Kubernetes cluster on which jobs are placed: sets of ranks in one namespace, one pod each.

What stands on the objects themselves is all that it knows: another one in its place goes on where it was. It
refuses to choose nodes; the kube-scheduler has the last word on each of them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from glidepath.cluster.kubernetes.checked import SECONDS_MAX, trouble
from glidepath.cluster.kubernetes.fetching import Fetching
from glidepath.cluster.kubernetes.network import policies_of
from glidepath.cluster.kubernetes.nodes import names_of, node_seen, others_on, stated_nodes, wanted
from glidepath.cluster.kubernetes.objects import FIRST_LIST_S, Objects
from glidepath.cluster.kubernetes.peers import peer_files
from glidepath.cluster.kubernetes.pod import (
    CLUSTER,
    INTENT,
    LIMIT,
    NOTICE,
    VERDICT,
    WHOLE,
    anchor_of,
    digest,
    intent_of,
    pod_of,
    secret_of,
    written_verdict,
)
from glidepath.cluster.kubernetes.separation import Separation
from glidepath.cluster.kubernetes.sets import Clock, Members, Verdict, is_over, seen
from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.cluster.kubernetes.steward import Steward
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.place.rank import (
    KEY,
    Cause,
    ClusterName,
    NodeListing,
    NodeSeen,
    RankSet,
    SetKey,
    SetListing,
    SetSeen,
)
from glidepath.core.quantity import Instant, Resources
from glidepath.core.text import one_line
from glidepath.kube.access import Access, access_of
from glidepath.kube.api import LaterError, NotOursError, NotSentError, UnansweredError
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import Named
from glidepath.ports import Place

LIMIT_S = 40.0
# A start is three requests one after the other, each of some milliseconds of waiting.
STARTS_AT_ONCE = 4
# Answers that a repeated request would get again, for as long as nobody changes rights or quotas.
REFUSING = frozenset({400, 403, 404, 405, 413, 422})
# Somebody else changed something in that moment, such as what a quota has counted.
CONFLICT = 409
# Those that no change at the cluster would make better.
HOPELESS = frozenset({400, 413, 422})
TOLD_TO_STOP = Verdict(Cause.STOPPED, "it was told to stop")


@dataclass(frozen=True, slots=True)
class _Opened:
    objects: Objects
    steward: Steward


class KubernetesCluster:
    """Nothing is opened before the first call."""

    def __init__(
        self,
        name: ClusterName,
        settings: KubernetesClusterSettings,
        place: Place,
        *,
        access: Callable[[], Access] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.limit_s = LIMIT_S
        self.at_once = STARTS_AT_ONCE
        self.settings = settings
        self._place, self._wall = place, wall
        self._access = access or (lambda: access_of(settings))
        self._lock = threading.Lock()
        self._known: _Opened | None = None
        self._told: tuple[int, int, int] = (0, 0, 0)

    # Reading.

    def nodes(self, *, now: Instant) -> NodeListing:
        if self.settings.stated:
            return NodeListing(tuple(stated_nodes(self.settings.stated)), notes=self._notes())
        objects = self._open().objects
        assert objects.machines is not None
        assert objects.tenants is not None
        machines = objects.fresh(objects.machines, "the nodes")
        tenants = objects.fresh(objects.tenants, "the pods of others")
        theirs = [
            pod
            for pod in tenants.items.values()
            if (pod.metadata.namespace, pod.metadata.labels.get(CLUSTER)) != (objects.namespace, self.name)
        ]
        others = others_on(theirs, self.settings.gpu_resource)
        rows = {
            name: (node, False)
            for name, node in machines.items.items()
            if wanted(node, self.settings.nodes_of)
        }
        rows |= {name: (node, True) for name, node in machines.gone.items() if name not in rows}
        found = tuple(
            node_seen(node, self.settings, others.get(name, (Resources(), 0)), gone=gone)
            for name, (node, gone) in sorted(rows.items())
        )
        odd = [
            f"`{one_line(each.name)}` cannot be read: {each.why}" for each in (*machines.odd, *tenants.odd)
        ]
        return NodeListing(found, int(max(machines.age_s, tenants.age_s)), (*odd, *self._notes()))

    def list(self, *, now: Instant) -> SetListing:
        opened = self._open()
        members, age_s = opened.objects.members(opened.steward.given_up)
        clock, kept = Clock(now, self._wall()), opened.steward.logs.kept()
        return SetListing(tuple(seen(each, clock, kept) for each in members), int(age_s))

    def changed(self) -> bool:
        """A rank whose log was fetched has changed, too: it may be told to be over now."""
        known = self._known
        if known is None:
            return False
        kept = sum(known.steward.logs.kept().values())
        now = (known.objects.pods.events, known.objects.anchors.events, kept)
        before, self._told = self._told, now
        return now != before

    def _notes(self) -> tuple[str, ...]:
        known = self._known
        if known is None:
            return ()
        steward = known.steward
        told = (steward.trouble, steward.logs.trouble, steward.separation.trouble)
        notes = [each for each in told if each]
        if known.objects.api.access.verified is False:
            notes.append("it is not checked who the server is (`tls_unverified`)")
        return tuple(notes)

    # Acting.

    def start(self, ranks: RankSet) -> Outcome:
        if why := trouble(ranks, self.settings):
            return Refused(why)
        return self._tried(ranks.key, lambda opened: self._started(opened, ranks))

    def _started(self, opened: _Opened, ranks: RankSet) -> Outcome:
        objects = opened.objects
        if objects.anchors.count(wait_s=FIRST_LIST_S) >= self.settings.sets_max:
            return Failed(f"there are {self.settings.sets_max} jobs of ours in the namespace, `sets_max`")
        # Asked before anything is made: what cannot be read must not leave half a set behind.
        rooms = self._rooms(ranks)
        # Before anything else is made, also for a set of one pod. One with peers has a Service all the same:
        # its policies go with that, and others find it by name through it.
        opened.steward.separation.ready()
        anchor, fresh = self._anchored(objects, ranks)
        if isinstance(anchor, (Done, Failed, Refused)):
            return anchor
        try:
            if ranks.work.files:
                objects.make_secret(secret_of(ranks, self.name, anchor.metadata.uid))
            if objects.policies is not None:
                # Before the first pod: what is allowed is allowed from the beginning.
                intent = intent_of(anchor.metadata.annotations.get(INTENT, ""))
                wanted = policies_of(intent, self.name, anchor.metadata.uid)
                objects.each(wanted, lambda body: objects.make_policy(body, always=True))
            peers = self._peers(opened, ranks)
            bodies = [
                self._pod(ranks, rank, anchor, rooms=rooms, peers=peers) for rank in range(len(ranks.seats))
            ]
            objects.each(bodies, objects.make_pod)
        except KubeError as error:
            if error.busy or error.status == CONFLICT:
                raise UnansweredError(f"a part of it was made, the rest not yet: {error}") from None
            if error.status not in REFUSING:
                raise
            # A quota may count what is there already against what is asked for once more.
            if fresh or len(objects.ranks_made(ranks.key)) < len(ranks.seats):
                # All of them or none: with the Service goes what was made of the set.
                objects.delete_anchor(anchor)
                why = f"the cluster refused it: {error}"
                return Refused(why) if error.status in HOPELESS else Failed(why)
        except NotSentError as error:
            raise UnansweredError(f"a part of it was made, the rest not: {error}") from None
        with suppress(OSError, KubeError):
            # Whatever comes of that, it was started; the steward writes it down as soon as it can.
            objects.mark_anchor(anchor, {WHOLE: "yes"})
        opened.steward.wake()
        return Done()

    def _anchored(self, objects: Objects, ranks: RankSet) -> tuple[Named | Done | Failed | Refused, bool]:
        """The Service of the set where pods are still to be made for it, and whether it is a new one."""
        made = objects.make_anchor(anchor_of(ranks, self.name, log_bytes_max=self._place.log_bytes_max))
        if made is not None:
            return made, True
        try:
            return self._known_anchor(objects, ranks), False
        except (KubeError, NotSentError) as error:
            # It is there, and may have begun: whatever is wrong with reading it says nothing of that.
            raise UnansweredError(f"it is there and cannot be read: {error}") from None

    def _known_anchor(self, objects: Objects, ranks: RankSet) -> Named | Done | Failed | Refused:
        found = objects.anchor(ranks.key)
        if found is None or found.metadata.deletion_timestamp is not None:
            return Failed(f"{ranks.key} is just being removed")
        notes = found.metadata.annotations
        try:
            same = intent_of(notes.get(INTENT, "")).digest == digest(ranks)
        except ValueError:
            same = False
        if not same or found.metadata.labels.get(CLUSTER) != self.name:
            return Refused(f"{ranks.key} exists for something else")
        return Done("it was started before") if notes.get(WHOLE) or notes.get(VERDICT) else found

    def _peers(self, opened: _Opened, ranks: RankSet) -> str:
        """Names of jobs that it is beside, as far as they are known now; the steward tells of the others."""
        if not ranks.peers:
            return ""
        members, _ = opened.objects.members(opened.steward.given_up)
        return peer_files(members).get(ranks.key, "")

    def _pod(
        self, ranks: RankSet, rank: int, anchor: Named, *, rooms: Mapping[str, NodeSeen], peers: str
    ) -> dict[str, Any]:
        node = ranks.seats[rank].node
        made_up = {name for each in self.settings.stated if not each.pinned for name in names_of(each)}
        found = rooms.get(node)
        whole = None
        if found is not None and node not in made_up:
            size, others = found.node.size, found.others
            sitting = Counter(seat.node for seat in ranks.seats)[node]
            whole = Resources(
                max(0, size.cpu_milli - others.cpu_milli) // sitting,
                max(0, size.memory_mib - others.memory_mib) // sitting,
            )
        return pod_of(
            ranks,
            rank,
            self.settings,
            cluster=self.name,
            anchor_uid=anchor.metadata.uid,
            whole=whole,
            gpu_kind=found.node.gpu_kind if found is not None else "",
            pinned=node not in made_up,
            peers=peers,
        )

    def _rooms(self, ranks: RankSet) -> Mapping[str, NodeSeen]:
        """What nodes have for us, where that makes a difference to a pod."""
        if not ranks.exclusive and not ranks.size.gpus:
            return {}
        return {each.node.name: each for each in self.nodes(now=Instant(0)).nodes}

    def extend(self, key: SetKey, limit_s: int | None) -> Outcome:
        if not KEY.fullmatch(key):
            return Refused("there is no such set")
        if limit_s is not None and not 0 <= limit_s <= SECONDS_MAX:
            return Refused(f"{limit_s} s is no time limit that can be kept")

        def told(opened: _Opened) -> Outcome:
            found, shown = self._found(opened, key)
            if found is None or shown is None or shown.over:
                return Refused("it is over")
            self._tell(opened, found, LIMIT, "" if limit_s is None else str(limit_s))
            return Done()

        return self._tried(key, told)

    def give_notice(self, key: SetKey) -> Outcome:
        def told(opened: _Opened) -> Outcome:
            found, _ = self._found(opened, key)
            if found is not None:
                # Another word each time: it is the change that the keeper acts upon.
                self._tell(opened, found, NOTICE, f"{self._wall():.2f}")
            return Done()

        return self._tried(key, told) if KEY.fullmatch(key) else Done("it is gone")

    def _tell(self, opened: _Opened, members: Members, key: str, word: str) -> None:
        live = [pod for pod in members.pods.values() if not is_over(pod)]
        opened.objects.each(live, lambda pod: opened.objects.mark_pod(pod, {key: word}))

    def stop(self, key: SetKey) -> Outcome:
        def told(opened: _Opened) -> Outcome:
            found, _ = self._found(opened, key)
            if found is None:
                return Done("it is gone")
            if found.verdict is None or found.verdict.cause is not Cause.STOPPED:
                text = written_verdict(TOLD_TO_STOP.cause, TOLD_TO_STOP.why, TOLD_TO_STOP.rank)
                opened.objects.mark_anchor(found.anchor, {VERDICT: text})
            # The rest follows from that, be it done by us or by another one.
            opened.steward.wake()
            return Done()

        return self._tried(key, told) if KEY.fullmatch(key) else Done("it is gone")

    def clear(self, key: SetKey) -> Outcome:
        def cleared(opened: _Opened) -> Outcome:
            found, shown = self._found(opened, key)
            if found is None or shown is None:
                return Done("it is gone")
            if not shown.over:
                return Refused("it is not over")
            opened.objects.delete_anchor(found.anchor)
            return Done()

        return self._tried(key, cleared) if KEY.fullmatch(key) else Done("it is gone")

    def _found(self, opened: _Opened, key: SetKey) -> tuple[Members | None, SetSeen | None]:
        """The set as it is known, asked for by name where it is not."""
        for fetched in (False, True):
            if fetched and opened.objects.anchor(key) is None:
                break
            for each in opened.objects.members(opened.steward.given_up, only=key)[0]:
                return each, seen(each, Clock(Instant(0), self._wall()), opened.steward.logs.kept())
        return None, None

    def close(self) -> None:
        with self._lock:
            known = self._known
        if known is not None:
            known.steward.close()
            known.objects.close()

    def _tried(self, key: str, call: Callable[[_Opened], Outcome]) -> Outcome:
        """What went wrong, as an outcome: whether something may have happened is the difference."""
        try:
            return call(self._open())
        except (NotOursError, LaterError) as error:
            return NotTried(str(error))
        except UnansweredError as error:
            return Unsure(f"{key}: {error}")
        except (NotSentError, AccessError) as error:
            return Failed(f"{key}: {error}")
        except KubeError as error:
            return Unsure(f"{key}: {error}") if error.unclear else Failed(f"{key}: {error}")
        except (OSError, ValueError) as error:
            return Failed(f"{key}: {one_line(str(error))}")

    def _open(self) -> _Opened:
        with self._lock:
            if self._known is None:
                place, settings = self._place, self.settings
                objects = Objects(
                    self._access(),
                    self.name,
                    reads_nodes=not settings.stated,
                    apart=settings.network.separate,
                    changes_per_s=settings.changes_per_second,
                    ours=place.ours,
                )
                logs = Fetching(place.home, objects.api, objects.pods_path, place.ours)
                separation = Separation(objects, settings.network)
                steward = Steward(objects, settings, logs, separation, ours=place.ours, wall=self._wall)
                self._known = _Opened(objects, steward)
                steward.begin()
            return self._known
