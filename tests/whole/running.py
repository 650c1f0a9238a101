"""A real `glidepath up` under test: started as a person would, read line by line, and never left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 300.0
POLL_S = 0.05
# Fast enough to see pilots come and go within a test.
CONFIG = """
[cycle]
min = "1s"
max = "3s"
deadline = "10s"

[policy]
name = "steady"
release_after = "3s"

[pilots]
withdraw_after = "5s"
left_min = "10s"
useful_min = "30s"

{store}
[pools.local]
kind = "embedded"
stale_after = "30s"

[sites.here]
kind = "local"
{site}

[sites.here.offers.worker]
cpus = 1
memory = "1GiB"
disk = "1GiB"
lifetime = "4h"
idle = "20s"
limits = {{ live_max = {live_max} }}
"""


def config_text(*, live_max: int = 2, store: str = "", site: str = "") -> str:
    return CONFIG.format(live_max=live_max, store=f'[store]\nurl = "{store}"\n' if store else "", site=site)


class Running:
    """One `glidepath up --plain`, with everything that it has said so far."""

    def __init__(self, home: Path, *words: str, **environ: str) -> None:
        self.home = home
        command = [sys.executable, "-m", "glidepath", "up", "--home", str(home), "--plain", *words]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, pattern: str, *, times: int = 1, since: int = 0) -> None:
        until(
            lambda: len(re.findall(pattern, "\n".join(self.lines[since:]))) >= times,
            lambda: f"`{pattern}` {times} times in:\n{self.text}",
        )

    def wait_end(self, *, within_s: float = WAIT_S) -> int:
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within_s:g} s:\n{self.text}") from None
        self._reader.join(WAIT_S)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def until(true: Callable[[], bool], what: str | Callable[[], str], *, within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_S)


def left_behind(home: Path) -> list[str]:
    """Processes that have anything to do with this home: pilots, and jobs by the variable they carry."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(home) in words:
            found.append(f"{folder.name}: {words[:200]!r}")
    return found


@contextmanager
def house() -> Iterator[Path]:
    """A home in a short path (sockets have short names), empty of processes and gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    try:
        yield home
        until(lambda: not left_behind(home), f"processes left: {left_behind(home)}", within_s=10)
    finally:
        for line in left_behind(home):
            os.kill(int(line.split(":", 1)[0]), signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def glidepath(home: Path, *words: str, code: int = 0, **more: str) -> str:
    """A command of ours in this home; its stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "glidepath", *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "GLIDEPATH_HOME": str(home), **more},
        check=False,
    )
    assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr
