"""The tray of one site: what was asked for there and how far it has got. Pure: trays in, trays out.

A request is asked, then given to the agent, then taken or refused by it; one that nobody fetched in time
lapses, which is certain, because it never left the tray. Listings are what the agent reported last, and what
the tray knows better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from glidepath.called.words import ORDERS_MAX, Answer, Downtime, Orders, Pilot, Report, Start, Wish
from glidepath.core.cycle import Done, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState
from glidepath.core.provision.sight import SiteListing, Window
from glidepath.core.quantity import (
    Instant,
    NodeName,
    OfferKey,
    Owner,
    PilotName,
    PoolName,
    Resources,
    SiteName,
)

LAPSED = "the request lapsed before the site's agent called for it"
TAKEN_BACK = "the site's agent took it back before it started"
# A glidein that no longer waits joins its pool and gets a job within this, or not at all. Until then its work
# waits for it, and nothing else is asked for in its place.
JOINS_S_MAX = 300
HAS_STARTED = "a client that names no pilots has started it, or will"
# Requests that wait for one agent; more than any site should be asked for while it is silent.
WAITING_MAX = 10_000


class Step(StrEnum):
    """How far a request has got."""

    ASKED = "asked"  # in the tray; nobody but us knows of it
    GIVEN = "given"  # handed out, and no word of it yet
    TAKEN = "taken"  # the agent started it, or may have
    REFUSED = "refused"  # the agent says that it did not start it
    LAPSED = "lapsed"  # never handed out, and never will be
    BACK = "back"  # taken back before it started
    # At a site whose client names no pilots, see `nameless`:
    SHOWN = "shown"  # the client was told that it is wanted
    LAUNCHED = "launched"  # the client says that it launched as many, and they still wait there
    STARTED = "started"  # as many no longer wait there, and the pool may not know them yet
    SERVED = "served"  # as many are in the pool under other names, or will be without us


# What is over and never was a pilot at the site.
UNBORN = frozenset({Step.LAPSED, Step.BACK, Step.REFUSED, Step.SERVED})
NAMELESS = frozenset({Step.SHOWN, Step.LAUNCHED, Step.STARTED})
LET_GO = "the site's client names no pilots, so this one is no longer counted; it leaves when it is idle"


class Wished(StrEnum):
    """What is to become of it."""

    NOTHING = ""
    WITHDRAW = "withdraw"
    DRAIN = "drain"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Request:
    """One pilot that was asked for at a site; its secrets are kept elsewhere."""

    spec: PilotSpec
    digest: str
    step: Step = Step.ASKED
    wish: Wished = Wished.NOTHING
    native_id: str = ""
    given_at: Instant | None = None
    note: str = ""
    # At a site whose client names no pilots: to which address it was shown and in which call, or by which
    # client there it was launched, and when that one last said that as many wait or have started.
    held_by: str = ""
    look: int = 0
    counted_at: Instant | None = None

    @property
    def name(self) -> PilotName:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Tray:
    """All that is known of one site that calls."""

    site: SiteName
    ticket: str = ""
    heard_at: Instant | None = None
    report: Report | None = None
    requests: tuple[Request, ...] = ()
    calls: int = 0
    given: int = 0
    refused: int = 0
    last_refusal: str = ""

    def of(self, name: str) -> Request | None:
        return next((request for request in self.requests if request.name == name), None)

    def listed(self) -> dict[str, Pilot]:
        """By name, from the last report in which the site could be seen."""
        return {pilot.name: pilot for pilot in self.report.pilots} if self.report else {}

    def with_request(self, request: Request) -> Tray:
        kept = tuple(each for each in self.requests if each.name != request.name)
        return replace(self, requests=(*kept, request))

    def without(self, name: str) -> Tray:
        return replace(self, requests=tuple(each for each in self.requests if each.name != name))


# What the provisioner does.


def asked(tray: Tray, spec: PilotSpec, digest: str) -> tuple[Tray, Outcome]:
    old = tray.of(spec.name)
    if old is not None:
        if old.digest != digest:
            return tray, Refused(f"`{spec.name}` exists for something else")
        return tray, Done("it was asked for before")
    if spec.mates:
        return tray, Refused("a site that calls starts its pilots one by one")
    waiting = sum(1 for request in tray.requests if request.step is Step.ASKED)
    if room_left(tray) == 0:
        # A limit of a moment: nothing is wrong with the site, and whoever looks again sees that it is full.
        return tray, NotTried(f"the site's agent takes no more now, and {waiting} wait for its call")
    if waiting >= WAITING_MAX:
        return tray, Refused(f"{waiting} requests wait for the site's agent already")
    return tray.with_request(Request(spec, digest)), Done()


def withdrawn(tray: Tray, name: PilotName, native_id: str) -> tuple[Tray, Outcome]:
    """What was not handed out is gone at once; of anything else the agent must say."""
    request = tray.of(name)
    if request is not None and request.step is Step.ASKED:
        return tray.with_request(replace(request, step=Step.BACK, note=TAKEN_BACK)), Done()
    if request is not None and request.step in NAMELESS:
        return tray.with_request(replace(request, step=Step.SERVED, note=LET_GO)), Done(LET_GO)
    if request is not None and request.step in UNBORN:
        return tray, Done("it never started")
    pilot = tray.listed().get(name)
    if request is None and pilot is None:
        return tray, Done("it is gone")
    if pilot is not None and pilot.state != "pending":
        return tray, Refused(f"`{name}` has started") if pilot.state == "running" else Done("it is over")
    return _wished(tray, name, Wished.WITHDRAW, native_id=native_id)


def drained(tray: Tray, name: PilotName, native_id: str) -> tuple[Tray, Outcome]:
    request = tray.of(name)
    if request is not None and request.step in NAMELESS:
        return withdrawn(tray, name, native_id)
    if (request is None and name not in tray.listed()) or (request is not None and request.step in UNBORN):
        return tray, Done("it is gone")
    return _wished(tray, name, Wished.DRAIN, native_id=native_id)


def removed(tray: Tray, name: PilotName, native_id: str) -> tuple[Tray, Outcome]:
    """Stop it, or clear what it left; what never was at the site is forgotten here and now."""
    request = tray.of(name)
    if request is not None and request.step in (*UNBORN, *NAMELESS, Step.ASKED) and name not in tray.listed():
        return tray.without(name), Done()
    if request is None and name not in tray.listed():
        return tray, Done("it is gone")
    return _wished(tray, name, Wished.REMOVE, native_id=native_id)


def _wished(tray: Tray, name: PilotName, wish: Wished, *, native_id: str) -> tuple[Tray, Outcome]:
    request = tray.of(name) or _adopted(tray, name)
    tray = tray.with_request(replace(request, wish=wish, native_id=native_id or request.native_id))
    told = {Wished.REMOVE: "removes", Wished.DRAIN: "drains", Wished.WITHDRAW: "withdraws"}[wish]
    if wish is Wished.WITHDRAW:
        return tray, Unsure(f"the site's agent {told} it when it calls")
    return tray, Done(f"the site's agent {told} it when it calls")


def _adopted(tray: Tray, name: PilotName) -> Request:
    """A pilot that a lost store asked for: only what its site says of it is known."""
    pilot = tray.listed()[name]
    spec = PilotSpec(
        name=name,
        site=tray.site,
        offer=OfferKey(pilot.offer),
        pool=PoolName(pilot.pool),
        size=Resources(*pilot.size),
        traits=tuple((key, value) for key, value in pilot.traits),
        lifetime_s=pilot.left_s or 0,
        idle_s=0,
        asked_at=Instant(0),
    )
    return Request(spec, digest="", step=Step.TAKEN, native_id=pilot.native_id)


# What the agent does.


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a request waits for a call, and what an agent is told about calling."""

    lapse_s: int = 300
    silent_s: int = 180
    call_again_s: int = 30


