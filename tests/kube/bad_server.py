"""An apiserver with pods in memory that keeps its word until it is told how to break it.

Lists, streams, creates and deletes are answered as Kubernetes does, as far as glidepath uses them. A fault
changes how questions are answered, never which pods there are: what is believed of them can be compared.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kube.stand_in import Answer, Asked, StandIn

PODS = "/api/v1/namespaces/here/pods"
BOOKMARK_S = 5.0
RETRY_AFTER_S = 7
Object = dict[str, Any]

HTML = Answer(body=b"<html><head><title>Sign in to continue</title></head></html>", kind="text/html")


def status(code: int, reason: str, message: str, **headers: str) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Answer(code, json.dumps(body).encode(), headers=headers)


EXPIRED = status(410, "Expired", "The provided continue parameter is too old")
BUSY = status(429, "TooManyRequests", "too many requests, please try again later")
# What no list should have; none of it may pass for a pod, or hide one.
MALFORMED: tuple[Any, ...] = (
    None,
    5,
    "pod",
    {"metadata": None},
    {"metadata": {"name": "stranger"}},
    {"metadata": {"name": "stranger-2", "uid": "u", "resourceVersion": "1", "labels": {"a": None}}},
)


class BadServer(StandIn):
    """`fault` says how it misbehaves; empty, it is well."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context)
        self.changed = threading.Condition()
        self.pods: dict[str, Object] = {}
        self.events: list[tuple[int, str, Object]] = []
        self.version, self.oldest = 100, 0
        self.fault = ""
        self.created: Counter[str] = Counter()
        self.deleted: list[str] = []

    def break_with(self, fault: str) -> None:
        """From now on; streams that are open end, but where silence is the fault."""
        with self.changed:
            self.fault = fault
            if fault in ("", "malformed"):
                # What was told before is not known any more, so that everything is listed.
                self.version += 1
                self.oldest = self.version
            self.changed.notify_all()

    def lose(self, name: str) -> None:
        """Somebody else deletes it."""
        with self.changed:
            self._happened("DELETED", self.pods[name])

    def asked_since(self, at: float) -> list[float]:
        with self.lock:
            return [each.at for each in self.asked if each.at >= at]

    def names(self) -> dict[str, str]:
        """Pods with their uids."""
        with self.changed:
            return {name: pod["metadata"]["uid"] for name, pod in self.pods.items()}

    def next_answer(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
        url = urlsplit(asked.path)
        query = dict(parse_qsl(url.query))
        name = url.path.removeprefix(PODS).strip("/")
        with self.changed:
            if asked.method == "POST":
                return self._create(json.loads(asked.body))
            broken = FAULTS.get(self.fault)
            answer = broken(self, query) if broken is not None else None
            if answer is not None:
                return answer
            if asked.method == "DELETE":
                return self._delete(name)
            if name:
                return self._one(name)
            return self.stream(query) if "watch" in query else self.listed(*self.pods.values())

    # As it should be.

    def listed(self, *items: Any, **meta: str) -> Answer:
        about = {"resourceVersion": str(self.version), **meta}
        return Answer(body=json.dumps({"kind": "PodList", "metadata": about, "items": list(items)}).encode())

    def stream(self, query: dict[str, str]) -> Answer:
        if int(query["resourceVersion"]) < self.oldest:
            return EXPIRED
        return Answer(chunks=self._told(int(query["resourceVersion"]), float(query["timeoutSeconds"])))

    def _told(self, since: int, for_s: float) -> Iterator[bytes]:
        until, spoke, fault = time.monotonic() + for_s, time.monotonic(), self.fault
        while time.monotonic() < until and not self.over.is_set():
            with self.changed:
                if self.fault == "half-open":
                    self.changed.wait(0.1)
                    continue
                if self.fault != fault:
                    return
                fresh = [event for event in self.events if event[0] > since]
                if not fresh and time.monotonic() - spoke > BOOKMARK_S:
                    meta = {"metadata": {"resourceVersion": str(self.version)}}
                    fresh = [(self.version, "BOOKMARK", meta)]
                if not fresh:
                    self.changed.wait(0.1)
            for version, kind, thing in fresh:
                since, spoke = version, time.monotonic()
                yield json.dumps({"type": kind, "object": thing}).encode() + b"\n"

    def _create(self, pod: Object) -> Answer:
        name = pod["metadata"]["name"]
        self.created[name] += 1
        if name in self.pods:
            return status(409, "AlreadyExists", f'pods "{name}" already exists')
        pod["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": "2030-01-01T10:00:00Z"}
        pod["spec"]["nodeName"] = "n1"
        running = {"name": "pilot", "state": {"running": {}}}
        pod["status"] = {"phase": "Running", "containerStatuses": [running]}
        self._happened("ADDED", pod)
        made = Answer(201, json.dumps(pod).encode())
        return LOST_ANSWERS.get(self.fault, lambda answer: answer)(made)

    def _delete(self, name: str) -> Answer:
        self.deleted.append(name)
        if name not in self.pods:
            return status(404, "NotFound", f'pods "{name}" not found')
        self._happened("DELETED", self.pods[name])
        return Answer()

    def _one(self, name: str) -> Answer:
        if name not in self.pods:
            return status(404, "NotFound", f'pods "{name}" not found')
        return Answer(body=json.dumps(self.pods[name]).encode())

    def _happened(self, kind: str, pod: Object) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self.pods.pop(name)
        else:
            self.pods[name] = pod
        self.events.append((self.version, kind, json.loads(json.dumps(pod))))
        self.changed.notify_all()


Fault = Callable[[BadServer, dict[str, str]], Answer | None]


def _malformed(server: BadServer, query: dict[str, str]) -> Answer | None:
    """One pod of ours can no longer be read, and things stand between that are none."""
    if "watch" in query:
        return None
    first, *rest = (pod for _, pod in sorted(server.pods.items()))
    return server.listed({**first, "status": "Running"}, *MALFORMED, *rest)


def _truncated(server: BadServer, query: dict[str, str]) -> Answer | None:
    if "watch" in query:
        return Answer(chunks=(b'{"type": "ADDED", "obj',), end="cut")
    return _half(server.listed(*server.pods.values()))


def _half(whole: Answer) -> Answer:
    return replace(whole, body=whole.body[: len(whole.body) // 2])


def _expired(server: BadServer, query: dict[str, str]) -> Answer | None:
    """Half of the list, and then the other half is not known any more."""
    if "watch" in query or "continue" in query:
        return EXPIRED
    return server.listed(*list(server.pods.values())[:1], **{"continue": "token"})


FAULTS: dict[str, Fault] = {
    "malformed": _malformed,
    "html": lambda server, query: HTML,
    "truncated": _truncated,
    "busy": lambda server, query: BUSY,
    "busy-until": lambda server, query: replace(BUSY, headers={"Retry-After": str(RETRY_AFTER_S)}),
    "closing": lambda server, query: Answer(chunks=()) if "watch" in query else None,
    "half-open": lambda server, query: Answer(chunks=(), end="silent") if "watch" in query else None,
    "expired": _expired,
    "blind": _truncated,
}
# The pod is made; the answer to that is another.
LOST_ANSWERS: dict[str, Callable[[Answer], Answer]] = {
    "cut-creates": lambda made: Answer(gone=True),
    "html-creates": lambda made: HTML,
    "half-creates": lambda made: _half(made),
    "blind": lambda made: _half(made),
}
