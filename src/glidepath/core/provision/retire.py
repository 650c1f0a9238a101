"""Letting pilots go: withdraw what waits and drain what is free when nobody needs it, clear what ended.

Nothing is taken away at a site or from a pool that was not fully seen, and nothing that is claimed is ever
drained for being surplus; only a maintenance window or the word of an operator drains pilots at work, and
lets them finish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason
from glidepath.core.provision.offer import Rules, SiteRules
from glidepath.core.provision.phase import ended
from glidepath.core.provision.picture import Lost, Picture
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    Target,
    Track,
    Withdraw,
    WriteOff,
)
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.serve import Shelves
from glidepath.core.provision.sight import Window
from glidepath.core.quantity import Instant, PoolName, SiteName

P = PilotPhase
Marks = tuple[tuple[str, Instant], ...]
_JOB = attrgetter("site", "native_id")


class Retirement:
    """Collects what goes, each pilot once and for the first reason that holds."""

    def __init__(self, picture: Picture, rules: Rules) -> None:
        self.picture = picture
        self.rules = rules
        self.sites = {site.name: site for site in rules.sites}
        self.offers = rules.offers()
        self.pools = {pool.name for pool in rules.pools}
        self.going: set[str] = set()
        self.decisions: list[Decision[PilotAction]] = []
        self._jobs: Counter[tuple[SiteName, str]] | None = None
        self.marks: list[tuple[str, Instant]] = []

    def stays(self, track: Track) -> bool:
        return (
            track.name not in self.going and not track.leaving and track.site not in self.picture.closed_sites
        )

    def settled(self, track: Track) -> bool:
        offer = self.offers.get(track.offer)
        if offer is not None and offer.together > 1 and not track.native_id:
            return False  # The site has not told yet which of its jobs this one belongs to.
        return settled(track, self.sites.get(track.site), self.picture)

    def whole(self, tracks: list[Track]) -> list[list[Track]]:
        """Those that are settled, as the jobs of the site that they are; one that would lose only some of its
        pilots is left out, because a batch job cannot lose one of its nodes."""
        jobs: dict[tuple[SiteName, str], list[Track]] = {}
        for track in tracks:
            if self.settled(track):
                jobs.setdefault((track.site, track.native_id or track.name), []).append(track)
        # A pilot that its site has given no handle yet is in no job, and whole by itself.
        return [members for job, members in jobs.items() if len(members) >= self._sizes()[job]]

    def _sizes(self) -> Counter[tuple[SiteName, str]]:
        """How many pilots each job of a site has that were not told to go; counted once, if at all."""
        if self._jobs is None:
            self._jobs = Counter(map(_JOB, (track for track in self.picture.tracks if not track.leaving)))
        return self._jobs

    def may_take_from(self, pool: PoolName) -> bool:
        return pool not in self.picture.blind_pools and pool not in self.picture.held_pools

    def withdraw(self, about: str, reason: Reason, tracks: Iterable[Track]) -> None:
        kept = (track for members in self.whole(list(tracks)) for track in members)
        for site, targets in self._targets(kept):
            self.decisions.append(Decision(about, reason, Withdraw(site, targets)))

    def drain(self, about: str, reason: Reason, tracks: Iterable[Track]) -> None:
        for site, targets in self._targets(tracks):
            self.decisions.append(Decision(about, reason, Drain(site, targets)))

    def _targets(self, tracks: Iterable[Track]) -> list[tuple[SiteName, tuple[Target, ...]]]:
        by_site: dict[SiteName, list[Target]] = {}
        for track in tracks:
            self.going.add(track.name)
            by_site.setdefault(track.site, []).append(Target(track.name, track.native_id))
        return [(site, tuple(sorted(by_site[site], key=lambda t: t.name))) for site in sorted(by_site)]


def retire(
    picture: Picture, rules: Rules, shelves: Shelves, policy: Policy
) -> tuple[list[Decision[PilotAction]], Marks]:
    going = Retirement(picture, rules)
    _by_word(going)
    _for_windows(going)
    _offer_gone(going)
    _overdue(going)
    if policy.withdraws:
        _surplus_pending(going, shelves)
    if policy.release_s is not None:
        _surplus_idle(going, shelves, policy.release_s)
    return [*going.decisions, *_ended(picture, rules)], tuple(going.marks)


def _by_word(going: Retirement) -> None:
    """All pilots of what an operator drains: those that wait are taken back, the others told to leave."""
    for pause in going.picture.snapshot.pauses:
        if not pause.drain:
            continue
        reason = Reason(Because.DRAINED, (("by", pause.by), ("why", pause.why)))
        named = [t for t in going.picture.tracks if pause.about in (f"site:{t.site}", f"offer:{t.offer}")]
        here = [t for t in named if going.stays(t)]
        going.withdraw(pause.about, reason, [t for t in here if t.phase is P.PENDING])
        going.drain(pause.about, reason, [t for t in here if t.phase in (P.STARTING, P.IDLE, P.BUSY)])


def _for_windows(going: Retirement) -> None:
    now = going.picture.now
    for window in going.picture.snapshot.windows:
        site = going.sites.get(window.site)
        if site is None or window.closes_at <= now or now < window.opens_at - site.drain_lead_s:
            continue
        here = [t for t in going.picture.tracks if t.site == window.site and going.stays(t)]
        reason = Reason(
            Because.WINDOW_DRAIN, (("opens_in_s", max(0, window.opens_at - now)), ("why", window.why))
        )
        late = window.opens_at - now < going.rules.useful_s_min
        if late:
            going.withdraw(f"site:{site.name}", reason, [t for t in here if t.phase is P.PENDING])
        outlives = [t for t in here if t.phase in (P.IDLE, P.BUSY) and _outlives(t, window)]
        going.drain(f"site:{site.name}", reason, outlives)


def _outlives(track: Track, window: Window) -> bool:
    return track.ends_at is None or track.ends_at > window.opens_at


def _offer_gone(going: Retirement) -> None:
    known = all(offer in going.offers and pool in going.pools for offer, _, pool, *_ in going.picture.kinds)
    if known:
        return
    gone = [
        track
        for track in going.picture.tracks
        if (track.offer not in going.offers or track.pool not in going.pools) and going.stays(track)
    ]
    for offer in sorted({track.offer for track in gone}):
        tracks = [track for track in gone if track.offer == offer]
        pending = [t for t in tracks if t.phase is P.PENDING]
        # Idle by what its pool says now: what memory has of one that is not heard may be an hour old.
        idle = [t for t in tracks if t.phase is P.IDLE and t.name in going.picture.slots]
        reason = Reason(Because.OFFER_GONE, (("pilots", len(tracks)),))
        going.withdraw(f"offer:{offer}", reason, pending)
        going.drain(f"offer:{offer}", reason, idle)


def _overdue(going: Retirement) -> None:
    now = going.picture.now
    pending: dict[SiteName, list[Track]] = {}
    for track in going.picture.unfilled:
        if track.phase is P.PENDING:
            pending.setdefault(track.site, []).append(track)
    for site in going.rules.sites:
        late = [t for t in pending.get(site.name, ()) if now - t.asked_at > site.pending_s_max]
        jobs = going.whole([track for track in late if going.stays(track)])
        tracks = [track for members in jobs for track in members]
        if tracks:
            oldest_s = max(now - track.asked_at for track in tracks)
            facts = (("pilots", len(tracks)), ("oldest_s", oldest_s), ("pending_s_max", site.pending_s_max))
            going.withdraw(f"site:{site.name}", Reason(Because.OVERDUE, facts), tracks)


def _surplus_pending(going: Retirement, shelves: Shelves) -> None:
    now = going.picture.now
    since_before = dict(going.picture.memory.marks)
    untouched = shelves.coming.untouched()
    for key, count in shelves.late.untouched().items():
        untouched[key] = untouched.get(key, 0) + count
    waiting: dict[object, list[Track]] = {}
    if untouched:
        for track in going.picture.unfilled:
            if track.phase is P.PENDING and going.stays(track) and going.settled(track):
                waiting.setdefault((track.pool, track.kind), []).append(track)
    order = sorted(untouched, key=lambda k: (k[0], k[1].offer, k[1].size, k[1].traits))
    for pool, kind in order:
        tracks = waiting.get((pool, kind), [])
        if not tracks or not going.may_take_from(pool):
            continue
        mark = f"surplus:{pool}:{kind.offer}:{kind.size.as_tuple()}:{kind.traits}"
        since = since_before.get(mark, now)
        going.marks.append((mark, since))
        if now - since < going.rules.withdraw_after_s:
            continue
        # The newest first: the others have come further in the site's queue.
        newest: list[Track] = []
        for members in going.whole(sorted(tracks, key=lambda t: (-t.asked_at, t.name))):
            if len(newest) + len(members) <= untouched[(pool, kind)]:
                newest += members
        facts = (("pilots", len(newest)), ("surplus", untouched[(pool, kind)]), ("surplus_s", now - since))
        going.withdraw(f"offer:{kind.offer}", Reason(Because.SURPLUS_PENDING, facts), newest)


def _surplus_idle(going: Retirement, shelves: Shelves, release_s: int) -> None:
    now = going.picture.now
    untouched = shelves.free.untouched()
    if not untouched:
        return
    free: dict[object, list[Track]] = {}
    for track in going.picture.unfilled:
        if track.phase is P.IDLE and now - track.since >= release_s and going.stays(track):
            slot = going.picture.slots.get(track.name)
            # Heard in this very look and without a claim; anything less is doubt, and doubt drains nothing.
            if slot is not None and not slot.claims and not slot.draining and going.may_take_from(track.pool):
                free.setdefault((track.pool, track.kind), []).append(track)
    for pool, kind in sorted(untouched, key=lambda k: (k[0], k[1].offer, k[1].size, k[1].traits)):
        tracks = sorted(free.get((pool, kind), []), key=lambda t: (t.since, t.name))
        tracks = tracks[: untouched[(pool, kind)]]
        if tracks:
            facts = (("pilots", len(tracks)), ("idle_s", now - tracks[0].since), ("release_s", release_s))
            going.drain(f"offer:{kind.offer}", Reason(Because.SURPLUS_IDLE, facts), tracks)


def settled(track: Track, site: SiteRules | None, picture: Picture) -> bool:
    """Nothing on the way can repeat its create any more. Until then its name stays at the site, which knows
    by it that it has this one already; a name given up sooner could come to life a second time."""
    if site is None or picture.snapshot.stopping:
        return True
    return picture.now - track.asked_at >= site.repeat_s


def _ended(picture: Picture, rules: Rules) -> list[Decision[PilotAction]]:
    """Statistics of what is over, per site and reason; clearing only where the site was fully seen."""
    decisions: list[Decision[PilotAction]] = []
    sites = {site.name: site for site in rules.sites}
    groups: dict[tuple[SiteName, Because, bool], list[Lost]] = {}
    for lost in picture.lost:
        if lost.listed and not settled(lost.track, sites.get(lost.track.site), picture):
            continue
        groups.setdefault((lost.track.site, lost.because, lost.listed), []).append(lost)
    for site, because, listed in sorted(groups):
        if listed and site in picture.closed_sites:
            continue
        rows = sorted(groups[(site, because, listed)], key=lambda lost: lost.track.name)
        over = tuple(ended(lost.track, lost.why) for lost in rows)
        facts = (
            ("pilots", len(over)),
            ("jobs_run", sum(e.jobs_run for e in over)),
            ("busy_s", sum(e.busy_s for e in over)),
            ("idle_s", sum(e.idle_s for e in over)),
            ("failed", sum(e.phase is not P.DONE for e in over)),
        )
        action: PilotAction = WriteOff(site, over)
        if listed:
            action = Clear(site, over, tuple(lost.track.native_id for lost in rows))
        decisions.append(Decision(f"site:{site}", Reason(because, facts), action))
    return decisions
