"""What a job wrote: a job and an offset come in, a piece of bounded size goes out.

Offsets are of all that was written. A piece that begins later than was asked says that what lies between is
not kept any more.
"""

from __future__ import annotations

from glidepath.core.place.rank import set_key
from glidepath.jobs.desk import LogAsked, LogPiece
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Clash, Unknown, Unusable
from glidepath.jobs.kept import no_such_log
from glidepath.ranklog import read_log, read_pulled
from glidepath.store.job import OVER, Job
from glidepath.store.placed import PlacedJob


def log_piece(doors: Doors, found: Job | PlacedJob, asked: LogAsked) -> LogPiece:
    job = found.job if isinstance(found, PlacedJob) else found
    attempt = job.attempt if asked.attempt is None else asked.attempt
    if not job.attempt:
        raise Unknown(f"job {job.id} has not started yet: it is {job.state.value}")
    if isinstance(found, Job) and asked.rank:
        raise Unusable(f"job {job.id} is not a placed one and has no ranks")
    # The job was read before its log, so that nothing written just before its end is missed.
    over = job.state in OVER or job.attempt != attempt
    which, at = "stderr" if asked.stderr else "stdout", {"offset": asked.offset, "bytes_max": asked.bytes_max}
    try:
        if isinstance(found, PlacedJob):
            key = set_key(job.id, attempt)
            piece = read_log(doors.home, key, asked.rank, stream=which, **at)
        else:
            piece = read_pulled(doors.home, job.id, attempt, stream=which, **at)
    except (LookupError, ValueError):
        rank = f" of rank {asked.rank}" if isinstance(found, PlacedJob) else ""
        what = f"{which}{rank} for attempt {attempt}"
        keep = doors.settings.keep
        why = no_such_log(job.id, what, keep, ended_wall=job.ended_wall, wall=doors.wall())
        raise Unknown(why) from None
    except OSError as error:
        raise Clash(f"the {which} of job {job.id} is not read: {error.strerror or error}") from None
    return LogPiece(piece.content, piece.start, piece.offset, piece.size, attempt, over)
