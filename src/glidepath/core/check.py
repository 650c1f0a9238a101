"""What must hold for any plan. Used before every act, after every simulated step, and in tests.

A picture, the rules and a plan come in, breaches go out. It counts by itself and shares no arithmetic with
`decide`, so that one mistake does not hide the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Plan, Seen
from glidepath.core.provision.offer import Limits, Rules
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import (
    COMING,
    ENDED,
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    SiteState,
    Submit,
    Withdraw,
    WriteOff,
)
from glidepath.core.quantity import Instant, Owner, SiteName

_OVER = (SiteState.ENDED, SiteState.FAILED, SiteState.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that does not hold, by its name in the design, and what broke it."""

    invariant: str
    what: str


def check(picture: Picture, rules: Rules, plan: Plan[PilotAction]) -> tuple[Breach, ...]:
    submits = [action for action in plan.actions if isinstance(action, Submit)]
    found: list[Breach] = []
    found += _caps(picture, rules, submits)
    found += _budgets(picture, rules, submits)
    found += _once(picture, submits)
    found += _together(picture, rules, plan)
    found += _seen_only(picture, rules, plan)
    found += _never_kill(picture, plan)
    found += _unknown_is_not_gone(picture, plan)
    found += _explained(picture, rules, plan)
    return tuple(found)


def _caps(picture: Picture, rules: Rules, submits: list[Submit]) -> list[Breach]:
    """live + unknown + in flight never exceeds any limit, nor do creates per cycle and per second."""
    if not submits:
        return []
    live: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    counts = Counter((t.site, t.offer, t.pool, t.owner, t.phase) for t in picture.tracks)
    for (site_name, offer_key, pool, owner, phase), count in counts.items():
        for scope in _scopes(site_name, offer_key, pool, owner):
            live[scope] += count
            # What is unknown may be in a site's queue still.
            pending[scope] += count if phase in COMING or phase is PilotPhase.UNKNOWN else 0
    for submit in submits:
        for scope in _scopes(submit.site, submit.offer, submit.pool, submit.owner):
            asked[scope] += len(submit.names)
    elapsed_s = 1 if picture.memory.at is None else max(1, picture.now - picture.memory.at)
    limits: dict[str, Limits] = {"overall": rules.limits}
    limits |= {f"site {each.name}": each.limits for each in rules.sites}
    limits |= {f"offer {each.key}": each.limits for site in rules.sites for each in site.offers}
    limits |= {f"pool {each.name}": each.limits for each in rules.pools}
    for site in rules.sites:
        limits |= {f"pool {pool} at {site.name}": each for pool, each in site.pool_limits}
    named = {each.owner: each.limits for each in rules.owners}
    everyone = named.pop(Owner("*"), None)
    for scope in asked:
        if everyone is not None and scope.startswith("owner ") and scope != "owner ":
            limits[scope] = everyone
    limits |= {f"owner {name}": limit for name, limit in named.items()}
    found: list[Breach] = []
    for scope in sorted(scope for scope in limits if asked[scope]):
        found += _cap(
            scope,
            limits[scope],
            live=live[scope],
            pending=pending[scope],
            asked=asked[scope],
            elapsed_s=elapsed_s,
        )
    return found


def _scopes(site: str, offer: str, pool: str, owner: str) -> tuple[str, ...]:
    at_site = f"pool {pool} at {site}"
    return ("overall", f"site {site}", f"offer {offer}", f"pool {pool}", f"owner {owner}", at_site)


def _cap(scope: str, limits: Limits, *, live: int, pending: int, asked: int, elapsed_s: int) -> list[Breach]:
    found = []
    for word, limit, count in (
        ("live_max", limits.live_max, live + asked),
        ("pending_max", limits.pending_max, pending + asked),
        ("per_cycle_max", limits.per_cycle_max, asked),
        ("per_s_max", None if limits.per_s_max is None else limits.per_s_max * elapsed_s, asked),
    ):
        if limit is not None and count > limit:
            found.append(Breach("cap", f"{scope}: {word} {limit} exceeded by {count - limit}"))
    return found


