"""What is over for long goes, a little at a time, and nothing that somebody may still need."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sqlalchemy import func, select, update

from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Queue
from glidepath.store.engine import Store, StoreError
from glidepath.store.events import event_row
from glidepath.store.job import JobSpec, JobState
from glidepath.store.job_rows import attempts, jobs
from glidepath.store.jobs import JobStore
from glidepath.store.placed import PlacedStore
from glidepath.store.placed_rows import client_keys, events, placed, ranks, schedule_cycles
from glidepath.store.placed_spec import PlacedSpec
from glidepath.store.sweep import JOBS_MAX, ROWS_MAX, Sweep

DAY = 86400.0
SPEC = JobSpec("here", "ada", ("true",))


@dataclass
class Time:
    at: float = 1000 * DAY

    def now(self) -> Instant:
        return Instant(int(self.at))

    def wall(self) -> float:
        return self.at


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def kept(store: Store, time: Time) -> PlacedStore:
    return PlacedStore(store, time)


def over(kept: PlacedStore, *, key: str = "", beside: int | None = None) -> int:
    """A placed job that has just ended, with a rank and an attempt."""
    job = kept.submit(PlacedSpec(SPEC, Queue.BATCH, beside=beside), key=key).job
    kept.cancel(job)
    row = {
        "job": job,
        "attempt": 1,
        "rank": 0,
        "node": "n",
        "host": "",
        "state": "over",
        "cause": "",
        "why": "",
    }
    with kept._store.write() as conn:
        conn.execute(ranks.insert(), row)
        conn.execute(attempts.insert(), {"job": job, "attempt": 1, "pilot": "", "started_wall": 1.0})
    return job


def there(store: Store) -> dict[str, int]:
    with store.read() as conn:
        return {
            table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (jobs, placed, ranks, events, attempts, client_keys)
        }


def swept(store: Store, time: Time, *, days: float = 90, keys_days: float = 7) -> int:
    """All of it, step by step; how many jobs went."""
    sweep, above, gone = Sweep(store), 0, 0
    while sweep.keys(time.at - keys_days * DAY):
        pass
    for _ in range(1000):
        count, more = sweep.jobs(time.at - days * DAY, keys_wall_s=time.at - keys_days * DAY, above=above)
        gone += count
        if more is None:
            return gone
        above = more
    raise AssertionError("the sweep does not end")


def test_a_job_that_is_over_for_long_goes_with_all_that_belongs_to_it(
    store: Store, kept: PlacedStore, time: Time
) -> None:
    over(kept, key="k")
    time.at += 90 * DAY
    assert swept(store, time) == 0, "not before its time"
    time.at += 1
    assert swept(store, time) == 1
    assert set(there(store).values()) == {0}
    assert kept.submit(PlacedSpec(SPEC, Queue.BATCH)).job == 2, "a number is never given out twice"


@pytest.mark.parametrize(
    "state", [state for state in JobState if state.value in ("queued", "running", "cancelling")]
)
def test_what_is_not_over_stays_however_old(
    store: Store, kept: PlacedStore, time: Time, state: JobState
) -> None:
    job = kept.submit(PlacedSpec(SPEC, Queue.BATCH), key="k").job
    with store.write() as conn:
        conn.execute(update(jobs).where(jobs.c.id == job).values(state=state.value, ended_wall=1.0))
    before = there(store)
    time.at += 1000 * DAY
    assert swept(store, time) == 0
    assert there(store) == before, "its key stays as well"


def test_what_an_open_job_is_beside_of_stays_until_that_is_over(
    store: Store, kept: PlacedStore, time: Time
) -> None:
    first, other = over(kept), over(kept)
    follower = kept.submit(PlacedSpec(SPEC, Queue.BATCH, beside=first)).job
    time.at += 100 * DAY
    assert swept(store, time) == 1
    assert kept.find(other) is None
    assert kept.get(first).id == first
    kept.cancel(follower)
    assert swept(store, time) == 1
    assert kept.find(first) is None


def test_a_client_key_is_known_for_its_time_and_then_makes_a_new_job(
    store: Store, kept: PlacedStore, time: Time
) -> None:
    spec = PlacedSpec(SPEC, Queue.BATCH)
    first = over(kept, key="k")
    time.at += 7 * DAY
    swept(store, time)
    assert kept.submit(spec, key="k").job == first
    time.at += 1
    swept(store, time)
    again = kept.submit(spec, key="k")
    assert (again.job, again.new) == (first + 1, True)
    assert kept.get(first).stands == "cancelled", "the job is kept for longer than its key"


def test_a_job_whose_key_may_be_sent_again_is_not_removed(
    store: Store, kept: PlacedStore, time: Time
) -> None:
    first = over(kept, key="k")
    time.at += 8 * DAY
    assert swept(store, time, days=5, keys_days=10) == 0
    assert kept.submit(PlacedSpec(SPEC, Queue.BATCH), key="k").job == first


def test_jobs_of_pilots_go_as_well(store: Store, time: Time) -> None:
    pulled = JobStore(store, time)
    numbers = pulled.submit_many([SPEC] * 2)
    pulled.cancel(numbers[0])
    time.at += 91 * DAY
    assert swept(store, time) == 1
    assert [job.id for job in pulled.list()] == numbers[1:]


def test_a_step_removes_only_so_much(store: Store, kept: PlacedStore, time: Time) -> None:
    many = [over(kept) for _ in range(3)]
    said = [event_row(many[1], 1, time.at, ("note", f"{at}")) for at in range(2 * ROWS_MAX)]
    with store.write() as conn:
        conn.execute(events.insert(), said)
    rows = there(store)["job_events"]
    time.at += 91 * DAY
    sweep = Sweep(store)
    assert sweep.jobs(time.at - 90 * DAY, keys_wall_s=time.at, above=0) == (0, 0)
    assert there(store)["job_events"] == rows - ROWS_MAX
    assert kept.get(many[0]).id == many[0], "a job goes after its last event"
    assert swept(store, time) == 3
    pulled = JobStore(store, time)
    for number in pulled.submit_many([SPEC] * (JOBS_MAX + 1)):
        pulled.cancel(number)
    time.at += 91 * DAY
    count, above = sweep.jobs(time.at - 90 * DAY, keys_wall_s=time.at, above=0)
    assert (count, above) == (JOBS_MAX, max(many) + JOBS_MAX)


def test_plans_go_with_the_journal(store: Store, time: Time) -> None:
    row = {"at": 1, "actions": 0, "body": b"", "outcomes": None}
    with store.write() as conn:
        walls = [1 * DAY, 2 * DAY, 3 * DAY]
        conn.execute(
            schedule_cycles.insert(),
            [{**row, "cycle": at + 7, "wall_s": wall} for at, wall in enumerate(walls)],
        )
    sweep = Sweep(store)
    assert [sweep.plans(2.5 * DAY), sweep.plans(2.5 * DAY)] == [2, 0]
    with store.read() as conn:
        assert conn.execute(select(schedule_cycles.c.cycle)).scalars().all() == [9]


def test_whoever_owns_the_store_no_more_removes_nothing(store: Store, kept: PlacedStore, time: Time) -> None:
    def lost(connection: object) -> None:
        raise StoreError("not ours")

    over(kept, key="k")
    before = there(store)
    sweep = Sweep(store, hold=lost)
    steps = (
        lambda: sweep.keys(time.at + 1),
        lambda: sweep.jobs(time.at + 1, keys_wall_s=time.at + 1),
        lambda: sweep.plans(time.at + 1),
    )
    for step in steps:
        with pytest.raises(StoreError):
            step()
    assert there(store) == before


def test_a_job_is_due_by_its_end_and_not_by_its_submission(
    store: Store, kept: PlacedStore, time: Time
) -> None:
    waited = kept.submit(PlacedSpec(SPEC, Queue.BATCH)).job
    time.at += 89 * DAY
    kept.cancel(waited)
    time.at += 89 * DAY
    assert Sweep(store).over_before([waited, 99], time.at - 90 * DAY) == frozenset()
    assert Sweep(store).over_before([waited, 99], time.at - 80 * DAY) == {waited}
    assert swept(store, time) == 0
