"""The pulse of a running glidepath: its loop says what it does and for how long that may take; probes ask.

A beat is kept in memory and told on a unix socket of the home by a thread of its own, so that a full disk is
no death and a loop that hangs is noticed. One that stands by beats too. Nothing else is imported here: a
kubelet asks every few seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ASK_S_MAX = 5.0
ANSWER_BYTES_MAX = 4096
# The kernel's own bound on the path of a socket, less the closing zero.
PATH_BYTES_MAX = 107


@dataclass(frozen=True, slots=True)
class Beat:
    """What the loop said last, how long ago, and how long it may be silent after that."""

    doing: str
    ago_s: float
    within_s: float

    @property
    def late(self) -> bool:
        return self.ago_s > self.within_s


def pulse_path(home: Path) -> Path:
    return home / "pulse.sock"


class Pulse:
    """`start` opens, `stop` closes and removes the socket; `beat` costs next to nothing and never fails."""

    def __init__(self, home: Path, *, steady: Callable[[], float] = time.monotonic) -> None:
        self.path = pulse_path(home)
        self._steady = steady
        self._last = ("starting", steady(), 0.0)
        self._listener: socket.socket | None = None
        self._own = 0

    def beat(self, doing: str, within_s: float) -> None:
        self._last = (doing, self._steady(), within_s)

    def start(self, *, owner: bool = False) -> None:
        """Where another of this home tells its own, it is left alone, unless we own the store."""
        if self._listener is not None or len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            return  # A long home is no reason not to start; whoever asks is told.
        if not owner and _answered(self.path):
            return
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self.path.chmod(0o600)
        self._listener.listen(8)
        self._own = self.path.stat().st_ino
        threading.Thread(target=self._serve, args=(self._listener,), name="pulse", daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            with contextlib.suppress(OSError):
                if self.path.stat().st_ino == self._own:
                    self.path.unlink()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return  # Closed by `stop`.
            doing, at, within_s = self._last
            told = {"doing": doing, "ago_s": self._steady() - at, "within_s": within_s}
            with peer:
                peer.settimeout(ASK_S_MAX)
                try:
                    peer.sendall(json.dumps(told).encode())
                except OSError:
                    continue  # Who asked went away, which is nobody's trouble.


def _answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ASK_S_MAX)
        try:
            asking.connect(str(path))
        except OSError:
            return False
        return True


def ask(home: Path, *, limit_s: float = ASK_S_MAX) -> Beat:
    """The last beat of the glidepath of this home. Raises OSError with what is wrong."""
    path = pulse_path(home)
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise OSError(f"the path of the home is too long for a socket (`{path}`); choose a shorter one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(limit_s)
        try:
            asking.connect(str(path))
            answer = b""
            while len(answer) <= ANSWER_BYTES_MAX and (part := asking.recv(ANSWER_BYTES_MAX)):
                answer += part
        except (FileNotFoundError, ConnectionRefusedError):
            raise OSError(f"no glidepath runs in `{home}`") from None
        except TimeoutError:
            raise OSError(f"the glidepath in `{home}` does not answer within {limit_s:g} s") from None
    try:
        told = json.loads(answer)
        return Beat(str(told["doing"])[:200], float(told["ago_s"]), float(told["within_s"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise OSError(f"what answers in `{home}` is no glidepath") from None
