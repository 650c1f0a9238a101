"""Where the keys of a provider are read: from a file, from an address, or from where the issuer says.

Each reading is bounded in bytes. Redirects are not followed: who may say who people are stands in the
settings, and nobody on the way adds to it.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path

from glidepath.config.address import checked_url
from glidepath.config.oidc import OidcSettings
from glidepath.core.text import one_line
from glidepath.people.keyset import OddKeys, json_object
from glidepath.straight import straight_opener

DOCUMENT_BYTES_MAX = 1 << 20
# Between two bytes; whoever waits for the keys has a bound of their own for the whole.
SILENT_S_MAX = 10.0
DISCOVERY = "/.well-known/openid-configuration"


class NotRead(OSError):
    """The keys could not be read; the sentence says where, and what came back."""


def key_source(settings: OidcSettings) -> Callable[[], bytes]:
    """What reads the text of the JWKS; raises `NotRead`."""
    if not settings.keys:
        return partial(_discovered, settings)
    if "://" in settings.keys:
        return partial(_fetched, settings.keys, settings.ca_file)
    return partial(_file, Path(settings.keys))


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise NotRead(f"`{one_line(str(path))}`: {error.strerror or error}") from None
    return _short(str(path), text)


def _discovered(settings: OidcSettings) -> bytes:
    url = settings.issuer.rstrip("/") + DISCOVERY
    try:
        said = json_object(_fetched(url, settings.ca_file))
    except OddKeys as error:
        raise NotRead(f"`{url}`: {error}") from None
    if said.get("issuer") != settings.issuer:
        raise NotRead(f"`{url}` is of another issuer, `{one_line(str(said.get('issuer')))}`")
    try:
        keys = checked_url(
            str(said.get("jwks_uri")), example="https://...", why="nobody else may say the keys"
        )
    except ValueError as error:
        raise NotRead(f"`{url}`: its `jwks_uri` {error}") from None
    return _fetched(keys, settings.ca_file)


def _fetched(url: str, ca_file: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "glidepath"})
    try:
        with straight_opener(ca_file).open(request, timeout=SILENT_S_MAX) as answer:
            if answer.status != 200:
                raise NotRead(f"`{url}` answers HTTP {answer.status}")
            text = answer.read(DOCUMENT_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise NotRead(f"`{url}` answers HTTP {error.code}") from None
    except NotRead:
        raise
    except (OSError, HTTPException, ssl.SSLError, ValueError) as error:
        why = one_line(str(getattr(error, "reason", error)) or type(error).__name__)
        raise NotRead(f"`{url}` does not answer: {why}") from None
    return _short(url, text)


def _short(where: str, text: bytes) -> bytes:
    if len(text) > DOCUMENT_BYTES_MAX:
        raise NotRead(f"`{one_line(where)}` is longer than {DOCUMENT_BYTES_MAX} bytes")
    return text
