"""The demand server as a program: settings and an open store come in, it serves until it is told to stop."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from glidepath.config import Settings, Watcher
from glidepath.jobs.stored import StoredDesk
from glidepath.people.oidc import PeopleNow, people_of
from glidepath.people.register import Register
from glidepath.serve.api import Api, Paces
from glidepath.serve.app import STRANGERS_PER_MINUTE, application
from glidepath.serve.desk import Desk, drop_folders
from glidepath.serve.drops import Drops
from glidepath.serve.pace import Pace
from glidepath.store.engine import Store

CALLERS_AT_ONCE = 1000
KEEP_ALIVE_S = 75
END_S_MAX = 5
# Of the C library, by its own numbers: pieces from this size on go back to the kernel when they are freed,
# and so many heaps are there for all threads. By default both grow with what callers send.
M_MMAP_THRESHOLD, MMAP_BYTES = -3, 256 << 10
M_ARENA_MAX, ARENAS = -8, 2


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve, where and for how long."""

    listen: str
    home: Path
    until_eof: bool = False  # ends with the program that holds the other end of our standard input


def serve(
    settings: Settings, store: Store, watcher: Watcher | None, *, how: Serving, say: Callable[[str], None]
) -> int:
    """An exit code, once it is over."""
    _give_back()
    desk = Desk(store, settings, watcher)
    jobs = api_of(desk, how.home)
    listener = listening(how.listen)
    config = uvicorn.Config(
        application(desk, jobs),
        log_level="warning",
        access_log=False,  # Addresses of pyglidein clients hold a secret.
        lifespan="off",
        limit_concurrency=CALLERS_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S_MAX,
        server_header=False,
        ssl_certfile=settings.serve.certificate or None,
        ssl_keyfile=settings.serve.key or None,
    )
    server = uvicorn.Server(config)
    drops = Drops(desk, drop_folders(settings, how.home), say)
    threading.Thread(target=drops.run, name="drops", daemon=True).start()
    if how.until_eof:
        threading.Thread(target=_end_with_input, args=(server,), name="parent", daemon=True).start()
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.serve.certificate else "http"
    say(f"the demand server listens on {scheme}://{host}:{port}")
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # Told to stop, which is no failure.
    finally:
        drops.stop()
        listener.close()
    return 0


def _give_back() -> None:
    """A body of megabytes must not leave its room behind in each heap that it came through."""
    with suppress(OSError, AttributeError):  # Another C library has no such word, and needs none.
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
        library.mallopt(M_ARENA_MAX, ARENAS)


def api_of(desk: Desk, home: Path) -> Api:
    """The API of jobs over the same store and the same settings."""
    jobs = StoredDesk(desk.settings, desk.store, home)

    def renewed() -> None:
        jobs.settings = desk.current()

    pace = Pace(desk.settings.serve.person_calls_per_minute, steady=time.monotonic)
    paces = Paces(pace, Pace(STRANGERS_PER_MINUTE, steady=time.monotonic))
    known = people_of(desk.store, desk.settings.serve.oidc)
    people = PeopleNow(known, lambda: desk.current().serve.oidc)
    register = Register(desk.store, time.time, known.forget, lambda wall: desk.clock().at_wall(wall))
    return Api(jobs, people, register, paces, renewed)


def listening(where: str) -> socket.socket:
    """The open port; raises OSError with the address in it."""
    host, _, port = where.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named in full: asyncio sends an answer's last part at once only where it knows that this is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
    except OSError as error:
        listener.close()
        raise OSError(f"the demand server cannot listen on `{where}`: {error.strerror or error}") from None
    listener.listen(CALLERS_AT_ONCE)
    return listener


def _end_with_input(server: uvicorn.Server) -> None:
    # Until the other end is closed, by its end or by its death.
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = True
