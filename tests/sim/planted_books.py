"""Planted bugs, second part: what came of acts, what is remembered, in which order, in whose time.

`BUGS` here are all of them, those of the first part included.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from glidepath.core.because import Because
from glidepath.core.cycle import Did, Failed, Plan, Reason, Refused, Seen, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.picture import Picture, look
from glidepath.core.provision.pilot import Clear, PilotAction, PilotPhase, Submit, Withdraw, WriteOff
from glidepath.core.provision.sight import SiteListing, Snapshot
from glidepath.core.quantity import Instant, PilotName
from glidepath.ports import Backend, Clock
from glidepath.provisioner import Provisioner
from sim.planted import BUGS, OldListings, also, every_site, planted, with_acts, with_outcomes

__all__ = ["BUGS"]

P = PilotPhase


# Outcomes and what is remembered


@planted("unknown is not gone", weather="lossy")
class UnsureIsFailed(Provisioner):
    """A time-out means that it did not happen, so the pilot is forgotten and asked for again."""

    def remember(self, picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did]) -> Memory:
        return super().remember(picture, plan, with_outcomes(outcomes, Failed))


@planted("unknown is not gone", weather="lossy")
class LostReplyIsRefused(Provisioner):
    """A connection that broke while the site answered is told as the site's own no."""

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        return with_outcomes(super().act(plan), Refused)


@planted("unknown is not gone")
class InFlightForgotten(Provisioner):
    """What was asked for is not remembered until a site lists it."""

    def remember(self, picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did]) -> Memory:
        kept = super().remember(picture, plan, outcomes)
        return replace(kept, tracks=tuple(t for t in kept.tracks if t.phase is not P.EXPECTED))


@planted("unknown is not gone", weather="lossy")
class WithdrawnIsGone(Provisioner):
    """A pilot is struck off when its withdrawal is sent, whatever comes back."""

    def remember(self, picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did]) -> Memory:
        kept = super().remember(picture, plan, outcomes)
        sent = {t.name for act in plan.actions if isinstance(act, Withdraw) for t in act.pilots}
        return replace(kept, tracks=tuple(t for t in kept.tracks if t.name not in sent))


@planted("unknown is not gone", weather="lossy")
class UnlistedIsGone(Provisioner):
    """A pilot that was asked for and is not in the next listing never came to be."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        return look(snapshot, memory, every_site(self.rules, appear_s_max=-1))


@planted("unknown is not gone", right=OldListings)
class MissingIsGone(OldListings):
    """A pilot that is missing from one listing is written off, as a job array that vanished from `squeue`."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        return look(snapshot, memory, every_site(self.rules, missing_s_max=-1))


@planted("unknown is not gone", "cap", weather="dying")
class OnlyOwnLife(Provisioner):
    """Only pilots of the present life are looked for; those of the one before the crash are nobody's."""

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        mine = f"gp-{memory.incarnation}-"
        kept = tuple(track for track in memory.tracks if track.name.startswith(mine))
        return super().look(_listing_only(snapshot, mine), replace(memory, tracks=kept))


def _listing_only(snapshot: Snapshot, prefix: str) -> Snapshot:
    def of(sight: Seen[SiteListing] | Unseen) -> Seen[SiteListing] | Unseen:
        if isinstance(sight, Unseen):
            return sight
        pilots = tuple(pilot for pilot in sight.value.pilots if pilot.name.startswith(prefix))
        return Seen(sight.at, replace(sight.value, pilots=pilots))

    return replace(snapshot, sites=tuple((name, of(sight)) for name, sight in snapshot.sites))


@planted("unknown is not gone", "cap", weather="dying")
class MemoryNotResumed(Provisioner):
    """After a crash the books begin empty, and what was on its way then is never missed."""

    begun = False

    def look(self, snapshot: Snapshot, memory: Memory) -> Picture:
        if not self.begun:
            self.begun, memory = True, replace(memory, tracks=())
        return super().look(snapshot, memory)


