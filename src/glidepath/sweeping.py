"""The sweep: a thread that removes what is over for long, a little at a time, seldom.

The store and the home come in; how long what is kept comes from the settings. What cannot be removed is told
and tried again an hour later. It refuses to know why a job ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from glidepath.config import KeepSettings
from glidepath.core.quantity import Instant
from glidepath.ranklog import logged_jobs, remove_logs
from glidepath.store.engine import StoreError
from glidepath.store.sweep import Sweep

# After a start there is other work first; later nobody waits for a sweep.
FIRST_S, EVERY_S = 60.0, 3600.0
# Between two steps, so that a long backlog takes little of a disk that others need.
REST_S = 0.2
FOLDERS_AT_ONCE = 200
ENTRIES_AT_ONCE = 2000
# So that one pass ends: at this pace it is a day's work, and the next pass goes on.
STEPS_MAX = 200_000
STOP_S_MAX = 10.0


@dataclass
class Sweeper:
    """Begins with `start`; `pass_once` is all that it does, again and again."""

    home: Path
    sweep: Sweep
    keep: Callable[[], KeepSettings]
    now: Callable[[], Instant]
    wall: Callable[[], float]
    journal_s: Callable[[], int]  # how long plans are kept
    rest_s: float = REST_S
    trouble: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        wait_s = FIRST_S
        while not self._stop.wait(wait_s):
            wait_s = EVERY_S
            try:
                trouble = self.pass_once()
            except (StoreError, OSError) as error:
                trouble = str(error)
            self.trouble = f"what is over for long is not removed: {trouble}" if trouble else ""

    def pass_once(self) -> str:
        """Everything that is due; the first trouble with a folder, or nothing."""
        keep = self.keep()
        # Both clocks must say that it is old: one that jumps ahead must not empty the store.
        now = min(self.wall(), float(self.now()))
        # Logs first: a crash leaves a job without its log, and never a log that nobody knows.
        trouble = self._logs(now - keep.logs)
        self._steps(lambda: self.sweep.keys(now - keep.client_keys) > 0)
        self._jobs(now - keep.jobs, now - keep.client_keys)
        self._steps(lambda: self.sweep.plans(now - self.journal_s()) > 0)
        return trouble

    def _steps(self, step: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            if self._stop.is_set() or not step():
                return
            self._stop.wait(self.rest_s)

    def _jobs(self, wall_s: float, keys_wall_s: float) -> None:
        above: int | None = 0

        def step() -> bool:
            nonlocal above
            assert above is not None
            _, above = self.sweep.jobs(wall_s, keys_wall_s=keys_wall_s, above=above)
            return above is not None

        self._steps(step)

    def _logs(self, wall_s: float) -> str:
        found = logged_jobs(self.home)
        trouble = ""

        def step() -> bool:
            nonlocal trouble
            some = list(islice(found, FOLDERS_AT_ONCE))
            for job in sorted(self.sweep.over_before(some, wall_s)) if some else ():
                trouble = trouble or self._removed(job)
            return bool(some)

        self._steps(step)
        return trouble

    def _removed(self, job: int) -> str:
        try:
            self._steps(lambda: not remove_logs(self.home, job, entries_max=ENTRIES_AT_ONCE))
        except OSError as error:
            return f"the log of job {job}: {error.strerror or error}"
        return ""
