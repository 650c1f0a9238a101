"""`glidepath queue`: the queues of placed partitions, how many wait and run in each, paused or not."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.session import opened
from glidepath.cli.verb import Answer, Column, Noun, Options
from glidepath.cli.words import QUEUES, PauseQueue, ResumeQueue

COLUMNS = (
    Column("QUEUE", lambda item: item["name"]),
    Column("STATE", lambda item: "paused" if item["paused"] else "open"),
    Column("WAITING", lambda item: item["waiting"], right=True),
    Column("RUNNING", lambda item: item["running"], right=True),
    Column("WHY", lambda item: item["why"]),
)


class List(Reader):
    """List the queues: what waits and runs in each, and whether it is paused"""

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        with opened(self) as session:
            words = {pause.about: pause for pause in session.journal.pauses()}
            counts = session.placed.counts()
        items = []
        for queue in QUEUES:
            word = words.get(f"queue:{queue}")
            waiting = sum(n for (_, of, phase), n in counts.items() if of == queue and phase == "waits")
            running = sum(n for (_, of, phase), n in counts.items() if of == queue and phase != "waits")
            item = {"name": queue, "paused": word is not None, "waiting": waiting, "running": running}
            items.append({**item, "why": word.why if word is not None else ""})
        return Answer("QueueList", tuple(items), COLUMNS)


NOUN = Noun("queue", {"list": List, "pause": PauseQueue, "resume": ResumeQueue})
