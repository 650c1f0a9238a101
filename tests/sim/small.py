"""Small worlds for tests of the simulator: builders that fill what does not matter.

One pool, sites by name, jobs by the second in which they come. Everything can be said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from glidepath.core.cycle import Done
from glidepath.core.provision.offer import Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.pilot import PilotSpec, Target
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, Shape, SiteName
from glidepath.sim.arrival import Arrival
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario
from glidepath.sim.thing import SimPilot
from glidepath.sim.world import START, World

POOL = PoolName("pool")
WEST = SiteName("west")
ONE = Resources(1000, 1024)


def shape(cpus: int = 1, **traits: str) -> Shape:
    return Shape(Resources(cpus * 1000, cpus * 1024), tuple(sorted(traits.items())))


def job(at: int = 0, run_s: int = 100, *, cpus: int = 1, owner: str = "ann", **more: Any) -> Arrival:
    more.setdefault("pool", POOL)
    more.setdefault("shape", shape(cpus))
    return Arrival(at=at, run_s=run_s, owner=Owner(owner), **more)


def site(name: str = "west", *, cpus: int = 1, **more: Any) -> SiteRules:
    offer = Offer(
        SiteName(name),
        "a",
        Resources(cpus * 1000, cpus * 1024),
        lifetime_s=more.pop("lifetime_s", 3600),
        idle_s=more.pop("idle_s", 300),
        price_milli=more.pop("price_milli", 0),
    )
    return SiteRules(SiteName(name), (offer,), **more)


def rules(*sites: SiteRules, **more: Any) -> Rules:
    more.setdefault("pools", (PoolRules(POOL),))
    return Rules(sites=sites or (site(),), cycle_s_min=10, cycle_s_max=10, **more)


def behaviour(name: str = "west", **more: Any) -> Behaviour:
    more.setdefault("start_s", (20, 20))
    return Behaviour(SiteName(name), **more)


def world(arrivals: Iterable[Arrival] = (), *, seed: int = 1, **more: Any) -> World:
    """A world without a controller; the test itself is the one that asks."""
    under = more.pop("under", None) or rules()
    pools = (more.pop("pool", None) or Matching(POOL, 30),)
    sites = more.pop("sites", None) or (behaviour(**more),)
    return World(seed, under, arrivals, sites=sites, pools=pools)


def spec(name: str = "p1", *, cpus: int = 1, **more: Any) -> PilotSpec:
    at = SiteName(more.pop("at", "west"))
    return PilotSpec(
        name=PilotName(name),
        site=at,
        offer=OfferKey(f"{at}/a"),
        pool=POOL,
        size=Resources(cpus * 1000, cpus * 1024),
        traits=more.pop("traits", ()),
        lifetime_s=more.pop("lifetime_s", 3600),
        idle_s=more.pop("idle_s", 300),
        asked_at=Instant(START),
        **more,
    )


def submitted(place: World, name: str = "p1", **more: Any) -> SimPilot:
    pilot = spec(name, **more)
    assert place.submit(pilot) == Done()
    return place.sites[pilot.site].pilots[pilot.name]


def target(name: str = "p1") -> Target:
    return Target(PilotName(name))


@dataclass(frozen=True)
class Given:
    """A workload that is a list."""

    jobs: tuple[Arrival, ...]

    def arrivals(self, seed: int) -> Iterable[Arrival]:
        return iter(self.jobs)


def scenario(*arrivals: Arrival, under: Rules | None = None, **more: Any) -> Scenario:
    under = under or rules()
    more.setdefault("sites", tuple(behaviour(each.name) for each in under.sites))
    more.setdefault("pools", tuple(Matching(pool.name, 30) for pool in under.pools))
    return Scenario("small", under, workload=Given(arrivals), **more)


@dataclass
class Scene:
    """A stage on which a fault is alone with a world; what it does to the controller is written down."""

    world: World
    told: list[Any] = field(default_factory=list)

    def supplant(self) -> None:
        self.told.append("supplanted")

    def reboot(self, wall_error_s: int) -> None:
        self.told.append(("reboot", wall_error_s))

    def set_wall(self, error_s: int) -> None:
        self.told.append(("wall", error_s))


class Calls:
    """Something to go through a door; how often it did is what counts."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = Done() if answer is None else answer
        self.count = 0

    def __call__(self) -> Any:
        self.count += 1
        return self.answer
