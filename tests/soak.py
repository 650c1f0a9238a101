"""`make soak`: storms on all cores, seed after seed, for as long as one likes.

Prints the seed of every failure with the line that repeats it, and at the end how often each fault struck;
exits with 1 if anything was broken. The tests of storms run the same function on a few seeds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.sim.keep import Encoded
from glidepath.sim.storm import node_storm, storm
from glidepath.sim.study import replayed, simulated

WORLDS = {"storm": storm, "node-storm": node_storm}
SEEDS = 10_000
CYCLES = 500
# After so many broken seeds the next one teaches nothing that the first did not.
FAILURES_MAX = 10
# Workers begin anew after so many seeds each: what they keep for speed must not grow through the night.
SEEDS_EACH = 100
# On a terminal the line is renewed every second; in a log it should be found, not fill it.
Case = tuple[int, int, str]  # seed, cycles, world
TERMINAL_S = 1.0
LOG_S = 60.0


@dataclass(frozen=True, slots=True)
class Stormed:
    """What came of one seed: everything that was broken, and how much was tried."""

    seed: int
    cycles: int  # under faults
    world: str = "storm"
    turns: int = 0  # with those after the faults stopped
    replayed: int = 0
    pilots: int = 0
    broken: tuple[str, ...] = ()
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """What a person types to see it again."""
        return repeat_line(self.world, self.seed, self.cycles)


def repeat_line(scenario: str, seed: int, cycles: int) -> str:
    return f"glidepath sim run {scenario} --seed {seed} --cycles {cycles}"


def stormed(seed: int, cycles: int = CYCLES, world: str = "storm") -> Stormed:
    kept = Encoded()
    run = simulated(WORLDS[world](seed), seed, cycles=cycles, keeps=kept)
    count, differ = replayed(kept)
    left = (f"isolation: {run.left} jobs were never served",) if run.left else ()
    score = run.result.score
    return Stormed(
        seed,
        cycles,
        world,
        turns=score.cycles,
        replayed=count,
        pilots=score.asked,
        broken=(*run.broken, *left, *differ),
        faults=dict(run.faults),
    )


def all_stormed(cases: Iterable[Case], workers: int, *, each: int = SEEDS_EACH) -> Iterator[Stormed]:
    """Seeds and their cycles, as they end, on so many cores. A run that dies of itself is a finding too."""
    left = list(cases)
    # Not `max_tasks_per_child`: when all workers come to their end together, Python 3.11 begins no other.
    for start in range(0, len(left), each * workers):
        yield from _together(left[start : start + each * workers], workers)


def _together(cases: list[Case], workers: int) -> Iterator[Stormed]:
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        asked: dict[Future[Stormed], Case] = {pool.submit(stormed, *case): case for case in cases}
        for future in as_completed(asked):
            error = future.exception()
            if error is None:
                yield future.result()
            else:
                why = one_line(f"{type(error).__name__}: {error}")
                yield Stormed(*asked[future], broken=(why,))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Progress:
    """One line that tells how far it is, how fast, and how long it will take."""

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        self.began = self.told = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def tell(self, done: int, broken: int) -> None:
        now = time.monotonic()
        if now - self.told < (TERMINAL_S if self.on_terminal else LOG_S):
            return
        self.told = now
        rate = done / (now - self.began)
        left_s = int((self.seeds - done) / rate)
        line = f"{done:,} of {self.seeds:,} seeds, {rate:.2f} per second, {shown_duration(left_s)} to go"
        line += f", {broken} broken" if broken else ""
        start, end = ("\r\x1b[K", "") if self.on_terminal else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def summary(runs: list[Stormed], took_s: float) -> str:
    faults: Counter[str] = Counter()
    for run in runs:
        faults.update(run.faults)
    broken = sum(bool(run.broken) for run in runs)
    turns, plans, pilots = (
        sum(numbers) for numbers in zip(*((r.turns, r.replayed, r.pilots) for r in runs), strict=True)
    )
    lines = [f"  {name:20} {faults[name]:>12,}" for name in sorted(faults)]
    told = "nothing was broken" if not broken else f"{broken:,} seeds were broken"
    return "\n".join(
        [
            f"{len(runs):,} seeds, {turns:,} cycles, {pilots:,} pilots, {plans:,} plans replayed "
            f"in {shown_duration(int(took_s))}: {told}",
            "faults:",
            *lines,
        ]
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="storms, seed after seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default {SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--cycles", type=int, default=CYCLES, help=f"under faults (default {CYCLES})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at once (default: all cores)")
    parser.add_argument("--world", choices=sorted(WORLDS), default="storm", help="default storm")
    options = parser.parse_args(argv)
    if min(options.seeds, options.cycles, options.jobs) < 1:
        parser.error("--seeds, --cycles and --jobs are at least 1")
    runs: list[Stormed] = []
    broken = 0
    progress = Progress(options.seeds)
    seeds = range(options.first, options.first + options.seeds)
    for run in all_stormed([(seed, options.cycles, options.world) for seed in seeds], options.jobs):
        runs.append(run)
        if run.broken:
            broken += 1
            progress.clear()
            print(f"seed {run.seed}: {run.broken[0]}\n  repeat it: {run.line}", flush=True)
        progress.tell(len(runs), broken)
        if broken >= FAILURES_MAX:
            break
    progress.clear()
    print(summary(runs, time.monotonic() - progress.began))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
