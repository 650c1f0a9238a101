"""What a plan of the scheduler has done: values, each about one job."""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import JobName, Place


@dataclass(frozen=True, slots=True)
class Start:
    job: JobName
    places: tuple[Place, ...]
    until: Instant | None  # by its limit; none where it has none


@dataclass(frozen=True, slots=True)
class End:
    """The job is over: it is told to end, and does not wait again."""

    job: JobName


@dataclass(frozen=True, slots=True)
class Requeue:
    """The job is told to end, and waits again where it stood."""

    job: JobName


@dataclass(frozen=True, slots=True)
class Shrink:
    """The job goes on with the rest of its nodes."""

    job: JobName
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Notify:
    """The job is told that it will be ended then."""

    job: JobName
    at: Instant


@dataclass(frozen=True, slots=True)
class Refuse:
    """The job can never run and no longer waits; why stands in the reason."""

    job: JobName


JobAction = Start | End | Requeue | Shrink | Notify | Refuse
