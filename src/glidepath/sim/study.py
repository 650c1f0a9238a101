"""Whole runs: a scenario, a seed and a policy come in, scores and everything that was broken go out.

First the world goes on under its faults while jobs come; then the faults stop and what is left must be
served, every pilot must leave, and the last plan must be empty.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from glidepath.core.provision.decide import decide
from glidepath.core.provision.offer import PolicyRule, Rules
from glidepath.core.provision.picture import look
from glidepath.policy import policy_of, with_numbers
from glidepath.provisioner import Provisioner
from glidepath.sim.keep import Keeps
from glidepath.sim.run import Run, live_pilots
from glidepath.sim.scenario import Scenario
from glidepath.sim.score import Result
from glidepath.sim.world import START, World

# With the faults gone, a world that has not settled after so many cycles never will.
CALM_CYCLES_MAX = 1500
# So many cycles without an act, a pilot or a new job: what still waits cannot be served.
STILL_CYCLES = 30
CYCLES_MAX = 20_000_000
PROGRESS_EVERY = 100
# The loop makes many small values and no circles of them; looking for circles all the time is half its cost.
GARBAGE_THRESHOLD = 200_000

Progress = Callable[[int, float], None]  # cycles so far, and the part of the workload that has come


@dataclass(frozen=True, slots=True)
class Finished:
    result: Result
    broken: tuple[str, ...]
    faults: tuple[tuple[str, int], ...]  # how often each struck
    lives: int
    left: int  # jobs that could not be served


def simulated(
    scenario: Scenario,
    seed: int,
    *,
    policy: PolicyRule | None = None,
    cycle_s: int | None = None,
    cycles: int | None = None,
    cycles_min: int = 0,
    keeps: Keeps | None = None,
    provisioner: type[Provisioner] = Provisioner,
    progress: Progress = lambda cycles, part: None,
) -> Finished:
    """`cycles` is how many are run before the faults stop; by default until the last job has come.

    At least `cycles_min` are run in all, also when everything has been served before.
    """
    run = started(scenario, seed, policy=policy, cycle_s=cycle_s, keeps=keeps, provisioner=provisioner)
    world, watch = run.world, run.watch
    with _little_garbage():
        while (world.more_to_come or scenario.rates) and run.cycles < (cycles or CYCLES_MAX):
            run.turn()
            if watch.broken or (cycles is None and _over(scenario, world)):
                break
            if run.cycles % PROGRESS_EVERY == 0:
                progress(run.cycles, _part(scenario, world, run.cycles, cycles))
        run.faults.stop()
        world.end_of_arrivals()
        left = _settled(run, progress, cycles_min) if not watch.broken else 0
    result = world.ledger.result(
        scenario=scenario.name,
        policy=run.policy.name,
        seed=seed,
        cycles=run.cycles,
        span_s=world.now - START,
    )
    counts = tuple(run.faults.counts.items())
    return Finished(result, tuple(map(str, watch.broken)), counts, run.lives, left)


def started(
    scenario: Scenario,
    seed: int,
    *,
    policy: PolicyRule | None = None,
    cycle_s: int | None = None,
    keeps: Keeps | None = None,
    provisioner: type[Provisioner] = Provisioner,
) -> Run:
    rules = rules_under(scenario.rules, policy, cycle_s)
    world = World(seed, rules, scenario.workload.arrivals(seed), sites=scenario.sites, pools=scenario.pools)
    return Run(
        world,
        rules,
        policy_of(rules.policy),
        seed=seed,
        rates=scenario.rates,
        keeps=keeps,
        provisioner=provisioner,
    )


def rules_under(rules: Rules, policy: PolicyRule | None, cycle_s: int | None) -> Rules:
    """The rules with another policy, or another cadence, or both."""
    if policy is not None:
        rules = replace(rules, policy=policy)
    if cycle_s is not None:
        rules = replace(rules, cycle_s_min=cycle_s, cycle_s_max=cycle_s)
    return with_numbers(rules)


def _settled(run: Run, progress: Progress, cycles_min: int) -> int:
    """Nothing goes wrong any more: the work is finished, the pilots leave. The jobs that were left over."""
    world, watch = run.world, run.watch
    calm = still = 0
    bound = CALM_CYCLES_MAX if run.faults.all else CYCLES_MAX
    while calm < bound and not watch.broken:
        cycle = run.turn()
        calm += 1
        if calm % PROGRESS_EVERY == 0:
            progress(run.cycles, 1.0)
        quiet = cycle is not None and not cycle.plan.actions and not run.life.memory.tracks
        still = still + 1 if quiet and not live_pilots(world) else 0
        if run.cycles < cycles_min:
            continue
        if (still >= 2 and not world.jobs_left) or still >= STILL_CYCLES:
            return world.jobs_left
    if not watch.broken:
        tracks = len(run.life.memory.tracks)
        watch.breaks(
            run.cycles,
            f"liveness: {calm} cycles after the faults stopped there are {world.jobs_left} jobs, "
            f"{live_pilots(world)} pilots and {tracks} on the books",
        )
    return world.jobs_left


def _over(scenario: Scenario, world: World) -> bool:
    """Whether faults stop now and no more jobs come."""
    if scenario.end_s is None:
        return not world.more_to_come
    return world.now - START >= scenario.end_s


def _part(scenario: Scenario, world: World, done: int, cycles: int | None) -> float:
    if cycles:
        return done / cycles
    return min(1.0, (world.now - START) / scenario.end_s) if scenario.end_s else 0.0


@contextmanager
def _little_garbage() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def replayed(keeps: Keeps) -> tuple[int, tuple[str, ...]]:
    """How many kept cycles there are, and each that is decided otherwise the second time."""
    count = 0
    differ: list[str] = []
    rule: PolicyRule | None = None
    with _little_garbage():
        for entry in keeps.entries():
            if rule is None or entry.rules.policy != rule:
                rule = entry.rules.policy
                policy = policy_of(rule)
            count += 1
            if decide(look(entry.snapshot, entry.memory, entry.rules), entry.rules, policy) != entry.plan:
                differ.append(f"cycle {entry.cycle} is decided otherwise in replay")
    return count, tuple(differ)
