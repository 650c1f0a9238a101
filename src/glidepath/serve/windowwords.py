"""What goes over the wire for the calendar of windows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from glidepath.jobs.windows import NAME_CHARS_MAX, NAMES_MAX
from glidepath.serve.jobwords import NUMBER_MAX, SPAN_S_MAX, WHY_CHARS_MAX, Asked, Said, Text, span_of

WHEN_CHARS_MAX = 64
When = Annotated[str, Field(strict=True, max_length=WHEN_CHARS_MAX)]
Why = Annotated[str, Field(strict=True, max_length=WHY_CHARS_MAX)]
Names = Annotated[
    tuple[Annotated[str, Field(strict=True, min_length=1, max_length=NAME_CHARS_MAX)], ...],
    Field(strict=False, max_length=NAMES_MAX),
]
NodeNames = Annotated[tuple[Text, ...], Field(strict=False, max_length=NAMES_MAX)]
Seconds = Annotated[int, Field(ge=1, le=SPAN_S_MAX, strict=True)]
Lasts = Annotated[Seconds | None, BeforeValidator(span_of)]
LASTS: dict[str, Any] = {"type": ["integer", "string", "null"]}
Version = Annotated[int, Field(ge=1, le=NUMBER_MAX, strict=True)] | None


class WindowsAsked(Asked):
    over: bool = Field(False, description="Also those that are over or were cancelled.")


class Times(Asked):
    starts: When = Field("", description="From when on: a date and time with its offset, or `+2h` from now.")
    ends: When = Field("", description="Until when, in the same forms; or `lasts`.")
    lasts: Lasts = Field(None, description="How long, in seconds or as `4h`.", json_schema_extra=LASTS)
    why: Why = Field("", description="What others are told.")
    dry: bool = Field(False, strict=True, description="Only say what would be, and whom it would be about.")


class WindowAsked(Times):
    """Without a start it is from now on."""

    cluster: Text | None = Field(None, description="Of which cluster; by default the only one.")
    nodes: NodeNames = Field((), description="Which of its nodes.")
    all: bool = Field(False, strict=True, description="All of its nodes, those that come later included.")
    projects: Names = Field((), description="Projects that the nodes are kept for.")
    people: Names = Field((), description="People that they are kept for. Without either they are closed.")


class WindowMoved(Times):
    """Its length stays where only its start is said."""

    version: Version = Field(None, description="The version that was seen; another one is not moved.")


class WindowCancelled(Asked):
    version: Version = Field(None, description="The version that was seen; another one is not cancelled.")
    why: Why = Field("", description="What others are told.")
    dry: bool = Field(False, strict=True, description="Only say what would be, and whom it would be about.")


class WindowItem(Said):
    id: int
    cluster: str
    state: str = Field(description="`planned`, `open`, `over` or `cancelled`.")
    opens: str
    closes: str
    nodes: list[str] = Field(description="None of them means all.")
    projects: list[str]
    people: list[str]
    why: str
    made_by: str
    made: str
    changed_by: str
    changed: str
    version: int = Field(description="Counted up with each change; who changes it says which one they saw.")


class AffectedItem(Said):
    job: int
    owner: str
    project: str
    what: str = Field(description="`ends` for one that runs, `starts` for one that waits.")
    before: str | None
    after: str | None
    then: str = Field(description="What becomes of one that it ends: it `waits again`, or `is over`.")


class WindowDone(WindowItem):
    affected: list[AffectedItem] = Field(description="Whose planned start or end is another one by it.")
    say: str


class WindowsAnswer(Said):
    windows: list[WindowItem]
