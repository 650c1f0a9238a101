"""`glidepath node`: the nodes of clusters as the last plan saw them, with what runs on each."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import Reader
from glidepath.cli.verb import Answer, Column, Noun, Options
from glidepath.cli.words import CordonNode, DrainNode, ResumeNode

COLUMNS = (
    Column("NODE", lambda item: item["name"]),
    Column("CLUSTER", lambda item: item["cluster"]),
    Column("STATE", lambda item: item["state"]),
    Column("SIZE", lambda item: item["size"]),
    Column("GPUS", lambda item: item["gpu_kind"], wide=True),
    Column("JOBS", lambda item: ", ".join(str(job) for job in item["jobs"])),
    Column("WHY", lambda item: item["why"]),
)


class List(Reader):
    """List the nodes of all clusters: their size, state and jobs"""

    options: ClassVar[Options] = {**SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            items = tuple(desk.nodes(caller))
        return Answer("NodeList", items, COLUMNS, nothing="no node of a cluster has been seen yet")


NOUN = Noun("node", {"list": List, "cordon": CordonNode, "drain": DrainNode, "resume": ResumeNode})
