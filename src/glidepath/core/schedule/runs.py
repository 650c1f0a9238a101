"""What is done about jobs that run: limits, lost nodes, and windows for those that would run into one."""

from __future__ import annotations

from collections.abc import Iterator

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Fact, Reason
from glidepath.core.quantity import Instant
from glidepath.core.schedule.acts import End, JobAction, Notify, Requeue, Shrink
from glidepath.core.schedule.cut import cut_by, waits_again
from glidepath.core.schedule.job import Book, OnLoss, Running
from glidepath.core.schedule.sift import Loss, Sifted
from glidepath.core.units import shown_duration


def running_decisions(sifted: Sifted, book: Book) -> Iterator[Decision[JobAction]]:
    lost = {loss.running.job.name for loss in sifted.losses}
    for loss in sifted.losses:
        yield _lost(loss)
    for name in sifted.unsure:
        yield Decision(f"job:{name}", Reason(Because.NODE_UNSURE))
    quiet = sifted.quiet
    for one in sifted.running:
        if one.job.name in lost:
            continue
        decision = _due(one, sifted.now) or _windowed(one, sifted, book)
        if decision is None:
            quiet += 1
        else:
            yield decision
    if quiet:
        yield Decision("running", Reason(Because.GOES_ON, (("jobs", quiet),)))


def _lost(loss: Loss) -> Decision[JobAction]:
    job = loss.running.job
    left = {place.node for place in loss.left}
    gone = ",".join(sorted(place.node for place in loss.running.places if place.node not in left))
    facts: tuple[Fact, ...] = (("lost", gone), ("left", len(left)), ("policy", job.on_loss.value))
    action: JobAction = End(job.name)
    if job.on_loss is OnLoss.REQUEUE:
        action = Requeue(job.name)
    elif job.on_loss is OnLoss.GO_ON and loss.left:
        action = Shrink(job.name, loss.left)
    return Decision(f"job:{job.name}", Reason(Because.LOST_NODE, facts), action)


def _due(one: Running, now: Instant) -> Decision[JobAction] | None:
    limit_s = one.job.limit_s
    if limit_s is None or now < one.started_at + limit_s:
        return None
    facts = (("limit", shown_duration(limit_s)),)
    return Decision(f"job:{one.job.name}", Reason(Because.LIMIT_REACHED, facts), End(one.job.name))


def _windowed(one: Running, sifted: Sifted, book: Book) -> Decision[JobAction] | None:
    """A job that would be there when a window opens is told in time, and ended then."""
    window = cut_by(one, sifted.cluster.windows, sifted.now)
    if window is None or window.opens_at - sifted.now > book.notice_s:
        return None
    facts: tuple[Fact, ...] = (("window", window.name), ("opens_at", window.opens_at))
    about = f"job:{one.job.name}"
    if window.opens_at > sifted.now:
        return Decision(about, Reason(Because.NOTICE_GIVEN, facts), Notify(one.job.name, window.opens_at))
    action: JobAction = Requeue(one.job.name) if waits_again(one.job) else End(one.job.name)
    return Decision(about, Reason(Because.WINDOW_OPENS, facts), action)
