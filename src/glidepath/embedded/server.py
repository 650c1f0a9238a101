"""The pool server: a thread that listens on a socket of this machine and speaks with the pilots.

Bytes come in, checked messages go to the desk, and what the desk answers goes out once it is durable. One
broken or hostile connection is closed and hurts no other. It refuses to know what a job is.
"""

from __future__ import annotations

import os
import selectors
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glidepath.embedded.desk import Desk, Said, Turn
from glidepath.embedded.wire import REQUEST_BYTES_MAX, Hello, line_of, read_message
from glidepath.pilot import remains
from glidepath.ports import Clock
from glidepath.store.engine import StoreError
from glidepath.store.jobs import Transactions

SOCKET_NAME = "pool.sock"
# The kernel takes 107 bytes; a longer path is reached through a descriptor of its folder.
SOCKET_PATH_MAX = 100
PEERS_MAX = 1024
# A pilot that does not read what it is told is closed and told again when it is back.
OUTBOX_BYTES_MAX = 64 << 20
READ_BYTES = 1 << 16
LOOK_S = 0.2
HOUSEKEEPING_S = 1.0
SILENCE_S_MAX = 60.0
STORE_RETRY_S = 1.0
STOP_S_MAX = 10.0


@dataclass(slots=True)
class Peer:
    """One connection and what is not yet read from it or sent to it."""

    number: int
    sock: socket.socket
    pid: int
    pid_start: str
    heard: float
    pilot: str = ""
    inbox: bytes = b""
    outbox: bytes = b""
    closing: bool = False


def socket_path(home: Path) -> Path:
    return home / SOCKET_NAME


