"""Plans at scale: 5,000 nodes and 50,000 waiting jobs, from values and on a table that follows.

The first plan is made by `decide` from values: sifted, placed, with reasons. Then one job ends and one comes
in each round, and the plan is made again on the table that followed; plans are compared whole with those of
`decide`, every so many rounds. The same with the nodes and pods of Alibaba's public trace, where GPUs are
shared. Growth: the same with ever more waiting jobs on the same nodes, seconds and memory. Times are of the
processor, with those of the clock on the wall beside them where other work may have been running.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.machine import header, status_kib
from bench.placement_worlds import NOW, cluster_of, jobs_of, loaded, pods_of, renamed, world_of
from bench.rerun import told
from glidepath.core.quantity import Instant
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Cluster
from glidepath.core.schedule.decide import Schedule, decide
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import Book, Ended, Job, Memory, Running, World

NODES, WAITING, CANDIDATES = 5_000, 50_000, 40_000
FULL_S_MAX, AGAIN_S_MAX = 5.0, 0.050
ROUNDS, COMPARED_EVERY = 120, 40
KEEPS = (1, 10)
GROWTH = (6_250, 12_500, 25_000, 50_000, 100_000)
GROWTH_ROUNDS = 15
# Between the first and the last of these, n log n grows like this power of n.
EXPONENT_MAX = 1 + math.log(math.log(GROWTH[-1]) / math.log(GROWTH[0])) / math.log(GROWTH[-1] / GROWTH[0])
MEMORY = (12_500, 25_000, 50_000)
GROWS_MAX = 1.25

T = TypeVar("T")


@dataclass(frozen=True)
class Took:
    cpu_s: float
    wall_s: float


def timed(act: Callable[[], T]) -> tuple[T, Took]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = act()
    return found, Took(time.process_time() - cpu, time.perf_counter() - wall)


@dataclass
class Rounds:
    """A world in which one job ends and one comes each round, and everything that is planned is done."""

    cluster: Cluster
    book: Book
    running: list[Running]
    waiting: list[Job]
    now: int = NOW
    number: int = 0
    ended: tuple[Ended, ...] = ()
    memory: Memory = field(default_factory=Memory)
    follower: Follower = field(default_factory=Follower)
    took: list[Took] = field(default_factory=list)
    started: int = 0
    compared: int = 0

    def world(self) -> World:
        return World(Instant(self.now), self.cluster, tuple(self.waiting), tuple(self.running), self.ended)

    def plan(self) -> Took:
        world, before = self.world(), self.memory
        found, took = timed(lambda: self.follower.schedule(world, self.book, before))
        self.memory = found.memory
        if self.number and self.number % COMPARED_EVERY == 0:
            assert found == decide(world, self.book, before), "the table that followed has another plan"
            self.compared += 1
        self.do(found)
        return took

    def do(self, found: Schedule) -> None:
        starts = {one.job: one for one in found.plan.actions if isinstance(one, Start)}
        begun = [job for job in self.waiting if job.name in starts]
        self.waiting = [job for job in self.waiting if job.name not in starts]
        self.running += [Running(job, Instant(self.now), starts[job.name].places) for job in begun]
        self.started += len(begun)

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            self.number += 1
            over = self.running.pop(self.next_out())
            self.ended = (Ended(over.job, max(1, self.now - over.started_at)),)
            like = self.waiting[self.number * 13 % len(self.waiting)]
            self.waiting.append(renamed(like, f"x{self.number}", self.now))
            self.took.append(self.plan())

    def next_out(self) -> int:
        """By turns any job ends early, and the next one that reaches its limit does so then."""
        if self.number % 2:
            return self.number * 37 % len(self.running)
        ends = [one.started_at + (one.job.limit_s or 0) for one in self.running]
        self.now = max(self.now, min(ends))
        return ends.index(min(ends))

    def p95_s(self, clock: str = "cpu_s") -> float:
        found = sorted(getattr(took, clock) for took in self.took)
        return float(found[int(0.95 * (len(found) - 1))])

    def median_s(self) -> float:
        return statistics.median(took.cpu_s for took in self.took)


def warm() -> Took:
    """The first plan of this program: machine code is made, or read where it is kept."""
    cluster = cluster_of(40)
    rounds = Rounds(cluster, Book(), [], jobs_of(300, interactive=40))
    _, took = timed(rounds.plan)
    rounds.play(3)
    return took


def plans(name: str, cluster: Cluster, running: list[Running], waiting: list[Job]) -> bool:
    """The first plan, and plans after one job in and one out."""
    world = world_of(cluster, running, waiting)
    gpus = sum(node.size.gpus for node in cluster.nodes)
    shapes = len({job.ask for job in waiting})
    print(f"\n{name}: {len(cluster.nodes):,} nodes, {gpus:,} GPUs, {len(running):,} jobs run, ", end="")
    print(f"{len(waiting):,} of {shapes} shapes wait")
    found, took = timed(lambda: decide(world, Book(), Memory()))
    starts = sum(isinstance(act, Start) for act in found.plan.actions)
    print(f"  first plan from values       {took.cpu_s:8.3f} s ({took.wall_s:.3f} s on the wall), ", end="")
    print(f"{starts} start, {len(found.memory.promises)} promised (target {FULL_S_MAX:g} s)", flush=True)
    met = took.cpu_s <= FULL_S_MAX
    for keep in KEEPS:
        rounds = Rounds(cluster, Book(keep=keep), list(running), list(waiting))
        rounds.plan()
        rounds.play(ROUNDS)
        line = f"  again, room kept for {keep:<3}     {rounds.median_s() * 1000:8.1f} ms, "
        line += f"p95 {rounds.p95_s() * 1000:.1f} ms ({rounds.p95_s('wall_s') * 1000:.1f} ms on the wall), "
        line += f"{ROUNDS} rounds, {rounds.started} started, {rounds.compared} plans compared: equal; "
        print(f"{line}tables made: {rounds.follower.made} (target p95 {AGAIN_S_MAX * 1000:g} ms)", flush=True)
        met = met and rounds.p95_s() <= AGAIN_S_MAX
    return met


def exponent(counts: tuple[int, ...], seconds: list[float]) -> float:
    """The power of n by which the seconds grow: a straight line through the logarithms."""
    return statistics.linear_regression(
        [math.log(count) for count in counts], [math.log(each) for each in seconds]
    ).slope


def growth(cluster: Cluster, running: list[Running]) -> bool:
    print(f"\ngrowth, {len(cluster.nodes):,} nodes: waiting jobs, first plan, again (median)")
    whole, again = [], []
    for count in GROWTH:
        waiting = jobs_of(count)
        world = world_of(cluster, running, waiting)
        _, took = timed(partial(decide, world, Book(), Memory()))
        rounds = Rounds(cluster, Book(), list(running), waiting)
        rounds.plan()
        rounds.play(GROWTH_ROUNDS)
        whole.append(took.cpu_s)
        again.append(rounds.median_s())
        print(f"  {count:>9,}{took.cpu_s:>10.3f} s{rounds.median_s() * 1000:>10.1f} ms", flush=True)
    found = (exponent(GROWTH, whole), exponent(GROWTH, again))
    print(f"  grows like n to the power of {found[0]:.2f} and {found[1]:.2f} ", end="")
    print(f"(target {EXPONENT_MAX:.2f}, as n log n does)")
    return max(found) <= EXPONENT_MAX


def memory() -> bool:
    """Each number of jobs in a program of its own; the jobs themselves were there before."""
    words = [sys.executable, "-m", "bench.placement", "memory"]
    found = [told(words, jobs=jobs)["bytes"] for jobs in MEMORY]
    few, many = ((found[at + 1] - found[at]) / (MEMORY[at + 1] - MEMORY[at]) for at in range(len(MEMORY) - 1))
    print(f"\npeak memory of plans for each further waiting job: {few:,.0f} B, then {many:,.0f} B", end="")
    print(f" (target: at most {GROWS_MAX:g} times as much among many)")
    return many <= GROWS_MAX * few


def peak_of(jobs: int) -> int:
    """In bytes, of a follower that has made two plans, beyond what the world takes."""
    warm()
    cluster = cluster_of(500)
    rounds = Rounds(cluster, Book(), loaded(cluster, jobs_of(4_000, 5, prefix="r")), jobs_of(jobs))
    Path("/proc/self/clear_refs").write_text("5")  # The peak so far was that of the compiler.
    before = status_kib("VmRSS")
    rounds.plan()
    rounds.play(1)
    return 1024 * (status_kib("VmHWM") - before)


def main(words: list[str]) -> int:
    if words[:1] == ["memory"]:
        print(json.dumps({"bytes": peak_of(json.loads(words[1])["jobs"])}))
        return 0
    print(header("python -m bench.placement"))
    took = warm()
    print(f"machine code made, or read where it is kept: {took.cpu_s:.1f} s of a core")
    cluster = cluster_of(NODES)
    running = loaded(cluster, jobs_of(CANDIDATES, 5, interactive=0, prefix="r"))
    met = [plans("made up", cluster, running, jobs_of(WAITING))]
    found = pods_of()
    if found is None:
        print("\nAlibaba's trace is not there; set GLIDEPATH_TRACES to its folder: NOT MEASURED")
        met.append(False)
    else:
        met.append(plans("Alibaba", *found))
    met += [growth(cluster, running), memory()]
    print("targets met" if all(met) else "targets MISSED")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
