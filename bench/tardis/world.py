"""A pool and a Slurm of one kind of worker, in values: loads and commands come in, what came of it goes out.

Events are worked off at their own moments whenever somebody looks, so that a busy machine moves no figure of
the world. It refuses to know who asks: both systems have the same commands, workers and jobs.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field

CORES = 8
BOOT_S = 20.0  # from the start of a worker's batch job until it has joined the pool
MATCH_S = 5.0  # between two negotiations; cores that fall free in between wait for the next one
RUN_S = 120.0  # of every job, on one core
LEAD_S = 30.0  # so long the systems run before the first job comes
SPREAD_S = 10.0  # the burst comes within this much after the lead, so that seeds meet every phase of a poll
BURST_JOBS = 400
BURST_SPAN_S = 530.0  # after the burst, however soon it is done: workers that stay idle are seen
LOAD_SPAN_S = 1200.0
LOAD_TAIL_S_MAX = 600.0  # for the last jobs to end
STEADY_CORES = 0.7 * BURST_JOBS
SINE_CORES = 0.5 * BURST_JOBS  # in the mean; from none to twice as many and back in one period
SINE_PERIOD_S = 1200.0
SCENARIOS = ("burst", "steady", "sine")


def arrivals(scenario: str, seed: int) -> list[float]:
    """When jobs come, on the world's clock."""
    draw = random.Random(f"{scenario}-{seed}")
    if scenario == "burst":
        return [LEAD_S + draw.uniform(0, SPREAD_S)] * BURST_JOBS
    found, at = [], 0.0
    peak = STEADY_CORES if scenario == "steady" else 2 * SINE_CORES
    while at < LOAD_SPAN_S:
        at += draw.expovariate(peak / RUN_S)
        share = 1.0 if scenario == "steady" else (1 - math.cos(2 * math.pi * at / SINE_PERIOD_S)) / 2
        if at < LOAD_SPAN_S and draw.random() < share:
            found.append(LEAD_S + at)
    return found


@dataclass
class Worker:
    """One batch job that plays a worker, from its submission to its end."""

    number: int
    name: str  # as the one who submitted it calls it
    submitted_at: float
    idle_s_max: float  # without a claim for so long it leaves by itself
    folder: str = ""  # where it looks for a word to drain
    key: str = ""  # the name of its batch job
    joined: bool = False
    draining: bool = False
    state: str = "RUNNING"  # in Slurm's words
    jobs: set[int] = field(default_factory=set)
    idle_since: float = math.inf
    ended_at: float = 0.0
    jobs_run: int = 0
    leaves: bool = True  # when drained and empty; a worker of TARDIS stays until it is cancelled

    @property
    def live(self) -> bool:
        return self.state == "RUNNING"

    @property
    def free(self) -> int:
        return CORES - len(self.jobs)

    @property
    def open(self) -> bool:
        return self.live and self.joined and not self.draining


@dataclass
class Tally:
    """Core-seconds of joined workers, and what else is counted."""

    idle: float = 0.0
    busy: float = 0.0
    booting: float = 0.0

    @property
    def idle_share(self) -> float:
        return self.idle / (self.idle + self.busy) if self.idle + self.busy else 0.0


