"""What `glidepath up` counted after thirty deaths is what ran on this machine, to the last millionth."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from glidepath.core.account.run import MILLIONTHS
from glidepath.core.quantity import Instant
from glidepath.journal.meter import Meter, run_of
from glidepath.store.engine import open_store
from glidepath.store.placed_rows import ranks
from glidepath.store.usage_rows import usage_days, usage_hours, usage_meter, usage_runs
from placed.accounts import submit
from placed.test_placed_whole import becomes
from whole.running import Running, until

pytestmark = pytest.mark.real
Up = Callable[..., Running]
DEATHS = 30
RUNS_S = (1, 2, 4, 8, 16, 32)
SUMS_SHOWN = ("seconds", "cpu_milli_s", "runs", "charge")
NEVER_SO_LATE = 1 << 50


def metered_at(home: Path) -> int:
    with open_store(f"sqlite:///{home}/glidepath.db", read_only=True) as store, store.read() as conn:
        return int(conn.execute(select(func.max(usage_meter.c.at))).scalar() or 0)


def test_the_ledger_is_the_sum_of_what_ran_after_thirty_deaths(home_with_books: Path, up: Up) -> None:
    """What ran is told by the keepers, which go on while glidepath is dead."""
    home, chance = home_with_books, random.Random(11)
    first = up()
    jobs = [submit(home, script=f"sleep {each}") for each in RUNS_S]
    becomes(home, jobs[0], "done")
    first.signal(signal.SIGKILL)
    first.wait_end()
    looks = {metered_at(home)}
    for _ in range(DEATHS - 1):
        running = up()
        try:
            # Long enough for some to have looked, and short enough for others not to.
            running.process.wait(chance.uniform(0.5, 4.0))
        except subprocess.TimeoutExpired:
            running.signal(signal.SIGKILL)
        running.wait_end()
        looks.add(metered_at(home))
    assert len(looks) > DEATHS // 10, "it died before it had looked even once"
    up()
    for job in jobs:
        becomes(home, job, "done")
    until(lambda: counted(home) == len(jobs), lambda: f"{counted(home)} runs are counted for good")
    with open_store(f"sqlite:///{home}/glidepath.db") as store:
        # Once more, far ahead: nothing is left to be counted.
        late = Meter(store).look(Instant(NEVER_SO_LATE), 0.0)
        with store.read() as conn:
            runs = [run_of(row) for row in conn.execute(select(usage_runs))]
            kept = conn.execute(select(func.sum(ranks.c.ended_at - ranks.c.began_at))).scalar_one()
            tables = [
                conn.execute(select(*(func.sum(table.c[name]) for name in SUMS_SHOWN))).one()
                for table in (usage_hours, usage_days)
            ]
    ran = sum(run.ended_at - run.began_at for run in runs if run.ended_at is not None)
    assert (late.charge, late.refund) == (0, 0)
    assert [tuple(row) for row in tables] == [(ran, 1000 * ran, len(jobs), ran * MILLIONTHS)] * 2
    # Each life reads the times of keepers to the second, so that an end may be told by another one's second.
    assert abs(ran - kept) <= len(jobs)


def counted(home: Path) -> int:
    with open_store(f"sqlite:///{home}/glidepath.db", read_only=True) as store, store.read() as conn:
        done = select(func.count()).select_from(usage_runs).where(usage_runs.c.counted == 2)
        return int(conn.execute(done).scalar_one())
