"""What ranks wrote, read from where it is kept: a key, a rank and an offset come in, bytes go out.

Doors of clusters keep the output of every rank below `<home>/jobs/JOB/ATTEMPT/RANK/`, in `stdout` and, where
the cluster tells them apart, `stderr`. Reading needs no cluster: it may be gone. The folders hold what jobs
wrote, so no link in them is followed and only plain files are read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from glidepath.core.place.rank import SetKey, split_key

STREAMS = ("stdout", "stderr")
PIECE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read, and where the next piece begins."""

    content: bytes
    offset: int
    size: int  # of all there is by now


def log_folder(home: Path, key: SetKey, rank: int) -> Path:
    job, attempt = split_key(key)
    return home / "jobs" / str(job) / str(attempt) / str(rank)


def read_log(
    home: Path, key: SetKey, rank: int, *, stream: str = "stdout", offset: int = 0, bytes_max: int = 65536
) -> Piece:
    """At most so many bytes from the offset on; a LookupError where nothing was ever kept.

    An offset below zero is counted from the end. One that is beyond the end gives nothing, and stays.
    """
    if stream not in STREAMS:
        raise LookupError(f"ranks write to {' and '.join(STREAMS)}")
    try:
        file = open_below(home / "jobs", (*map(str, split_key(key)), str(rank), stream))
    except (FileNotFoundError, NotADirectoryError):
        raise LookupError(f"rank {rank} of {key} left no {stream}") from None
    try:
        size = os.fstat(file).st_size
        begin = max(size + offset, 0) if offset < 0 else offset
        content = os.pread(file, max(0, min(bytes_max, PIECE_BYTES_MAX)), begin)
    finally:
        os.close(file)
    return Piece(content, begin + len(content), size)


def open_below(top: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of a plain file below `top`; every step refuses to follow a link."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK a named pipe in its place would hold us for ever.
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(f"`{parts[-1]}` is not a plain file")
    return found
