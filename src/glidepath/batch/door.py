"""What a batch site is asked, one command at a time: its queue, its accounting, the folder of its pilots.

Settings, a dialect and a runner come in; what was heard goes onto the books. It refuses to know why anything
is asked. Every question has what is left of the time of its call.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from glidepath.batch import programs
from glidepath.batch.books import Books, Queue, queue_of
from glidepath.batch.dialect import Dialect, Words
from glidepath.batch.dialects.answers import IDS_MAX, said
from glidepath.batch.folder import Folder, Sight
from glidepath.batch.intent import mark_of
from glidepath.batch.script import Site, top_of
from glidepath.batch.settings import BatchSettings
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Unsure
from glidepath.core.quantity import Instant, PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.ports import Place
from glidepath.remote.open import runner_of
from glidepath.remote.runner import Ran, Runner

LASTS_MAX = 20  # last lines that are read in one listing
HOUR_S = 3600
NOT_OURS = "another glidepath owns the store now; nothing was sent"


class Door:
    """The way to one site; may be used from several threads. Nothing is opened before the first question."""

    def __init__(
        self,
        site: SiteName,
        settings: BatchSettings,
        place: Place,
        *,
        dialect: Dialect,
        runner: Callable[[], Runner] | None = None,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.dialect = settings, dialect
        self.ours = place.ours
        self.site = Site(top_of(settings, site), mark_of(settings.folder, site))
        self.books = Books(dialect, settings.accounting, mono)
        self.lock = threading.Lock()  # around the books
        self.looked = False  # in this life
        self._make_runner = runner or (
            lambda: runner_of(settings.ssh, environ=os.environ, folder=place.home, site=site)
        )
        self._mono = mono
        self._opened: tuple[Runner, Folder] | None = None

    @property
    def runner(self) -> Runner:
        return self._open()[0]

    @property
    def folder(self) -> Folder:
        return self._open()[1]

    def _open(self) -> tuple[Runner, Folder]:
        with self.lock:
            if self._opened is None:
                runner = self._make_runner()
                self._opened = (runner, Folder(runner, self.site.top, shared=self.dialect.shares_folder))
            return self._opened

    def close(self) -> None:
        with self.lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[0].close()

    # The time of a call.

    def deadline(self) -> float:
        return self._mono() + self.settings.timeout

    def left(self, deadline: float) -> float:
        left_s = deadline - self._mono()
        if left_s <= 0:
            raise TimeoutError("the time of the call was up before its last command")
        return left_s

    def part(self, deadline: float, part: float) -> float:
        """A deadline that leaves the rest of the time for looking what came of it."""
        return self._mono() + self.left(deadline) * part

    # Questions.

    def run(self, words: Words, deadline: float) -> Ran:
        return self.runner.run(words.argv, given=words.given.encode(), limit_s=self.left(deadline))

    def program(self, program: str, words: tuple[str, ...], deadline: float, *, given: bytes = b"") -> Ran:
        """A program for the folder of this site."""
        argv = programs.argv(program, self.site.top, *words)
        return self.runner.run(argv, given=given, limit_s=self.left(deadline))

    def queue(self, deadline: float) -> Queue:
        ran = self.run(self.dialect.queued(None), deadline)
        return queue_of(self.dialect.jobs_queued(ran), self.site.mark)

    def account(self, queue: Queue, now: Instant, deadline: float) -> str:
        """Looks up those that the queue no longer knows; why that could not be done goes out."""
        with self.lock:
            absent = self.books.absent(queue)[:IDS_MAX]
            first_at = min((intent.asked_at for intent in self.books.jobs.values()), default=now)
        if not absent or not self.settings.accounting:
            return ""
        words = self.dialect.past(absent, since_s=max(0, now - first_at) + HOUR_S)
        if words is None:
            return ""
        try:
            found = self.dialect.jobs_past(self.run(words, deadline))
        except (OSError, ValueError) as error:
            return str(error)
        with self.lock:
            self.books.accounted(absent, found)
        return ""

    def look(self, queue: Queue, deadline: float) -> Sight:
        with self.lock:
            lasts = self.books.wanting(queue)[:LASTS_MAX]
            unsettled = [first for first in self.books.jobs if first not in self.books.numbers]
        sight = self.folder.look(lasts=lasts, unsettled=unsettled, limit_s=self.left(deadline))
        with self.lock:
            self.books.look(queue, sight)
            self.looked = True
        return sight

    def first_of(self, name: PilotName, deadline: float) -> PilotName | None:
        """The job of a pilot; None where there is none. One that is not known is looked for."""
        with self.lock:
            known = self.books.firsts.get(name)
        if known is None:
            self.look(self.queue(deadline), deadline)
            with self.lock:
                known = self.books.firsts.get(name)
        return known

    def number_of(self, first: PilotName, deadline: float) -> str:
        with self.lock:
            known = self.books.numbers.get(first, "")
        if known:
            return known
        job = self.queue(deadline).jobs.get(first)
        return job.native_id if job is not None else ""

    # Changes of the folder alone.

    def clear(self, first: PilotName, names: tuple[PilotName, ...], deadline: float) -> Outcome:
        done = self.done(programs.CLEAR, (first, *names), deadline)
        if isinstance(done, Done):
            self.folder.forget(first, names)
            with self.lock:
                self.books.forget(first)
        return done

    def done(self, program: str, words: tuple[str, ...], deadline: float) -> Outcome:
        if not self.ours():
            return NotTried(NOT_OURS)
        ran = self.program(program, words, deadline)
        found = programs.words_in(ran)
        if "gone" in found:
            return Done("it is gone")
        return Done() if "done" in found else broken("the folder", ran)


def broken(name: str, ran: Ran) -> Outcome:
    """A program that did not say what it should have."""
    if ran.code is None:
        return Unsure(f"`{one_line(name)}`: no answer came in time")
    return Failed(f"`{one_line(name)}`: {said(ran)}")
