"""The books of all pilots: listings and slots come in one by one, tracks, losses and health come out.

Mutable while one picture is being made, and nowhere else. A pilot leaves the books only on proof: the site
says that it ended, or it stayed away from complete listings for longer than the site's own bounds.
"""

from __future__ import annotations

from glidepath.core.because import Because
from glidepath.core.provision import health as fare
from glidepath.core.provision.memory import Health, Memory, NodeHealth
from glidepath.core.provision.offer import Rules, SiteRules
from glidepath.core.provision.phase import advanced, phase_by_slot, phase_of
from glidepath.core.provision.pilot import ENDED, JOINED, PilotPhase, SitePilot, SiteState, Slot, Track
from glidepath.core.provision.quick import copied
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, PilotName, PoolName, SiteName

P = PilotPhase
# A pilot past its lifetime gets this long to be seen ending; sites grant about as much themselves.
GRACE_S = 3600
OVER = (SiteState.ENDED, SiteState.FAILED, SiteState.WITHDRAWN)
# What a pilot says whose jobs all failed at once: its own word, as it comes through any site.
EATS_JOBS = "black hole:"
NOBODYS = 1 << 40  # failures of a site, of which none is more than half
# How a pilot is judged that ended by itself without having been seen in its pool.
LEFT_UNJOINED = "it ended without joining the pool"


