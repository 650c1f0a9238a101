"""The ledger is what ran, to the second and the millionth: after deaths, late ends and lost nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from glidepath.core.account.run import MILLIONTHS, Rates
from glidepath.core.cycle import Outcome
from glidepath.core.place.rank import Cause, RankSet, SetKey, split_key
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Node
from glidepath.journal.meter import Meter, run_of
from glidepath.store.people import PeopleStore, Project
from glidepath.store.usage_rows import allocations, usage_hours, usage_runs
from placing.placing_world import T0, Killed, MemoryCluster, Mortal, PlacingWorld, Task, Time

RATES = Rates(cpu=MILLIONTHS, memory=7)
DEATHS = 30
GRANT = {
    "project": "physics",
    "starts_at": 0,
    "ends_at": T0 * 2,
    "drawn": 0,
    "note": "",
    "by": "root",
    "made_wall_s": 0.0,
}


class Remembering(MemoryCluster):
    """Keeps what really ran."""

    def __init__(self, time: Time, nodes: tuple[Node, ...]) -> None:
        super().__init__(time, nodes)
        self.ran: dict[SetKey, Task] = {}

    def start(self, ranks: RankSet) -> Outcome:
        outcome = super().start(ranks)
        if ranks.key in self.tasks:
            self.ran[ranks.key] = self.tasks[ranks.key]
        return outcome

    def span_s(self, key: SetKey) -> int:
        task = self.ran[key]
        if task.began_at is None:
            return 0
        return max(end for end, _, _ in task.ends.values()) - task.began_at


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path, nodes=4, rates=RATES)
    made.cluster = Remembering(made.time, tuple(made.cluster.node.values()))
    made.live()
    yield made
    made.close()


def sums(world: PlacingWorld) -> dict[str, int]:
    names = ("seconds", "cpu_milli_s", "charge", "refund", "runs")
    with world.store.read() as conn:
        row = conn.execute(select(*(func.coalesce(func.sum(usage_hours.c[n]), 0) for n in names))).one()
    return dict(zip(names, map(int, row), strict=True))


def runs_total(world: PlacingWorld, at: int) -> int:
    with world.store.read() as conn:
        runs = [run_of(row) for row in conn.execute(select(usage_runs))]
    return sum(run.total(run.until(Instant(at))) for run in runs)


@pytest.mark.parametrize("seed", range(4))
def test_the_ledger_is_the_sum_of_what_ran_after_thirty_deaths(world: PlacingWorld, seed: int) -> None:
    chance = random.Random(seed)
    cluster = world.cluster
    assert isinstance(cluster, Remembering)
    for at in range(24):
        job = world.submit(cpus=chance.randint(1, 4), nodes=chance.choice((1, 1, 1, 2)))
        cluster.runs_s[job] = chance.choice((0, 3, 40, 500, 4000))
        assert at + 1 == job
    meter, deaths = Meter(world.store), 0
    for _ in range(2000):
        if deaths < DEATHS:
            world.live(Mortal(chance.randint(1, 40)))
        try:
            for _ in range(6):
                world.turn(after_s=chance.choice((1, 7, 60, 400)))
                if chance.random() < 0.05:
                    victim = chance.choice(sorted(cluster.tasks) or [SetKey("none")])
                    cluster.end(victim, Cause.NODE_LOST, rank=0)
                if chance.random() < 0.5:
                    meter.look(Instant(world.time.at + chance.choice((0, 0, -30, 200))), world.time.wall())
        except Killed:
            deaths += 1
            world.live()
        if deaths == DEATHS and all(world.stands(job) in ("done", "failed") for job in range(1, 25)):
            break
    else:
        raise AssertionError("the jobs did not end")
    world.turns(3)
    # A look ahead of the clock counts what is not over yet; those behind it take it back.
    meter.look(Instant(world.time.at + 1000), world.time.wall())
    found = sums(world)
    seconds = {key: cluster.span_s(key) for key in cluster.ran}
    assert found["seconds"] == sum(seconds.values())
    specs = {key: world.job(split_key(key)[0]).spec for key in seconds}
    cpus = {key: spec.job.request.cpu_milli * spec.nodes for key, spec in specs.items()}
    assert found["cpu_milli_s"] == sum(cpus[key] * seconds[key] for key in seconds)
    assert found["charge"] == runs_total(world, world.time.at + 1000)
    assert found["runs"] == sum(cluster.ran[key].began_at is not None for key in cluster.ran)
    causes = {key: {cause for _, cause, _ in task.ends.values()} for key, task in cluster.ran.items()}
    lost = any(seconds[key] for key in causes if Cause.NODE_LOST in causes[key])
    assert (found["refund"] > 0) == lost


def test_an_attempt_lost_with_its_node_costs_nothing_and_the_next_one_is_paid(world: PlacingWorld) -> None:
    people = PeopleStore(world.store)
    people.add_project(Project("physics", "root", float(T0)))
    with world.store.write() as conn:
        conn.execute(allocations.insert(), {**GRANT, "granted": 10 * MILLIONTHS})
    job = world.submit(cpus=1, project="physics")
    world.cluster.runs_s[job] = 3600
    meter = Meter(world.store)
    world.turns(3)
    world.turn(after_s=1800)
    assert meter.look(Instant(world.time.at), 0.0).charge > 0
    before = drawn(world)
    world.cluster.lose(world.job(job).record.places[0].node)
    world.until_over(job, after_s=60)
    looked = meter.look(Instant(world.time.at), 0.0)
    found = sums(world)
    assert before > 0
    assert looked.refund == found["refund"] > 0
    # What is left to pay is the attempt that ran to its end.
    paid = never_lost(world)
    assert found["charge"] - found["refund"] == paid == drawn(world)
    assert split_key(next(iter(world.cluster.begun)))[0] == job


def never_lost(world: PlacingWorld) -> int:
    with world.store.read() as conn:
        rows = conn.execute(select(usage_runs).where(usage_runs.c.refund == 0)).all()
    return sum(run_of(row).total(Instant(row.ended_at)) for row in rows)


def drawn(world: PlacingWorld) -> int:
    with world.store.read() as conn:
        return int(conn.execute(select(allocations.c.drawn)).scalar_one())


def test_an_end_that_is_told_late_is_taken_back_from_hours_and_purse(world: PlacingWorld) -> None:
    job = world.submit(cpus=2)
    world.cluster.runs_s[job] = 100
    world.turns(3)
    [task] = world.cluster.tasks.values()
    assert task.began_at is not None
    began = task.began_at
    meter = Meter(world.store)
    meter.look(Instant(began + 5000), 0.0)
    assert sums(world)["seconds"] == 5000
    world.turn(after_s=6000)
    world.turns(2)
    meter.look(Instant(world.time.at), 0.0)
    assert sums(world)["seconds"] == 100


def test_looking_twice_changes_nothing(world: PlacingWorld) -> None:
    world.submit(cpus=1)
    world.turns(3, after_s=10)
    meter = Meter(world.store)
    meter.look(Instant(world.time.at), 0.0)
    before = sums(world)
    again = meter.look(Instant(world.time.at), 0.0)
    back = meter.look(Instant(world.time.at - 50), 0.0)
    assert (again.charge, back.charge, sums(world)) == (0, 0, before)


def test_a_project_that_spent_all_is_dry_once_and_not_when_it_gets_more(world: PlacingWorld) -> None:
    people = PeopleStore(world.store)
    people.add_project(Project("physics", "root", float(T0)))
    with world.store.write() as conn:
        conn.execute(allocations.insert(), {**GRANT, "granted": 1000})
    job = world.submit(cpus=1, project="physics")
    world.cluster.runs_s[job] = 100_000
    meter = Meter(world.store)
    world.turns(3, after_s=60)
    first = meter.look(Instant(world.time.at), 0.0)
    second = meter.look(Instant(world.time.at), 0.0)
    with world.store.write() as conn:
        conn.execute(allocations.insert(), {**GRANT, "granted": 10**9})
    third = meter.look(Instant(world.time.at), 0.0)
    told = [(one.dry, one.fresh) for one in (first, second, third)]
    assert told == [(("physics",), ("physics",)), (("physics",), ()), ((), ())]
