"""The doors of a made-up world: the same protocols as the real ones, with faults on the way.

The controller cannot tell them from real doors. Times leave here on the controller's own timeline, which
differs from the world's after a boot with a wrong clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from glidepath.calls import InlineCalls
from glidepath.core.cycle import Outcome
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.pilot import PilotSpec, Target
from glidepath.core.provision.quick import copied
from glidepath.core.provision.sight import PoolSlots, SiteListing
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, SiteName, SourceName
from glidepath.ports import DemandSource
from glidepath.sim.fault import Faults
from glidepath.sim.queue import JobQueue
from glidepath.sim.world import World


class Mover:
    """Values with some of their times moved; what was moved before is the same object again."""

    def __init__(self, *times: str) -> None:
        self.times = times
        self._by_s = 0
        self._known: dict[int, tuple[Any, Any]] = {}

    def moved(self, values: tuple[Any, ...], by_s: int) -> tuple[Any, ...]:
        if not by_s:
            return values
        before = self._known if by_s == self._by_s else {}
        self._by_s, self._known = by_s, {}
        copies: list[Any] = []
        for value in values:
            # The value is kept beside its copy, so that its address cannot become another's.
            known = before.get(id(value)) or (value, self._copy(value, by_s))
            self._known[id(value)] = known
            copies.append(known[1])
        return tuple(copies)

    def _copy(self, value: Any, by_s: int) -> Any:
        given = {name: getattr(value, name) for name in self.times}
        return copied(value, **{name: Instant(at + by_s) for name, at in given.items() if at is not None})


class ScatteredCalls(InlineCalls):
    """What runs side by side ends in any order, and whoever dies over it has done any part of it."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def side_by_side(self, steps: Sequence[Callable[[], None]], *, at_once: int) -> None:
        waiting, begun = list(reversed(steps)), list[Callable[[], None]]()
        while waiting or begun:
            while waiting and len(begun) < at_once:
                begun.append(waiting.pop())
            begun.pop(self._chance.randrange(len(begun)))()


class SimSource:
    def __init__(self, world: World, faults: Faults, queue: JobQueue, number: int) -> None:
        self.world = world
        self.faults = faults
        self.queue = queue
        self.pool = queue.pool
        self.name = SourceName(f"schedd{number}")
        self._mover = Mover("oldest_at")

    def demand(self, offers: tuple[Offer, ...], *, now: Instant) -> DemandSight:
        def go() -> DemandSight:
            return DemandSight(self._mover.moved(self.queue.demands(offers), now - self.world.now))

        answer: DemandSight = self.faults.read(f"demand {self.pool} {self.name}", go)
        return answer


class SimPoolDoor:
    def __init__(self, world: World, faults: Faults, name: PoolName) -> None:
        self.world = world
        self.faults = faults
        self.name = name
        self._mover = Mover("ends_at")
        self._sources = tuple(
            SimSource(world, faults, queue, number) for number, queue in enumerate(world.pools[name].queues)
        )

    def sources(self) -> tuple[DemandSource, ...]:
        return self._sources

    def slots(self, *, now: Instant) -> PoolSlots:
        def go() -> PoolSlots:
            return PoolSlots(self._mover.moved(self.world.slots(self.name), now - self.world.now))

        answer: PoolSlots = self.faults.read(f"slots {self.name}", go)
        return answer

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        return ()

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        return ()


class SimBackend:
    limit_s = 30.0
    at_once = 4

    def __init__(
        self, world: World, faults: Faults, site: SiteName, on_act: Callable[[str, PilotName], None]
    ) -> None:
        self.world = world
        self.faults = faults
        self.site = site
        self.on_act = on_act  # before it goes out
        self._mover = Mover("since", "asked_at", "ends_at")

    def list(self, *, now: Instant) -> SiteListing:
        def go() -> SiteListing:
            return SiteListing(self._mover.moved(self.world.listing(self.site), now - self.world.now))

        answer: SiteListing = self.faults.read(f"list {self.site}", go)
        return answer

    def submit(self, spec: PilotSpec) -> Outcome:
        for mate in spec.mates:
            self.on_act("submit", mate)
        return self._act("submit", spec.name, lambda: self.world.submit(spec))

    def withdraw(self, target: Target) -> Outcome:
        return self._act("withdraw", target.name, lambda: self.world.withdraw(self.site, target))

    def remove(self, target: Target) -> Outcome:
        return self._act("remove", target.name, lambda: self.world.remove(self.site, target))

    def drain(self, target: Target) -> Outcome:
        return self._act("drain", target.name, lambda: self.world.drain(self.site, target))

    def _act(self, verb: str, name: PilotName, go: Callable[[], Outcome]) -> Outcome:
        self.on_act(verb, name)
        return self.faults.act(f"{verb} {self.site}", go)

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        raise LookupError(f"{name} is made up and writes nothing")
