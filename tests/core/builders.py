"""Builders for tests of the core: they fill what does not matter, so that a test shows only what does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glidepath.core.cycle import Did, Done, Plan, Seen, Sighting, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Held, Memory
from glidepath.core.provision.offer import Limits, Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.picture import Picture, look
from glidepath.core.provision.pilot import PilotAction, SitePilot, SiteState, Slot, Submit
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import (
    Instant,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SiteName,
    SourceName,
)

POOL = PoolName("pool")
SOURCE = SourceName("ap")
NOW = Instant(100_000)
ONE = Resources(1000, 1024)
# The pool was seen a moment ago and nothing waited: what waits now has come since.
SEEN_BEFORE = Held(POOL, SOURCE, Instant(NOW - 10), ())


def shape(cpus: int = 1, memory_mib: int = 1024, gpus: int = 0, **traits: str) -> Shape:
    return Shape(Resources(cpus * 1000, memory_mib, 0, gpus), tuple(sorted(traits.items())))


def offer(site: str = "west", name: str = "a", cpus: int = 1, **more: Any) -> Offer:
    size = more.pop("size", Resources(cpus * 1000, cpus * 1024, 100_000, more.pop("gpus", 0)))
    return Offer(site=SiteName(site), name=name, size=size, **more)


def site(name: str = "west", *offers: Offer, **more: Any) -> SiteRules:
    """Nothing repeats a create here, unless said otherwise: most tests end pilots as soon as they may."""
    more.setdefault("repeat_s", 0)
    return SiteRules(SiteName(name), offers or (offer(name),), **more)


def rules(*sites: SiteRules, **more: Any) -> Rules:
    more.setdefault("pools", (PoolRules(POOL),))
    return Rules(sites=sites or (site(),), **more)


def demand(
    idle: int = 1, of: Shape | None = None, fits: tuple[str, ...] = ("west/a",), **more: Any
) -> Demand:
    more.setdefault("owners", ((Owner("alice"), idle),) if idle else ())
    more.setdefault("oldest_at", Instant(NOW - 60) if idle else None)
    keys = tuple(OfferKey(key) for key in fits)
    return Demand(pool=more.pop("pool", POOL), shape=of or shape(), idle=idle, fits=keys, **more)


def listed(name: str, state: SiteState = SiteState.RUNNING, key: str = "west/a", **more: Any) -> SitePilot:
    more.setdefault("size", Resources(1000, 1024, 100_000))
    more.setdefault("since", Instant(NOW - 50))
    more.setdefault("asked_at", Instant(NOW - 100))
    return SitePilot(PilotName(name), OfferKey(key), more.pop("pool", POOL), state=state, **more)


def slot(name: str, claims: int = 0, free: Resources | None = None, **more: Any) -> Slot:
    full = Resources(1000, 1024, 100_000)
    return Slot(
        PilotName(name), free if free is not None else (Resources() if claims else full), claims, **more
    )


def snapshot(
    demands: tuple[Demand, ...] | Sighting[DemandSight] = (),
    pilots: dict[str, tuple[SitePilot, ...] | Sighting[SiteListing]] | None = None,
    slots: tuple[Slot, ...] | Sighting[PoolSlots] = (),
    now: Instant = NOW,
    **more: Any,
) -> Snapshot:
    """One pool with one source; sites as named, empty listings for the others."""
    seen = demands if isinstance(demands, Seen | Unseen) else Seen(now, DemandSight(demands))
    heard = slots if isinstance(slots, Seen | Unseen) else Seen(now, PoolSlots(slots))
    sites = {"west": (), **(pilots or {})} if pilots is None or "west" not in pilots else pilots
    return Snapshot(
        now=now,
        demand=((POOL, SOURCE, seen),),
        slots=((POOL, heard),),
        sites=tuple(
            (SiteName(name), found if isinstance(found, Seen | Unseen) else Seen(now, SiteListing(found)))
            for name, found in sorted(sites.items())
        ),
        **more,
    )


def memory(**more: Any) -> Memory:
    more.setdefault("born_at", Instant(0))
    more.setdefault("at", Instant(NOW - 10))
    return Memory(more.pop("incarnation", "test"), **more)


def picture_of(snap: Snapshot, mem: Memory | None = None, under: Rules | None = None) -> Picture:
    return look(snap, mem or memory(), under or rules())


def plan_of(
    snap: Snapshot, mem: Memory | None = None, under: Rules | None = None, policy: Policy | None = None
) -> Plan[PilotAction]:
    under = under or rules()
    return decide(picture_of(snap, mem, under), under, policy or Seed())


def asked(plan: Plan[PilotAction]) -> dict[str, int]:
    """Pilots asked for, by offer."""
    counts: dict[str, int] = {}
    for action in plan.actions:
        if isinstance(action, Submit):
            counts[action.offer] = counts.get(action.offer, 0) + len(action.names)
    return counts


def reason(plan: Plan[PilotAction], about: str) -> str:
    """The name of the first reason given about something."""
    return next(d.reason.because.name for d in plan.decisions if d.about == about)


def after(
    snap: Snapshot, mem: Memory, under: Rules, policy: Policy | None = None, *, outcome: Any = None
) -> tuple[Plan[PilotAction], Memory]:
    """One whole cycle whose acts all have the same outcome."""
    picture = look(snap, mem, under)
    plan = decide(picture, under, policy or Seed())
    outcomes = []
    for action in plan.actions:
        for verb, name in named(action):
            outcomes.append(Did(verb, name, outcome or Done()))
    return plan, remember(picture, plan, outcomes, under)


def named(action: PilotAction) -> list[tuple[str, str]]:
    match action:
        case Submit():
            return [("submit", name) for name in action.names]
        case _ if hasattr(action, "pilots"):
            verb = type(action).__name__.lower()
            return [(verb, target.name) for target in action.pilots]
        case _:
            return [("clear", e.name) for e in action.ended]


def later(snap: Snapshot, seconds: int) -> Snapshot:
    """The same sights at a later time, all of them fresh."""
    now = Instant(snap.now + seconds)

    def fresh(sighting: Any) -> Any:
        return replace(sighting, at=now) if isinstance(sighting, Seen) else sighting

    return replace(
        snap,
        now=now,
        demand=tuple((pool, source, fresh(s)) for pool, source, s in snap.demand),
        slots=tuple((pool, fresh(s)) for pool, s in snap.slots),
        sites=tuple((name, fresh(s)) for name, s in snap.sites),
    )


def limits(**more: int) -> Limits:
    return Limits(**more)
