"""`glidepath queue`: the queues of placed partitions, how many wait and run in each, paused or not."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import Reader
from glidepath.cli.verb import Answer, Column, Noun, Options
from glidepath.cli.words import PauseQueue, ResumeQueue

COLUMNS = (
    Column("QUEUE", lambda item: item["name"]),
    Column("STATE", lambda item: "paused" if item["paused"] else "open"),
    Column("WAITING", lambda item: item["waiting"], right=True),
    Column("RUNNING", lambda item: item["running"], right=True),
    Column("WHY", lambda item: item["why"]),
)


class List(Reader):
    """List the queues: what waits and runs in each, and whether it is paused"""

    options: ClassVar[Options] = {**SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            return Answer("QueueList", tuple(desk.queues(caller)), COLUMNS)


NOUN = Noun("queue", {"list": List, "pause": PauseQueue, "resume": ResumeQueue})
