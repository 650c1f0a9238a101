"""Builders for the tests of the core's leaf modules: they fill what does not matter to a claim."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from glidepath.core.provision.demand import JobAd
from glidepath.core.provision.offer import Offer, SiteRules
from glidepath.core.provision.pilot import Ended, PilotPhase, Slot, Track
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