def called(tray: Tray, report: Report, now: Instant, *, terms: Terms, ticket: str) -> tuple[Tray, Orders]:
    """One call: answers are taken in, the listing is kept, requests lapse, and orders go out.

    An order goes out again and again until the agent has a word for it: every one bears repeating.
    """
    assert report.ticket == tray.ticket, "a late report is refused before it comes here"
    for answer in report.answers:
        tray = _answered(tray, answer)
    if report.seen or tray.report is None:
        kept = report
    else:
        # What was seen before is kept beside the word that nothing is seen now.
        kept = report.model_copy(update={"pilots": tray.report.pilots})
    here = {pilot.name for pilot in report.pilots}
    if report.seen:
        # Whatever the agent was to remove and does not list any more is gone.
        tray = replace(tray, requests=tuple(r for r in tray.requests if not _is_gone(r, here)))
    if tray.heard_at is not None and now - tray.heard_at > terms.silent_s:
        tray = _returned(tray, report, now)
    tray = lapsed(tray, now, terms.lapse_s)
    starts = _to_give(tray, report, now, terms)
    names = {request.name for request in starts}
    first = sum(1 for request in starts if request.step is Step.ASKED)
    given = tuple(
        replace(r, step=Step.GIVEN, given_at=r.given_at if r.given_at is not None else now)
        if r.name in names
        else r
        for r in tray.requests
    )
    tray = replace(
        tray,
        ticket=ticket,
        heard_at=now,
        report=kept,
        requests=given,
        calls=tray.calls + 1,
        given=tray.given + first,
    )
    wishes = [
        Wish(verb=_verb(r.wish), name=r.name, native_id=r.native_id)
        for r in tray.requests
        if r.wish is not Wished.NOTHING
    ]
    orders = Orders(
        ticket=ticket,
        nonce=report.nonce,
        starts=[_start(request.spec, now) for request in starts],
        wishes=wishes,
        call_again_s=terms.call_again_s,
    )
    return tray, orders


