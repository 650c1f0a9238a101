"""The pool as the provisioner sees it, read from the store alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.embedded.world import World, until

from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import Instant, OfferKey, PoolName, Resources, SiteName
from glidepath.embedded.demand import demand
from glidepath.ports import DemandSource, Place, Pool
from glidepath.store.job import JobState
from glidepath.terms import OfferTerms

HERE = PoolName("here")
OFFERS = (
    Offer(SiteName("a"), "small", Resources(2000, 2048)),
    Offer(SiteName("a"), "tiny", Resources(500, 256)),
    Offer(SiteName("b"), "linux", Resources(8000, 8192), traits=(("os", "linux"),)),
)


def test_demand_and_slots_come_from_the_store(world: World) -> None:
    world.pilot("p1", "--lifetime-s", "500", size=Resources(3000, 4096))
    running = world.submit("sh", "-c", "echo up; sleep 600")
    world.output(running, "up")
    waiting = world.submit("true", traits=(("os", "linux"),), run_s_max=60)
    pool = demand(HERE, {}, Place(world.home, world.store_url))
    try:
        assert isinstance(pool, Pool)
        (source,) = pool.sources()
        assert isinstance(source, DemandSource)
        now = world.clock.now()
        seen = source.demand(OFFERS, now=now)
        (slot,) = pool.slots(now=now).slots
        later = pool.slots(now=Instant(now + 1000)).slots
    finally:
        pool.close()
    assert seen.complete
    plain, picky = seen.demands
    assert (plain.idle, plain.running, plain.fits) == (0, 1, ("a/small", "b/linux"))
    assert (picky.idle, picky.running, picky.fits) == (1, 0, ("b/linux",))
    assert (picky.owners, picky.run_s_max) == ((("ada", 1),), 60)
    assert picky.oldest_at == world.jobs.get(waiting).submitted_at
    assert (slot.pilot, slot.claims, slot.free, slot.draining) == ("p1", 1, Resources(2000, 3584), False)
    assert slot.ends_at is not None
    assert now + 400 < slot.ends_at <= now + 500
    assert later == ()


def test_a_pilot_that_has_left_is_no_slot(world: World) -> None:
    world.pilot("p1", "--idle-s", "0.5")
    world.ended("p1")
    pool = demand(HERE, {}, Place(world.home, world.store_url))
    try:
        until("it is gone", lambda: not pool.slots(now=world.clock.now()).slots)
    finally:
        pool.close()


def test_making_a_pool_touches_nothing_and_a_store_that_is_not_there_raises(tmp_path: Path) -> None:
    pool = demand(HERE, {}, Place(tmp_path / "no", f"sqlite:///{tmp_path}/no/glidepath.db"))
    assert pool.join(OfferKey("here/any")) == (
        ("GLIDEPATH_POOL", "here"),
        ("GLIDEPATH_POOL_SOCKET", f"{tmp_path}/no/pool.sock"),
    )
    with pytest.raises(OSError):
        pool.slots(now=Instant(0))
    with pytest.raises(OSError):
        pool.sources()[0].demand((), now=Instant(0))
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(("jobs", "given"), [("gpu", ["gpu"]), ("cpu", ["cpu"]), ("any", ["cpu", "gpu"])])
def test_a_pilot_for_jobs_with_gpus_or_without_is_given_no_other(
    world: World, jobs: str, given: list[str]
) -> None:
    terms = {OfferKey("here/any"): OfferTerms(jobs=jobs)}
    pool = demand(HERE, {}, Place(world.home, world.store_url, terms=terms))
    told = dict(pool.join(OfferKey("here/any"))).get("GLIDEPATH_POOL_TRAIT")
    numbers = {"cpu": world.submit("true"), "gpu": world.submit("true", request=Resources(1000, 64, 0, 1))}
    trait = ("--trait", told) if told else ()
    world.pilot("p1", *trait, "--gpus", "2", "--idle-s", "1")
    world.ended("p1")
    ended = [
        kind for kind, number in sorted(numbers.items()) if world.jobs.get(number).state is JobState.DONE
    ]
    assert ended == given


@pytest.mark.parametrize("settings", [{"partition": "x"}, {"heard_s_max": 0}])
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"partition|heard_s_max"):
        demand(HERE, settings, Place(tmp_path, f"sqlite:///{tmp_path}/x.db"))
