"""The rules again, as plainly as they are written down and without a thought for speed."""

from __future__ import annotations

from glidepath.sim.rerun.trace import Trace


class Machine:
    """Processors, who runs on them, and who waits, in order of arrival."""

    def __init__(self, trace: Trace, processors: int) -> None:
        self.submit, self.run = trace.submit.tolist(), trace.run.tolist()
        self.limit, self.procs = trace.limit.tolist(), trace.procs.tolist()
        self.free = processors
        self.running: dict[int, int] = {}  # job: when it really ends
        self.waiting: list[int] = []
        self.start = [-1] * len(trace)
        self.now = 0

    def begin(self, job: int) -> None:
        self.waiting.remove(job)
        self.start[job] = self.now
        self.free -= self.procs[job]
        self.running[job] = self.now + self.run[job]

    def end_due(self) -> bool:
        due = [job for job, end in self.running.items() if end <= self.now]
        for job in due:
            del self.running[job]
            self.free += self.procs[job]
        return bool(due)

    def begin_heads(self) -> None:
        while self.waiting and self.procs[self.waiting[0]] <= self.free:
            head = self.waiting[0]
            self.begin(head)
            if self.run[head] == 0:
                del self.running[head]
                self.free += self.procs[head]

    def expected_end(self, job: int) -> int:
        return max(self.start[job] + self.limit[job], self.now)

    def play(self, *, past: bool) -> list[int]:
        come = 0
        while come < len(self.submit) or self.running:
            events = list(self.running.values())
            if come < len(self.submit):
                events.append(self.submit[come])
            self.now = min(events)
            self.end_due()
            while come < len(self.submit) and self.submit[come] <= self.now:
                self.waiting.append(come)
                come += 1
            again = True
            while again:
                self.begin_heads()
                if past and self.waiting:
                    self.go_past()
                again = self.end_due()
        return self.start

    def go_past(self) -> None:
        """The rule of EASY: nobody who goes past the head may delay it."""
        head, *others = self.waiting
        ends = sorted({self.expected_end(job) for job in self.running})

        def free_by(when: int) -> int:
            over = (job for job in self.running if self.expected_end(job) <= when)
            return self.free + sum(self.procs[job] for job in over)

        shadow = next(end for end in ends if free_by(end) >= self.procs[head])
        extra = free_by(shadow) - self.procs[head]
        for job in others:
            if self.procs[job] > self.free:
                continue
            if self.now + self.limit[job] <= shadow:
                self.begin(job)
            elif self.procs[job] <= extra:
                extra -= self.procs[job]
                self.begin(job)

    def play_conservative(self) -> list[int]:
        """Every job has a place from the moment it comes, and is never moved to a later one."""
        planned: dict[int, int] = {}
        come = 0
        while come < len(self.submit) or self.running or self.waiting:
            events = [*self.running.values(), *(at for at in planned.values() if at > self.now)]
            if come < len(self.submit):
                events.append(self.submit[come])
            self.now = min(events)
            self.end_and_compress(planned)
            while come < len(self.submit) and self.submit[come] <= self.now:
                self.waiting.append(come)
                planned[come] = self.hole(come, planned)
                come += 1
            began = True
            while began:
                began = False
                for job in list(self.waiting):
                    if planned[job] > self.now:
                        continue
                    planned[job] = self.now
                    if self.procs[job] <= self.free:
                        self.begin(job)
                        del planned[job]
                        began = True
                self.end_and_compress(planned)
        return self.start

    def end_and_compress(self, planned: dict[int, int]) -> None:
        due = [job for job, end in self.running.items() if end <= self.now]
        odd = any(self.start[job] + self.limit[job] != self.now for job in due)
        self.end_due()
        for job in list(self.waiting) if odd else ():
            if planned[job] > self.now:
                had = planned.pop(job)
                planned[job] = min(had, self.hole(job, planned))

    def hole(self, job: int, planned: dict[int, int]) -> int:
        """The earliest instant at which the plan has room for all of the job's limit."""
        taken = [(self.now, self.expected_end(other), self.procs[other]) for other in self.running]
        taken += [(at, at + self.limit[other], self.procs[other]) for other, at in planned.items()]
        total = self.free + sum(self.procs[other] for other in self.running)
        at = self.now
        while at <= max((end for _, end, _ in taken if end > at), default=at):
            steps = {at, *(start for start, _, _ in taken if at < start < at + self.limit[job])}
            if all(total - sum(p for s, e, p in taken if s <= t < e) >= self.procs[job] for t in steps):
                return at
            at = min(end for _, end, _ in taken if end > at)
        raise AssertionError("after all that is planned there is room for everybody")
