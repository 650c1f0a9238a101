"""Whether pilots of each site can come to their pools: settings come in, warnings for `doctor` go out.

That a pool answers here proves nothing for pilots elsewhere: what is only of this machine, they do not reach.
Nothing is asked but names, and those within a deadline.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from glidepath.config import Settings
from glidepath.core.text import one_line
from glidepath.ports import Finding

NAMES_S_MAX = 5.0
HERE = "local"  # the kind of a site whose pilots run on this machine
IN_POD = "KUBERNETES_SERVICE_HOST"  # every pod has it
FIX = "write an address of the collector that they reach, and let the collector listen on it"

Addresses = Callable[[str], tuple[str, ...]]


def unreached(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, site in sorted(settings.sites.items()):
        if site.kind == HERE:
            continue
        for pool in site.pools or sorted(settings.pools):
            table = settings.pools[pool]
            said = table.own.get("collector")
            if not isinstance(said, str):
                if table.kind == "embedded":
                    found = "it is on this machine only, and pilots of this site run elsewhere"
                    fix = "name pools of HTCondor in `pools` of the site"
                    yield Finding(f"site {name}: pool {pool}", "fail", found, fix)
                continue
            for host in said.split(","):
                why = only_here(host.strip(), in_pod=IN_POD in environ)
                if why:
                    found = f"`{one_line(host.strip())}` {why}; pilots of this site run elsewhere"
                    yield Finding(f"site {name}: pool {pool}", "warn", found, FIX)


def only_here(host: str, *, in_pod: bool, addresses: Addresses | None = None) -> str:
    """Why others do not reach it, as far as that can be seen from here; nothing where they may."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host
    name = name.partition(":")[0] if name.count(":") == 1 else name
    try:
        return _of_this_machine(name)
    except ValueError:
        pass
    if name.lower().rstrip(".") == "localhost" or name.lower().endswith(".localhost"):
        return "is this machine itself"
    found = (addresses or addresses_of)(name)
    if found and all(_of_this_machine(each) for each in found):
        return f"is {found[0]} here, which is this machine itself"
    if "." not in name.rstrip(".") and not in_pod:
        return "has no domain, so that elsewhere it is another name or none"
    return ""


def _of_this_machine(address: str) -> str:
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.is_loopback or found.is_unspecified:
        return "is this machine itself"
    return "is known on one cable only" if found.is_link_local else ""


def addresses_of(name: str) -> tuple[str, ...]:
    """None where the name is not known, or not in time: the pool's own check says so."""
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(str(row[4][0]) for row in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(NAMES_S_MAX)
    return tuple(found)
