"""Requests to one cluster: a path comes in, bytes of JSON go out, or an error that says what happened.

Answers are bounded in size and time, redirects are not followed, and what is no answer of Kubernetes (a page
of a proxy, half a document) is an error and never data. It refuses to know what it fetches.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.util import Timeout

from glidepath.core.text import one_line
from glidepath.kube.access import Access
from glidepath.kube.credentials import Credential, Credentials
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import written
from glidepath.kube.timed import POOLS, Clock, NotConnectedError, clock_of

CONNECT_S_MAX = 5.0
LIMIT_S = 20.0
# A page of 500 pods has about 2 MB; a log that is asked for has its own bound.
BODY_BYTES_MAX = 64 << 20
LINE_BYTES_MAX = 8 << 20
CHUNK_BYTES = 256 << 10
RETRY_AFTER_S_MAX = 300.0
CONNECTIONS = 24
AGENT = "glidepath"
REASON_LETTERS_MAX = 100
# Errors wrap each other; people are told of the innermost.
WRAPPED_MAX = 5


class NotSentError(OSError):
    """The request never left: nothing happened at the cluster."""


class LaterError(NotSentError):
    """It is not yet its turn, by our own limit; nobody is at fault."""


class NotOursError(OSError):
    """Another glidepath decides now; nothing was sent."""


class UnansweredError(OSError):
    """It was sent and no answer came: it may have happened."""


class SilentError(UnansweredError):
    """A stream that said nothing for too long."""


class Limiter:
    """So many changes a second, with a burst of one second's worth."""

    def __init__(
        self,
        per_s: float,
        *,
        mono: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_s, self._mono, self._sleep = per_s, mono, sleep
        self._lock = threading.Lock()
        self._left, self._at = max(1.0, per_s), mono()
        self._rests_until = mono()

    def rest(self, for_s: float) -> None:
        """The server wants to be left alone for so long."""
        with self._lock:
            self._rests_until = max(self._rests_until, self._mono() + for_s)

    def wait(self, limit_s: float) -> None:
        """Returns when it is this one's turn; raises at once where that would be too late."""
        rest_s = self._rests_until - self._mono()
        if rest_s > limit_s:
            raise LaterError(f"the server asked to be left alone for {rest_s:.0f} s more; later")
        if rest_s > 0:
            self._sleep(rest_s)
        if self._per_s <= 0:
            return
        with self._lock:
            now = self._mono()
            self._left = min(max(1.0, self._per_s), self._left + (now - self._at) * self._per_s)
            self._at = now
            wait_s = max(0.0, (1.0 - self._left) / self._per_s)
            if wait_s > limit_s:
                raise LaterError(f"more than {self._per_s:g} changes a second were asked for; later")
            self._left -= 1.0
        if wait_s:
            self._sleep(wait_s)


class Api:
    """One cluster. For all threads; nothing is opened before the first request."""

    def __init__(
        self,
        access: Access,
        *,
        credentials: Credentials | None = None,
        changes_per_s: float = 20.0,
        ours: Callable[[], bool] = lambda: True,
    ) -> None:
        """`ours` is asked before each change, and says whether we still may make it."""
        self.access = access
        self._ours = ours
        self._credentials = credentials or Credentials(access)
        self._changes = Limiter(changes_per_s)
        self._lock = threading.Lock()
        self._connections: urllib3.HTTPConnectionPool | None = None
        # A proxy of plain requests has to be told the server with each; everyone else knows it.
        named = bool(access.proxy) and access.server.startswith("http:")
        self._before = access.server if named else urlsplit(access.server).path
        self._made_for: tuple[str, str] = ("", "")
        self._streams: set[urllib3.BaseHTTPResponse] = set()

    def get(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        limit_s: float = LIMIT_S,
        text: bool = False,
    ) -> bytes:
        """`text` where a log is asked for, which is no JSON."""
        return self._sent("GET", path, query, b"", deadline=time.monotonic() + limit_s, text=text)[0]

    def dated(self, path: str, *, limit_s: float = LIMIT_S) -> tuple[bytes, float | None]:
        """With the server's own time, by the wall clock; None where it tells none that can be read."""
        whole, said = self._sent("GET", path, None, b"", deadline=time.monotonic() + limit_s)
        try:
            return whole, parsedate_to_datetime(said).timestamp()
        except (ValueError, OverflowError):
            return whole, None

    def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes = b"",
        query: Mapping[str, str | int] | None = None,
        *,
        limit_s: float = LIMIT_S,
        always: bool = False,
    ) -> bytes:
        """`always` where it completes what is there already: that is right whoever decides now."""
        deadline = time.monotonic() + limit_s
        self._changes.wait(limit_s / 2)
        content = body if isinstance(body, bytes) else written(body)
        # As late as can be: whoever was stopped since the plan was made may find another in its place. From
        # here on the deadline tells, which comes before the lease runs out.
        if not always and not self._ours():
            raise NotOursError("another glidepath owns the store now; nothing was sent")
        try:
            return self._sent(method, path, query, content, deadline=deadline)[0]
        except KubeError as error:
            if error.busy and error.retry_after_s:
                self._changes.rest(error.retry_after_s)
            raise

    @contextmanager
    def lines(
        self, path: str, query: Mapping[str, str | int], *, silent_s: float, live: Callable[[], bool]
    ) -> Iterator[Iterator[bytes]]:
        """An answer that goes on, line by line, until the server ends it or says nothing for `silent_s`."""
        response = self._asked("GET", path, query, b"", deadline=time.monotonic() + silent_s)
        # Taken now: an answer that is read to its end no longer knows its connection.
        clock = clock_of(response)
        with self._lock:
            self._streams.add(response)
        try:
            if _bad(response):
                clock.due = time.monotonic() + LIMIT_S
                _refuse(response, self._whole(response))
            yield _split(response, clock, silent_s, lambda: live() and response in self._streams)
        finally:
            with self._lock:
                self._streams.discard(response)
            # Not given back: what is left of the answer may be endless.
            response.close()

    @contextmanager
    def parts(
        self, path: str, query: Mapping[str, str | int], *, limit_s: float = LIMIT_S
    ) -> Iterator[Iterator[bytes]]:
        """A text piece by piece, until it ends or the time is up: a log may be longer than memory."""
        response = self._asked("GET", path, query, b"", deadline=time.monotonic() + limit_s, text=True)
        clock_of(response).due = time.monotonic() + limit_s
        try:
            if response.status != 200 or _kind(response) != "text/plain":
                _refuse(response, self._whole(response))
                raise KubeError("a text was asked for, something else came")
            yield self._pieces(response)
        finally:
            response.close()

    def _pieces(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        try:
            while part := response.read1(CHUNK_BYTES):
                yield part
            response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnansweredError(f"{self.access.server} broke off a text: {_why(error)}") from None

    def close(self) -> None:
        """Ends the streams too, whoever reads them."""
        with self._lock:
            streams, self._streams = self._streams, set()
            self._connections = None  # They are closed when nobody uses them any more.
        for response in streams:
            with suppress(OSError, ValueError, RuntimeError):
                response.shutdown()

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        content: bytes,
        *,
        deadline: float,
        text: bool = False,
    ) -> tuple[bytes, str]:
        """The answer, and when the server says that it gave it."""
        response = self._asked(method, path, query, content, deadline=deadline, text=text)
        try:
            whole = self._whole(response)
        finally:
            response.release_conn()
        if not (text and response.status == 200 and _kind(response) == "text/plain"):
            _refuse(response, whole)
        return whole, response.headers.get("Date", "")

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        content: bytes,
        *,
        deadline: float,
        text: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """The head of the answer. A credential that is refused is renewed and tried once more."""
        server = self.access.server
        url = f"{self._before}{path}" + (f"?{urlencode(query)}" if query else "")
        for again in (True, False):
            credential = self._credentials.now()
            connections = self._opened(credential)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise NotSentError(
                    f"{server} was not asked: getting a credential took all the time there was"
                )
            try:
                response = connections.urlopen(
                    method,
                    url,
                    body=content or None,
                    headers=_headers(method, content, credential, text=text),
                    preload_content=False,
                    decode_content=False,
                    redirect=False,
                    assert_same_host=False,  # A proxy is another, and that is right.
                    retries=False,
                    timeout=Timeout(total=left_s, connect=min(CONNECT_S_MAX, left_s)),
                )
            except NotConnectedError as error:
                raise NotSentError(_unreached(server, error)) from None
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise UnansweredError(f"{server} did not answer: {_why(error)}") from None
            if response.status != 401 or not again:
                return response
            self._credentials.refused(credential)
            # Not given back: the next request on it would find the rest of this answer.
            response.close()
        raise AssertionError("the second answer was returned")

    def _whole(self, response: urllib3.BaseHTTPResponse) -> bytes:
        """Ends with the answer, at its bound, or when its time is up."""
        try:
            whole: bytes = response.read(BODY_BYTES_MAX)
            more = response.read(1)  # That this was all is found out here, or that the rest is missing.
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            raise UnansweredError(f"{self.access.server} broke off its answer: {_why(error)}") from None
        if more:
            response.close()
            raise UnansweredError(f"{self.access.server} answers more than {BODY_BYTES_MAX >> 20} MiB")
        return whole

    def _opened(self, credential: Credential) -> urllib3.HTTPConnectionPool:
        with self._lock:
            made_for = (credential.certificate, credential.key)
            if self._connections is None or made_for != self._made_for:
                self._connections, self._made_for = self._connected(credential), made_for
            return self._connections

    def _connected(self, credential: Credential) -> urllib3.HTTPConnectionPool:
        access = self.access
        options: dict[str, Any] = {"maxsize": CONNECTIONS, "block": False}
        if access.server.startswith("https:"):
            options["ssl_context"] = _tls(access, credential)
            if access.server_name:
                options["server_hostname"] = access.server_name
        made = (
            urllib3.ProxyManager(access.proxy, **options) if access.proxy else urllib3.PoolManager(**options)
        )
        made.pool_classes_by_scheme = POOLS
        return made.connection_from_url(access.server)


