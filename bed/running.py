"""One running server: starts its first program, remembers it in `state.json`, finds it again, and ends it.

An instance comes in, what is known about its server goes out. A process is known by its number and the time
at which it began, so that a number which the system gave to somebody else is never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bed.leaks import MARK, read
from bed.place import Instance
from bed.trouble import Trouble

POLL_S = 0.05
# A killed process is gone at once; the rest is for a machine that is busy.
KILL_S_MAX = 20
STATE = "state.json"
# Enough to see the error and what led to it, little enough to be read.
LOG_LETTERS_MAX = 4000
LOG_LINES_MAX = 12


@dataclass(frozen=True)
class State:
    """What `state.json` holds; `address` is how a client reaches the server."""

    name: str
    pid: int
    began: int
    address: str
    port: int
    logs: str

    def alive(self) -> bool:
        _reap(self.pid)
        return began(self.pid) == self.began


def began(pid: int) -> int:
    """When the process began, in the kernel's ticks; 0 where there is none, or only what is left of one."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return 0 if not fields or fields[0] in (b"Z", b"X") else int(fields[19])


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def start(words: Sequence[str], instance: Instance, *, environ: Mapping[str, str], output: Path) -> int:
    """Starts a program that outlives whoever started it, in a session of its own; its number."""
    found = shutil.which(words[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not found:
        raise Trouble(f"`{words[0]}` is not on this machine")
    writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        found,
        list(words),
        {**environ, MARK: str(instance.folder)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), writes, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def remember(instance: Instance, state: State) -> None:
    path = instance.folder / STATE
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    new.rename(path)


def state_of(instance: Instance) -> State | None:
    """What was remembered, whether it still runs or not; nothing where there is no server."""
    try:
        return State(**json.loads((instance.folder / STATE).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise Trouble(f"`{instance.folder / STATE}` is damaged: {error}; remove the folder") from error


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Trouble(
            f"process {pid} belongs to somebody else; run this as the user who started it"
        ) from error


def end(state: State, *, softly: Sequence[int], number: signal.Signals, soft_s_max: float) -> None:
    """Ends the server: asks the processes `softly` first, then kills its first program."""
    for pid in softly:
        send(pid, number)
    if softly and gone(state, soft_s_max):
        return
    if state.alive():
        send(state.pid, signal.SIGKILL)
    if not gone(state, KILL_S_MAX):
        raise Trouble(
            f"`{state.name}`: process {state.pid} is still there {KILL_S_MAX} s after it was killed"
        )


def gone(state: State, s_max: float) -> bool:
    until = time.monotonic() + s_max
    while state.alive():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True


def log_ends(logs: Path) -> str:
    """The last lines of every log, for whoever has to find out why something did not start."""
    texts = []
    for path in sorted(logs.glob("[!.]*")):
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as stream:
                stream.seek(max(0, path.stat().st_size - LOG_LETTERS_MAX))
                lines = stream.read().decode(errors="replace").splitlines()[-LOG_LINES_MAX:]
            texts.append("\n".join([f"--- end of {path.name}", *lines]))
    return "\n".join(texts)
