"""The answer to a report that is not the next one: what the next one must carry. Nothing was changed."""

from __future__ import annotations

from pydantic import Field

from glidepath.called.words import Ticket, Word


class LateAnswer(Word):
    """Said instead of orders; the agent reports anew with this ticket."""

    ticket: Ticket = Field(description="For the next call.")
    nonce: Ticket = Field(default="", description="Of the call that this answers.")
