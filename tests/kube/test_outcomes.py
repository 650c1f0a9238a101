"""What came of a request to start a pilot, by what the server answered: what is not sure is not said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from glidepath.core.cycle import Done, Failed, Outcome, Refused, Unsure
from glidepath.core.quantity import SiteName
from glidepath.kube.backend import KubernetesBackend
from glidepath.ports import Place
from kube.pod_builders import settings, spec
from kube.stand_in import Answer, Asked, StandIn, plain_access, serving

PODS = "/api/v1/namespaces/here/pods"
LISTED = Answer(body=b'{"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}')
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


def submitted(server: StandIn, answer: Answer | None, *, half: bool = False) -> Outcome:
    def told(asked: Asked) -> Answer:
        if asked.method == "GET":
            return Answer(chunks=(), end="silent") if "watch" in asked.path else LISTED
        whole = json.dumps(made(asked)).encode()
        return answer or Answer(201, whole[: len(whole) // 2] if half else whole)

    server.rule(PODS, told)
    backend = KubernetesBackend(
        SiteName("k8s"),
        settings(token_secret="pool-token"),
        Place(Path("/"), ""),
        access=lambda: plain_access(server),
    )
    try:
        return backend.submit(spec())
    finally:
        backend.close()


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
