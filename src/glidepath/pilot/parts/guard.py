"""Stands between the pilot and HTCondor, so that nothing of HTCondor or its jobs outlives either of them.

A command comes in and is run; signals are passed on to it. When it ends, or when the pilot is gone (its end
of our standard input closes), everything that descends from us is killed and the scratch folder removed.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Dict, List, Optional

from glidepath.pilot.parts.common import LIBC, Bell, die_with_parent

PR_SET_CHILD_SUBREAPER = 36
PASSED = (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)
KILL_ROUNDS_MAX = 100
KILL_PAUSE_S = 0.03
LOOP_S = 5.0


def adopt_orphans() -> None:
    """What loses its parent below us becomes our child, and so stays in reach."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> Dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stat:
                    fields = stat.read().rsplit(b")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def below(top: int, parent_of: Dict[int, int]) -> List[int]:
    """All that descend from a process, the nearest first."""
    children: Dict[int, List[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(top, []))
    for pid in found:  # It grows while it is walked; no process descends from itself, so it ends.
        found += children.get(pid, [])
    return found


def reap() -> Dict[int, int]:
    """The ends of all children that have ended."""
    ends: Dict[int, int] = {}
    while True:  # Ends when no child is left that has ended.
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ends
        if pid == 0:
            return ends
        ends[pid] = status


def kill_below(top: int) -> bool:
    """Kill all descendants, also those that are born meanwhile; False when one does not go."""
    for _ in range(KILL_ROUNDS_MAX):
        pids = below(top, parents())
        if not pids:
            return True
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # It is gone, or it is another user's and its own parent will end it.
        if top == os.getpid():
            reap()
        time.sleep(KILL_PAUSE_S)
    return False


def exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(words: List[str]) -> int:
    """`SCRATCH COMMAND...`: SCRATCH is the folder to remove when the pilot cannot do so any more."""
    scratch, command = words[0], words[1:]
    adopt_orphans()
    bell = Bell()
    bell.listen()
    for number in PASSED:
        signal.signal(number, lambda number, frame: bell.signals.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own = os.getpid()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(own),
    )
    status: Optional[int] = None
    pilot_lives = True
    while status is None and pilot_lives:
        for noted in bell.noted():
            try:
                os.kill(child.pid, noted)
            except OSError:
                pass
        ready, _, _ = select.select([sys.stdin.fileno(), bell.wake_read], [], [], LOOP_S)
        if bell.wake_read in ready:
            bell.heard()
        if sys.stdin.fileno() in ready:
            pilot_lives = bool(os.read(sys.stdin.fileno(), 100))
        status = reap().get(child.pid)
    kill_below(own)
    if not pilot_lives:
        shutil.rmtree(scratch, ignore_errors=True)
    # The child was reaped by us; Popen must not wait for it again.
    child.returncode = 0
    return exit_code(status) if status is not None else 128 + signal.SIGKILL
