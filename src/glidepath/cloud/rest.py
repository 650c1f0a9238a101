"""A cloud by its REST API: a request with its places filled comes in, an answer of JSON goes out.

Answers are bounded in size and time, pages in number, redirects are not followed, and what is no answer of
the API (a page of a proxy, half a document) is an error and never an empty listing.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from glidepath.cloud.answers import OddAnswer, Row, at_path, document, rows_in, rows_of
from glidepath.cloud.door import ANSWER_BYTES_MAX, CloudError, LaterError, Said, Verb
from glidepath.cloud.key import without
from glidepath.cloud.places import Values, filled, filled_body, filled_path, hidden
from glidepath.cloud.settings import EndpointSettings, ListingSettings, RestSettings
from glidepath.core.text import one_line

AGENT = "glidepath"
CONNECT_S_MAX = 5.0
CHUNK_BYTES = 256 << 10
WAIT_S_MAX = 300.0
# Where the cloud asks for patience and does not say how much.
WAIT_S_USUAL = 5.0
ROWS_MAX = 100_000
NEXT_LETTERS_MAX = 2000
TOO_MANY, UNAVAILABLE = 429, 503
# The only answers of the kind "you are wrong" that may be others the next time.
TOO_SLOW = frozenset({408, 425})


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    kind: str
    body: bytes
    retry_after: str


class RestDoor:
    """One server. Each request has a connection of its own: there are few, and none can be left half read."""

    def __init__(
        self,
        settings: RestSettings,
        listing: ListingSettings,
        key: Callable[[], str],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._listing, self._key, self._wall = settings, listing, key, wall
        self._at = urlsplit(settings.url)
        self._lock = threading.Lock()
        self._quiet_until = 0.0  # by the monotonic clock: the cloud asked for patience until then
        self._trusted: ssl.SSLContext | None = None

    def knows(self, verb: Verb) -> bool:
        return self._endpoint(verb) is not None

    def ask(self, verb: Verb, values: Values, *, deadline: float, gpus: bool = False) -> Said:
        endpoint = self._endpoint(verb)
        assert endpoint is not None, "only what is known is asked for"
        if verb is Verb.LIST:
            return Said(rows=self._pages(endpoint, deadline))
        text = self._text(endpoint, values, deadline=deadline, verb=verb, gpus=gpus)
        if verb is Verb.SHOW:
            return Said(rows=rows_of(text, self._listing, alone=True))
        return Said(text)

    def rendered(self, verb: Verb, values: Values, *, gpus: bool = False) -> str:
        endpoint = self._endpoint(verb)
        assert endpoint is not None, "only what is known is asked for"
        shown = hidden(values)
        lines = [f"{endpoint.method} {self._base}{filled_path(endpoint.path, shown)}"]
        lines += [
            f"{name}: {filled(value, {'key': '<key>'})}" for name, value in self._settings.headers.items()
        ]
        body = filled_body(_template(endpoint, gpus=gpus), shown)
        return "\n".join([*lines, "", json.dumps(body, indent=2)] if body else lines)

    @property
    def _base(self) -> str:
        return self._settings.url.rstrip("/")

    def _endpoint(self, verb: Verb) -> EndpointSettings | None:
        found: EndpointSettings | None = getattr(self._settings, verb.value)
        return found

    # Pages.

    def _pages(self, endpoint: EndpointSettings, deadline: float) -> tuple[Row, ...]:
        path = filled_path(endpoint.path, {})
        rows: list[Row] = []
        seen: set[str] = set()
        for _ in range(self._settings.pages_max):
            page = document(self._request(endpoint.method, path, endpoint.body, {}, deadline=deadline))
            rows += rows_in(page, self._listing)
            if len(rows) > ROWS_MAX:
                raise OddAnswer(f"more than {ROWS_MAX} jobs are listed")
            following = at_path(page, self._settings.next) if self._settings.next else None
            if following in (None, "", False):
                return tuple(rows)
            path = self._following(endpoint, following)
            if path in seen:
                raise OddAnswer(f"the pages go round in a circle at `{one_line(path)}`")
            seen.add(path)
        raise OddAnswer(f"the listing did not end within {self._settings.pages_max} pages")

    def _following(self, endpoint: EndpointSettings, following: Any) -> str:
        """The path of the next page: always at the same server, whatever it says."""
        said = str(following) if isinstance(following, (str, int)) else ""
        if not said or not said.isprintable() or len(said) > NEXT_LETTERS_MAX:
            raise OddAnswer(f"what follows a page is no mark of a page: `{one_line(str(following))}`")
        if self._settings.next_param:
            path = filled_path(endpoint.path, {})
            join = "&" if "?" in path else "?"
            return f"{path}{join}{quote(self._settings.next_param)}={quote(said, safe='')}"
        at = urlsplit(said)
        if (at.scheme or at.netloc) and (at.scheme, at.netloc) != (self._at.scheme, self._at.netloc):
            raise OddAnswer(f"the next page is at another server: `{one_line(said)}`")
        path = at.path.removeprefix(self._at.path.rstrip("/")) + (f"?{at.query}" if at.query else "")
        if not path.startswith("/") or " " in path:
            raise OddAnswer(f"the next page is nowhere: `{one_line(said)}`")
        return path

    # One request.

    def _text(
        self, endpoint: EndpointSettings, values: Values, *, deadline: float, verb: Verb, gpus: bool
    ) -> str:
        path = filled_path(endpoint.path, values)
        body = filled_body(_template(endpoint, gpus=gpus), values)
        return self._request(
            endpoint.method, path, body, values, deadline=deadline, any_text=verb is not Verb.SHOW
        )

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        values: Values,
        *,
        deadline: float,
        any_text: bool = False,
    ) -> str:
        """The text of a good answer, which is JSON unless `any_text`."""
        key = self._key()
        secrets = (key, *(value for name, value in values.items() if name in ("bundle", "token")))
        self._be_patient()
        answer = self._sent(method, path, json.dumps(body).encode() if body else b"", key, deadline=deadline)
        text = without(answer.body.decode("utf-8", "replace"), secrets)
        said = f"`{method} {one_line(path)}` was answered with {answer.status}"
        # A 503 that says when to come back was put off by the server itself; without that it may be the word
        # of something on the way, whose server has had the request.
        if answer.status == TOO_MANY or (answer.status == UNAVAILABLE and answer.retry_after):
            wait_s = self._wait_s(answer.retry_after)
            with self._lock:
                self._quiet_until = max(self._quiet_until, time.monotonic() + wait_s)
            raise CloudError(f"{said}: it asks for {wait_s:.0f} s of patience", sent=False)
        if answer.status in (404, 410):
            raise CloudError(f"{said}: {_gist(text)}", gone=True, refused=True)
        if not 200 <= answer.status < 300:
            unclear = answer.status >= 500 or answer.status < 200
            refused = not unclear and answer.status not in TOO_SLOW
            raise CloudError(f"{said}: {_gist(text)}", unclear=unclear, refused=refused)
        page = answer.kind in ("text/html", "application/xhtml+xml")
        if page or (not any_text and answer.kind and not answer.kind.endswith("json")):
            # A proxy that asks people to log in says "good" as well.
            raise CloudError(f"{said} and {one_line(answer.kind)}: {_gist(text)}", unclear=True)
        return text

    def _be_patient(self) -> None:
        with self._lock:
            left_s = self._quiet_until - time.monotonic()
        if left_s > 0:
            raise LaterError(f"the cloud asked for patience, for {left_s:.0f} s more", sent=False)

    def _wait_s(self, said: str) -> float:
        try:
            wait_s = float(said)
        except ValueError:
            try:
                wait_s = parsedate_to_datetime(said).timestamp() - self._wall()
            except (ValueError, OverflowError):
                wait_s = WAIT_S_USUAL
        return min(WAIT_S_MAX, max(0.0, wait_s)) if wait_s == wait_s else WAIT_S_USUAL

    def _sent(self, method: str, path: str, content: bytes, key: str, *, deadline: float) -> Answer:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise CloudError("there was no time left to ask the cloud", sent=False)
        headers = {"Accept": "application/json, */*", "User-Agent": AGENT, "Connection": "close"}
        headers |= {
            name: filled(value, {"key": key} if key else {}) for name, value in self._settings.headers.items()
        }
        if content:
            headers["Content-Type"] = "application/json"
        connection = self._connected(min(left_s, CONNECT_S_MAX))
        # Closed at the deadline, whatever it is doing: a server can send one letter at a time for ever.
        ender = threading.Timer(max(0.0, deadline - time.monotonic()), _shut, (connection,))
        ender.daemon = True
        ender.start()
        try:
            if connection.sock is not None:
                connection.sock.settimeout(left_s)
            connection.request(method, self._at.path.rstrip("/") + path, content or None, headers)
            return _read(connection.getresponse(), deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = "no answer in time" if time.monotonic() >= deadline else _why(error)
            raise CloudError(f"`{method} {one_line(path)}`: {late}", unclear=True) from None
        finally:
            ender.cancel()
            connection.close()

    def _connected(self, limit_s: float) -> http.client.HTTPConnection:
        host, port = self._at.hostname or "", self._at.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=limit_s, context=self._context())
            if self._at.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=limit_s)
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise CloudError(
                f"{self._base} is not who it should be: {error.verify_message}; look at `url` and `ca_file`",
                sent=False,
            ) from None
        except (OSError, UnicodeError) as error:
            raise CloudError(f"{self._base} cannot be reached: {_why(error)}", sent=False) from None
        return connection

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._trusted is None:
                try:
                    self._trusted = ssl.create_default_context(cafile=self._settings.ca_file or None)
                except (OSError, ssl.SSLError) as error:
                    raise CloudError(f"`ca_file` cannot be used: {_why(error)}", sent=False) from None
                self._trusted.minimum_version = ssl.TLSVersion.TLSv1_2
            return self._trusted


def _template(endpoint: EndpointSettings, *, gpus: bool) -> dict[str, Any]:
    return {**endpoint.body, **(endpoint.body_gpus if gpus else {})}


def _shut(connection: http.client.HTTPConnection) -> None:
    if (open_one := connection.sock) is not None:
        with suppress(OSError):
            open_one.shutdown(socket.SHUT_RDWR)


def _read(response: http.client.HTTPResponse, deadline: float) -> Answer:
    parts, size = [], 0
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise ValueError(f"more than {ANSWER_BYTES_MAX >> 20} MiB are answered")
        if time.monotonic() >= deadline:
            raise TimeoutError("the answer did not end in time")
    if response.length:
        raise ValueError("it ended before it was whole")
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    packed = response.headers.get("Content-Encoding", "identity").strip().lower()
    if packed != "identity":
        raise ValueError(f"it is packed by `{one_line(packed)}`, which was not asked for")
    return Answer(response.status, kind, b"".join(parts), response.headers.get("Retry-After", ""))


def _gist(text: str) -> str:
    return one_line(" ".join(text.split())) or "nothing"


def _why(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return one_line(said or str(error) or type(error).__name__)
