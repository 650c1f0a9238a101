"""Children that may hang: questions go out as one line of JSON, answers come back as one, each by a deadline.

A child that is late, ends, floods or talks nonsense is killed with its whole group, and the question ends in
an error; the next one starts a new child. It refuses to know what is asked.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from glidepath.condor.child import MARK_BYTES, MARKS
from glidepath.core.text import one_line

# One for each collector and schedd of all pools; each takes about 40 MB, and far more while it reads.
CHILDREN_MAX = 32
ANSWER_BYTES_MAX = 64 << 20
READ_BYTES = 1 << 20
# A killed child is gone at once; one in an uninterruptible call of a dead file system may stay.
REAP_S_MAX = 2.0
COMMAND = (sys.executable, "-I", "-m", "glidepath.condor.child")


class ChildError(RuntimeError):
    """The child answered that it could not."""


class Child:
    """One process and its pipes. Not for two threads at a time."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        marks = os.memfd_create("glidepath-mark")
        try:
            os.ftruncate(marks, MARKS * MARK_BYTES)
            self._marks = mmap.mmap(marks, MARKS * MARK_BYTES)
            self._run = subprocess.Popen(
                [*command, str(marks)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(environ),
                cwd="/",
                start_new_session=True,
                pass_fds=(marks,),
                bufsize=0,
            )
        finally:
            os.close(marks)
        assert self._run.stdin is not None
        assert self._run.stdout is not None
        self._in, self._out = self._run.stdin.fileno(), self._run.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._left = b""

    def ask(self, message: bytes, deadline: float) -> bytes:
        self._write(message, deadline)
        return self._read(deadline)

    def _write(self, message: bytes, deadline: float) -> None:
        view = memoryview(message)
        while view:
            if not select.select([], [self._in], [], max(0.0, deadline - time.monotonic()))[1]:
                raise TimeoutError("the child did not take the question in time")
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._in, view) :]

    def _read(self, deadline: float) -> bytes:
        parts, size = [self._left], len(self._left)
        while b"\n" not in parts[-1]:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._out], [], [], left_s)[0]:
                raise TimeoutError("no answer in time")
            part = os.read(self._out, READ_BYTES)
            if not part:
                raise OSError("the child ended")
            parts.append(part)
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise OSError(f"the child answered more than {ANSWER_BYTES_MAX >> 20} MiB")
        line, _, self._left = b"".join(parts).partition(b"\n")
        return line

    def marks(self) -> tuple[str, ...]:
        """What the child was busy with, in its own words."""
        page = bytes(self._marks)
        found = (page[at : at + MARK_BYTES] for at in range(0, len(page), MARK_BYTES))
        words = (part.split(b"\0", 1)[0].decode("utf-8", "replace") for part in found)
        return tuple(word for word in words if word)

    def stop(self) -> None:
        """Ends the process and its group; whoever is asking sees the end of its pipe."""
        if self._run.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._run.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.stop()
        for pipe in (self._run.stdin, self._run.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._run.wait(REAP_S_MAX)
        self._marks.close()


class Seat:
    """The place of one child: who asks holds the lock, and who is about to ask is counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.child: Child | None = None
        self.asked_at = 0.0


class Workers:
    """Children by name, started with the first question, bounded in number."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        command: Sequence[str] = COMMAND,
        children_max: int = CHILDREN_MAX,
    ) -> None:
        self._environ, self._command, self._children_max = environ, tuple(command), children_max
        self._seats: dict[str, Seat] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.marks: dict[
            str, tuple[str, ...]
        ] = {}  # by name of child: what it was busy with when it was killed

    def ask(self, name: str, question: Mapping[str, Any], *, limit_s: float) -> dict[str, Any]:
        """The answer of that child. Raises OSError, TimeoutError, or ChildError in the child's own words."""
        deadline = time.monotonic() + limit_s
        seat = self._seat(name)
        try:
            if not seat.lock.acquire(timeout=limit_s):
                raise TimeoutError(f"{name}: still busy with the last question after {limit_s:g} s")
            try:
                return self._asked(name, seat, question, deadline, limit_s=limit_s)
            finally:
                seat.lock.release()
        finally:
            with self._lock:
                seat.users -= 1

    def _asked(
        self, name: str, seat: Seat, question: Mapping[str, Any], deadline: float, *, limit_s: float
    ) -> dict[str, Any]:
        line = json.dumps({**question, "limit_s": limit_s}).encode() + b"\n"
        try:
            if seat.child is None:
                seat.child = Child(self._command, self._environ)
            # Only now: whoever closes has either seen this child or was seen here.
            if self._closed:
                raise OSError("this pool is closed")
            answer = json.loads(seat.child.ask(line, deadline))
            if not isinstance(answer, dict):
                raise ValueError("the child talks nonsense")
        except (OSError, ValueError) as error:
            self._end(name, seat)
            said = (
                f"no answer within {limit_s:g} s" if isinstance(error, TimeoutError) else one_line(str(error))
            )
            kind = TimeoutError if isinstance(error, TimeoutError) else OSError
            raise kind(f"{name}: {said}") from None
        if "error" in answer:
            raise ChildError(f"{name}: {one_line(str(answer['error']))}")
        return answer

    def _end(self, name: str, seat: Seat) -> None:
        if seat.child is not None:
            self.marks[name] = seat.child.marks()
            seat.child.kill()
            seat.child = None

    def _seat(self, name: str) -> Seat:
        with self._lock:
            if self._closed:
                raise OSError("this pool is closed")
            if name not in self._seats and len(self._seats) >= self._children_max:
                self._make_room()
            seat = self._seats.setdefault(name, Seat())
            seat.asked_at = time.monotonic()
            seat.users += 1
            return seat

    def _make_room(self) -> None:
        """Ends the child that has been idle for longest."""
        for name, seat in sorted(self._seats.items(), key=lambda item: item[1].asked_at):
            if not seat.users:
                self._end(name, seat)
                del self._seats[name]
                return
        raise OSError(f"all {self._children_max} children are busy")

    def close(self) -> None:
        """Ends all of them, also those that are being asked."""
        with self._lock:
            self._closed = True
            seats, self._seats = self._seats, {}
        for name, seat in seats.items():
            child = seat.child
            if child is not None:
                child.stop()
            # Whoever was asking has seen the end by now and gives the seat up.
            if seat.lock.acquire(timeout=REAP_S_MAX):
                try:
                    self._end(name, seat)
                finally:
                    seat.lock.release()
