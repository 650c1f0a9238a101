"""Looks into the private namespaces of a server: its state comes in, the processes in there and the command
that runs another program beside them go out. It starts and ends nothing itself.
"""

from __future__ import annotations

from pathlib import Path

from bed.leaks import every_pid, parent_of, read
from bed.running import State


def first_inside(state: State) -> int:
    """The first program of the namespaces, the one child of `unshare`; 0 where there is none."""
    if not state.alive():
        return 0
    return next((pid for pid in every_pid() if parent_of(pid) == state.pid), 0)


def members(state: State, program: str) -> list[int]:
    """The processes of one program in there, by its name; workers that it forked are among them."""
    first = first_inside(state)
    if not first:
        return []
    space = space_of(first)
    return [pid for pid in every_pid() if space_of(pid) == space and program_of(pid) == program]


def program_of(pid: int) -> str:
    word = read(pid, "cmdline").split(b"\0")[0]
    return word.rpartition(b"/")[2].decode(errors="replace")


def space_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""  # It has just ended.


def entering(first: int, *words: str) -> list[str]:
    """The command, run beside the process `first` in its namespaces, and so in the root file system there."""
    return ["nsenter", f"--target={first}", "--mount", "--pid", "--", *words]
