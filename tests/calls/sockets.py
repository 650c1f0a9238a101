"""The sockets of one process, as the kernel lists them: what it listens on, and what it has open at all."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LISTENS = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
ACCEPTS = 1 << 16  # of a socket in the file system


def opened(pid: int) -> list[str]:
    """Its sockets of the internet, listening or not."""
    return [f"{kind} {place}" for kind, place, _, inode in _inet(pid) if inode in _inodes(pid)]


def listening(pid: int) -> list[str]:
    """Where others can begin to talk to it: by TCP, by UDP, or by a name in the file system."""
    own = _inodes(pid)
    rows = [f"{kind} {place}" for kind, place, state, i in _inet(pid) if i in own and state == LISTENS[kind]]
    for line in _lines(pid, "unix"):
        words = line.split()
        if int(words[3], 16) & ACCEPTS and words[6] in own:
            rows.append(f"unix {' '.join(words[7:])}")
    return rows


def _inet(pid: int) -> Iterator[tuple[str, str, str, str]]:
    for kind in LISTENS:
        for line in _lines(pid, kind):
            words = line.split()
            yield kind, _shown(words[1]), words[3], words[9]


def _lines(pid: int, kind: str) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
    return []


def _inodes(pid: int) -> set[str]:
    found = set()
    with suppress(FileNotFoundError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if match := re.fullmatch(r"socket:\[(\d+)\]", str(path.readlink())):
                    found.add(match[1])
    return found


def _shown(place: str) -> str:
    """The kernel writes an address as words of the machine's own order."""
    address, port = place.split(":")
    if len(address) == 8:
        address = socket.inet_ntoa(struct.pack("=I", int(address, 16)))
    return f"{address}:{int(port, 16)}"
