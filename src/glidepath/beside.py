"""The demand server beside the controllers: a process of its own, started again when it dies.

It ends by itself when we are gone: it reads a pipe of which we hold the other end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

# A server that dies at once, for example because its port is taken, is not started in a tight circle.
AGAIN_S = 10.0
END_S_MAX = 8.0
LOG = "serve.log"
LOG_BYTES_MAX = 1 << 20


class Beside:
    """`keep` starts it where it does not run and should; `stop` ends it. Both bear repeating."""

    def __init__(self, home: Path, config: Path | None, say: Callable[[str], None]) -> None:
        self.command = [sys.executable, "-m", "glidepath", "serve", "--until-eof", "--home", str(home)]
        if config is not None:
            self.command += ["--config", str(config)]
        self.log = home / LOG
        self._say = say
        self._child: subprocess.Popen[bytes] | None = None
        self._listen = ""
        self._started_at = 0.0

    def keep(self, listen: str | None) -> None:
        if self._child is not None and (self._child.poll() is not None or listen != self._listen):
            code = self._child.poll()
            self.stop()
            if code is not None:
                self._say(
                    f"the demand server ended with exit code {code}; it is started again, see `{self.log}`"
                )
        if self._child is None and listen and time.monotonic() - self._started_at > AGAIN_S:
            self._started_at = time.monotonic()
            self._listen = listen
            with self._log() as log:
                self._child = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )

    def _log(self) -> BinaryIO:
        """What the server says has no place in the live picture of the controllers."""
        try:
            fresh = self.log.stat().st_size > LOG_BYTES_MAX
        except FileNotFoundError:
            fresh = True
        descriptor = os.open(
            self.log, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND), 0o600
        )
        return os.fdopen(descriptor, "wb")

    def stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(END_S_MAX)
