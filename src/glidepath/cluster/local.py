"""This machine as a cluster: each set of ranks is a folder, and a keeper that runs beside us and outlives us.

The folder and its lock are all there is to know, so that a repeated start is harmless and a restarted
glidepath finds what runs by looking. Where a tree of control groups is ours, the kernel keeps each rank
within its memory, CPUs and processes. Images, volumes and the size of /dev/shm are those of the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glidepath.cluster.cgroup import Tree, groups_left, told, tree_of
from glidepath.core.cycle import Done, Failed, Outcome, Refused, Unsure
from glidepath.core.place.rank import (
    KEY,
    Cause,
    ClusterName,
    NodeListing,
    NodeSeen,
    RankSeen,
    RankSet,
    RankState,
    SetKey,
    SetListing,
    SetSeen,
    rank_file,
    split_key,
    variables,
)
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Node
from glidepath.ports import Place

KEEPER = Path(__file__).with_name("keeper.py")
LIMIT_S = 30.0
# The keeper's interpreter starts and says so within this, even on a loaded machine.
START_S_MAX = 20.0
# Files are small and local, folders may be of a server that takes its time; whatever hangs is ended then.
SETUP_S_MAX = 120.0
# So long after its last word a keeper is gone.
EXIT_S_MAX = 5.0
# A folder without a keeper that is older than this was left by a crash.
PENDING_S_MAX = 60.0
POLL_S = 0.02
SWEEP_ROUNDS_MAX = 50
NODE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
HOST = "localhost"
# A fork that does not end is held by this, and hardly anything in good use.
PROCESSES_MAX = 4096
HOME_LETTERS = 8
MIB = 1024 * 1024


class LocalCluster:
    """Sets below `<home>/ranks`. Nothing is touched before the first call."""

    def __init__(
        self,
        name: ClusterName,
        nodes: tuple[Node, ...],
        place: Place,
        *,
        cgroup: str = "",
        processes_max: int = PROCESSES_MAX,
        setup_s_max: float = SETUP_S_MAX,
        limits: Callable[[str], Tree] = tree_of,
    ) -> None:
        self.name = name
        self.limit_s = LIMIT_S
        self.at_once = 4
        self._nodes = nodes
        self._home = place.home
        self._log_bytes_max = place.log_bytes_max
        self._folder = place.home / "ranks"
        self._cgroup, self._processes_max, self._limits = cgroup, processes_max, limits
        self._setup_s_max = setup_s_max
        # Several homes may make groups in one tree; each knows its own again.
        self._mark_of_groups = f"gp-{hashlib.sha256(str(place.home).encode()).hexdigest()[:HOME_LETTERS]}-"
        self._tree_found: Tree | None = None
        # As they were told, of the sets in the listing before and since then.
        self._times: dict[tuple[str, float], Instant] = {}
        self._times_before: dict[tuple[str, float], Instant] = {}
        self._mark: tuple[tuple[str, int], ...] = ()

    def nodes(self, *, now: Instant) -> NodeListing:
        self._home.stat()  # A home that is gone cannot keep what runs.
        note = told(self._tree(), asked=self._cgroup)
        said = (note,) if note else ()
        nodes = tuple(NodeSeen(node) for node in self._nodes)
        # Where a group was asked for, no job starts without it, which concerns everybody.
        return NodeListing(nodes, notes=said) if self._cgroup else NodeListing(nodes, unkept=said)

    def _tree(self) -> Tree:
        """Looked for once, and again only while a group that was asked for cannot be used."""
        found = self._tree_found
        if found is None or (self._cgroup and found.why):
            self._tree_found = found = self._limits(self._cgroup)
        return found

    def list(self, *, now: Instant) -> SetListing:
        found = [seen for key in self._keys() if (seen := self._seen(SetKey(key), now)) is not None]
        # What was not asked for any more is of sets that are cleared.
        self._times_before, self._times = self._times, {}
        return SetListing(tuple(found))

    def changed(self) -> bool:
        """Whether the state of a set is another one than when this was asked last."""
        mark = []
        for key in self._keys():
            try:
                mark.append((key, (self._folder / key / "state.json").stat().st_mtime_ns))
            except FileNotFoundError:
                mark.append((key, 0))
        had, self._mark = self._mark, tuple(mark)
        return had != self._mark

    def _keys(self) -> tuple[str, ...]:
        try:
            return tuple(sorted(one.name for one in os.scandir(self._folder) if KEY.fullmatch(one.name)))
        except FileNotFoundError:
            self._home.stat()  # A home without sets is empty; a home that is gone is a failed listing.
            return ()

    def _seen(self, key: SetKey, now: Instant) -> SetSeen | None:
        folder = self._folder / key
        try:
            spec = _read(folder / "set.json")["set"]
            limit_s = _read(folder / "limit.json")["limit_s"]
        except FileNotFoundError:
            return None  # It was cleared in this moment.
        held = _held(folder)
        state = self._state(folder, held=held)
        seats = [NodeName(seat["node"]) for seat in spec["seats"]]
        ranks = tuple(self._rank(at, node, state, now) for at, node in enumerate(seats))
        return SetSeen(key, ranks, limit_s)

    def _state(self, folder: Path, *, held: bool) -> dict[str, Any]:
        try:
            state = _read(folder / "state.json")
        except FileNotFoundError:
            state = {"began_s": None, "boot": "", "ranks": []}
        if held or (state["ranks"] and all(rank["over"] for rank in state["ranks"])):
            return state
        return self._dead(folder, state)

    def _dead(self, folder: Path, state: dict[str, Any]) -> dict[str, Any]:
        """Nobody keeps it: it is being started, or its keeper was killed and what it left is ended now."""
        known = (folder / "keeper.json").exists()
        if not known and time.time() - (folder / "set.json").stat().st_mtime < PENDING_S_MAX:
            return state
        if not _swept(str(folder)) or not self._ungrouped(folder):
            return {**state, "unsure": "processes of it do not end"}
        cause, why = Cause.REFUSED, "its keeper never came to run"
        if known:
            boot = _read(folder / "keeper.json")["boot"]
            here = boot == _boot_id()
            cause = Cause.NODE_LOST if here else Cause.RESTARTED
            why = "the process that kept it was killed" if here else "the machine restarted"
        count = len(_read(folder / "set.json")["set"]["seats"])
        had = state["ranks"] or [{"over": False}] * count
        ended = {"over": True, "cause": cause.value, "exit_code": None, "signal": None, "why": why}
        dead = {**ended, "ended_s": time.clock_gettime(time.CLOCK_BOOTTIME)}
        ranks = [rank if rank["over"] else dead for rank in had]
        final = {"began_s": state["began_s"], "boot": _boot_id(), "ranks": ranks}
        _write(folder / "state.json", final)
        return final

    @staticmethod
    def _ungrouped(folder: Path) -> bool:
        """The groups that a killed keeper left behind go, with all that is in them."""
        told = _read(folder / "set.json")
        left = groups_left(told.get("groups", ()), told.get("group", ""))
        return all(group.end() for group in tuple(left))

    def _rank(self, at: int, node: NodeName, state: dict[str, Any], now: Instant) -> RankSeen:
        began = self._at(state["began_s"], now)
        if state.get("unsure"):
            return RankSeen(at, node, RankState.UNSURE, why=state["unsure"], host=HOST, began_at=began)
        if not state["ranks"]:
            return RankSeen(at, node, RankState.ASKED, host=HOST)
        facts = state["ranks"][at]
        if not facts["over"]:
            running = RankState.RUNNING if began is not None else RankState.ASKED
            return RankSeen(at, node, running, host=HOST, began_at=began)
        return RankSeen(
            rank=at,
            node=node,
            state=RankState.OVER,
            cause=Cause(facts["cause"]),
            exit_code=facts["exit_code"],
            signal=facts["signal"],
            why=facts["why"],
            host=HOST,
            began_at=began,
            ended_at=self._at(facts["ended_s"], now),
        )

    def _at(self, boot_s: float | None, now: Instant) -> Instant | None:
        """The same second each time it is asked, though the two clocks tick apart."""
        if boot_s is None:
            return None
        key = (_boot_id(), boot_s)
        at = self._times.get(key, self._times_before.get(key))
        if at is None:
            at = Instant(now - max(int(time.clock_gettime(time.CLOCK_BOOTTIME) - boot_s), 0))
        self._times[key] = at
        return at

    def start(self, ranks: RankSet) -> Outcome:
        why = self._refusal(ranks)
        if why:
            return Refused(why)
        folder = self._folder / ranks.key
        tree = self._tree()
        if self._cgroup and tree.why:
            return Failed(f"its limits cannot be kept: {tree.why}")
        told = {
            **_told(ranks, self._home),
            "log_bytes_max": self._log_bytes_max,
            "groups": tree.folders,
            "group": f"{self._mark_of_groups}{ranks.key}-",
            "processes_max": self._processes_max,
            "setup_s_max": self._setup_s_max,
        }
        if not folder.exists() and (self._home / "jobs" / ranks.key.replace(".", "/")).exists():
            return Refused(f"{ranks.key} ran before and was cleared; a key is never used again")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._folder / f".new-{ranks.key}-{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        _write(fresh / "set.json", told)
        _write(fresh / "limit.json", {"limit_s": ranks.limit_s})
        try:
            fresh.rename(folder)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if _read(folder / "set.json")["digest"] != told["digest"]:
                return Refused(f"{ranks.key} is something else already")
        return self._kept(folder)

    def _refusal(self, ranks: RankSet) -> str:
        """Why this machine can never run the set, or nothing."""
        if not KEY.fullmatch(ranks.key):
            return "the key is not a job and an attempt"
        ours = {node.name for node in self._nodes}
        work = ranks.work
        strange = next((seat.node for seat in ranks.seats if seat.node not in ours), None)
        if strange is not None or not ranks.seats:
            return "it is to run on a node that is not of this machine"
        for file in work.files:
            parts = file.path.split("/")
            if (
                not file.path
                or file.path.startswith("/")
                or ".." in parts
                or "" in parts
                or "\0" in file.path
            ):
                return "on this machine files go below the working directory, by a plain path"
        if work.volumes:
            return "this machine has no volumes; name a folder of it with the working directory"
        if ranks.runtime:
            return "this machine has no runtime classes"
        if not hasattr(signal, ranks.notice_signal):
            return "the signal of the notice is none of this machine"
        if not work.command or any("\0" in word for word in work.command):
            return "the command is not one that can be run"
        return ""

    def _kept(self, folder: Path) -> Outcome:
        """A keeper is there, or was and has ended; where none was, one is started."""
        deadline = time.monotonic() + START_S_MAX
        if not (folder / "keeper.json").exists():
            with (folder / "keeper.log").open("ab") as log:
                started = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(KEEPER), str(folder)],
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            with suppress(subprocess.TimeoutExpired):
                started.wait(START_S_MAX)
        while time.monotonic() < deadline:
            if (folder / "keeper.json").exists():
                return Done()
            time.sleep(POLL_S)
        return Unsure(f"the keeper of {folder.name} gave no sign within {START_S_MAX:g} s")

    def extend(self, key: SetKey, limit_s: int | None) -> Outcome:
        if not KEY.fullmatch(key) or not (self._folder / key).is_dir():
            return Refused("there is no such set")
        if self._over(key):
            return Refused(f"{key} is over")
        _write(self._folder / key / "limit.json", {"limit_s": limit_s})
        return Done()

    def give_notice(self, key: SetKey) -> Outcome:
        return self._mark_with(key, "notice")

    def stop(self, key: SetKey) -> Outcome:
        return self._mark_with(key, "stop")

    def _mark_with(self, key: SetKey, word: str) -> Outcome:
        if KEY.fullmatch(key):
            try:
                (self._folder / key / word).touch()
            except FileNotFoundError:
                pass  # What is gone needs to be told nothing.
        return Done()

    def _over(self, key: SetKey) -> bool:
        seen = self._seen(key, Instant(int(time.time())))
        return seen is None or seen.over

    def clear(self, key: SetKey) -> Outcome:
        folder = self._folder / key
        if not KEY.fullmatch(key) or not folder.is_dir():
            return Done()
        if not self._over(key):
            return Refused(f"{key} is not over")
        deadline = time.monotonic() + EXIT_S_MAX
        while _held(folder):
            # It has written its last word, and is about to leave.
            if time.monotonic() > deadline:
                return Failed(f"the keeper of {key} does not leave")
            time.sleep(POLL_S)
        if not self._ungrouped(folder):
            return Failed(f"the control group of {key} does not go")
        gone = self._folder / f".gone-{key}"
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        return Done()


def _told(ranks: RankSet, home: Path) -> dict[str, Any]:
    """All that a keeper needs to know."""
    spec = asdict(ranks)
    hosts = tuple(HOST for _ in ranks.seats)
    job, attempt = split_key(ranks.key)
    return {
        "set": spec,
        "digest": hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest(),
        "logs": str(home / "jobs" / str(job) / str(attempt)),
        "variables": [variables(ranks, rank, hosts) for rank in range(len(ranks.seats))],
        "hosts": rank_file(hosts),
    }


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _write(path: Path, value: object) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _held(folder: Path) -> bool:
    """Whether a keeper lives: it holds the lock for as long."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _swept(folder: str) -> bool:
    """What a killed keeper left running is ended; found by what it has in its environment."""
    mark = b"GLIDEPATH_KEEPER=" + os.fsencode(folder)
    for _ in range(SWEEP_ROUNDS_MAX):
        left = 0
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                environ = Path(f"/proc/{entry.name}/environ").read_bytes()
                if mark in environ.split(b"\0"):
                    left += 1
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue  # It is gone, or another user's and cannot be ours.
        if not left:
            return True
        time.sleep(POLL_S)
    return False


@dataclass(frozen=True)
class Settings:
    """What of this machine jobs may have, and into how many equal nodes it is cut."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpus: int = 0
    gpu_kind: str = ""
    nodes: int = 1
    cgroup: str = ""
    processes_max: int = PROCESSES_MAX

    def cut(self) -> tuple[Node, ...]:
        count = self.nodes
        whole = (self.cpu_milli, self.memory_mib, self.disk_mib, self.gpus)
        part = Resources(*(amount // count for amount in whole))
        names = ["localhost"] if count == 1 else [f"localhost-{at + 1}" for at in range(count)]
        return tuple(Node(NodeName(name), part, gpu_kind=self.gpu_kind) for name in names)


def door(name: ClusterName, settings: Mapping[str, Any], place: Place) -> LocalCluster:
    of = Settings(**settings)
    return LocalCluster(name, of.cut(), place, cgroup=of.cgroup, processes_max=of.processes_max)
