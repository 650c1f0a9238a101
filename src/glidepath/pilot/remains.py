"""What a pilot leaves behind on this machine: whether its process lives, and the processes of its jobs.

Names and numbers come in, the kernel is asked, facts go out. Standard library only, like all of the pilot.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import stat
import time
from pathlib import Path

ENVIRON_BYTES_MAX = 4 * 1024 * 1024
SWEEP_ROUNDS_MAX = 20
SWEEP_PAUSE_S = 0.02
TAIL_BYTES_MAX = 16 * 1024 * 1024


def machine() -> str:
    """This machine since its last start: a number of a process means something only here and until then."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {boot_id}"


def started(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; None when it is gone or only its body is left."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = facts.rsplit(b")", 1)[1].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def lives(pid: int, pid_start: str) -> bool:
    """A number alone is not enough: the kernel gives it to another process some day."""
    return started(pid) == pid_start


def left_by(pilot: str, home: Path) -> list[int]:
    """The processes of this user that run for jobs of the pilot, found by their environment."""
    marks = {f"GLIDEPATH_PILOT={pilot}".encode(), b"GLIDEPATH_HOME=" + os.fsencode(home)}
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/environ", "rb") as environ:  # noqa: PTH123 (a few µs each count)
                variables = environ.read(ENVIRON_BYTES_MAX)
        except OSError:
            continue  # It ended meanwhile, or it is another user's and cannot be ours.
        if marks <= set(variables.split(b"\0")):
            found.append(int(entry.name))
    return found


def sweep(pilot: str, home: Path) -> bool:
    """Kill what a dead pilot's jobs left running; False when something does not go."""
    for _ in range(SWEEP_ROUNDS_MAX):
        pids = left_by(pilot, home)
        if not pids:
            return True
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(SWEEP_PAUSE_S)
    return False


def open_plain(path: Path) -> io.BufferedReader:
    """A file for reading that is a file: a job may have put a pipe in its place, and a pipe would hang us.

    What is anything else, or cannot be opened because a job forbade it, counts as not there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENXIO):
            raise FileNotFoundError(error.errno, "not a readable file", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "not a file", str(path))
    return open(descriptor, "rb")


def tail(path: Path, *, bytes_max: int) -> str:
    wanted = max(0, min(bytes_max, TAIL_BYTES_MAX))
    with open_plain(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - wanted))
        return file.read(wanted).decode("utf-8", "replace")
