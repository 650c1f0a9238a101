"""Planted bugs: provisioners that are right but for one mistake which somebody has made before.

Each is a small subclass with the mistake in its docstring, the weather in which it shows, and the invariant
that must name it. Nothing here is patched: the simulator takes the shell as an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Did, Outcome, Plan, Reason, Seen, Unseen, Unsure
from glidepath.core.provision.decide import decide
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Rules, SiteRules
from glidepath.core.provision.phase import ended
from glidepath.core.provision.picture import Picture, Wanted
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    Submit,
    Target,
    Track,
)
from glidepath.core.provision.sight import DemandSight, PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, PilotName, SiteName
from glidepath.ports import Backend
from glidepath.provisioner import Provisioner
from glidepath.sim.scenario import Scenario
from glidepath.sim.storm import storm

P = PilotPhase

# Faults of one sort, far more often than a storm has them, so that a mistake shows within a seed or two.
WEATHERS = {
    "calm": {"evictions": 20},
    "blind": {"blind-reads": 150, "partial-pages": 100},
    "lossy": {"lost-replies": 150, "late-effects": 100, "duplicate-effects": 200, "stale-lists": 200},
    "dying": {"crashes": 30, "leader-paused": 30, "store-full": 20},
    "failing": {"failing-starts": 500, "evictions": 100},
    "jumpy": {"clock-jumps": 100},
    "silent": {"schedd-silence": 60},
    "repeating": {"duplicate-effects": 400, "failing-starts": 500},
}


@dataclass(frozen=True)
class Planted:
    """One bug: who must catch it, by the name of the invariant, and where it is looked for."""

    shell: type[Provisioner]
    world: tuple[str, ...]  # what the world finds when nobody else does
    itself: str = ""  # what the check before every act finds first; empty where it cannot see it
    weather: str = "calm"
    tight: bool = False  # under limits that bind all the time
    by_replay: bool = False  # it shows only when its plans are decided again
    right: type[Provisioner] = Provisioner  # the same without the bug

    @property
    def name(self) -> str:
        return self.shell.__name__

    def scenario(self, seed: int) -> Scenario:
        return weathered(seed, self.weather, tight=self.tight)


BUGS: list[Planted] = []


def weathered(seed: int, weather: str, *, tight: bool) -> Scenario:
    rates = WEATHERS[weather]
    scenario = storm(seed, only=tuple(rates))
    rules = scenario.rules
    if tight:
        pools = tuple(replace(pool, limits=Limits(live_max=14)) for pool in rules.pools)
        owners = tuple(replace(owner, limits=Limits(live_max=2)) for owner in rules.owners)
        rules = replace(rules, limits=Limits(live_max=24), pools=pools, owners=owners)
        rules = every_site(rules, limits=Limits(live_max=12, per_cycle_max=4))
    return replace(scenario, rules=rules, rates=rates)


def planted(
    *world: str,
    itself: str = "",
    weather: str = "calm",
    tight: bool = False,
    by_replay: bool = False,
    right: type[Provisioner] = Provisioner,
) -> Callable[[type[Provisioner]], type[Provisioner]]:
    def keep(shell: type[Provisioner]) -> type[Provisioner]:
        BUGS.append(Planted(shell, world, itself, weather, tight, by_replay, right))
        return shell

    return keep


def unchecked(shell: type[Provisioner]) -> type[Provisioner]:
    """The same with the check before every act switched off: only the world is left to notice."""
    return type(f"Unchecked{shell.__name__}", (_Unchecked, shell), {})


class _Unchecked(Provisioner):
    def check(self, picture: Picture, plan: Plan[PilotAction]) -> Plan[PilotAction]:
        return plan


# Building blocks


def every_site(rules: Rules, **more: object) -> Rules:
    sites: Iterable[SiteRules] = (replace(site, **more) for site in rules.sites)  # type: ignore[arg-type]
    return replace(rules, sites=tuple(sites))


def with_acts(
    plan: Plan[PilotAction], change: Callable[[PilotAction], PilotAction | None]
) -> Plan[PilotAction]:
    return replace(
        plan,
        decisions=tuple(
            d if d.action is None else replace(d, action=change(d.action)) for d in plan.decisions
        ),
    )


def with_names(plan: Plan[PilotAction], name: Callable[[int], str]) -> Plan[PilotAction]:
    """Every pilot that is asked for gets another name, by its place in its order."""

    def renamed(act: PilotAction) -> PilotAction:
        if not isinstance(act, Submit):
            return act
        return replace(act, names=tuple(PilotName(name(place)) for place in range(len(act.names))))

    return with_acts(plan, renamed)


def with_outcomes(outcomes: Iterable[Did], change: Callable[[str], Outcome]) -> tuple[Did, ...]:
    """Submits that nobody answered for, told as something else."""
    return tuple(
        replace(did, outcome=change(did.outcome.why))
        if did.verb == "submit" and isinstance(did.outcome, Unsure)
        else did
        for did in outcomes
    )


def also(plan: Plan[PilotAction], about: str, reason: Reason, action: PilotAction) -> Plan[PilotAction]:
    return replace(plan, decisions=(*plan.decisions, Decision(about, reason, action)))


def trusted(sight: Seen | Unseen, now: Instant, empty: object) -> Seen:  # type: ignore[type-arg]
    return sight if isinstance(sight, Seen) else Seen(now, empty)


# What was not seen


@planted("no decision on bad data", weather="blind")
class UnseenSiteIsEmpty(Provisioner):
    """A listing that failed is an empty list, as in `except ApiError: return []`."""

    def observe(self, memory: Memory) -> Snapshot:
        seen = super().observe(memory)
        sites = tuple((name, trusted(sight, seen.now, SiteListing(()))) for name, sight in seen.sites)
        return replace(seen, sites=sites)


@planted("no decision on bad data", weather="blind")
class UnseenSlotsAreNone(Provisioner):
    """A collector that does not answer has no slots, so pilots are asked for in place of those at work."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        slots = tuple((pool, trusted(s, snapshot.now, PoolSlots(()))) for pool, s in snapshot.slots)
        return super().look(replace(snapshot, slots=slots), memory)


