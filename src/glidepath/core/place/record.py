"""One placed job as the scheduler goes by it: where it stands, which attempt, and what its owner wishes.

Phases move along NEXT and no other way. The attempt is counted up before a cluster is asked for it, so that
its key is in the store before anything runs under it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from glidepath.core.place.rank import SetKey, Work, set_key
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import Job, Place

# A start that cannot be told, as plans write it; here, so that reading jobs needs no planner.
NEVER = 1 << 60


class Phase(StrEnum):
    WAITS = "waits"
    STARTING = "starting"  # its attempt is written down; the cluster is asked, or was
    RUNNING = "running"  # the cluster was seen to have all of it begun
    ENDING = "ending"  # it is told to end; what comes then is written down, too
    OVER = "over"


NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.WAITS: frozenset({Phase.STARTING, Phase.OVER}),
    Phase.STARTING: frozenset({Phase.WAITS, Phase.RUNNING, Phase.ENDING, Phase.OVER}),
    Phase.RUNNING: frozenset({Phase.WAITS, Phase.ENDING, Phase.OVER}),
    Phase.ENDING: frozenset({Phase.WAITS, Phase.OVER}),
    Phase.OVER: frozenset(),
}


class Then(StrEnum):
    """What becomes of a job whose ranks are all over."""

    SEEN = ""  # what its ranks say
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    AGAIN = "again"  # it waits where it stood; counted against its retries
    ANEW = "anew"  # likewise, and not counted: it never began, or was ended for others


@dataclass(frozen=True, slots=True)
class Wish:
    """Another time limit that somebody asks for; an operator may insist."""

    limit_s: int
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """How a job is started and ended beside what it runs; from its owner and its partition."""

    notice_s: int = 0
    notice_signal: str = "SIGUSR1"
    grace_s: int = 30
    gather_s_max: int = 300
    log_bytes_max: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Record:
    id: int
    job: Job  # with the limit that it has now
    work: Work
    phase: Phase
    attempt: int = 0
    losses: int = 0  # attempts that ended by no fault of the job
    retries_max: int = 3
    places: tuple[Place, ...] = ()  # of this attempt, rank 0 first; those lost included
    gone: tuple[int, ...] = ()  # ranks that it goes on without
    asked_at: Instant | None = None  # since when this attempt is written down
    began_at: Instant | None = None  # its commands
    cancelled: bool = False  # its owner wants it over
    cut_at: Instant | None = None  # when a window ends it before its limit, as its owner was told
    wish: Wish | None = None
    then: Then = Then.SEEN
    why: str = ""
    terms: Terms = Terms()
    label: str = ""  # what its owner calls it

    @property
    def key(self) -> SetKey:
        return set_key(self.id, self.attempt)
