"""The local backend with a real pool of HTCondor: pilots by specification, secrets only for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.embedded.world import until

from glidepath.backends.local import LocalBackend
from glidepath.core.cycle import Done, Refused
from glidepath.core.provision.pilot import PilotSpec, SiteState, Target
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SiteName
from glidepath.ports import Place
from glidepath.terms import OfferTerms
from pilot.pilot_world import IDENTITY, LINES, RIGHTS, WAIT_S, PilotWorld

NAME = PilotName("gp-1")
NOW = Instant(5000)


def spec(world: PilotWorld, secrets: tuple[tuple[str, str], ...] | None = None) -> PilotSpec:
    told = {
        "GLIDEPATH_POOL_KIND": "condor",
        "GLIDEPATH_POOL": "bed",
        "GLIDEPATH_COLLECTOR": world.pool.address,
        "GLIDEPATH_TERMS": OfferTerms(lines=tuple(LINES)).to_json(),
        "GLIDEPATH_CONDOR": str(world.pool.host_tree()),
    }
    token = (("bed.token", world.pool.token(IDENTITY, RIGHTS)),)
    return PilotSpec(
        name=NAME,
        site=SiteName("here"),
        offer=OfferKey("here/small"),
        pool=PoolName("bed"),
        size=Resources(2000, 2000, 500),
        traits=(("os", "linux"),),
        lifetime_s=600,
        idle_s=300,
        asked_at=Instant(4990),
        join=tuple(told.items()),
        secrets=token if secrets is None else secrets,
    )


@pytest.fixture
def site(world: PilotWorld) -> LocalBackend:
    world.home.mkdir(parents=True)
    return LocalBackend(SiteName("here"), Place(world.home, ""))


def state(site: LocalBackend) -> tuple[SiteState, str] | None:
    found = {pilot.name: (pilot.state, pilot.note) for pilot in site.list(now=NOW).pilots}
    return found.get(NAME)


@pytest.mark.real
def test_a_pilot_is_started_by_its_specification_runs_a_job_and_is_drained(
    world: PilotWorld, site: LocalBackend
) -> None:
    wanted = spec(world)
    try:
        assert site.submit(wanted) == Done()
        assert site.submit(wanted) == Done("it was started before")
        job = world.submit("echo hello")
        world.done(job)
        assert world.output(job) == "hello\n"
        folder = world.home / "pilots" / NAME
        token = wanted.secrets[0][1]
        assert [oct(path.stat().st_mode & 0o777) for path in (folder / "tokens.d").iterdir()] == ["0o600"]
        assert oct((folder / "settings.json").stat().st_mode & 0o777) == "0o600"
        assert json.loads((folder / "settings.json").read_text())["GLIDEPATH_SITE"] == "here"
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert [path.name for path in files if token in path.read_text("latin-1")] == ["bed.token"]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            assert token.encode() not in words_of(path)
        for _ in range(3):
            assert site.drain(Target(NAME)) == Done()
        until("it has ended", lambda: state(site) == (SiteState.ENDED, "drained"), wait_s=WAIT_S)
        assert world.left(NAME) == []
    finally:
        clear(site)


@pytest.mark.real
def test_a_pilot_that_is_removed_gives_its_job_back_and_leaves_nothing(
    world: PilotWorld, site: LocalBackend
) -> None:
    try:
        assert site.submit(spec(world)) == Done()
        job = world.submit("setsid sleep 600 & sleep 600")
        world.running(job)
        assert site.remove(Target(NAME)) == Done("it was stopped")
        assert state(site) == (SiteState.ENDED, "stopped")
        until("the job waits again", lambda: world.statuses(job) == [1], wait_s=WAIT_S)
        assert world.left(NAME) == []
    finally:
        clear(site)
    assert list((world.home / "pilots").iterdir()) == []


@pytest.mark.real
def test_a_killed_pilot_leaves_no_process_and_no_folder(world: PilotWorld, site: LocalBackend) -> None:
    try:
        assert site.submit(spec(world)) == Done()
        job = world.submit("sleep 600")
        world.running(job)
        assert site.kill(Target(NAME)) == Done("it was killed")
        kept = "/tokens.d/"  # In the folder that the next removal clears.
        until("it is gone", lambda: all(kept in one for one in world.left(NAME)), wait_s=WAIT_S)
    finally:
        clear(site)
    assert world.left(NAME) == []


@pytest.mark.real
@pytest.mark.parametrize("name", ["../x", ".x", "a/b", ""])
def test_a_secret_with_the_name_of_another_place_is_refused(
    world: PilotWorld, site: LocalBackend, name: str
) -> None:
    answer = site.submit(spec(world, ((name, "x"),)))
    assert answer == Refused("the pool `bed` has a secret whose name is no file name")
    assert not (world.home / "pilots").exists()


def words_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def clear(site: LocalBackend) -> None:
    for _ in range(2):  # The first stops, the second clears.
        for pilot in site.list(now=NOW).pilots:
            site.remove(Target(pilot.name))