def _returned(tray: Tray, report: Report, now: Instant) -> Tray:
    """Nothing could be taken back from a site while it was unseen: what waited for it then is over, and what
    it was given and has no word of is taken back instead of being told once more."""
    tray = lapsed(tray, now, -1)
    here = {pilot.name for pilot in report.pilots}
    for request in tray.requests:
        if request.step is Step.GIVEN and request.wish is Wished.NOTHING and request.name not in here:
            tray = tray.with_request(replace(request, wish=Wished.WITHDRAW))
    return tray


def _verb(wish: Wished) -> Literal["withdraw", "drain", "remove"]:
    match wish:
        case Wished.WITHDRAW:
            return "withdraw"
        case Wished.DRAIN:
            return "drain"
        case _:
            return "remove"


def _is_gone(request: Request, here: Collection[str]) -> bool:
    asked = request.wish is Wished.REMOVE and request.step is not Step.GIVEN
    return asked and request.name not in here


def _to_give(tray: Tray, report: Report, now: Instant, terms: Terms) -> list[Request]:
    """New requests as far as the site has room, and those given before that it has no word for."""
    if not report.seen or any(each.in_s == 0 for each in report.downtimes):
        return []
    here = {pilot.name for pilot in report.pilots}
    again = [
        r
        for r in tray.requests
        if r.step is Step.GIVEN
        and r.wish is Wished.NOTHING
        and r.name not in here
        and not _stale(r, now, terms)
    ]
    fresh = sorted(
        (r for r in tray.requests if r.step is Step.ASKED), key=lambda r: (r.spec.asked_at, r.name)
    )
    room = ORDERS_MAX if report.room is None else min(report.room, ORDERS_MAX)
    return [*again[:room], *fresh[: max(0, room - len(again))]]


def _stale(request: Request, now: Instant, terms: Terms) -> bool:
    """Handed out so long ago that it is not repeated: whether it was started is for the listing to say."""
    return request.given_at is not None and now - request.given_at > terms.lapse_s


def lapsed(tray: Tray, now: Instant, lapse_s: int) -> Tray:
    """Requests that nobody fetched in time are over. That is certain: they never left the tray. So are those
    of glideins that started so long ago that the pool knows them by now."""
    for request in tray.requests:
        if request.step is Step.STARTED and now - (request.counted_at or 0) > JOINS_S_MAX:
            tray = tray.with_request(replace(request, step=Step.SERVED, note=HAS_STARTED))
    late = [r for r in tray.requests if r.step is Step.ASKED and now - r.spec.asked_at > lapse_s]
    for request in late:
        tray = tray.with_request(replace(request, step=Step.LAPSED, note=LAPSED))
    return tray


def _answered(tray: Tray, answer: Answer) -> Tray:
    request = tray.of(answer.name)
    if request is None:
        return tray  # Of something that was forgotten meanwhile; the listing tells.
    if answer.verb == "start":
        if request.step is not Step.GIVEN:
            return tray
        if answer.outcome in ("refused", "failed"):
            tray = replace(tray, refused=tray.refused + 1, last_refusal=answer.why)
            return tray.with_request(replace(request, step=Step.REFUSED, note=answer.why))
        return tray.with_request(replace(request, step=Step.TAKEN))
    if answer.verb != request.wish.value:
        return tray
    if answer.verb == "withdraw" and answer.outcome == "done":
        return tray.with_request(replace(request, step=Step.BACK, wish=Wished.NOTHING, note=TAKEN_BACK))
    if answer.outcome == "refused" or (answer.verb == "drain" and answer.outcome == "done"):
        # Withdrawing what has started is refused: it runs, and is told to leave another time.
        step = Step.TAKEN if request.step is Step.GIVEN else request.step
        return tray.with_request(replace(request, wish=Wished.NOTHING, step=step))
    if answer.verb == "remove" and answer.outcome == "done" and request.step is Step.GIVEN:
        return tray.with_request(replace(request, step=Step.TAKEN))
    return tray


def _start(spec: PilotSpec, now: Instant) -> Start:
    """The order for one pilot: everything that is needed to start it, and not for whom."""
    return Start(
        name=spec.name,
        offer=spec.offer,
        pool=spec.pool,
        size=list(spec.size.as_tuple()),
        traits=[[key, value] for key, value in spec.traits],
        lifetime_s=spec.lifetime_s,
        idle_s=spec.idle_s,
        asked_s=max(0, now - spec.asked_at),
        avoid=list(spec.avoid),
        join=[[key, value] for key, value in spec.join],
    )


