"""Whoever used less goes first in the batch queue, by what was counted, and by the weight of projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from glidepath.core.account.run import HOUR_S, MILLIONTHS
from glidepath.core.place.accounts import Terms
from glidepath.core.place.rank import ClusterName
from glidepath.core.place.turn import Rules
from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.cluster import Partition, PartitionName, ProjectName, Queue
from glidepath.core.schedule.job import Book, Share, Used
from glidepath.journal.meter import Meter
from glidepath.journal.rights import read_accounts, read_used
from glidepath.store.people import PeopleStore, Project
from glidepath.store.usage_rows import usage_days
from glidepath.store.wallets import WalletStore
from placing.placing_world import T0, PlacingWorld

DAY_S = 86400


@pytest.fixture(params=[True, False], ids=["fair", "not fair"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlacingWorld]:
    fair = bool(request.param)
    rules = Rules(ClusterName("lab"), (Partition(PartitionName("here"), ()),), Book(fair=fair))
    made = PlacingWorld(tmp_path, nodes=1, rules=rules, terms=Terms(fair=fair))
    people = PeopleStore(made.store)
    for name in ("physics", "biology"):
        people.add_project(Project(name, "root", float(T0)))
    yield made
    made.close()


def began(world: PlacingWorld) -> list[int]:
    return [int(key.split(".")[0]) for key in world.cluster.begun]


def test_who_used_less_goes_first(world: PlacingWorld) -> None:
    first = world.submit(owner="ada", project="physics", cpus=4, queue=Queue.BATCH)
    world.cluster.runs_s[first] = 1800
    world.turns(3)
    hers = [world.submit(owner="ada", project="physics", cpus=4, queue=Queue.BATCH) for _ in range(2)]
    his = world.submit(owner="bob", project="biology", cpus=4, queue=Queue.BATCH)
    world.turn(after_s=1000)
    Meter(world.store).look(world.time.now(), world.time.wall())
    world.until_over(first, *hers, his)
    expected = [first, his, *hers] if world.rules.book.fair else [first, *hers, his]
    assert began(world) == expected


def test_what_was_used_fades_and_refunds_are_taken_off(world: PlacingWorld) -> None:
    today = T0 // DAY_S
    sums = dict.fromkeys(("seconds", "cpu_milli_s", "memory_mib_s", "disk_mib_s", "gpu_milli_s", "runs"), 0)
    with world.store.write() as conn:
        for owner, day, charge, refund in (
            ("ada", today, 8, 4),
            ("bob", today - 7, 8, 0),
            ("eve", today - 100, 999, 0),
            ("kim", today, 1, 2),
        ):
            amounts = {"charge": charge * MILLIONTHS, "refund": refund * MILLIONTHS}
            whose = {"owner": owner, "project": "physics", "partition": "here"}
            conn.execute(usage_days.insert(), {"day": day, **whose, **sums, **amounts})
    noon = Instant(today * DAY_S + DAY_S // 2)
    used = read_used(world.store, noon, half_life_s=7 * DAY_S)
    assert used == (
        Used(ProjectName("physics"), Owner("ada"), 4.0 * HOUR_S, noon),
        Used(ProjectName("physics"), Owner("bob"), 4.0 * HOUR_S, noon),
        Used(ProjectName("physics"), Owner("kim"), 0.0, noon),
    )


def test_parts_are_those_of_the_tree_and_closed_projects_have_none(world: PlacingWorld) -> None:
    WalletStore(world.store).set("physics", parent="biology", weight=3)
    assert read_accounts(world.store, world.time.now(), Terms(fair=True)).shares == (
        Share(ProjectName("biology")),
        Share(ProjectName("physics"), 3, ProjectName("biology")),
    )
    PeopleStore(world.store).close_project("physics", wall=0.0)
    assert len(read_accounts(world.store, world.time.now(), Terms(fair=True)).shares) == 1
    assert read_accounts(world.store, world.time.now(), Terms()).shares == ()
