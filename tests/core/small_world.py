"""A small closed world for tests of the core: sites, pilots, jobs, faults, virtual time.

Not the simulator of the product: no doors, no loop, only snapshots for `look` and effects of plans.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from core.builders import POOL, SOURCE
from glidepath.core.cycle import Did, Done, Failed, Outcome, Plan, Seen, Unseen, Unsure
from glidepath.core.provision.demand import DemandSight, JobAd, grouped
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    SitePilot,
    SiteState,
    Slot,
    Submit,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, Owner, Resources, Shape


@dataclass
class Job:
    shape: Shape
    owner: str
    queued_at: int
    run_s: int
    pilot: str = ""
    ends_at: int = 0


@dataclass
class Worker:
    pilot: SitePilot
    starts_at: int
    joins_at: int
    idle_s: int
    ends_at: int
    fails: bool
    state: SiteState = SiteState.PENDING
    draining: bool = False
    idle_since: int = 0
    visible_at: int = 0
    jobs: list[Job] = field(default_factory=list)


class World:
    def __init__(self, seed: int, rules: Rules, *, faults: bool = True, lag_s: int = 0) -> None:
        self.draw = random.Random(seed)
        self.rules = rules
        self.faults = faults
        self.lag_s = lag_s
        self.now = 1000
        self.jobs: list[Job] = []
        self.workers: dict[str, Worker] = {}
        self.killed_claimed: list[str] = []
        self.shapes = [
            Shape(Resources(cpus * 1000, memory, 0))
            for cpus, memory in ((1, 512), (1, 2048), (2, 1024), (4, 4096))
        ]

    def step(self, seconds: int) -> None:
        self.now += seconds
        if self.draw.random() < 0.3:
            for _ in range(self.draw.randrange(1, 12)):
                shape = self.draw.choice(self.shapes)
                run_s = self.draw.randrange(20, 400)
                self.jobs.append(Job(shape, self.draw.choice(("alice", "bob", "eve")), self.now, run_s))
        self._move()
        self._match()

    def _move(self) -> None:
        for worker in self.workers.values():
            if worker.state is SiteState.PENDING and self.now >= worker.starts_at:
                worker.state = SiteState.RUNNING
                worker.idle_since = self.now
            if worker.state is not SiteState.RUNNING:
                continue
            if worker.fails and self.now >= worker.joins_at:
                worker.state = SiteState.FAILED
                continue
            for job in [job for job in worker.jobs if self.now >= job.ends_at]:
                worker.jobs.remove(job)
                self.jobs.remove(job)
                worker.idle_since = self.now
            leaves = self.now >= worker.ends_at or worker.draining
            if not worker.jobs and self.now >= worker.joins_at:
                leaves |= self.now - max(worker.idle_since, worker.joins_at) >= worker.idle_s
                if leaves:
                    worker.state = SiteState.ENDED
        if self.faults and self.draw.random() < 0.01 and self.workers:
            # Evicted: the pilot is lost with its jobs, which go back to the queue.
            worker = self.workers[self.draw.choice(sorted(self.workers))]
            if worker.state is SiteState.RUNNING:
                worker.state = SiteState.FAILED
                for job in worker.jobs:
                    job.pilot = ""
                worker.jobs.clear()

    def free(self, worker: Worker) -> Resources:
        used = Resources()
        for job in worker.jobs:
            used = used + job.shape.request
        return worker.pilot.size - used

    def _joined(self, worker: Worker) -> bool:
        return worker.state is SiteState.RUNNING and self.now >= worker.joins_at and not worker.fails

    def _match(self) -> None:
        for job in self.jobs:
            if job.pilot:
                continue
            for name in sorted(self.workers):
                worker = self.workers[name]
                if (
                    self._joined(worker)
                    and not worker.draining
                    and job.shape.request.fits_in(self.free(worker))
                ):
                    job.pilot, job.ends_at = name, self.now + job.run_s
                    worker.jobs.append(job)
                    break

    def snapshot(self) -> Snapshot:
        now = Instant(self.now)
        ads = [
            JobAd(job.shape, Owner(job.owner), bool(job.pilot), Instant(job.queued_at)) for job in self.jobs
        ]
        demands = grouped(POOL, ads, self.rules.offers().values())
        slots = tuple(
            Slot(worker.pilot.name, self.free(worker), len(worker.jobs), worker.draining)
            for worker in self.workers.values()
            if self._joined(worker)
        )
        return Snapshot(
            now=now,
            demand=(
                (POOL, SOURCE, self._maybe(DemandSight(demands), DemandSight(demands[:1], complete=False))),
            ),
            slots=((POOL, self._maybe(PoolSlots(slots), PoolSlots(slots[:1], complete=False))),),
            sites=tuple((site.name, self._listing(site.name)) for site in self.rules.sites),
        )

    def _maybe(self, whole, part):  # type: ignore[no-untyped-def]
        if self.faults and self.draw.random() < 0.1:
            return Unseen(Instant(self.now - 60), "no answer")
        if self.faults and self.draw.random() < 0.05:
            return Seen(Instant(self.now), part)
        if self.faults and self.draw.random() < 0.05:
            return Seen(Instant(self.now - 10_000), whole)
        return Seen(Instant(self.now), whole)

    def _listing(self, site: str):  # type: ignore[no-untyped-def]
        here = [
            SitePilot(
                name=w.pilot.name,
                offer=w.pilot.offer,
                pool=w.pilot.pool,
                size=w.pilot.size,
                state=w.state,
                since=w.pilot.since,
                asked_at=w.pilot.asked_at,
                owner=w.pilot.owner,
            )
            for w in self.workers.values()
            if w.pilot.offer.startswith(f"{site}/") and self.now >= w.visible_at
        ]
        return self._maybe(SiteListing(tuple(here)), SiteListing(tuple(here[:1]), complete=False))

    def live(self, scope: str) -> int:
        alive = (SiteState.PENDING, SiteState.RUNNING)
        return sum(w.state in alive and w.pilot.offer.startswith(scope) for w in self.workers.values())

    def act(self, plan: Plan[PilotAction]) -> list[Did]:
        outcomes: list[Did] = []
        for action in plan.actions:
            match action:
                case Submit():
                    outcomes += [Did("submit", name, self._submit(action, name)) for name in action.names]
                case Withdraw(_, pilots):
                    outcomes += [Did("withdraw", t.name, self._withdraw(t.name)) for t in pilots]
                case Drain(_, pilots):
                    outcomes += [Did("drain", t.name, self._drain(t.name)) for t in pilots]
                case Clear(_, ended, _):
                    outcomes += [Did("clear", e.name, self._clear(e.name)) for e in ended]
                case WriteOff():
                    pass
        return outcomes

    def _answer(self, effect) -> Outcome:  # type: ignore[no-untyped-def]
        """Done, or by chance: failed before the effect, or the answer lost after it."""
        luck = self.draw.random() if self.faults else 1.0
        if luck < 0.05:
            return Failed("the site said no")
        done = effect()
        return Unsure("no answer") if luck < 0.1 else done

    def _submit(self, submit: Submit, name: str) -> Outcome:
        def effect() -> Outcome:
            assert name not in self.workers, f"{name} was asked for twice"
            now = Instant(self.now)
            starts = self.now + self.draw.randrange(5, 120)
            joins = starts + self.draw.randrange(1, 30)
            pilot = SitePilot(
                name=name,  # type: ignore[arg-type]
                offer=submit.offer,
                pool=submit.pool,
                size=submit.size,
                state=SiteState.PENDING,
                since=now,
                asked_at=now,
                owner=submit.owner,
            )
            fails = self.faults and self.draw.random() < 0.05
            visible = self.now + (self.draw.randrange(self.lag_s + 1) if self.lag_s else 0)
            self.workers[name] = Worker(
                pilot, starts, joins, submit.idle_s, starts + submit.lifetime_s, fails, visible_at=visible
            )
            return Done()

        return self._answer(effect)

    def _withdraw(self, name: str) -> Outcome:
        def effect() -> Outcome:
            worker = self.workers.get(name)
            if worker is not None and worker.state is SiteState.PENDING:
                del self.workers[name]
            return Done()

        return self._answer(effect)

    def _drain(self, name: str) -> Outcome:
        def effect() -> Outcome:
            worker = self.workers.get(name)
            if worker is not None:
                if worker.jobs:
                    self.killed_claimed.append(name)
                worker.draining = True
            return Done()

        return self._answer(effect)

    def _clear(self, name: str) -> Outcome:
        def effect() -> Outcome:
            worker = self.workers.get(name)
            assert worker is None or worker.state in (SiteState.ENDED, SiteState.FAILED), f"{name} is alive"
            self.workers.pop(name, None)
            return Done()

        return self._answer(effect)
