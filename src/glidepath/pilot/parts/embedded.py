"""The pilot of the embedded pool: joins, runs the jobs it is given within its size, and leaves by itself.

Lines of JSON over a socket of this machine come in and go out. It decides nothing about which job comes
first. One thread and one loop, so that starting a child is safe.
"""

import argparse
import json
import os
import select
import signal
import socket
import time
from typing import Any, Iterable, List, Optional, Set

from glidepath.pilot.parts.common import Bell, Message, leave_summary, say
from glidepath.pilot.parts.runner import TERM_GRACE_S, Job, Key, Runner

LINE_BYTES_MAX = 8 << 20  # One job with the longest command and environment, escaped, stays below this.
RECORDS_MAX = 100  # In one message, so that it stays far below what the server reads at once.
STOP_GRACE_S = 3.0
LEAVE_S_MAX = 5.0  # After being told to stop now: jobs are waited for until then, whatever still hangs.
BYE_WAIT_S = 1.0
BEAT_S = 10.0
ANSWER_S_MAX = 30.0  # A server that owes an answer for longer is taken for gone, and asked again.
RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
LOOP_S_MAX = 5.0
LEFT_S_MIN = 60.0
SIZE = (1000, 1024, 0, 0)  # Where nothing was told: one CPU.
SOCKET_PATH_MAX = 100  # The kernel takes 107 bytes; a longer path is reached through its folder.


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
        told = (args.cpus_milli, args.memory_mib, args.disk_mib, args.gpus)
        self.size = [default if one is None else one for one, default in zip(told, SIZE)]
        self.runner = Runner(args.name)
        self.pool = EmbeddedPool(args)
        self.born = self.idle_since = self.counted_at = time.monotonic()
        self.busy_s = self.idle_s = 0.0
        self.bell = Bell()
        self.draining = False
        self.stopping = ""
        self.leave_by: Optional[float] = None

    def left_s(self, now: float) -> int:
        return max(0, int(self.born + self.args.lifetime_s - now))

    def listen(self) -> None:
        self.bell.listen()

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
        for number in self.bell.noted():
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
        if self.bell.signals:
            at = now
        self.listen_once(max(0.005, at - time.monotonic()))

    def listen_once(self, limit_s: float) -> None:
        pool = self.pool
        reads = [self.bell.wake_read] + ([pool.sock] if pool.sock is not None else [])
        writes = [pool.sock] if pool.sock is not None and pool.outbox else []
        ready, writable, _ = select.select(reads, writes, [], limit_s)
        if self.bell.wake_read in ready:
            self.bell.heard()
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

    def leave(self, why: str) -> bool:
        """Say goodbye where somebody listens; what is not acknowledged stays on the disk.

        Returns whether all was well.
        """
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
        leave_summary(self.args.folder, summary, self.args.last_words)
        if self.pool.sock is not None:
            self.pool.sock.close()
        return bool(summary["ok"])