# What the provisioner sees.


def listing_of(tray: Tray, now: Instant, *, lapse_s: int) -> SiteListing:
    """The site as its agent described it last, with what the tray knows better."""
    assert tray.heard_at is not None, "nobody has called yet"
    assert tray.report is not None, "nobody has called yet"
    heard_at, report = tray.heard_at, tray.report
    tray = lapsed(tray, now, lapse_s)
    here = tray.listed()
    requests = {request.name: request for request in tray.requests}
    pilots = [_reported(pilot, requests.get(PilotName(name)), heard_at) for name, pilot in here.items()]
    pilots += [
        _unreported(request, now)
        for name, request in requests.items()
        if name not in here and request.step is not Step.TAKEN
    ]
    pilots.sort(key=lambda pilot: pilot.name)
    return SiteListing(
        tuple(pilots),
        age_s=max(0, now - heard_at),
        notes=notes_of(tray, report),
        room=room_left(tray),
        avoids_nodes=report.avoids_nodes,
    )


def room_left(tray: Tray) -> int | None:
    """Of what the site's own limits left when its agent called, what nothing is on its way to yet; None where
    it has no limits."""
    if tray.report is None or tray.report.room is None:
        return None
    here = tray.listed()
    coming = sum(r.step in (Step.ASKED, Step.GIVEN) and r.name not in here for r in tray.requests)
    return max(0, tray.report.room - coming)


def notes_of(tray: Tray, report: Report) -> tuple[str, ...]:
    """What the site was given and refused, and what it says of itself. Without ages: the journal keeps these
    in every cycle in which they change."""
    notes = [f"its admin declared a downtime: {each.why or 'no reason given'}" for each in report.downtimes]
    waiting = sum(1 for request in tray.requests if request.step is Step.ASKED)
    if waiting:
        notes.append(f"{waiting} of its pilots wait for the next call of {report.agent or 'its agent'}")
    if tray.given:
        told = (
            f"{tray.given} pilots were handed to {report.agent or 'its agent'}, {tray.refused} were refused"
        )
        notes.append(told + (f", the last: {tray.last_refusal}" if tray.last_refusal else ""))
    if report.seen and report.why:
        notes.append(f"{report.agent or 'its agent'}: {report.why}")
    if report.room is not None:
        notes.append(f"its own limits leave room for {report.room} more")
    return tuple(notes)


def _unreported(request: Request, now: Instant) -> SitePilot:
    spec = request.spec
    state = {Step.REFUSED: SiteState.FAILED}
    state |= dict.fromkeys((Step.ASKED, Step.GIVEN, *NAMELESS), SiteState.PENDING)
    asked_at = Instant(min(spec.asked_at, now))
    return SitePilot(
        name=spec.name,
        offer=spec.offer,
        pool=spec.pool,
        size=spec.size,
        state=state.get(request.step, SiteState.WITHDRAWN),
        since=asked_at,
        asked_at=asked_at,
        traits=spec.traits,
        owner=spec.owner,
        native_id=request.native_id,
        note=request.note,
    )


def _reported(pilot: Pilot, request: Request | None, heard_at: Instant) -> SitePilot:
    state = SiteState(pilot.state)
    asked_at = Instant(max(0, heard_at - pilot.asked_s))
    owner = Owner("")
    if request is not None:
        asked_at, owner = request.spec.asked_at, request.spec.owner
        if request.step is Step.BACK and state in (SiteState.ENDED, SiteState.FAILED):
            state = SiteState.WITHDRAWN
    return SitePilot(
        name=PilotName(pilot.name),
        offer=OfferKey(pilot.offer),
        pool=PoolName(pilot.pool),
        size=Resources(*pilot.size),
        state=state,
        since=Instant(max(asked_at, heard_at - pilot.since_s)),
        asked_at=asked_at,
        traits=tuple(sorted((key, value) for key, value in pilot.traits)),
        owner=owner,
        native_id=pilot.native_id,
        node=NodeName(pilot.node),
        ends_at=None if pilot.left_s is None else Instant(heard_at + pilot.left_s),
        note=pilot.note,
    )


def windows_in(site: SiteName, downtimes: Iterable[Downtime], heard_at: Instant) -> tuple[Window, ...]:
    """Downtimes as the site's admin declared them, from the moment at which they were told."""
    return tuple(
        Window(site, Instant(heard_at + each.in_s), Instant(heard_at + each.in_s + each.for_s), each.why)
        for each in downtimes
    )
