"""Words of operators about queues, partitions and nodes of clusters, which the desk keeps.

Safe to repeat. They call for a turn of the scheduler; promises that move by them are told to whom they were
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import DRY_RUN
from glidepath.cli.pause import WHY
from glidepath.cli.verb import Exit, Options, Verb

if TYPE_CHECKING:
    from glidepath.jobs import desk as at

NAME: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "its name"}}


class SayWord(Verb):
    """Base: say it, and what became of it."""

    what: ClassVar[at.What]
    word: ClassVar[at.Word]
    options: ClassVar[Options] = {**NAME, **WHY, **SERVER, **DRY_RUN}

    def run(self) -> int:
        given = self.given
        with at_desk(self, write=not given["dry_run"]) as (desk, caller):
            why = given.get("why", "")
            item = desk.word(caller, self.what, given["name"], self.word, why=why, dry=given["dry_run"])
        self.caller.say(item["say"])
        return Exit.DONE


class PauseQueue(SayWord):
    """Pause a queue: nothing of it starts, what runs goes on"""

    what, word = "queue", "pause"


class ResumeQueue(SayWord):
    """Resume a queue that was paused"""

    what, word = "queue", "resume"
    options: ClassVar[Options] = {**NAME, **SERVER, **DRY_RUN}


class PausePartition(SayWord):
    """Pause a placed partition: nothing starts there, what runs goes on"""

    what, word = "partition", "pause"


class ResumePartition(SayWord):
    """Resume a placed partition that was paused"""

    what, word = "partition", "resume"
    options: ClassVar[Options] = {**NAME, **SERVER, **DRY_RUN}


class CordonNode(SayWord):
    """Cordon a node: nothing more starts there, what runs goes on"""

    what, word = "node", "cordon"


class DrainNode(SayWord):
    """Drain a node: nothing more starts there, and jobs that may be stopped wait again for another"""

    what, word = "node", "drain"


class ResumeNode(SayWord):
    """Open a node again that was cordoned or drained"""

    what, word = "node", "resume"
    options: ClassVar[Options] = {**NAME, **SERVER, **DRY_RUN}
