"""The Kubernetes backend: one pod for each pilot, in one namespace, followed by a reflector.

A pod's name is the name of the pilot, so that a repeated request makes nothing twice; what was asked for is
written on it, so that it is known again. It refuses to know jobs and demand.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, NodeName, OfferKey, PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.kube.access import Access, access_of
from glidepath.kube.api import Api, LaterError, NotOursError, NotSentError, UnansweredError
from glidepath.kube.checkup import Checkup
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.form import Forms
from glidepath.kube.intent import DRAIN, INTENT, SITE, digest, intent_of, usable
from glidepath.kube.pod import pod_of, secret_of
from glidepath.kube.reflector import Heard, Reflector
from glidepath.kube.settings import KubernetesSettings, PodSettings
from glidepath.kube.shapes import Decoder, Pod
from glidepath.kube.states import CONTAINER, PodStory, story
from glidepath.ports import Finding, Place
from glidepath.terms import NO_TERMS

LIMIT_S = 25.0
# One request of several that a call may need.
REQUEST_S = 8.0
FIRST_LIST_S = 15.0
# A healthy stream says something every minute; older than this, nothing is known.
AGE_S_MAX = 90.0
# The same while the server cannot be reached or refuses.
TROUBLED_S_MAX = 20.0
# Creates that are under way at the same time: one alone mostly waits for the server.
AT_ONCE = 16
STOP_S = 10  # that a pilot which is removed has left before it is killed
TRIES_MAX = 3  # at deleting a pod that changes meanwhile
LOG_LINES = 2000
BRIEF_MAX = 3  # streams in a row that end at once before people are told
OVER = frozenset({SiteState.ENDED, SiteState.FAILED})


@dataclass(frozen=True, slots=True)
class Opened:
    """What is there once the first call was made."""

    api: Api
    pods: Reflector[Pod]
    path: str
    namespace: str
    forms: Forms


class KubernetesBackend:
    """Pods of one site in one namespace. Nothing is opened before the first call."""

    def __init__(
        self,
        site: SiteName,
        settings: KubernetesSettings,
        place: Place,
        *,
        access: Callable[[], Access] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.site = site
        self.limit_s = LIMIT_S
        # Those who would only wait for their turn need not be there.
        self.at_once = min(AT_ONCE, settings.changes_per_second or AT_ONCE)
        self.settings = settings
        self._place, self._wall = place, wall
        self._access = access or (lambda: access_of(settings))
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._decoder = Decoder(Pod)
        self._tables: dict[str, PodSettings] = {}
        self._under_way = 0  # creates whose pod is not known yet

    # Reading.

    def list(self, *, now: Instant) -> SiteListing:
        heard = self._open().pods.heard(wait_s=FIRST_LIST_S)
        if heard.age_s > (TROUBLED_S_MAX if heard.trouble else AGE_S_MAX):
            raise OSError(
                f"nothing was heard for {heard.age_s:.0f} s: {heard.trouble or 'the stream is silent'}"
            )
        pilots: list[SitePilot] = []
        notes = [*self._notes(heard)]
        odd = {each.name for each in heard.odd}
        lacks = len(odd - set(heard.items))
        for name, pod in sorted(heard.items.items()):
            try:
                pilot = self._pilot(pod, now)
                # What was known of one that cannot be read any more is not what it is now.
                pilots.append(replace(pilot, state=SiteState.UNKNOWN) if name in odd else pilot)
            except ValueError as error:
                lacks += 1
                notes.append(f"the pod `{one_line(name)}` is left alone: {one_line(str(error))}")
        pilots += self._gone(heard, now)
        return SiteListing(
            tuple(pilots),
            complete=not lacks,
            age_s=int(heard.age_s),
            notes=tuple(notes),
            room=max(0, self.settings.pods_max - len(heard.items)),
        )

    def _gone(self, heard: Heard[Pod], now: Instant) -> Iterator[SitePilot]:
        """Pods that are seen to be gone: nobody has to wait for them."""
        for _, pod in sorted(heard.gone.items()):
            try:
                pilot = self._pilot(pod, now)
            except ValueError:
                continue
            if pilot.state in OVER:
                yield pilot
            elif pod.metadata.annotations.get(DRAIN):
                yield replace(pilot, state=SiteState.ENDED, note="its pod is gone after it was drained")
            else:
                yield replace(pilot, state=SiteState.FAILED, note=f"its pod was deleted; it was {pilot.note}")

    def _notes(self, heard: Heard[Pod]) -> tuple[str, ...]:
        notes = [f"the pod `{odd.name or '?'}` cannot be read: {odd.why}" for odd in heard.odd]
        if self._open().api.access.verified is False:
            notes.append("it is not checked who the server is (`tls_unverified`)")
        if heard.brief >= BRIEF_MAX:
            notes.append("the server ends each stream at once, so what happens there is seen late, by lists")
        if heard.counts.drift:
            notes.append(f"{heard.counts.drift} pods were not as the stream had told; the list was believed")
        return tuple(notes)

    def _pilot(self, pod: Pod, now: Instant) -> SitePilot:
        intent = intent_of(pod.metadata.annotations.get(INTENT, ""))
        told = story(pod)
        asked_at = Instant(min(intent.asked_at, now))
        started = pod.status.start_time if told.state is SiteState.RUNNING else None
        return SitePilot(
            name=PilotName(pod.metadata.name),
            offer=intent.offer,
            pool=intent.pool,
            size=intent.size,
            state=told.state,
            since=self._instant(told.since, asked_at, now),
            asked_at=asked_at,
            traits=intent.traits,
            owner=intent.owner,
            native_id=pod.metadata.uid,
            node=NodeName(told.node),
            ends_at=Instant(self._instant(started, asked_at, now) + intent.lifetime_s) if started else None,
            note=told.note,
        )

    def _instant(self, at: datetime | None, asked_at: Instant, now: Instant) -> Instant:
        """A time of the cluster on our own clock; theirs may be wrong, so it stays where it can be."""
        if at is None:
            return asked_at
        return Instant(min(now, max(asked_at, now - int(self._wall() - at.timestamp()))))

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        if not usable(name):
            raise LookupError(f"there is no pilot `{one_line(name)}` here")
        opened = self._open()
        query: dict[str, str | int] = {"container": CONTAINER, "tailLines": LOG_LINES}
        try:
            whole = opened.api.get(f"{opened.path}/{name}/log", query, limit_s=REQUEST_S, text=True)
        except KubeError as error:
            if error.status in (400, 404):
                raise LookupError(f"the pilot `{name}` has no log: {error}") from None
            raise
        return whole[-bytes_max:].decode("utf-8", "replace")

    def furnished(self, offer: OfferKey) -> bool:
        """Whether the namespace has the token of its pilots, so that the pool need not make one."""
        return bool(self._table(offer).token_secret)

    # Acting.

    def submit(self, spec: PilotSpec) -> Outcome:
        if not usable(spec.name):
            return Refused("the name of a pod must be at most 63 small letters, digits and `-`")
        if "GLIDEPATH_COLLECTOR" not in dict(spec.join):
            return Refused(f"the pool `{one_line(spec.pool)}` cannot be joined from a pod")
        pod = self._table(spec.offer)
        if not pod.image:
            return Refused(f"there is no image for `{spec.offer}`; set `image`")
        if not spec.secrets and not pod.token_secret:
            return Refused(
                f"there is no token for `{spec.offer}`; set `token_secret`, or `tokens` of the pool"
            )
        return self._tried(spec.name, lambda opened: self._submitted(opened, spec))

    def _submitted(self, opened: Opened, spec: PilotSpec) -> Outcome:
        opened.pods.count(wait_s=FIRST_LIST_S)  # Waited for before the lock is held.
        with self._lock:
            # Others may be on their way; together they must not be too many either.
            ours = opened.pods.count(wait_s=0) + self._under_way
            if ours >= self.settings.pods_max:
                # A limit of a moment: who looks again sees in the listing that there is no room.
                return NotTried(f"there are {ours} pods of ours, and `pods_max` is {self.settings.pods_max}")
            self._under_way += 1
        try:
            return self._started(opened, spec)
        finally:
            with self._lock:
                self._under_way -= 1

    def _started(self, opened: Opened, spec: PilotSpec) -> Outcome:
        community = self._place.terms.get(spec.offer, NO_TERMS).community
        settings = self._table(spec.offer)
        wanted = opened.forms.filled(spec, settings, community=community)
        made, said = self._made(opened, spec, wanted)
        if isinstance(made, (Failed, Refused)):
            return made
        opened.pods.seen(made)
        if spec.secrets and not settings.token_secret:
            self._furnish(opened, spec, made.metadata.uid)
        return Done(said)

    def _table(self, offer: OfferKey) -> PodSettings:
        """Made once for each offer; there are few."""
        name = offer.partition("/")[2]
        if name not in self._tables:
            self._tables[name] = self.settings.pod(name)
        return self._tables[name]

    def _made(self, opened: Opened, spec: PilotSpec, wanted: bytes) -> tuple[Pod | Failed | Refused, str]:
        """The pod that is there now, and what is to be said of it."""
        try:
            return self._decoder.item(opened.api.change("POST", opened.path, wanted, limit_s=REQUEST_S)), ""
        except KubeError as error:
            if error.status != 409:
                raise
        found = self._fetched(opened, spec.name)
        if found is None:
            return Failed(f"`{spec.name}` is just being removed"), ""
        if not _is_ours(found, spec):
            return Refused(f"`{spec.name}` exists for something else"), ""
        return found, "it was started before"

    def _furnish(self, opened: Opened, spec: PilotSpec, uid: str) -> None:
        """The pod waits for its token, and takes it along when it goes; without it, it must not stay."""
        path = f"/api/v1/namespaces/{opened.namespace}/secrets"
        try:
            opened.api.change("POST", path, secret_of(spec, uid), limit_s=REQUEST_S, always=True)
        except KubeError as error:
            if error.status == 409:
                return
            self._delete(opened, spec.name, {"uid": uid}, grace_s=0)
            raise
        except NotSentError as error:
            raise UnansweredError(f"its pod was made, its token not: {error}") from None

    def withdraw(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda opened: self._deleted(opened, target, only_pending=True))

    def remove(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda opened: self._deleted(opened, target, only_pending=False))

    def _deleted(self, opened: Opened, target: Target, *, only_pending: bool) -> Outcome:
        """With uid and version, so that what is deleted is what was looked at."""
        for _ in range(TRIES_MAX):
            pod = self._fetched(opened, target.name)
            if pod is None:
                # By its uid, too: the stream may tell of its end only later.
                opened.pods.forget(target.name, target.native_id)
                return Done("it is gone")
            if (target.native_id and pod.metadata.uid != target.native_id) or not self._of_this_site(pod):
                return Refused(f"`{target.name}` is another pod now")
            told = story(pod)
            if only_pending and not _withdrawable(told):
                return Refused(f"`{target.name}` is {told.told}")
            if told.state is SiteState.LEAVING and pod.metadata.deletion_timestamp and only_pending:
                return Done("it is going")
            conditions = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
            over = told.state in OVER
            try:
                self._delete(opened, target.name, conditions, grace_s=0 if over else STOP_S)
            except KubeError as error:
                if error.status == 409:
                    continue  # It has changed since; what it is now decides.
                if error.status != 404:
                    raise
            if over:
                opened.pods.forget(target.name, pod.metadata.uid)
            return Done()
        return Failed(f"`{target.name}` changes all the time; later")

    def _delete(self, opened: Opened, name: str, conditions: Mapping[str, str], *, grace_s: int) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_s,
            "preconditions": dict(conditions),
        }
        opened.api.change("DELETE", f"{opened.path}/{name}", body, limit_s=REQUEST_S)

    def drain(self, target: Target) -> Outcome:
        return self._tried(target.name, lambda opened: self._drained(opened, target))

    def _drained(self, opened: Opened, target: Target) -> Outcome:
        pod = self._fetched(opened, target.name)
        if pod is None or story(pod).state in OVER:
            return Done("it is gone")
        if (target.native_id and pod.metadata.uid != target.native_id) or not self._of_this_site(pod):
            return Refused(f"`{target.name}` is another pod now")
        offer = intent_of(pod.metadata.annotations.get(INTENT, "")).offer.partition("/")[2]
        preset = self.settings.pod(offer).preset
        if preset not in DRAINING:
            return Refused(f"the images of preset `{preset}` cannot be told to drain; they leave when idle")
        if pod.metadata.annotations.get(DRAIN):
            return Done("it was told before")
        # A patch with the uid is refused where the name has come to be another pod's.
        body: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid, "annotations": {DRAIN: "yes"}}}
        opened.api.change("PATCH", f"{opened.path}/{target.name}", body, limit_s=REQUEST_S)
        return Done()

    def render(self, spec: PilotSpec) -> str:
        """The manifest of the pod that `submit` would make; its token comes in a Secret of its own."""
        settings = self._table(spec.offer)
        if not settings.image:
            raise ValueError(f"there is no image for `{spec.offer}`; set `image`")
        community = self._place.terms.get(spec.offer, NO_TERMS).community
        # Of the kubeconfig nothing is read: which namespace that says is found out when a pilot is started.
        namespace = self.settings.namespace or "NAMESPACE"
        pod = pod_of(spec, settings, community=community, namespace=namespace)
        return json.dumps(pod, indent=2) + "\n"

    def checkup(self, offers: tuple[Offer, ...]) -> tuple[Finding, ...]:
        return Checkup(self.site, self.settings, self._access, offers, wall=self._wall).findings()

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.pods.stop()

    # What these are made of.

    def _tried(self, name: str, call: Callable[[Opened], Outcome]) -> Outcome:
        """What went wrong, as an outcome: whether something may have happened is the difference."""
        if not usable(PilotName(name)):
            return Done("it is gone")
        shown = f"`{one_line(name)}`"
        try:
            return call(self._open())
        except (NotOursError, LaterError) as error:
            return NotTried(str(error))
        except UnansweredError as error:
            return Unsure(f"{shown}: {error}")
        except (NotSentError, AccessError) as error:
            return Failed(f"{shown}: {error}")
        except KubeError as error:
            if error.status in REFUSING and not error.busy:
                return Refused(str(error))
            if error.unclear:
                return Unsure(f"{shown}: {error}")
            return Failed(f"{shown}: {error}")
        except (OSError, ValueError) as error:
            return Failed(f"{shown}: {one_line(str(error))}")

    def _fetched(self, opened: Opened, name: str) -> Pod | None:
        try:
            return self._decoder.item(opened.api.get(f"{opened.path}/{name}", limit_s=REQUEST_S))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def _of_this_site(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(SITE) == self.site

    def _open(self) -> Opened:
        with self._lock:
            if self._opened is None:
                access = self._access()
                rate = self.settings.changes_per_second
                api = Api(access, changes_per_s=rate, ours=self._place.ours)
                path = f"/api/v1/namespaces/{access.namespace}/pods"
                pods = Reflector(api, path, Pod, selector=f"{SITE}={self.site}")
                self._opened = Opened(api, pods, path, access.namespace, Forms(access.namespace))
            return self._opened


# Answers that a repeated request would get again: rights, quota, admission, an object that cannot be.
REFUSING = frozenset({400, 403, 404, 405, 413, 422})
DRAINING = frozenset({"glidepath"})


def _is_ours(pod: Pod, spec: PilotSpec) -> bool:
    try:
        return intent_of(pod.metadata.annotations.get(INTENT, "")).digest == digest(spec)
    except ValueError:
        return False


def _withdrawable(told: PodStory) -> bool:
    return told.state in (SiteState.PENDING, SiteState.LEAVING)
