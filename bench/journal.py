"""Bytes and seconds per cycle of the journal, with 300 and with 10,000 pilots under a stated churn.

A made-up world goes through the real `look`, `decide` and `remember`, and every cycle is written to a real
SQLite file, whose size is taken after a checkpoint. Every hundredth cycle is read back and compared.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.machine import header
from glidepath.clock import Moment
from glidepath.core.cycle import Did, Done, Plan, Seen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.picture import look
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
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, Resources, Shape
from glidepath.journal.journal import KEYFRAME_EVERY, Journal
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

MILLION = 1_000_000
BYTES_MAX = 2 * 10**9  # a million cycles with 300 pilots
CADENCE_S = 10
JOB_S = 3600
LIFE_S = 8 * 3600
START_S = 60
JOIN_S = 30
SLOTS = 4
SHAPES = 20
SITES = 3
EPOCH_S = 1_750_000_000
CHECK_EVERY = 100
# The steady state is reached at once, but for the pilots that are asked for to fill the first gap.
WARM_UP = 64

MODEL = f"""model: a cycle every {CADENCE_S} s; {SITES} sites of 2 offers, always full, and more waiting than they can take;
pilots of {SLOTS} CPUs start in {START_S} s, join in {JOIN_S} s, live {LIFE_S // 3600} h and run {SLOTS} jobs at once, of {JOB_S // 3600} h on average;
{SHAPES} shapes: in each cycle the idle number of each changes with probability 1/2, its oldest job with 1/4;
a keyframe every {KEYFRAME_EVERY} cycles; roll-ups, outcomes and ended pilots are in the file"""  # noqa: E501


@dataclass
class Worker:
    """One pilot of the made-up world."""

    listed: SitePilot
    ends_at: int
    jobs: list[tuple[int, int]] = field(default_factory=list)  # end, shape
    jobs_run: int = 0


class World:
    def __init__(self, pilots: int, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = EPOCH_S
        share = pilots // (SITES * 2)
        sites = tuple(self._site(n, share) for n in range(SITES))
        self.rules = Rules((PoolRules("main"),), sites)
        self.shapes = [Shape(Resources(1000, 1024 + 64 * n)) for n in range(SHAPES)]
        self.idle = [self.draw.randrange(200, 2000) for _ in self.shapes]
        self.oldest = [self.now - self.draw.randrange(9000) for _ in self.shapes]
        self.workers: dict[str, Worker] = {}
        for offer in self.rules.offers().values():
            for n in range(share):
                age_s = self.draw.randrange(LIFE_S)
                self._start(f"gp-first-{offer.site}-{offer.name}-{n}", offer, self.now - age_s)

    @staticmethod
    def _site(n: int, share: int) -> SiteRules:
        limits = Limits(live_max=share, pending_max=max(20, share // 10))
        offers = tuple(
            Offer(f"site{n}", name, Resources(1000 * SLOTS, 16384, 50_000), lifetime_s=LIFE_S, limits=limits)
            for name in ("day", "night")
        )
        return SiteRules(f"site{n}", offers)

    def _start(self, name: str, offer: Offer, asked_at: int) -> None:
        listed = SitePilot(
            name, offer.key, "main", offer.size, SiteState.PENDING, Instant(asked_at), Instant(asked_at),
            native_id=str(self.draw.randrange(10**7)),
        )  # fmt: skip
        life_s = LIFE_S if asked_at == self.now else LIFE_S + self.draw.randrange(-600, 600)
        self.workers[name] = Worker(listed, asked_at + START_S + life_s)

    def step(self) -> None:
        self.now += CADENCE_S
        for n in range(SHAPES):
            if self.draw.random() < 0.5:
                self.idle[n] = max(50, self.idle[n] + self.draw.randrange(-10, 11))
            if self.draw.random() < 0.25:
                self.oldest[n] += self.draw.randrange(60)
        for worker in self.workers.values():
            self._age(worker)

    def _age(self, worker: Worker) -> None:
        listed = worker.listed
        age_s = self.now - listed.asked_at
        if listed.state is SiteState.PENDING and age_s >= START_S:
            node, since = f"node{self.draw.randrange(500)}", Instant(listed.asked_at + START_S)
            ends_at = Instant(worker.ends_at)
            worker.listed = replace(listed, state=SiteState.RUNNING, since=since, node=node, ends_at=ends_at)
        if listed.state is SiteState.RUNNING and self.now >= worker.ends_at:
            worker.listed = replace(listed, state=SiteState.ENDED, since=Instant(worker.ends_at))
            worker.jobs.clear()
        if worker.listed.state is SiteState.RUNNING and age_s >= START_S + JOIN_S:
            left = [job for job in worker.jobs if job[0] > self.now]
            worker.jobs_run += len(worker.jobs) - len(left)
            free = SLOTS - len(left)
            ends = [self.now + int(self.draw.expovariate(1 / JOB_S)) for _ in range(free)]
            worker.jobs = left + [(end, self.draw.randrange(SHAPES)) for end in ends]

    def snapshot(self) -> Snapshot:
        now = Instant(self.now)
        running = [0] * SHAPES
        for worker in self.workers.values():
            for _, shape in worker.jobs:
                running[shape] += 1
        fits = tuple(sorted(self.rules.offers()))
        demands = tuple(
            Demand(
                "main",
                shape,
                self.idle[n],
                running[n],
                oldest_at=Instant(self.oldest[n]),
                owners=((f"user{n}", self.idle[n]),),
                fits=fits,
            )
            for n, shape in enumerate(self.shapes)
        )
        slots = tuple(
            Slot(
                name, Resources(), len(worker.jobs), ends_at=Instant(worker.ends_at), jobs_run=worker.jobs_run
            )
            for name, worker in self.workers.items()
            if worker.jobs
        )
        # A door makes every value anew, so nothing here is shared from one cycle to the next.
        listings: dict[str, list[SitePilot]] = {site.name: [] for site in self.rules.sites}
        for worker in self.workers.values():
            listings[worker.listed.offer.split("/")[0]].append(replace(worker.listed))
        return Snapshot(
            now,
            (("main", "schedd", Seen(now, DemandSight(demands))),),
            (("main", Seen(now, PoolSlots(slots))),),
            tuple((site, Seen(now, SiteListing(tuple(found)))) for site, found in listings.items()),
        )

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        done: list[Did] = []
        offers = self.rules.offers()
        for action in plan.actions:
            match action:
                case Submit():
                    for name in action.names:
                        self._start(name, offers[action.offer], self.now)
                        done.append(Did("submit", name, Done()))
                case Withdraw():
                    for target in action.pilots:
                        self.workers.pop(target.name, None)
                        done.append(Did("withdraw", target.name, Done()))
                case Drain():
                    for target in action.pilots:
                        worker = self.workers[target.name]
                        worker.ends_at = min(worker.ends_at, self.now + JOB_S)
                        done.append(Did("drain", target.name, Done()))
                case Clear():
                    for ended in action.ended:
                        self.workers.pop(ended.name, None)
                        done.append(Did("clear", ended.name, Done()))
                case WriteOff():
                    pass
        return tuple(done)


class Run:
    """One world and one journal, cycle after cycle, with the time that the journal took of each."""

    def __init__(self, world: World, journal: Journal) -> None:
        self.world, self.journal = world, journal
        self.memory = Memory("bench", Instant(EPOCH_S - 10_000))
        self.planned_s: list[float] = []
        self.acted_s: list[float] = []
        self.acts = 0

    def cycle(self) -> None:
        world, journal, memory = self.world, self.journal, self.memory
        world.step()
        snapshot = world.snapshot()
        picture = look(snapshot, memory, world.rules)
        plan = decide(picture, world.rules, Steady())
        moment = Moment(float(world.now), snapshot.now, "0" * 36, float(world.now))
        started = time.perf_counter()
        journal.planned(moment, snapshot, memory, rules=world.rules, plan=plan)
        self.planned_s.append(time.perf_counter() - started)
        outcomes = world.act(plan)
        started = time.perf_counter()
        journal.acted(plan.cycle, outcomes)
        if plan.actions:
            self.acted_s.append(time.perf_counter() - started)
        self.acts += len(outcomes)
        if plan.cycle % CHECK_EVERY == 0:
            entry = journal.entry(plan.cycle)
            assert (entry.snapshot, entry.memory, entry.plan) == (snapshot, memory, plan)
            assert entry.outcomes == outcomes
        self.memory = remember(picture, plan, outcomes, world.rules)


@dataclass(frozen=True)
class Measured:
    acts: float
    bytes_file: float
    bytes_cycle: float
    planned_ms: float
    planned_ms_p99: float
    acted_ms: float


def measured(pilots: int, cycles: int, seed: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/glidepath.db") as store:
        migrate(store)
        run = Run(World(pilots, seed), Journal(store))
        for _ in range(WARM_UP):
            run.cycle()
        before = _size(Path(folder, "glidepath.db"))
        run.planned_s, run.acted_s, run.acts = [], [], 0
        for _ in range(cycles):
            run.cycle()
        lengths = "SELECT avg(length(body) + coalesce(length(outcomes), 0)) FROM cycles WHERE cycle > "
        with store.read() as connection:
            body = connection.exec_driver_sql(f"{lengths}{WARM_UP}").scalar_one()
        size = _size(Path(folder, "glidepath.db")) - before
    return Measured(
        acts=run.acts / cycles,
        bytes_file=size / cycles,
        bytes_cycle=body,
        planned_ms=1000 * statistics.median(run.planned_s),
        planned_ms_p99=1000 * statistics.quantiles(run.planned_s, n=100)[98],
        acted_ms=1000 * statistics.median(run.acted_s or [0.0]),
    )


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path.stat().st_size


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.journal", description=__doc__.splitlines()[0])
    parser.add_argument("--pilots", type=int, nargs="*", default=[300, 10_000])
    parser.add_argument(
        "--cycles", type=int, nargs="*", default=[2000, 192], help="one number for each of --pilots"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    print(header(" ".join(["python -m bench.journal", *argv])))
    print(MODEL)
    within = True
    for pilots, cycles in zip(given.pilots, given.cycles, strict=True):
        found = measured(pilots, cycles, given.seed)
        million = found.bytes_file * MILLION
        print(f"{pilots} pilots, {cycles} cycles, {found.acts:.2f} acts per cycle")
        of_cycle = f"{found.bytes_cycle:.0f} of them the cycle itself"
        print(f"  {found.bytes_file:.0f} bytes of file per cycle, {of_cycle}")
        print(f"  a million cycles: {million / 1e9:.2f} GB")
        print(f"  plan written in {found.planned_ms:.1f} ms, 99 of 100 within {found.planned_ms_p99:.1f} ms")
        print(f"  outcomes written in {found.acted_ms:.1f} ms")
        if pilots == 300:
            within = million <= BYTES_MAX
            print(f"  ratio to the limit of {BYTES_MAX / 1e9:g} GB: {million / BYTES_MAX:.2f}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
