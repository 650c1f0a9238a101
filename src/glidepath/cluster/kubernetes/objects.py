"""The objects of one namespace that are ours: followed, made, marked and deleted.

Names and plain objects come in, sets with their pods go out, or what the server said instead. It refuses to
know why anything is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from glidepath.cluster.kubernetes.network import policy_names
from glidepath.cluster.kubernetes.nodes import NodeObject, TenantPod
from glidepath.cluster.kubernetes.pod import CLUSTER, INTENT, SET, anchor_name, intent_of
from glidepath.cluster.kubernetes.rights import APART_GROUP
from glidepath.cluster.kubernetes.sets import Members, Verdict, begun
from glidepath.core.place.rank import Cause, SetKey
from glidepath.core.text import one_line
from glidepath.kube.access import Access
from glidepath.kube.api import Api
from glidepath.kube.errors import KubeError
from glidepath.kube.reflector import Heard, Reflector, by_place
from glidepath.kube.shapes import Decoder, Item, Named, Pod

REQUEST_S = 8.0
FIRST_LIST_S = 15.0
# A healthy stream says something every minute; older than this, nothing is known.
AGE_S_MAX = 90.0
TROUBLED_S_MAX = 20.0
# Requests for one set that are under way at the same time.
AT_ONCE = 8
RANK_DIGITS_MAX = 5
Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


class Objects:
    """For all threads; nothing is asked before it is used."""

    def __init__(
        self,
        access: Access,
        cluster: str,
        *,
        reads_nodes: bool,
        apart: bool,
        changes_per_s: float,
        ours: Callable[[], bool],
    ) -> None:
        self.cluster, self.namespace = cluster, access.namespace
        self.api = Api(access, changes_per_s=changes_per_s, ours=ours)
        below = f"/api/v1/namespaces/{access.namespace}"
        self.pods_path, self.anchors_path = f"{below}/pods", f"{below}/services"
        self.secrets_path = f"{below}/secrets"
        self.policies_path = f"/apis/{APART_GROUP}/v1/namespaces/{access.namespace}/networkpolicies"
        selector = f"{CLUSTER}={cluster}"
        self.pods = Reflector(self.api, self.pods_path, Pod, selector=selector)
        self.anchors = Reflector(self.api, self.anchors_path, Named, selector=selector)
        self.policies = Reflector(self.api, self.policies_path, Named, selector=selector) if apart else None
        self.machines = Reflector(self.api, "/api/v1/nodes", NodeObject) if reads_nodes else None
        self.tenants = Reflector(self.api, "/api/v1/pods", TenantPod, key=by_place) if reads_nodes else None
        self._pod, self._anchor = Decoder(Pod), Decoder(Named)

    # Reading.

    def fresh(self, reflector: Reflector[Item], what: str, *, wait_s: float = FIRST_LIST_S) -> Heard[Item]:
        """What is there. Raises OSError where that is too old to be believed."""
        heard = reflector.heard(wait_s=wait_s)
        if heard.age_s > (TROUBLED_S_MAX if heard.trouble else AGE_S_MAX):
            why = heard.trouble or "the stream is silent"
            raise OSError(f"nothing was heard of {what} for {heard.age_s:.0f} s: {why}")
        return heard

    def members(
        self, given_up: Mapping[SetKey, Verdict], *, only: SetKey | None = None
    ) -> tuple[tuple[Members, ...], float]:
        """All sets with their pods, or one, and how old that is. Raises where a set cannot be read at all."""
        anchors = self.fresh(self.anchors, "our Services")
        pods = self.fresh(self.pods, "our pods")
        if anchors.odd:
            bad = anchors.odd[0]
            raise OSError(f"the Service `{one_line(bad.name)}` cannot be read: {bad.why}")
        live, gone = _by_set(pods.items), _by_set(pods.gone)
        odd = _by_set({each.name: each for each in pods.odd})
        # Where they are not known, only those that need none are taken to be open.
        allowed = (self.policies_heard() or {}).keys()
        made = []
        names = sorted(anchors.items) if only is None else {anchor_name(only)} & anchors.items.keys()
        for name in names:
            anchor = anchors.items[name]
            intent = intent_of(anchor.metadata.annotations.get(INTENT, ""))
            mine = {rank: pod for rank, pod in live[name].items() if _owned(pod, anchor)}
            lost = {rank: pod for rank, pod in gone[name].items() if _owned(pod, anchor)}
            verdict = given_up.get(SetKey(intent.key))
            if verdict is not None and verdict.cause is not Cause.STOPPED and any(map(begun, mine.values())):
                verdict = None  # It began after all, just before it was given up.
            reach = self.policies is None or {*policy_names(intent)} <= allowed
            made.append(Members(anchor, intent, mine, lost, frozenset(odd[name]), verdict, reach))
        return tuple(made), max(anchors.age_s, pods.age_s)

    def policies_heard(self) -> Mapping[str, Named] | None:
        """Ours by name, as they are known by now; nothing where that is not known."""
        if self.policies is None:
            return None
        try:
            return self.fresh(self.policies, "our NetworkPolicies", wait_s=0.0).items
        except OSError:
            return None

    def anchor(self, key: str) -> Named | None:
        """Asked for by name: it may have been made a moment ago. None where there is none of ours."""
        try:
            path = f"{self.anchors_path}/{anchor_name(key)}"
            found = self._anchor.item(self.api.get(path, limit_s=REQUEST_S))
        except KubeError as error:
            if error.status == 404:
                return None
            raise
        if found.metadata.deletion_timestamp is None and found.metadata.labels.get(CLUSTER) == self.cluster:
            self.anchors.seen(found)
        return found

    def ranks_made(self, key: str) -> frozenset[int]:
        """Ranks whose pods are there, asked of the server itself: what we heard of may be behind."""
        query = {"labelSelector": f"{CLUSTER}={self.cluster},{SET}={key}"}
        page = self._pod.page(self.api.get(self.pods_path, query, limit_s=REQUEST_S))
        names = (*(pod.metadata.name for pod in page.items), *(each.name for each in page.odd))
        return frozenset(_by_set(dict.fromkeys(names)).get(anchor_name(key), {}))

    # Changing.

    def each(self, things: Sequence[Thing], do: Callable[[Thing], Answer]) -> tuple[Answer, ...]:
        """A few at a time; the first thing that goes wrong is told once all that began have ended."""
        if len(things) < 2:
            return tuple(do(thing) for thing in things)
        with ThreadPoolExecutor(min(AT_ONCE, len(things))) as pool:
            return tuple(pool.map(do, things))

    def make_anchor(self, body: Mapping[str, Any]) -> Named | None:
        """None where there is one of that name already."""
        answer = self._posted(self.anchors_path, body, always=False)
        if answer is None:
            return None
        made = self._anchor.item(answer)
        self.anchors.seen(made)
        return made

    def make_secret(self, body: Mapping[str, Any]) -> None:
        self._posted(self.secrets_path, body, always=True)

    def make_policy(self, body: Mapping[str, Any], *, always: bool = False) -> None:
        """Or one that is there under this name is made to say the same."""
        assert self.policies is not None
        meta = body["metadata"]
        answer = self._posted(self.policies_path, body, always=always)
        if answer is None:
            path = f"{self.policies_path}/{meta['name']}"
            answer = self.api.change("PATCH", path, body, limit_s=REQUEST_S, always=always)
        self.policies.seen(self._anchor.item(answer))

    def delete_policy(self, policy: Named) -> None:
        self._deleted(self.policies_path, policy, {})

    def make_pod(self, body: Mapping[str, Any]) -> None:
        answer = self._posted(self.pods_path, body, always=True)
        if answer is not None:
            self.pods.seen(self._pod.item(answer))

    def _posted(self, path: str, body: Mapping[str, Any], *, always: bool) -> bytes | None:
        try:
            return self.api.change("POST", path, body, limit_s=REQUEST_S, always=always)
        except KubeError as error:
            if error.status == 409 and error.reason in ("AlreadyExists", ""):
                return None
            raise

    def mark_anchor(self, anchor: Named, notes: Mapping[str, str]) -> None:
        answer = self._marked(self.anchors_path, anchor, notes)
        if answer is not None:
            self.anchors.seen(self._anchor.item(answer))

    def mark_pod(self, pod: Pod, notes: Mapping[str, str]) -> None:
        answer = self._marked(self.pods_path, pod, notes)
        if answer is not None:
            self.pods.seen(self._pod.item(answer))

    def _marked(self, path: str, thing: Named, notes: Mapping[str, str]) -> bytes | None:
        """Annotations on just this object: with its uid, so that no other of that name gets them."""
        body = {"metadata": {"uid": thing.metadata.uid, "annotations": dict(notes)}}
        try:
            return self.api.change("PATCH", f"{path}/{thing.metadata.name}", body, limit_s=REQUEST_S)
        except KubeError as error:
            if error.status in (404, 409):
                return None  # It is gone, and needs none.
            raise

    def delete_anchor(self, anchor: Named) -> None:
        """And all that it owns after it."""
        self._deleted(self.anchors_path, anchor, {})

    def delete_pod(self, pod: Pod) -> None:
        """Only as it was looked at: one that has changed since is looked at anew."""
        self._deleted(self.pods_path, pod, {"resourceVersion": pod.metadata.resource_version})

    def _deleted(self, path: str, thing: Named, conditions: Mapping[str, str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
            "preconditions": {"uid": thing.metadata.uid, **conditions},
        }
        try:
            self.api.change("DELETE", f"{path}/{thing.metadata.name}", body, limit_s=REQUEST_S)
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    def close(self) -> None:
        self.pods.stop()
        self.anchors.stop()
        for each in (self.machines, self.tenants, self.policies):
            if each is not None:
                each.stop()


def _by_set(found: Mapping[str, Thing]) -> Mapping[str, dict[int, Thing]]:
    """By the name of the set and by rank; what is not named like a pod of ours is left out."""
    rows: dict[str, dict[int, Thing]] = defaultdict(dict)
    for name, thing in found.items():
        anchor, _, rank = name.rpartition("-")
        if anchor and rank.isdecimal() and rank.isascii() and len(rank) <= RANK_DIGITS_MAX:
            rows[anchor][int(rank)] = thing
    return rows


def _owned(pod: Pod, anchor: Named) -> bool:
    return any(each.uid == anchor.metadata.uid for each in pod.metadata.owner_references)
