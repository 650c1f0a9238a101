"""Accounting at its size: one look at 10,000 running jobs, and questions about a year of a million jobs.

A look counts what is new since the one before, draws it from allocations, and reads again who may run. The
year is made of jobs of 200 people in 40 projects of a tree; every question is asked of the desk, as by HTTP.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.machine import header
from glidepath.config import Settings
from glidepath.core.account.run import HOUR_S, MILLIONTHS, Run, slices
from glidepath.core.place.accounts import Terms
from glidepath.core.quantity import Instant
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import UsageAsked
from glidepath.jobs.stored import StoredDesk
from glidepath.journal.meter import Meter, run_of
from glidepath.journal.rights import read_accounts
from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate
from glidepath.store.people import PeopleStore, Project
from glidepath.store.usage_rows import DAY_HOURS, KEYS, SUMS, usage_days, usage_hours, usage_meter, usage_runs
from glidepath.store.wallets import Grant, WalletStore

YEAR_S = 365 * 86400
T0 = 20_454 * 86400  # the first of January 2026
PEOPLE, PROJECTS, AT_ONCE = 200, 40, 20_000
LOOK_S_MAX, QUESTION_S_MAX = 1.0, 0.5
ROOT = Caller("root", Role.ADMIN)


def payer(chance: random.Random) -> tuple[str, str, str]:
    who = chance.randrange(PEOPLE)
    project = f"project{(who + chance.choice((0, 0, 7))) % PROJECTS:02}"
    return f"user{who:03}", project, chance.choice(("main", "long"))


def row_of(number: int, chance: random.Random, began: int, ended: int | None) -> dict[str, Any]:
    owner, project, partition = payer(chance)
    cpus = chance.choice((1, 2, 4, 8, 16, 64))
    return {
        "job": number,
        "attempt": 1,
        "owner": owner,
        "project": project,
        "partition": partition,
        "cpu_milli": cpus * 1000,
        "memory_mib": cpus * 4096,
        "disk_mib": 0,
        "gpu_milli": 0,
        "rate": cpus * MILLIONTHS,
        "began_at": began,
        "ended_at": ended,
        "refund": 0,
        "counted": 0 if ended is None else 2,
    }


def with_projects(store: Store) -> None:
    """A tree of three levels, with an allocation at each project."""
    people, wallets = PeopleStore(store), WalletStore(store)
    for at in range(PROJECTS):
        name = f"project{at:02}"
        people.add_project(Project(name, "root", float(T0)))
        if at:
            wallets.set(name, parent=f"project{(at - 1) // 6:02}", weight=None)
        span = Instant(T0), Instant(T0 + 2 * YEAR_S)
        wallets.grant(Grant(name, 10**15, *span, "root"), wall=float(T0))


def batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def looked(folder: Path, jobs: int, looks: int) -> list[float]:
    """How long each look took, a minute apart; a hundredth of the jobs ends and as many begin in between."""
    chance = random.Random(1)
    with open_store(f"sqlite:///{folder}/running.db") as store:
        migrate(store)
        with_projects(store)
        with store.write() as conn:
            began = (T0 + chance.randrange(3600) for _ in range(jobs))
            rows = [row_of(at + 1, chance, when, None) for at, when in enumerate(began)]
            conn.execute(usage_runs.insert(), rows)
        meter, took, number = Meter(store), [], jobs
        for look in range(looks + 1):
            now = Instant(T0 + 3600 + 60 * look)
            with store.write() as conn:
                over = usage_runs.c.id.in_(chance.sample(range(1, number + 1), jobs // 100))
                still = usage_runs.c.ended_at.is_(None)
                conn.execute(usage_runs.update().where(over, still).values(ended_at=now - 7))
                fresh = [row_of(number + at + 1, chance, now - 5, None) for at in range(jobs // 100)]
                conn.execute(usage_runs.insert(), fresh)
                number += len(fresh)
            began_s = time.perf_counter()
            meter.look(now, float(now))
            read_accounts(store, now, Terms())
            took.append(time.perf_counter() - began_s)
    return took[1:]  # The first one meets all of them for the first time.


def a_year(store: Store, jobs: int) -> int:
    """Runs, and the hours and days that the meter would have made of them; how many hours there are."""
    chance, number = random.Random(2), 0
    hours: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal number
        for number in range(1, jobs + 1):
            began = T0 + chance.randrange(YEAR_S - 86400)
            run_s = int(min(chance.lognormvariate(7.5, 1.3), 80_000))
            row = row_of(number, chance, began, began + run_s)
            count(row)
            yield row

    def count(row: dict[str, Any]) -> None:
        run: Run = run_of(_Row(row))
        for each in slices(run, run.began_at, Instant(T0 + YEAR_S)):
            sums = hours[each.hour, row["owner"], row["project"], row["partition"]]
            sums["seconds"] += each.seconds
            sums["cpu_milli_s"] += each.seconds * row["cpu_milli"]
            sums["memory_mib_s"] += each.seconds * row["memory_mib"]
            sums["charge"] += each.charge
        hours[run.began_at // HOUR_S, row["owner"], row["project"], row["partition"]]["runs"] += 1

    for some in batches(rows()):
        with store.write() as conn:
            conn.execute(usage_runs.insert(), some)
    days: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for (hour, *whose), sums in hours.items():
        days[hour // DAY_HOURS, *whose].update(sums)
    for table, when, found in ((usage_hours, "hour", hours), (usage_days, "day", days)):
        made = (
            {**dict(zip((when, *KEYS), key, strict=True)), **{name: sums[name] for name in SUMS}}
            for key, sums in found.items()
        )
        for some in batches(made):
            with store.write() as conn:
                conn.execute(table.insert(), some)
    with store.write() as conn:
        conn.execute(usage_meter.insert(), {"id": 1, "at": T0 + YEAR_S, "wall_s": float(T0 + YEAR_S)})
    return len(hours)


class _Row:
    """A row by its columns."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.__dict__.update(columns)


