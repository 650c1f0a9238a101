"""Where webhooks may be: an address as somebody wrote it comes in, a checked target or a sentence goes out.

Whoever names an address has this machine call it, which reaches what they may not. So a name is resolved once
for each call, every address that it has is checked, and one of those is connected to: nothing between the
check and the call can send it elsewhere.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any
from urllib.parse import SplitResult, urlsplit

from glidepath.config.address import host_name
from glidepath.config.notices import NoticesSettings
from glidepath.core.text import one_line

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
URL_LETTERS_MAX = 1000
ADDRESSES_MAX = 20
FORM = "write an address such as `https://hooks.example.org/jobs`"
PORTS = (80, 443)
PORTS_FROM = 1024
# Public by its number, and all the same what only machines of one cloud reach: its own word to them.
_OF_CLOUDS = frozenset({ipaddress.ip_address("168.63.129.16")})
# Reserved by IANA, and not to all versions of Python.
_RESERVED = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "2001::/23", "3fff::/20", "5f00::/16"),
        *("64:ff9b:1::/48", "100::/64"),
    )
)
_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
# Addresses of version 6 that carry one of version 4, and after how many bits.
_CARRYING = (
    (IPv6Network("::ffff:0:0/96"), 96),
    (IPv6Network("::ffff:0:0:0/96"), 96),
    (IPv6Network("::/96"), 96),
    (IPv6Network("64:ff9b::/96"), 96),
    (IPv6Network("2002::/16"), 16),
)
_TEREDO = IPv6Network("2001::/32")

Resolve = Callable[..., list[Any]]


class NotThere(ValueError):
    """No webhook may be there; the sentence says why."""


class NotFound(OSError):
    """Its name has no address now."""


@dataclass(frozen=True, slots=True)
class Target:
    """One webhook; `shown` says whose it is without what may be secret in it."""

    https: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def authority(self) -> str:
        """For the header `Host`."""
        usual = 443 if self.https else 80
        return self._host if self.port == usual else self.shown

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def target_of(url: str) -> Target:
    """A webhook as it is spelled; a `NotThere` where it could be read in two ways."""
    parts, port = _parts(url)
    if parts.scheme not in ("http", "https"):
        raise NotThere(f"a webhook begins with `https://`; {FORM}")
    if "@" in parts.netloc:
        raise NotThere("an address of a webhook must not hold a user or a password")
    if not _NETLOC.fullmatch(parts.netloc):
        raise NotThere(f"`{one_line(url)}` is no address; {FORM}")
    if parts.fragment or "#" in url:
        raise NotThere("an address of a webhook ends before `#`")
    host = parts.hostname or ""
    if literal_of(host) is None and not host_name(host):
        raise NotThere(f"`{one_line(host)}` is no name of a machine, and no IP address in its usual form")
    https = parts.scheme == "https"
    port = port if port is not None else (443 if https else 80)
    if port not in PORTS and port < PORTS_FROM:
        raise NotThere(f"a webhook listens at the port 80, 443 or one from {PORTS_FROM} on, not at {port}")
    query = f"?{parts.query}" if parts.query else ""
    return Target(https, host, port, f"{parts.path or '/'}{query}")


def _parts(url: str) -> tuple[SplitResult, int | None]:
    if len(url) > URL_LETTERS_MAX:
        raise NotThere(f"an address of a webhook has at most {URL_LETTERS_MAX} letters")
    # What `urlsplit` takes off or leaves as it is, others read otherwise.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise NotThere(f"an address of a webhook is of plain letters without spaces; {FORM}")
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        raise NotThere(f"`{one_line(url)}` is no address; {FORM}") from None


def literal_of(host: str) -> Address | None:
    """Four decimal numbers, or version 6 without a zone; no other form that some resolver understands."""
    try:
        return None if "%" in host else ipaddress.ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Reach:
    """Which addresses may be called: public ones but for the closed, and private ones that are stated."""

    stated: tuple[Network, ...] = ()
    closed: tuple[Network, ...] = ()

    def within(self, address: Address) -> bool:
        """Whether it is in a network that the operator has stated."""
        return all(_in(one, self.stated) for one in _meanings(address))

    def refuses(self, address: Address) -> bool:
        """All that it may come to must be fine, whichever machine on the way understands it."""
        return any(
            not _in(one, self.stated) and (_in(one, self.closed) or not _public(one))
            for one in _meanings(address)
        )


def reach_of(settings: NoticesSettings) -> Reach:
    stated, closed = (
        tuple(ipaddress.ip_network(text) for text in texts) for texts in (settings.networks, settings.closed)
    )
    return Reach(stated, closed)


def _in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _meanings(address: Address) -> Iterator[Address]:
    """The address, or the one of version 4 that it carries."""
    if isinstance(address, IPv6Address):
        for network, bits in _CARRYING:
            if address in network and not address.is_loopback:
                yield IPv4Address((int(address) >> (96 - bits)) & 0xFFFFFFFF if bits < 96 else _low(address))
                return
        if address in _TEREDO:
            yield IPv4Address(~_low(address) & 0xFFFFFFFF)
    yield address


def _low(address: IPv6Address) -> int:
    return int(address) & 0xFFFFFFFF


def _public(address: Address) -> bool:
    odd = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )
    return address.is_global and not odd and address not in _OF_CLOUDS and not _in(address, _RESERVED)


def addresses_of(
    target: Target, reach: Reach, *, resolve: Resolve = socket.getaddrinfo
) -> tuple[Address, ...]:
    """Where it is now, all of it checked: a `NotThere` where one may not be called, a `NotFound` for none."""
    literal = literal_of(target.host)
    found = (literal,) if literal is not None else _resolved(target, resolve)
    if any(reach.refuses(address) for address in found):
        raise NotThere(
            f"`{target.host}` is at a private or reserved address, and no webhook may be there; an operator "
            "can allow a network with `networks` in `[notices]`"
        )
    if not target.https and not all(reach.within(address) for address in found):
        raise NotThere("a webhook begins with `https://`: whoever is on the way could read it")
    return found


def _resolved(target: Target, resolve: Resolve) -> tuple[Address, ...]:
    try:
        rows = resolve(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise NotFound(f"`{target.host}` has no address: {one_line(why)}") from None
    texts = dict.fromkeys(str(row[4][0]) for row in rows[:ADDRESSES_MAX])
    # An address with a zone is of this machine's own cable, whatever its number.
    found = tuple(literal_of(text) or IPv6Address("fe80::") for text in texts)
    if not found:
        raise NotFound(f"`{target.host}` has no address")
    return found
