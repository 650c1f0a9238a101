"""Addresses of servers, as settings have them: a text comes in, the same text goes out if it is safe to call.

What is read or sent there decides who may do what, so it goes over `https`, or stays on this machine.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MAILBOX = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
MAILBOX_LETTERS_MAX = 64
HOST_LETTERS_MAX = 253


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
    if parts.scheme == "http" and not loopback(parts.hostname):
        raise ValueError(f"must begin with `https://`: {why}")
    return url


def loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(host: str) -> bool:
    """Whether it is spelled as the name of a machine, and cannot be read as a number by anybody."""
    labels = host.split(".")
    spelled = len(host) <= HOST_LETTERS_MAX and all(HOST_LABEL.fullmatch(label) for label in labels)
    return spelled and not labels[-1][:1].isdigit()


def checked_mail(text: str) -> str:
    """An address of one person as plain as it comes: no names, quotes, comments or lists."""
    mailbox, at, domain = text.rpartition("@")
    plain = at and len(mailbox) <= MAILBOX_LETTERS_MAX and _MAILBOX.fullmatch(mailbox)
    if not plain or not host_name(domain):
        raise ValueError("must be an address such as `ada@example.org`")
    return text
