"""The private folder of the sockets over which connections are shared: a wished-for folder comes in, a path
that a socket can have goes out.

Whoever can write there could answer in the place of a host, so it is refused unless it is ours alone. It
refuses to know what is said over the sockets.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glidepath.core.text import one_line
from glidepath.remote.runner import NotSent
from glidepath.remote.settings import SshSettings

# A socket's path has 108 bytes on Linux and 104 elsewhere, its end included, and ssh makes it under a name
# that is 17 letters longer.
PATH_BYTES_MAX = 104 - 1 - 17
NAME_LETTERS = 16
# ssh would put values in place of `%` and `$`.
_PLAIN = re.compile(r"[A-Za-z0-9_./+,:@=-]+")
SHORT = Path("/tmp")  # A folder of our own below it, and only if it is ours alone.
POLL_S = 0.05


def socket_of(settings: SshSettings, folder: Path) -> Path:
    """Sites that reach the same host in the same way share one; another home has its own."""
    way = (settings.host, settings.user, settings.port, settings.identity, settings.config, settings.jump)
    name = _short("\0".join(str(part) for part in way))
    wished = folder.absolute() / name
    if len(os.fsencode(wished)) <= PATH_BYTES_MAX and _PLAIN.fullmatch(str(wished)):
        return wished
    return SHORT / f"glidepath-{os.geteuid()}-{_short(str(folder.absolute()))[:8]}" / name


def made(folder: Path) -> None:
    """Makes the folder of the socket, or sees that nobody else can get at it. Raises NotSent."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise NotSent(f"no folder for the connection at `{_shown(folder)}`: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise NotSent(
            f"`{_shown(folder)}` is not a folder of ours, and the connection would be anybody's; remove it"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


@contextmanager
def alone(file: Path, *, deadline: float, busy: str) -> Iterator[None]:
    """Nobody else of this machine is in here meanwhile. Raises NotSent, with `busy`, at the deadline."""
    # Ours alone is the folder, so that nobody can put a link there.
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while not _locked(lock):
            if time.monotonic() >= deadline:
                raise NotSent(busy)
            time.sleep(POLL_S)
        yield
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:NAME_LETTERS]


def _shown(path: Path) -> str:
    return one_line(str(path))
