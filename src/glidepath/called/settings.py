"""The settings of a site of the kind `called`, whose agent calls the demand server."""

from __future__ import annotations

from pydantic import Field

from glidepath.config.fields import Span
from glidepath.config.tables import MINUTE_S, Table


class CalledSettings(Table):
    """What is kept for a site until its agent calls, and for how long."""

    silent_after: Span = Field(
        default=3 * MINUTE_S,
        description="A site whose agent has not called for this long is unseen: nothing is asked for there. "
        "Longer than the agent's own `poll` and the minute for which it may be starting pilots.",
    )
    lapse_after: Span = Field(
        default=5 * MINUTE_S,
        description="A request that the agent did not call for within this time is over and is never handed "
        "out. Longer than the agent's own `poll`, shorter than the site's `share_lost_after`.",
    )
    call_again: Span = Field(
        default=30,
        description="How soon the agent is asked to call again. It may call less often, by its own `poll`.",
    )
    furnished: bool = Field(
        default=False,
        description="Whether pilots find a token of the pool at the site; then none is made or handed out.",
    )
