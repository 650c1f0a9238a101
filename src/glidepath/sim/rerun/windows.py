"""How one published table was made (RLScheduler, SC'20): windows of a log, one event at a time.

It differs from our rerun, and only this table is made with it: the job that was chosen stays chosen while it
is blocked; the time by which it could start is worked out once; others go past it in order of arrival if they
end before that time; and a decision is made after each single event. Kept to show that our simulator and
theirs mean the same by the same words, to the last digit. Lists that are sorted over and over are part of
it: jobs that are equal stay in the order that an earlier sort by something else gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glidepath.sim.rerun.trace import Trace

# Their seed draws these first jobs, the same for every log.
FIRSTS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
JOBS = 1024
NOT_YET = -1


@dataclass(kw_only=True)
class Window:
    """An empty machine, and the jobs that come to it."""

    submit: Sequence[int]
    run: Sequence[int]
    limit: Sequence[int]
    procs: Sequence[int]
    free: int
    now: int = 0
    come: int = 1
    at: list[int] = field(default_factory=list)  # when each job started
    queue: list[int] = field(default_factory=lambda: [0])
    running: list[int] = field(default_factory=list)

    def start(self, job: int) -> None:
        self.queue.remove(job)
        self.running.append(job)
        self.free -= self.procs[job]
        self.at[job] = self.now

    def due(self, chosen: int) -> int:
        """By when there should be enough for the chosen job, going by the limits."""
        ends = {job: self.at[job] + self.limit[job] for job in self.running}
        self.running.sort(key=ends.__getitem__)
        free = self.free
        for job in self.running:
            free += self.procs[job]
            if free >= self.procs[chosen]:
                return ends[job]
        return self.now

    def go_past(self, due: int) -> None:
        """Others start if they fit and should have ended by then."""
        self.queue.sort(key=self.submit.__getitem__)
        for job in list(self.queue):
            if self.procs[job] <= self.free and self.now + self.limit[job] < due:
                self.start(job)

    def step(self) -> bool:
        """One event: the next job comes, or else the first of the running ends. False: nothing is left."""
        self.running.sort(key=lambda job: self.at[job] + self.run[job])
        ends = self.at[self.running[0]] + self.run[self.running[0]] if self.running else None
        if self.come < len(self.submit) and (ends is None or self.submit[self.come] <= ends):
            self.now = max(self.now, self.submit[self.come])
            self.queue.append(self.come)
            self.come += 1
            return True
        if ends is None:
            return False
        self.now = max(self.now, ends)
        self.free += self.procs[self.running.pop(0)]
        return True


def in_window(trace: Trace, key: Sequence[float], processors: int, *, past: bool) -> list[int]:
    """When each job of the window starts; the smallest key is chosen, `past`: others may go past it."""
    window = Window(
        submit=trace.submit.tolist(),
        run=trace.run.tolist(),
        limit=trace.limit.tolist(),
        procs=trace.procs.tolist(),
        free=processors,
        now=int(trace.submit[0]),
        at=[NOT_YET] * len(trace),
    )
    for _ in range(len(trace)):
        while not window.queue and window.step():
            pass
        if not window.queue:
            break
        window.queue.sort(key=key.__getitem__)
        chosen = window.queue[0]
        due = window.due(chosen) if past and window.procs[chosen] > window.free else 0
        while window.procs[chosen] > window.free:
            if past:
                window.go_past(due)
            if not window.step():
                return window.at
        window.start(chosen)
    return window.at
