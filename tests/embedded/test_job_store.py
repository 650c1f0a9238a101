"""The job store on both databases: claims in order, ends once, losses bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.postgres import Server, postgres

from glidepath.core.quantity import Instant, Resources, Traits
from glidepath.store.engine import Store, open_store
from glidepath.store.job import NEXT, Ask, ExitRecord, How, JobSpec, JobState, QueueGroup
from glidepath.store.jobs import JobStore
from glidepath.store.migrations import migrate
from glidepath.store.sights import Eyes, Sights

ONE = Resources(1000, 512)
SPEC = JobSpec("here", "ada", ("true",), request=ONE)
ROOM = Ask("p1", ("here",), Resources(4000, 4096), left_s=3600, count_max=10)


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.at = 1000

    def now(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> float:
        return 1_700_000_000.0 + self.at


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        with open_store(f"sqlite:///{tmp_path}/glidepath.db") as opened:
            migrate(opened)
            yield opened
        return
    with request.getfixturevalue("server").database() as url, open_store(url) as opened:
        migrate(opened)
        yield opened


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def jobs(store: Store, clock: SetClock) -> JobStore:
    return JobStore(store, clock)


def exited(job: int, attempt: int = 1, code: int = 0, pilot: str = "p1") -> ExitRecord:
    return ExitRecord(job, attempt, pilot, How.EXITED, code, ended_wall=5.0)


def test_what_is_submitted_comes_back_verbatim(jobs: JobStore) -> None:
    spec = replace(
        SPEC,
        name='"; DROP TABLE jobs; --',
        owner="O'Brien é",
        command=("sh", "-c", 'echo "x"\n$(y) \u202e'),
        env=(("A", "b\nc"),),
        traits=(("os", "linux"),),
        run_s_max=60,
        retries_max=0,
    )
    ids = jobs.submit_many([SPEC, spec])
    job = jobs.get(ids[1])
    assert (job.spec, job.state, job.attempt, job.submitted_at) == (spec, JobState.QUEUED, 0, 1000)
    assert jobs.submit_many([]) == []


def test_a_job_that_is_not_there_is_a_lookup_error(jobs: JobStore) -> None:
    for ask in (jobs.get, jobs.cancel):
        with pytest.raises(LookupError, match="there is no job 99"):
            ask(99)


def test_claims_are_oldest_first_and_never_more_than_fit(jobs: JobStore) -> None:
    big = replace(SPEC, request=Resources(3000, 512))
    ids = jobs.submit_many([SPEC, SPEC, big, SPEC])
    first = jobs.claim(ROOM)
    assert [job.id for job in first] == [ids[0], ids[1], ids[3]]
    assert {(job.state, job.attempt, job.pilot) for job in first} == {(JobState.RUNNING, 1, "p1")}
    assert [job.id for job in jobs.claim(replace(ROOM, pilot="p2"))] == [ids[2]]
    assert jobs.claim(ROOM) == []


@pytest.mark.parametrize(
    ("spec", "ask"),
    [
        (replace(SPEC, run_s_max=7200), ROOM),
        (replace(SPEC, traits=(("os", "plan9"),)), ROOM),
        (replace(SPEC, traits=(("os", "plan9"),)), replace(ROOM, traits=(("os", "linux"),))),
        (replace(SPEC, partition="there"), ROOM),
        (replace(SPEC, request=Resources(1000, 512, 0, 1)), ROOM),
        (replace(SPEC, request=Resources(1000, 512, 10, 0)), ROOM),
        (replace(SPEC, request=Resources(1000, 5000)), ROOM),
        (SPEC, replace(ROOM, count_max=0)),
    ],
)
def test_what_does_not_fit_is_not_claimed(jobs: JobStore, spec: JobSpec, ask: Ask) -> None:
    jobs.submit(spec)
    assert jobs.claim(ask) == []


def test_a_crowd_of_jobs_that_fit_nobody_does_not_hide_those_that_do(jobs: JobStore) -> None:
    wishes: list[Traits] = [(("site", f"s{n}"),) for n in range(30)]
    jobs.submit_many([replace(SPEC, traits=wish) for wish in wishes for _ in range(20)])
    last = jobs.submit(replace(SPEC, traits=(("gpu", "a100"), ("os", "linux"))))
    ask = replace(ROOM, traits=(("gpu", "a100"), ("os", "linux"), ("x", "y")))
    assert [job.id for job in jobs.claim(ask)] == [last]


def test_an_end_is_taken_down_once(jobs: JobStore) -> None:
    job = jobs.submit(SPEC)
    jobs.claim(ROOM)
    assert jobs.finish([exited(job)]) == [job]
    assert jobs.finish([exited(job), exited(job, code=7)]) == []
    ended = jobs.get(job)
    assert (ended.state, ended.exit_code, ended.ended_wall) == (JobState.DONE, 0, 5.0)
    assert jobs.claim(ROOM) == []


@pytest.mark.parametrize("record", [exited(1, attempt=2), exited(1, pilot="p2"), exited(2)])
def test_an_end_of_another_attempt_pilot_or_job_changes_nothing(jobs: JobStore, record: ExitRecord) -> None:
    jobs.submit(SPEC)
    jobs.claim(ROOM)
    assert jobs.finish([record]) == []
    assert jobs.get(1).state is JobState.RUNNING


def test_a_job_found_to_be_finished_after_it_was_given_up_does_not_run_again(jobs: JobStore) -> None:
    job = jobs.submit(SPEC)
    jobs.claim(ROOM)
    jobs.lost("p1", "it died")
    assert jobs.finish([exited(job)]) == [job]
    assert (jobs.get(job).state, jobs.claim(ROOM)) == (JobState.DONE, [])


def test_whoever_follows_a_job_reads_what_became_of_it_once(jobs: JobStore, store: Store) -> None:
    """A repeated word of a pilot changes nothing, and tells nothing."""

    def said(job: int) -> list[tuple[int, str, str]]:
        found = Sights(store).events(Eyes(), job=job)
        return [(event.attempt, event.kind, event.text) for event in found]

    runs, waits = jobs.submit_many([replace(SPEC, retries_max=1), replace(SPEC, partition="elsewhere")])
    assert said(runs) == [], "whoever submitted it knows that"
    jobs.claim(ROOM)
    jobs.give_back("p1", [(runs, 1)])
    jobs.give_back("p1", [(runs, 1)])
    jobs.claim(ROOM)
    jobs.lost("p1", "its pilot fell silent")
    jobs.claim(ROOM)
    over = ExitRecord(runs, 3, "p1", How.EXITED, 0)
    jobs.finish([over])
    jobs.finish([over])
    assert said(runs) == [
        (1, "began", "taken by the pilot p1"),
        (1, "waits again", "its pilot gave it back"),
        (2, "began", "taken by the pilot p1"),
        (2, "waits again", "attempt 2 was lost: its pilot fell silent"),
        (3, "began", "taken by the pilot p1"),
        (3, "done", "it ended with exit code 0"),
    ]
    jobs.cancel(waits)
    jobs.cancel(waits)
    assert said(waits) == [(0, "cancelled", "cancelled by a user")]


def test_a_job_given_back_waits_again_and_nothing_is_counted(jobs: JobStore) -> None:
    job = jobs.submit(replace(SPEC, retries_max=0))
    for attempt in (1, 2, 3):
        assert [one.attempt for one in jobs.claim(ROOM)] == [attempt]
        assert jobs.give_back("p1", [(job, attempt)]) == [job]
    assert (jobs.get(job).state, jobs.get(job).losses) == (JobState.QUEUED, 0)


@pytest.mark.parametrize("retries_max", [0, 2])
def test_losses_are_retried_so_often_and_then_fail_with_their_reason(
    jobs: JobStore, retries_max: int
) -> None:
    job = jobs.submit(replace(SPEC, retries_max=retries_max))
    for _ in range(retries_max + 1):
        assert jobs.claim(ROOM)
        assert jobs.lost("p1", "it died") == [job]
    ended = jobs.get(job)
    assert ended.state is JobState.FAILED
    assert ended.reason == f"lost {retries_max + 1} times, the last: it died; retries_max is {retries_max}"
    assert {one.how for one in jobs.attempts(job)} == {How.LOST}
    assert jobs.lost("p1", "it died") == []


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("exited", JobState.DONE),
        ("cancelled", JobState.CANCELLED),
        ("given back", JobState.CANCELLED),
        ("lost", JobState.CANCELLED),
    ],
)
def test_a_job_being_cancelled_never_waits_again(jobs: JobStore, end: str, expected: JobState) -> None:
    job = jobs.submit(SPEC)
    jobs.claim(ROOM)
    assert jobs.cancel(job) is JobState.CANCELLING
    assert jobs.cancel(job) is JobState.CANCELLING
    if end == "lost":
        jobs.lost("p1", "it died")
    elif end == "given back":
        jobs.give_back("p1", [(job, 1)])
    else:
        jobs.finish([exited(job) if end == "exited" else replace(exited(job), how=How.CANCELLED)])
    assert jobs.get(job).state is expected
    assert jobs.cancel(job) is expected


def test_lists_filter_and_give_the_newest(jobs: JobStore) -> None:
    ids = jobs.submit_many([SPEC, replace(SPEC, owner="bob"), replace(SPEC, partition="there"), SPEC])
    jobs.cancel(ids[0])
    assert [job.id for job in jobs.list(limit=2)] == ids[2:]
    assert [job.id for job in jobs.list(owner="bob")] == [ids[1]]
    assert [job.id for job in jobs.list(partition="here", states=[JobState.QUEUED])] == [ids[1], ids[3]]
    assert jobs.queue_depth("here") == 2
    assert jobs.counts() == {JobState.QUEUED: 3, JobState.CANCELLED: 1}


def test_demand_is_counted_by_shape_owner_and_state(jobs: JobStore, clock: SetClock) -> None:
    jobs.submit_many([SPEC, SPEC])
    clock.at = 1050
    jobs.submit_many([SPEC, replace(SPEC, owner="bob", run_s_max=60), replace(SPEC, partition="there")])
    jobs.claim(replace(ROOM, count_max=1))
    jobs.cancel(1)  # What is being cancelled still takes its place.
    found = sorted(jobs.demand("here"), key=lambda group: (group.owner, group.running))
    assert found == [
        QueueGroup(ONE, (), None, "ada", False, 2, Instant(1000)),
        QueueGroup(ONE, (), None, "ada", True, 1, Instant(1000)),
        QueueGroup(ONE, (), 60, "bob", False, 1, Instant(1050)),
    ]


STEPS = st.lists(
    st.sampled_from(["claim", "done", "fail", "give back", "lose", "cancel", "repeat"]), max_size=12
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, retries_max=st.integers(0, 2))
def test_whatever_happens_a_job_moves_only_along_its_states_and_is_over_once(
    jobs: JobStore, steps: list[str], retries_max: int
) -> None:
    job = jobs.submit(replace(SPEC, partition="walk", retries_max=retries_max))
    before = JobState.QUEUED
    for step in steps:
        attempt = jobs.get(job).attempt
        if step == "claim":
            jobs.claim(replace(ROOM, partitions=("walk",)))
        elif step in ("done", "fail"):
            jobs.finish([exited(job, attempt, int(step == "fail"))])
        elif step == "repeat":
            jobs.finish([exited(job, max(0, attempt - 1))])
        elif step == "give back":
            jobs.give_back("p1", [(job, attempt)])
        elif step == "lose":
            jobs.lost("p1", "it died")
        else:
            jobs.cancel(job)
        found = jobs.get(job)
        assert found.state is before or found.state in NEXT[before]
        assert found.losses <= retries_max + 1
        before = found.state
    jobs.lost("p1", "the end of the test")
    jobs.cancel(job)