@planted("no decision on bad data", weather="silent")
class UnseenDemandIsNone(Provisioner):
    """A schedd that does not answer has no jobs, so its pilots are surplus and are let go."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        demand = tuple(
            (pool, source, trusted(s, snapshot.now, DemandSight(()))) for pool, source, s in snapshot.demand
        )
        return super().look(replace(snapshot, demand=demand), memory)


@planted("no decision on bad data", weather="blind")
class PartIsWhole(Provisioner):
    """The first page of a listing is taken for all of it."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        sites = tuple(
            (n, Seen(s.at, replace(s.value, complete=True)) if isinstance(s, Seen) else s)
            for n, s in snapshot.sites
        )
        return super().look(replace(snapshot, sites=sites), memory)


@planted("no decision on bad data", weather="blind")
class CacheWithoutAge(Provisioner):
    """A watch that broke keeps serving what it last heard, as if it were new."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard: dict[SiteName, SiteListing] = {}

    def observe(self, memory: Memory) -> Snapshot:
        seen = super().observe(memory)
        self.heard |= {name: sight.value for name, sight in seen.sites if isinstance(sight, Seen)}
        sites = tuple(
            (name, trusted(sight, seen.now, self.heard.get(name, SiteListing(()))))
            for name, sight in seen.sites
        )
        return replace(seen, sites=sites)


@planted("no decision on bad data", itself="no decision on bad data", weather="blind")
class HeldDemandAsks(Provisioner):
    """Demand that is only remembered is served like demand that was seen."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return super().decide(replace(picture, wanted=tuple(Wanted(w.demand) for w in picture.wanted)))


@planted("no decision on bad data", itself="no decision on bad data", weather="silent")
class ReleasesBlindly(Provisioner):
    """Surplus is worked out and let go whether or not all who may need it were heard."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        fresh = tuple(replace(w, demand=replace(w.demand, idle=0)) if w.held else w for w in picture.wanted)
        return super().decide(replace(picture, held_pools=frozenset(), blind_pools={}, wanted=fresh))


# Names


@planted("once", itself="once", weather="dying")
class NamesByLife(Provisioner):
    """Pilots are numbered from one in each life of the program, so a restart gives out old names."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.serials = count(1)

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return with_names(super().decide(picture), lambda _: f"gp-{next(self.serials)}")


