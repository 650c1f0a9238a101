"""One kept cycle read for people: an entry of the journal comes in, a scene with plain items goes out.

The same pure functions that decided are asked again for the picture, so what is shown is what was decided
on. It refuses to read anything live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from glidepath.cli.session import iso, located, opened
from glidepath.cli.verb import Source, Stop, Verb
from glidepath.core.cycle import Decision, Seen, Sighting
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.phase import ended
from glidepath.core.provision.picture import Picture, look
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    SiteState,
    Submit,
    Track,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.remember import remember
from glidepath.core.quantity import Instant
from glidepath.core.units import shown_resources
from glidepath.journal.entry import EndedPilot, Entry

# One late cycle is nothing to worry about; after this it is likelier that nobody runs.
LATE_S_MAX = 60
ASIDE_SHOWN_MAX = 10
# Of a site's own words about its pilots, and the states in which they say why something does not go on.
WORDS_SHOWN_MAX = 5
TELLING = frozenset({SiteState.PENDING, SiteState.LEAVING, SiteState.FAILED, SiteState.UNKNOWN})


@dataclass(frozen=True)
class Scene:
    """A cycle with the picture it was decided on, the memory it left, and its age now."""

    entry: Entry
    picture: Picture
    after: Memory
    age_s: int
    trouble: str = ""  # why the journal lags behind what a running glidepath knows

    @property
    def tracks(self) -> tuple[Track, ...]:
        """All pilots that are not over, those asked for in this very cycle included."""
        return tuple(track for track in self.after.tracks if track.live)

    @property
    def over(self) -> tuple[EndedPilot, ...]:
        """Pilots that are over, the last first; the journal has them once nothing is left at their site."""
        cycle, wall_s, now = self.entry.cycle, self.entry.moment.wall_s, self.entry.snapshot.now
        found = [ended(lost.track, lost.why) for lost in self.picture.lost]
        rows = [EndedPilot(one, cycle, wall_s + (one.ended_at - now)) for one in found]
        return tuple(sorted(rows, key=lambda row: (-row.ended_wall_s, row.ended.name)))

    def ago_s(self, instant: Instant) -> int:
        """How long ago something on the steady timeline was, seen from now."""
        return max(self.entry.snapshot.now - instant + self.age_s, 0)

    def wall(self, instant: Instant | None) -> str | None:
        if instant is None:
            return None
        return iso(self.entry.moment.wall_s + (instant - self.entry.snapshot.now))


def scene_now(verb: Verb) -> Scene:
    """The last cycle: from the journal, or from the memory of a running glidepath whose store has failed."""
    from glidepath.status import fetch

    place = located(verb)
    remembered, trouble = fetch(place.where.home) or (None, "")
    wall = verb.caller.wall()
    try:
        with opened(verb, place=place) as session:
            if remembered is None or not trouble:
                return scene_of(session.latest(), wall)
    except Stop as stop:
        if remembered is None:
            raise
        trouble = trouble or str(stop)
    return replace(scene_of(remembered, wall), trouble=trouble)


def scene_of(entry: Entry, wall: float) -> Scene:
    picture = look(entry.snapshot, entry.memory, entry.rules)
    after = remember(picture, entry.plan, entry.outcomes or (), entry.rules)
    return Scene(entry, picture, after, max(int(wall - entry.moment.wall_s), 0))


def sources_of(scene: Scene, *, site: str | None = None, pool: str | None = None) -> tuple[Source, ...]:
    """Every source of the cycle, or of one site or pool, with its age now and what was wrong with it."""
    snapshot, rules = scene.entry.snapshot, scene.entry.rules
    pools = {pool.name: pool.stale_s_max for pool in rules.pools}
    sites = {site.name: site.stale_s_max for site in rules.sites}
    found = [_cycle(scene)]
    if scene.trouble:
        found.append(Source("store", None, "failing", f"{scene.trouble}; this is from memory"))
    for of, source, demand in snapshot.demand:
        if pool in (None, of):
            found.append(_source(scene, f"demand {of}/{source}", demand, pools.get(of, 0)))
    for of, slots in snapshot.slots:
        if pool in (None, of):
            found.append(_source(scene, f"pool {of}", slots, pools.get(of, 0)))
    for at, listing in snapshot.sites:
        if site in (None, at):
            found.append(_source(scene, f"site {at}", listing, sites.get(at, 0)))
    return tuple(found)


def site_notes(scene: Scene, site: str | None = None) -> tuple[str, ...]:
    """What sites say besides numbers, and why pilots there wait or have failed, the commonest first."""
    notes: list[str] = []
    for at, listing in scene.entry.snapshot.sites:
        if site not in (None, at) or not isinstance(listing, Seen):
            continue
        notes += [f"{at}: {note}" for note in listing.value.notes]
        words = Counter(
            f"{pilot.state}: {pilot.note}"
            for pilot in listing.value.pilots
            if pilot.note and pilot.state in TELLING
        )
        for said, many in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:WORDS_SHOWN_MAX]:
            notes.append(f"{at}: {many} pilot{'s' * (many > 1)} {said}")
    return tuple(notes)


def notes_of(scene: Scene, pool: str | None = None) -> tuple[str, ...]:
    """What pools and their sources say besides numbers: jobs set aside, schedds that are not trusted."""
    notes: list[str] = []
    for of, sighting in scene.entry.snapshot.slots:
        if pool in (None, of) and isinstance(sighting, Seen):
            notes += [f"{of}: {note}" for note in sighting.value.notes]
            if sighting.value.foreign:
                many = sighting.value.foreign
                notes.append(
                    f"{of}: {many} slot{'s' * (many > 1)} said to be of our pilots and signed by "
                    "somebody else are not counted"
                )
    for of, source, demand in scene.entry.snapshot.demand:
        if pool in (None, of) and isinstance(demand, Seen):
            aside = demand.value.set_aside
            notes += [f"{of}/{source}: {job.job} is set aside: {job.why}" for job in aside[:ASIDE_SHOWN_MAX]]
            if len(aside) > ASIDE_SHOWN_MAX:
                notes.append(f"{of}/{source}: {len(aside) - ASIDE_SHOWN_MAX} more are set aside")
    return tuple(notes)


def late(scene: Scene) -> bool:
    """Whether the next cycle is so long overdue that there is probably nobody to run it."""
    return scene.age_s > scene.entry.plan.wake_after_s + LATE_S_MAX


def _cycle(scene: Scene) -> Source:
    name = f"cycle {scene.entry.cycle}"
    if late(scene):
        return Source(name, scene.age_s, "stale", "is `glidepath up` running?")
    return Source(name, scene.age_s)


def _source(scene: Scene, name: str, sighting: Sighting[Any], stale_s_max: int) -> Source:
    if not isinstance(sighting, Seen):
        return Source(name, scene.ago_s(sighting.since), "unseen", sighting.why)
    age_s = scene.ago_s(sighting.at)
    if not sighting.value.complete:
        return Source(name, age_s, "partial", "some of it may be missing")
    if scene.entry.snapshot.now - sighting.at > stale_s_max:
        return Source(name, age_s, "stale", f"older than {stale_s_max} s when it was decided on")
    return Source(name, age_s)


def decision_item(decision: Decision[PilotAction]) -> dict[str, Any]:
    return {
        "about": decision.about,
        "because": decision.reason.because.name,
        "why": str(decision.reason),
        "facts": dict(decision.reason.facts),
        "action": verb_of(decision.action),
        "pilots": pilots_of(decision.action),
    }


def verb_of(action: PilotAction | None) -> str:
    return "" if action is None else type(action).__name__.lower()


def pilots_of(action: PilotAction | None) -> list[str]:
    match action:
        case Submit():
            return list(action.names)
        case Withdraw() | Drain():
            return [target.name for target in action.pilots]
        case Clear() | WriteOff():
            return [ended.name for ended in action.ended]
        case None:
            return []


def action_text(decision: Decision[PilotAction]) -> str:
    """`submit 3 x 4 CPU 8GiB`; nothing where something is left alone."""
    action = decision.action
    if action is None:
        return ""
    count = len(pilots_of(action))
    return (
        f"submit {count} x {shown_resources(action.size)}"
        if isinstance(action, Submit)
        else f"{verb_of(action)} {count}"
    )


def decided(scene: Scene, about: str) -> list[Decision[PilotAction]]:
    return [decision for decision in scene.entry.plan.decisions if decision.about == about]


def why_of(scene: Scene, about: str) -> str:
    """The sentences that were decided about something, each once."""
    return "; ".join(dict.fromkeys(str(decision.reason) for decision in decided(scene, about)))


def phases(tracks: Iterable[Track]) -> dict[str, int]:
    """Live pilots by phase, in the words of the tables."""
    counts = {
        phase.value: 0
        for phase in PilotPhase
        if phase not in (PilotPhase.DONE, PilotPhase.FAILED, PilotPhase.GONE)
    }
    for track in tracks:
        counts[track.phase.value] += 1
    return counts


def pilot_item(scene: Scene, track: Track) -> dict[str, Any]:
    return {
        "name": track.name,
        "site": track.site,
        "offer": track.offer,
        "pool": track.pool,
        "owner": track.owner,
        "phase": track.phase.value,
        "phase_s": scene.ago_s(track.since),
        "size": shown_resources(track.size),
        "traits": dict(track.traits),
        "asked": scene.wall(track.asked_at),
        "age_s": scene.ago_s(track.asked_at),
        "started": scene.wall(track.started_at),
        "joined": scene.wall(track.joined_at),
        "ends": scene.wall(track.ends_at),
        "node": track.node,
        "native_id": track.native_id,
        "jobs_run": track.jobs_run,
        "leaving": track.leaving,
        "note": track.note,
    }
