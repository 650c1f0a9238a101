"""Words of operators about queues, partitions and nodes of clusters, kept in the store.

Safe to repeat. The scheduler reads them in its next turn; promises that move by them are told to whom they
were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli.output import DRY_RUN
from glidepath.cli.pause import WHY
from glidepath.cli.session import Located, located, login, opened
from glidepath.cli.verb import Exit, Options, Verb, not_found

if TYPE_CHECKING:
    from glidepath.cli.session import Session

QUEUES = ("interactive", "batch")
NAME: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "its name"}}


def known_names(kind: str, place: Located, session: Session) -> list[str]:
    if kind == "queue":
        return list(QUEUES)
    if kind == "partition":
        return list(place.placed)
    from glidepath.cli.placedview import placing_journal

    found: set[str] = set()
    for cluster in place.settings.clusters:
        seen = placing_journal(session, cluster).seen_cluster()
        found |= {str(node.name) for node in seen.nodes} if seen is not None else set()
    return sorted(found)


class Word(Verb):
    """Base: find out what is meant, then say it."""

    kind: ClassVar[str]
    past: ClassVar[str]  # what it is then
    drain: ClassVar[bool] = False
    ends: ClassVar[bool] = False
    options: ClassVar[Options] = {**NAME, **WHY, **DRY_RUN}

    def run(self) -> int:
        place, name = located(self), self.given["name"]
        with opened(self, place=place, write=not self.given["dry_run"]) as session:
            words = {pause.about: pause for pause in session.journal.pauses()}
            about = f"{self.kind}:{name}"
            known = known_names(self.kind, place, session)
            if name not in known and about not in words:
                raise not_found(self.kind, name, known)
            had = words.get(about)
            same = had is None if self.ends else had is not None and had.drain == self.drain
            if self.given["dry_run"]:
                line = f"would be {self.past}" if not same else f"is {self.past} already"
                self.caller.say(f"{self.kind} `{name}` {line}; nothing was changed")
                return Exit.DONE
            if self.ends:
                session.journal.resume(about)
            else:
                session.journal.pause(about, login(), self.given["why"], drain=self.drain)
        self.caller.say(f"{self.kind} `{name}` is {self.past}{' already' if same else ''}")
        return Exit.DONE


class PauseQueue(Word):
    """Pause a queue: nothing of it starts, what runs goes on"""

    kind, past = "queue", "paused"


class ResumeQueue(Word):
    """Resume a queue that was paused"""

    kind, past, ends = "queue", "open", True
    options: ClassVar[Options] = {**NAME, **DRY_RUN}


class PausePartition(Word):
    """Pause a placed partition: nothing starts there, what runs goes on"""

    kind, past = "partition", "paused"


class ResumePartition(Word):
    """Resume a placed partition that was paused"""

    kind, past, ends = "partition", "open", True
    options: ClassVar[Options] = {**NAME, **DRY_RUN}


class CordonNode(Word):
    """Cordon a node: nothing more starts there, what runs goes on"""

    kind, past = "node", "cordoned"


class DrainNode(Word):
    """Drain a node: nothing more starts there, and jobs that may be stopped wait again for another"""

    kind, past, drain = "node", "drained", True


class ResumeNode(Word):
    """Open a node again that was cordoned or drained"""

    kind, past, ends = "node", "open", True
    options: ClassVar[Options] = {**NAME, **DRY_RUN}
