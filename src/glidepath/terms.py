"""Terms of an offer that the core does not decide about: whom it serves, and what it says to HTCondor.

They come from the configuration; the door of a pool matches jobs against them, and a pilot admits by them.
Both must read the same, or a pilot would be started for a job that it then refuses.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

OF_KIND = {
    "any": (),
    "cpu": ("(TARGET.RequestGPUs ?: 0) == 0",),
    "gpu": ("(TARGET.RequestGPUs ?: 0) > 0",),
}


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """Whom one offer serves, and what its pilots say and run besides. Nothing said means: everybody."""

    community: str = ""  # jobs that are routed to this word, and no others
    owners: tuple[str, ...] = ()  # admitted; `*` stands for any letters
    owners_refused: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # accounting groups, likewise
    groups_refused: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()  # of the slot, as ClassAd text
    start: tuple[str, ...] = ()  # what must hold as well before a job is taken, as ClassAd text
    lines: tuple[str, ...] = ()  # of the pilot's HTCondor configuration
    init: str = ""  # a program that a pilot runs before it joins
    jobs: str = "any"  # or `cpu`, `gpu`: whether those that ask for GPUs are refused, or all others

    @property
    def admitting(self) -> tuple[str, ...]:
        """Besides for whom: what was started for jobs with GPUs must not be taken by others."""
        return (*OF_KIND[self.jobs], *self.start)

    def to_json(self) -> str:
        """As pilots read it."""
        told = {**asdict(self), "start": self.admitting}
        del told["jobs"]
        return json.dumps(told, sort_keys=True)


NO_TERMS = OfferTerms()
