#!/usr/bin/env python3
"""The pilot: joins a pool, runs the jobs it is given within its size, and leaves by itself.

One file, standard library only, Python 3.6 or later: it is copied to machines that we do not choose. It
decides nothing about which job comes first. One thread and one loop, so that starting a child is safe.
"""

import argparse
import ctypes
import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

Message = Dict[str, Any]
Key = Tuple[int, int]

NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?")
LINE_BYTES_MAX = 8 << 20  # One job with the longest command and environment, escaped, stays below this.
RECORDS_MAX = 100  # In one message, so that it stays far below what the server reads at once.
LOCK_WAIT_S = 1.0  # Somebody who only looks whether we live holds the lock for an instant.
TERM_GRACE_S = 5.0
STOP_GRACE_S = 3.0
LEAVE_S_MAX = 5.0  # After being told to stop now: jobs are waited for until then, whatever still hangs.
BYE_WAIT_S = 1.0
BEAT_S = 10.0
ANSWER_S_MAX = 30.0  # A server that owes an answer for longer is taken for gone, and asked again.
RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
LOOP_S_MAX = 5.0
LEFT_S_MIN = 60.0
SOCKET_PATH_MAX = 100  # The kernel takes 107 bytes; a longer path is reached through its folder.
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


class Job:
    def __init__(self, told: Message, folder: str) -> None:
        self.id = int(told["id"])
        self.attempt = int(told["attempt"])
        self.command = [str(arg) for arg in told["command"]]
        self.env = {str(key): str(value) for key, value in told["env"]}
        self.request = [int(part) for part in told["request"]]
        self.run_s_max = told["run_s_max"]
        self.folder = os.path.join(folder, str(self.id), str(self.attempt))
        self.child: "Optional[subprocess.Popen[bytes]]" = None
        self.started = 0.0
        self.started_wall = 0.0
        self.stop_how = ""
        self.kill_at: Optional[float] = None

    @property
    def key(self) -> Key:
        return (self.id, self.attempt)


