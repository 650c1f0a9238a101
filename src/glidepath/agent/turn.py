"""One turn of an agent: look, report, do what the answer says, keep what is to be said of it next time.

Orders are carried out only in the turn in which they came. Nothing is started from memory: an agent that does
not hear its server lets run what runs, and starts nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from glidepath import __version__
from glidepath.agent.exchange import Exchange, NotHeard
from glidepath.agent.keep import Keep, Kept
from glidepath.called.late import LateAnswer
from glidepath.called.words import (
    SPAN_S_MAX,
    WORDS_MAX,
    Answer,
    Downtime,
    Orders,
    Pilot,
    Report,
    Start,
    Wish,
)
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.provision.offer import Limits
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, NodeName, OfferKey, PilotName, PoolName, Resources, SiteName
from glidepath.core.text import one_line
from glidepath.ports import WORLD_ERRORS, Backend, Clock, Furnished

# What has not been begun by then is not answered, and comes again with the next orders. Well within the time
# after which the server takes a site for silent: whoever works must still be heard.
ACTS_S_MAX = 60.0
NONCE_BYTES = 12
_OVER = (SiteState.ENDED, SiteState.FAILED, SiteState.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Turned:
    """What one turn came to, for people and for the wait until the next."""

    acted: int = 0
    refused: int = 0
    live: int = 0
    waiting: bool = False  # for an answer that comes by file
    call_again_s: int = 0
    said: tuple[str, ...] = ()


Downtimes = Callable[[], tuple[Downtime, ...]]


class Agent:
    """One site's agent: its backend, its way to the server, and what it keeps."""

    def __init__(
        self, backend: Backend, exchange: Exchange, keep: Keep, clock: Clock, *, limits: Limits
    ) -> None:
        self.backend, self.exchange, self.keep, self.clock = backend, exchange, keep, clock
        self.limits = limits
        self.pause: Callable[[float], None] = time.sleep
        self.downtimes: Downtimes = lambda: ()

    def turn(self) -> Turned:
        kept = self.keep.load()
        report = self._report(kept)
        answer = self.exchange.call(report)
        if isinstance(answer, LateAnswer):
            # Once more with the right ticket; twice would mean that somebody else calls as this site.
            kept = replace(kept, ticket=answer.ticket)
            self.keep.save(kept)
            report = report.model_copy(update={"ticket": answer.ticket, "nonce": _nonce()})
            answer = self.exchange.call(report)
        if answer is None:
            return Turned(waiting=True, live=_live(report))
        if isinstance(answer, LateAnswer):
            self.keep.save(replace(kept, ticket=answer.ticket))
            raise NotHeard("the server has heard of another call of this site meanwhile; do two agents run?")
        answers = self._carry_out(answer, report)
        # Only now: what was told in this call need not be told again, and what was done has to be.
        self.keep.save(Kept(answer.ticket, answers))
        return Turned(
            acted=len(answers),
            refused=sum(1 for each in answers if each.outcome in ("refused", "failed")),
            live=_live(report),
            call_again_s=answer.call_again_s,
            said=tuple(f"{each.verb} {each.name}: {each.outcome} {each.why}".rstrip() for each in answers),
        )

    def _report(self, kept: Kept) -> Report:
        now = self.clock.now()
        try:
            listing = self.backend.list(now=now)
            why = "" if listing.complete else "the listing is not complete"
        except WORLD_ERRORS as error:
            listing, why = (
                SiteListing(()),
                _short(str(error) or type(error).__name__) or "no reason was given",
            )
        pilots = [_told(pilot, now) for pilot in listing.pilots]
        return Report(
            ticket=kept.ticket,
            nonce=_nonce(),
            seen=not why,
            why=why,
            pilots=pilots,
            answers=list(kept.answers),
            room=room(self.limits, pilots, unlisted=_unlisted(kept, pilots), told=listing.room),
            downtimes=list(self.downtimes()),
            avoids_nodes=listing.avoids_nodes,
            agent=f"glidepath agent {__version__}",
        )

    def _carry_out(self, orders: Orders, report: Report) -> tuple[Answer, ...]:
        deadline = time.monotonic() + ACTS_S_MAX
        answers: list[Answer] = []
        left = report.room
        # First what makes room.
        for wish in orders.wishes:
            if time.monotonic() > deadline:
                break
            answers += _answered(wish.verb, wish.name, self._one(partial(self._wish, wish)))
        begun = time.monotonic()
        for count, start in enumerate(orders.starts):
            self._keep_pace(count, begun)
            if time.monotonic() > deadline:
                break
            outcome: Outcome = Refused("the site's own limit of pilots is reached")
            if left is None or left > 0:
                outcome = self._one(partial(self._start, start))
            if left is not None and isinstance(outcome, Done | Unsure):
                left -= 1
            answers += _answered("start", start.name, outcome)
        return tuple(answers)

    def _keep_pace(self, count: int, begun: float) -> None:
        """Waits until one more may be asked for, where the site limits how many that are in a second."""
        if self.limits.per_s_max:
            due = begun + count / self.limits.per_s_max
            self.pause(max(0.0, due - time.monotonic()))

    @staticmethod
    def _one(call: Callable[[], Outcome]) -> Outcome:
        try:
            return call()
        except WORLD_ERRORS as error:
            return Unsure(f"{error}" or type(error).__name__)

    def _wish(self, wish: Wish) -> Outcome:
        target = Target(PilotName(wish.name), wish.native_id)
        acts = {
            "withdraw": self.backend.withdraw,
            "drain": self.backend.drain,
            "remove": self.backend.remove,
        }
        return acts[wish.verb](target)

    def _start(self, start: Start) -> Outcome:
        return self.backend.submit(self._spec(start))

    def _spec(self, start: Start) -> PilotSpec:
        furnished = isinstance(self.backend, Furnished) and self.backend.furnished(OfferKey(start.offer))
        return PilotSpec(
            name=PilotName(start.name),
            site=SiteName(self.backend.site),
            offer=OfferKey(start.offer),
            pool=PoolName(start.pool),
            size=Resources(*start.size),
            traits=tuple((key, value) for key, value in start.traits),
            lifetime_s=start.lifetime_s,
            idle_s=start.idle_s,
            asked_at=Instant(max(0, self.clock.now() - start.asked_s)),
            avoid=tuple(NodeName(node) for node in start.avoid),
            join=tuple((key, value) for key, value in start.join),
            secrets=() if furnished else tuple((key, value) for key, value in start.secrets),
        )


