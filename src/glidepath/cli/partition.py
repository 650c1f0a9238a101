"""`glidepath partition`: where jobs can be submitted, pulled from a pool or placed on a cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from glidepath.cli.output import Reader, span
from glidepath.cli.session import located, opened
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

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        from glidepath.config import partitions_of
        from glidepath.store.job import JobState

        place = located(self)
        items: list[dict[str, Any]] = []
        with opened(self, place=place) as session:
            words = {pause.about: pause for pause in session.journal.pauses()}
            counts = session.placed.counts()
            for name, pool in partitions_of(place.settings):
                states = session.jobs.counts(name)
                running = states.get(JobState.RUNNING, 0) + states.get(JobState.CANCELLING, 0)
                waiting = states.get(JobState.QUEUED, 0)
                items.append({**_item(name, "pulled", pool), "waiting": waiting, "running": running})
        for name, cluster in place.placed.items():
            part, word = place.settings.partitions[name], words.get(f"partition:{name}")
            item = _item(name, "placed", cluster)
            item |= {"queues": list(part.queues), "limit_s_max": part.limit_max}
            item["waiting"] = sum(
                n for (of, _, phase), n in counts.items() if of == name and phase == "waits"
            )
            item["running"] = sum(n for (of, _, phase), n in counts.items() if of == name) - item["waiting"]
            item |= {"paused": word is not None, "why": word.why if word is not None else ""}
            items.append(item)
        return Answer("PartitionList", tuple(sorted(items, key=lambda one: one["name"])), COLUMNS)


def _item(name: str, kind: str, of: str) -> dict[str, Any]:
    common: dict[str, Any] = {"name": name, "kind": kind, "of": str(of), "queues": [], "limit_s_max": None}
    return {**common, "paused": False, "why": "", "waiting": 0, "running": 0}


NOUN = Noun("partition", {"list": List, "pause": PausePartition, "resume": ResumePartition})
