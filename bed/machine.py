"""What this machine is: who runs the bed, which system, which tools, where packages come from.

Files of the machine come in, one frozen value goes out, and parts decide from that value whether they can be
hosted. Nothing is installed or changed here.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bed.command import namespaces, run
from bed.trouble import Trouble

TOOLS = (
    "apt-get",
    "debootstrap",
    "dpkg-deb",
    "go",
    "initdb",
    "ip",
    "nsenter",
    "openssl",
    "pivot_root",
    "setpriv",
    "unshare",
)
# Creating two namespaces takes milliseconds; a machine that hangs here cannot host anyway.
TRY_S_MAX = 10
# Places that both debootstrap and apt can read.
SCHEMES = ("http://", "https://", "ftp://", "file:/")
# Tools of the administrator are often not in the path of an ordinary user.
ADMIN_PATH = "/usr/sbin:/sbin"


@dataclass(frozen=True)
class Machine:
    """The facts from which parts decide; made by hand in tests."""

    uid: int
    system: str
    codename: str
    architecture: str
    tools: frozenset[str]
    namespaces: bool
    mirror: str
    go: tuple[int, ...] = ()
    control_groups: frozenset[str] = frozenset()

    @classmethod
    def here(cls) -> Machine:
        release = os_release(Path("/etc/os-release"))
        path = f"{os.environ.get('PATH', '')}:{ADMIN_PATH}"
        tools = frozenset(tool for tool in TOOLS if shutil.which(tool, path=path))
        codename = release.get("VERSION_CODENAME", "")
        return cls(
            uid=os.geteuid(),
            system=release.get("ID", "unknown"),
            codename=codename,
            architecture=platform.machine(),
            tools=tools,
            namespaces="unshare" in tools and namespaces_allowed(),
            mirror=mirror_of(apt_sources(Path("/etc/apt")), codename),
            go=go_version() if "go" in tools else (),
            control_groups=frozenset(
                path.name for path in Path("/sys/fs/cgroup").glob("*") if writable_group(path)
            ),
        )


def namespaces_allowed() -> bool:
    """Whether private mount and PID namespaces can be made; containers often forbid it even to root."""
    try:
        return run(namespaces("true"), limit_s=TRY_S_MAX).code == 0
    except (OSError, Trouble):
        return False


def go_version() -> tuple[int, ...]:
    """The numbers of the machine's Go; nothing where it does not tell them."""
    try:
        shown = run(["go", "env", "GOVERSION"], limit_s=TRY_S_MAX).out
    except (OSError, Trouble):
        return ()
    found = re.match(r"go(\d+)\.(\d+)", shown)
    return tuple(int(number) for number in found.groups()) if found else ()


def writable_group(path: Path) -> bool:
    """Whether this is a hierarchy of control groups of its own in which groups can be made."""
    return (
        (path / "cgroup.procs").is_file() and (path / "release_agent").is_file() and os.access(path, os.W_OK)
    )


def os_release(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}


def apt_sources(folder: Path) -> list[tuple[str, str]]:
    """The (format, text) of every source file of apt, in apt's own order."""
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    found = []
    for path in files:
        if path.suffix in (".list", ".sources") and path.is_file():
            found.append((path.suffix, path.read_text(encoding="utf-8", errors="replace")))
    return found


def mirror_of(sources: Iterable[tuple[str, str]], codename: str) -> str:
    """The first place that has the machine's own main archive, or nothing.

    The suite must be the machine's own: a vendor's archive beside it has no Debian in it.
    """
    for ending, text in sources:
        entries = deb822_entries(text) if ending == ".sources" else one_line_entries(text)
        for uris, suites in entries:
            usable = [uri for uri in uris if uri.startswith(SCHEMES)]
            if codename and codename in suites and usable:
                return usable[0].rstrip("/")
    return ""


def deb822_entries(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """URIs and suites of each enabled stanza; comment lines may stand in the middle of one."""
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", bare):
        folded = re.sub(r"\n[ \t]+", " ", stanza)
        pairs = (line.split(":", 1) for line in folded.splitlines() if ":" in line)
        fields = {name.strip().lower(): value.split() for name, value in pairs}
        if "deb" in fields.get("types", []) and fields.get("enabled") != ["no"]:
            yield fields.get("uris", []), fields.get("suites", [])


def one_line_entries(text: str) -> Iterator[tuple[list[str], list[str]]]:
    for line in text.splitlines():
        words = re.sub(r"\[[^]]*\]", " ", line.split("#", 1)[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            yield [words[1]], [words[2]]
