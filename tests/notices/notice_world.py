"""Jobs of a scheduler in memory, ways of a real store, and letters that are kept instead of sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glidepath.config import NoticesSettings
from glidepath.notices.sending import Sent
from glidepath.notices.words import Letter
from glidepath.notifying import Notifying
from glidepath.store.notices import NoticeStore, Way
from placing.placing_world import PlacingWorld
from whole.running import until

ALL = ("start", "moved", "limit", "again", "end")


@dataclass
class Post:
    """What was sent, and what is answered: by the name of the way, the last answer for ever."""

    letters: list[tuple[str, Letter]] = field(default_factory=list)
    answers: dict[str, list[Sent]] = field(default_factory=dict)
    before: Callable[[Way], None] = lambda way: None

    def send(self, way: Way, letter: Letter) -> Sent:
        self.letters.append((way.name, letter))
        self.before(way)
        answers = self.answers.get(way.name, [None])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def told(self, name: str = "mail") -> list[list[str]]:
        return [[one.sentence for one in letter.notices] for way, letter in self.letters if way == name]


class NoticeWorld:
    def __init__(self, folder: Path, *, url: str = "", **settings: Any) -> None:
        self.placing = PlacingWorld(folder, url=url)
        self.settings = NoticesSettings.model_validate({"webhooks": True, **settings})
        self.store = NoticeStore(self.placing.store)
        self.post = Post()
        self.steady_s = 0.0
        self.closed: set[str] = set()
        self.live()

    def live(self) -> None:
        """A new life of whoever sends, as after a kill."""
        self.notifying = Notifying(
            store=self.store,
            settings=lambda: self.settings,
            send=self.post.send,
            open=lambda way: way.name not in self.closed,
            now=self.placing.time.now,
            wall=self.placing.time.wall,
            steady=lambda: self.steady_s,
        )

    def way(self, name: str = "mail", *, person: str = "ada", on: tuple[str, ...] = ALL, **own: Any) -> Way:
        wall = self.placing.time.wall()
        target = own.pop("target", f"{person}@example.org")
        return self.store.set(Way(f"{person}-{name}", person, name, target, "", on, wall, **own))

    def kept(self, name: str = "mail", *, person: str = "ada") -> Way:
        found = self.store.way(person, name)
        assert found is not None
        return found

    def look(self, *, after_s: int = 20) -> None:
        """One look, and all that it began is over; then so much time has gone by."""
        self.notifying.look()
        self.idle()
        self.placing.time.at += after_s
        self.steady_s += after_s

    def idle(self) -> None:
        until(lambda: not any(one.busy for one in self.notifying._states.values()), "nobody carries a letter")

    def looks(self, count: int = 3, *, after_s: int = 20) -> None:
        for _ in range(count):
            self.look(after_s=after_s)

    def ran(self, *, seconds: int = 30, **own: Any) -> int:
        """A job that ran to its end."""
        job = self.placing.submit(**own)
        self.placing.cluster.runs_s[job] = seconds
        self.placing.until_over(job)
        return job

    def close(self) -> None:
        self.placing.close()
