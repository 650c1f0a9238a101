"""What every kind of pilot needs: a log line, a durable file, its lock, the background, its summary.

Paths and values come in; the file system and the kernel are asked. It knows no pool.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import signal
import sys
import time
from typing import Any, Dict, List, Optional

Message = Dict[str, Any]

NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?")
LOCK_WAIT_S = 1.0  # Somebody who only looks whether we live holds the lock for an instant.
PR_SET_PDEATHSIG = 1
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")
FOLDER_MODE = 0o700

LIBC = ctypes.CDLL(None, use_errno=True)


def say(text: str) -> None:
    sys.stdout.write("%s %s\n" % (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text))
    sys.stdout.flush()


def write_durably(path: str, value: Message) -> None:
    """The whole file or none of it, on the disk when this returns."""
    fresh = path + ".new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps(value).encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(fresh, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def start_of(pid: int) -> str:
    """When the process started, in the kernel's ticks: with the number of the process, its identity."""
    with open("/proc/%d/stat" % pid, "rb") as stat:
        return stat.read().rsplit(b")", 1)[1].split()[19].decode()


def take_lock(folder: str) -> Optional[int]:
    """The lock of this pilot's name for life, or None where another process has it."""
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if time.monotonic() > until:
            os.close(descriptor)
            return None
        time.sleep(0.05)


def die_with_parent(parent: int) -> None:
    """In a child before its program starts: the kernel kills it when its parent dies, however that dies."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def detach() -> Optional[int]:
    """True in the background; the foreground waits until the background has its own number."""
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os.read(told, 1)
        os.close(told)
        return None
    os.close(told)
    os.setsid()
    return tell


class Bell:
    """Signals only leave a note and wake the loop; the loop alone acts."""

    def __init__(self) -> None:
        self.signals: List[int] = []
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)

    def listen(self) -> None:
        signal.set_wakeup_fd(self.wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: self.signals.append(number))
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def noted(self) -> List[int]:
        noted, self.signals = self.signals, []
        return noted

    def heard(self) -> None:
        """Empty the pipe that woke us."""
        os.read(self.wake_read, 4096)


def leave_summary(folder: str, summary: Message, last_words: Optional[str] = None) -> None:
    """On the disk for whoever looks later, and as the last line for whoever reads along.

    `last_words` is a file that somebody else has put there; it cannot be replaced, only written to.
    """
    write_durably(os.path.join(folder, "summary.json"), summary)
    if last_words is not None:
        try:
            with open(last_words, "w") as file:
                file.write(json.dumps(summary))
        except OSError as error:
            say("the last words cannot be written: %s" % error)
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()


def told_in(path: Optional[str]) -> bool:
    """Whether somebody has written something there, as a site that cannot send signals does."""
    try:
        return path is not None and os.path.getsize(path) > 0
    except OSError:
        return False
