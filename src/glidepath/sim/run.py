"""One run: the unchanged loop over a made-up world in virtual time, through crashes and changes of leader.

A world, rules and a policy come in; cycle after cycle is run, checked, and kept. What is broken is told with
the cycle in which it broke.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from glidepath.clock import Moment, SteadyClock
from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import PilotAction, Submit
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import PilotName
from glidepath.journal.entry import Entry
from glidepath.loop import Cycle, run_cycle
from glidepath.provisioner import Doors, Provisioner, resumed
from glidepath.sim.checks import Watch
from glidepath.sim.doors import ScatteredCalls, SimBackend, SimPoolDoor
from glidepath.sim.fault import Crash, Faults
from glidepath.sim.keep import InMemory, Keep, Keeps
from glidepath.sim.world import START, World

# A leader that took over works for so many cycles before the first one wakes.
SUPPLANTED_CYCLES = 2
# The machine was up for a while when the first controller started.
UP_S = 1000


@dataclass(slots=True)
class Life:
    """One process of a controller: its clock, its memory, and the doors it holds."""

    number: int
    clock: SteadyClock
    memory: Memory
    shell: Provisioner
    keep: Keep


@dataclass(slots=True)
class Machine:
    """The clocks of the machine that the controller runs on."""

    world: World
    wall_error_s: int = 0
    boots: int = 0
    booted_at: int = START - UP_S

    def clock(self, last: Moment | None) -> SteadyClock:
        booted_at = self.booted_at
        return SteadyClock(
            last,
            wall=lambda: float(self.world.now + self.wall_error_s),
            mono=lambda: float(self.world.now - booted_at),
            boot=f"boot{self.boots}",
        )


class Run:
    """`provisioner` is the provisioner of production; tests put one with a planted bug in its place."""

    def __init__(
        self,
        world: World,
        rules: Rules,
        policy: Policy,
        *,
        seed: int = 0,
        rates: Mapping[str, int] | None = None,
        keeps: Keeps | None = None,
        provisioner: type[Provisioner] = Provisioner,
    ) -> None:
        self.world = world
        self.rules = rules
        self.policy = policy
        self.seed = seed
        self.keeps: Keeps = keeps or InMemory()
        self.provisioner = provisioner
        self.watch = Watch()
        self.cycles = 0
        self.crashes = 0
        self.lives = 0
        self.repeats: set[PilotName] = set()  # asked for by a plan whose life died over it
        self.machine = Machine(world)
        self.faults = Faults(self, seed, rates or {})
        world.starts = self.faults.start
        self._supplanted = False
        self.life = self._born()

    # What faults may do to the controller

    def set_wall(self, error_s: int) -> None:
        self.machine.wall_error_s = error_s

    def reboot(self, wall_error_s: int) -> None:
        self.machine.boots += 1
        self.machine.booted_at = self.world.now
        self.machine.wall_error_s = wall_error_s
        self.life = self._born()

    def supplant(self) -> bool:
        if self._supplanted:
            return False  # One sleeper at a time: it is asleep and cannot fall asleep again.
        self._supplanted = True
        try:
            self.life = self._born()
            for _ in range(SUPPLANTED_CYCLES):
                self._turn()
        finally:
            self._supplanted = False
        return True

    # Lives

    def _born(self) -> Life:
        """A process starts: it knows what the journal says and nothing else."""
        self.lives += 1
        number = self.lives
        keep = self.keeps.opened()
        last = keep.latest()
        clock = self.machine.clock(last.moment if last else None)
        incarnation = f"s{number}"
        memory = Memory(incarnation, born_at=clock.now()) if last is None else self._resumed(last, clock)
        memory = replace(memory, incarnation=incarnation)
        doors = Doors(
            pools={name: SimPoolDoor(self.world, self.faults, name) for name in self.world.pools},
            backends={
                name: SimBackend(self.world, self.faults, name, partial(self._sent, number))
                for name in self.world.sites
            },
            calls=ScatteredCalls(Random(f"{self.seed} side by side {number}")),
            clock=clock,
            ours=lambda: self.life.number == number,
            sleep=lambda _: None,
        )
        shell = self.provisioner(doors, self.rules, self.policy)
        life = self.life = Life(number, clock, memory, shell, keep)
        # One that only sleeps may wake and ask as well: the names are the same, and the site knows them.
        if last is not None and last.outcomes is None:
            if not self._recover(life, last):
                return self._born()
            life.memory = replace(self._resumed(last, clock), incarnation=incarnation)
        return self.life  # Another one, where this one fell asleep over that and was supplanted.

    @staticmethod
    def _resumed(last: Entry, clock: SteadyClock) -> Memory:
        rules, now = last.rules, clock.now()
        return resumed(last.memory, last.snapshot, last.plan, last.outcomes, rules=rules, now=now)

    def _recover(self, life: Life, last: Entry) -> bool:
        """As a real one does when it starts. False where it died over that as well."""
        submits = [action for action in last.plan.actions if isinstance(action, Submit)]
        self.repeats.update(name for submit in submits for name in submit.names)
        try:
            life.shell.again(last.plan, last.rules)
        except Crash as crash:
            self.crashes += 1
            self.watch.died(self.cycles, f"{crash}, when it asked again")
            return self.life is not life
        return True

    def _sent(self, number: int, verb: str, name: PilotName) -> None:
        self.watch.sent(self.cycles, f"{verb} of {name}", leads=self.life.number == number)
        if verb == "submit":
            self.watch.submitted(name, self.cycles, again=name in self.repeats)

    # Cycles

    def turn(self) -> Cycle[Snapshot, Memory, PilotAction] | None:
        """One cycle, and the time until the next. None when the controller died in it."""
        cycle = self._turn()
        self.faults.step()
        return cycle

    def _turn(self) -> Cycle[Snapshot, Memory, PilotAction] | None:
        life = self.life
        self.cycles += 1
        self._sample()
        try:
            cycle = run_cycle(life.shell, Recorder(self, life), life.memory)
        except Crash as crash:
            self.crashes += 1
            self.watch.died(self.cycles, str(crash))
            self.world.advance(self.world.now + self.rules.cycle_s_min)
            if self.life is life:
                self.life = self._born()
            return None
        leads = self.life is life
        self.watch.after(cycle, self, leads=leads)
        life.memory = cycle.memory
        if leads:
            self.world.advance(self.world.now + cycle.plan.wake_after_s)
        return cycle

    def _sample(self) -> None:
        """What the world looks like, as no controller can see it."""
        world, ledger = self.world, self.world.ledger
        waiting = running = claimed = joined = needed = wanted = 0
        for pool in world.pools.values():
            for queue in pool.queues:
                waiting += queue.idle
                running += queue.running
                for group in queue.groups.values():
                    each = world.jobs_each(group.shape)
                    needed += -(-len(group.waiting) // each)
                    wanted += -(-(len(group.waiting) + group.running) // each)
            claimed += pool.claimed
            joined += len(pool.slots)
        coming, unclaimed = ledger.live["overall"] - joined, joined - claimed
        ledger.overshoot = max(ledger.overshoot, coming + unclaimed - needed)
        ledger.sample(
            world.now - START,
            waiting=waiting,
            running=running,
            coming=coming,
            unclaimed=unclaimed,
            claimed=claimed,
            wanted=wanted,
        )


@dataclass(frozen=True, slots=True)
class Recorder:
    """The loop's recorder of one life, with the faults of a disk on the way."""

    run: Run
    life: Life

    def planned(self, snapshot: Snapshot, memory: Memory, plan: Plan[PilotAction]) -> None:
        life = self.life
        if self.run.life is not life:
            raise OSError("this controller no longer owns the store")
        self.run.faults.record(
            "the plan is written",
            lambda: life.keep.planned(life.clock.moment(), snapshot, memory, rules=self.run.rules, plan=plan),
        )

    def acted(self, plan: Plan[PilotAction], outcomes: tuple[Did, ...]) -> None:
        if self.run.life is not self.life:
            raise OSError("this controller no longer owns the store")
        self.run.faults.record("the outcomes are written", lambda: self.life.keep.acted(plan.cycle, outcomes))


def live_pilots(world: World) -> int:
    return sum(pilot.live for site in world.sites.values() for pilot in site.pilots.values())
