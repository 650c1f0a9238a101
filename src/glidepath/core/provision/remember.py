"""Remembering: what was seen, planned and done becomes the memory of the next cycle. A pure fold.

A submit that succeeded or whose answer was lost is expected from now on, until it is listed or written off;
one that failed or was refused counts against its offer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from glidepath.core.cycle import Did, Done, Failed, Outcome, Plan, Refused, Unsure
from glidepath.core.provision import health as fare
from glidepath.core.provision.decide import QUIET_MARK
from glidepath.core.provision.memory import Health, Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    Submit,
    Track,
    Withdraw,
    WriteOff,
)
from glidepath.core.quantity import Instant, PilotName

# How long a cleared name is remembered, so that a lagging listing does not bring it back.
CLEARED_KEPT_S = 3600
CLEARED_KEPT_MAX = 20_000
_NAME = attrgetter("name")
_UNHEARD: Outcome = Unsure("no answer was recorded")


def remember(picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did], rules: Rules) -> Memory:
    answers: dict[tuple[str, str], Outcome] = {(did.verb, did.about): did.outcome for did in outcomes}
    health = dict(picture.health)
    expected: list[Track] = []
    leaving: dict[str, str] = {}
    over: list[PilotName] = []
    sites = {site.name: site for site in rules.sites}
    for decision in plan.decisions:
        match decision.action:
            case Submit() as submit:
                for names in submit.groups:
                    # One request had one answer; it counts once, however many pilots it was for.
                    outcome = answers.get(("submit", names[0]), _UNHEARD)
                    if isinstance(outcome, Done | Unsure):
                        expected += [_expected(submit, name, picture.now) for name in names]
                    elif isinstance(outcome, Failed | Refused) and submit.site in sites:
                        _count_failure(health, submit, outcome, picture.now, rules=rules)
            case Withdraw() | Drain() as action:
                verb = "withdraw" if isinstance(action, Withdraw) else "drain"
                for target in action.pilots:
                    if isinstance(answers.get((verb, target.name), _UNHEARD), Done):
                        leaving[target.name] = decision.reason.because.value
            case Clear() as clear:
                over += [e.name for e in clear.ended if isinstance(answers.get(("clear", e.name)), Done)]
            case WriteOff() as write_off:
                over += [e.name for e in write_off.ended]
            case None:
                pass
    gone = set(over)
    tracks = [replace(t, leaving=leaving[t.name]) if t.name in leaving else t for t in picture.tracks]
    tracks += [lost.track for lost in picture.lost if lost.track.name not in gone]
    tracks += expected
    marks = dict(plan.marks)
    return Memory(
        incarnation=picture.memory.incarnation,
        born_at=picture.memory.born_at,
        cycle=plan.cycle,
        at=picture.now,
        quiet=marks.pop(QUIET_MARK, Instant(0)),
        tracks=tuple(sorted(tracks, key=_NAME)),
        health=tuple(health[about] for about in sorted(health)),
        nodes=tuple(picture.nodes[key] for key in sorted(picture.nodes)),
        marks=tuple(sorted(marks.items())),
        held=picture.held,
        flows=picture.flows,
        unproven=picture.unproven,
        cleared=_cleared(picture, over),
    )


def _expected(submit: Submit, name: PilotName, now: Instant) -> Track:
    return Track(
        name=name,
        site=submit.site,
        offer=submit.offer,
        pool=submit.pool,
        size=submit.size,
        phase=PilotPhase.EXPECTED,
        since=now,
        asked_at=now,
        traits=submit.traits,
        owner=submit.owner,
    )


def _count_failure(
    health: dict[str, Health], submit: Submit, outcome: Failed | Refused, now: Instant, *, rules: Rules
) -> None:
    site = next(site for site in rules.sites if site.name == submit.site)
    offer = health.get(submit.offer) or Health(submit.offer)
    match outcome:
        case Refused(why):
            health[submit.offer] = fare.after_refusal(offer, why, now, site)
        case Failed(why):
            health[submit.offer] = fare.after_failure(offer, why, now, site, whole_site=False)
            whole = health.get(submit.site) or Health(submit.site)
            health[submit.site] = fare.after_failure(whole, why, now, site, whole_site=True)


def _cleared(picture: Picture, over: list[PilotName]) -> tuple[tuple[PilotName, Instant], ...]:
    kept = [row for row in picture.memory.cleared if picture.now - row[1] <= CLEARED_KEPT_S]
    kept += [(name, picture.now) for name in over]
    return tuple(kept[-CLEARED_KEPT_MAX:])
