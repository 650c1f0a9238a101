"""The last words of pilots: what the cloud says of an end comes in, what the pilot itself wrote is added.

A pilot writes its summary as the last line of its output. It is read once for each job, a few in one listing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from glidepath.cloud.answers import OddAnswer
from glidepath.cloud.door import CloudDoor, CloudError, Verb
from glidepath.cloud.jobs import Job
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line


@dataclass(frozen=True, slots=True)
class Told:
    state: SiteState
    note: str


class Endings:
    """Remembered for as long as their jobs are listed."""

    def __init__(self, door: CloudDoor, *, read_max: int) -> None:
        self._door, self._read_max = door, read_max
        self._lock = threading.Lock()
        self._lines: dict[str, str] = {}

    def read(self, over: Sequence[Job], *, deadline: float) -> None:
        """A log that cannot be had is not asked for again: the end itself is known."""
        if not self._door.knows(Verb.LOGS):
            return
        with self._lock:
            ids = {job.id for job in over}
            self._lines = {id_: line for id_, line in self._lines.items() if id_ in ids}
            due = [job for job in over if job.id not in self._lines][: self._read_max]
        for job in due:
            values = {"id": job.id, "pilot": job.intent.pilot, "site": job.intent.site}
            try:
                text = self._door.ask(Verb.LOGS, values, deadline=deadline).text
            except (CloudError, OddAnswer):
                text = ""
            lines = text.strip().splitlines()
            with self._lock:
                self._lines[job.id] = lines[-1] if lines else ""

    def of(self, job: Job) -> Told:
        with self._lock:
            line = self._lines.get(job.id, "") if job.over else ""
        if not line:
            return Told(job.state, job.note)
        try:
            summary = json.loads(line)
        except (ValueError, RecursionError):
            summary = None
        if not isinstance(summary, dict) or "why" not in summary:
            return Told(job.state, f"{job.note}; its last line: {one_line(line)}")
        # A pilot that says it failed has failed, also where the cloud looks at nothing but the container.
        state = SiteState.FAILED if summary.get("ok") is False else job.state
        return Told(state, one_line(str(summary["why"])))
