"""Addresses of servers, as settings have them: a text comes in, the same text goes out if it is safe to call.

What is read or sent there decides who may do what, so it goes over `https`, or stays on this machine.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def checked_url(url: str, *, example: str, why: str) -> str:
    """Raises ValueError, with an example of what is meant or with why `http` does not do."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"must be an address such as `{example}`") from None
    odd = parts.username is not None or parts.query or parts.fragment or not url.isprintable() or " " in url
    if parts.scheme not in ("http", "https") or not parts.hostname or odd:
        raise ValueError(f"must be an address such as `{example}`")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise ValueError(f"must begin with `https://`: {why}")
    return url


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
