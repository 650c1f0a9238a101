"""Jobs for people and programs: what the store knows comes in, the stable items go out.

Values of variables are left out everywhere: people put secrets there. It refuses to read and to change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glidepath.clock import iso
from glidepath.core.place.rank import RankSeen
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import too_late
from glidepath.jobs.desk import Item
from glidepath.jobs.doors import Now
from glidepath.store.job import Attempt, Job
from glidepath.store.placed import Event, PlacedJob

if TYPE_CHECKING:
    # With it come the loops of the planner, which most questions do not need.
    from glidepath.core.schedule.eta import Range


def item_of(job: Job, wall: float) -> Item:
    """The stable form of a job."""
    spec = job.spec
    return {
        "id": job.id,
        "name": spec.name,
        "owner": spec.owner,
        "state": job.state.value,
        "why": job.reason,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "partition": spec.partition,
        "shape": str(spec.shape),
        "cpu_milli": spec.request.cpu_milli,
        "memory_mib": spec.request.memory_mib,
        "disk_mib": spec.request.disk_mib,
        "gpus": spec.request.gpus,
        "traits": dict(spec.traits),
        "run_s_max": spec.run_s_max,
        "retries_max": spec.retries_max,
        "losses": job.losses,
        "attempt": job.attempt,
        "pilot": job.pilot,
        "command": list(spec.command),
        "env": [key for key, _ in spec.env],
        "submitted": iso(job.submitted_wall),
        "started": iso(job.started_wall),
        "ended": iso(job.ended_wall),
        "age_s": max(int(wall - job.submitted_wall), 0),
        "ran_s": _ran_s(job, wall),
    }


def _ran_s(job: Job, wall: float) -> int | None:
    if job.started_wall is None:
        return None
    return max(int((job.ended_wall or wall) - job.started_wall), 0)


def found_item(found: Job | PlacedJob, now: Now) -> Item:
    return placed_item(found, now) if isinstance(found, PlacedJob) else item_of(found, now.wall)


def placed_item(found: PlacedJob, now: Now) -> Item:
    """The item that every job has, and what only a placed one has."""
    spec, record, promise = found.spec, found.record, found.promise
    return {
        **item_of(found.job, now.wall),
        "state": found.stands,
        "queue": spec.queue.value,
        "queue_why": spec.queue_why,
        "project": spec.project,
        "image": spec.image,
        "ranks": spec.nodes,
        "run_s_max": record.job.limit_s,
        "nodes": [place.node for place in record.places],
        "start": start_of(found, now),
        "promised": None
        if promise is None or too_late(found.record.job, promise.at)
        else now.text(promise.at),
        "promised_first": None if promise is None else now.text(promise.first),
        "moved": 0 if promise is None else promise.moved,
        "ends": ends_of(found, now),
        "beside": spec.beside,
        "on_loss": spec.on_loss.value,
        "files": [file.path for file in spec.files],
        "ports": list(spec.ports),
        "terminal": spec.terminal,
    }


def start_of(found: PlacedJob, now: Now) -> str | None:
    """When it began, or is to begin."""
    if found.record.began_at is not None:
        return now.text(found.record.began_at)
    if found.job.started_wall is not None:
        return iso(found.job.started_wall)
    promise = found.promise
    late = promise is not None and too_late(found.record.job, promise.at)
    return None if promise is None or late else now.text(promise.at)


def likely_item(one: Range, now: Now) -> Item:
    """When something will probably start, on the clock of people."""
    low, likely, high = (Instant(now.at + round(wait_s)) for wait_s in (one.low_s, one.likely_s, one.high_s))
    when = {"start": now.text(likely), "earliest": now.text(low), "latest": now.text(high)}
    return {**when, "confidence": one.confidence}


def ends_of(found: PlacedJob, now: Now) -> str | None:
    """By its limit, or by the window that its owner was told of."""
    record = found.record
    if record.began_at is None or found.job.ended_wall is not None:
        return None
    limit_s = record.job.limit_s
    ends = [] if limit_s is None else [Instant(record.began_at + limit_s)]
    if record.cut_at is not None:
        ends.append(record.cut_at)
    return now.text(min(ends, default=None))


def attempt_item(attempt: Attempt) -> Item:
    return {
        "attempt": attempt.attempt,
        "pilot": attempt.pilot,
        "started": iso(attempt.started_wall),
        "ended": iso(attempt.ended_wall),
        "how": attempt.how.value if attempt.how else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
    }


def rank_item(attempt: int, rank: RankSeen, now: Now) -> Item:
    return {
        "attempt": attempt,
        "rank": rank.rank,
        "node": str(rank.node),
        "state": rank.state.value,
        "cause": rank.cause.value,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "why": rank.why,
        "began": now.text(rank.began_at),
        "ended": now.text(rank.ended_at),
    }


def event_item(event: Event) -> dict[str, Any]:
    return {
        "id": event.id,
        "job": event.job,
        "attempt": event.attempt,
        "at": iso(event.wall_s),
        "kind": event.kind,
        "text": event.text,
    }
