"""Windows that running jobs would run into: a job and windows come in, the one that it is ended for goes out.

Whoever waits is planned around windows. A window that was made or moved since may open before a running job
is over: it is ended then, however long its limit is.
"""

from __future__ import annotations

from collections.abc import Iterable

from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Window
from glidepath.core.schedule.job import Job, OnLoss, Promise, Running


def waits_again(job: Job) -> bool:
    """What becomes of a job that is ended for a window."""
    return job.on_loss is OnLoss.REQUEUE or job.stoppable


def shutting(one: Running, windows: Iterable[Window]) -> list[Window]:
    """Those that a running job is not meant for, the first to open first."""
    nodes = {place.node for place in one.places}
    found = [w for w in windows if w.touches(nodes) and not w.admits(one.job.project, one.job.owner)]
    return sorted(found, key=lambda window: (window.opens_at, window.name))


def cut_by(one: Running, windows: tuple[Window, ...], now: Instant) -> Window | None:
    """The first window that is not over and that the job would run into; it is ended when that opens."""
    limit_s = one.job.limit_s
    ahead = [
        window
        for window in windows
        if window.closes_at > now and (limit_s is None or window.opens_at < one.started_at + limit_s)
    ]
    return next(iter(shutting(one, ahead)), None) if ahead else None


def in_the_way(job: Job, promise: Promise, windows: Iterable[Window]) -> Window | None:
    """The first window that is where, and when, a job was to run by a promise."""
    found = [
        window
        for window in windows
        if window.touches(place.node for place in promise.places)
        and not window.admits(job.project, job.owner)
        and window.closes_at > promise.at
        and (job.limit_s is None or window.opens_at < promise.at + job.limit_s)
    ]
    return min(found, key=lambda window: (window.opens_at, window.name), default=None)
