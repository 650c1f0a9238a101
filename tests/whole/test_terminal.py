"""What a person at a terminal sees of `make run`, read from a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pyte

COLUMNS, ROWS = 120, 48
SCREEN_S_MAX = 60.0


class Terminal:
    """A command on a pseudo-terminal and the screen that it paints."""

    def __init__(self, *words: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(
                sys.executable,
                [sys.executable, "-m", "glidepath", *words],
                {**os.environ, "TERM": "xterm-256color"},
            )
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self) -> bool:
        """What has been painted since; false at the end."""
        ready, _, _ = select.select([self.fd], [], [], 0.2)
        if not ready:
            return True
        try:
            painted = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.stream.feed(painted)
        return bool(painted)

    def wait_for(self, *words: str) -> None:
        deadline = time.monotonic() + SCREEN_S_MAX
        while not all(word in self.text for word in words):
            assert self.read(), f"ended before {words}:\n{self.text}"
            assert time.monotonic() < deadline, f"not in time: {words}:\n{self.text}"

    def end(self) -> int:
        deadline = time.monotonic() + SCREEN_S_MAX
        while self.read():
            assert time.monotonic() < deadline, f"does not end:\n{self.text}"
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_the_live_picture_shows_demand_pilots_jobs_and_reasons_and_ctrl_c_ends_it(home: Path) -> None:
    seen = Terminal("up", "--home", str(home), "--sample")
    seen.wait_for("DEMAND", "local: 0.25 CPU 128MiB", "OFFER", "here/worker", "WHY")
    seen.wait_for("PILOT", "busy", "JOB", "hello-1", "running")
    seen.wait_for("ask for 2 pilots at here/worker: pilots are asked for here")
    seen.wait_for("done", "exit code 0")
    os.kill(seen.pid, signal.SIGINT)
    assert seen.end() == 0
    assert "ended" in seen.text
