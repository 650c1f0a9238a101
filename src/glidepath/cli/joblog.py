"""What a job wrote: a job number comes in, its output goes to stdout, in pieces of bounded size.

The folder belongs to whoever ran the job, so no link in it is followed and nothing but a plain file is
read. A terminal gets the text made safe; a pipe gets the bytes as they are.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from glidepath.cli import argument
from glidepath.cli.jobview import found_job
from glidepath.cli.session import opened
from glidepath.cli.verb import Caller, Exit, Options, Stop, Verb
from glidepath.core.text import visible

if TYPE_CHECKING:
    from pathlib import Path

PIECE_BYTES = 64 * 1024
POLL_S = 0.5
# A week: a job that runs longer is better read again than followed.
FOLLOW_LOOKS_MAX = int(7 * 86400 / POLL_S)


class Pour:
    """Bytes to stdout: raw into a pipe, safe text onto a terminal, whole characters across pieces."""

    def __init__(self, caller: Caller) -> None:
        self._out = caller.out
        self._raw = None if caller.out.isatty() else getattr(caller.out, "buffer", None)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, piece: bytes) -> None:
        if self._raw is not None:
            self._raw.write(piece)
            return
        self._out.write(visible(self._decoder.decode(piece), keep="\n\t"))

    def flush(self) -> None:
        if self._raw is not None:
            self._raw.flush()
        self._out.flush()


def open_below(top: Path, parts: tuple[str, ...]) -> int:
    """A file descriptor of a plain file below `top`; every step refuses to follow a link."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK a named pipe left by the job would hold us for ever.
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(f"`{parts[-1]}` is not a plain file")
    return found


def pieces(file: int, *, bytes_max: int | None = None) -> Iterator[bytes]:
    """What is there now, or only the last so many bytes of it."""
    end = os.fstat(file).st_size
    if bytes_max is not None:
        os.lseek(file, max(end - bytes_max, 0), os.SEEK_SET)
    for _ in range(end // PIECE_BYTES + 2):
        piece = os.read(file, PIECE_BYTES)
        if not piece:
            return
        yield piece


class Logs(Verb):
    """Print what a job wrote, from its latest attempt"""

    options: ClassVar[Options] = {
        "id": {"args": ("id",), "type": argument.count, "metavar": "ID", "help": "a job number"},
        "rank": {
            "args": ("--rank",),
            "type": argument.count,
            "default": 0,
            "metavar": "N",
            "help": "of a placed job: what this rank wrote (default: 0)",
        },
        "stderr": {"args": ("--stderr",), "action": "store_true", "help": "its stderr instead of its stdout"},
        "attempt": {
            "args": ("--attempt",),
            "type": argument.count,
            "metavar": "N",
            "help": "an earlier attempt",
        },
        "bytes": {
            "args": ("--bytes",),
            "type": argument.count,
            "metavar": "N",
            "help": "only the last N bytes",
        },
        "follow": {"args": ("-f", "--follow"), "action": "store_true", "help": "go on until the job is over"},
    }

    def run(self) -> int:
        from glidepath.store.job import OVER

        number, which = self.given["id"], "stderr" if self.given["stderr"] else "stdout"
        with opened(self) as session:
            job = found_job(session, number)
            attempt = self.given["attempt"] or job.attempt
            if not attempt:
                raise Stop(f"job {number} has not started yet: it is {job.state.value}", code=Exit.NOT_FOUND)
            folder: tuple[str, ...] = (str(number), str(attempt))
            if session.placed.find(number) is not None:
                folder = (*folder, str(self.given["rank"]))
            elif self.given["rank"]:
                raise Stop(f"job {number} is not a placed one and has no ranks", code=Exit.USAGE)
            file = self.opened_log(session.where.home, (*folder, which))
            pour = Pour(self.caller)
            try:
                for piece in pieces(file, bytes_max=self.given["bytes"]):
                    pour.write(piece)
                for _ in range(FOLLOW_LOOKS_MAX if self.given["follow"] else 0):
                    # Asked before the last look, so that nothing written just before the end is missed.
                    job = found_job(session, number)
                    for piece in pieces(file):
                        pour.write(piece)
                    pour.flush()
                    if job.state in OVER or job.attempt != attempt:
                        break
                    self.caller.sleep(POLL_S)
                pour.flush()
            finally:
                os.close(file)
        return Exit.DONE

    def opened_log(self, home: Path, parts: tuple[str, ...]) -> int:
        try:
            return open_below(home / "jobs", parts)
        except FileNotFoundError:
            rank = f" of rank {parts[2]}" if len(parts) > 3 else ""
            raise Stop(
                f"job {parts[0]} left no {parts[-1]}{rank} for attempt {parts[1]}", code=Exit.NOT_FOUND
            ) from None
        except OSError as error:
            raise Stop(f"the {parts[-1]} of job {parts[0]} is not read: {error.strerror or error}") from None
