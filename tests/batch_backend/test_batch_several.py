"""Jobs of several nodes, or of several pilots on one: each pilot is its own, and the job is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch_world import SECRETS, World, a_spec, cleared, listed, until

from glidepath.batch.backend import BatchBackend
from glidepath.core.cycle import Done, Refused
from glidepath.core.provision.pilot import PilotSpec, SiteState, Target
from glidepath.core.quantity import PilotName

NAMES = tuple(PilotName(f"gp-{letter}") for letter in "abcd")
OVER = (SiteState.ENDED, SiteState.FAILED)


def several(count: int) -> PilotSpec:
    return a_spec("gp-a", mates=NAMES[1:count], mates_secrets=(SECRETS,) * (count - 1))


def running(backend: BatchBackend) -> set[str]:
    return {name for name, pilot in listed(backend).items() if pilot.state is SiteState.RUNNING}


@pytest.mark.parametrize(
    ("own", "nodes"),
    [
        ({"nodes": 2}, ["n1", "n2"]),
        ({"nodes": 1, "per_node": 2}, ["n1", "n1"]),
        ({"nodes": 2, "per_node": 2}, ["n1", "n1", "n2", "n2"]),
    ],
)
def test_one_job_starts_a_pilot_for_each_place(tmp_path: Path, own: dict[str, int], nodes: list[str]) -> None:
    world = World(tmp_path).build()
    backend = world.backend(**own)
    count = len(nodes)
    assert isinstance(backend.submit(several(count)), Done)
    (job,) = world.jobs()
    until("all run", lambda: sorted(pilot.node for pilot in listed(backend).values()) == nodes)
    pilots = listed(backend)
    assert set(pilots) == set(NAMES[:count])
    assert {pilot.native_id for pilot in pilots.values()} == {job["id"]}
    cleared(backend)
    folder = world.folder / "west"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [
        path.name for path in folder.glob("pilot-*.pyz")
    ]


def test_one_of_several_stops_and_is_forgotten_while_the_other_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path).build()
    backend = world.backend(nodes=2)
    backend.submit(several(2))
    until("both run", lambda: all(pilot.node for pilot in listed(backend).values()))
    first, second = NAMES[:2]
    assert isinstance(backend.remove(Target(first)), Done)
    until("one is over", lambda: listed(backend)[first].state in OVER)
    assert running(backend) == {second}
    assert isinstance(backend.remove(Target(first)), Done)
    assert set(listed(backend)) == {second}
    # A life that knows nothing yet sees the same.
    assert set(listed(world.backend(nodes=2))) == {second}
    cleared(backend)
    assert list((world.folder / "west" / "asked").iterdir()) == []


def test_a_site_that_ends_a_job_lets_all_its_pilots_drain(tmp_path: Path) -> None:
    world = World(tmp_path).build()
    backend = world.backend(nodes=2)
    backend.submit(several(2))
    until("both run", lambda: all(pilot.node for pilot in listed(backend).values()))
    assert isinstance(backend.drain(Target(NAMES[0])), Done)
    assert isinstance(backend.drain(Target(NAMES[1])), Done)
    until("both are over", lambda: all(pilot.state in OVER for pilot in listed(backend).values()))
    cleared(backend)


def test_as_many_are_asked_for_as_the_job_has_places(tmp_path: Path) -> None:
    world = World(tmp_path).build()
    assert isinstance(world.backend(nodes=3).submit(several(2)), Refused)
    assert world.jobs() == []


def test_a_job_of_several_that_waits_is_withdrawn_as_a_whole(tmp_path: Path) -> None:
    world = World(tmp_path).build()
    world.faults(held=True)
    backend = world.backend(nodes=2)
    backend.submit(several(2))
    pilots = listed(backend)
    for pilot in pilots.values():
        assert isinstance(backend.withdraw(Target(pilot.name, pilot.native_id)), Done)
    until("both are over", lambda: all(pilot.state in OVER for pilot in listed(backend).values()))
    cleared(backend)
