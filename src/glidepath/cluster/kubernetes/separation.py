"""Keeps the policies of one namespace as they should be: sets come in, policies are made and removed.

What is missing is made and what belongs to nothing is removed, whoever died in the midst of it. Where
policies cannot be seen nothing is removed, and nothing is started that would then stand open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from glidepath.cluster.kubernetes.network import amiss, floor_of, policy_names, stands
from glidepath.cluster.kubernetes.objects import FIRST_LIST_S, Objects
from glidepath.cluster.kubernetes.pod import INTENT, SET, intent_of
from glidepath.cluster.kubernetes.sets import Members
from glidepath.cluster.kubernetes.settings import NetworkSettings
from glidepath.core.place.rank import KEY
from glidepath.core.text import one_line
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import Named

# The cluster itself removes what belongs to a Service that went; this long it is left to do so.
STRAY_S = 30.0
REST_S = 5.0
WORLD = (OSError, KubeError, AccessError, ValueError)
APART = "jobs cannot be kept apart"
ADVICE = "give the Role the rights on `networkpolicies` as in `deploy/`, or set `separate = false`"


class Separation:
    """`ready` is for any thread; `see_to` for one."""

    def __init__(
        self, objects: Objects, settings: NetworkSettings, *, mono: Callable[[], float] = time.monotonic
    ) -> None:
        self._objects, self._mono = objects, mono
        self._floor = floor_of(objects.cluster, settings)
        self._waited = False
        self._rest_until = 0.0
        self._stray_since: dict[str, float] = {}  # by uid
        self.trouble = ""

    def ready(self) -> None:
        """Nothing of ours stands open from now on. Raises OSError where that is not sure."""
        if self._objects.policies is None:
            return
        # Once is enough: jobs that wait behind this one would wait each for as long.
        wait_s, self._waited = (0.0 if self._waited else FIRST_LIST_S), True
        try:
            policies = self._heard(wait_s)
        except OSError as error:
            raise OSError(f"{APART}: {error}; {ADVICE}") from None
        try:
            self._found(policies)
        except KubeError as error:
            raise OSError(f"{APART}: {error}; {ADVICE}") from None

    def _heard(self, wait_s: float) -> Mapping[str, Named]:
        assert self._objects.policies is not None
        return self._objects.fresh(self._objects.policies, "our NetworkPolicies", wait_s=wait_s).items

    def _found(self, policies: Mapping[str, Named]) -> None:
        if not stands(self._floor, policies):
            self._objects.make_policy(self._floor)

    def see_to(self, members: Sequence[Members]) -> None:
        if self._objects.policies is None or self._mono() < self._rest_until:
            return
        try:
            policies = self._heard(0.0)
            self._found(policies)
            self._mend(members, policies)
            self.trouble = ""
        except WORLD as error:
            self.trouble = f"{APART}: {one_line(str(error))}; {ADVICE}"
            self._rest_until = self._mono() + REST_S

    def _mend(self, members: Sequence[Members], policies: Mapping[str, Named]) -> None:
        found, now = amiss(self._objects.cluster, members, policies), self._mono()
        for body in found.missing:
            self._objects.make_policy(body)
        self._stray_since = {
            each.metadata.uid: self._stray_since.get(each.metadata.uid, now) for each in found.stray
        }
        for each in found.stray:
            # Asked for by name: its Service may have come a moment ago, and not be listed yet.
            if now - self._stray_since[each.metadata.uid] >= STRAY_S and not self._belongs(each):
                self._objects.delete_policy(each)

    def _belongs(self, policy: Named) -> bool:
        key = policy.metadata.labels.get(SET, "")
        anchor = self._objects.anchor(key) if KEY.fullmatch(key) else None
        if anchor is None:
            return False
        names = policy_names(intent_of(anchor.metadata.annotations.get(INTENT, "")))
        owners = {each.uid for each in policy.metadata.owner_references}
        return policy.metadata.name in names and anchor.metadata.uid in owners
