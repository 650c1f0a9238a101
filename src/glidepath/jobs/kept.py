"""What is said of jobs and logs that are not there: the settings come in, sentences go out.

A job that was removed, one that never was and one that the caller may not see are told in the same words.
"""

from __future__ import annotations

from glidepath.config import KeepSettings
from glidepath.core.units import shown_duration


def no_such_job(job: int, keep: KeepSettings) -> str:
    return f"there is no job {job}; one that is over is kept for {shown_duration(keep.jobs)} after its end"


def no_such_log(job: int, what: str, keep: KeepSettings, *, ended_wall: float | None, wall: float) -> str:
    """`what` is the log by its name, such as `stdout of rank 2 for attempt 1`."""
    if ended_wall is not None and wall - ended_wall >= keep.logs:
        return f"the {what} of job {job} was kept for {shown_duration(keep.logs)} after its end and is gone"
    return f"job {job} left no {what}"
