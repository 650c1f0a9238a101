"""What a plan has done about placed jobs: values, each about one job or one set of ranks.

What an act changes in the store is written with the plan, before a cluster is asked for anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.place.rank import RankSeen, SetKey, set_key
from glidepath.core.place.record import Then
from glidepath.core.quantity import Instant
from glidepath.core.schedule.job import Place


@dataclass(frozen=True, slots=True)
class _Attempt:
    job: int
    attempt: int

    @property
    def key(self) -> SetKey:
        return set_key(self.job, self.attempt)


@dataclass(frozen=True, slots=True)
class Launch(_Attempt):
    """The cluster is asked for this attempt; `again` where the attempt is written down already."""

    places: tuple[Place, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Began(_Attempt):
    """All ranks were seen to run; from this instant on its time counts."""

    at: Instant


@dataclass(frozen=True, slots=True)
class Noted(_Attempt):
    """What ranks were seen to do is kept."""

    ranks: tuple[RankSeen, ...]


@dataclass(frozen=True, slots=True)
class Halt(_Attempt):
    """The ranks are told to end, and this comes then."""

    then: Then
    why: str


@dataclass(frozen=True, slots=True)
class Lessen(_Attempt):
    """The job goes on without these ranks."""

    gone: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Settle(_Attempt):
    """Nothing of this attempt runs any more: the job is over, or waits where it stood."""

    then: Then  # never SEEN
    why: str
    lost: bool = False  # counted against its retries
    exit_code: int | None = None
    signal: int | None = None
    ended_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Stretch(_Attempt):
    """The cluster is told the limit that the job has; `granted` where somebody wished for it."""

    limit_s: int | None
    granted: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Deny:
    """A wish for another limit is not granted."""

    job: int
    why: str


@dataclass(frozen=True, slots=True)
class Tell(_Attempt):
    """Notice is given: the job will be ended then."""

    at: Instant
    why: str
    by_cluster: bool = False  # which gives it by itself, since it keeps the limit


@dataclass(frozen=True, slots=True)
class Cut(_Attempt):
    """The owner is told of the window that ends the job before its limit, or that none does any more."""

    at: Instant | None  # none: it may go on to its limit
    window: str = ""
    again: bool = False  # whether it waits again then
    had: Instant | None = None  # what was told before
    limit_at: Instant | None = None  # when its limit is reached


@dataclass(frozen=True, slots=True)
class Drop:
    """The job can never run and waits no more."""

    job: int
    why: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Traces of a set that is over and written down are removed at the cluster."""

    key: SetKey


@dataclass(frozen=True, slots=True)
class Stray:
    """A set of an attempt that goes on no more is told to end."""

    key: SetKey


PlaceAction = (
    Launch | Began | Noted | Halt | Lessen | Settle | Stretch | Deny | Tell | Cut | Drop | Clear | Stray
)
