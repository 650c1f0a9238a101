"""The folder of a site as it was found: what jobs were asked for, which pilots ended and with which words.

A runner comes in, and what its shell says goes out as values. What never changes is read once. A folder that
cannot be read as a whole raises: what is not there must not look like what is gone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from glidepath.batch import programs
from glidepath.batch.dialect import OddAnswer
from glidepath.batch.dialects.answers import said
from glidepath.batch.intent import Intent, intent_of, usable
from glidepath.core.quantity import PilotName
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran, Runner

CLEARED = "cleared"
NOTES_MAX = 20


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a pilot that is over, mostly by its own last words."""

    ok: bool
    why: str
    wordless: bool = False  # these are words of the script around it
    cleared: bool = False  # nobody is interested in it any more


@dataclass(frozen=True, slots=True)
class Sight:
    """All that the folder holds, at one moment."""

    jobs: dict[PilotName, Intent] = field(default_factory=dict)  # by first pilot
    endings: dict[PilotName, Ending] = field(default_factory=dict)
    answers: dict[PilotName, Ran] = field(default_factory=dict)  # of the submit command, where it is needed
    nodes: dict[PilotName, str] = field(default_factory=dict)
    lasts: dict[PilotName, str] = field(default_factory=dict)  # last lines, where they were wanted
    lacking: int = 0  # jobs that are there and cannot be told
    notes: tuple[str, ...] = ()


class Folder:
    """One folder at one place; may be used from several threads."""

    def __init__(self, runner: Runner, top: str, *, shared: bool = True) -> None:
        self._runner, self.top = runner, top
        self._words = "shared" if shared else "brought"
        self._lock = threading.Lock()
        self._known: dict[str, object] = {}  # contents by path

    def look(self, *, lasts: Iterable[str] = (), unsettled: Iterable[str] = (), limit_s: float) -> Sight:
        """`lasts` are pilots as `JOB/PILOT`; of `unsettled` jobs the answer is wanted once more."""
        with self._lock:
            again = {f"asked/{name}" for name in unsettled}
            given = "\n".join(path for path in self._known if path not in again)
        words = programs.argv(programs.LOOK, self.top, self._words, *lasts)
        ran = self._runner.run(words, given=f"{given}\n".encode(), limit_s=limit_s)
        if ran.code is None:
            raise TimeoutError(f"the folder {self.top} gave no answer in time")
        if ran.code != 0:
            raise OSError(f"the folder {self.top} cannot be read: {said(ran)}")
        return self._read(ran)

    def _read(self, ran: Ran) -> Sight:
        head, files, rest = ran.out.partition(f"{programs.WORD}files\n")
        body, whole, _ = rest.rpartition(f"{programs.WORD}whole")
        if ran.cut or not files or not whole:
            raise OddAnswer(f"the folder {self.top} was not listed as a whole: {said(ran)}")
        paths = {line for line in head.split("\n") if line}
        contents: dict[str, list[str]] = {}
        for line in body.split("\n"):
            path, colon, content = line.partition(":")
            if colon:
                contents.setdefault(path, []).append(content)
        with self._lock:
            self._known = {path: found for path, found in self._known.items() if path in paths}
            notes = list(self._learn(contents))
            lacking = [path for path in paths if path.startswith("asked/") and path not in self._known]
            sight = _sight(self._known, contents)
        notes += [f"what `{path.partition('/')[2]}` was asked for cannot be read" for path in sorted(lacking)]
        if len(notes) > NOTES_MAX:
            notes[NOTES_MAX:] = [f"and {len(notes) - NOTES_MAX} more like these"]
        return Sight(
            sight.jobs, sight.endings, sight.answers, sight.nodes, sight.lasts, len(lacking), tuple(notes)
        )

    def _learn(self, contents: dict[str, list[str]]) -> Iterable[str]:
        for path, lines in contents.items():
            kind, _, name = path.partition("/")
            try:
                if kind == "asked":
                    intent = intent_of(lines[0])
                    if intent.first != name:
                        raise ValueError("it is that of another pilot")
                    self._known[path] = intent
                elif kind == "ended" and (ending := _ending(lines[0])) is not None:
                    self._known[path] = ending
                elif kind == "nodes":
                    self._known[path] = one_line(lines[0])
            except ValueError as error:
                yield f"`{one_line(path)}` is left alone: {error}"

    def forget(self, first: str, names: Sequence[str]) -> None:
        """After it was cleared, so that the same name, if it came back, would be read anew."""
        with self._lock:
            for path in (f"asked/{first}", *(f"{kind}/{n}" for n in names for kind in ("ended", "nodes"))):
                self._known.pop(path, None)


def _sight(known: dict[str, object], contents: dict[str, list[str]]) -> Sight:
    found = Sight()
    for path, content in known.items():
        kind, _, text = path.partition("/")
        name = PilotName(text)
        if isinstance(content, Intent):
            found.jobs[name] = content
        elif isinstance(content, Ending):
            found.endings[name] = content
        elif kind == "nodes":
            found.nodes[name] = str(content)
    for path, lines in contents.items():
        kind, _, text = path.partition("/")
        if kind == "answers" and (answer := answer_of(lines)) is not None:
            found.answers[PilotName(text)] = answer
        elif kind == "last" and usable(text):
            found.lasts[PilotName(text)] = one_line(lines[0])
    return found


def answer_of(lines: Sequence[str]) -> Ran | None:
    """How the submit command ended, as it was kept; None where it has not ended yet."""
    if not lines or not lines[0].lstrip("-").isdigit():
        return None
    out, _, err = "\n".join(lines[1:]).partition(f"{programs.WORD}err")
    return Ran(int(lines[0]), out, err)


def _ending(text: str) -> Ending | None:
    """None where it is not written to its end yet."""
    if text == CLEARED:
        return Ending(ok=True, why="", cleared=True)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return Ending(
        ok=found.get("ok") is True,
        why=one_line(str(found.get("why", ""))),
        wordless=found.get("wordless") is True,
    )
