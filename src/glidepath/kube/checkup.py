"""What `glidepath doctor` finds between here and a namespace: one sentence each, and what to do.

Access and settings come in, findings go out. Nothing is changed: pods are created with `dryRun`, which asks
everything that would refuse them and makes none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, PilotName, PoolName, SiteName
from glidepath.core.text import one_line
from glidepath.kube.access import Access
from glidepath.kube.api import Api
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.pod import pod_of
from glidepath.kube.settings import KubernetesSettings
from glidepath.kube.shapes import table
from glidepath.ports import Finding

LIMIT_S = 10.0
CLOCK_S_MAX = 60
NAME = "glidepath-doctor"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# What glidepath does in a namespace, and no more: as `deploy/` grants it.
NEEDED = (
    *(("pods", "", verb) for verb in ("get", "list", "watch", "create", "delete", "patch")),
    ("pods", "log", "get"),
)
WORLD = (OSError, KubeError, AccessError)
# Above this share of a quota, pods will soon be refused.
FULL_PERCENT = 90


class Checkup:
    """One look at one site."""

    def __init__(
        self,
        site: SiteName,
        settings: KubernetesSettings,
        access: Callable[[], Access],
        offers: tuple[Offer, ...],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.site, self.settings, self.offers = site, settings, offers
        self._access, self._wall = access, wall

    def findings(self) -> tuple[Finding, ...]:
        try:
            access = self._access()
        except AccessError as error:
            return (self._one("access", "fail", str(error), "set `kubeconfig`, `context` and `namespace`"),)
        found = [self._verified(access)]
        api = Api(access, changes_per_s=0)
        try:
            answers = list(self._server(api))
            found += answers
            if answers[0].verdict != "fail":
                found += [*self._rights(api), *self._quotas(api), *self._pods(api)]
        finally:
            api.close()
        return tuple(found)

    def _one(self, check: str, verdict: str, found: str, fix: str = "") -> Finding:
        return Finding(f"site {self.site}: {check}", verdict, found, fix)

    def _verified(self, access: Access) -> Finding:
        shown = f"`{one_line(access.name)}` at {access.server}, namespace `{one_line(access.namespace)}`"
        if access.verified:
            return self._one("access", "ok", shown)
        fix = "give its `certificate-authority` and take `tls_unverified` out"
        return self._one("access", "warn", f"{shown}; it is not checked who the server is", fix)

    def _server(self, api: Api) -> Iterator[Finding]:
        began = time.monotonic()
        try:
            answer, server_s = api.dated("/version", limit_s=LIMIT_S)
            version = one_line(str(table(answer).get("gitVersion", "of unknown version")))
        except WORLD as error:
            fix = "can its address be reached from here, and does `kubectl get pods` work with this access?"
            yield self._one("server", "fail", str(error), fix)
            return
        took = f"{(time.monotonic() - began) * 1000:.0f} ms"
        yield self._one("server", "ok", f"Kubernetes {version} answers in {took}")
        if server_s is None:
            return
        ahead_s = int(server_s - self._wall())
        if abs(ahead_s) > CLOCK_S_MAX:
            which = "ahead of" if ahead_s > 0 else "behind"
            found = f"the server's clock is {abs(ahead_s)} s {which} this machine's"
            yield self._one("clock", "warn", found, "set both by NTP; ages of pods go by them")
        else:
            yield self._one("clock", "ok", f"the server's agrees with ours within {CLOCK_S_MAX} s")

    def _rights(self, api: Api) -> Iterator[Finding]:
        needed = list(NEEDED)
        if any(not self.settings.pod(offer.name).token_secret for offer in self.offers):
            needed.append(("secrets", "", "create"))
        lacking = []
        for resource, part, verb in needed:
            shown = f"{verb} {resource}/{part}" if part else f"{verb} {resource}"
            try:
                if not self._allowed(api, resource, part, verb):
                    lacking.append(shown)
            except WORLD as error:
                yield self._one("rights", "warn", f"not known whether we may {shown}: {error}")
                return
        if lacking:
            fix = "bind the Role of `deploy/` to this identity in the namespace"
            yield self._one("rights", "fail", f"we may not {', '.join(lacking)}", fix)
        else:
            yield self._one("rights", "ok", f"all {len(needed)} that are needed")

    def _allowed(self, api: Api, resource: str, part: str, verb: str) -> bool:
        asked = {
            "namespace": api.access.namespace,
            "verb": verb,
            "resource": resource,
            "subresource": part,
        }
        body: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        status = table(api.change("POST", REVIEWS, body, limit_s=LIMIT_S)).get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    def _quotas(self, api: Api) -> Iterator[Finding]:
        path = f"/api/v1/namespaces/{api.access.namespace}/resourcequotas"
        try:
            rows = table(api.get(path, limit_s=LIMIT_S)).get("items")
        except WORLD as error:
            if isinstance(error, KubeError) and error.status == 403:
                yield self._one("quota", "ok", "we may not look; a pod that is refused for it says so")
            else:
                yield self._one("quota", "warn", str(error))
            return
        full = sorted({text for row in rows or () if isinstance(row, dict) for text in _full(row)})
        if full:
            fix = "pods will be refused; ask for more, or lower the limits of the site"
            yield self._one("quota", "warn", "; ".join(full), fix)
        else:
            yield self._one("quota", "ok", f"{len(rows or ())} in the namespace, none nearly used up")

    def _pods(self, api: Api) -> Iterator[Finding]:
        """A pod of each offer, made up to the point where it would be there."""
        path = f"/api/v1/namespaces/{api.access.namespace}/pods"
        for offer in self.offers:
            settings = self.settings.pod(offer.name)
            if not settings.image:
                yield self._one(f"pod {offer.name}", "fail", "there is no image for it", "set `image`")
                continue
            wanted = pod_of(_sample(offer), settings, namespace=api.access.namespace)
            try:
                api.change("POST", path, wanted, {"dryRun": "All"}, limit_s=LIMIT_S)
            except WORLD as error:
                fix = "mend what it names, in the settings of the offer or with those who run the cluster"
                yield self._one(f"pod {offer.name}", "fail", f"it would be refused: {error}", fix)
            else:
                yield self._one(f"pod {offer.name}", "ok", "the cluster would take it")


def _sample(offer: Offer) -> PilotSpec:
    small = offer.size_min
    size = small if small is not None and small.cpu_milli else offer.size
    return PilotSpec(
        name=PilotName(NAME),
        site=offer.site,
        offer=offer.key,
        pool=PoolName("doctor"),
        size=size,
        traits=offer.traits,
        lifetime_s=offer.lifetime_s,
        idle_s=offer.idle_s,
        asked_at=Instant(0),
        join=(("GLIDEPATH_COLLECTOR", "doctor.invalid"),),
    )


def _full(quota: dict[str, Any]) -> Iterator[str]:
    """What is used up or nearly so, where both numbers are plain counts."""
    name = one_line(str((quota.get("metadata") or {}).get("name", "?")))
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    for key in sorted(hard):
        have, most = str(used.get(key, "")), str(hard[key])
        if have.isdecimal() and most.isdecimal() and int(have) * 100 >= int(most) * FULL_PERCENT:
            yield f"quota `{name}`: {have} of {most} {one_line(key)}"
        elif have == most and have not in ("", "0"):
            yield f"quota `{name}`: all {most} of {one_line(key)}"
