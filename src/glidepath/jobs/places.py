"""Queues, partitions and nodes: what waits and runs there, and what operators say of them.

A word is kept in the store and safe to repeat. It calls for a turn of the scheduler; promises that
move by it are told to whom they were made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glidepath.config import partitions_of, placed_of
from glidepath.core.place.record import Phase
from glidepath.core.provision.sight import Pause
from glidepath.core.schedule.cluster import Node, NodeState, Window
from glidepath.core.units import shown_resources
from glidepath.jobs.desk import WORDS, Item, What, Word
from glidepath.jobs.doors import Doors, Now
from glidepath.jobs.errors import Unusable
from glidepath.jobs.specs import no_such
from glidepath.jobs.submission import unusable
from glidepath.nudge import nudge
from glidepath.store.job import JobState, checked_text

QUEUES = ("interactive", "batch")
# What a thing is after each word.
PAST: dict[Word, str] = {"pause": "paused", "cordon": "cordoned", "drain": "drained", "resume": "open"}
WHY_CHARS_MAX = 500

SeesJob = Callable[[str, str], bool]  # of an owner and a project


@dataclass(frozen=True, slots=True)
class Places:
    doors: Doors

    def queues(self) -> list[Item]:
        words, counts = self._words(), self.doors.placed.counts()
        items = []
        for queue in QUEUES:
            by_phase = [(phase, n) for (_, of, phase), n in counts.items() if of == queue]
            items.append({"name": queue, **_paused(words.get(f"queue:{queue}")), **_load(by_phase)})
        return items

    def partitions(self) -> list[Item]:
        doors = self.doors
        words, counts, settings = self._words(), doors.placed.counts(), doors.settings
        items = []
        for name, pool in partitions_of(settings):
            states = doors.jobs.counts(name)
            running = states.get(JobState.RUNNING, 0) + states.get(JobState.CANCELLING, 0)
            load = {"waiting": states.get(JobState.QUEUED, 0), "running": running}
            items.append({**_partition(name, "pulled", str(pool)), **load})
        for name, cluster in placed_of(settings).items():
            part = settings.partitions[name]
            rules = {"queues": list(part.queues), "limit_s_max": part.limit_max}
            load = _load([(phase, n) for (of, _, phase), n in counts.items() if of == name])
            paused = _paused(words.get(f"partition:{name}"))
            seen = doors.placing(cluster).seen_cluster()
            notes = {"notes": list(seen.told) if seen is not None else []}
            items.append({**_partition(name, "placed", cluster), **rules, **paused, **load, **notes})
        return sorted(items, key=lambda one: str(one["name"]))

    def nodes(self, sees: SeesJob) -> list[Item]:
        """As the last plans saw them; only jobs that the caller may see are named."""
        words, items, now = self._words(), [], self.doors.now()
        for cluster in sorted(self.doors.settings.clusters):
            journal = self.doors.placing(cluster)
            seen = journal.seen_cluster()
            jobs: dict[str, list[int]] = {}
            for record in journal.roll().records.values():
                if sees(record.job.owner, record.job.project):
                    for seat in record.places:
                        jobs.setdefault(seat.node, []).append(record.id)
            for node in seen.nodes if seen is not None else ():
                word = words.get(f"node:{node.name}")
                state, why = _state(node, word, seen.windows if seen is not None else (), now)
                items.append(
                    {
                        "name": str(node.name),
                        "cluster": cluster,
                        "state": state,
                        "size": shown_resources(node.size),
                        "gpu_kind": node.gpu_kind,
                        "jobs": jobs.get(node.name, []),
                        "why": why,
                    }
                )
        return items

    def word(self, what: What, name: str, word: Word, *, by: str, why: str, dry: bool) -> Item:
        if word not in WORDS[what]:
            known = ", ".join(f"`{one}`" for one in WORDS[what])
            raise Unusable(f"`{word}` is no word for a {what}; say one of {known}")
        about, words = f"{what}:{name}", self._words()
        if about not in words:
            known_names = self._names(what)
            if name not in known_names:
                raise no_such(what, name, known_names)
        had, past = words.get(about), PAST[word]
        drain, ends = word == "drain", word == "resume"
        same = had is None if ends else had is not None and had.drain == drain
        if dry:
            line = f"is {past} already" if same else f"would be {past}"
            return {"name": name, "state": past, "say": f"{what} `{name}` {line}; nothing was changed"}
        with self.doors.turn:
            if ends:
                self.doors.journal.resume(about)
            else:
                self.doors.journal.pause(about, by, _sound(why), drain=drain)
        nudge(self.doors.home)
        return {"name": name, "state": past, "say": f"{what} `{name}` is {past}{' already' if same else ''}"}

    def _names(self, what: What) -> list[str]:
        if what == "queue":
            return list(QUEUES)
        if what == "partition":
            return list(placed_of(self.doors.settings))
        found: set[str] = set()
        for cluster in self.doors.settings.clusters:
            seen = self.doors.placing(cluster).seen_cluster()
            found |= {str(node.name) for node in seen.nodes} if seen is not None else set()
        return sorted(found)

    def _words(self) -> dict[str, Pause]:
        return {pause.about: pause for pause in self.doors.journal.pauses()}


def _state(node: Node, word: Pause | None, windows: tuple[Window, ...], now: Now) -> tuple[str, str]:
    """What an operator says of it comes first, then what a window does to it."""
    if word is not None:
        return "drained" if word.drain else "cordoned", word.why
    ahead = [w for w in windows if w.touches((node.name,)) and w.closes_at > now.at]
    first = min(ahead, key=lambda window: (window.opens_at, window.name), default=None)
    if first is None:
        return node.state.value, ""
    if first.opens_at > now.at:
        return node.state.value, f"window {first.name} opens at {now.text(first.opens_at)}"
    state = node.state.value
    if node.state is NodeState.UP:
        state = "kept" if first.kept else "closed"
    return state, f"window {first.name} closes at {now.text(first.closes_at)}"


def _sound(why: str) -> str:
    try:
        return checked_text("reason", why, chars_max=WHY_CHARS_MAX, empty=True)
    except ValueError as error:
        raise unusable((("why", str(error)),)) from None


def _load(by_phase: list[tuple[str, int]]) -> dict[str, int]:
    waiting = sum(n for phase, n in by_phase if phase == Phase.WAITS.value)
    return {"waiting": waiting, "running": sum(n for _, n in by_phase) - waiting}


def _paused(word: Pause | None) -> Item:
    return {"paused": word is not None, "why": word.why if word is not None else ""}


def _partition(name: str, kind: str, of: str) -> Item:
    common: Item = {"name": name, "kind": kind, "of": of, "queues": [], "limit_s_max": None}
    return {**common, "paused": False, "why": "", "waiting": 0, "running": 0, "notes": []}
