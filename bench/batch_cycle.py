"""One cycle over a batch site with 5,000 of our jobs: how many commands are sent, and what it costs us.

The answers of Slurm come from memory, in the form of the real `squeue` and `sacct`; the folder of the site is
a real one, read by the real program. What the commands themselves take is the site's and not counted: the
figure is the processor time of this program for observing, deciding and remembering.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.machine import header
from glidepath.batch.backend import BatchBackend
from glidepath.batch.dialects import DIALECTS
from glidepath.batch.dialects.slurm import HEADER, PAST_HEADER
from glidepath.batch.intent import key_of, mark_of, written
from glidepath.batch.script import top_of
from glidepath.batch.settings import SETTINGS
from glidepath.calls import ThreadCalls
from glidepath.core.cycle import Seen
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Offer, PolicyRule, PoolRules, Rules, SiteRules
from glidepath.core.provision.pilot import PilotSpec, Slot
from glidepath.core.provision.sight import PoolSlots
from glidepath.core.quantity import (
    Instant,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SiteName,
    SourceName,
)
from glidepath.policy import policy_of
from glidepath.ports import DemandSource, Place
from glidepath.provisioner import Doors, Provisioner
from glidepath.remote.local import LocalRunner
from glidepath.remote.runner import Ran

JOBS = 5_000
WAITING = 500  # of them; all others run
LEAVE = 100  # between two cycles, where something happens
LOOKS = 11
CPU_S_MAX, COMMANDS_MAX = 1.0, 3
SITE, POOL = SiteName("west"), PoolName("campus")
SIZE = Resources(8000, 16384, 20_000)
OFFER = Offer(SITE, "cpu", SIZE, limits=Limits(live_max=2 * JOBS, pending_max=2 * JOBS, per_cycle_max=20))
LIFETIME_S, CYCLE_S = 12 * 3600, 30
READ_S_MAX = 120.0


@dataclass
class World:
    """The site and the pool, and a clock that is moved by hand."""

    folder: Path
    now_s: int = 1_000_000
    sent: int = 0
    queued: dict[str, tuple[str, str]] = field(default_factory=dict)  # number to state and key
    over: dict[str, str] = field(default_factory=dict)  # number to key
    names: dict[str, PilotName] = field(default_factory=dict)

    # As a clock.

    def now(self) -> Instant:
        return Instant(self.now_s)

    def wall(self) -> float:
        return float(self.now_s)

    # As a runner.

    def run(self, argv: Sequence[str], *, given: bytes = b"", limit_s: float) -> Ran:
        self.sent += 1
        if argv[0] == "squeue":
            return Ran(0, "\n".join([HEADER, *map(self._queued, self.queued)]) + "\n")
        if argv[0] == "sacct":
            asked = next(word for word in argv if word.startswith("--jobs=")).removeprefix("--jobs=")
            known = [number for number in asked.split(",") if number in self.over]
            return Ran(0, "\n".join([PAST_HEADER, *map(self._past, known)]) + "\n")
        return LocalRunner(environ={"PATH": "/usr/bin:/bin"}).run(argv, given=given, limit_s=limit_s)

    def close(self) -> None:
        """Nothing is open."""

    def _queued(self, number: str) -> str:
        state, key = self.queued[number]
        if state == "PENDING":
            return f"{number}|PENDING|0:00|1||{key}|Priority"
        return f"{number}|RUNNING|1:{int(number) % 60:02d}:07|1|node{int(number) % 700:04d}|{key}|None"

    def _past(self, number: str) -> str:
        return f"{number}|COMPLETED|0:0|4300|node{int(number) % 700:04d}|{self.over[number]}"

    # What happens there.

    def build(self) -> BatchBackend:
        own = SETTINGS["slurm"].model_validate({"folder": str(self.folder), "timeout": "60s"})
        top = Path(top_of(own, SITE))
        for name in ("asked", "answers", "ended", "nodes", "jobs"):
            (top / name).mkdir(parents=True)
        for place in range(JOBS):
            name, number = PilotName(f"gp-bench-1-{place:05d}"), str(7_000_000 + place)
            spec = PilotSpec(
                name=name,
                site=SITE,
                offer=OFFER.key,
                pool=POOL,
                size=SIZE,
                traits=(),
                lifetime_s=LIFETIME_S,
                idle_s=600,
                asked_at=Instant(self.now_s - 5000),
            )
            (top / "asked" / name).write_text(
                written(spec, walltime_s=LIFETIME_S + 900) + "\n", encoding="utf-8"
            )
            waits = place < WAITING
            if not waits:
                (top / "nodes" / name).write_text(f"node{int(number) % 700:04d}\n", encoding="utf-8")
            self.queued[number] = ("PENDING" if waits else "RUNNING", key_of(name, mark_of(own.folder, SITE)))
            self.names[number] = name
        place_ = Place(self.folder, "sqlite:///:memory:")
        return BatchBackend(SITE, own, place_, dialect=DIALECTS["slurm"], runner=lambda: self)

    def leave(self, count: int) -> None:
        """So many that run are out of the queue, and only accounting knows of them."""
        running = [number for number, (state, _) in self.queued.items() if state == "RUNNING"]
        for number in running[:count]:
            self.over[number] = self.queued.pop(number)[1]

    # As a pool, and as the one queue in it.

    name = SourceName("ap1")
    pool = POOL

    def sources(self) -> tuple[DemandSource, ...]:
        return (self,)

    def slots(self, *, now: Instant) -> PoolSlots:
        full = Resources(0, 0, 0)
        running = [number for number, (state, _) in self.queued.items() if state == "RUNNING"]
        return PoolSlots(tuple(Slot(self.names[number], full, 8) for number in running))

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        shape = Shape(Resources(1000, 2000, 1000))
        group = Demand(
            pool=POOL,
            shape=shape,
            idle=8 * WAITING,
            running=8 * (JOBS - WAITING),
            oldest_at=Instant(now - 3600),
            owners=((Owner("ann"), 8 * WAITING),),
            run_s_max=None,
            fits=(OFFER.key,),
        )
        return DemandSight((group,))


@dataclass(frozen=True)
class Cost:
    """Of one cycle: commands for looking, processor time of this program, and what was seen and wanted."""

    commands: int
    cpu_s: float
    took_s: float  # the site's own work included
    pilots: int
    actions: int


def cycle(world: World, shell: Provisioner, memory: Memory) -> tuple[Cost, Memory]:
    world.now_s += CYCLE_S
    sent, began, at = world.sent, time.process_time(), time.monotonic()
    snapshot = shell.observe(memory)
    picture = shell.look(snapshot, memory)
    plan = shell.check(picture, shell.decide(picture))
    # Nothing is done: what a plan asks for is a command each, and another figure.
    after = shell.remember(picture, replace(plan, decisions=()), ())
    cpu_s, took_s = time.process_time() - began, time.monotonic() - at
    (seen,) = [sight for _, sight in snapshot.sites]
    if not isinstance(seen, Seen):
        raise RuntimeError(f"the site was not seen: {seen.why}")
    return Cost(world.sent - sent, cpu_s, took_s, len(seen.value.pilots), len(plan.actions)), after


def measured(folder: Path) -> dict[str, list[Cost]]:
    world = World(folder)
    backend = world.build()
    rules = Rules(pools=(PoolRules(POOL),), sites=(SiteRules(SITE, (OFFER,)),))
    doors = Doors({POOL: world}, {SITE: backend}, ThreadCalls(), world, read_s_max=READ_S_MAX)  # type: ignore[dict-item]  # No more of a pool is asked for.
    shell = Provisioner(doors, rules, policy_of(PolicyRule("steady")))
    found: dict[str, list[Cost]] = {"first": [], "steady": [], "busy": []}
    memory = Memory("bench", Instant(world.now_s - 10_000))
    for number in range(2 * LOOKS + 1):
        what = "first" if number == 0 else "busy" if number > LOOKS else "steady"
        if what == "busy":
            world.leave(LEAVE)
        cost, memory = cycle(world, shell, memory)
        found[what].append(cost)
    return found


SHOWN = {
    "first": "the first after a start, which reads what each job was asked for",
    "steady": "a steady one",
    "busy": f"one after which {LEAVE} jobs have left the queue, so that accounting is asked",
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args(argv)
    print(header("python -m bench.batch_cycle"))
    with tempfile.TemporaryDirectory(prefix="gp-bench-") as folder:
        found = measured(Path(folder))
    print(f"{JOBS:,} jobs of ours at one site of Slurm, {WAITING} of them wait; medians of {LOOKS} cycles")
    good = True
    for what, costs in found.items():
        commands, cpu_s = (
            max(cost.commands for cost in costs),
            statistics.median(cost.cpu_s for cost in costs),
        )
        good = good and commands <= COMMANDS_MAX and cpu_s <= CPU_S_MAX
        took_s = statistics.median(cost.took_s for cost in costs)
        seen = f"{costs[-1].pilots:,} pilots seen, {took_s:.1f} s in all"
        print(f"  {SHOWN[what]}: {commands} commands, {cpu_s:.3f} s of processor time; {seen}")
    print(f"targets: at most {COMMANDS_MAX} commands and {CPU_S_MAX:g} s, in every cycle")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
