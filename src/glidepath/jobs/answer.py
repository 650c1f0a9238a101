"""Waiting for what the scheduler says: a job that was submitted or a wish comes in, its answer goes out.

It looks into the store again and again, ever less often and never longer than it was told to.
"""

from __future__ import annotations

from collections.abc import Iterator

from glidepath.core.place.record import Phase
from glidepath.core.schedule.cluster import Queue
from glidepath.core.schedule.job import last_start, too_late
from glidepath.core.units import shown_duration
from glidepath.jobs.doors import Doors
from glidepath.store.placed import Event, PlacedJob

# Most answers come soon and are looked for often; later ones cost the store more than they are worth.
SOON_S = 0.1
LOOK_S_MIN = 0.004
LOOK_S_MAX = 0.05
LOOK_GROWS = 1.5


def _looks(doors: Doors, wait_s: float) -> Iterator[None]:
    """One look at once, the others within the time."""
    yield
    waited_s, look_s = 0.0, LOOK_S_MIN
    while waited_s < wait_s:
        doors.sleep(look_s)
        waited_s += look_s
        if waited_s > SOON_S:
            look_s = min(look_s * LOOK_GROWS, LOOK_S_MAX)
        yield


def answer_to(doors: Doors, number: int, cluster: str, *, wait_s: float) -> tuple[PlacedJob, bool]:
    """The job, and whether the scheduler has planned with it, after the longest wait for that."""
    placed, journal = doors.placed, doors.placing(cluster)
    submitted = placed.newest_event(job=number)
    for _ in _looks(doors, wait_s):
        if journal.seen_event() >= submitted:
            return placed.get(number), True
    return placed.get(number), False


def wish_answer(doors: Doors, job: int, after: int, *, wait_s: float) -> Event | None:
    """The event that answers a wish for another limit."""
    for _ in _looks(doors, wait_s):
        for event in doors.placed.events(job=job, after=after):
            if event.kind in ("extended", "not extended"):
                return event
    return None


def told_start(doors: Doors, found: PlacedJob) -> str:
    """The sentence that answers a submission."""
    who, now = f"job {found.id}", doors.now()
    if found.record.phase is Phase.OVER:
        return f"{who} is {found.stands}: {found.job.reason}"
    if found.record.phase is not Phase.WAITS:
        nodes = ", ".join(place.node for place in found.record.places)
        return f"{who} starts now on {nodes}{_by_itself(found)}"
    promised = None if found.promise is None else now.text(found.promise.at)
    if found.promise is not None and promised is not None and too_late(found.record.job, found.promise.at):
        last = now.text(last_start(found.record.job))
        return (
            f"{who} waits: room for it is free at {promised}, and it must start by {last}, or it is over then"
        )
    if found.promise is not None and promised is not None:
        wait_s = max(found.promise.at - now.at, 0)
        nodes = ", ".join(place.node for place in found.promise.places)
        when = f"{who} starts at {promised} (in {shown_duration(wait_s)}) on {nodes}: this is promised"
        return f"{when}{_by_itself(found)}"
    explain = f"`glidepath job explain {found.id}`"
    if found.spec.queue is Queue.BATCH:
        ahead = doors.placed.ahead(found.id)
        return f"{who} waits in the batch queue, {ahead} before it; {explain} says more"
    return f"{who} waits, and no start can be promised yet; {explain} says why"


def _by_itself(found: PlacedJob) -> str:
    """Why a job is in the interactive queue that did not name it."""
    spec = found.spec
    said = spec.queue is Queue.INTERACTIVE and spec.queue_why
    return f"; {spec.queue.value}, {spec.queue_why}" if said else ""
