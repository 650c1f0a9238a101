"""`glidepath partition`: where jobs can be submitted, pulled from a pool or placed on a cluster."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import Reader, span
from glidepath.cli.verb import Answer, Column, Noun, Options
from glidepath.cli.words import PausePartition, ResumePartition

COLUMNS = (
    Column("PARTITION", lambda item: item["name"]),
    Column("KIND", lambda item: item["kind"]),
    Column("OF", lambda item: item["of"]),
    Column("QUEUES", lambda item: ", ".join(item["queues"])),
    Column("LIMIT", lambda item: span(item["limit_s_max"])),
    Column("STATE", lambda item: "paused" if item["paused"] else "open"),
    Column("WAITING", lambda item: item["waiting"], right=True),
    Column("RUNNING", lambda item: item["running"], right=True),
    Column("WHY", lambda item: item["why"]),
)


class List(Reader):
    """List the partitions: their pool or cluster, queues, longest limit, what waits and runs"""

    options: ClassVar[Options] = {**SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            items = tuple(desk.partitions(caller))
        notes = tuple(f"partition {item['name']}: {note}" for item in items for note in item.get("notes", ()))
        return Answer("PartitionList", items, COLUMNS, notes=notes)


NOUN = Noun("partition", {"list": List, "pause": PausePartition, "resume": ResumePartition})
