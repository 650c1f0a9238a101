"""A nudge: whoever wrote something down pokes whoever waits for it, on a datagram socket of the home.

It says nothing, so that nobody can say anything wrong by it: who is woken looks into the store. Where there
is no such socket (another host, a home with a long path) nobody is poked, and the store is looked at anyway.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from glidepath.pulse import PATH_BYTES_MAX

# After each nudge the next ones wait for so long: a stream of them wakes no more often than this.
PAUSE_S = 0.005


def nudge_path(home: Path) -> Path:
    return home / "nudge.sock"


def nudge(home: Path) -> None:
    """Poke whoever listens in this home, if somebody does. Never fails, never waits."""
    path = nudge_path(home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as poking, contextlib.suppress(OSError):
        poking.setblocking(False)
        # A socket that is full has nudges in it already.
        poking.sendto(b"", str(path))


class Nudges:
    """Listens for nudges: `start` opens, `stop` closes and removes the socket. Only the store's owner may."""

    def __init__(self, home: Path, woken: Callable[[], None]) -> None:
        self.path = nudge_path(home)
        self._woken = woken
        self._socket: socket.socket | None = None
        self._stopped = threading.Event()

    @property
    def listening(self) -> bool:
        return self._socket is not None

    def start(self) -> None:
        """Where it cannot be had nothing is lost but time, and `listening` stays false."""
        if self._socket is not None or len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            return
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.path.unlink(missing_ok=True)
            made.bind(str(self.path))
            self.path.chmod(0o600)
        except OSError:
            made.close()
            return
        self._socket = made
        threading.Thread(target=self._listen, args=(made,), name="nudges", daemon=True).start()

    def stop(self) -> None:
        if self._socket is not None:
            self._stopped.set()
            # The listener may have been between two nudges, and has left by itself.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket = None
            self.path.unlink(missing_ok=True)

    def _listen(self, listening: socket.socket) -> None:
        with listening:
            while not self._stopped.is_set():
                try:
                    listening.recv(1)
                except OSError:
                    return
                self._woken()
                self._stopped.wait(PAUSE_S)
