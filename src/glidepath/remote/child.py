"""One child at a time: words and standard input come in, its end goes out, whatever it does meanwhile.

It has a session of its own and is ended with its whole group at its limit. What it prints is kept up to a
bound; what it is given is written as it reads. It refuses to know what is said.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glidepath.remote.runner import OUT_BYTES_MAX

CHUNK_BYTES = 1 << 16
# How long a child may take to obey before it is killed.
OBEY_S = 2.0
# How long a child may stay once it has said its last word: what holds its pipes is none of ours.
SETTLE_S = 1.0
# How often it is looked whether a child has ended, where the kernel does not tell.
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. No code: it was ended at its limit, or with it something that held it up."""

    code: int | None
    out: bytes = b""
    err: bytes = b""
    cut: bool = False  # more came than is kept
    fed: bool = True  # whether it was told anything; false while it had not said the word that it waits for


@dataclass(frozen=True, slots=True)
class Marks:
    """Words of a child that mean something: after `begin` it is fed, with `end` it has said everything."""

    begin: bytes
    end: bytes


class Kept:
    """What came out of one pipe: the first bytes up to a bound, and whether a word was among all of them."""

    def __init__(self, bytes_max: int) -> None:
        self.head, self.cut = bytearray(), False
        self._bytes_max, self._edge = bytes_max, b""

    def add(self, chunk: bytes, word: bytes) -> bool:
        """Whether the word is complete with this chunk; it may be beyond what is kept."""
        room = self._bytes_max - len(self.head)
        self.head += chunk[:room]
        # The word itself need not be kept: a cut answer is known by what is missing.
        self.cut = self.cut or len(chunk) > room
        if not word:
            return False
        seen = self._edge + chunk
        self._edge = seen[-(len(word) - 1) :] if len(word) > 1 else b""
        return word in seen


class _Talk:
    """The conversation with one child, from its start to its end."""

    def __init__(self, child: subprocess.Popen[bytes], given: bytes, marks: Marks | None) -> None:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        self.child, self.marks = child, marks
        self.given = memoryview(given)
        self.fed = marks is None
        self.kept = {child.stdout: Kept(OUT_BYTES_MAX), child.stderr: Kept(OUT_BYTES_MAX)}
        self.last_words = 0
        self.selector = selectors.DefaultSelector()
        for pipe in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(pipe.fileno(), False)
        for source in self.kept:
            self.selector.register(source, selectors.EVENT_READ, self._read)
        self.watch = _watched(child.pid)
        if self.watch is not None:
            self.selector.register(self.watch, selectors.EVENT_READ, lambda _: None)
        if self.fed:
            self._feed_from_now()

    def until(self, deadline: float) -> bool:
        """Whether the child ended by itself before that."""
        while (left := deadline - time.monotonic()) > 0:
            if _over(self.child.pid):
                return True
            wait_s = left if self.watch is not None else min(left, LOOK_S)
            for key, _ in self.selector.select(wait_s):
                key.data(key.fileobj)
            if self.last_words == len(self.kept):
                deadline = min(deadline, time.monotonic() + SETTLE_S)
                self.last_words = 0
        return _over(self.child.pid)

    def drained(self) -> None:
        """What the child itself wrote is in the pipes by now; who else holds them is not waited for."""
        for source in self.kept:
            bytes_left = OUT_BYTES_MAX
            while source in self.selector.get_map() and bytes_left > 0:
                count = self._read(source)
                bytes_left -= count
                if not count:
                    break

    def close(self) -> None:
        self.selector.close()
        if self.watch is not None:
            os.close(self.watch)
        for pipe in (self.child.stdin, *self.kept):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # Standard input that nobody read; it is closed all the same.

    def _feed_from_now(self) -> None:
        assert self.child.stdin
        if self.given:
            self.selector.register(self.child.stdin, selectors.EVENT_WRITE, self._write)
        else:
            self.child.stdin.close()

    def _write(self, pipe: object) -> None:
        assert self.child.stdin
        try:
            count = os.write(self.child.stdin.fileno(), self.given[:CHUNK_BYTES])
        except BlockingIOError:
            return
        except OSError:
            count = len(self.given)  # It reads no more, which is its own affair.
        self.given = self.given[count:]
        if not self.given:
            self.selector.unregister(self.child.stdin)
            try:
                self.child.stdin.close()
            except OSError:
                pass

    def _read(self, pipe: object) -> int:
        source = next(each for each in self.kept if each is pipe)
        try:
            chunk = os.read(source.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not chunk:
            self.selector.unregister(source)
            return 0
        kept = self.kept[source]
        marks = self.marks
        if marks is None:
            kept.add(chunk, b"")
            return len(chunk)
        begins = not self.fed and source is self.child.stdout
        if kept.add(chunk, marks.end):
            self.last_words += 1
        if begins and marks.begin in kept.head:
            self.fed = True
            self._feed_from_now()
        return len(chunk)


def ended(
    argv: Sequence[str],
    *,
    given: bytes,
    limit_s: float,
    environ: Mapping[str, str],
    marks: Marks | None = None,
) -> Ended:
    """Starts the child and stays with it to its end. Raises OSError where it cannot be started."""
    deadline = time.monotonic() + limit_s
    child = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
        bufsize=0,
    )
    talk = _Talk(child, given, marks)
    in_time = False
    try:
        in_time = talk.until(deadline)
    finally:
        if not in_time:
            _end(child.pid)
        child.wait()
        talk.drained()
        talk.close()
    out, err = talk.kept.values()
    code = child.returncode if in_time else None
    return Ended(code, bytes(out.head), bytes(err.head), out.cut or err.cut, talk.fed)


def _over(pid: int) -> bool:
    """Whether the child has ended; it is not reaped, so that its number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(pid: int) -> None:
    """Ends the whole group; the child is not reaped before, so that no stranger has its number."""
    _tell(pid, signal.SIGTERM)
    obeyed_until = time.monotonic() + OBEY_S
    while not _over(pid) and time.monotonic() < obeyed_until:
        time.sleep(LOOK_S)
    _tell(pid, signal.SIGKILL)


def _tell(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # All of it is gone, or became somebody else's.


def _watched(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # Not this kernel; it is looked at now and then.
