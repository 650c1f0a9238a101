"""Kueue's baseline scenario, through the HTTP API, the store and the scheduler, with jobs that make no pods.

Its facts are those of `test/performance/scheduler/configs/baseline` of Kueue, at commit cc13fff: five
cohorts of six queues with 20 units each, three classes of jobs, each created at its own pace. As there,
nothing runs: the door says of each job that it has ended after its stated run time. A cohort is a node that
its queues share, which is what borrowing up to all of it comes to; there are no quotas and no preemption.
What is published are Kueue's own averages of five runs, on another machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select

from bench.agents import cpu_s
from bench.job_door import RUN_S, nodes_kept
from bench.job_world import PAPER, Home
from bench.machine import header
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import Cluster, Node
from glidepath.store.placed_rows import events, schedule_cycles

COHORTS, QUEUES, UNITS = 5, 6, 20
PUBLISHED_S, PUBLISHED_USED = 351.1, 0.587
RATIO_MAX = 0.33
CONNECTIONS = 8
ANSWER_S_MAX = 60.0
WARM_S_MAX, DONE_S_MAX, LOOK_S = 180.0, 600.0, 0.25


@dataclass(frozen=True)
class Sort:
    """One class of jobs: so many in each queue, each after a pause, and what Kueue publishes of its wait."""

    name: str
    count: int
    every_s: float
    run_s: float
    units: int
    published_wait_s: float


SORTS = (
    Sort("small", 350, 0.1, 0.2, 1, 215.5),
    Sort("medium", 100, 0.5, 0.5, 5, 76.8),
    Sort("large", 50, 1.2, 1.0, 20, 6.7),
)
WORK = QUEUES * COHORTS * sum(sort.count * sort.run_s * sort.units for sort in SORTS)
JOBS = QUEUES * COHORTS * sum(sort.count for sort in SORTS)
BOUND_S = WORK / (COHORTS * QUEUES * UNITS)


def cohort(number: int) -> str:
    return f"cohort-{number}"


def tables() -> str:
    """A partition for each cohort."""
    return "\n".join(
        f'[partitions.{cohort(number)}]\ncluster = "paper"\nnodes = ["{cohort(number)}"]\n'
        for number in range(COHORTS)
    )


def nodes() -> Cluster:
    size = Resources(QUEUES * UNITS * 1000, 1 << 20)
    return Cluster(tuple(Node(NodeName(cohort(number)), size) for number in range(COHORTS)), ())


def wish(number: int, sort: Sort) -> bytes:
    asked = {
        "partition": cohort(number),
        "queue": "batch",
        "name": sort.name,
        "cpus": sort.units,
        "mem": "1MiB",
        "time": "10s",
        "env": {RUN_S: f"{sort.run_s:g}"},
        "command": ["work"],
    }
    return json.dumps(asked).encode()


def arrivals() -> list[tuple[float, bytes]]:
    """When each is sent, from the beginning, and what."""
    bodies = {(number, sort.name): wish(number, sort) for number in range(COHORTS) for sort in SORTS}
    found = [
        (sort.every_s * (at + 1), bodies[number, sort.name])
        for number in range(COHORTS)
        for _ in range(QUEUES)
        for sort in SORTS
        for at in range(sort.count)
    ]
    return sorted(found, key=lambda one: one[0])


@dataclass
class Senders:
    """A few connections that are kept; each sends what is due next, and nothing before its time."""

    home: Home
    refused: list[str] = field(default_factory=list)
    behind_s: float = 0.0  # the last one was sent so much later than it was due

    def run(self) -> None:
        self._left: Iterator[tuple[float, bytes]] = iter(arrivals())
        self._turn, self._began = threading.Lock(), time.monotonic()
        threads = [threading.Thread(target=self._send) for _ in range(CONNECTIONS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.home.port, timeout=ANSWER_S_MAX)
        headers = {"Authorization": f"Bearer {self.home.token}"}
        while True:  # Until all are sent.
            with self._turn:
                due = next(self._left, None)
            if due is None:
                break
            wait_s = self._began + due[0] - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            connection.request("POST", "/api/v1/jobs?wait=0", due[1], headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 201:
                self.refused.append(f"{answer.status} {said[:200]!r}")
            self.behind_s = time.monotonic() - self._began - due[0]
        connection.close()


def warmed(home: Home) -> int:
    """One job of each class has run, so that machine code is there; the number of the last."""
    caller = home.caller()
    home.until(home.answers, "the server did not start")
    for sort in SORTS:
        last = caller.ask("POST", "/jobs?wait=0", json.loads(wish(0, sort)))["jobs"][0]["id"]
    caller.close()
    home.until(lambda: not home.live(), "the first jobs did not end")
    return int(last)


@dataclass(frozen=True)
class Story:
    """What the store says of all jobs, in seconds on the clock of people."""

    submitted: dict[int, float]
    started: dict[int, float]
    ended: dict[int, float]
    turns: list[float]

    @property
    def took_s(self) -> float:
        return max(self.ended.values()) - min(self.submitted.values())


def story(home: Home, after: int) -> Story:
    with home.store.read() as conn:
        query = select(events.c.job, events.c.kind, events.c.wall_s).where(events.c.job > after)
        rows = list(conn.execute(query))
        turns = conn.execute(select(schedule_cycles.c.wall_s).order_by(schedule_cycles.c.cycle)).scalars()
        of = {kind: {row.job: row.wall_s for row in rows if row.kind == kind} for kind in KINDS}
        first = min(of["submitted"].values())
        return Story(*(of[kind] for kind in KINDS), [wall_s for wall_s in turns if wall_s >= first])


KINDS = ("submitted", "starting", "done")


def told(found: Story, sorts: dict[int, Sort]) -> None:
    print("wait from submission to start, mean (Kueue's published):")
    for sort in SORTS:
        mine = [number for number, one in sorts.items() if one is sort]
        waits_s = [found.started[number] - found.submitted[number] for number in mine]
        over_s = [found.ended[number] - found.started[number] - sort.run_s for number in mine]
        print(
            f"  {sort.name:6} {statistics.mean(waits_s):6.1f} s ({sort.published_wait_s:g} s), longest "
            f"{max(waits_s):.0f} s; its room held {statistics.mean(over_s):.2f} s longer than it ran"
        )
    gaps_s = [later - sooner for sooner, later in zip(found.turns, found.turns[1:], strict=False)]
    print(f"turns: {len(found.turns)}, one after the other {statistics.median(gaps_s):.2f} s (median)")


def measured(folder: Path) -> float:
    home = Home(folder, clusters=PAPER + tables())
    nodes_kept(folder, nodes())
    with home.up() as child:
        after = warmed(home)
        load, began, used_s = os.getloadavg()[0], time.monotonic(), cpu_s(child.pid)
        senders = Senders(home)
        senders.run()
        sent_s = time.monotonic() - began
        until = time.monotonic() + DONE_S_MAX
        while left := home.live():
            assert time.monotonic() < until, f"{left} jobs are not over"
            time.sleep(LOOK_S)
        used_s = cpu_s(child.pid) - used_s
    assert not senders.refused, senders.refused[:3]
    found = story(home, after)
    assert {len(found.submitted), len(found.started), len(found.ended)} == {JOBS}
    print(f"{JOBS:,} jobs sent in {sent_s:.1f} s, the last {senders.behind_s:.1f} s late; ", end="")
    print(f"the scheduler used {used_s / found.took_s:.2f} of a core; ", end="")
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    by_units = {sort.units * 1000: sort for sort in SORTS}
    told(found, {number: by_units[units] for number, units in home.cpu_milli().items() if number > after})
    return found.took_s


def main(words: list[str]) -> int:
    argparse.ArgumentParser(prog="python -m bench.job_kueue", description=__doc__).parse_args(words)
    print(header("python -m bench.job_kueue"), flush=True)
    with tempfile.TemporaryDirectory(prefix="gp-kueue-") as folder:
        took_s = measured(Path(folder))
    ratio, used = took_s / PUBLISHED_S, BOUND_S / took_s
    print(f"utilisation {100 * used:.0f} % (Kueue's published: {100 * PUBLISHED_USED:.0f} %)")
    print(
        f"all over after {took_s:.1f} s, {ratio:.2f} of Kueue's published {PUBLISHED_S:g} s "
        f"(target {RATIO_MAX:g}); no schedule takes less than {BOUND_S:.0f} s"
    )
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