YEAR = {"since": "2026-01-01", "until": "2027-01-01"}
QUESTIONS: dict[str, UsageAsked] = {
    "a year by project and user": UsageAsked(("project", "owner"), **YEAR),
    "a year by project and month": UsageAsked(("project",), "month", **YEAR),
    "a year by project and day": UsageAsked(("project",), "day", **YEAR),
    "a year of one project and those below it, by user": UsageAsked(("owner",), project="project01", **YEAR),
    "a year of one user by day": UsageAsked(("project",), "day", owner="user042", **YEAR),
    "a year from the middle of a day, by user": UsageAsked(
        ("owner",), since="2026-01-01T13:00:00Z", until="2026-12-30T07:00:00Z"
    ),
    "one week by hour": UsageAsked(("project",), "hour", since="2026-06-01", until="2026-06-08"),
}


def timed(question: Callable[[], object], times: int) -> tuple[list[float], float]:
    """How long each took, and what the quickest used of a core: other load makes the first longer."""
    took, used = [], []
    for _ in range(times):
        began, before = time.perf_counter(), time.process_time()
        question()
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - before)
    return took, min(used)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--running", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    print(header("python -m bench.usage"))
    missed = 0
    with tempfile.TemporaryDirectory(prefix="gp-usage-") as name:
        folder = Path(name)
        looks = looked(folder, given.running, given.times * 2)
        bad = max(looks) > LOOK_S_MAX
        missed += bad
        middle = statistics.median(looks)
        print(
            f"one look at {given.running} running jobs: median {middle:.3f} s, longest {max(looks):.3f} s"
            f" (target {LOOK_S_MAX:g} s){' MISSED' if bad else ''}"
        )
        with open_store(f"sqlite:///{folder}/glidepath.db") as store:
            migrate(store)
            with_projects(store)
            count = a_year(store, given.jobs)
            print(f"a year of {given.jobs} jobs: {count} sums by the hour")
            desk = StoredDesk(Settings(), store, folder, wall=lambda: float(T0 + YEAR_S))
            for what, asked in QUESTIONS.items():
                took, used = timed(partial(desk.usage, ROOT, asked), given.times)
                bad = max(took) > QUESTION_S_MAX
                missed += bad
                middle = statistics.median(took)
                print(
                    f"{what}: first {took[0]:.3f} s, median {middle:.3f} s, {used:.3f} s of a core"
                    f" (target {QUESTION_S_MAX:g} s){' MISSED' if bad else ''}"
                )
        words = ["usage", "--since", "2026-01-01", "--until", "2027-01-01", "--home", str(folder)]
        took, _ = timed(
            lambda: subprocess.run(
                [sys.executable, "-m", "glidepath", *words], check=True, capture_output=True
            ),
            given.times,
        )
        print(
            f"`glidepath usage` of that year, its own start counted: median {statistics.median(took):.2f} s"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
