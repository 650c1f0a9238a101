"""What an agent and the demand server say to each other, as strict models; anything else is refused.

Every moment travels as an age or as a span in seconds, never as a time of day: the clocks of the two ends may
differ by hours. Owners of jobs do not travel at all.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

# A year: an age beyond it is a mistake, and sums of such stay far from what a database can hold.
SPAN_S_MAX = 366 * 86400
PILOTS_MAX = 20_000
ANSWERS_MAX = 5_000
ORDERS_MAX = 500
WINDOWS_MAX = 20
PAIRS_MAX = 100
WORDS_MAX = 300
AMOUNT_MAX = 1 << 40


def _sayable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable text")
    return text


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?$")]
# Of a site or a pool, and of an offer, as the configuration has them.
Place = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")]
OfferName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")
]
Said = Annotated[str, StringConstraints(max_length=WORDS_MAX), AfterValidator(_sayable)]
Ticket = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
Span = Annotated[int, Field(ge=0, le=SPAN_S_MAX)]
Amount = Annotated[int, Field(ge=0, le=AMOUNT_MAX)]
Size = Annotated[list[Amount], Field(min_length=4, max_length=4)]
Pair = Annotated[list[Said], Field(min_length=2, max_length=2)]
Long = Annotated[str, StringConstraints(max_length=1 << 16)]
Given = Annotated[list[Long], Field(min_length=2, max_length=2)]
Pairs = Annotated[list[Pair], Field(max_length=PAIRS_MAX)]
Verb = Literal["start", "withdraw", "drain", "remove"]
State = Literal["pending", "running", "leaving", "ended", "failed", "unknown", "withdrawn"]


class Word(BaseModel):
    """No unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Pilot(Word):
    """One pilot as the agent's own backend lists it."""

    name: Name
    offer: OfferName
    pool: Place
    size: Size = Field(description="CPU in thousandths, memory and disk in MiB, GPUs.")
    state: State
    since_s: Span = Field(description="For how long it has been in this state.")
    asked_s: Span = Field(description="How long ago it was asked for.")
    traits: Pairs = []
    native_id: Said = ""
    node: Said = ""
    left_s: Span | None = Field(default=None, description="How long it may still live.")
    note: Said = Field(default="", description="The site's own words.")


class Answer(Word):
    """What came of one order."""

    verb: Verb
    name: Name
    outcome: Literal["done", "refused", "failed", "unsure"]
    why: Said = ""


class Downtime(Word):
    """A span in which the site is closed, as its admin says."""

    in_s: Span = Field(description="It begins after so many seconds; zero where it has begun.")
    for_s: Span = Field(description="It lasts so many seconds from its beginning, or from now.")
    why: Said = ""


class Report(Word):
    """One call of an agent: what is there, what came of the last orders, and what else the site says."""

    version: Literal[1] = 1
    ticket: Ticket = Field(default="", description="From the last answer; empty on the first call.")
    nonce: Ticket = Field(description="Comes back in the answer, which is then known to be for this call.")
    seen: bool = Field(description="Whether the site could be listed; if not, `pilots` says nothing.")
    why: Said = Field(default="", description="Why it could not.")
    pilots: Annotated[list[Pilot], Field(max_length=PILOTS_MAX)] = []
    answers: Annotated[list[Answer], Field(max_length=ANSWERS_MAX)] = []
    room: Annotated[int, Field(ge=0, le=10**9)] | None = Field(
        default=None, description="How many more pilots the site takes now; unset for any number."
    )
    downtimes: Annotated[list[Downtime], Field(max_length=WINDOWS_MAX)] = []
    avoids_nodes: bool = Field(
        default=True, description="Whether the site can be told on which nodes not to start pilots."
    )
    agent: Said = Field(default="", description="Which program calls, for people.")


class Start(Word):
    """Start this pilot. The same name again is the same pilot."""

    name: Name
    offer: OfferName
    pool: Place
    size: Size
    traits: Pairs = []
    lifetime_s: Span
    idle_s: Span
    asked_s: Span
    avoid: Annotated[list[Said], Field(max_length=1000)] = []
    join: Annotated[list[Given], Field(max_length=PAIRS_MAX)] = []
    secrets: Annotated[list[Given], Field(max_length=PAIRS_MAX, repr=False)] = []


class Wish(Word):
    """What is to become of a pilot that was started before."""

    verb: Literal["withdraw", "drain", "remove"]
    name: Name
    native_id: Said = ""


class Orders(Word):
    """The answer to a call. What is not named in it is to be left alone."""

    version: Literal[1] = 1
    ticket: Ticket = Field(description="For the next call.")
    nonce: Ticket = Field(description="Of the call that this answers.")
    starts: Annotated[list[Start], Field(max_length=ORDERS_MAX)] = []
    wishes: Annotated[list[Wish], Field(max_length=PILOTS_MAX)] = []
    call_again_s: Span = Field(
        default=30, description="When the server would like to hear of the site again."
    )
    said: Said = ""
