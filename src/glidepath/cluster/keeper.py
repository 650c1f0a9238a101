"""Keeps one set of ranks on this machine: starts its commands, keeps their output, limit and end.

It runs by itself, below nobody, and outlives whoever asked for it. The folder of the set is all that it is
told and all that it tells. Standard library only; it is started as a file.

Commands begin once: `begun` is on the disk before the first of them, and a keeper that finds it starts none.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Started as a file, it finds what it shares with the rest of us by where it lies itself.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from glidepath.cluster.cgroup import Group
from glidepath.cluster.inplace import SettingUp
from glidepath.cluster.processes import (
    KILL_PAUSE_S,
    kill_below,
    kill_session,
    resident_by_session,
    signal_session,
)
from glidepath.keptlog import KeptLog

POLL_S = 0.1
MEMORY_LOOK_S = 0.5
SETUP_S_MAX = 120.0  # where nobody says it, as of a set from before
PIECE_BYTES = 64 * 1024
BYTES_MAX = 1 << 60  # of an output, where nobody says less
PIECES_MAX = 16  # of one output in one turn, so that a chatterbox holds up nobody
# After a command has ended, what it left in its pipes comes within this.
DRAIN_S_MAX = 2.0
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")
PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None, use_errno=True)


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_whole(path: Path, value: object) -> None:
    """All of it or nothing, also when the power goes."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class SetupError(Exception):
    """Nothing may begin; the sentence says why."""


class Output:
    """One pipe of a rank, and where what comes out of it is kept."""

    def __init__(self, pipe: int, kept: KeptLog) -> None:
        os.set_blocking(pipe, False)
        self.pipe, self.kept = pipe, kept
        self.open = True

    def pump(self) -> bool:
        """Whether something came."""
        for turn in range(PIECES_MAX):
            try:
                piece = os.read(self.pipe, PIECE_BYTES)
            except BlockingIOError:
                return turn > 0
            except OSError:
                piece = b""
            if not piece:
                self.close()
                return turn > 0
            # Also what is not kept is read, or the command would hang in its write.
            self.kept.take(piece)
        return True

    def close(self) -> None:
        if self.open:
            os.close(self.pipe)
            self.kept.close()
            self.open = False