class World:
    """The state at `now`; every method that takes a time moves it there first."""

    def __init__(self, scenario: str, seed: int) -> None:
        self.now = 0.0
        self.workers: dict[int, Worker] = {}
        self.waiting: deque[int] = deque()
        self.came = arrivals(scenario, seed)
        self.started: dict[int, float] = {}
        self.done: dict[int, float] = {}
        self.tally = Tally()
        self.at_done: Tally | None = None
        self.peak = 0
        self.restarts = 0
        self._events: list[tuple[float, int, str, int, int]] = []
        self._serial = 0
        self.end_at = self.came[0] + BURST_SPAN_S
        if scenario != "burst":
            self.end_at = LEAD_S + LOAD_SPAN_S + LOAD_TAIL_S_MAX
        self._ends_when_done = scenario != "burst"
        for job, at in enumerate(self.came):
            self._at(at, "came", job)
        self._at(random.Random(f"match-{seed}").uniform(0, MATCH_S), "match", 0)

    @property
    def over(self) -> bool:
        return self.now >= self.end_at or (self._ends_when_done and self.at_done is not None)

    def _at(self, at: float, what: str, number: int, other: int = 0) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at, self._serial, what, number, other))

    def advance(self, now: float) -> None:
        """Work off everything up to `now`, each at its moment."""
        while self._events and self._events[0][0] <= now:
            at, _, what, number, other = heapq.heappop(self._events)
            self._pass(at)
            match what:
                case "came":
                    self.waiting.append(number)
                case "match":
                    self._match()
                    self._at(at + MATCH_S, "match", 0)
                case "join":
                    self._join(self.workers[number])
                case "end":
                    self._end(number, self.workers[other])
                case "idle":
                    self._left_idle(self.workers[number])
        self._pass(now)

    def _pass(self, at: float) -> None:
        span = at - self.now
        if span <= 0:
            return
        for worker in self.workers.values():
            if worker.live and worker.joined:
                self.tally.idle += span * worker.free
                self.tally.busy += span * len(worker.jobs)
            elif worker.live:
                self.tally.booting += span * CORES
        self.now = at

    def _match(self) -> None:
        """Waiting jobs in their order to free cores; the fullest worker first, as HTCondor has it."""
        for worker in sorted((w for w in self.workers.values() if w.open), key=lambda w: (w.free, w.number)):
            while self.waiting and worker.free:
                job = self.waiting.popleft()
                worker.jobs.add(job)
                worker.idle_since = math.inf
                self.started[job] = self.now
                self._at(self.now + RUN_S, "end", job, worker.number)

    def _join(self, worker: Worker) -> None:
        if worker.live:
            worker.joined = True
            self._emptied(worker)

    def _end(self, job: int, worker: Worker) -> None:
        if job not in worker.jobs:
            return  # It went with its worker, and runs elsewhere.
        worker.jobs.discard(job)
        worker.jobs_run += 1
        self.done[job] = self.now
        if not worker.jobs:
            self._emptied(worker)
        if len(self.done) == len(self.came):
            self.at_done = Tally(self.tally.idle, self.tally.busy, self.tally.booting)

    def _emptied(self, worker: Worker) -> None:
        worker.idle_since = self.now
        if worker.draining:
            self._leave(worker)
        elif math.isfinite(worker.idle_s_max):
            self._at(self.now + worker.idle_s_max, "idle", worker.number)

    def _left_idle(self, worker: Worker) -> None:
        if worker.live and self.now - worker.idle_since >= worker.idle_s_max:
            self._leave(worker)

    def _leave(self, worker: Worker) -> None:
        if worker.leaves:
            worker.state = "COMPLETED"
            worker.ended_at = self.now

    def submit(self, now: float, worker: Worker) -> None:
        """Starts at once: the site has room."""
        self.advance(now)
        self.workers[worker.number] = worker
        self.peak = max(self.peak, sum(w.live for w in self.workers.values()))
        self._at(now + BOOT_S, "join", worker.number)

    def drain(self, now: float, worker: Worker) -> None:
        self.advance(now)
        if worker.live and not worker.draining:
            worker.draining = True
            if worker.joined and not worker.jobs:
                self._leave(worker)

    def cancel(self, now: float, worker: Worker) -> None:
        """Its jobs wait again, first in line, and begin anew."""
        self.advance(now)
        if worker.live:
            worker.state = "CANCELLED"
            worker.ended_at = now
            self.restarts += len(worker.jobs)
            self.waiting.extendleft(sorted(worker.jobs, reverse=True))
            worker.jobs.clear()

    def measures(self) -> dict[str, float | int | None]:
        """What became of it. Idle are the unclaimed cores of workers between joining and leaving."""
        waits = [self.started[job] - self.came[job] for job in self.done]
        until = self.at_done or self.tally
        return {
            "jobs": len(self.came),
            "done": len(self.done),
            "done_s": max(self.done.values()) - self.came[0] if self.at_done else None,
            "wait_s_mean": sum(waits) / len(waits) if waits else None,
            "wait_s_max": max(waits, default=None),
            "idle_share": until.idle_share,
            "idle_core_s": until.idle,
            "busy_core_s": until.busy,
            "booting_core_s": until.booting,
            "idle_share_end": self.tally.idle_share,
            "idle_core_s_end": self.tally.idle,
            "end_s": self.now,
            "workers": len(self.workers),
            "peak": self.peak,
            "restarts": self.restarts,
        }
