"""Requests that go straight to where they were sent, with a token that nobody else could read.

No redirect is followed: one could carry the token elsewhere, or let somebody else answer.
"""

from __future__ import annotations

import re
import ssl
import stat
import urllib.request
from pathlib import Path
from typing import Any

TOKEN_BYTES_MAX = 16_384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class _Straight(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def straight_opener(ca_file: str = "") -> urllib.request.OpenerDirector:
    """Servers are checked by the certificates in the file, or by the system's."""
    context = ssl.create_default_context(cafile=ca_file or None)
    return urllib.request.build_opener(_Straight(), urllib.request.HTTPSHandler(context=context))


def read_token(path: Path, *, of: str = "a site") -> str:
    """The token in the file; raises PermissionError where others could read it, too."""
    text = read_secret(path, what="token").decode("ascii", "replace").strip()
    if len(text) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(text):
        raise ValueError(f"`{path}` does not hold a token of {of}")
    return text


def read_secret(path: Path, *, what: str) -> bytes:
    """What is in a file that nobody else can read; raises PermissionError where somebody could."""
    about = path.stat()
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise PermissionError(f"`{path}` can be read by others; `chmod 600` it and get a new {what}")
    with path.open("rb") as file:
        return file.read(TOKEN_BYTES_MAX + 1)
