"""What is left of the bed: processes, mounts, addresses, devices, control groups, run folders, one line each.

It only looks. A process counts when its command, its folder or its environment names a folder of the bed;
those that asked for the look, this program and its parents, do not.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import os
import re
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bed.place import Place

# In the environment of everything that the bed starts, with the folder of its instance.
MARK = "GLIDEPATH_BED_INSTANCE"
# Every address that the bed adds to an interface carries a label that begins so; nobody else's does.
ADDRESS_LABEL = "lo:gp"
# Devices and control groups of an instance are named by `tag`, which begins so.
TAG = "gp"
TAG_LETTERS = 6
CONTROL_GROUPS = Path("/sys/fs/cgroup")
PARENTS_MAX = 100
SHOWN_LETTERS_MAX = 120
SIOCGIFCONF = 0x8912
# One record of that call on 64-bit Linux: 16 letters of name, then an address in 24 bytes.
RECORD_BYTES = 40
RECORDS_MAX = 256


@dataclass(frozen=True)
class Left:
    """One thing that is left."""

    kind: str
    what: str
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.pid}: {self.what}" if self.pid else f"{self.kind}: {self.what}"


def left(place: Place, *, meant: Iterable[Path] = ()) -> list[Left]:
    """Everything of the bed in this place; `meant` are the folders of instances that are to be up."""
    meant = tuple(meant)
    ours = {pid for folder in meant for pid in marked(folder)}
    found = [one for one in naming(f"{place.run}/") if one.pid not in ours]
    folders = [Left("run folder", str(path)) for path in sorted(place.run.glob("*")) if path not in meant]
    tagged = [*devices(place, meant), *control_groups(place, meant)]
    return [*found, *mounts(place), *addresses(), *tagged, *folders]


def naming(folder: str) -> list[Left]:
    """Every process that names this folder or one below it, besides this process and its parents."""
    # A folder that only begins alike is not meant: after the name it must end or go below.
    wanted = re.compile(re.escape(folder.encode()) + (b"" if folder.endswith("/") else rb"(?![\w.@-])"))
    spared = parents()
    return [
        Left("process", command_of(pid), pid)
        for pid in sorted(set(every_pid()) - spared)
        if any(wanted.search(text) for text in texts_of(pid))
    ]


def marked(folder: Path) -> list[int]:
    """The processes that the bed itself started for this instance."""
    wanted = f"{MARK}={folder}".encode()
    return [pid for pid in every_pid() if wanted in read(pid, "environ").split(b"\0")]


def mounts(place: Place) -> list[Left]:
    """Mounts of this machine below the folders of the bed; the bed's own are private and never seen here."""
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    points = [line.split()[4] for line in lines]
    roots = (f"{place.run}/", f"{place.cache}/")
    return [Left("mount", point) for point in points if f"{point}/".startswith(roots)]


def addresses() -> list[Left]:
    """Addresses with a label of the bed, by the one call that tells labels without another program."""
    space = array.array("B", bytes(RECORD_BYTES * RECORDS_MAX))
    asked = struct.pack("iP", len(space), space.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        length = struct.unpack("iP", fcntl.ioctl(any_socket.fileno(), SIOCGIFCONF, asked))[0]
    found = []
    for offset in range(0, length, RECORD_BYTES):
        record = space[offset : offset + RECORD_BYTES].tobytes()
        label = record[:16].split(b"\0", 1)[0].decode(errors="replace")
        if label.startswith(ADDRESS_LABEL):
            found.append(Left("address", f"{socket.inet_ntoa(record[20:24])} ({label})"))
    return found


def tag(folder: Path) -> str:
    """The name of an instance where the kernel keeps names short; the first half is its run folder's."""
    halves = (hashlib.sha256(text.encode()).hexdigest() for text in (str(folder.parent), folder.name))
    return TAG + "".join(half[:TAG_LETTERS] for half in halves)


def of_place(names: Iterable[str], place: Place, meant: Iterable[Path]) -> list[str]:
    """Those names that are tags of instances in this place, besides the ones that are to be up."""
    start = tag(place.run / "any")[:-TAG_LETTERS]
    spared = {tag(folder) for folder in meant}
    return sorted(name for name in names if name.startswith(start) and name not in spared)


def devices(place: Place, meant: Iterable[Path] = ()) -> list[Left]:
    names = (name for _, name in socket.if_nameindex())
    return [Left("network device", name) for name in of_place(names, place, meant)]


def control_groups(place: Place, meant: Iterable[Path] = ()) -> list[Left]:
    paths = {str(path): path.name for path in CONTROL_GROUPS.glob(f"*/{TAG}*")}
    found = set(of_place(paths.values(), place, meant))
    return [Left("control group", path) for path, name in sorted(paths.items()) if name in found]


def every_pid() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def texts_of(pid: int) -> tuple[bytes, bytes, bytes]:
    try:
        folder = f"{Path(f'/proc/{pid}/cwd').readlink()}/".encode()
    except OSError:
        folder = b""
    return read(pid, "cmdline"), read(pid, "environ"), folder


def command_of(pid: int) -> str:
    text = " ".join(read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[:SHOWN_LETTERS_MAX] or "(no command)"


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # It has ended, or it is somebody else's and cannot be ours.


def parent_of(pid: int) -> int:
    """The parent's number; 0 where there is none."""
    # The name in brackets may hold anything, brackets and spaces included.
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def parents() -> set[int]:
    """This process and those above it."""
    found = {os.getpid()}
    pid = os.getpid()
    for _ in range(PARENTS_MAX):
        pid = parent_of(pid)
        if pid <= 1:
            break
        found.add(pid)
    return found
