"""A server of ours on loopback that misbehaves on demand.

It stands in for faults that a real apiserver does not produce when asked: half answers, silence, drops,
pages of proxies, certificates of others. What a real one does is tested against a real one.
"""

from __future__ import annotations

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from glidepath.kube.access import Access

JSON = "application/json"
SENT_PARTS_MAX = 10_000


@dataclass(frozen=True)
class Answer:
    """How one request is answered. The last of a path's answers is given again and again."""

    status: int = 200
    body: bytes = b"{}"
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what is claimed; the true one where it is None
    wait_s: float = 0.0  # before anything is said
    chunks: Iterable[bytes] | None = None  # sent one by one instead of the body, with their lengths
    bare: bool = False  # neither length nor chunks: the answer ends with the connection
    pause_s: float = 0.0  # between chunks
    end: str = "well"  # or "cut": closed without an ending; "silent": nothing more; "drip": drops for ever
    raw: bytes | None = None  # sent as it is, head included, drop by drop
    drop_s: float = 0.05
    gone: bool = False  # the connection is closed without a word


@dataclass(frozen=True)
class Asked:
    at: float
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    presented: str  # the name in the client's certificate


class StandIn(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 50

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Told)
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.answers: dict[str, list[Answer]] = {}
        self.rules: dict[str, Callable[[Asked], Answer]] = {}
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def say(self, path: str, *answers: Answer) -> None:
        self.answers[path] = list(answers)

    def rule(self, path: str, answer: Callable[[Asked], Answer]) -> None:
        """An answer that depends on what was asked."""
        self.rules[path] = answer

    def next_answer(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
            path = asked.path.partition("?")[0]
            if path in self.rules:
                return self.rules[path](asked)
            left = self.answers.get(path, [Answer(status=404)])
            return left.pop(0) if len(left) > 1 else left[0]

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError):  # Clients that break off are what this is about.
            super().finish_request(request, client_address)


class _Told(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StandIn

    def log_message(self, *_: object) -> None:
        pass

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        table = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        subject = dict(pair for row in (table or {}).get("subject", ()) for pair in row)  # type: ignore[misc]  # As `ssl` gives it.
        body, name = self.rfile.read(size), str(subject.get("commonName", ""))
        asked = Asked(time.monotonic(), self.command, self.path, dict(self.headers), body, name)
        told = self.server.next_answer(asked)
        if told.gone or self.server.over.wait(told.wait_s):
            self.close_connection = True
        elif told.raw is not None:
            self._drip(told.raw, told.drop_s)
        else:
            self._head(told)
            self._body(told)

    do_GET = do_POST = do_PATCH = do_DELETE = do_CONNECT = answer

    def _head(self, told: Answer) -> None:
        self.send_response_only(told.status)
        if told.kind:
            self.send_header("Content-Type", told.kind)
        if told.chunks is not None and not told.bare:
            self.send_header("Transfer-Encoding", "chunked")
        elif not told.bare:
            self.send_header("Content-Length", str(len(told.body) if told.length is None else told.length))
        for name, value in told.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self, told: Answer) -> None:
        for part in (told.body,) if told.chunks is None else told.chunks:
            self._part(part, framed=told.chunks is not None and not told.bare)
            if self.server.over.wait(told.pause_s):
                break
        if told.end == "drip":
            for _ in range(SENT_PARTS_MAX):
                self._part(b"x", framed=told.chunks is not None and not told.bare)
                if self.server.over.wait(told.drop_s):
                    break
        elif told.end == "silent":
            self.server.over.wait()
        elif told.end == "well" and told.chunks is not None and not told.bare:
            self.wfile.write(b"0\r\n\r\n")
        if told.end != "well" or told.bare or told.length is not None:
            self.close_connection = True

    def _part(self, part: bytes, *, framed: bool) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if framed else part)

    def _drip(self, raw: bytes, drop_s: float) -> None:
        self.close_connection = True
        for number in range(len(raw)):
            self.wfile.write(raw[number : number + 1])
            if self.server.over.wait(drop_s):
                return


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[StandIn]:
    with StandIn(context) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


def plain_access(server: StandIn, **more: Any) -> Access:
    return Access(**{"server": server.url, "namespace": "here", "name": "test", "verified": False, **more})


@dataclass(frozen=True)
class Papers:
    """Certificates that `openssl` made, with their keys, as files in one folder."""

    folder: Path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def server_side(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        context.load_verify_locations(self.folder / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def papers(folder: Path) -> Papers:
    """An authority, a server that it vouches for by name and address, one by another name, and a client."""
    _openssl(folder, "req", "-x509", *_new("ca"), "-days", "2", "-subj", "/CN=authority", "-out", "ca.crt")
    for name, alternative in (
        ("server", "DNS:cluster.example,IP:127.0.0.1"),
        ("elsewhere", "DNS:cluster.example"),
        ("client", "DNS:client.example"),
    ):
        _openssl(folder, "req", *_new(name), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        paths = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        _openssl(folder, "x509", "-req", *signed, *paths)
    _openssl(folder, "ec", "-in", "client.key", "-aes128", "-passout", "pass:secret", "-out", "locked.key")
    return Papers(folder)


def _new(name: str) -> tuple[str, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
