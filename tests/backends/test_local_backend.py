"""The local backend with a real pool: pilots outlive us, are found again, and go when told."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.world import World, until

from glidepath.backends.local import LocalBackend, backend
from glidepath.core.cycle import Done, Failed, Refused
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SiteName
from glidepath.embedded.demand import demand
from glidepath.pilot.remains import left_by
from glidepath.ports import Place
from glidepath.store.job import JobState

HERE = SiteName("here")
NOW = Instant(5000)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    try:
        made.serve()
        yield made
    finally:
        site = local(made)
        for _ in range(2):  # The first stops, the second clears.
            for pilot in site.list(now=NOW).pilots:
                site.remove(Target(pilot.name))
        made.close()


def local(world: World) -> LocalBackend:
    return backend(HERE, {}, Place(world.home, world.store_url))


def spec(world: World, name: str, *, idle_s: int = 300) -> PilotSpec:
    return PilotSpec(
        name=PilotName(name),
        site=HERE,
        offer=OfferKey("here/small"),
        pool=PoolName("here"),
        size=Resources(2000, 2048),
        traits=(("os", "linux"),),
        lifetime_s=600,
        idle_s=idle_s,
        asked_at=Instant(4990),
        join=demand(PoolName("here"), {}, Place(world.home, world.store_url)).join(OfferKey("here/any")),
    )


def seen(world: World, name: str, *, now: Instant = NOW) -> SitePilot | None:
    """By a backend made anew, as after a restart."""
    return {pilot.name: pilot for pilot in local(world).list(now=now).pilots}.get(PilotName(name))


def state(world: World, name: str) -> SiteState | None:
    found = seen(world, name)
    return found.state if found else None


def test_a_pilot_runs_jobs_and_is_found_again_by_listing_alone(world: World) -> None:
    assert local(world).submit(spec(world, "p1")) == Done()
    found = seen(world, "p1")
    assert found is not None
    assert (found.state, found.asked_at, found.since, found.ends_at) == (SiteState.RUNNING, 4990, 4990, 5590)
    assert world.over(world.submit("true", traits=(("os", "linux"),)))[0].pilot == "p1"
    assert "joined the pool here" in local(world).logs(PilotName("p1"), bytes_max=1000)
    assert os.getsid(int(found.native_id)) != os.getsid(0)


def test_a_pilot_that_left_by_itself_has_ended_and_is_cleared(world: World) -> None:
    local(world).submit(spec(world, "p1", idle_s=1))
    until("it has ended", lambda: state(world, "p1") is SiteState.ENDED)
    found = seen(world, "p1")
    assert found is not None
    assert (found.note, found.native_id) == ("idle", "")
    assert found.asked_at <= found.since <= NOW
    assert local(world).submit(spec(world, "p1", idle_s=1)) == Done("it was started before")
    assert local(world).remove(Target(PilotName("p1"))) == Done()
    assert seen(world, "p1") is None
    assert list((world.home / "pilots").iterdir()) == []


def test_a_pilot_killed_by_the_machine_has_failed_at_once(world: World) -> None:
    local(world).submit(spec(world, "p1"))
    found = seen(world, "p1")
    assert found is not None
    until("it has said something", lambda: bool(local(world).logs(PilotName("p1"), bytes_max=100)))
    os.kill(int(found.native_id), signal.SIGKILL)
    until("it has failed", lambda: state(world, "p1") is SiteState.FAILED)
    found = seen(world, "p1")
    assert found is not None
    assert found.note.startswith("the pilot died without a word; its last line: ")


@pytest.mark.parametrize(
    ("now", "expected", "note"),
    [
        (Instant(5000), SiteState.PENDING, ""),
        (Instant(5100), SiteState.FAILED, "the pilot was never started; it wrote nothing"),
    ],
)
def test_a_crash_between_the_folder_and_the_start(
    world: World, now: Instant, expected: SiteState, note: str
) -> None:
    local(world).submit(spec(world, "made"))
    folder = world.home / "pilots" / "p1"
    folder.mkdir()
    made = json.loads((world.home / "pilots" / "made" / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**made, "name": "p1"}))
    found = seen(world, "p1", now=now)
    assert found is not None
    assert (found.state, found.note) == (expected, note)
    assert local(world).withdraw(Target(PilotName("p1"))) == Done()
    assert seen(world, "p1") is None


def test_a_submission_repeated_after_a_crash_starts_the_pilot_once(world: World) -> None:
    wanted = spec(world, "p1")
    site = local(world)
    site.submit(wanted)
    first = seen(world, "p1")
    assert site.submit(replace(wanted, asked_at=Instant(4999))) == Done("it was started before")
    assert seen(world, "p1") == first
    other = site.submit(replace(wanted, idle_s=7))
    assert other == Refused("`p1` exists for something else")


def test_a_removed_pilot_gives_its_job_back_and_leaves_nothing_running(world: World) -> None:
    local(world).submit(spec(world, "p1"))
    job = world.submit("sh", "-c", "setsid sleep 600 & echo up; sleep 600")
    world.output(job, "up")
    began = time.monotonic()
    assert local(world).remove(Target(PilotName("p1"))) == Done("it was stopped")
    assert time.monotonic() - began < 10
    assert world.jobs.get(job).state is JobState.QUEUED
    assert state(world, "p1") is SiteState.ENDED
    assert left_by("p1", world.home.resolve()) == []


def test_a_drain_lets_the_job_finish_however_often_it_is_repeated(world: World) -> None:
    local(world).submit(spec(world, "p1"))
    job = world.submit("sh", "-c", "echo up; sleep 1.5; echo end")
    world.output(job, "up")
    for _ in range(5):
        assert local(world).drain(Target(PilotName("p1"))) == Done()
    until("it has ended", lambda: state(world, "p1") is SiteState.ENDED)
    assert (world.jobs.get(job).state, world.log(job)) == (JobState.DONE, "up\nend\n")


def test_pilots_of_another_site_of_the_same_home_are_not_listed(world: World) -> None:
    local(world).submit(spec(world, "p1"))
    other = backend(SiteName("there"), {}, Place(world.home, world.store_url))
    assert other.list(now=NOW).pilots == ()


@pytest.mark.parametrize("text", ["", "[]", '{"site": "here"}', '{"site": "here", "size": 5}'])
def test_a_folder_that_is_not_ours_makes_the_listing_fail_and_says_where(world: World, text: str) -> None:
    folder = world.home / "pilots" / "p1"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(text)
    with pytest.raises(ValueError, match=r"pilots/p1/spec\.json"):
        local(world).list(now=NOW)
    (folder / "spec.json").unlink()


def test_a_full_or_forbidden_place_is_a_failure_that_may_be_repeated(world: World) -> None:
    (world.home / "pilots").write_text("a file where a folder should be")
    answer = local(world).submit(spec(world, "p1"))
    assert isinstance(answer, Failed)
    (world.home / "pilots").unlink()


def test_a_pool_that_cannot_be_joined_from_here_is_refused(world: World) -> None:
    answer = local(world).submit(replace(spec(world, "p1"), join=()))
    assert answer == Refused("the pool `here` does not say how to join it on this machine")


def test_settings_that_are_not_known_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match="unknown key 'shell'"):
        backend(HERE, {"shell": "/bin/sh"}, Place(world.home, ""))
