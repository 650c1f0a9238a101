"""A list of pods in memory that answers as an apiserver does, and breaks on demand.

It stands in for faults that a real server does not produce when asked; the same reflector follows a real one
in the tests that need a bed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from glidepath.kube.api import SilentError
from glidepath.kube.errors import KubeError

Object = dict[str, Any]


def pod(name: str, *, uid: str = "", **more: Any) -> Object:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}"}, **more}


class FakeCluster:
    """What `Api` is to a reflector. Faults are taken from the front of a list, one for each request."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 100
        self.oldest = 0  # versions before this are gone
        self.objects: dict[str, Object] = {}
        self.events: list[tuple[int, str, Object]] = []
        self.asked: list[tuple[float, str, Mapping[str, str | int]]] = []
        self.list_faults: list[Exception | bytes | None] = []
        self.stream_faults: list[Exception | str | None] = []
        self.page = 2
        self.closed = False

    def put(self, thing: Object, *, told: bool = True) -> None:
        with self.changed:
            name = thing["metadata"]["name"]
            kind = "MODIFIED" if name in self.objects else "ADDED"
            self._happened(kind, thing, told=told)
            self.objects[name] = thing

    def drop(self, name: str, *, told: bool = True) -> None:
        with self.changed:
            self._happened("DELETED", self.objects.pop(name), told=told)

    def bookmark(self) -> None:
        with self.changed:
            self._happened("BOOKMARK", {"metadata": {}})

    def _happened(self, kind: str, thing: Object, *, told: bool = True) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        if told:
            self.events.append((self.version, kind, json.loads(json.dumps(thing))))
        self.changed.notify_all()

    def get(self, path: str, query: Mapping[str, str | int], **_: object) -> bytes:
        with self.changed:
            self.asked.append((time.monotonic(), "list", query))
            fault = self.list_faults.pop(0) if self.list_faults else None
            if isinstance(fault, Exception):
                raise fault
            if isinstance(fault, bytes):
                return fault
            names = sorted(self.objects)
            start = int(query.get("continue", 0))
            more = start + self.page < len(names)
            shown = [self.objects[name] for name in names[start : start + self.page]]
            meta = {"resourceVersion": str(self.version), "continue": str(start + self.page) if more else ""}
            return json.dumps({"metadata": meta, "items": shown}).encode()

    @contextmanager
    def lines(
        self, path: str, query: Mapping[str, str | int], *, silent_s: float, live: Callable[[], bool]
    ) -> Iterator[Iterator[bytes]]:
        with self.changed:
            self.asked.append((time.monotonic(), "watch", query))
            fault = self.stream_faults.pop(0) if self.stream_faults else None
            if isinstance(fault, Exception):
                raise fault
            since = int(query["resourceVersion"])
            if since < self.oldest:
                raise KubeError("too old resource version", status=410, reason="Expired")
        yield self._told(since, fault, live, silent_s=silent_s, for_s=float(query["timeoutSeconds"]))

    def _told(
        self, since: int, fault: str | None, live: Callable[[], bool], *, silent_s: float, for_s: float
    ) -> Iterator[bytes]:
        until, quiet = time.monotonic() + for_s, time.monotonic() + silent_s
        if fault == "close":
            return
        while live() and time.monotonic() < until and not self.closed:
            with self.changed:
                fresh = [event for event in self.events if event[0] > since] if fault != "mute" else []
                if not fresh:
                    self.changed.wait(0.02)
            for version, kind, thing in fresh:
                since, quiet = version, time.monotonic() + silent_s
                yield json.dumps({"type": kind, "object": thing}).encode()
            if time.monotonic() > quiet:
                raise SilentError("the stream fell silent")

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
