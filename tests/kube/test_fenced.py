"""Whoever has lost the store changes nothing: it is asked right before a change is sent, and not earlier."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from glidepath.core.cycle import Done, NotTried
from glidepath.core.provision.pilot import Target
from glidepath.core.quantity import PilotName, SiteName
from glidepath.kube.api import Api, NotOursError
from glidepath.kube.backend import REQUEST_S, KubernetesBackend
from glidepath.kube.intent import SITE
from glidepath.ports import Place
from glidepath.store.engine import IDLE_S_MAX
from glidepath.up import LEASE_S
from kube.pod_builders import settings, spec
from kube.stand_in import Answer, Asked, StandIn, plain_access, serving

PODS = "/api/v1/namespaces/here/pods"
SECRETS = "/api/v1/namespaces/here/secrets"
LOST = "another glidepath owns the store now; nothing was sent"
LIST = json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode()


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving() as running:
        running.rule(PODS, pods)
        running.say(SECRETS, Answer(201))
        yield running


def pods(asked: Asked) -> Answer:
    if asked.method == "POST":
        made = json.loads(asked.body)
        made["metadata"] |= {"uid": "u-1", "resourceVersion": "2"}
        return Answer(201, json.dumps(made).encode())
    return Answer(chunks=(), end="silent") if "watch=" in asked.path else Answer(body=LIST)


class Lease:
    """Ours for so many questions."""

    def __init__(self, times: int) -> None:
        self.left = times

    def check(self) -> bool:
        self.left -= 1
        return self.left >= 0


def site(server: StandIn, lease: Lease) -> KubernetesBackend:
    place = Place(Path("/"), "", ours=lease.check)
    return KubernetesBackend(
        SiteName("k8s"), settings(image="a:1"), place, access=lambda: plain_access(server, namespace="here")
    )


def changes(server: StandIn) -> list[tuple[str, str]]:
    return [(asked.method, asked.path) for asked in server.asked if asked.method != "GET"]


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_no_change_is_sent_without_the_lease(server: StandIn, method: str) -> None:
    api = Api(plain_access(server), ours=lambda: False)
    with pytest.raises(NotOursError, match=LOST):
        api.change(method, PODS, {})
    assert server.asked == []
    assert api.get(PODS) == LIST
    api.close()


def test_a_pod_is_not_asked_for_by_whoever_lost_the_store(server: StandIn) -> None:
    backend = site(server, Lease(0))
    assert backend.submit(spec()) == NotTried(LOST)
    assert changes(server) == []
    backend.close()


def test_a_pod_that_is_there_gets_its_token_whoever_owns_the_store(server: StandIn) -> None:
    backend = site(server, Lease(1))
    assert backend.submit(spec()) == Done()
    assert changes(server) == [("POST", PODS), ("POST", SECRETS)]
    backend.close()


def test_a_pod_is_not_deleted_by_whoever_lost_the_store(server: StandIn) -> None:
    pod = {
        "metadata": {"name": "gp-1", "uid": "u-1", "resourceVersion": "2", "labels": {SITE: "k8s"}},
        "status": {"phase": "Pending"},
    }
    server.say(f"{PODS}/gp-1", Answer(body=json.dumps(pod).encode()))
    backend = site(server, Lease(0))
    assert backend.withdraw(Target(PilotName("gp-1"))) == NotTried(LOST)
    assert changes(server) == []
    backend.close()


def test_what_is_sent_late_is_sent_while_the_lease_still_holds() -> None:
    """A check holds for two thirds of the lease without asking; then a request has its own time to leave."""
    assert LEASE_S * 2 / 3 + REQUEST_S < LEASE_S
    assert LEASE_S * 2 / 3 + IDLE_S_MAX <= LEASE_S
