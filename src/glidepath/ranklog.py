"""What ranks wrote, read from where it is kept: a key, a rank and an offset come in, bytes go out.

Doors of clusters keep the output of every rank below `<home>/jobs/JOB/ATTEMPT/RANK/`, in `stdout` and, where
the cluster tells them apart, `stderr`. Reading needs no cluster: it may be gone. The folders hold what jobs
wrote, so no link in them is followed and only plain files are read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from glidepath.core.place.rank import SetKey, split_key

STREAMS = ("stdout", "stderr")
PIECE_BYTES_MAX = 1 << 20
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


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
        top = os.open(home / "jobs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
        return os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
