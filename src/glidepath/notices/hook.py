"""Webhooks: a letter is signed and posted to a checked address, and what came back is one of a few things.

Signed as the Standard Webhooks specification has it, so that receivers find a library that checks it. No
redirect is followed, no proxy is asked, and of the answer only its first line and headers are read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from glidepath.core.text import one_line
from glidepath.notices.address import Address, NotFound, NotThere, Reach, Resolve, Target, addresses_of
from glidepath.notices.sending import (
    LETTER_S_MAX,
    SILENT_S_MAX,
    WHY_LETTERS_MAX,
    Fault,
    Sent,
    Undone,
    bounded,
)

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
GONE = 410


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    mark = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mark).decode('ascii')}"


class _Connection(HTTPConnection):
    """To an address that was checked, whatever the name means by now."""

    def __init__(self, target: Target, address: Address, context: ssl.SSLContext | None) -> None:
        super().__init__(target.host, target.port, timeout=SILENT_S_MAX)
        self._address, self._context = address, context

    def connect(self) -> None:
        self.sock = socket.create_connection((str(self._address), self.port), self.timeout)
        if self._context is not None:
            # The name is what the certificate must be of; the handshake is bounded like the rest.
            self.sock = self._context.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()


@dataclass(frozen=True)
class Hooks:
    """The way out to webhooks; for any thread."""

    reach: Reach
    wall: Callable[[], float]
    ca_file: str = ""
    resolve: Resolve = socket.getaddrinfo
    limit_s: float = LETTER_S_MAX

    def post(self, target: Target, secret: str, id: str, body: bytes) -> Sent:
        try:
            addresses = addresses_of(target, self.reach, resolve=self.resolve)
            context = ssl.create_default_context(cafile=self.ca_file or None) if target.https else None
        except (NotThere, NotFound) as error:
            return Undone(str(error))
        except OSError as error:
            return Undone(f"the certificates of `ca_file` cannot be read: {error}", Fault.OURS)
        timestamp = int(self.wall())
        headers = {
            "Host": target.authority,
            "Content-Type": "application/json",
            "User-Agent": "glidepath",
            "Connection": "close",
            "Webhook-Id": id,
            "Webhook-Timestamp": str(timestamp),
            "Webhook-Signature": signature(secret, id, timestamp, body),
        }
        # One of them: after a lost answer another could take the same letter again.
        connection = _Connection(target, addresses[0], context)
        with bounded(lambda: connection.sock, self.limit_s) as over:
            try:
                return _answer(connection, target, body, headers)
            except (OSError, HTTPException, ValueError) as error:
                if over.is_set():
                    return Undone(f"`{target.shown}` gave no answer in {self.limit_s:g} s")
                why = one_line(str(error) or type(error).__name__, letters_max=WHY_LETTERS_MAX)
                return Undone(f"`{target.shown}` does not answer: {why}")
            finally:
                connection.close()


def _answer(connection: HTTPConnection, target: Target, body: bytes, headers: dict[str, Any]) -> Sent:
    connection.request("POST", target.path, body, headers)
    status = connection.getresponse().status
    if 200 <= status < 300:
        return None
    if status == GONE:
        return Undone(f"`{target.shown}` answers HTTP 410, which asks for no more", Fault.GONE)
    more = ", and redirects are not followed" if 300 <= status < 400 else ""
    return Undone(f"`{target.shown}` answers HTTP {status}{more}")
