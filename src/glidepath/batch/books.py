"""What is remembered of one site between two looks: the numbers of jobs, what was missed since when.

Facts come in, evidence of one pilot goes out. All of it can be lost: the next looks find it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from glidepath.batch.dialect import Dialect, JobSeen
from glidepath.batch.folder import Sight
from glidepath.batch.intent import Intent, named_by
from glidepath.batch.states import OVER, Evidence, Told, told
from glidepath.core.cycle import Failed, Refused
from glidepath.core.provision.pilot import SiteState
from glidepath.core.quantity import Instant, NodeName, PilotName

# Of two jobs of one name, the one that is more alive is the pilot's.
_LIVELIER = (
    *(SiteState.RUNNING, SiteState.LEAVING, SiteState.UNKNOWN, SiteState.PENDING),
    *(SiteState.ENDED, SiteState.FAILED),
)
NUMBERS_MAX = 100_000  # of jobs that are remembered; the folder has the others


@dataclass(frozen=True, slots=True)
class Queue:
    """Our jobs in the queue, by first pilot."""

    jobs: Mapping[PilotName, JobSeen] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def queue_of(seen: Iterable[JobSeen], mark: str) -> Queue:
    found: dict[PilotName, list[JobSeen]] = {}
    for job in seen:
        if (name := named_by(job.key, mark)) is not None:
            found.setdefault(name, []).append(job)
    notes = []
    for name, same in sorted(found.items()):
        live = [job for job in same if job.state not in OVER]
        if len(live) > 1:
            numbers = ", ".join(job.native_id for job in live)
            notes.append(f"`{name}` has the jobs {numbers}; only the first that starts becomes the pilot")
    ranked = {name: min(same, key=lambda job: _LIVELIER.index(job.state)) for name, same in found.items()}
    return Queue(ranked, tuple(notes))


@dataclass(slots=True)
class Books:
    """Not safe for threads by itself; the backend holds its lock around each call."""

    dialect: Dialect
    accounting: bool = True
    mono: Callable[[], float] = time.monotonic
    numbers: dict[PilotName, str] = field(default_factory=dict)  # of jobs, by first pilot
    jobs: dict[PilotName, Intent] = field(default_factory=dict)  # by first pilot, at the last look
    firsts: dict[PilotName, PilotName] = field(default_factory=dict)  # of each pilot
    told: dict[PilotName, Told] = field(default_factory=dict)  # of each pilot, at the last look
    live: set[PilotName] = field(default_factory=set)  # first pilots whose job the queue had alive
    settled: dict[PilotName, JobSeen] = field(default_factory=dict)  # over by accounting, which stays so
    past: dict[PilotName, JobSeen | None] = field(default_factory=dict)  # None: accounting knows of no such
    _asked: dict[PilotName, int] = field(default_factory=dict)  # how often accounting was
    _missing: dict[PilotName, float] = field(default_factory=dict)
    _over: dict[PilotName, float] = field(default_factory=dict)
    _since: dict[PilotName, tuple[SiteState, Instant]] = field(default_factory=dict)

    def number(self, first: PilotName, native_id: str) -> None:
        self.numbers[first] = native_id
        if len(self.numbers) > NUMBERS_MAX:
            self.numbers.pop(next(iter(self.numbers)))

    def absent(self, queue: Queue) -> tuple[str, ...]:
        """Numbers of jobs that accounting is to be asked about, those first that it was asked about least:
        missed, and not known to be over."""
        firsts = [
            first
            for first, intent in self.jobs.items()
            if first not in queue.jobs and first in self.numbers and first not in self.settled
            if not all(self._is_over(pilot) for pilot in intent.pilots)
        ]
        firsts.sort(key=lambda first: self._asked.get(first, 0))
        return tuple(self.numbers[first] for first in firsts)

    def accounted(self, asked: Iterable[str], found: Iterable[JobSeen]) -> None:
        """What accounting said of those that it was asked about."""
        by_number = {number: first for first, number in self.numbers.items()}
        known = {job.native_id: job for job in found}
        for number in asked:
            first = by_number.get(number)
            if first is None:
                continue
            self._asked[first] = self._asked.get(first, 0) + 1
            job = known.get(number)
            self.past[first] = job
            if job is not None and job.state in OVER:
                self.settled[first] = job

    def wanting(self, queue: Queue) -> tuple[str, ...]:
        """Pilots whose last line would say more than is known, as `JOB/PILOT`."""
        over = {first for first, job in queue.jobs.items() if job.state in OVER and job.nodes}
        over |= set(self.settled)
        return tuple(
            f"{first}/{pilot}"
            for first in sorted(over)
            if first in self.jobs
            for pilot in self.jobs[first].pilots
            if not self._is_over(pilot)
        )

    def _is_over(self, pilot: PilotName) -> bool:
        known = self.told.get(pilot)
        return known is not None and known.over

    def look(self, queue: Queue, sight: Sight) -> None:
        """Takes in what one look has found."""
        for first, job in queue.jobs.items():
            self.number(first, job.native_id)
        for first, ran in sight.answers.items():
            answer = self.dialect.submitted(ran)
            if isinstance(answer, str) and first not in self.numbers:
                self.number(first, answer)
        # One that came back into the queue was not over.
        self.settled = {f: j for f, j in self.settled.items() if f in sight.jobs and f not in queue.jobs}
        self.past = {f: j for f, j in self.past.items() if f in sight.jobs and f not in queue.jobs}
        self._asked = {f: n for f, n in self._asked.items() if f in self.past}
        self.jobs = dict(sight.jobs)
        self.firsts = {pilot: first for first, intent in sight.jobs.items() for pilot in intent.pilots}
        self.live = {first for first, job in queue.jobs.items() if job.state not in OVER}
        now = self.mono()
        self._missing = {f: self._missing.get(f, now) for f in sight.jobs if f not in queue.jobs}
        over = {f for f, job in queue.jobs.items() if job.state in OVER} | set(self.settled)
        self._over = {f: self._over.get(f, now) for f in over if f in sight.jobs}
        cleared = {pilot for pilot, ending in sight.endings.items() if ending.cleared}
        kept = self.firsts.keys() - cleared
        self.told = {pilot: found for pilot, found in self.told.items() if pilot in kept}
        self._since = {pilot: kept for pilot, kept in self._since.items() if pilot in self.firsts}

    def evidence(
        self,
        pilot: PilotName,
        *,
        queue: Queue,
        trouble: str,
        sight: Sight,
        now: Instant,
    ) -> Evidence:
        first = self.firsts[pilot]
        intent, number, clock = self.jobs[first], self.numbers.get(first, ""), self.mono()
        answer = self.dialect.submitted(sight.answers[first]) if first in sight.answers else None
        return Evidence(
            ending=sight.endings.get(pilot),
            queued=queue.jobs.get(first),
            past=self.settled.get(first) or self.past.get(first),
            looked_up=not self.accounting or first in self.past,
            past_trouble=trouble,
            native_id=number,
            unsent=f"it never was in the queue: {answer.why}"
            if isinstance(answer, (Refused, Failed))
            else "",
            asked_s_ago=max(0, now - intent.asked_at),
            missing_s=int(clock - self._missing.get(first, clock)),
            over_s=int(clock - self._over.get(first, clock)),
            last_line=sight.lasts.get(pilot, ""),
            alone=len(intent.pilots) == 1,
            shared=self.dialect.shares_folder,
        )

    def judge(self, pilot: PilotName, found: Evidence, *, gone_after_s: int) -> Told:
        walltime_s = self.jobs[self.firsts[pilot]].walltime_s
        judged, before = told(found, gone_after_s=gone_after_s, walltime_s=walltime_s), self.told.get(pilot)
        if before is not None and before.over and before.state is judged.state:
            return before  # With the last line, which is read once.
        self.told[pilot] = judged
        return judged

    def since(self, pilot: PilotName, state: SiteState, job: JobSeen | None, now: Instant) -> Instant:
        """By the site's own word where it tells, else since it was seen so first."""
        asked_at = Instant(min(self.jobs[self.firsts[pilot]].asked_at, now))
        kept = self._since.get(pilot)
        if kept is None or kept[0] is not state:
            ago = None
            if job is not None:
                ago = job.started_s_ago if state is SiteState.RUNNING else None
                ago = job.ended_s_ago if state in OVER else ago
            waits = state is SiteState.PENDING or (kept is None and state not in OVER)
            at = now - ago if ago is not None else asked_at if waits else now
            kept = self._since[pilot] = (state, Instant(at))
        return Instant(min(now, max(asked_at, kept[1])))

    def forget(self, first: PilotName) -> None:
        """After its traces were cleared."""
        intent = self.jobs.pop(first, None)
        for pilot in intent.pilots if intent is not None else (first,):
            self.firsts.pop(pilot, None)
            self.told.pop(pilot, None)
        self.settled.pop(first, None)


def node_of(pilot: PilotName, job: JobSeen | None, sight: Sight) -> NodeName:
    """By the site's own name for it, which is the one that it would understand."""
    if job is None or not job.nodes:
        return NodeName("")
    if len(job.nodes) == 1:
        return NodeName(job.nodes[0])
    host = sight.nodes.get(pilot, "")
    short = host.partition(".")[0]
    same = [node for node in job.nodes if node == host or node.partition(".")[0] == short]
    return NodeName(same[0]) if len(same) == 1 else NodeName("")
