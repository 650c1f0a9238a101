"""Promised starts on a log of the past: who was told what at submission, and when it started.

The first jobs of a log are played on nodes of one processor each by the product's own decisions. Short jobs
stand in the interactive queue, in strict order, and are told a start when they come; the others are batch.
Users' limits are long, so that promises are early; none may be late, because nothing is taken away here.
Read from `../shared/traces`, or from the folder GLIDEPATH_TRACES names.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from bench.machine import header
from bench.rerun import FOLDER
from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import Cluster, Node, Partition, PartitionName, Queue
from glidepath.core.schedule.decide import Schedule
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import Ask, Book, Job, JobName, Memory, Promise, World
from glidepath.core.units import shown_duration
from glidepath.sim.rerun.placed import Timed, placed
from glidepath.sim.rerun.trace import Trace, trace_of

LOGS = (("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz", 128), ("CTC-SP2", "CTC-SP2-1996-3.1-cln.swf.gz", 338))
# Who asks for no more than this sits in front of it.
INTERACTIVE_S_MAX = 2 * 3600
JOBS = 4000
_MAIN = PartitionName("main")


def cluster_of(processors: int) -> Cluster:
    names = tuple(NodeName(f"n{at:04}") for at in range(processors))
    longest_s = 366 * 86400
    part = Partition(_MAIN, names, limit_s_max=longest_s)
    return Cluster(tuple(Node(name, Resources(1000, 1024)) for name in names), (part,))


def jobs_of(trace: Trace, processors: int) -> list[Timed]:
    columns = (trace.submit.tolist(), trace.run.tolist(), trace.limit.tolist(), trace.procs.tolist())
    made = []
    for at, (submit, run, limit, procs, user) in enumerate(zip(*columns, trace.user.tolist(), strict=True)):
        queue = Queue.INTERACTIVE if limit <= INTERACTIVE_S_MAX else Queue.BATCH
        ask = Ask(Resources(1000, 1), min(procs, processors))
        job = Job(JobName(f"j{at}"), Owner(str(user)), _MAIN, queue, ask, Instant(submit), limit)
        made.append(Timed(job, max(1, run)))
    return made


class Watch:
    """Plans as a follower does, and remembers what was told."""

    def __init__(self) -> None:
        self.follower = Follower()
        self.told: dict[JobName, Promise] = {}
        self.plans = 0

    def schedule(self, world: World, book: Book, memory: Memory) -> Schedule:
        found = self.follower.schedule(world, book, memory)
        self.told.update((promise.job, promise) for promise in found.memory.promises)
        self.plans += 1
        return found


def played(name: str, file: str, processors: int, jobs: int) -> int:
    """How many promises were broken."""
    trace = trace_of(FOLDER / file).part(0, jobs)
    timed = jobs_of(trace, processors)
    watch = Watch()
    began_s = time.process_time()
    began = placed(cluster_of(processors), timed, Book(), watch.schedule)
    took_s = time.process_time() - began_s
    off_s = [began[job].at - promise.first for job, promise in watch.told.items() if job in began]
    late = [off for off in off_s if off > 0]
    early = [-off for off in off_s if off < 0]
    moved = sum(promise.moved > 0 for promise in watch.told.values())
    waited = sum(promise.first > promise.told_at for promise in watch.told.values())
    print(
        f"{name}@{processors}: {len(timed):,} jobs, {len(off_s):,} interactive, {waited:,} of them told "
        f"a later start; {watch.plans:,} plans in {took_s:.0f} s of processor time"
    )
    middle = shown_duration(int(statistics.median(early))) if early else "none"
    latest = shown_duration(int(statistics.median(late))) if late else "none"
    print(
        f"  to the second {len(off_s) - len(late) - len(early):,}, early {len(early):,} (median {middle}), "
        f"late {len(late):,} (median {latest}), moved to a later start {moved:,}"
    )
    return len(late) + moved


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.promises", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many jobs of each log")
    chosen = parser.parse_args(words)
    print(header("python -m bench.promises"))
    if not FOLDER.is_dir():
        print("the logs are not there; set GLIDEPATH_TRACES to the folder of public logs: NOT MEASURED")
        return 1
    broken = sum(played(name, file, processors, chosen.jobs) for name, file, processors in LOGS)
    print(f"promises broken: {broken} (target 0)")
    return 0 if broken == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