@planted("once", itself="once")
class SerialsByOffer(Provisioner):
    """The serial starts again for each offer, and two offers of one cycle share a name."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        prefix = f"gp-{picture.memory.incarnation}-{picture.memory.cycle}"
        return with_names(super().decide(picture), lambda place: f"{prefix}-{place}")


# Killing work


def _busy(picture: Picture) -> list[Track]:
    return [
        track for track in picture.tracks if track.phase is P.BUSY and track.site not in picture.closed_sites
    ]


@planted("never kill", itself="never kill")
class DrainsTheClaimed(Provisioner):
    """The oldest pilot is let go when there are many, claimed or not."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        if len(busy := _busy(picture)) < 5 or picture.held_pools or picture.blind_pools:
            return plan
        oldest = min(busy, key=lambda track: (track.asked_at, track.name))
        drain = Drain(oldest.site, (Target(oldest.name, oldest.native_id),))
        return also(plan, f"offer:{oldest.offer}", Reason(Because.SURPLUS_IDLE), drain)


@planted("unknown is not gone", "never kill", itself="unknown is not gone")
class RemovesTheClaimed(Provisioner):
    """Scaling down deletes pilots instead of draining them."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        if len(busy := _busy(picture)) < 5:
            return plan
        track = busy[0]
        over = ended(replace(track, phase=P.DONE, since=picture.now), "scaled down")
        clear = Clear(track.site, (over,), (track.native_id,))
        return also(plan, f"site:{track.site}", Reason(Because.ENDED), clear)


# Counting


@planted("cap", itself="cap", tight=True)
class ServesEverySite(Provisioner):
    """Each site is served on its own with all of the demand: the same jobs are counted once per site."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        whole = with_acts(super().decide(picture), lambda act: None if isinstance(act, Submit) else act)
        decisions = list(whole.decisions)
        for number, site in enumerate(self.rules.sites):
            alone = decide(picture, replace(self.rules, sites=(site,)), self.policy)
            for decision in alone.decisions:
                if isinstance(decision.action, Submit):
                    names = tuple(PilotName(f"{name}-{number}") for name in decision.action.names)
                    decisions.append(replace(decision, action=replace(decision.action, names=names)))
        return replace(whole, decisions=tuple(decisions))


def _without(picture: Picture, *phases: PilotPhase) -> Picture:
    """Pilots of these phases are not counted against any limit."""
    return replace(picture, kinds=Counter({k: n for k, n in picture.kinds.items() if k[-1] not in phases}))


@planted("cap", itself="cap", tight=True)
class LimitsNotReduced(Provisioner):
    """Every cycle asks for as many as the limit says, whatever is there already."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return super().decide(_without(picture, *P))


@planted("cap", itself="cap", tight=True)
class InFlightNotCounted(Provisioner):
    """Only what the site lists is counted; what was asked for a moment ago is not there yet."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return super().decide(_without(picture, P.EXPECTED))


class OldListings(Provisioner):
    """Every third listing is an older one than the last, as from the second of two servers with a cache."""

    def observe(self, memory: Memory) -> Snapshot:
        for name, backend in self.doors.backends.items():
            if not isinstance(backend, _OldNow):
                self.doors.backends[name] = _OldNow(backend)
        return super().observe(memory)


class _OldNow:
    """A backend behind a cache; all but its listings is as it was."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.answers: list[SiteListing] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def list(self, *, now: Instant) -> SiteListing:
        self.answers.append(self.inner.list(now=now))
        return self.answers[-4 if len(self.answers) % 3 == 0 and len(self.answers) > 3 else -1]


@planted("cap", itself="cap", tight=True, right=OldListings)
class UnknownNotCounted(OldListings):
    """A pilot that is missing from a listing makes room for another, and then comes back."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return super().decide(_without(picture, P.UNKNOWN))


@planted("cap", itself="cap", tight=True)
class NoOwnerLimit(Provisioner):
    """Limits of owners are read and never applied."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        owners = tuple(replace(owner, limits=Limits()) for owner in self.rules.owners)
        return decide(picture, replace(self.rules, owners=owners), self.policy)


@planted("cap", itself="cap", tight=True)
class NoPoolLimit(Provisioner):
    """The limits of a site are kept, those of a pool, which spans sites, are not."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        pools = tuple(replace(pool, limits=Limits()) for pool in self.rules.pools)
        return decide(picture, replace(self.rules, pools=pools), self.policy)


@planted("rate", itself="cap", tight=True)
class NoRate(Provisioner):
    """All that fits under the limit is asked for at once."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return decide(picture, every_site(self.rules, limits=Limits(live_max=12)), self.policy)


@planted("rate", weather="failing")
class NoBreaker(Provisioner):
    """Failures are counted and shown, and pilots are asked for all the same."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return super().decide(replace(picture, health={}))