def _headers(method: str, content: bytes, credential: Credential, *, text: bool) -> dict[str, str]:
    headers = {"Accept": "application/json, */*" if text else "application/json", "User-Agent": AGENT}
    if content:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers["Content-Type"] = f"application/{kind}"
    if credential.token:
        headers["Authorization"] = f"Bearer {credential.token}"
    return headers


def _tls(access: Access, credential: Credential) -> ssl.SSLContext:
    try:
        # Bundles have comments in all languages; the certificates themselves are plain letters.
        authorities = access.ca.encode("ascii", "replace").decode()
        context = ssl.create_default_context(cadata=authorities or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # New Pythons ask more of an authority than many clusters' own has, and than `kubectl` asks.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not access.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if credential.certificate and credential.key:
            # The library takes files only; this one has no name that anybody else could open.
            file = os.memfd_create("glidepath-certificate")
            try:
                os.write(file, f"{credential.certificate}\n{credential.key}\n".encode())
                # With a pass phrase given, be it none, nobody is asked for one at the terminal.
                context.load_cert_chain(f"/proc/self/fd/{file}", password="")
            finally:
                os.close(file)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise AccessError(
            f"a certificate or key for {access.server} cannot be used: {_why(error)}; "
            "look whether it is whole and has no pass phrase"
        ) from None
    return context


def _bad(response: urllib3.BaseHTTPResponse) -> bool:
    return response.status != 200 or not _is_json(response)


def _is_json(response: urllib3.BaseHTTPResponse) -> bool:
    return _kind(response) == "application/json"


def _kind(response: urllib3.BaseHTTPResponse) -> str:
    """What the answer says it is; nothing we know where it is packed, which was not asked for."""
    packed = response.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
    return "" if packed else response.headers.get("Content-Type", "").split(";")[0].strip().lower()


def _refuse(response: urllib3.BaseHTTPResponse, whole: bytes) -> None:
    """Raises where this is not the answer that was asked for."""
    status, is_json = response.status, _is_json(response)
    if 200 <= status < 300 and is_json:
        return
    said, reason, wait_s = whole[:2000].decode("utf-8", "replace"), "", None
    if is_json:
        try:
            found = json.loads(whole)
            said, reason = str(found.get("message") or said), str(found.get("reason") or "")
            wait_s = _wait_s((found.get("details") or {}).get("retryAfterSeconds"))
        except (ValueError, AttributeError, RecursionError):
            pass
    else:
        kind = one_line(response.headers.get("Content-Type", "nothing"), letters_max=60)
        said = f"answered {status} with {kind}, which is no answer of Kubernetes: {said[:200]}"
    header_s = _wait_s(response.headers.get("Retry-After"))
    raise KubeError(
        said or f"answered {status}",
        status=status if is_json or status >= 400 else 0,
        reason=one_line(reason, letters_max=REASON_LETTERS_MAX),
        retry_after_s=wait_s if header_s is None else header_s,
    )


def _wait_s(said: object) -> float | None:
    try:
        return min(RETRY_AFTER_S_MAX, max(0.0, float(str(said))))
    except ValueError:
        return None


def _split(
    response: urllib3.BaseHTTPResponse, clock: Clock, silent_s: float, live: Callable[[], bool]
) -> Iterator[bytes]:
    """Lines, each within `silent_s` of the one before: drops of a line that never ends are silence."""
    left = bytearray()
    clock.due = time.monotonic() + silent_s
    try:
        while part := response.read1(CHUNK_BYTES):
            # Only what is new is looked through: a long line may come in thousands of parts.
            head, newline, tail = part.rpartition(b"\n")
            if newline:
                whole = bytes(left) + head
                left.clear()
                for line in whole.split(b"\n"):
                    if line.strip():
                        yield line
                clock.due = time.monotonic() + silent_s
            left += tail
            if len(left) > LINE_BYTES_MAX:
                raise KubeError(f"one line of the stream has more than {LINE_BYTES_MAX >> 20} MiB")
            if not live():
                return
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if not live():
            return
        if isinstance(error, urllib3.exceptions.ReadTimeoutError | TimeoutError):
            raise SilentError("the stream fell silent") from None
        raise UnansweredError(f"the stream broke off: {_why(error)}") from None


def _unreached(server: str, error: NotConnectedError) -> str:
    root = _root(error)
    if isinstance(root, ssl.SSLCertVerificationError):
        return (
            f"{server} is not who it should be: {one_line(root.verify_message, letters_max=200)}; "
            "look at its address and at `certificate-authority`"
        )
    return f"{server} cannot be reached: {_why(error)}"


def _root(error: BaseException) -> BaseException:
    for _ in range(WRAPPED_MAX):
        inner = next(
            (each for each in reversed(error.args) if isinstance(each, BaseException)), error.__cause__
        )
        if inner is None:
            break
        error = inner
    return error


def _why(error: BaseException) -> str:
    """The innermost cause, without the addresses of objects in memory, which differ each time."""
    root = _root(error)
    if isinstance(root, http.client.IncompleteRead):
        return "it ended before it was whole"
    said = (root.strerror if isinstance(root, OSError) else None) or str(root) or type(root).__name__
    return one_line(said, letters_max=200)
