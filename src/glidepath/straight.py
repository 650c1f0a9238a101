"""Requests that go straight to where they were sent: no redirect is followed.

One could carry a token elsewhere, or let somebody else answer.
"""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any


class _Straight(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def straight_opener(ca_file: str = "") -> urllib.request.OpenerDirector:
    """Servers are checked by the certificates in the file, or by the system's."""
    context = ssl.create_default_context(cafile=ca_file or None)
    return urllib.request.build_opener(_Straight(), urllib.request.HTTPSHandler(context=context))
