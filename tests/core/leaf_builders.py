"""Builders and doors for the tests of the core's leaf modules: they fill what does not matter to a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from glidepath.core.cycle import Done, Outcome
from glidepath.core.provision.demand import JobAd
from glidepath.core.provision.offer import Offer, SiteRules
from glidepath.core.provision.pilot import Ended, PilotPhase, PilotSpec, Slot, Target, Track
from glidepath.core.provision.sight import PoolSlots, SiteListing
from glidepath.core.quantity import (
    Instant,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SiteName,
    Traits,
)
from glidepath.ports import DemandSource

POOL = PoolName("pool")
WEST = SiteName("west")
WEST_BIG = OfferKey("west/big")
FOUR = Resources(4000, 8192, 1000, 0)


def resources(most: int = 50) -> st.SearchStrategy[Resources]:
    part = st.integers(0, most)
    return st.builds(Resources, part, part, part, part)


def an_offer(**more: Any) -> Offer:
    return Offer(**{"site": WEST, "name": "big", "size": FOUR, **more})


def some_rules(**more: Any) -> SiteRules:
    return SiteRules(**{"name": WEST, "offers": (), **more})


def a_shape(cpu_milli: int = 1000, memory_mib: int = 1024, traits: Traits = (), **more: int) -> Shape:
    return Shape(Resources(cpu_milli, memory_mib, **more), traits)


def a_job(**more: Any) -> JobAd:
    row: dict[str, Any] = {"shape": a_shape(), "owner": Owner("ann"), "running": False}
    return JobAd(**{**row, "queued_at": Instant(0), **more})


def a_slot(*, claims: int = 0, draining: bool = False) -> Slot:
    return Slot(PilotName("p1"), FOUR, claims, draining)


def a_track(phase: PilotPhase = PilotPhase.EXPECTED, **more: Any) -> Track:
    row: dict[str, Any] = {"name": PilotName("p1"), "site": WEST, "offer": WEST_BIG, "pool": POOL}
    row |= {"size": FOUR, "phase": phase, "since": Instant(1000), "asked_at": Instant(1000)}
    return Track(**{**row, **more})


def an_ended(name: str, **more: Any) -> Ended:
    row: dict[str, Any] = {"name": PilotName(name), "site": WEST, "offer": WEST_BIG, "pool": POOL}
    row |= {"owner": Owner(""), "phase": PilotPhase.DONE, "why": "it left", "jobs_run": 0}
    row |= {"asked_at": Instant(0), "ended_at": Instant(0)}
    row |= dict.fromkeys(("pending_s", "starting_s", "busy_s", "idle_s", "failed_s"), 0)
    return Ended(**{**row, **more})


@dataclass
class FakeSite:
    """A backend that answers as it is told, and keeps what it was asked."""

    site: SiteName = WEST
    limit_s: float = 20.0
    answers: dict[str, Outcome | BaseException | Callable[[], Outcome]] = field(default_factory=dict)
    otherwise: Outcome = field(default_factory=Done)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def _answer(self, verb: str, what: Any) -> Outcome:
        self.asked.append((verb, what))
        found = self.answers.get(what.name, self.otherwise)
        if isinstance(found, BaseException):
            raise found
        return found() if callable(found) else found

    def list(self, *, now: Instant) -> SiteListing:
        return SiteListing(())

    def submit(self, spec: PilotSpec) -> Outcome:
        return self._answer("submit", spec)

    def withdraw(self, target: Target) -> Outcome:
        return self._answer("withdraw", target)

    def remove(self, target: Target) -> Outcome:
        return self._answer("remove", target)

    def drain(self, target: Target) -> Outcome:
        return self._answer("drain", target)

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        raise LookupError(name)


@dataclass
class FakePool:
    """A pool that names its sources and how to join it, or fails at either."""

    name: PoolName = POOL
    named: tuple[DemandSource, ...] | OSError = ()
    joins: BaseException | None = None
    secret: str | BaseException = ""

    def sources(self) -> tuple[DemandSource, ...]:
        if isinstance(self.named, OSError):
            raise self.named
        return self.named

    def slots(self, *, now: Instant) -> PoolSlots:
        return PoolSlots(())

    def join(self, offer: OfferKey) -> tuple[tuple[str, str], ...]:
        if self.joins is not None:
            raise self.joins
        return (("host", "pool.example"),)

    def secrets(self, name: PilotName, *, lifetime_s: int) -> tuple[tuple[str, str], ...]:
        if isinstance(self.secret, BaseException):
            raise self.secret
        return ((f"{name}.token", f"{self.secret} for {lifetime_s} s"),) if self.secret else ()
