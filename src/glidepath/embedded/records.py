"""What is kept of a job on the disk: its exit record and its output, in a folder made of numbers.

The record is read with suspicion: it counts only if it is whole and of this job, attempt and pilot.
"""

from __future__ import annotations

import json
from pathlib import Path

from glidepath.embedded.wire import read_record
from glidepath.pilot.remains import open_plain, tail
from glidepath.store.job import ExitRecord

RECORD_BYTES_MAX = 64 * 1024


def attempt_folder(home: Path, job: int, attempt: int) -> Path:
    """Made of numbers only: nothing that a user wrote becomes part of a path."""
    return home / "jobs" / str(int(job)) / str(int(attempt))


def exit_record(home: Path, job: int, attempt: int, *, pilot: str) -> ExitRecord | None:
    """The durable record of the attempt; None where there is none of this pilot for it."""
    path = attempt_folder(home, job, attempt) / "exit.json"
    try:
        with open_plain(path) as file:
            record = read_record(json.loads(file.read(RECORD_BYTES_MAX)), pilot)
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return record if (record.job, record.attempt) == (job, attempt) else None


def job_log(home: Path, job: int, attempt: int, *, stream: str = "stdout", bytes_max: int = 64 * 1024) -> str:
    """The end of what the attempt wrote, verbatim: escape it before it reaches a terminal."""
    if stream not in ("stdout", "stderr"):
        raise ValueError(f"`{stream}` is not `stdout` or `stderr`")
    path = attempt_folder(home, job, attempt) / stream
    try:
        return tail(path, bytes_max=bytes_max)
    except FileNotFoundError:
        raise LookupError(f"job {job} has no {stream} of attempt {attempt}") from None
