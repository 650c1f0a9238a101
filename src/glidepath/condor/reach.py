"""Why a collector cannot be reached: its address comes in, what was tried and what to do about it goes out.

HTCondor's binding says no more than that it failed. A child tries the name and the port by itself, with
`tried`; whoever asked it makes sentences of that, with `told`. It refuses to know what a collector says.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from glidepath.core.text import one_line

PORT = 9618
CONNECT_S = 3.0
# What the binding says of a collector that it could not talk to, whatever the reason.
BINDING_SAYS = "Failed communication with collector"
HOSTS = Path("/etc/hosts")
CONFIGS = (Path("/etc/condor/condor_config"), Path("/etc/condor/config.d"))
FILES_MAX = 50
FILE_BYTES_MAX = 64 * 1024
# Nearer than for words of our own: a wrong guess sends somebody to another pool.
CUTOFF = 0.8
_NAMED = re.compile(r"^\s*(?:CONDOR_HOST|COLLECTOR_HOST)\s*=\s*([^\s#$]+)\s*$", re.MULTILINE | re.IGNORECASE)

Row = Sequence[str]


def places(collector: str) -> list[tuple[str, str]]:
    """Host and port of each, as they stand in the settings; the port is that of HTCondor where none does."""
    found = []
    for each in collector.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or (":" in host and not host.endswith("]")):
            host, port = each.strip(), str(PORT)
        found.append((host.strip("[]"), port))
    return found


def shown(collector: str) -> str:
    return " and ".join(f"`{one_line(host)}:{one_line(port)}`" for host, port in places(collector))


def tried(collector: str) -> list[tuple[str, str, str]]:
    """Host, port and what came of a connection to it: `unknown`, `refused`, `silent`, `open` or words."""
    return [(host, port, _tried(host, port)) for host, port in places(collector)]


def _tried(host: str, port: str) -> str:
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return "its port is no number of a port"
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S):
            return "open"
    except socket.gaierror:
        return "unknown"
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silent"
    except (OSError, UnicodeError) as error:
        return one_line(getattr(error, "strerror", None) or str(error))


def told(rows: Iterable[Row], known: Iterable[str]) -> tuple[str, str]:
    """What was found, and what to do; empty where nothing was tried."""
    names = tuple(known)
    pairs = [_told(host, port, how, names) for host, port, how in rows]
    fixes = dict.fromkeys(fix for _, fix in pairs if fix)
    return "; ".join(found for found, _ in pairs), "; ".join(fixes)


def _told(host: str, port: str, how: str, known: Sequence[str]) -> tuple[str, str]:
    at = f"`{one_line(host)}:{one_line(port)}`"
    match how:
        case "unknown":
            return (
                f"{at}: no machine of that name is known here",
                near(host, known) or "is the name misspelt, or missing from this machine's name service?",
            )
        case "refused":
            usual = "" if port == str(PORT) else f"; a collector's usual port is {PORT}"
            return f"{at} refuses connections{usual}", "is the collector up, on this address and port?"
        case "silent":
            return (
                f"{at} takes no connection within {CONNECT_S:g} s",
                "look for a firewall on the way, or for a machine that is down",
            )
        case "open":
            return (
                f"{at} takes connections and does not answer us",
                "is it a collector, is it stuck, does it let us read (its `ALLOW_READ`, our `token_folder`)?",
            )
        case _:
            return f"{at}: {one_line(how)}", "see that this machine can reach it"


def near(host: str, known: Iterable[str]) -> str:
    """A question with the known name that is nearest, by far; empty where none is."""
    names = sorted({name for name in known if name != host and not name.startswith(("localhost", "ip6-"))})
    found = get_close_matches(host[:255], names, n=1, cutoff=CUTOFF)
    return f"did you mean `{one_line(found[0])}`?" if found else ""


def known_names(*, hosts: Path = HOSTS, configs: Sequence[Path] = CONFIGS) -> tuple[str, ...]:
    """Names of machines that somebody wrote down here: in /etc/hosts, and in HTCondor's own configuration."""
    found = [
        word for line in _read(hosts).splitlines() for word in line.partition("#")[0].split()[1:] if word
    ]
    for path in configs:
        for file in _files(path):
            found += [host for text in _NAMED.findall(_read(file)) for host, _ in places(text)]
    return tuple(dict.fromkeys(name for name in found if name.isprintable()))


def _files(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())[:FILES_MAX] if path.is_dir() else [path]
    except OSError:
        return []


def _read(path: Path) -> str:
    """Some of a file, or nothing: a guess that cannot be made is no trouble."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