class PoolServer:
    """Serves the pools of one home, each with the partitions whose jobs it takes.

    `start` opens everything, `stop` closes it; pilots live on.
    """

    def __init__(
        self,
        store: Transactions,
        home: Path,
        pools: Mapping[str, tuple[str, ...]],
        *,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._home = home
        self._on_change = on_change
        self._desk = Desk(store, Path(os.path.realpath(home)), dict(pools), clock)
        self._selector: selectors.BaseSelector | None = None
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._wake_read: socket.socket | None = None
        self._wake_write: socket.socket | None = None
        self._stopping = False
        self._peers: dict[int, Peer] = {}
        self._peer_last = 0
        self.trouble = ""  # the store's last complaint, empty when all is well

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Listen and recover what an earlier server left. Raises OSError where the socket cannot be had."""
        listener = _listening(self._home)
        self._listener, self._selector = listener, selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        for sock in (listener, self._wake_read, self._wake_write):
            sock.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, listener)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._wake_read)
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="pool-server", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at the store now: something was submitted or cancelled."""
        if self._wake_write is not None:
            try:
                self._wake_write.send(b"x")
            except BlockingIOError:
                pass  # It is being woken already.

    def stop(self) -> None:
        self._stopping = True
        self.wake()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)
        if self.alive:
            raise TimeoutError(f"the pool server did not stop within {STOP_S_MAX:g} s")
        for peer in list(self._peers.values()):
            self._close(peer)
        if self._listener is not None:
            socket_path(self._home).unlink(missing_ok=True)
        for end in (self._listener, self._wake_read, self._wake_write, self._selector):
            if end is not None:
                end.close()
        self._listener = self._wake_read = self._wake_write = self._selector = self._thread = None

    def _serve(self) -> None:
        look_at = house_at = 0.0
        while not self._stopping:
            said = self._read_ready(self._wait_s(look_at, house_at))
            now = time.monotonic()
            dead = []
            try:
                if now >= house_at:
                    house_at = now + HOUSEKEEPING_S
                    self._close_silent(now)
                    dead = self._desk.dead()
                if now >= look_at:
                    look_at = now + LOOK_S
                    self._carry_out(self._desk.look())
                if said or dead or self._desk.due():
                    self._carry_out(self._desk.turn(said, dead))
                self.trouble = ""
            except StoreError as error:
                # Nothing of this turn is durable, so nothing is answered: pilots come back and say it again.
                self.trouble = str(error)
                self._desk.forget_all()
                for peer in list(self._peers.values()):
                    self._close(peer)
                look_at = house_at = now + STORE_RETRY_S
                time.sleep(LOOK_S)

    def _wait_s(self, look_at: float, house_at: float) -> float:
        return max(0.0, min(look_at, house_at) - time.monotonic())

    def _read_ready(self, limit_s: float) -> list[Said]:
        assert self._selector is not None
        said: list[Said] = []
        for key, events in self._selector.select(limit_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._wake_read:
                self._drain_wake()
            else:
                peer: Peer = key.data
                if events & selectors.EVENT_WRITE:
                    self._flush(peer)
                if events & selectors.EVENT_READ and peer.number in self._peers:
                    said += self._read(peer)
        return said

    def _drain_wake(self) -> None:
        assert self._wake_read is not None
        self._wake_read.recv(4096)
        if not self._stopping:
            try:
                self._carry_out(self._desk.look())
            except StoreError as error:
                self.trouble = str(error)

    def _accept(self) -> None:
        assert self._listener is not None
        assert self._selector is not None
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # The other side has gone again, or descriptors are short: the next look tries again.
        pid, uid = _credentials(sock)
        pid_start = remains.started(pid)
        if uid != os.getuid() or len(self._peers) >= PEERS_MAX or pid_start is None:
            sock.close()
            return
        sock.setblocking(False)
        self._peer_last += 1
        peer = Peer(self._peer_last, sock, pid, pid_start, time.monotonic())
        self._peers[peer.number] = peer
        self._selector.register(sock, selectors.EVENT_READ, peer)

    def _read(self, peer: Peer) -> list[Said]:
        try:
            piece = peer.sock.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece:
            self._close(peer)
            return []
        peer.heard = time.monotonic()
        *lines, peer.inbox = (peer.inbox + piece).split(b"\n")
        said = []
        try:
            if len(peer.inbox) > REQUEST_BYTES_MAX or any(len(line) > REQUEST_BYTES_MAX for line in lines):
                raise ValueError(f"a message is longer than {REQUEST_BYTES_MAX} bytes")
            for line in lines:
                message = read_message(line, peer.pilot)
                if isinstance(message, Hello):
                    peer.pilot = message.pilot
                said.append(Said(peer.number, message, peer.pid, peer.pid_start))
        except ValueError as error:
            self._tell(peer, {"error": str(error)})
            self._close(peer)
            return []
        return said

    def _carry_out(self, turn: Turn | None) -> None:
        if turn is None:
            return
        told: dict[int, list[bytes]] = {}
        for number, answer in turn.answers:
            told.setdefault(number, []).append(line_of(answer))
        for number, lines in told.items():
            if (peer := self._peers.get(number)) is not None:
                peer.outbox += b"".join(lines)
                self._flush(peer)
        for number in turn.close:
            if (peer := self._peers.get(number)) is not None:
                self._close(peer)
        if turn.changed:
            self._on_change()

    def _tell(self, peer: Peer, answer: dict[str, object]) -> None:
        peer.outbox += line_of(answer)
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        assert self._selector is not None
        try:
            while peer.outbox:
                peer.outbox = peer.outbox[peer.sock.send(peer.outbox[: 1 << 20]) :]
        except BlockingIOError:
            pass
        except OSError:
            self._close(peer)
            return
        if len(peer.outbox) > OUTBOX_BYTES_MAX:
            self._close(peer)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outbox else 0)
        self._selector.modify(peer.sock, wanted, peer)

    def _close(self, peer: Peer) -> None:
        if self._peers.pop(peer.number, None) is None:
            return
        if self._selector is not None:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        self._desk.gone(peer.number)

    def _close_silent(self, now: float) -> None:
        for peer in list(self._peers.values()):
            if now - peer.heard > SILENCE_S_MAX:
                self._close(peer)


def _credentials(sock: socket.socket) -> tuple[int, int]:
    """The process and user at the other end, by the kernel's word and not by the peer's."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def _listening(home: Path) -> socket.socket:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = home.stat()
    if facts.st_uid != os.getuid():
        raise PermissionError(f"the folder `{home}` belongs to another user; choose another with `--home`")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        home.chmod(0o700)  # Whoever can reach the socket's folder could put another socket in its place.
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = str(socket_path(home))
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            path = f"/proc/self/fd/{folder}/{SOCKET_NAME}"
        _clear_stale(path, home)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            socket_path(home).chmod(0o600)
            listener.listen(PEERS_MAX)
        except OSError:
            listener.close()
            raise
        return listener
    finally:
        os.close(folder)


def _clear_stale(path: str, home: Path) -> None:
    """A socket that nobody answers is left from a crash; one that somebody answers is in use."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(2.0)
    try:
        probe.connect(path)
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        Path(path).unlink()
        return
    finally:
        probe.close()
    raise OSError(f"another process serves the pool of `{home}` already; stop it or choose another `--home`")
