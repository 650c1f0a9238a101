"""Connections whose answers have a time as a whole: a socket's own timeout starts again at each byte.

An open socket comes in, the same with a clock goes out. What fails while a connection is made is told apart
from what fails later, because then nothing was sent. It refuses to know what is sent.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import time
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

# A limit may be kept for one that is a little shorter: an answer may take that much longer.
ALIKE = 0.95


class NotConnectedError(Exception):
    """Raised where a connection is made, and only there: nothing was sent."""


class Clock:
    """When the server must have said what is waited for; set anew for each answer, or each line of one."""

    def __init__(self) -> None:
        self.due = math.inf

    def left_s(self) -> float:
        left_s = self.due - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s


class _Incoming(io.RawIOBase):
    """What comes over a connection, until its time is up: a byte a second is no answer either."""

    def __init__(self, timed: _Timed, own: socket.socket, clock: Clock) -> None:
        self._timed, self._clock = timed, clock
        self._raw = own.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.settimeout(self._clock.left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Timed:
    """A socket whose answers have a time as a whole; a socket's own timeout starts again at each byte."""

    def __init__(self, own: socket.socket, clock: Clock) -> None:
        self._own, self._clock = own, clock
        self._limit_s: float | None = None

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self, self._own, self._clock))

    def settimeout(self, limit_s: float | None) -> None:
        """Asked for several times in each request, and a call of the system each: only where it matters."""
        known = self._limit_s
        if limit_s is None or known is None or not known * ALIKE <= limit_s <= known:
            self._own.settimeout(limit_s)
            self._limit_s = limit_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


class _Plain(HTTPConnection):
    _held: list[bytes] | None = None

    def request(self, *words: Any, **options: Any) -> None:
        """Head and body leave in one piece: each would be a record of its own, and wake the server twice."""
        self._held = []
        try:
            super().request(*words, **options)
            whole = b"".join(self._held)
        finally:
            self._held = None
        self.send(whole)

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)

    def connect(self) -> None:
        self.clock = Clock()
        try:
            super().connect()
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise NotConnectedError from error
        self.sock: Any = _Timed(self.sock, self.clock)

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # The library's own does so too.
        self.clock.due = time.monotonic() + (self.timeout or 0.0)
        return super().getresponse()


class _Secure(_Plain, HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure

    def _validate_conn(self, conn: Any) -> None:
        """The library would warn of an unverified server at each request; every status says so already."""
        if conn.is_closed:
            conn.connect()


POOLS: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _PlainPool, "https": _SecurePool}


def clock_of(response: urllib3.BaseHTTPResponse) -> Clock:
    """Raises AssertionError for an answer that has been read to its end: it has no connection any more."""
    connection = response.connection
    assert isinstance(connection, _Plain)
    return connection.clock
