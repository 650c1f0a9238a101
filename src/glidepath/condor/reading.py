"""The values of reading a queue: the question, the last full read, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from glidepath.condor.binding import ClassAd
from glidepath.condor.groups import JobId, Tally
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import OfferKey
from glidepath.terms import OfferTerms

FULL_EVERY_S = 60.0

Totals = tuple[int, ...]


class Queue(Protocol):
    """A schedd, as far as it is asked."""

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]: ...

    def plain(self, constraint: str, names: Sequence[str], *, limit: int = -1) -> list[ClassAd]: ...

    def totals(self) -> Mapping[str, int]:
        """How many jobs in each state, as the schedd counts them itself, and its own clock."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What a read is for: the offers to be matched, and how jobs are understood."""

    offers: tuple[Offer, ...]
    terms: Mapping[OfferKey, OfferTerms]
    route: str
    run_names: tuple[str, ...]
    digest: str = ""  # equal questions have equal ones
    full_every_s: float = FULL_EVERY_S
    poisoned: tuple[str, ...] = ()


@dataclass(slots=True)
class Base:
    """The last full read."""

    tally: Tally
    totals: Totals
    at_s: float  # on this machine's monotonic clock, as all times here
    cost_s: float
    digest: str
    young: dict[JobId, int] = field(default_factory=dict)  # jobs that changed as it was taken: their status


@dataclass(frozen=True, slots=True)
class Reading:
    tally: Tally
    full: bool
    exact: bool  # the totals agree
    age_s: float  # of the full read behind it
    cost_s: float
    full_cost_s: float
    ages_s: Mapping[JobId, int]  # of the first waiting job of each row
