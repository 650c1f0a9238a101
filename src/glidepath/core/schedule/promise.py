"""Promises that have come true or not: jobs that are seen to run are compared with what was told first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.schedule.acts import JobAction
from glidepath.core.schedule.job import JobName, Promise, Running, Tally
from glidepath.core.units import shown_duration

# The last so many tell how it is now; the counts go on for ever.
OFF_MAX = 1000
# A cycle may come so much after the promised second and the promise still counts as kept.
GRACE_S = 60


def scored(
    promises: Mapping[JobName, Promise], running: Iterable[Running]
) -> list[tuple[Decision[JobAction], int]]:
    """For each promised job that runs now: what is told of it, and by how many seconds it was off."""
    found: list[tuple[Decision[JobAction], int]] = []
    for one in running:
        promise = promises.get(one.job.name)
        if promise is None:
            continue
        off_s = one.started_at - promise.first
        because = Because.PROMISE_BROKEN if off_s > GRACE_S else Because.PROMISE_KEPT
        facts = (
            ("promised", promise.first),
            ("started", one.started_at),
            ("off", shown_duration(off_s)),
            ("moved", promise.moved),
        )
        found.append((Decision(f"job:{one.job.name}", Reason(because, facts)), off_s))
    return found


def tallied(tally: Tally, off_s: Iterable[int]) -> Tally:
    offs = tuple(off_s)
    broken = sum(off > GRACE_S for off in offs)
    kept = len(offs) - broken
    return Tally(tally.kept + kept, tally.broken + broken, (*tally.off_s, *offs)[-OFF_MAX:])


def medians(tally: Tally) -> tuple[int, int]:
    """By how much those that were early were early, and the late late, in seconds; the middle ones."""
    early = sorted(-off for off in tally.off_s if off < 0)
    late = sorted(off for off in tally.off_s if off > 0)
    return (early[len(early) // 2] if early else 0, late[len(late) // 2] if late else 0)