class Rank:
    def __init__(self, number: int, told: dict[str, Any], folder: Path) -> None:
        self.number, self.spec = number, told["set"]
        self.folder = folder / str(number)
        self.logs = Path(told["logs"]) / str(number)
        self.log_bytes_max = min(told.get("log_bytes_max", BYTES_MAX), self.spec["log_bytes_max"])
        # What the kernel keeps of its limits; what it does not is looked at from here, or by nobody.
        self.group = Group(told.get("groups", ()), f"{told.get('group', '')}{number}")
        self.processes_max = told.get("processes_max", 0)
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.workdir = Path()
        self.outputs: list[Output] = []
        self.pid = 0
        self.status: int | None = None
        self.ended_s = 0.0
        self.cause, self.why = "", ""
        self.over = False

    def set_up(self, keeper: str, variables: dict[str, str], hosts: str) -> None:
        """Everything that the command needs is there and was looked at, or a SetupError."""
        work = self.spec["work"]
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        rank_file = self.folder / "hosts"
        rank_file.write_text(hosts, encoding="utf-8")
        self.workdir = Path(work["workdir"]) if work["workdir"] else self.folder / "work"
        if not work["workdir"]:
            self.workdir.mkdir(mode=0o700, exist_ok=True)
        if not self.workdir.is_dir() or not os.access(self.workdir, os.X_OK):
            raise SetupError(f"the working directory `{self.workdir}` is not there, or is not ours to enter")
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = {"GLIDEPATH_RANK_FILE": str(rank_file), "GLIDEPATH_KEEPER": keeper}
        self.env = {**kept, **dict(map(tuple, work["env"])), **variables, **own}
        if self.spec["seats"][self.number]["devices"]:
            self.env["CUDA_VISIBLE_DEVICES"] = variables["GLIDEPATH_GPUS"]
        for file in work["files"]:
            self._inject(file)
        self.argv = list(work["command"])
        found = shutil.which(self.argv[0], path=self.env.get("PATH", os.defpath))
        if "/" in self.argv[0]:
            program = self.workdir / self.argv[0]
            found = str(program) if program.is_file() and os.access(program, os.X_OK) else None
        if found is None:
            raise SetupError(f"there is no program `{self.argv[0]}`")
        self.argv[0] = found

    def _inject(self, file: dict[str, Any]) -> None:
        """Written below the working directory, over no link, and read back."""
        path = self.workdir
        parts = file["path"].split("/")
        try:
            for part in parts[:-1]:
                path = path / part
                path.mkdir(exist_ok=True)
                if path.is_symlink():
                    raise SetupError(f"`{path}` is a link; files are not written through one")
            path = path / parts[-1]
            fresh = path.with_name(f".{parts[-1]}.glidepath")
            content = file["content"].encode()
            fresh.write_bytes(content)
            fresh.chmod(file["mode"])
            fresh.replace(path)
            if path.read_bytes() != content:
                raise SetupError(f"the file `{file['path']}` is not as it was given")
        except OSError as error:
            raise SetupError(f"the file `{file['path']}` cannot be written: {error.strerror}") from None

    def begin(self) -> None:
        names = ("stdout", "stderr")
        try:
            logs = [KeptLog(str(self.logs), name, self.log_bytes_max) for name in names]
        except OSError as error:
            raise SetupError(f"what it writes cannot be kept: {error.strerror}") from None
        doors = self.group.doors()
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in names]
        own = os.getpid()

        def with_us() -> None:
            # If we are killed, so is it: nobody would keep its limit any more.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != own:
                os._exit(1)
            for door in doors:
                # Before its first instruction: nothing of it is ever outside of its limits.
                os.write(door, str(os.getpid()).encode())

        try:
            started = subprocess.Popen(
                self.argv,
                cwd=self.workdir,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                start_new_session=True,
                preexec_fn=with_us,
            )
        except (OSError, subprocess.SubprocessError) as error:
            for ends in pipes:
                for end in ends:
                    os.close(end)
            raise SetupError(f"`{self.argv[0]}` cannot be started: {error}") from None
        finally:
            for door in doors:
                os.close(door)
        self.pid = started.pid
        started.returncode = 0  # It is waited for below, with all that descends from it.
        for (reading, writing), kept in zip(pipes, logs, strict=True):
            os.close(writing)
            self.outputs.append(Output(reading, kept))

    def limit(self) -> None:
        try:
            self.group.make(self.spec["size"], self.processes_max)
        except OSError as error:
            raise SetupError(f"the kernel does not take its limits: {error}") from None

    def judge(self) -> None:
        """Why the kernel ended it, or would not let it go on, as far as the command ended badly for it."""
        bad = self.status is not None and self.status != 0
        if self.cause or not bad:
            return
        if kills := self.group.memory_kills():
            most, had = self.spec["size"]["memory_mib"], self.group.memory_most_mib()
            self.cause = "memory"
            self.why = f"the kernel ended {kills} of its processes at {most} MiB; together they had {had} MiB"
        elif (refused := self.group.refused_processes()) and not self.why:
            self.why = f"{refused} times it was refused more than {self.processes_max} processes"

    def facts(self) -> dict[str, Any]:
        code = number = None
        if self.status is not None and not self.cause:
            number = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None
            code = os.WEXITSTATUS(self.status) if number is None else None
        cause = self.cause or ("signalled" if number is not None else "exited")
        return {
            "over": self.over,
            "cause": cause if self.over else "",
            "exit_code": code if self.over else None,
            "signal": number if self.over else None,
            "why": self.why,
            "ended_s": self.ended_s if self.over else None,
        }


