"""What is said: events of jobs come in, notices and letters of one or many of them go out, as text or JSON.

Names and reasons are of strangers, and are shown on one line each. It refuses to know how a letter is sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from glidepath.clock import iso
from glidepath.core.text import one_line

# What one letter lists; the rest is counted.
LISTED_MAX = 50
SENTENCE_LETTERS_MAX = 400
NAME_LETTERS_MAX = 60
SUBJECT_LETTERS_MAX = 150


class Kind(StrEnum):
    """What people may want to hear of."""

    START = "start"
    MOVED = "moved"
    LIMIT = "limit"
    AGAIN = "again"
    END = "end"
    OFF = "off"  # of an address that was switched off; told through the others, wanted or not


KIND_HELP = MappingProxyType(
    {
        Kind.START: "it began to run",
        Kind.MOVED: "its promised start moved",
        Kind.LIMIT: "its time is almost out, or something else is about to end it",
        Kind.AGAIN: "it lost a node, and goes on or waits again",
        Kind.END: "it ended, failed or was cancelled",
    }
)
# Which event is which notice. A promise counts from the second on, and one that is taken back.
KIND_OF = MappingProxyType(
    {
        "began": Kind.START,
        "promise": Kind.MOVED,
        "notice": Kind.LIMIT,
        "time": Kind.LIMIT,
        "waits again": Kind.AGAIN,
        "lost a rank": Kind.AGAIN,
        "done": Kind.END,
        "failed": Kind.END,
        "cancelled": Kind.END,
        "refused": Kind.END,
        "notices off": Kind.OFF,
    }
)
SAID = MappingProxyType(
    {
        "began": "runs",
        "promise": "",
        "notice": "",
        "time": "",
        "waits again": "waits again",
        "lost a rank": "lost a node",
        "done": "is done",
        "failed": "failed",
        "cancelled": "was cancelled",
        "refused": "was refused",
        "notices off": "",
    }
)
# What the event itself says and everybody knows by then.
_SAYS_NOTHING = frozenset({"", "it runs", "done", "failed", "cancelled", "refused", "waits again"})


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened to one job; the number is that of the event."""

    event: int
    job: int
    name: str
    kind: Kind
    wall_s: float
    attempt: int
    what: str  # the kind of the event
    text: str  # the event's own words

    @property
    def sentence(self) -> str:
        name = f" `{one_line(self.name, letters_max=NAME_LETTERS_MAX)}`" if self.name else ""
        said = SAID[self.what]
        more = "" if self.text in _SAYS_NOTHING else self.text
        words = f" {said}: {more}" if said and more else f" {said}" if said else f": {more}"
        return one_line(f"job {self.job}{name}{words}", letters_max=SENTENCE_LETTERS_MAX)


@dataclass(frozen=True, slots=True)
class Letter:
    """One message: the first notices in order, and how many more there were of which kind."""

    id: str
    way: str
    notices: tuple[Notice, ...] = ()
    more: Mapping[Kind, int] = field(default_factory=dict)
    rest_until_s: float | None = None  # the last one for now; what comes then is told at this time
    test: bool = False

    @property
    def more_count(self) -> int:
        return sum(self.more.values())

    @property
    def subject(self) -> str:
        if self.test:
            return "a test of notices"
        if len(self.notices) == 1 and not self.more_count:
            return one_line(self.notices[0].sentence, letters_max=SUBJECT_LETTERS_MAX)
        count = len(self.notices) + self.more_count
        kinds = Counter(notice.kind for notice in self.notices) + Counter(self.more)
        each = ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
        return f"{count} notices of your jobs: {each}"

    @property
    def lines(self) -> tuple[str, ...]:
        if self.test:
            return (f"This is a test of `{self.way}`. Notices of your jobs will look like this one.",)
        listed = tuple(f"{iso(notice.wall_s)}  {notice.sentence}" for notice in self.notices)
        more = (f"and {self.more_count} more",) if self.more_count else ()
        if self.rest_until_s is None:
            return (*listed, *more)
        rest = f"This was the last one for now: what happens until {iso(self.rest_until_s)} is told then."
        return (*listed, *more, rest)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def body(self, person: str) -> bytes:
        """What a webhook gets: `text` for chats, the rest for programs."""
        said: dict[str, Any] = {
            "id": self.id,
            "person": person,
            "text": self.text,
            "notices": [_item(notice) for notice in self.notices],
            "more": self.more_count,
        }
        return json.dumps(said).encode("ascii")


def _item(notice: Notice) -> dict[str, Any]:
    return {
        "id": notice.event,
        "job": notice.job,
        "name": notice.name,
        "kind": notice.kind.value,
        "event": notice.what,
        "at": iso(notice.wall_s),
        "attempt": notice.attempt,
        "text": notice.sentence,
    }