def _budgets(picture: Picture, rules: Rules, submits: list[Submit]) -> list[Breach]:
    """What was spent, what lives can cost and what is asked for can cost never exceed a budget together."""
    found: list[Breach] = []
    offers, told = rules.offers(), {each.budget: each for each in picture.snapshot.spent}
    for budget in rules.budgets:
        asked = 0.0
        spent = told.get(budget.name)
        for submit in submits:
            price = offers[submit.offer].price_milli / 1000 if submit.offer in offers else 0.0
            if not budget.sites or submit.site in budget.sites:
                left_s = submit.lifetime_s if spent is None else spent.ends_at - picture.now
                asked += len(submit.names) * price * max(0, min(submit.lifetime_s, left_s)) / 3600
        if not asked:
            continue
        if spent is None:
            found.append(Breach("budget", f"{budget.name}: nobody knows what was spent of it"))
            continue
        lives = 0.0
        for track in picture.tracks:
            offer = offers.get(track.offer)
            if offer is not None and (not budget.sites or track.site in budget.sites):
                start = max(picture.now if track.joined_at is None else track.joined_at, spent.begins_at)
                born = picture.now if track.started_at is None else track.started_at
                end = Instant(born + offer.lifetime_s) if track.ends_at is None else track.ends_at
                lives += offer.price_milli / 1000 * max(0, min(end, spent.ends_at) - start) / 3600
        over = asked + lives + (spent.micro - budget.amount_micro) / 1e6
        if over > 1e-6:
            found.append(Breach("budget", f"{budget.name}: exceeded by {over:g}"))
    return found


def _once(picture: Picture, submits: list[Submit]) -> list[Breach]:
    """One intent, at most one live pilot: a name is never used twice."""
    if not submits:
        return []
    names = Counter(name for submit in submits for name in submit.names)
    known = {t.name for t in picture.tracks} | {t.name for t in picture.memory.tracks}
    for _, sighting in picture.snapshot.sites:
        if isinstance(sighting, Seen):
            known |= {pilot.name for pilot in sighting.value.pilots}
    known |= {name for name, _ in picture.memory.cleared}
    repeated = sorted(name for name, times in names.items() if times > 1 or name in known)
    return [Breach("once", f"the name `{name}` is used twice") for name in repeated]


def _together(picture: Picture, rules: Rules, plan: Plan[PilotAction]) -> list[Breach]:
    """Pilots that one request starts are asked for all at once, and what one job of a site is goes whole."""
    found: list[Breach] = []
    sizes = {offer.key: offer.together for site in rules.sites for offer in site.offers}
    for action in plan.actions:
        if isinstance(action, Submit):
            together = sizes.get(action.offer, 1)
            if action.together != together or len(action.names) % together:
                what = f"{len(action.names)} pilots of `{action.offer}`, {action.together} at a time"
                found.append(Breach("together", f"asks for {what}, where {together} come together"))
    going = {t.name: a.site for a in plan.actions if isinstance(a, Withdraw) for t in a.pilots}
    if not going:
        return found
    jobs = {(t.site, t.native_id) for t in picture.tracks if t.native_id and going.get(t.name) == t.site}
    for track in picture.tracks:
        if (track.site, track.native_id) in jobs and track.name not in going and not track.leaving:
            found.append(Breach("together", f"`{track.name}` stays, and its job `{track.native_id}` goes"))
    return found


def _site_trusted(picture: Picture, rules: Rules, name: SiteName) -> bool:
    site = next((site for site in rules.sites if site.name == name), None)
    sighting = dict(picture.snapshot.sites).get(name)
    return (
        site is not None
        and isinstance(sighting, Seen)
        and sighting.value.complete
        and picture.now - sighting.at <= site.stale_s_max
    )


def _pool_trusted(picture: Picture, rules: Rules, name: str, *, all_demand: bool) -> bool:
    pool = next((pool for pool in rules.pools if pool.name == name), None)
    if pool is None:
        return False
    sightings = [sighting for at, sighting in picture.snapshot.slots if at == name]
    demand = [sighting for at, _, sighting in picture.snapshot.demand if at == name]
    fresh = [
        isinstance(s, Seen) and s.value.complete and picture.now - s.at <= pool.stale_s_max for s in demand
    ]
    slots = [
        isinstance(s, Seen) and s.value.complete and picture.now - s.at <= pool.stale_s_max for s in sightings
    ]
    return bool(slots) and all(slots) and any(fresh) and (all(fresh) or not all_demand)


