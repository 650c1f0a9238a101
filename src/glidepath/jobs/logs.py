"""What a job wrote: a job and an offset come in, a piece of bounded size goes out.

The folder belongs to whoever ran the job, so no link in it is followed and nothing but a plain file is read.
"""

from __future__ import annotations

import os

from glidepath.jobs.desk import LOG_PIECE_BYTES_MAX, LogAsked, LogPiece
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Clash, Unknown, Unusable
from glidepath.jobs.kept import no_such_log
from glidepath.ranklog import open_below
from glidepath.store.job import OVER, Job
from glidepath.store.placed import PlacedJob


def log_piece(doors: Doors, found: Job | PlacedJob, asked: LogAsked) -> LogPiece:
    job = found.job if isinstance(found, PlacedJob) else found
    attempt = job.attempt if asked.attempt is None else asked.attempt
    if not job.attempt:
        raise Unknown(f"job {job.id} has not started yet: it is {job.state.value}")
    folder = [str(job.id), str(attempt)]
    if isinstance(found, PlacedJob):
        folder.append(str(asked.rank))
    elif asked.rank:
        raise Unusable(f"job {job.id} is not a placed one and has no ranks")
    which = "stderr" if asked.stderr else "stdout"
    # The job was read before its log, so that nothing written just before its end is missed.
    over = job.state in OVER or job.attempt != attempt
    file = _opened(doors, job, (*folder, which))
    try:
        size = os.fstat(file).st_size
        start = max(size + asked.offset, 0) if asked.offset < 0 else asked.offset
        bytes_max = max(0, min(asked.bytes_max, LOG_PIECE_BYTES_MAX))
        content = os.pread(file, bytes_max, start) if start < size else b""
    finally:
        os.close(file)
    return LogPiece(content, start, start + len(content), size, attempt, over)


def _opened(doors: Doors, job: Job, parts: tuple[str, ...]) -> int:
    try:
        return open_below(doors.home / "jobs", parts)
    except FileNotFoundError:
        rank = f" of rank {parts[2]}" if len(parts) > 3 else ""
        what = f"{parts[-1]}{rank} for attempt {parts[1]}"
        ended = job.ended_wall
        keep = doors.settings.keep
        raise Unknown(no_such_log(job.id, what, keep, ended_wall=ended, wall=doors.wall())) from None
    except OSError as error:
        why = error.strerror or error
        raise Clash(f"the {parts[-1]} of job {parts[0]} is not read: {why}") from None
