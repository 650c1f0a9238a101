"""The key of a cloud: where it is comes in, the key goes out, or a sentence that says what to do.

It is read anew for each use, so that a renewed one is taken up; nothing of it is kept or shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

KEY_BYTES_MAX = 64 << 10
HIDDEN = "<hidden>"
SHORT = 4  # A key with so few letters is no secret, and hiding it would blacken every text.


def key_source(file: str, variable: str, environ: Mapping[str, str]) -> Callable[[], str]:
    """Where neither is named there is no key, and no template asks for one."""

    def read() -> str:
        if file:
            return _from_file(Path(file))
        if variable:
            found = environ.get(variable, "").strip()
            if not found:
                raise ValueError(f"the variable `{variable}` is not set; it should hold the key of the cloud")
            return _plain(found, f"the variable `{variable}`")
        return ""

    return read


def _from_file(path: Path) -> str:
    try:
        descriptor = os.open(path.expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"`key_file`: `{path}` cannot be read: {error.strerror}") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 (what was opened is what is looked at)
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"`key_file`: `{path}` is no file")
        if about.st_mode & 0o077:
            raise ValueError(f"`key_file`: others may read `{path}`; run `chmod 600` on it")
        text = file.read(KEY_BYTES_MAX).decode("utf-8", "replace").strip()
    if not text:
        raise ValueError(f"`key_file`: `{path}` is empty")
    return _plain(text, f"`{path}`")


def _plain(key: str, where: str) -> str:
    if not key.isprintable() or not key.isascii():
        raise ValueError(f"{where} holds no key: it must be one line of plain letters")
    return key


def without(text: str, secrets: tuple[str, ...]) -> str:
    """The text for people: a cloud may repeat what it was told."""
    for secret in secrets:
        if len(secret) > SHORT:
            text = text.replace(secret, HIDDEN)
    return text
