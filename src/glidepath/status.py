"""The last cycle, served from memory on a unix socket: status is there also when the store cannot be written.

An entry comes in after each decision, its JSON goes out to whoever of the same user asks. One answer per
connection; nothing can be changed through it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

from glidepath.journal.codec import decode, encode
from glidepath.journal.entry import Entry

LIMIT_S = 2.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
# The kernel's own bound on the path of a socket, less the closing zero.
PATH_BYTES_MAX = 107


def socket_path(home: Path, *, shadow: bool = False) -> Path:
    return home / ("shadow.sock" if shadow else "status.sock")


class StatusServer:
    """Serves one home. `start` opens, `stop` closes and removes the socket."""

    def __init__(self, home: Path, *, shadow: bool = False) -> None:
        self.path = socket_path(home, shadow=shadow)
        self.trouble = ""
        self._entry: Entry | None = None
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def publish(self, entry: Entry) -> None:
        self._entry = entry

    def start(self) -> None:
        if len(os.fsencode(self.path)) > PATH_BYTES_MAX:
            return  # Readers then use the journal alone; a long home is no reason not to start.
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        self.path.chmod(0o600)
        listener.listen(8)
        self._listener = listener
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._listener is None:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(LIMIT_S)
        self._listener.close()
        self._listener = None
        self.path.unlink(missing_ok=True)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return  # Closed by `stop`.
            with peer:
                peer.settimeout(LIMIT_S)
                try:
                    peer.sendall(self._answer())
                except OSError:
                    continue  # A reader that went away is nobody's trouble.

    def _answer(self) -> bytes:
        entry = self._entry
        body = None if entry is None else encode(Entry, entry)
        return json.dumps({"trouble": self.trouble, "entry": body}).encode()


def fetch(home: Path) -> tuple[Entry | None, str] | None:
    """The entry and the trouble of a running glidepath; None where none answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(LIMIT_S)
        try:
            asking.connect(str(socket_path(home)))
            text = _read_all(asking)
        except OSError:
            return None
    try:
        told = json.loads(text)
        entry = None if told["entry"] is None else decode(Entry, told["entry"])
        return entry, str(told["trouble"])
    except (ValueError, KeyError, TypeError):
        return None


def _read_all(asking: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= ANSWER_BYTES_MAX:
        part = asking.recv(1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise OSError("the answer is too long")
