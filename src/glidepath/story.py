"""One job explained: what it asks for, and for every offer whether it fits or which term fails.

Values only: the door of a pool works them out, whoever asked shows them.
"""

from __future__ import annotations

from dataclasses import dataclass

from glidepath.core.quantity import OfferKey, Resources


@dataclass(frozen=True, slots=True)
class FailedTerm:
    """A term that does not hold: whose it is (`job` or `offer`), its text, and what it came to."""

    whose: str
    term: str
    value: str


@dataclass(frozen=True, slots=True)
class OfferStory:
    offer: OfferKey
    fits: bool
    failed: tuple[FailedTerm, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class JobStory:
    """What can be said about one job in the queue of another system."""

    job: str
    schedd: str
    owner: str
    state: str
    age_s: int
    request: Resources | None = None
    run_s_max: int | None = None
    hold_reason: str = ""
    set_aside: str = ""
    offers: tuple[OfferStory, ...] = ()
