"""Who hears of which event: events come in, notices for one way go out. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from glidepath.notices.words import KIND_OF, LISTED_MAX, Kind, Letter, Notice
from glidepath.store.notices import Happened, Way


def notice_of(happened: Happened) -> Notice | None:
    """What its owner may want to hear; None for what is no news."""
    kind = KIND_OF[happened.kind]
    if kind is Kind.MOVED and not happened.before:
        return None  # The first promise is the answer to the submission.
    # Of a job that ran, the first one says that it was asked for, and the second that it is so.
    if happened.kind == "cancelled" and (happened.after or not happened.over):
        return None
    return Notice(
        event=happened.event,
        job=happened.job,
        name=happened.name,
        kind=kind,
        wall_s=happened.wall_s,
        attempt=happened.attempt,
        what=happened.kind,
        text=happened.text,
    )


def wants(way: Way, happened: Happened, kind: Kind) -> bool:
    """Only of their own jobs; what a job's submission said counts before what the way says."""
    if happened.owner != way.person:
        return False
    return kind is Kind.OFF or kind in (way.wanted if happened.notify is None else happened.notify)


@dataclass
class Due:
    """What is to be told in one letter: the first notices, the rest by its kinds, the last event of all."""

    notices: list[Notice] = field(default_factory=list)
    more: Counter[Kind] = field(default_factory=Counter)
    upto: int = 0
    rest_until_s: float | None = None  # the last letter for now; the next is at this time

    def __bool__(self) -> bool:
        return bool(self.notices)

    def add(self, notice: Notice) -> None:
        self.upto = notice.event
        if len(self.notices) < LISTED_MAX:
            self.notices.append(notice)
        else:
            self.more[notice.kind] += 1

    def letter(self, way: Way) -> Letter:
        """Its id is the same whenever the same letter is sent again."""
        of = (tuple(self.notices), dict(self.more), self.rest_until_s)
        return Letter(f"{way.id}-{self.upto}", way.name, *of)


def taken_in(way: Way, due: Due, found: Iterable[Happened]) -> None:
    for happened in found:
        notice = notice_of(happened)
        if notice is not None and wants(way, happened, notice.kind):
            due.add(notice)