class Keeper:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        told = json.loads((folder / "set.json").read_text(encoding="utf-8"))
        self.spec = told["set"]
        self.variables, self.hosts = told["variables"], told["hosts"]
        self.setup_s_max = float(told.get("setup_s_max", SETUP_S_MAX))
        self.ranks = [Rank(at, told, folder) for at in range(len(self.spec["seats"]))]
        self.began_s: float | None = None
        self.noticed_for: float | None = None  # the end that notice was given of
        self.kill_s: float | None = None
        self.notice_mark = 0
        self.memory_at = 0.0

    def state(self) -> None:
        facts = [rank.facts() for rank in self.ranks]
        write_whole(self.folder / "state.json", {"began_s": self.began_s, "boot": boot_id(), "ranks": facts})

    def run(self) -> None:
        setting_up = SettingUp(self.folder / "stop", self.setup_s_max, self._hung)
        setting_up.watch()
        try:
            for rank in self.ranks:
                setting_up.at = rank.number
                rank.set_up(str(self.folder), self.variables[rank.number], self.hosts)
                rank.limit()
        except (SetupError, OSError, ValueError) as error:
            setting_up.is_over()
            self._none_began(rank, f"{error}")
            return
        setting_up.commands_begin()
        if (self.folder / "stop").exists():
            setting_up.is_over()
            self._all_over("stopped", "it was stopped before it began")
            return
        write_whole(self.folder / "begun", {"boot": boot_id(), "s": boottime()})
        try:
            for rank in self.ranks:
                setting_up.at = rank.number
                rank.begin()
        except (SetupError, OSError) as error:
            setting_up.is_over()
            self._end_all("setup")
            self.kill_s = 0.0
            rank.cause, rank.why = "setup", f"{error}"
            self._until_over()
            return
        setting_up.is_over()
        self.began_s = boottime()
        self.state()
        self._until_over()

    def _hung(self, at: int, why: str) -> None:
        """By the thread that watches. Groups are left to whoever clears the set: they may be what hangs."""
        kill_below(os.getpid())
        if why:
            self._over_without(self.ranks[at], why)
        else:
            self._over_as("stopped", "it was stopped before it began")

    def _none_began(self, bad: Rank, why: str) -> None:
        for rank in self.ranks:
            rank.group.end()
        self._over_without(bad, why)

    def _over_without(self, bad: Rank, why: str) -> None:
        for rank in self.ranks:
            rank.over, rank.ended_s = True, boottime()
            rank.cause = "setup" if rank is bad else "not gathered"
            rank.why = why if rank is bad else f"rank {bad.number} could not begin"
        self.state()

    def _all_over(self, cause: str, why: str) -> None:
        for rank in self.ranks:
            rank.group.end()
        self._over_as(cause, why)

    def _over_as(self, cause: str, why: str) -> None:
        for rank in self.ranks:
            rank.over, rank.ended_s, rank.cause, rank.why = True, boottime(), cause, why
        self.state()

    def _until_over(self) -> None:
        while not all(rank.over for rank in self.ranks):  # Ends at the limit, when told, or by itself.
            self._wait()
            self._reap()
            self._look()
            for rank in self.ranks:
                if not rank.over and (rank.status is not None or not rank.pid):
                    self._close(rank)
                    self.state()

    def _wait(self) -> None:
        pipes = {out.pipe: out for rank in self.ranks for out in rank.outputs if out.open}
        if not pipes:
            time.sleep(POLL_S)
            return
        ready, _, _ = select.select(list(pipes), [], [], POLL_S)
        for pipe in ready:
            pipes[pipe].pump()

    def _reap(self) -> None:
        ours = {rank.pid: rank for rank in self.ranks if rank.pid}
        while True:  # Ends when no child is left that has ended.
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in ours:
                ours[pid].status = status

    def _close(self, rank: Rank) -> None:
        """Its command has ended: what it left behind ends, too; what it wrote is kept to the last byte."""
        if rank.pid:
            kill_session(rank.pid)
        if all(other.status is not None or not other.pid for other in self.ranks):
            # Nothing of the set runs: whatever left its session is the set's all the same.
            kill_below(os.getpid())
        rank.judge()
        rank.group.end()
        deadline = time.monotonic() + DRAIN_S_MAX
        for out in rank.outputs:
            while out.open and time.monotonic() < deadline:
                if not out.pump():
                    time.sleep(KILL_PAUSE_S if out.open else 0)
            out.close()
        rank.over, rank.ended_s = True, boottime()

    def _look(self) -> None:
        now = boottime()
        if (self.folder / "stop").exists():
            self._end_all("stopped")
        until = self._until()
        if until is not None and now >= until:
            self._end_all("limit")
        notice_s = self.spec["notice_s"]
        if until is not None and notice_s and now >= until - notice_s and self.noticed_for != until:
            self.noticed_for = until
            self._give_notice()
        try:
            mark = (self.folder / "notice").stat().st_mtime_ns
        except FileNotFoundError:
            mark = 0
        if mark != self.notice_mark:
            self.notice_mark = mark
            self._give_notice()
        if now >= self.memory_at:
            self.memory_at = now + MEMORY_LOOK_S
            self._look_at_memory()
        if self.kill_s is not None and now >= self.kill_s:
            kill_below(os.getpid())

    def _until(self) -> float | None:
        limit_s = json.loads((self.folder / "limit.json").read_text(encoding="utf-8"))["limit_s"]
        if limit_s is None or self.began_s is None:
            return None
        return float(self.began_s + limit_s)

    def _give_notice(self) -> None:
        for rank in self.ranks:
            if rank.status is None and rank.pid:
                os.kill(rank.pid, getattr(signal, self.spec["notice_signal"]))

    def _end_all(self, cause: str, why: str = "") -> None:
        if self.kill_s is not None:
            return
        self.kill_s = boottime() + self.spec["grace_s"]
        for rank in self.ranks:
            if not rank.over and rank.status is None:
                rank.cause, rank.why = cause, why
                if rank.pid:
                    signal_session(rank.pid, signal.SIGTERM)

    def _look_at_memory(self) -> None:
        most = self.spec["size"]["memory_mib"] * 1024 * 1024
        if not most or self.kill_s is not None or self.ranks[0].group.holds_memory:
            return
        sessions = resident_by_session()
        for rank in self.ranks:
            if rank.status is None and sessions.get(rank.pid, 0) > most:
                rank.cause = "memory"
                rank.why = f"it had {sessions[rank.pid] // 2**20} MiB"
                kill_session(rank.pid)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def main(folder: Path) -> int:
    if os.fork():
        return 0  # Whoever started us has nothing to wait for.
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0  # Another keeps it.
    if (folder / "begun").exists() or (folder / "state.json").exists():
        return 0  # It was kept before, and is never begun again.
    write_whole(folder / "keeper.json", {"pid": os.getpid(), "boot": boot_id()})
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Its ranks are ended by `stop` alone. Ignored for good, they would be so for the commands, too.
        signal.signal(number, lambda *_: None)
    Keeper(folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
