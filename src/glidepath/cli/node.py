"""`glidepath node`: the nodes of clusters as the last plan saw them, with what runs on each."""

from __future__ import annotations

from typing import Any, ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.placedview import placing_journal
from glidepath.cli.session import located, opened
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

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        from glidepath.core.units import shown_resources

        place = located(self)
        items: list[dict[str, Any]] = []
        with opened(self, place=place) as session:
            words = {pause.about: pause for pause in session.journal.pauses()}
            for cluster in sorted(place.settings.clusters):
                journal = placing_journal(session, cluster)
                seen = journal.seen_cluster()
                jobs: dict[str, list[int]] = {}
                for record in journal.roll().records.values():
                    for seat in record.places:
                        jobs.setdefault(seat.node, []).append(record.id)
                for node in seen.nodes if seen is not None else ():
                    word = words.get(f"node:{node.name}")
                    state = "drained" if word is not None and word.drain else node.state.value
                    items.append(
                        {
                            "name": str(node.name),
                            "cluster": cluster,
                            "state": "cordoned" if word is not None and not word.drain else state,
                            "size": shown_resources(node.size),
                            "gpu_kind": node.gpu_kind,
                            "jobs": jobs.get(node.name, []),
                            "why": word.why if word is not None else "",
                        }
                    )
        return Answer("NodeList", tuple(items), COLUMNS, nothing="no node of a cluster has been seen yet")


NOUN = Noun("node", {"list": List, "cordon": CordonNode, "drain": DrainNode, "resume": ResumeNode})