def _unlisted(kept: Kept, pilots: Iterable[Pilot]) -> int:
    """Pilots of the last turn that a slow listing does not show yet."""
    here = {pilot.name for pilot in pilots}
    begun = [each for each in kept.answers if each.verb == "start" and each.outcome in ("done", "unsure")]
    return sum(each.name not in here for each in begun)


def room(
    limits: Limits, pilots: Iterable[Pilot], *, unlisted: int = 0, told: int | None = None
) -> int | None:
    """How many more pilots the site's own limits allow, and it itself tells; None where there is no limit."""
    there = [pilot for pilot in pilots if SiteState(pilot.state) not in _OVER]
    pending = sum(1 for pilot in there if pilot.state == "pending") + unlisted
    left = [] if told is None else [told]
    if limits.live_max is not None:
        left.append(limits.live_max - len(there) - unlisted)
    if limits.pending_max is not None:
        left.append(limits.pending_max - pending)
    if limits.per_cycle_max is not None:
        left.append(limits.per_cycle_max)
    return max(0, min(left)) if left else None


def _told(pilot: SitePilot, now: Instant) -> Pilot:
    return Pilot(
        name=pilot.name,
        offer=pilot.offer,
        pool=pilot.pool,
        size=list(pilot.size.as_tuple()),
        state=pilot.state.value,
        since_s=_span(now - pilot.since),
        asked_s=_span(now - pilot.asked_at),
        traits=[[key, value] for key, value in pilot.traits],
        native_id=_short(pilot.native_id),
        node=_short(pilot.node),
        left_s=None if pilot.ends_at is None else _span(pilot.ends_at - now),
        note=_short(pilot.note),
    )


def _answered(verb: str, name: str, outcome: Outcome) -> tuple[Answer, ...]:
    """What is said of an order; nothing of one that was not tried, which then comes again."""
    if isinstance(outcome, NotTried):
        return ()
    words = {Done: "done", Refused: "refused", Failed: "failed", Unsure: "unsure"}
    why = outcome.note if isinstance(outcome, Done) else outcome.why
    said = {"verb": verb, "name": name, "outcome": words[type(outcome)], "why": _short(why)}
    return (Answer.model_validate(said),)


def _span(seconds: int) -> int:
    return max(0, min(SPAN_S_MAX, seconds))


def _short(text: str) -> str:
    return one_line(text, letters_max=WORDS_MAX)


def _nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def _live(report: Report) -> int:
    return sum(1 for pilot in report.pilots if SiteState(pilot.state) not in _OVER)
