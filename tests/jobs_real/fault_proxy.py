"""Between glidepath and its real apiserver: what is asked goes through, and fares as a test says.

A fault is one answer, given once: in place of what the server would have said, or after the server did what
it was asked and nobody heard of it. What was made for real is counted.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bed.parts.kube_config import API_PORT
from bed.parts.kubernetes import Cluster

from kube.stand_in import Answer, Asked, StandIn

UPSTREAM_S_MAX = 330.0
PART_BYTES = 1 << 16
_KIND = re.compile(r"/(pods|services|secrets|nodes)(?:/[^/?]+)?(/log)?(?:$|\?)")
PASSED_ON = ("Authorization", "Accept", "Content-Type")
Hook = Callable[[], None]


def status(code: int, reason: str = "", message: str = "no", **headers: str) -> Answer:
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return Answer(code, json.dumps(body).encode(), headers=headers)


class Lost:
    """It is done, and this is heard of it instead; by default nothing."""

    def __init__(self, answer: Answer | None = None, then: Hook | None = None) -> None:
        self.answer = answer or Answer(gone=True)
        self.then = then


class Before:
    """Somebody does something just before it would be done; it is not done then."""

    def __init__(self, then: Hook) -> None:
        self.then = then


Fault = Answer | Lost | Before


class FaultProxy(StandIn):
    """`faults` has what is still to happen, by verb and kind such as `POST pods` or `GET pods/log`."""

    def __init__(self, cluster: Cluster) -> None:
        keys = cluster.layout.keys
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Its certificate holds for this machine, too.
        context.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
        super().__init__(context)
        self.to = (cluster.node_address, API_PORT)
        self.trusted = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        self.faults: dict[str, list[Fault]] = {}
        self.happened: list[str] = []
        self.made: Counter[str] = Counter()  # names of pods that the server took
        self.told_to_begin: set[str] = set()  # likewise, by marks that the server took
        self.changes: list[tuple[float, str]] = []
        self._open: set[http.client.HTTPSConnection] = set()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def next_answer(self, asked: Asked) -> Answer:
        what = what_of(asked)
        with self.lock:
            due = self.faults.get(what)
            fault = due.pop(0) if due else None
            if fault is not None:
                self.happened.append(what)
            if asked.method != "GET":
                self.changes.append((asked.at, what))
        if isinstance(fault, Answer):
            return fault
        if isinstance(fault, Before):
            fault.then()
            return Answer(gone=True)
        answer = self._passed_on(asked)
        if isinstance(fault, Lost):
            if fault.then is not None:
                fault.then()
            return fault.answer
        return answer

    def left(self) -> list[str]:
        """What has not happened yet."""
        with self.lock:
            return [what for what, due in self.faults.items() if due]

    def _passed_on(self, asked: Asked) -> Answer:
        upstream = http.client.HTTPSConnection(*self.to, timeout=UPSTREAM_S_MAX, context=self.trusted)
        headers = {name: asked.headers[name] for name in PASSED_ON if name in asked.headers}
        try:
            upstream.request(asked.method, asked.path, asked.body or None, headers)
            answer = upstream.getresponse()
        except OSError:
            upstream.close()
            return Answer(gone=True)
        kind = answer.headers.get("Content-Type", "")
        if "watch" in dict(parse_qsl(urlsplit(asked.path).query)):
            return Answer(answer.status, kind=kind, chunks=self._told(upstream, answer))
        body = answer.read()
        upstream.close()
        self._count(asked, answer.status)
        more = {name: answer.headers[name] for name in ("Date", "Retry-After") if name in answer.headers}
        return Answer(answer.status, body, kind=kind, headers=more)

    def _told(
        self, upstream: http.client.HTTPSConnection, answer: http.client.HTTPResponse
    ) -> Iterator[bytes]:
        self._open.add(upstream)
        try:
            while part := answer.read1(PART_BYTES):
                yield part
        except (OSError, ValueError, http.client.HTTPException):
            return  # It ends here as it ended there.
        finally:
            self._open.discard(upstream)
            upstream.close()

    def _count(self, asked: Asked, code: int) -> None:
        if asked.method not in ("POST", "PATCH") or not 200 <= code < 300 or "/pods" not in asked.path:
            return
        body: dict[str, Any] = json.loads(asked.body)
        with self.lock:
            if asked.method == "POST":
                self.made[body["metadata"]["name"]] += 1
            elif "glidepath/go" in body["metadata"].get("annotations", {}):
                self.told_to_begin.add(asked.path.rpartition("/")[2])

    def end_streams(self) -> None:
        for each in list(self._open):
            with suppress(OSError, AttributeError):
                each.sock.shutdown(2)


def what_of(asked: Asked) -> str:
    found = _KIND.search(asked.path)
    kind = f"{found[1]}{found[2] or ''}" if found else "?"
    watched = " watch" if "watch=" in asked.path else ""
    return f"{asked.method} {kind}{watched}"


@contextmanager
def fault_proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.over.set()
            proxy.shutdown()
            proxy.end_streams()
            thread.join()