def _seen_only(picture: Picture, rules: Rules, plan: Plan[PilotAction]) -> list[Breach]:
    """No decision on bad data: no create and no delete on an unseen, partial or old source."""
    found: list[Breach] = []
    if not plan.actions:
        return found
    pool_of = {t.name: t.pool for t in picture.tracks}
    for decision in plan.decisions:
        action = decision.action
        if action is None or isinstance(action, WriteOff):
            continue
        if not _site_trusted(picture, rules, action.site):
            found.append(
                Breach("no decision on bad data", f"acts at `{action.site}`, which was not fully seen")
            )
        if isinstance(action, Submit) and not _pool_trusted(picture, rules, action.pool, all_demand=False):
            found.append(Breach("no decision on bad data", f"asks for `{action.pool}`, which was not seen"))
        if decision.reason.because in (Because.SURPLUS_IDLE, Because.SURPLUS_PENDING):
            assert isinstance(action, Withdraw | Drain)
            pools = {pool_of.get(target.name, "") for target in action.pilots}
            blind = sorted(p for p in pools if not _pool_trusted(picture, rules, p, all_demand=True))
            found += [Breach("no decision on bad data", f"takes from `{p}`, not fully seen") for p in blind]
    return found


def _never_kill(picture: Picture, plan: Plan[PilotAction]) -> list[Breach]:
    """A pilot that has joined is only drained, and a claimed one only for a window or an operator's word."""
    found: list[Breach] = []
    if not any(isinstance(action, Withdraw | Drain) for action in plan.actions):
        return found
    tracks = {t.name: t for t in picture.tracks}
    for decision in plan.decisions:
        match decision.action:
            case Withdraw(_, pilots):
                joined = [t.name for t in pilots if tracks[t.name].phase is not PilotPhase.PENDING]
                found += [Breach("never kill", f"`{name}` is withdrawn but not pending") for name in joined]
            case Drain(_, pilots) if decision.reason.because not in (Because.WINDOW_DRAIN, Because.DRAINED):
                for target in pilots:
                    slot = picture.slots.get(target.name)
                    if slot is None or slot.claims or tracks[target.name].phase is not PilotPhase.IDLE:
                        found.append(Breach("never kill", f"`{target.name}` is drained but not proven idle"))
            case _:
                pass
    return found


def _unknown_is_not_gone(picture: Picture, plan: Plan[PilotAction]) -> list[Breach]:
    """Every pilot that is listed alive is on the books, and only what has ended is cleared."""
    found: list[Breach] = []
    booked = {t.name for t in picture.tracks}
    over = {lost.track.name for lost in picture.lost}
    cleared = dict(picture.memory.cleared)
    unbooked: set[str] = set()
    for site, sighting in picture.snapshot.sites:
        if isinstance(sighting, Seen) and picture.closed_sites.get(site) in (None, Because.SITE_PARTIAL):
            for pilot in sighting.value.pilots:
                if pilot.name in booked or pilot.state in _OVER:
                    continue
                # A report from before it was closed is old news; one from after it means that it lives.
                if pilot.name not in over and pilot.since > cleared.get(pilot.name, -1):
                    unbooked.add(pilot.name)
    found += [
        Breach("unknown is not gone", f"`{name}` is listed alive and not on the books")
        for name in sorted(unbooked)
    ]
    for action in plan.actions:
        if isinstance(action, Clear | WriteOff):
            odd = [e.name for e in action.ended if e.phase not in ENDED or e.name in booked]
            found += [Breach("unknown is not gone", f"`{name}` is cleared and not over") for name in odd]
    return found


def _explained(picture: Picture, rules: Rules, plan: Plan[PilotAction]) -> list[Breach]:
    """Every shape, every site and every offer has a decision, also where nothing is done."""
    about = {decision.about for decision in plan.decisions}
    due: Iterable[str] = [
        *(f"demand:{wanted.demand.name}" for wanted in picture.wanted),
        *(f"site:{site.name}" for site in rules.sites),
        *(f"offer:{offer.key}" for site in rules.sites for offer in site.offers),
    ]
    return [Breach("explained", f"nothing is said about `{name}`") for name in due if name not in about]


def without_actions(plan: Plan[PilotAction], *, books_too: bool = True) -> Plan[PilotAction]:
    """The same plan with nothing to do: for shadow mode, and for a plan that broke an invariant.

    Writing off touches only our own books; `books_too` says whether that is dropped as well.
    """
    kept: list[Decision[PilotAction]] = [
        d if isinstance(d.action, WriteOff) and not books_too else Decision(d.about, d.reason)
        for d in plan.decisions
    ]
    return Plan(plan.cycle, plan.at, tuple(kept), plan.wake_after_s, plan.marks)
