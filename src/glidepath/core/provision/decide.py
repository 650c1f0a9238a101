"""Deciding: a picture, the rules and a policy come in, a plan goes out, with a reason for every line of it.

Every shape, every offer and every site gets a decision, also when nothing is done about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Fact, Plan, Reason, Seen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import First, Kind, Rules
from glidepath.core.provision.picture import Picture, Wanted
from glidepath.core.provision.pilot import COMING, PilotAction, Submit
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.retire import retire
from glidepath.core.provision.serve import Service
from glidepath.core.provision.share import Market, OpenOffer, market
from glidepath.core.quantity import Instant, NodeName, Owner, PilotName, PoolName, SiteName

QUIET_MARK = "quiet"
QUIET_MAX = 12
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# Later than any instant, for what has no age that is known.
NEVER = 1 << 62
# How much of each a group of demand has. The age as an instant, so that no clock is needed: older is more.
MUCH: dict[First, Callable[[Demand], int]] = {
    First.GPUS: lambda demand: demand.shape.request.gpus,
    First.CPUS: lambda demand: demand.shape.request.cpu_milli,
    First.MEMORY: lambda demand: demand.shape.request.memory_mib,
    First.DISK: lambda demand: demand.shape.request.disk_mib,
    First.OLDEST: lambda demand: -(NEVER if demand.oldest_at is None else demand.oldest_at),
    First.JOBS: lambda demand: demand.idle,
}


def decide(picture: Picture, rules: Rules, policy: Policy) -> Plan[PilotAction]:
    desk = market(picture, rules)
    service = Service(picture, rules, policy, desk)
    served = [service.serve(wanted) for wanted in in_turn(picture.wanted, rules.first)]
    retiring, marks = retire(picture, rules, service.shelves, policy)
    decisions: list[Decision[PilotAction]] = [
        Decision(f"demand:{row.wanted.demand.name}", row.reason) for row in served
    ]
    decisions += _site_decisions(picture, rules)
    decisions += _offer_decisions(picture, desk)
    decisions += retiring
    acts = any(d.action is not None for d in decisions)
    calm = not acts and not any(row.uncovered for row in served) and not _coming(picture)
    quiet = min(QUIET_MAX, picture.memory.quiet + 1) if calm else 0
    return Plan(
        cycle=picture.memory.cycle + 1,
        at=picture.now,
        decisions=tuple(decisions),
        wake_after_s=_wake_after_s(picture, rules, quiet),
        marks=(*marks, (QUIET_MARK, Instant(quiet))),
    )


def in_turn(wanted: Iterable[Wanted], first: tuple[tuple[First, bool], ...]) -> list[Wanted]:
    """In the order in which they are served; what is equal in all that is named stays as it was."""

    def turn(each: Wanted) -> tuple[int, ...]:
        much = [MUCH[by](each.demand) if smallest else -MUCH[by](each.demand) for by, smallest in first]
        # Held demand first: it may not ask, but what it was promised must not be given away as surplus.
        return (not each.held, *much)

    return sorted(wanted, key=turn)


def _coming(picture: Picture) -> bool:
    return any(phase in COMING for *_, phase in picture.kinds)


def _wake_after_s(picture: Picture, rules: Rules, quiet: int) -> int:
    """Short while something happens, longer and longer while nothing does, never past what is due."""
    wait_s = min(rules.cycle_s_max, rules.cycle_s_min << quiet)
    due = [window.opens_at for window in picture.snapshot.windows]
    due += [window.closes_at for window in picture.snapshot.windows]
    due += [health.retry_at for health in picture.health.values() if health.retry_at is not None]
    later = [at - picture.now for at in due if at > picture.now]
    return max(rules.cycle_s_min, min([wait_s, *later]))


def _site_decisions(picture: Picture, rules: Rules) -> list[Decision[PilotAction]]:
    decisions: list[Decision[PilotAction]] = []
    live: Counter[SiteName] = Counter()
    for (_, site_name, *_), count in picture.kinds.items():
        live[site_name] += count
    for site in rules.sites:
        because = picture.closed_sites.get(site.name) or Because.SITE_OPEN
        quarantined = sorted(node for node in _avoid(picture, site.name))
        facts: list[tuple[str, int | str]] = [("live", live[site.name])]
        if quarantined:
            facts.append(("quarantined", ",".join(quarantined)))
            listed = dict(picture.snapshot.sites).get(site.name)
            if isinstance(listed, Seen) and not listed.value.avoids_nodes:
                facts.append(("but", "the site cannot be told which nodes to avoid"))
        decisions.append(Decision(f"site:{site.name}", Reason(because, tuple(facts))))
    return decisions


def _avoid(picture: Picture, site: SiteName) -> tuple[NodeName, ...]:
    return tuple(
        sorted(node.node for (at, _), node in picture.nodes.items() if at == site and node.until is not None)
    )


def _offer_decisions(picture: Picture, desk: Market) -> list[Decision[PilotAction]]:
    decisions: list[Decision[PilotAction]] = []
    names = _Names(picture.memory)
    asks: dict[str, list[tuple[PoolName, Kind, Owner, int]]] = {}
    for (pool, kind, owner), count in desk.asks.items():
        asks.setdefault(kind.offer, []).append((pool, kind, owner, count))
    for key in sorted(desk.offers):
        entry = desk.offers[key]
        reason = _offer_reason(entry)
        rows = sorted(asks.get(key, []), key=lambda r: (r[0], r[1].size, r[1].traits, r[2]))
        if not rows:
            decisions.append(Decision(f"offer:{key}", reason))
        for pool, kind, owner, count in rows:
            submit = Submit(
                site=entry.site.name,
                offer=kind.offer,
                pool=pool,
                size=kind.size,
                traits=kind.traits,
                lifetime_s=entry.lifetime_s,
                idle_s=entry.offer.idle_s,
                names=names.take(count),
                owner=owner,
                avoid=_avoid(picture, entry.site.name),
                together=entry.offer.together,
            )
            decisions.append(Decision(f"offer:{key}", reason, submit))
    return decisions


def _offer_reason(entry: OpenOffer) -> Reason:
    facts: tuple[Fact, ...] = (
        ("live", entry.room.live),
        ("pending", entry.room.pending),
        ("asked", entry.asked),
    )
    together = entry.offer.together
    if together > 1:
        facts = (*facts, ("together", together))
    if entry.closed is not None:
        return Reason(entry.closed, (*facts, *entry.why))
    if entry.asked:
        return Reason(Because.ASKED_HERE, facts)
    full_pools = entry.full_pools
    if entry.full or full_pools:
        left = min([entry.left, *map(entry.left_for, full_pools)])
        if not entry.full:  # Only for some: they are named, the others may go on.
            facts = (*facts, ("pool", ",".join(full_pools)))
        elif (purse := entry.short_of) is not None:
            return Reason(Because.OVER_BUDGET, (*facts, *purse.why))
        elif entry.site_takes is not None:
            facts = (*facts, ("site_takes", entry.site_takes))
        return Reason(Because.AT_LIMIT, (*facts, ("room", left)) if together > 1 else facts)
    return Reason(Because.OPEN if entry.wanted_by else Because.NO_DEMAND, facts)


class _Names:
    """Names from incarnation, cycle and serial: the same plan makes the same names, a repeat is harmless."""

    def __init__(self, memory: Memory) -> None:
        self.prefix = f"gp-{memory.incarnation}-{base36(memory.cycle + 1)}"
        self.serial = 0

    def take(self, count: int) -> tuple[PilotName, ...]:
        first = self.serial
        self.serial += count
        return tuple(PilotName(f"{self.prefix}-{base36(n)}") for n in range(first, self.serial))


def base36(number: int) -> str:
    number, rest = divmod(number, 36)
    digits = _DIGITS[rest]
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits
