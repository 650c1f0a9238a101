"""What jobs wrote, read from where it is kept: a key, a rank and an offset come in, bytes go out.

Doors of clusters keep the output of every rank below `<home>/jobs/JOB/ATTEMPT/RANK/`, as `stdout` and, where
the cluster tells them apart, `stderr`; `glidepath.keptlog` knows the files of one. Reading needs no cluster:
it may be gone. The folders hold what jobs wrote, so no link is followed and only plain files are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from glidepath.core.place.rank import SetKey, split_key
from glidepath.keptlog import read_part

STREAMS = ("stdout", "stderr")
PIECE_BYTES_MAX = 1 << 20
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read. Offsets are of all that was ever written; where `start` is later than what was asked
    for, what lies between is not kept any more."""

    content: bytes
    start: int
    offset: int  # where the next piece begins
    size: int  # of all there was by now


def log_folder(home: Path, key: SetKey, rank: int) -> Path:
    job, attempt = split_key(key)
    return home / "jobs" / str(job) / str(attempt) / str(rank)


def read_log(
    home: Path, key: SetKey, rank: int, *, stream: str = "stdout", offset: int = 0, bytes_max: int = 65536
) -> Piece:
    """At most so many bytes of a rank from the offset on; a LookupError where nothing was ever kept.

    An offset below zero is counted from the end. One that is beyond the end gives nothing, and stays.
    """
    file = (*map(str, split_key(key)), str(rank), stream)
    return _piece(home, file, (offset, bytes_max), f"rank {rank} of {key}")


def read_pulled(
    home: Path, job: int, attempt: int, *, stream: str = "stdout", offset: int = 0, bytes_max: int = 65536
) -> Piece:
    """The same of a job that a pilot ran, which has no ranks."""
    file = (str(job), str(attempt), stream)
    return _piece(home, file, (offset, bytes_max), f"attempt {attempt} of {job}")


def _piece(home: Path, file: tuple[str, ...], span: tuple[int, int], whose: str) -> Piece:
    *parts, stream = file
    if stream not in STREAMS:
        raise LookupError(f"ranks write to {' and '.join(STREAMS)}")
    offset, bytes_max = span
    try:
        folder = _below(home / "jobs", tuple(parts))
        try:
            part = read_part(folder, stream, offset, max(0, min(bytes_max, PIECE_BYTES_MAX)))
        finally:
            os.close(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise LookupError(f"{whose} left no {stream}") from None
    return Piece(part.content, part.start, part.end, part.size)


def _below(top: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of a folder below `top`; every step refuses to follow a link."""
    folder = os.open(top, _FOLDER)
    for part in parts:
        try:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def logged_jobs(home: Path) -> Iterator[int]:
    """The jobs of which something is kept, in no order; they may be removed meanwhile."""
    try:
        with os.scandir(home / "jobs") as entries:
            yield from (int(entry.name) for entry in entries if _NUMBER.fullmatch(entry.name))
    except FileNotFoundError:
        return


def remove_logs(home: Path, job: int, *, entries_max: int) -> bool:
    """Remove what is kept of a job, about so many files and folders at most; whether nothing is left.

    No link is followed: it goes, and what it points at stays. However deep folders stand in each other, two
    are open at a time: what is found in one is moved up to the first.
    """
    name = str(job)
    try:
        top = os.open(home / "jobs", _FOLDER)
    except FileNotFoundError:
        return True
    try:
        folder = _entered(name, top)
        try:
            if not _emptied(folder, entries_max):
                return False
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        os.unlink(name, dir_fd=top)
    finally:
        os.close(top)
    return True


def _entered(name: str, folder: int) -> int:
    """A descriptor of a folder that is to be emptied, whatever the job has allowed in it."""
    inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        here = Path(f"/proc/self/fd/{inner}")
        here.chmod(0o700)
        return os.open(here, _FOLDER)
    finally:
        os.close(inner)


def _emptied(folder: int, entries_max: int) -> bool:
    left = entries_max
    while left > 0:
        with os.scandir(folder) as entries:
            found = list(islice(entries, left))
        if not found:
            return True
        for entry in found:
            left -= 1
            if entry.is_dir(follow_symlinks=False):
                left -= _hollowed(entry.name, folder, max(left, 1))
            else:
                os.unlink(entry.name, dir_fd=folder)
    return False


def _hollowed(name: str, folder: int, entries_max: int) -> int:
    """Remove a folder, of which those within come to stand beside it; how many things were seen in it."""
    inner = _entered(name, folder)
    try:
        with os.scandir(inner) as entries:
            found = list(islice(entries, entries_max))
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=inner)
                continue
            os.close(_entered(entry.name, inner))  # One that is shut cannot be moved either.
            with suppress(OSError):
                # Where something is called so already, it goes first, and this one in a later round.
                os.rename(entry.name, f"going-{entry.inode()}", src_dir_fd=inner, dst_dir_fd=folder)
    finally:
        os.close(inner)
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder)  # If it is not empty yet, it is in a later round.
    return len(found)
