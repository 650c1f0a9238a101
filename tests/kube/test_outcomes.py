"""What came of a request to start a pilot, by what the server answered: what is not sure is not said."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded.world import until
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.pilot import SiteState, Target
from glidepath.core.quantity import Instant, PilotName, SiteName
from glidepath.kube.backend import AT_ONCE, KubernetesBackend
from glidepath.kube.pod import pod_of
from glidepath.ports import Place
from kube.pod_builders import settings, spec
from kube.stand_in import Answer, Asked, StandIn, plain_access, serving

PODS = "/api/v1/namespaces/here/pods"
LISTED = Answer(body=b'{"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}')
NOW = Instant(2_000)
WAIT_S = 60.0
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
def a_backend(server: StandIn, **said: Any) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(
        SiteName("k8s"),
        settings(**{"token_secret": "pool-token", **said}),
        Place(Path("/"), ""),
        access=lambda: plain_access(server),
    )
    try:
        yield backend
    finally:
        backend.close()


def submitted(server: StandIn, answer: Answer | None, *, half: bool = False) -> Outcome:
    def told(asked: Asked) -> Answer:
        good = taking_pods(asked)
        if asked.method == "GET":
            return good
        return answer or (replace(good, body=good.body[: len(good.body) // 2]) if half else good)

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


def taking_pods(asked: Asked) -> Answer:
    if asked.method == "GET":
        return Answer(chunks=(), end="silent") if "watch" in asked.path else LISTED
    return Answer(201, json.dumps(made(asked)).encode())


def test_whose_turn_would_come_too_late_was_not_tried(server: StandIn) -> None:
    """By our own limit: the site has done nothing wrong."""
    server.rule(PODS, taking_pods)
    names = [PilotName(f"gp-{number}") for number in range(8)]
    with a_backend(server, changes_per_second=1) as backend, ThreadPoolExecutor(len(names)) as threads:
        found = list(threads.map(lambda name: backend.submit(replace(spec(), name=name)), names))
    late = NotTried("more than 1 changes a second were asked for; later")
    assert set(found) == {Done(), late}
    assert sum(asked.method == "POST" for asked in server.asked) == found.count(Done())


def test_a_namespace_that_is_full_says_so_and_has_done_nothing_wrong(server: StandIn) -> None:
    server.rule(PODS, taking_pods)
    with a_backend(server, pods_max=1) as backend:
        assert backend.list(now=NOW).room == 1
        assert backend.submit(spec()) == Done()
        assert backend.list(now=NOW).room == 0
        full = backend.submit(replace(spec(), name=PilotName("gp-2")))
        assert full == NotTried("there are 1 pods of ours, and `pods_max` is 1")


@pytest.mark.parametrize(("per_s", "at_once"), [(0, AT_ONCE), (1, 1), (5, 5), (20, AT_ONCE), (500, AT_ONCE)])
def test_no_more_are_asked_for_at_once_than_may_be_changed_in_a_second(
    server: StandIn, per_s: int, at_once: int
) -> None:
    with a_backend(server, changes_per_second=per_s) as backend:
        assert backend.at_once == at_once


def test_a_pod_whose_token_could_not_be_sent_is_unsure(server: StandIn) -> None:
    def told(asked: Asked) -> Answer:
        answer = taking_pods(asked)
        if asked.method == "GET":
            return answer
        # This connection ends with the answer, and nobody takes another one.
        server.socket.shutdown(socket.SHUT_RDWR)
        return replace(answer, chunks=(answer.body,), bare=True)

    server.rule(PODS, told)
    with a_backend(server, token_secret="") as backend:
        found = backend.submit(spec())
    assert isinstance(found, Unsure)
    assert "its pod was made, its token not" in found.why


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
