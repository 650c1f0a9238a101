"""What a plan goes by of who pays: rights, usage and the parts of projects, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from glidepath.core.account.right import Rights
from glidepath.core.schedule.job import Share, Used

WEEK_S = 7 * 86400


@dataclass(frozen=True, slots=True)
class Terms:
    """How strict the books are."""

    grace_s: int = 3600  # from the word that a project has nothing left until its jobs are stopped
    stops: bool = True
    fair: bool = False
    half_life_s: int = WEEK_S


@dataclass(frozen=True, slots=True)
class Accounts:
    """Who may run, who has used what, and whose part is how large; by default nobody keeps such books."""

    rights: Rights = field(default_factory=Rights)
    used: tuple[Used, ...] = ()
    shares: tuple[Share, ...] = ()
