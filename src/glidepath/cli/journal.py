"""`glidepath journal`: the cycles that are kept and what happened beside them, newest last."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader
from glidepath.cli.session import START, iso, opened
from glidepath.cli.verb import Answer, Column, Noun, Options

LIMIT_DEFAULT = 20

COLUMNS = (
    Column("CYCLE", lambda item: item["cycle"], right=True),
    Column("TIME", lambda item: item["time"]),
    Column("ACTIONS", lambda item: item["actions"], right=True),
)


class List(Reader):
    """List the cycles that are kept; `replay` decides one of them again"""

    options: ClassVar[Options] = {
        "limit": {
            "args": ("--limit",),
            "type": argument.count,
            "default": LIMIT_DEFAULT,
            "metavar": "N",
            "help": "the newest N (default: 20)",
        },
        **Reader.options,
    }

    def answer(self) -> Answer:
        with opened(self) as session:
            headers = session.journal.headers(limit=self.given["limit"])
        items = tuple(
            {"cycle": one.cycle, "time": iso(one.moment.wall_s), "actions": one.actions}
            for one in sorted(headers, key=lambda one: one.cycle)
        )
        nothing = f"nothing has been decided yet; {START}"
        return Answer("CycleList", items, COLUMNS, nothing=nothing, name=lambda item: item["cycle"])


NOTES = (
    Column("TIME", lambda item: item["time"]),
    Column("KIND", lambda item: item["kind"]),
    Column("BY", lambda item: item["by"]),
    Column("TEXT", lambda item: item["text"]),
)


class Events(List):
    """List what happened beside the cycles: configuration taken up or refused, pauses, words of operators"""

    def answer(self) -> Answer:
        with opened(self) as session:
            notes = session.journal.events(limit=self.given["limit"])
        items = tuple(
            {"time": iso(one.wall_s), "kind": one.kind, "by": one.by, "text": one.text}
            for one in reversed(notes)
        )
        return Answer("EventList", items, NOTES, nothing="nothing to tell", name=lambda item: item["time"])


NOUN = Noun("journal", {"list": List, "events": Events})
