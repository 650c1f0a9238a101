"""What `glidepath doctor` finds between here and a namespace: one sentence each, and what to do.

Access and settings come in, findings go out. Nothing is changed: pods are created with `dryRun`, which asks
everything that would refuse them and makes none. What our rights do not let us see (Secrets, nodes,
registries) is told from the pods of ours that are there, or said not to be known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, SiteState
from glidepath.core.quantity import Instant, PilotName, PoolName, SiteName
from glidepath.core.text import one_line
from glidepath.kube.access import Access
from glidepath.kube.advice import Said, Seen, counted, full, image_said, mended, refused
from glidepath.kube.api import Api
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.intent import OFFER, SITE, label
from glidepath.kube.pod import pod_of
from glidepath.kube.settings import KubernetesSettings, PodSettings
from glidepath.kube.shapes import Decoder, ImagedPod, table
from glidepath.kube.states import CONTAINER, Told, story
from glidepath.ports import Finding

LIMIT_S = 10.0
CLOCK_S_MAX = 60
NAME = "glidepath-doctor"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Right = tuple[str, str, str]
# What glidepath does in a namespace, and no more: as `deploy/` grants it.
NEEDED: tuple[Right, ...] = (
    *(("pods", "", verb) for verb in ("get", "list", "watch", "create", "delete", "patch")),
    ("pods", "log", "get"),
)
CREATE, LIST, FURNISH = ("pods", "", "create"), ("pods", "", "list"), ("secrets", "", "create")
# What does not work without each.
LOST: dict[Right, str] = {
    ("pods", "", "get"): "no pilot can be removed or drained",
    LIST: "nothing is known of the site, so nothing is done there",
    ("pods", "", "watch"): "changes are seen late, by lists",
    CREATE: "no pilot can be started",
    ("pods", "", "delete"): "pilots that ended or are not needed stay",
    ("pods", "", "patch"): "no pilot can be told to drain",
    ("pods", "log", "get"): "`glidepath pilot logs` has nothing to show",
    FURNISH: "no pilot gets a token of its own",
}
ONLY_LESS = frozenset({("pods", "log", "get")})
WORLD = (OSError, KubeError, AccessError)
QUOTAS_SHOWN_MAX = 10
PODS_LOOKED_MAX = 500
# A pod whose volumes are not there by then waits for something that is missing.
VOLUMES_S_MAX = 120


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
        self._unanswered: Said | None = None  # once one pod was not answered, the others need not wait

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
                found += self._namespace(api)
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

    # The server.

    def _server(self, api: Api) -> Iterator[Finding]:
        began = time.monotonic()
        server_s = None
        try:
            answer, server_s = api.dated("/version", limit_s=LIMIT_S)
            version = one_line(str(table(answer).get("gitVersion", "of unknown version")))
        except WORLD as error:
            if not (isinstance(error, KubeError) and error.status in (403, 404)):
                yield self._one("server", "fail", str(error), mended(error))
                return
            version = "does not tell its version and"  # Some close that door; it is not needed.
        took = f"{(time.monotonic() - began) * 1000:.0f} ms"
        yield self._one("server", "ok", f"Kubernetes {version} answers in {took}")
        if server_s is None:
            yield self._one("clock", "ok", "the server does not tell its time")
            return
        ahead_s = int(server_s - self._wall())
        if abs(ahead_s) > CLOCK_S_MAX:
            which = "ahead of" if ahead_s > 0 else "behind"
            found = f"the server's clock is {abs(ahead_s)} s {which} this machine's"
            yield self._one("clock", "warn", found, "set both by NTP; tokens and ages of pods go by them")
        else:
            yield self._one("clock", "ok", f"the server's agrees with ours within {CLOCK_S_MAX} s")

    def _namespace(self, api: Api) -> Iterator[Finding]:
        may: dict[Right, bool] = {}
        yield from self._rights(api, may)
        yield from self._quotas(api)
        ours: list[Seen] = []
        if may.get(LIST, True):
            yield from self._ours(api, ours)
        yield from self._each("image", lambda offer, settings: image_said(settings, _of(ours, offer)))
        if may.get(CREATE, True):
            yield from self._each("pod", lambda offer, settings: self._pod(api, offer, ours))
        yield from self._each(
            "token", lambda offer, settings: self._token(api, settings, _of(ours, offer), may=may)
        )
        if may.get(FURNISH):
            yield from self._other_secrets(api)

    def _each(self, check: str, look: Callable[[Offer, PodSettings], Said | None]) -> Iterator[Finding]:
        """Once for each offer; those of which the same is to be said share a line."""
        said: dict[Said, list[str]] = {}
        for offer in self.offers:
            found = look(offer, self.settings.pod(offer.name))
            if found is not None:
                said.setdefault(found, []).append(offer.name)
        for (verdict, found_, fix), names in said.items():
            yield self._one(f"{check} {', '.join(names)}", verdict, found_, fix)

    # Rights.

    def _rights(self, api: Api, may: dict[Right, bool]) -> Iterator[Finding]:
        """What is allowed goes into `may`; what could not be asked does not."""
        furnished = all(self.settings.pod(offer.name).token_secret for offer in self.offers)
        needed = [*NEEDED, *(() if furnished else (FURNISH,))]
        try:
            for right in (*NEEDED, FURNISH):
                may[right] = self._allowed(api, right)
        except WORLD as error:
            shown = _shown(next(right for right in (*NEEDED, FURNISH) if right not in may))
            yield self._one("rights", "warn", f"not known whether we may {shown}: {error}", mended(error))
        lacking = [right for right in needed if may.get(right) is False]
        for right in lacking:
            resource, part, verb = right
            where = f"`{resource}/{part}`" if part else f"`{resource}`"
            more = "; or set `token_secret`" if right == FURNISH else ""
            yield self._one(
                f"right to {_shown(right)}",
                "warn" if right in ONLY_LESS else "fail",
                f"it is missing: {LOST[right]}",
                f"add `{verb}` on {where} to the Role, as in `deploy/`, and bind it to this identity{more}",
            )
        if not lacking and all(right in may for right in needed):
            yield self._one("rights", "ok", f"all {len(needed)} that are needed")

    def _allowed(self, api: Api, right: Right) -> bool:
        resource, part, verb = right
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
        allowed = status.get("allowed") if isinstance(status, dict) else None
        if not isinstance(allowed, bool):
            raise KubeError("the answer to a SelfSubjectAccessReview does not say it")
        return allowed

    # Quotas.

    def _quotas(self, api: Api) -> Iterator[Finding]:
        path = f"/api/v1/namespaces/{api.access.namespace}/resourcequotas"
        try:
            rows = table(api.get(path, limit_s=LIMIT_S)).get("items")
        except WORLD as error:
            if isinstance(error, KubeError) and error.status == 403:
                said = "we may not look, and need not: a pod that would be refused for it is told below"
                yield self._one("quota", "ok", said)
            else:
                yield self._one("quota", "warn", str(error), mended(error))
            return
        quotas = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        tight = sorted({text for row in quotas for text in full(row)})
        if tight:
            fix = "pods will be refused; ask for more, or lower the limits of the site"
            more = f"; {len(tight) - QUOTAS_SHOWN_MAX} more" if len(tight) > QUOTAS_SHOWN_MAX else ""
            yield self._one("quota", "warn", "; ".join(tight[:QUOTAS_SHOWN_MAX]) + more, fix)
        else:
            yield self._one("quota", "ok", f"{len(quotas)} in the namespace, none nearly used up")

    # Pods of ours that are there, and one of each offer that would be.

    def _ours(self, api: Api, ours: list[Seen]) -> Iterator[Finding]:
        """They go into `ours`."""
        query: dict[str, str | int] = {"labelSelector": f"{SITE}={self.site}", "limit": PODS_LOOKED_MAX}
        try:
            page = Decoder(ImagedPod).page(api.get(_pods(api), query, limit_s=LIMIT_S))
        except WORLD as error:
            yield self._one("pods", "warn", f"those of ours cannot be listed: {error}", mended(error))
            return
        for pod in page.items:
            meta = pod.metadata
            image = next((each.image for each in pod.spec.containers if each.name == CONTAINER), "")
            ours.append(Seen(meta.name, meta.labels.get(OFFER, ""), image, story(pod)))
        if page.odd:
            found = f"{len(page.odd)} of ours cannot be read: {page.odd[0].why}"
            yield self._one(
                "pods", "warn", found, f"look at `{page.odd[0].name or '?'}` with `kubectl get pod`"
            )
        stuck = [each for each in ours if each.story.told in (Told.NOT_STARTABLE, Told.INIT_FAILED)]
        if stuck:
            fix = f"`kubectl -n {api.access.namespace} describe pod {one_line(stuck[0].name)}` tells more"
            yield self._one("pods", "fail", f"{counted(stuck)}: {stuck[0].story.note}", fix)
        elif not page.odd:
            more = " or more" if page.meta.continue_ else ""
            yield self._one("pods", "ok", f"{len(ours)}{more} of ours are there")

    def _pod(self, api: Api, offer: Offer, ours: Sequence[Seen]) -> Said | None:
        """A pod of the offer, made up to the point where it would be there."""
        settings = self.settings.pod(offer.name)
        if not settings.image:
            return None  # That is said already, and there is nothing to try.
        if self._unanswered is not None:
            return self._unanswered
        wanted = pod_of(_sample(offer), settings, namespace=api.access.namespace)
        try:
            api.change("POST", _pods(api), wanted, {"dryRun": "All"}, limit_s=LIMIT_S)
        except KubeError as error:
            alive = any(each.story.state in (SiteState.PENDING, SiteState.RUNNING) for each in ours)
            return refused(error, ours_alive=alive)
        except (OSError, AccessError) as error:
            self._unanswered = "warn", f"not known whether it would be taken: {error}", mended(error)
            return self._unanswered
        return "ok", "the cluster would take it", ""

    # Secrets, which our rights do not let us read.

    def _token(
        self, api: Api, settings: PodSettings, ours: Sequence[Seen], *, may: Mapping[Right, bool]
    ) -> Said | None:
        name = settings.token_secret
        if not name:
            if may.get(FURNISH) is False:
                return None
            return "ok", "each pod gets one of its own; whether the pool takes it is told with the pool", ""
        shown = f"the Secret `{name}`" + (
            f" with the key `{settings.token_key}`" if settings.token_key else ""
        )
        fix = (
            f"`kubectl -n {api.access.namespace} create secret generic {name} "
            f"--from-file={settings.token_key or 'token'}=FILE`"
        )
        there = self._there(api, name) if may.get(FURNISH) else None
        if there is False:
            return "fail", f"there is no Secret `{name}` in the namespace, so no pod starts", fix
        late = [each for each in ours if self._unmounted(each)]
        if late:
            pod = one_line(late[0].name)
            look = f"`kubectl -n {api.access.namespace} describe pod {pod}` names what is missing"
            found = f"{counted(late)} without volumes for more than {VOLUMES_S_MAX} s; is there {shown}?"
            return "fail", found, look if there else f"{look}; {fix}"
        if any(each.story.state is SiteState.RUNNING for each in ours):
            return (
                "ok",
                f"{shown} is mounted by pods that run; whether the pool takes it is told with the pool",
                "",
            )
        if there:
            return "ok", f"the Secret `{name}` is there", ""
        return "ok", f"{shown} must be there; our rights do not let us see it, the first pod shows it", ""

    def _there(self, api: Api, name: str) -> bool | None:
        """Whether there is a Secret of this name: creating one is tried and not done, so nothing is read."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque"}
        path = f"/api/v1/namespaces/{api.access.namespace}/secrets"
        try:
            api.change("POST", path, body, {"dryRun": "All"}, limit_s=LIMIT_S)
        except KubeError as error:
            return True if error.status == 409 else None
        except (OSError, AccessError):
            return None
        return False

    def _other_secrets(self, api: Api) -> Iterator[Finding]:
        """Those for fetching images, and those that pods see as files; only where one is missing."""
        wanted: dict[str, str] = {}
        for offer in self.offers:
            settings = self.settings.pod(offer.name)
            wanted |= dict.fromkeys(settings.pull_secrets, "pull_secrets")
            wanted |= dict.fromkeys((each.name for each in settings.secrets), "secrets")
        for name, key in sorted(wanted.items()):
            if self._there(api, name) is False:
                found = f"`{key}` names it, and there is none in the namespace"
                yield self._one(f"secret {name}", "fail", found, "create it, or take it out of the settings")

    def _unmounted(self, each: Seen) -> bool:
        waits = each.story.told is Told.STARTING and each.story.words.startswith("ContainerCreating")
        since = each.story.since
        return waits and since is not None and self._wall() - since.timestamp() > VOLUMES_S_MAX


def _shown(right: Right) -> str:
    resource, part, verb = right
    return f"{verb} {resource}/{part}" if part else f"{verb} {resource}"


def _pods(api: Api) -> str:
    return f"/api/v1/namespaces/{api.access.namespace}/pods"


def _of(ours: Iterable[Seen], offer: Offer) -> list[Seen]:
    return [each for each in ours if each.offer == label(offer.name)]


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
