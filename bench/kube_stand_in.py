"""A server on loopback that answers lists from memory and treats watches as it is told.

Pages and a word for watches come in; when it was asked for what goes out. It stands in where a real server
would need minutes to make its pods, or would have to be broken.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from glidepath.kube.access import Access

PAGE = 500
VERSION_FIRST = 1_000_000
NODES = 100


class StandIn(ThreadingHTTPServer):
    """A watch is `silent` (its head comes and nothing more), `mute` (not even that), `empty` (it ends at once
    and well) or `gone` (the connection is closed without a word)."""

    daemon_threads = True
    request_queue_size = 50

    def __init__(self, pages: Sequence[bytes], watch: str) -> None:
        super().__init__(("127.0.0.1", 0), _Told)
        self.pages, self.watch = pages, watch
        self.lists: list[float] = []
        self.watches: list[float] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def access(self) -> Access:
        return Access(server=self.url, namespace="pilots", name="bench", verified=True)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError):  # A client that leaves is no error here.
            super().finish_request(request, client_address)


class _Told(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StandIn

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if asked.get("watch", ["0"])[0] in ("1", "true", "True"):
            self.server.watches.append(time.monotonic())
            self._watched()
            return
        self.server.lists.append(time.monotonic())
        page = self.server.pages[int(asked.get("continue", ["0"])[0])]
        self._head({"Content-Length": str(len(page))})
        self.wfile.write(page)

    def _watched(self) -> None:
        word = self.server.watch
        self.close_connection = word != "empty"
        if word in ("silent", "empty"):
            self._head({"Transfer-Encoding": "chunked"})
        if word == "empty":
            self.wfile.write(b"0\r\n\r\n")
        elif word != "gone":
            self.server.over.wait()

    def _head(self, headers: Mapping[str, str]) -> None:
        self.send_response_only(200)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.flush()


def pages_of(pod: Mapping[str, Any], count: int) -> list[bytes]:
    """A list of so many pods like this one, each with a name, a number and a node of its own."""
    pages = []
    for first in range(0, max(count, 1), PAGE):
        items = [_another(pod, number) for number in range(first, min(first + PAGE, count))]
        meta: dict[str, Any] = {"resourceVersion": str(VERSION_FIRST + count)}
        if first + PAGE < count:
            meta |= {"continue": str(len(pages) + 1), "remainingItemCount": count - first - PAGE}
        whole = {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}
        pages.append(json.dumps(whole, separators=(",", ":")).encode())
    return pages


def _another(pod: Mapping[str, Any], number: int) -> dict[str, Any]:
    old, name = pod["metadata"]["name"], f"gp-{number:06d}"
    made: dict[str, Any] = json.loads(json.dumps(pod).replace(old, name))
    made["metadata"]["uid"] = f"00000000-0000-4000-8000-{number:012d}"
    made["metadata"]["resourceVersion"] = str(VERSION_FIRST + number)
    made["spec"]["nodeName"] = f"node-{number % NODES}"
    return made


@contextmanager
def serving(pages: Sequence[bytes], watch: str = "silent") -> Iterator[StandIn]:
    with StandIn(pages, watch) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
