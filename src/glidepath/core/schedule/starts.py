"""When jobs start by a plan, read off what was decided, and what moved from one plan to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glidepath.core.because import Because
from glidepath.core.quantity import Instant
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Queue
from glidepath.core.schedule.decide import Schedule
from glidepath.core.schedule.job import JobName, World

_PLANNED = (Because.PROMISED, Because.PROMISE_MOVED, Because.ROOM_KEPT)

Starts = Mapping[JobName, Instant]


@dataclass(frozen=True, slots=True)
class Move:
    """A start that is another one in the second of two plans."""

    job: JobName
    queue: Queue
    before: Instant
    after: Instant | None  # none: no room is kept for it any more
    by_s: int | None  # above zero where it starts later; none where it has no start any more

    @property
    def later(self) -> bool:
        return self.by_s is None or self.by_s > 0

    @property
    def breaks_promise(self) -> bool:
        return self.queue is Queue.INTERACTIVE and self.later


def starts_of(schedule: Schedule) -> dict[JobName, Instant]:
    """Who starts now, who was promised a start, and for whom room is kept, by name."""
    found: dict[JobName, Instant] = {}
    for decision in schedule.plan.decisions:
        if isinstance(decision.action, Start):
            found[decision.action.job] = schedule.plan.at
        elif decision.reason.because in _PLANNED:
            found[JobName(decision.about.removeprefix("job:"))] = Instant(
                int(dict(decision.reason.facts)["at"])
            )
    return found


def moves(world: World, before: Starts, after: Starts) -> tuple[Move, ...]:
    """Starts of waiting jobs that are not in both plans the same, in order of arrival."""
    found = []
    for job in world.waiting:
        was, will = before.get(job.name), after.get(job.name)
        if was is not None and was != will:
            by_s = None if will is None else will - was
            found.append(Move(job.name, job.queue, was, will, by_s))
    return tuple(found)
