"""What came of a request to start a pilot, by what the server answered: what is not sure is not said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.world import until
from glidepath.core.cycle import Done, Failed, Outcome, Refused, Unsure
from glidepath.core.provision.pilot import SiteState, Target
from glidepath.core.quantity import Instant, SiteName
from glidepath.kube.backend import KubernetesBackend
from glidepath.kube.pod import pod_of
from glidepath.ports import Place
from kube.pod_builders import settings, spec
from kube.stand_in import Answer, Asked, StandIn, plain_access, serving

PODS = "/api/v1/namespaces/here/pods"
LISTED = Answer(body=b'{"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}')
NOW = Instant(2_000)
WAIT_S = 20.0
HTML = Answer(body=b"<html>Sign in</html>", kind="text/html")


def said(code: int, message: str = "no", reason: str = "") -> Answer:
    return Answer(code, json.dumps({"message": message, "reason": reason, "code": code}).encode())


def made(asked: Asked) -> dict[str, object]:
    pod = json.loads(asked.body)
    pod["metadata"] |= {"uid": "u", "resourceVersion": "2"}
    return dict(pod)


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving() as found:
        yield found


@contextmanager
def a_backend(server: StandIn) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(
        SiteName("k8s"),
        settings(token_secret="pool-token"),
        Place(Path("/"), ""),
        access=lambda: plain_access(server),
    )
    try:
        yield backend
    finally:
        backend.close()


def submitted(server: StandIn, answer: Answer | None, *, half: bool = False) -> Outcome:
    def told(asked: Asked) -> Answer:
        if asked.method == "GET":
            return Answer(chunks=(), end="silent") if "watch" in asked.path else LISTED
        whole = json.dumps(made(asked)).encode()
        return answer or Answer(201, whole[: len(whole) // 2] if half else whole)

    server.rule(PODS, told)
    with a_backend(server) as backend:
        return backend.submit(spec())


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (None, Done, ""),
        (said(403, "exceeded quota: one"), Refused, "exceeded quota: one"),
        (said(422, "spec is invalid"), Refused, "spec is invalid"),
        (said(429, "slow down"), Failed, "slow down"),
        (said(503, "etcd has no leader"), Failed, "etcd has no leader"),
        (said(500, "etcdserver: request timed out"), Unsure, "request timed out"),
        (said(504, "Timeout: request did not complete"), Unsure, "did not complete"),
        (Answer(502, b"<h1>Bad Gateway</h1>", "text/html"), Unsure, "no answer of Kubernetes"),
        (HTML, Unsure, "no answer of Kubernetes"),
        (Answer(gone=True), Unsure, "did not answer"),
    ],
)
def test_what_may_have_been_done_is_unsure(
    server: StandIn, answer: Answer | None, outcome: type[Outcome], words: str
) -> None:
    found = submitted(server, answer)
    assert isinstance(found, outcome)
    assert words in str(found)


def test_half_of_the_pod_that_was_made_is_unsure(server: StandIn) -> None:
    found = submitted(server, None, half=True)
    assert isinstance(found, Unsure)
    assert "the answer cannot be read" in found.why


def test_one_that_was_found_gone_is_not_told_of_when_the_stream_comes_to_its_end(server: StandIn) -> None:
    found_gone = threading.Event()
    name = spec().name
    pod = {**pod_of(spec(), settings().pod("worker")), "status": {"phase": "Running"}}
    pod["metadata"] |= {"uid": "u", "resourceVersion": "2"}
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": [pod]}

    def its_end() -> Iterator[bytes]:
        assert found_gone.wait(WAIT_S)
        yield json.dumps({"type": "DELETED", "object": pod}).encode() + b"\n"

    def told(asked: Asked) -> Answer:
        if "watch" in asked.path:
            return Answer(chunks=its_end(), end="silent")
        return Answer(body=json.dumps(listed).encode())

    server.rule(PODS, told)
    server.say(f"{PODS}/{name}", said(404, "not found", "NotFound"))
    with a_backend(server) as backend:
        (pilot,) = backend.list(now=NOW).pilots
        assert pilot.state is SiteState.RUNNING
        assert backend.remove(Target(pilot.name, pilot.native_id)) == Done("it is gone")
        found_gone.set()
        until("nothing is told of it", lambda: not backend.list(now=NOW).pilots, wait_s=WAIT_S)
