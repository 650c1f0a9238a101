"""Limits that the kernel keeps: a control group for each rank here, for memory, CPUs and processes.

The tree below which groups may be made is found, or named by the settings; if there is none, it says why.
Standard library only, since keepers use it. The two versions of control groups differ here in names of files
alone, and a controller is of one of them at a time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTROLLERS = ("memory", "cpu", "pids")
CALLED = {"memory": "memory", "cpu": "CPUs", "pids": "processes"}
OWN, MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")
# systemd marks so what it has handed over; the second can be read by root alone.
HANDED_OVER = ("user.delegate", "trusted.delegate")
# A group with controllers for those below it must hold no processes itself: ours go there.
LEAF = "glidepath.here"
DEPTH_MAX = 32
ROUNDS_MAX, PAUSE_S = 250, 0.02
PERIOD_US, QUOTA_US_MIN = 100_000, 1000
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Tree:
    """Where groups of ranks may be made, by controller; `why` where some of them are missing."""

    folders: tuple[tuple[str, int, str], ...] = ()  # controller, version, folder
    why: str = ""

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(controller for controller, _, _ in self.folders)


def tree_of(asked: str, *, own: Path = OWN, mounts: Path = MOUNTS) -> Tree:
    """The group that is `asked` for, made if need be, or without one what was handed over to us.

    It is made ready: its controllers are switched on, and processes of ours leave it for a leaf.
    """
    try:
        tops = _tops(mounts)
        given = "" if asked else _handed_over(tops, own)
    except OSError as error:
        return Tree(why=f"control groups cannot be read: {error.strerror}")
    if asked:
        wanted = {name: (tops[name][0], f"{tops[name][1]}{asked}") for name in CONTROLLERS if name in tops}
    elif given:
        wanted = {name: (2, given) for name in CONTROLLERS if tops.get(name, (0, ""))[0] == 2}
    else:
        return Tree(why="no control group was handed over to glidepath")
    if not wanted:
        return Tree(why="the kernel has no control groups for memory, CPUs and processes here")
    return _ready(wanted, ours=not asked)


def _tops(mounts: Path) -> dict[str, tuple[int, str]]:
    """By controller, and for version 2 as `unified`: which version it is of, and where it is mounted."""
    found: dict[str, tuple[int, str]] = {}
    unified = ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        kind, fields = after.split(" "), before.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            unified = unified or fields[4]
        elif kind[0] == "cgroup":
            found |= {name: (1, fields[4]) for name in kind[2].split(",") if name in CONTROLLERS}
    if unified:
        found["unified"] = (2, unified)
        offered = _words(Path(unified, "cgroup.controllers"))
        found |= {name: (2, unified) for name in CONTROLLERS if name in offered and name not in found}
    return found


def _handed_over(tops: Mapping[str, tuple[int, str]], own: Path) -> str:
    """The nearest group above us, of version 2, that whoever runs this machine gave to us, or none."""
    if "unified" not in tops:
        return ""
    lines = own.read_text(encoding="utf-8").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    top = Path(tops["unified"][1])
    here = Path(f"{top}{path}")
    for folder in [here, *here.parents][:DEPTH_MAX]:
        # What a systemd of its own runs, such as that of a person who is logged in, is not ours to change.
        managed = (folder / "init.scope").exists()
        if not managed and any(_marked(folder, mark) for mark in HANDED_OVER) and os.access(folder, os.W_OK):
            return str(folder)
        if folder == top:
            break
    return ""


def _marked(folder: Path, mark: str) -> bool:
    try:
        return os.getxattr(folder, mark) == b"1"
    except OSError:
        return False


def _ready(wanted: Mapping[str, tuple[int, str]], *, ours: bool) -> Tree:
    """`ours` where its processes are those of glidepath, to be moved out of the way."""
    folders, missing = [], []
    emptied: dict[str, str] = {}
    for controller in CONTROLLERS:
        version, name = wanted.get(controller, (0, ""))
        try:
            if not name:
                raise OSError(0, "the kernel does not have it there")
            folder = Path(name)
            folder.mkdir(exist_ok=True)
            if version == 2:
                if name not in emptied:
                    emptied[name] = _emptied(folder) if ours else ""
                _switched_on(folder, controller, emptied[name])
            if not os.access(folder, os.W_OK):
                raise PermissionError(0, "it may not be written")
            folders.append((controller, version, name))
        except OSError as error:
            at = f" at `{name}`" if name else ""
            missing.append(f"{CALLED[controller]}{at}: {error.strerror or type(error).__name__}")
    return Tree(tuple(folders), "; ".join(missing))


def _emptied(folder: Path) -> str:
    """Its processes go to a leaf; why that cannot be, or nothing."""
    for _ in range(ROUNDS_MAX):
        there = _words(folder / "cgroup.procs")
        if not there:
            return ""
        try:
            (folder / LEAF).mkdir(exist_ok=True)
            for pid in there:
                _write(folder / LEAF / "cgroup.procs", pid)
        except ProcessLookupError:
            pass  # It has ended meanwhile.
        except OSError as error:
            return f"its processes cannot leave it: {error.strerror}"
        time.sleep(PAUSE_S)
    return "processes are in it that do not leave"


def _switched_on(folder: Path, controller: str, why: str) -> None:
    if controller in _words(folder / "cgroup.subtree_control"):
        return
    if controller not in _words(folder / "cgroup.controllers"):
        raise OSError(0, "the group above it does not pass it on, `cgroup.subtree_control`")
    if why:
        raise OSError(0, why)
    _write(folder / "cgroup.subtree_control", f"+{controller}")


def told(tree: Tree, *, asked: str) -> str:
    """For people: which limits of jobs the kernel does not keep here, why, and what to do; or nothing."""
    held = [CALLED[name] for name in CONTROLLERS if name in tree.held]
    others = [CALLED[name] for name in CONTROLLERS if name not in tree.held]
    if not others:
        return ""
    if asked:
        fix = f"hand `{asked}` over to the user of glidepath, or leave `cgroup` out"
        return f"no job starts there, since `cgroup` names what cannot be used; {tree.why}; {fix}"
    kept = f"the kernel keeps jobs within their {' and '.join(held)} alone; " if held else ""
    memory = "memory of jobs is measured twice a second and not limited, " if "memory" in others else ""
    rest = " and ".join(name for name in others if name != "memory")
    limited = f"{rest} are not limited; " if rest else ""
    fix = "start it with `systemd-run --user --scope -p Delegate=yes`, or name a control group with `cgroup`"
    return f"{kept}{memory}{limited}{tree.why}; {fix}"


class Group:
    """Of one rank, below a tree as it was told: one folder for each controller, or one for all of them."""

    def __init__(self, folders: Iterable[tuple[str, int, str]], name: str) -> None:
        self._of = {controller: (version, Path(top) / name) for controller, version, top in folders}

    @property
    def holds_memory(self) -> bool:
        return "memory" in self._of

    @property
    def _folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(folder for _, folder in self._of.values()))

    def make(self, size: Mapping[str, Any], processes_max: int) -> None:
        """With its limits, before anything is in it. Raises OSError."""
        for folder in self._folders:
            folder.mkdir(exist_ok=True)
        for controller, (version, folder) in self._of.items():
            for name, value, needed in _limits(controller, version, size, processes_max):
                if needed or (folder / name).exists():
                    _write(folder / name, value)

    def doors(self) -> tuple[int, ...]:
        """Open files into which a process that is to be in the group writes its number."""
        return tuple(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in self._folders)

    def memory_kills(self) -> int:
        """How many of its processes the kernel ended because all of them together had too much."""
        version, folder = self._of.get("memory", (0, Path()))
        return _count(folder / ("memory.events" if version == 2 else "memory.oom_control"), "oom_kill")

    def memory_most_mib(self) -> int:
        version, folder = self._of.get("memory", (0, Path()))
        found = _words(folder / ("memory.peak" if version == 2 else "memory.max_usage_in_bytes"))
        return int(found[0]) // MIB if found and found[0].isdigit() else 0

    def refused_processes(self) -> int:
        _, folder = self._of.get("pids", (0, Path()))
        return _count(folder / "pids.events", "max")

    def end(self) -> bool:
        """Whatever is left in it ends, and it goes. Whether it is gone."""
        for _ in range(ROUNDS_MAX):
            for folder in self._folders:
                _killed(folder)
            if all(_removed(folder) for folder in self._folders):
                return True
            time.sleep(PAUSE_S)
        return False


def groups_left(folders: Iterable[tuple[str, int, str]], prefix: str) -> Iterator[Group]:
    """Groups of a set of ranks whose keeper is not there any more."""
    rows = tuple(folders)
    names: set[str] = set()
    for _, _, top in rows:
        try:
            names |= {one.name for one in os.scandir(top) if one.name.startswith(prefix)}
        except OSError:
            pass  # Whoever made the tree has taken it away, and with it what was below.
    for name in sorted(names):
        yield Group(rows, name)


def _limits(
    controller: str, version: int, size: Mapping[str, Any], processes_max: int
) -> Iterator[tuple[str, str, bool]]:
    """File, what is written there, and whether the file must be there."""
    if controller == "memory" and size["memory_mib"]:
        most = str(size["memory_mib"] * MIB)
        if version == 2:
            yield "memory.max", most, True
            # Otherwise what it has too much goes to the disk, and slows down everybody.
            yield "memory.swap.max", "0", False
            # Half a job that goes on without the other half helps nobody.
            yield "memory.oom.group", "1", False
        else:
            yield "memory.limit_in_bytes", most, True
            yield "memory.memsw.limit_in_bytes", most, False
    elif controller == "cpu" and size["cpu_milli"]:
        quota = max(QUOTA_US_MIN, size["cpu_milli"] * PERIOD_US // 1000)
        if version == 2:
            yield "cpu.max", f"{quota} {PERIOD_US}", True
        else:
            yield "cpu.cfs_period_us", str(PERIOD_US), True
            yield "cpu.cfs_quota_us", str(quota), True
    elif controller == "pids" and processes_max:
        yield "pids.max", str(processes_max), True


def _write(path: Path, value: str) -> None:
    # Never made: what is no file of a control group limits nothing.
    file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(file, value.encode())
    finally:
        os.close(file)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


def _count(path: Path, name: str) -> int:
    found = _words(path)
    pairs = dict(zip(found[::2], found[1::2], strict=False))
    text = pairs.get(name, "0")
    return int(text) if text.isdigit() else 0


def _killed(folder: Path) -> None:
    """Also what the job has put into groups of its own below."""
    for inner, _, _ in os.walk(folder):
        for pid in _words(Path(inner, "cgroup.procs")):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except (OSError, ValueError):
                pass  # It is gone.


def _removed(folder: Path) -> bool:
    for inner, _, _ in os.walk(folder, topdown=False):
        try:
            Path(inner).rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return False  # Something in it is not gone yet.
    return True
