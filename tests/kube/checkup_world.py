"""A namespace as the doctor meets it, well by default; each test hurts one thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import Resources, SiteName
from glidepath.kube.access import Access
from glidepath.kube.checkup import REVIEWS, Checkup, Right
from glidepath.kube.settings import KubernetesSettings
from glidepath.ports import Finding
from kube.pod_builders import settings
from kube.stand_in import Answer, Asked, StandIn, plain_access

NOW = 1_900_000_000.0
PODS = "/api/v1/namespaces/here/pods"
SECRETS = "/api/v1/namespaces/here/secrets"
QUOTAS = "/api/v1/namespaces/here/resourcequotas"
FURNISH: Right = ("secrets", "", "create")
IMAGE = "images.example/pilot:1"
HTML = Answer(body=b"<html><title>Sign in</title></html>", kind="text/html")
HALF = Answer(body=b'{"metadata": {"resour')


def refusing(status: int, message: str, **more: Any) -> Answer:
    body = {"kind": "Status", "status": "Failure", "message": message, "code": status, **more}
    return Answer(status, json.dumps(body).encode())


def listed(*items: Any, kind: str = "PodList") -> Answer:
    return Answer(
        body=json.dumps({"kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}).encode()
    )


def quota(name: str = "group", **counts: tuple[str, str]) -> dict[str, Any]:
    """`requests_cpu=("7", "8")` is 7 used of 8."""
    rows = {key.replace("_", ".", 1): pair for key, pair in counts.items()}
    used = {key: have for key, (have, _) in rows.items()}
    return {
        "metadata": {"name": name},
        "status": {"used": used, "hard": {key: most for key, (_, most) in rows.items()}},
    }


def ours(shown: dict[str, Any], offer: str = "worker", image: str = IMAGE) -> dict[str, Any]:
    """A pod as the builders make it, with the label and the image that it has in the cluster."""
    meta = {**shown["metadata"], "labels": {"glidepath/site": "k8s", "glidepath/offer": offer}}
    containers = [{"name": "proxy", "image": "x"}, {"name": "pilot", "image": image}]
    return {**shown, "metadata": meta, "spec": {**shown["spec"], "containers": containers}}


class World:
    """A namespace that is well by default; each test hurts one thing."""

    def __init__(self, server: StandIn) -> None:
        self.server = server
        self.lacking: set[Right] = set()
        self.secrets = {"pool-token"}
        self.dry: Callable[[dict[str, Any]], Answer] = lambda body: Answer(201, json.dumps(body).encode())
        self.own: dict[str, Any] = {"image": IMAGE, "token_secret": "pool-token", "token_key": "token"}
        self.offers = ("worker",)
        self.access: Callable[[], Access] = lambda: plain_access(server, verified=True)
        self.date(NOW)
        server.rule(REVIEWS, self._review)
        server.rule(PODS, self._pods)
        server.rule(SECRETS, self._secret)
        server.say(QUOTAS, refusing(403, "resourcequotas is forbidden"))
        self.pods: Answer = listed()

    def date(self, wall_s: float | str) -> None:
        said = wall_s if isinstance(wall_s, str) else formatdate(wall_s, usegmt=True)
        self.server.say(
            "/version", Answer(body=b'{"gitVersion": "v1.34.4"}', headers={"Date": said} if said else {})
        )

    def _review(self, asked: Asked) -> Answer:
        about = json.loads(asked.body)["spec"]["resourceAttributes"]
        assert about["namespace"] == "here"
        right = (about["resource"], about["subresource"], about["verb"])
        return Answer(201, json.dumps({"status": {"allowed": right not in self.lacking}}).encode())

    def _pods(self, asked: Asked) -> Answer:
        if asked.method == "GET":
            assert "labelSelector=glidepath%2Fsite%3Dk8s" in asked.path
            return self.pods
        assert (asked.method, asked.path) == ("POST", f"{PODS}?dryRun=All")
        return self.dry(json.loads(asked.body))

    def _secret(self, asked: Asked) -> Answer:
        assert (asked.method, asked.path) == ("POST", f"{SECRETS}?dryRun=All")
        name = json.loads(asked.body)["metadata"]["name"]
        return refusing(409, "already exists") if name in self.secrets else Answer(201)

    def findings(self) -> list[Finding]:
        made: KubernetesSettings = settings(**self.own)
        offers = tuple(Offer(SiteName("k8s"), name, Resources(1000, 1024, 1024)) for name in self.offers)
        return list(Checkup(SiteName("k8s"), made, self.access, offers, wall=lambda: NOW).findings())

    def said(self) -> dict[str, tuple[str, str, str]]:
        found = {
            one.name.removeprefix("site k8s: "): (one.verdict, one.found, one.fix) for one in self.findings()
        }
        assert all(fix for verdict, _, fix in found.values() if verdict != "ok"), found
        return found

    def bad(self) -> dict[str, tuple[str, str, str]]:
        return {name: said for name, said in self.said().items() if said[0] != "ok"}
