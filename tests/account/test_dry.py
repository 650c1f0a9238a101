"""A project that runs dry: nothing of it begins, what runs is told and then stopped; more lets it go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from glidepath.config import Settings, cluster_own
from glidepath.core.account.right import VolumeRule
from glidepath.core.account.run import MILLIONTHS
from glidepath.core.place.accounts import Terms
from glidepath.core.place.rank import ClusterName, Volume
from glidepath.core.place.turn import Rules
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Partition, PartitionName, Queue
from glidepath.journal.meter import Looked, Meter
from glidepath.placement import volumes_of
from glidepath.store.people import PeopleStore, Project
from glidepath.store.wallets import Grant, WalletStore
from placing.placing_world import T0, PlacingWorld

HOUR_S = 3600
WARNING_S = 600
SPENT = "the project `physics` has nothing left to spend: "


class Paying(PlacingWorld):
    """A world whose projects have wallets; the meter looks when a test says so."""

    def __init__(self, folder: Path, *, terms: Terms | None = None) -> None:
        super().__init__(folder, nodes=4, terms=terms or Terms(grace_s=WARNING_S))
        self.meter, self.wallets = Meter(self.store), WalletStore(self.store)
        self.people = PeopleStore(self.store)
        for name in ("science", "physics", "biology"):
            self.people.add_project(Project(name, "root", float(T0)))

    def look(self) -> Looked:
        return self.meter.look(self.time.now(), self.time.wall())

    def grant(self, project: str, credits: float, *, lasts_s: int = 1000 * HOUR_S) -> None:
        now = self.time.now()
        ends_at = Instant(now + lasts_s)
        amount = round(credits * MILLIONTHS)
        self.wallets.grant(Grant(project, amount, now, ends_at, "root"), wall=self.time.wall())

    def goes_on(self, seconds: int, *, step_s: int = 60) -> None:
        for _ in range(seconds // step_s):
            self.turn(after_s=step_s)
            self.look()

    def why(self, job: int) -> str:
        return self.job(job).job.reason

    def runs(self, project: str, *, hours: int = 10, **own: object) -> int:
        job = self.submit(project=project, **{"cpus": 1, "run_s_max": 20 * HOUR_S, **own})
        self.cluster.runs_s[job] = hours * HOUR_S
        return job


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Paying]:
    made = Paying(tmp_path)
    yield made
    made.close()


def texts(world: PlacingWorld, job: int, kind: str) -> list[str]:
    return [event.text for event in world.jobs.events(job=job) if event.kind == kind]


def test_a_project_that_runs_dry_in_the_middle_of_a_job_is_told_and_then_stopped(world: Paying) -> None:
    world.grant("physics", 1)
    job, other = world.runs("physics"), world.runs("biology")
    world.turns(3)
    world.goes_on(HOUR_S - 120)
    assert (world.stands(job), texts(world, job, "notice")) == ("running", [])
    world.goes_on(240)
    [told] = texts(world, job, "notice")
    assert told.startswith(SPENT)
    # Counted from the look that found it, a turn before.
    assert told.endswith("it is stopped in 9m unless more is granted")
    world.goes_on(WARNING_S + 240)
    assert (world.stands(job), world.stands(other)) == ("failed", "running")
    assert world.why(job).startswith(SPENT)
    assert len(texts(world, job, "notice")) == 1


def test_more_before_the_time_is_up_lets_it_go_on(world: Paying) -> None:
    world.grant("physics", 1)
    job = world.runs("physics")
    world.turns(3)
    world.goes_on(HOUR_S + 120)
    assert len(texts(world, job, "notice")) == 1
    world.grant("physics", 100)
    world.goes_on(WARNING_S + 240)
    assert world.stands(job) == "running"


@pytest.mark.parametrize("queue", Queue)
def test_what_waits_does_not_begin_is_promised_nothing_and_begins_with_more(
    world: Paying, queue: Queue
) -> None:
    world.grant("physics", 0.01)
    first = world.runs("physics", hours=1)
    world.turns(3)
    world.goes_on(120)
    job, other = world.runs("physics", queue=queue), world.runs("biology", queue=queue)
    world.turns(3)
    assert (world.stands(job), world.stands(other)) == ("queued", "running")
    assert world.job(job).promise is None
    world.grant("physics", 100)
    world.turns(3)
    assert (world.stands(job), world.stands(first)) == ("running", "running")


def test_who_starts_beside_one_that_may_not_begin_waits_with_it_and_is_not_refused(world: Paying) -> None:
    world.grant("physics", 0.01)
    world.runs("physics", hours=1)
    world.turns(3)
    world.goes_on(120)
    lead = world.runs("physics")
    beside = world.runs("biology", beside=lead)
    world.turns(3)
    assert (world.stands(lead), world.stands(beside)) == ("queued", "queued")
    world.grant("physics", 100)
    world.turns(3)
    assert (world.stands(lead), world.stands(beside)) == ("running", "running")


def test_a_level_above_that_is_dry_stops_those_below_and_not_their_siblings_elsewhere(world: Paying) -> None:
    world.wallets.set("physics", parent="science", weight=None)
    world.grant("science", 1)
    world.grant("physics", 100)
    job, other = world.runs("physics"), world.runs("biology")
    world.turns(3)
    world.goes_on(HOUR_S + WARNING_S + 360)
    assert (world.stands(job), world.stands(other)) == ("failed", "running")
    assert world.why(job).startswith(
        "the project `science`, which `physics` draws from, has nothing left to spend: 1"
    )


def test_where_the_policy_is_to_go_on_nothing_is_stopped_and_nothing_begins(tmp_path: Path) -> None:
    world = Paying(tmp_path, terms=Terms(grace_s=WARNING_S, stops=False))
    world.grant("physics", 0.01)
    job = world.runs("physics", hours=3)
    world.turns(3)
    world.goes_on(2 * HOUR_S)
    waits = world.runs("physics")
    world.turns(3)
    assert (world.stands(job), world.stands(waits), texts(world, job, "notice")) == ("running", "queued", [])
    world.close()


def test_jobs_of_a_project_that_is_closed_end_with_that_reason(world: Paying) -> None:
    job = world.runs("physics")
    world.turns(3)
    world.people.close_project("physics", wall=world.time.wall())
    waits = world.runs("physics")
    world.turns(4)
    assert (world.stands(job), world.stands(waits)) == ("failed", "queued")
    assert world.why(job) == "the project `physics` is closed"


def test_an_allocation_that_ends_is_told_at_the_next_look(world: Paying) -> None:
    world.grant("physics", 100, lasts_s=HOUR_S)
    job = world.runs("physics")
    world.turns(3)
    world.goes_on(HOUR_S - 120)
    assert texts(world, job, "notice") == []
    world.turn(after_s=180)
    assert (world.stands(job), texts(world, job, "notice")) == ("running", [])
    world.look()
    world.turn(after_s=1)
    assert len(texts(world, job, "notice")) == 1
    world.goes_on(WARNING_S + 120)
    assert world.stands(job) == "failed"


def test_a_scheduler_that_dies_in_between_stops_it_at_the_same_moment(world: Paying) -> None:
    world.grant("physics", 1)
    job = world.runs("physics")
    world.turns(3)
    world.goes_on(HOUR_S + 120)
    world.live()
    world.goes_on(WARNING_S - 240)
    assert world.stands(job) == "running"
    world.live()
    world.goes_on(360)
    assert world.stands(job) == "failed"


def test_a_job_whose_volume_is_withdrawn_is_stopped_with_that_reason_and_no_other(tmp_path: Path) -> None:
    parts = (Partition(PartitionName("here"), ()),)
    rules = Rules(ClusterName("lab"), parts, volumes={"data": VolumeRule(projects=frozenset({"physics"}))})
    world = PlacingWorld(tmp_path, nodes=4, rules=rules)
    volumes = (Volume("data", "/data"),)
    mounts, plain = (world.submit(project="physics", volumes=each) for each in (volumes, ()))
    for job in (mounts, plain):
        world.cluster.runs_s[job] = 3000
    world.turns(3, after_s=30)
    assert (world.stands(mounts), world.stands(plain)) == ("running", "running")
    world.rules = replace(rules, volumes={"data": VolumeRule(projects=frozenset({"biology"}))})
    world.live()
    world.turns(4)
    assert (world.stands(mounts), world.stands(plain)) == ("failed", "running")
    assert world.job(mounts).job.reason == "the volume `data` is not for `ada` any more"
    world.close()


def test_the_volumes_of_a_cluster_are_for_the_projects_that_its_settings_name() -> None:
    table = {
        "kind": "kubernetes",
        "kubernetes": {"volumes": {"data": {"claim": "c", "projects": ["physics"]}, "all": {"claim": "d"}}},
    }
    own = cluster_own(Settings.model_validate({"clusters": {"lab": table}}).clusters["lab"])
    assert volumes_of(own) == {
        "data": VolumeRule(projects=frozenset({"physics"})),
        "all": VolumeRule(),
    }
    assert volumes_of({}) is None
