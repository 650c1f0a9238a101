"""Our own tokens as plain files: a folder of supplied ones comes in, private copies for HTCondor go out.

HTCondor takes no token behind a link, and a Secret that Kubernetes mounts is nothing but links: they are how
it is exchanged. Looked at before every question, so that a token that was replaced is used with the next one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

from glidepath.condor.tokens import FILES_MAX, TOKEN_BYTES_MAX
from glidepath.core.text import one_line


class TokenCopies:
    """Copies of the tokens in `source`, kept in `folder`; nothing is made before the first renewal."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        self._lock = threading.Lock()

    def renew(self) -> str:
        """Make the copies be what is supplied now; why they are not, or nothing.

        No failure of whoever asks: a pool may answer without a token, and if not, it says so.
        """
        with self._lock:
            try:
                found = sorted(path.name for path in self.source.iterdir())
            except OSError as error:
                return f"our own tokens in `{self.source}` cannot be read: {error.strerror}"
            try:
                return self._renewed([name for name in found if not name.startswith(".")][:FILES_MAX])
            except OSError as error:
                return f"our own tokens cannot be copied to `{self.folder}`: {error.strerror}"

    def _renewed(self, names: list[str]) -> str:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        trouble = ""
        kept = set()
        for name in names:
            try:
                content = _content(self.source / name)
            except OSError as error:
                trouble = trouble or f"our own token `{one_line(str(self.source / name))}`: {error.strerror}"
                # What cannot be read just now was good before; only what was taken away is dropped.
                kept.add(name)
                continue
            kept.add(name)
            if _content_or_none(self.folder / name) != content:
                self._write(name, content)
        for path in self.folder.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        return trouble

    def _write(self, name: str, content: bytes) -> None:
        """At once or not at all: a child may be reading."""
        new = self.folder / f".{os.getpid()}.new"
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        new.replace(self.folder / name)


def _content(path: Path) -> bytes:
    # Without blocking: a pipe would keep whoever opens it for as long as it likes.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is no file")
        content = file.read(TOKEN_BYTES_MAX + 1)
    if len(content) > TOKEN_BYTES_MAX:
        raise OSError(0, f"it has more than {TOKEN_BYTES_MAX >> 10} KiB")
    return content


def _content_or_none(path: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return _content(path)
    return None