class Runner:
    """The jobs that run here, as child processes in sessions of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: Dict[Key, Job] = {}
        self.run = 0
        self.failed = 0

    def start(self, job: "Job", home: str) -> Optional[Message]:
        """None when the job runs, otherwise the record of why it could not."""
        pilot_pid = os.getpid()
        job.started, job.started_wall = time.monotonic(), time.time()

        def die_with_the_pilot() -> None:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != pilot_pid:
                os._exit(1)

        try:
            work = os.path.join(job.folder, "work")
            os.makedirs(work, FOLDER_MODE, exist_ok=True)
            old_record = os.path.join(job.folder, "exit.json")
            if os.path.exists(old_record):
                os.unlink(old_record)
            # One inside the other: the formatter would join them into a form that old interpreters refuse.
            with open(os.path.join(job.folder, "stdout"), "wb") as out:
                err = open(os.path.join(job.folder, "stderr"), "wb")  # noqa: SIM115
                try:
                    job.child = subprocess.Popen(
                        job.command,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        cwd=work,
                        env=self.environment(job, home),
                        start_new_session=True,
                        preexec_fn=die_with_the_pilot,
                    )
                finally:
                    err.close()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else ascii(error)
            why = "%s could not be started: %s" % (ascii(job.command[0])[:100], why)
            return self.record(job, "not_started", why, exit_code=127)
        self.jobs[job.key] = job
        return None

    def environment(self, job: "Job", home: str) -> Dict[str, str]:
        env = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        env.update(job.env)
        env.update(
            GLIDEPATH_JOB=str(job.id),
            GLIDEPATH_ATTEMPT=str(job.attempt),
            GLIDEPATH_PILOT=self.name,
            GLIDEPATH_HOME=home,
            GLIDEPATH_CPUS=str(-(-job.request[0] // 1000)),
            GLIDEPATH_MEMORY_MIB=str(job.request[1]),
            GLIDEPATH_GPUS=str(job.request[3]),
        )
        return env

    def record(
        self,
        job: "Job",
        how: str,
        reason: str,
        *,
        exit_code: Optional[int] = None,
        number: Optional[int] = None,
    ) -> Message:
        """Written down before anyone is told: what is on the disk never runs again."""
        record = {
            "job": job.id,
            "attempt": job.attempt,
            "pilot": self.name,
            "how": how,
            "exit_code": exit_code,
            "signal": number,
            "reason": reason[:400],
            "started_wall": job.started_wall,
            "ended_wall": time.time(),
        }
        back = how in ("given_back", "outlived")
        self.run += not back
        self.failed += not back and (how != "exited" or exit_code != 0)
        try:
            os.makedirs(job.folder, FOLDER_MODE, exist_ok=True)
            write_durably(os.path.join(job.folder, "exit.json"), record)
        except OSError as error:
            # A full disk: the server still hears of it, and writes it down in its own place.
            say("job %d: its exit record could not be written: %s" % (job.id, error))
        return record

    def reap(self) -> List[Message]:
        """The records of all jobs that have ended since the last look."""
        records = []
        for job in list(self.jobs.values()):
            status = job.child.poll() if job.child is not None else 1
            if status is None:
                continue
            del self.jobs[job.key]
            self.signal_group(job, signal.SIGKILL)  # What it left in the background goes with it.
            exit_code, number = (status, None) if status >= 0 else (None, -status)
            how, reason = "exited", "exit code %d" % status if status else ""
            if number:
                how, reason = "signalled", "ended by signal %d" % number
            if job.stop_how:
                how, reason = job.stop_how, STOP_REASONS[job.stop_how] % (job.run_s_max or 0)
            records.append(self.record(job, how, reason, exit_code=exit_code, number=number))
        return records

    def signal_group(self, job: "Job", number: int) -> None:
        try:
            if job.child is not None:
                os.killpg(job.child.pid, number)
        except OSError:
            pass  # The group is gone, which is all that was wanted.

    def stop(self, job: "Job", how: str, grace_s: float) -> None:
        if job.child is not None and job.child.poll() is not None:
            return  # It ended by itself just now, and that is what is written down.
        if job.stop_how and job.kill_at is not None and job.kill_at <= time.monotonic() + grace_s:
            return
        if not job.stop_how:
            job.stop_how = how
            self.signal_group(job, signal.SIGTERM)
        job.kill_at = time.monotonic() + grace_s

    def enforce(self, now: float) -> None:
        for job in self.jobs.values():
            if not job.stop_how and job.run_s_max and now >= job.started + job.run_s_max:
                self.stop(job, "timed_out", TERM_GRACE_S)
            if job.kill_at is not None and now >= job.kill_at:
                self.signal_group(job, signal.SIGKILL)
                job.kill_at = now + 1.0

    def next_at(self) -> Optional[float]:
        times = [job.kill_at for job in self.jobs.values() if job.kill_at is not None]
        times += [
            job.started + job.run_s_max for job in self.jobs.values() if job.run_s_max and not job.stop_how
        ]
        return min(times) if times else None


STOP_REASONS = {
    "timed_out": "stopped at its time limit of %d s",
    "cancelled": "cancelled by a user%.0s",
    "given_back": "given back by a stopping pilot%.0s",
    "outlived": "stopped when its pilot reached the end of its lifetime%.0s",
}


class EmbeddedPool:
    """The conversation with the embedded pool: lines of JSON over a socket of this machine.

    Another kind of pool is another class with `sync`, `read`, `flush`, `connected` and `refused`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.sock: Optional[socket.socket] = None
        self.joined = False
        self.ever_joined = False
        self.refused = ""
        self.home = ""
        self.unheard_since = time.monotonic()
        self.retry_at = 0.0
        self.retry_s = RETRY_S_MIN
        self.inbox = b""
        self.outbox = b""
        # Since when a pull is out, and since when another answer is owed.
        self.asked_at: Optional[float] = None
        self.sent_at = 0.0
        self.owed_since: Optional[float] = None
        self.unreported: List[Message] = []
        self.reported: Set[Key] = set()
        self.said_bye = False

    def connect(self, now: float, hello: Message) -> None:
        if now < self.retry_at:
            return
        self.retry_s = min(self.retry_s * 2, RETRY_S_MAX)
        self.retry_at = now + self.retry_s
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(2.0)
            self.reach(sock)
            sock.setblocking(False)
        except OSError:
            sock.close()
            return
        self.sock, self.inbox, self.outbox = sock, b"", b""
        self.joined, self.asked_at = False, None
        self.reported = set()
        self.send(now, hello)

    def reach(self, sock: socket.socket) -> None:
        path = self.args.socket
        if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
            sock.connect(path)
            return
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            sock.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
        finally:
            os.close(folder)

    def drop(self, now: float) -> None:
        if self.sock is not None:
            self.sock.close()
            if self.joined:
                say("the server is not reached; jobs go on, and it is tried again")
        if self.joined:
            self.unheard_since = now
        self.sock, self.joined, self.asked_at, self.owed_since = None, False, None, None
        self.reported = set()

    def send(self, now: float, message: Message) -> None:
        self.outbox += json.dumps(message).encode() + b"\n"
        self.sent_at = now
        if message["op"] != "pull" and self.owed_since is None:
            self.owed_since = now
        self.flush(now)

    def flush(self, now: float) -> None:
        try:
            while self.sock is not None and self.outbox:
                self.outbox = self.outbox[self.sock.send(self.outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self.drop(now)

    def read(self, now: float) -> List[Message]:
        """The messages that have come; a line that is too long or not JSON ends the connection."""
        messages = []
        try:
            while self.sock is not None:
                piece = self.sock.recv(1 << 16)
                self.inbox += piece
                if not piece or len(self.inbox) > LINE_BYTES_MAX:
                    self.drop(now)
                    break
                if len(piece) < 1 << 16:
                    break
        except BlockingIOError:
            pass
        except OSError:
            self.drop(now)
        *lines, self.inbox = self.inbox.split(b"\n")
        try:
            messages = [json.loads(line.decode()) for line in lines]
        except ValueError:
            self.drop(now)
        if messages:
            self.unheard_since, self.owed_since = now, None
        return [message for message in messages if isinstance(message, dict)]

    def report(self, now: float, beat: Message) -> None:
        """Tell the server of all ends that it has not yet acknowledged."""
        fresh = [one for one in self.unreported if (one["job"], one["attempt"]) not in self.reported]
        for start in range(0, len(fresh), RECORDS_MAX):
            batch = fresh[start : start + RECORDS_MAX]
            self.reported.update((one["job"], one["attempt"]) for one in batch)
            self.send(now, dict(beat, op="done", records=batch))
            if self.sock is None:
                return

    def acknowledged(self, keys: Iterable[Any]) -> None:
        gone = {tuple(key) for key in keys}
        # A store that was lost begins to count again: the same numbers may come back as another job.
        self.reported -= gone
        self.unreported = [one for one in self.unreported if (one["job"], one["attempt"]) not in gone]

    def overdue(self, now: float) -> bool:
        late = self.owed_since is not None and now - self.owed_since > ANSWER_S_MAX
        return late or (self.asked_at is not None and now - self.asked_at > ANSWER_S_MAX)


class Pilot:
    """The life of one pilot: join, pull, run, leave."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.size = [args.cpus_milli, args.memory_mib, args.disk_mib, args.gpus]
        self.runner = Runner(args.name)
        self.pool = EmbeddedPool(args)
        self.born = self.idle_since = self.counted_at = time.monotonic()
        self.busy_s = self.idle_s = 0.0
        self.signals: List[int] = []
        self.draining = False
        self.stopping = ""
        self.leave_by: Optional[float] = None
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)

    def left_s(self, now: float) -> int:
        return max(0, int(self.born + self.args.lifetime_s - now))

    def listen(self) -> None:
        """Signals only leave a note and wake the loop; the loop alone acts."""
        signal.set_wakeup_fd(self.wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: self.signals.append(number))
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def live(self) -> str:
        why = ""
        while not why:
            now = time.monotonic()
            self.heed_signals(now)
            self.count(now)
            self.pool.unreported += self.runner.reap()
            self.runner.enforce(now)
            self.talk(now)
            why = self.why_leave(now)
            if not why:
                self.wait(now)
        return why

    def count(self, now: float) -> None:
        if self.runner.jobs:
            self.busy_s += now - self.counted_at
            self.idle_since = now
        else:
            self.idle_s += now - self.counted_at
        self.counted_at = now

    def heed_signals(self, now: float) -> None:
        noted, self.signals = self.signals, []
        for number in noted:
            # A controller may forget that it asked and repeat SIGUSR1; SIGTERM twice is a person in a hurry.
            if number == signal.SIGINT or (number == signal.SIGTERM and self.draining):
                self.stop_all(now, "stopped", STOP_GRACE_S)
            elif not self.draining:
                self.draining = True
                if self.pool.joined:
                    self.pool.send(now, self.beat(now))
        if self.left_s(now) <= 0:
            self.stop_all(now, "lifetime", TERM_GRACE_S)

    def stop_all(self, now: float, why: str, grace_s: float) -> None:
        self.draining = True
        if not self.stopping or why == "stopped" != self.stopping:
            self.stopping = why
            self.leave_by = now + grace_s + LEAVE_S_MAX - STOP_GRACE_S
            how = "outlived" if why == "lifetime" else "given_back"
            for job in self.runner.jobs.values():
                self.runner.stop(job, how, grace_s)

    def hello(self, now: float) -> Message:
        holds = [list(key) for key in self.runner.jobs]
        holds += [[one["job"], one["attempt"]] for one in self.pool.unreported]
        return dict(
            self.beat(now),
            op="hello",
            pilot=self.args.name,
            pool=self.args.pool,
            size=self.size,
            traits=self.args.trait,
            holds=holds,
        )

    def beat(self, now: float) -> Message:
        return {
            "op": "beat",
            "left_s": self.left_s(now),
            "draining": self.draining,
            "jobs_run": self.runner.run,
            "jobs_failed": self.runner.failed,
        }

    def talk(self, now: float) -> None:
        pool = self.pool
        if pool.sock is None:
            pool.connect(now, self.hello(now))
        if pool.sock is not None and pool.overdue(now):
            pool.drop(now)
        if pool.sock is None or not pool.joined:
            return
        pool.report(now, self.beat(now))
        left_min = min(LEFT_S_MIN, self.args.lifetime_s / 10.0)
        if pool.sock is None:
            return
        if pool.asked_at is None and not self.draining and self.left_s(now) > left_min and self.has_room():
            pool.asked_at = now
            pool.send(now, {"op": "pull", "left_s": self.left_s(now)})
        elif now - pool.sent_at > BEAT_S:
            pool.send(now, self.beat(now))

    def has_room(self) -> bool:
        return bool(sum(job.request[0] for job in self.runner.jobs.values()) < self.size[0])

    def heed(self, now: float, message: Message) -> None:
        pool, kind = self.pool, message.get("re")
        if "error" in message:
            say("the server refused: %s" % ascii(message["error"])[:300])
            if not pool.joined:
                pool.refused = ascii(message["error"])[:300]
        elif kind == "hello":
            pool.joined, pool.ever_joined, pool.refused = True, True, ""
            pool.home, pool.retry_s = str(message["home"]), RETRY_S_MIN
            self.stop_told(message["stop"])
            say("joined the pool %s" % self.args.pool)
        elif kind == "job":
            self.begin(message["job"])
        elif kind == "pull":
            pool.asked_at = None
        elif kind == "done":
            pool.acknowledged(message["jobs"])
        elif kind == "stop":
            self.stop_told(message["jobs"])
        elif kind == "bye":
            pool.said_bye = True

    def begin(self, told: Message) -> None:
        job = Job(told, os.path.join(self.pool.home, "jobs"))
        if job.key in self.runner.jobs:
            return
        if self.draining:
            job.started_wall = time.time()
            self.pool.unreported.append(self.runner.record(job, "given_back", "the pilot leaves"))
            return
        record = self.runner.start(job, self.pool.home)
        if record:
            self.pool.unreported.append(record)

    def stop_told(self, keys: Iterable[Any]) -> None:
        for key in keys:
            job = self.runner.jobs.get(tuple(key))
            if job is not None:
                self.runner.stop(job, "cancelled", TERM_GRACE_S)

    def why_leave(self, now: float) -> str:
        pool, at_work = self.pool, bool(self.runner.jobs)
        if self.leave_by is not None and now >= self.leave_by:
            return self.stopping
        if at_work:
            return ""
        if not pool.joined and (pool.refused or now - pool.unheard_since > self.args.silence_s):
            return "refused" if pool.refused else "silence"
        if pool.unreported:
            return ""
        if self.stopping or self.draining:
            return self.stopping or "drained"
        return "idle" if now - self.idle_since >= self.args.idle_s and pool.joined else ""

    def wait(self, now: float) -> None:
        pool = self.pool
        until = [now + LOOP_S_MAX, self.runner.next_at(), self.leave_by, self.born + self.args.lifetime_s]
        until.append(max(pool.retry_at, now + 0.01) if pool.sock is None else pool.sent_at + BEAT_S)
        if not self.runner.jobs and pool.joined:
            until.append(self.idle_since + self.args.idle_s)
        at = min(time_at for time_at in until if time_at is not None and time_at > now)
        if self.signals:
            at = now
        self.listen_once(max(0.005, at - time.monotonic()))

    def listen_once(self, limit_s: float) -> None:
        pool = self.pool
        reads = [self.wake_read] + ([pool.sock] if pool.sock is not None else [])
        writes = [pool.sock] if pool.sock is not None and pool.outbox else []
        ready, writable, _ = select.select(reads, writes, [], limit_s)
        if self.wake_read in ready:
            os.read(self.wake_read, 4096)
        now = time.monotonic()
        if writable:
            pool.flush(now)
        if pool.sock is not None and pool.sock in ready:
            for message in pool.read(now):
                try:
                    self.heed(now, message)
                except (KeyError, TypeError, ValueError) as error:
                    say("a message of the server was not understood: %s" % ascii(error))
                    pool.drop(now)

    def leave(self, why: str) -> None:
        """Say goodbye where somebody listens; what is not acknowledged stays on the disk."""
        until = time.monotonic() + BYE_WAIT_S
        for job in self.runner.jobs.values():
            self.runner.signal_group(job, signal.SIGKILL)
        if self.pool.joined:
            self.pool.send(time.monotonic(), {"op": "bye", "why": why})
        while self.pool.sock is not None and not self.pool.said_bye and time.monotonic() < until:
            self.listen_once(0.2)
        self.count(time.monotonic())
        summary = {
            "name": self.args.name,
            "why": why + (": " + self.pool.refused if self.pool.refused else ""),
            "ok": self.pool.ever_joined or why in ("stopped", "drained"),
            "jobs_run": self.runner.run,
            "jobs_failed": self.runner.failed,
            "busy_s": int(self.busy_s),
            "idle_s": int(self.idle_s),
            "unreported": len(self.pool.unreported),
        }
        write_durably(os.path.join(self.args.folder, "summary.json"), summary)
        sys.stdout.write(json.dumps(summary) + "\n")
        sys.stdout.flush()
        if self.pool.sock is not None:
            self.pool.sock.close()


def arguments(argv: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="glidepath_pilot", description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--cpus-milli", type=int, default=1000)
    parser.add_argument("--memory-mib", type=int, default=1024)
    parser.add_argument("--disk-mib", type=int, default=0)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--trait", action="append", default=[], help="`name=value`, may be repeated")
    parser.add_argument("--lifetime-s", type=float, default=14 * 3600.0)
    parser.add_argument("--idle-s", type=float, default=600.0)
    parser.add_argument("--silence-s", type=float, default=120.0)
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    args = parser.parse_args(argv)
    if not NAME.fullmatch(args.name):
        parser.error("the name must be small letters, digits, `-` and `.`")
    args.trait = [trait.partition("=")[::2] for trait in args.trait]
    args.folder = os.path.abspath(args.folder)
    return args


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


def main(argv: Optional[List[str]] = None) -> int:
    args = arguments(argv)
    lock = take_lock(args.folder)
    if lock is None:
        say("another process is the pilot %s already" % args.name)
        return 0
    tell = None
    if args.detach:
        tell = detach()
        if tell is None:
            return 0
    pilot = Pilot(args)
    pilot.listen()  # Before the lock names us: whoever reads it may send a signal at once.
    os.ftruncate(lock, 0)
    os.pwrite(lock, ("%d %s\n" % (os.getpid(), start_of(os.getpid()))).encode(), 0)
    if tell is not None:
        os.close(tell)
    pilot.leave(pilot.live())
    return 0


if __name__ == "__main__":
    sys.exit(main())