class Books:
    def __init__(self, now: Instant, memory: Memory, rules: Rules) -> None:
        self.now = now
        self.memory_tracks = memory.tracks
        self.before = {track.name: track for track in memory.tracks}
        self._names: set[PilotName] | None = None
        self.cleared = dict(memory.cleared)
        self.sites = {site.name: site for site in rules.sites}
        self.offers = rules.offers()
        self.silence_s = {pool.name: pool.silence_s_max for pool in rules.pools}
        self.tracks: list[Track] = []
        self.unfilled: list[Track] = []
        self.lost: list[tuple[Track, str, Because, bool]] = []
        self.health: dict[str, Health] = {health.about: health for health in memory.health}
        self.nodes: dict[tuple[SiteName, str], NodeHealth] = {
            (node.site, node.node): node for node in memory.nodes if not self._paroled(node)
        }
        self._failed_jobs: set[tuple[SiteName, str]] = set()
        # After a long silence of our own, a quick end between two looks proves nothing.
        self.watched = memory.at is not None and now - memory.at <= 2 * rules.cycle_s_max

    def _paroled(self, node: NodeHealth) -> bool:
        """Its quarantine is over, or it was never that bad and has been quiet for as long."""
        site = self.sites.get(node.site)
        until = node.until
        if until is None:
            until = Instant(node.at + (site.quarantine_s if site else 0))
        return until <= self.now

    def read_listing(
        self, site: SiteName, listing: SiteListing, heard: dict[str, Slot], pools_seen: frozenset[PoolName]
    ) -> None:
        before, tracks, unfilled = self.before, self.tracks, self.unfilled
        for pilot in listing.pilots:
            name = pilot.name
            old = before.get(name)
            if old is not None:
                if old.site != site:
                    continue  # It is another's: no site may speak for what it was not asked for.
                del before[name]
            slot = heard.get(name)
            if old is None:
                if not self._met(name) and not self._old_news(pilot):
                    self._adopt(site, pilot, slot)
            elif slot is not None and _as_before(old, pilot, slot):
                tracks.append(old)
                free = slot.free
                if free.cpu_milli or free.memory_mib or free.disk_mib or free.gpus or not slot.claims:
                    unfilled.append(old)
            else:
                self._follow(old, pilot, slot, pilot.pool in pools_seen)

    def _keep(self, track: Track) -> None:
        self.tracks.append(track)
        self.unfilled.append(track)

    def _met(self, name: PilotName) -> bool:
        """Whether a listing of this look has named it already: named twice, it is one pilot all the same."""
        if self._names is None:
            self._names = {track.name for track in self.memory_tracks}
        found = name in self._names
        self._names.add(name)
        return found

    def _old_news(self, pilot: SitePilot) -> bool:
        """Of a pilot that was closed already; unless it has done something since, and then it is alive."""
        cleared_at = self.cleared.get(pilot.name)
        return cleared_at is not None and (pilot.since <= cleared_at or pilot.state in OVER)

    def _adopt(self, site: SiteName, pilot: SitePilot, slot: Slot | None) -> None:
        """A pilot of ours that memory does not know: an earlier life asked for it."""
        phase = phase_of(pilot.state, slot, None)
        since = min(pilot.since, self.now)
        joined = slot is not None and phase in JOINED
        track = Track(
            name=pilot.name,
            site=site,
            offer=pilot.offer,
            pool=pilot.pool,
            size=pilot.size,
            phase=phase,
            since=since,
            asked_at=min(pilot.asked_at, since),
            traits=pilot.traits,
            owner=pilot.owner,
            native_id=pilot.native_id,
            node=pilot.node,
            started_at=since if phase in JOINED or phase in (P.STARTING, P.DONE) else None,
            joined_at=since if joined else None,
            ends_at=_ends_at(pilot, slot),
            jobs_run=slot.jobs_run if slot else 0,
            note=pilot.note,
        )
        if phase in ENDED:
            self.lost.append((track, pilot.note or phase.value, Because.ENDED, True))
        else:
            self._keep(track)

    def _follow(self, old: Track, pilot: SitePilot, slot: Slot | None, pool_seen: bool) -> None:
        joined_as = None
        silent_since = None if pool_seen else old.silent_since
        if slot is None and old.joined_at is not None and old.phase in (*JOINED, P.UNKNOWN):
            joined_as = old.phase
            if pool_seen:
                silent_since = old.silent_since if old.silent_since is not None else self.now
                if self.now - silent_since > self.silence_s.get(old.pool, 0):
                    joined_as = P.UNKNOWN
        phase = phase_of(pilot.state, slot, joined_as)
        if old.phase in ENDED:
            phase = old.phase  # Nothing comes back from the end; an old report must not revive it.
        track = old if phase is old.phase else advanced(old, phase, self.now)
        if phase is P.IDLE and track is old and slot is not None and slot.jobs_run > old.jobs_run:
            # It worked between two looks: from now on it is idle anew, or it would be let go while in use.
            track = copied(old, since=self.now, idle_s=old.idle_s + self.now - old.since)
        ends_at = _ends_at(pilot, slot) or track.ends_at
        jobs_run = max(track.jobs_run, slot.jobs_run) if slot else track.jobs_run
        if (
            ends_at != track.ends_at
            or jobs_run != track.jobs_run
            or pilot.node != track.node
            or pilot.native_id != track.native_id
            or pilot.note != track.note
            or silent_since != track.silent_since
            or track.missing_since is not None
        ):
            track = copied(
                track,
                ends_at=ends_at,
                jobs_run=jobs_run,
                node=pilot.node or track.node,
                native_id=pilot.native_id or track.native_id,
                note=pilot.note,
                silent_since=silent_since,
                missing_since=None,
            )
        if old.joined_at is None and track.joined_at is not None:
            self._joined(track)
        if track.phase not in ENDED:
            self._keep(track)
            return
        if old.phase not in ENDED and pilot.state is not SiteState.WITHDRAWN:
            self._judge(track)
        self.lost.append((track, track.leaving or track.note or track.phase.value, Because.ENDED, True))

    def settle_unlisted(self, open_sites: frozenset[SiteName], heard: dict[str, Slot]) -> None:
        """Pilots that no listing named: expected, missing, or at a site that could not be read."""
        for name in sorted(self.before):
            old = self.before[name]
            slot = heard.get(name)
            if slot is not None and old.phase not in ENDED:
                track = advanced(old, phase_by_slot(slot), self.now)
                jobs_run = max(track.jobs_run, slot.jobs_run)
                if (track.missing_since, track.silent_since, track.jobs_run) != (None, None, jobs_run):
                    # Heard of by its pool: it is neither missing nor silent, whatever its site lists.
                    track = copied(track, missing_since=None, silent_since=None, jobs_run=jobs_run)
                if old.joined_at is None and track.joined_at is not None:
                    self._joined(track)
                self._keep(track)
            elif old.site in open_sites:
                self._settle_missing(old)
            elif self.now > self._may_live_until(old):
                self._write_off(old, Because.VANISHED, "its lifetime has passed and its site cannot be seen")
            elif old.phase in ENDED:
                self.lost.append((old, old.leaving or old.note or old.phase.value, Because.ENDED, True))
            else:
                self._keep(old)

    def _settle_missing(self, old: Track) -> None:
        rules = self.sites[old.site]
        if old.phase in ENDED:
            # It had ended, and this listing does not have it. That may be an old listing: it is cleared all
            # the same, which does nothing where nothing is left.
            self.lost.append((old, old.leaving or old.note or old.phase.value, Because.ENDED, True))
        elif old.phase is P.EXPECTED:
            if self.now - old.asked_at > rules.appear_s_max:
                waited_s = self.now - old.asked_at
                self._write_off(old, Because.NEVER_APPEARED, f"unlisted {waited_s} s after it was asked for")
            else:
                self._keep(old)
        elif old.leaving:
            self._write_off(old, Because.ENDED, old.leaving)
        else:
            since = old.missing_since if old.missing_since is not None else self.now
            if self.now - since > rules.missing_s_max:
                self._write_off(old, Because.VANISHED, f"missing from the listing for {self.now - since} s")
            else:
                track = advanced(old, P.UNKNOWN, self.now)
                self._keep(track if track.missing_since == since else copied(track, missing_since=since))

    def _write_off(self, old: Track, because: Because, why: str) -> None:
        phase = old.phase if old.phase in ENDED else (P.DONE if old.leaving else P.GONE)
        track = advanced(old, phase, self.now)
        self._judge(track, why)
        self.lost.append((track, why, because, False))

    def _may_live_until(self, track: Track) -> Instant:
        if track.ends_at is not None:
            return Instant(track.ends_at + GRACE_S)
        offer, site = self.offers.get(track.offer), self.sites.get(track.site)
        lifetime_s = offer.lifetime_s if offer else 7 * 86400
        pending_s = site.pending_s_max if site else 86400
        return Instant(track.asked_at + pending_s + lifetime_s + GRACE_S)

    def _joined(self, track: Track) -> None:
        assert track.joined_at is not None
        latency_s = track.joined_at - track.asked_at
        for about in (track.offer, track.site):
            self.health[about] = fare.after_join(self.health.get(about) or Health(about), latency_s)
        node = self.nodes.get((track.site, track.node))
        if node is not None and not node.eats:
            del self.nodes[(node.site, node.node)]

    def _judge(self, track: Track, why: str = "") -> None:
        """Was this end a failure, and whose? Of a pilot that had joined, at most its node's."""
        rules = self.sites.get(track.site)
        if rules is None or track.leaving:
            return
        if track.phase is P.DONE and (track.joined_at is not None or not self.watched):
            self._worked_on(track)
            return
        why = why or track.note or (LEFT_UNJOINED if track.phase is P.DONE else "it failed without a word")
        if track.joined_at is None:
            self._failed(track, rules, why)
        if track.node:
            self._node_failed(track, rules, why)

    def _failed(self, track: Track, rules: SiteRules, why: str) -> None:
        if track.native_id:
            # Pilots of one job of the site fail together: that is one start that went wrong, not several.
            if (track.site, track.native_id) in self._failed_jobs:
                return
            self._failed_jobs.add((track.site, track.native_id))
        for about, whole_site in ((track.offer, False), (track.site, True)):
            health = self.health.get(about) or Health(about)
            self.health[about] = fare.after_failure(health, why, self.now, rules, whole_site=whole_site)

    def _worked_on(self, track: Track) -> None:
        """Jobs ran there to a good end: whatever ate some was not the node, unless it is quarantined."""
        node = self.nodes.get((track.site, track.node))
        if node is not None and node.until is None and track.jobs_run:
            del self.nodes[(node.site, node.node)]

    def _node_failed(self, track: Track, rules: SiteRules, why: str) -> None:
        key = (track.site, str(track.node))
        node = self.nodes.get(key) or NodeHealth(track.site, track.node, 0)
        site_failures = (self.health.get(track.site) or Health(track.site)).failures
        eats = track.joined_at is not None and EATS_JOBS in why
        if eats:
            site_failures = self._eaten_at(track)
        self.nodes[key] = fare.node_after_failure(
            node, why, self.now, rules, site_failures=site_failures, eats=eats
        )

    def _eaten_at(self, track: Track) -> int:
        """Pilots of the site that lost all their jobs, this one included; those on other nodes count double.

        Bad jobs of somebody are more common than bad nodes, and fail everywhere. Where no other node has work
        that goes on, no node is to blame at all.
        """
        others = (each for each in self.memory_tracks if each.site == track.site and each.node != track.node)
        if not any(each.jobs_run and each.node for each in others):
            return NOBODYS
        rows = {
            at: node.failures for (site, at), node in self.nodes.items() if site == track.site and node.eats
        }
        here = rows.pop(track.node, 0)
        return here + 1 + 2 * sum(rows.values())


def _as_before(old: Track, pilot: SitePilot, slot: Slot) -> bool:
    """Nothing about it has changed. Most pilots most of the time, so this is what a look costs."""
    phase = old.phase
    if slot.claims:
        if phase is not P.BUSY:
            return False
    elif phase is not P.IDLE:
        return False
    return (
        pilot.state is SiteState.RUNNING
        and not slot.draining
        and slot.jobs_run <= old.jobs_run
        and (slot.ends_at is None or slot.ends_at == old.ends_at)
        and (pilot.ends_at is None or slot.ends_at is not None or pilot.ends_at == old.ends_at)
        and pilot.node == old.node
        and pilot.native_id == old.native_id
        and pilot.note == old.note
        and old.joined_at is not None
        and old.silent_since is None
        and old.missing_since is None
    )


def _ends_at(pilot: SitePilot, slot: Slot | None) -> Instant | None:
    if slot is not None and slot.ends_at is not None:
        return slot.ends_at
    return pilot.ends_at
