"""The phase of a pilot from what its site and its pool say of it, and the books kept of its seconds.

One site report and one slot come in, a phase goes out. Unseen is not empty: a pilot that had joined keeps
its phase while its pool cannot be seen, and a pilot that is missing is unknown before it is gone.
"""

from __future__ import annotations

from glidepath.core.provision.pilot import ENDED, JOINED, NEXT, Ended, PilotPhase, SiteState, Slot, Track
from glidepath.core.provision.quick import copied
from glidepath.core.quantity import Instant

P = PilotPhase

# What the site's word means for a pilot that its pool does not know.
ALONE: dict[SiteState, PilotPhase] = {
    SiteState.PENDING: P.PENDING,
    SiteState.RUNNING: P.STARTING,
    SiteState.LEAVING: P.DRAINING,
    SiteState.ENDED: P.DONE,
    SiteState.FAILED: P.FAILED,
    SiteState.UNKNOWN: P.UNKNOWN,
    SiteState.WITHDRAWN: P.DONE,
}


def phase_by_slot(slot: Slot) -> PilotPhase:
    if slot.draining:
        return P.DRAINING
    return P.BUSY if slot.claims else P.IDLE


def phase_of(state: SiteState, slot: Slot | None, joined_as: PilotPhase | None) -> PilotPhase:
    """`joined_as` is the phase of a pilot that had joined and whose pool is unseen or silent for now."""
    alone = ALONE[state]
    if alone in ENDED or state is SiteState.LEAVING:
        return alone
    if slot is not None:
        # The pool speaks with the pilot itself; a site's listing may trail behind.
        return phase_by_slot(slot)
    return joined_as if joined_as is not None else alone


def advanced(track: Track, phase: PilotPhase, now: Instant) -> Track:
    """The track in its new phase, with the seconds of the old one booked; the same object if unchanged."""
    if phase is track.phase:
        return track
    assert phase in NEXT[track.phase], f"{track.name}: {track.phase} cannot become {phase}"
    spent_s = max(0, now - track.since)
    busy_s = track.busy_s + (spent_s if track.phase in (P.BUSY, P.DRAINING) else 0)
    idle_s = track.idle_s + (
        spent_s if track.phase is P.IDLE or (track.phase is P.UNKNOWN and track.joined_at is not None) else 0
    )
    started_at, joined_at = track.started_at, track.joined_at
    if joined_at is None and phase in JOINED and phase is not P.DRAINING:
        joined_at = now
    if started_at is None and (joined_at is not None or phase in (P.STARTING, P.DRAINING)):
        started_at = now
    return copied(
        track,
        phase=phase,
        since=now,
        busy_s=busy_s,
        idle_s=idle_s,
        started_at=started_at,
        joined_at=joined_at,
    )


def ended(track: Track, why: str) -> Ended:
    """The closing statistics. The seconds add up: asked to ended, no gap and no overlap."""
    assert track.phase in ENDED, track.phase
    total_s = max(0, track.since - track.asked_at)
    pending_until = track.started_at if track.started_at is not None else track.since
    pending_s = min(total_s, max(0, pending_until - track.asked_at))
    busy_s = min(track.busy_s, total_s - pending_s)
    idle_s = min(track.idle_s, total_s - pending_s - busy_s)
    rest_s = total_s - pending_s - busy_s - idle_s
    failed = track.phase is not P.DONE and track.joined_at is None
    return Ended(
        name=track.name,
        site=track.site,
        offer=track.offer,
        pool=track.pool,
        owner=track.owner,
        phase=track.phase,
        why=why,
        asked_at=track.asked_at,
        ended_at=track.since,
        pending_s=pending_s,
        starting_s=0 if failed else rest_s,
        busy_s=busy_s,
        idle_s=idle_s,
        failed_s=rest_s if failed else 0,
        jobs_run=track.jobs_run,
        cpu_milli=track.size.cpu_milli,
        node=track.node,
    )