@planted("unknown is not gone", "cap", "ledger", weather="repeating")
class NamesGivenUpEarly(Provisioner):
    """A pilot is cleared as soon as it ends, while a proxy may still repeat its create."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return decide(picture, every_site(self.rules, repeat_s=0), self.policy)


# Order and ownership


@planted("once", "unknown is not gone", weather="dying")
class ActsBeforeRecording(Provisioner):
    """The plan is carried out first and written down after, so a full disk or a crash loses the why."""

    done: tuple[Did, ...] = ()

    def check(self, picture: Picture, plan: Plan[PilotAction]) -> Plan[PilotAction]:
        checked = super().check(picture, plan)
        self.done = super().act(checked)
        return checked

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        return self.done


@planted("once", weather="dying")
class ActsUnowned(Provisioner):
    """The lease is read once per cycle, so a leader that slept goes on where it was."""

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        self.doors.ours = lambda: True
        return super().act(plan)


# Books and words


@planted("ledger")
class ClosedTwice(Provisioner):
    """A pilot that was closed stays among those to be closed, and its hours are paid twice."""

    def remember(self, picture: Picture, plan: Plan[PilotAction], outcomes: Iterable[Did]) -> Memory:
        kept = super().remember(picture, plan, outcomes)
        over = {name for name, _ in kept.cleared} - {name for name, _ in picture.memory.cleared}
        again = tuple(lost.track for lost in picture.lost if lost.track.name in over)
        return replace(kept, tracks=(*kept.tracks, *again))


@planted("ledger")
class SecondsTwice(Provisioner):
    """Seconds at work are booked as busy and again as idle."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        def doubled(action: PilotAction) -> PilotAction:
            if isinstance(action, Clear | WriteOff):
                return replace(
                    action, ended=tuple(replace(e, idle_s=e.idle_s + e.busy_s) for e in action.ended)
                )
            return action

        return with_acts(super().decide(picture), doubled)


@planted("explained", itself="explained")
class SilentSites(Provisioner):
    """Sites where nothing is done are left out of the report."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        told = tuple(d for d in plan.decisions if d.action or not d.about.startswith("site:"))
        return replace(plan, decisions=told)


@planted("explained", itself="explained")
class SilentShapes(Provisioner):
    """Shapes that wait and get nothing are left out of the report."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        dull = (Because.NOTHING_WAITS, Because.COVERED, Because.NO_ROOM)
        return replace(plan, decisions=tuple(d for d in plan.decisions if d.reason.because not in dull))


# Time, order and patience


class _WallClock:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def now(self) -> Instant:
        return Instant(int(self.clock.wall()))

    def wall(self) -> float:
        return self.clock.wall()


@planted("unknown is not gone", "ledger", weather="jumpy")
class TrustsTheWall(Provisioner):
    """Ages are differences of wall times, and somebody sets the clock."""

    def observe(self, memory: Memory) -> Snapshot:
        if not isinstance(self.doors.clock, _WallClock):
            self.doors.clock = _WallClock(self.doors.clock)
        return super().observe(memory)


@planted("replay", by_replay=True)
class OrderOfASet(Provisioner):
    """Decisions come in the order of a set, which is another one in each run of the program."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        decisions = list(plan.decisions)
        random.Random(plan.cycle).shuffle(decisions)
        return replace(plan, decisions=tuple(decisions))


@planted("liveness")
class NeverClears(Provisioner):
    """What has ended is never removed from its site, and the books only grow."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        return with_acts(super().decide(picture), lambda act: None if isinstance(act, Clear) else act)


@planted("liveness")
class OneInReserve(Provisioner):
    """A spare pilot is always kept on its way, whether or not anybody waits, and so it never ends."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        offer = self.rules.sites[0].offers[0]
        free = not picture.closed_sites and not picture.blind_pools and not picture.held_pools
        if not free or any(track.offer == offer.key for track in picture.tracks) or plan.actions:
            return plan
        name = PilotName(f"gp-{picture.memory.incarnation}-{plan.cycle}-spare")
        spare = Submit(
            offer.site,
            offer.key,
            self.rules.pools[0].name,
            offer.size,
            offer.traits,
            offer.lifetime_s,
            offer.idle_s,
            (name,),
        )
        return also(plan, f"offer:{offer.key}", Reason(Because.ASKED_HERE), spare)


class OneSiteDown(Provisioner):
    """The first site answers once and never again."""

    def observe(self, memory: Memory) -> Snapshot:
        first = min(self.doors.backends)
        if not isinstance(self.doors.backends[first], _Deaf):
            self.doors.backends[first] = _Deaf(self.doors.backends[first])
        return super().observe(memory)


class _Deaf:
    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.answered = False

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def list(self, *, now: Instant) -> SiteListing:
        if self.answered:
            raise TimeoutError("no answer")
        # Once, or limits that span sites would rightly wait for a first look at it.
        self.answered = True
        return self.inner.list(now=now)


@planted("isolation", right=OneSiteDown)
class OneStopsAll(OneSiteDown):
    """One site that cannot be read ends the cycle with an error, for all sites."""

    def decide(self, picture: Picture) -> Plan[PilotAction]:
        plan = super().decide(picture)
        return with_acts(plan, lambda act: None) if picture.closed_sites else plan
