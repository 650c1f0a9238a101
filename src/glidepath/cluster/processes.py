"""Processes of this machine, as /proc has them: their memory, and how all of a session or below one end.

Standard library only, since keepers use it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

KILL_ROUNDS_MAX = 100
KILL_PAUSE_S = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")


def stats() -> list[tuple[int, int, int]]:
    """Number, parent and session of every process that is not only a body."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (the names are all that is wanted, many times a minute)
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_bytes().rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[0] not in (b"Z", b"X"):
            found.append((int(name), int(fields[1]), int(fields[3])))
    return found


def resident_by_session() -> dict[int, int]:
    found: dict[int, int] = {}
    for pid, _, session in stats():
        try:
            pages = Path(f"/proc/{pid}/statm").read_bytes().split()
        except OSError:
            continue
        if len(pages) > 2:
            # Pages that are shared are counted for nobody: a library belongs to no job.
            found[session] = found.get(session, 0) + (int(pages[1]) - int(pages[2])) * PAGE
    return found


def signal_session(session: int, number: int) -> int:
    pids = [pid for pid, _, other in stats() if other == session]
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # It is gone.
    return len(pids)


def kill_session(session: int) -> None:
    for _ in range(KILL_ROUNDS_MAX):
        if not signal_session(session, signal.SIGKILL):
            return
        time.sleep(KILL_PAUSE_S)


def kill_below(top: int) -> None:
    """Everything that descends from us; whatever lost its parent came to us."""
    for _ in range(KILL_ROUNDS_MAX):
        rows = stats()
        found = {top}
        for _ in range(len(rows)):
            more = {pid for pid, parent, _ in rows if parent in found} - found
            if not more:
                break
            found |= more
        found.discard(top)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # It is gone.
        time.sleep(KILL_PAUSE_S)
