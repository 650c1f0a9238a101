"""Whose token this is: a text comes in, a `Caller` goes out, or `NotKnown` with the same words for everybody.

Why somebody was not let in is told to the log of the server alone, without the token.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from glidepath.core.text import one_line
from glidepath.jobs.caller import ROLES, Caller
from glidepath.jobs.errors import DeskError
from glidepath.store.engine import Store, StoreError
from glidepath.store.people import PREFIX, PeopleStore, Shown

# So long an answer is used again: whoever is revoked or leaves is cut off no later than this.
KNOWN_S = 2.0
KNOWN_MAX = 1000
# A store that takes no writes costs every one of them its patience.
NOTE_AGAIN_S = 60.0
# Whoever guesses must not fill the disk with the reasons why they were wrong.
REASONS_PER_MINUTE = 60
REASON_LETTERS_MAX = 300


class NotKnown(DeskError):
    """Nobody is known by what was shown. All that can be wrong looks the same from outside."""

    def __init__(self) -> None:
        super().__init__("no token that is in force was shown")


class Refused(Exception):
    """Why, for the log of the server."""


class Provider(Protocol):
    """Tokens that somebody else issues: who it is, and when the token ends; raises `Refused`."""

    def caller_of(self, text: str, wall: float) -> tuple[Caller, float]: ...


@dataclass(slots=True)
class _Reasons:
    """So many reasons in a minute are logged, and how many were not."""

    log: logging.Logger
    steady: Callable[[], float]
    _since: float = float("-inf")
    _count: int = 0

    def say(self, why: str) -> None:
        now = self.steady()
        if now - self._since >= 60:
            if self._count > REASONS_PER_MINUTE:
                self.log.warning("%d more tokens were refused", self._count - REASONS_PER_MINUTE)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= REASONS_PER_MINUTE:
            self.log.warning("a token was refused: %s", one_line(why, letters_max=REASON_LETTERS_MAX))


@dataclass
class People:
    """Who is known to one store, and to a provider of tokens where there is one. For any thread."""

    store: Store
    provider: Provider | None = None
    steady: Callable[[], float] = time.monotonic
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("glidepath.people"))

    def __post_init__(self) -> None:
        self._people = PeopleStore(self.store)
        self._reasons = _Reasons(self.log, self.steady)
        self._kept: OrderedDict[bytes, tuple[Caller, float, float]] = OrderedDict()
        self._lock = Lock()
        self._note_after = float("-inf")

    def kept(self, token_text: str, wall: float) -> Caller | None:
        """Whoever showed this token a moment ago. Never waits for anything."""
        with self._lock:
            kept = self._kept.get(_digest(token_text))
        if kept is not None and wall < kept[1] and 0 <= self.steady() - kept[2] < KNOWN_S:
            return kept[0]
        return None

    def caller_of(self, token_text: str, wall: float) -> Caller:
        """Who shows this token; raises `NotKnown`, or `StoreError` where the store gives no answer."""
        if (kept := self.kept(token_text, wall)) is not None:
            return kept
        key, asked_at = _digest(token_text), self.steady()
        try:
            if token_text.startswith(f"{PREFIX}."):
                caller, ends_wall = self._of_ours(token_text, wall)
            elif self.provider is not None and token_text:
                caller, ends_wall = self.provider.caller_of(token_text, wall)
            else:
                raise Refused("it is none of ours" if token_text else "none was shown")
        except Refused as refused:
            with self._lock:
                self._reasons.say(str(refused))
            raise NotKnown from None
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (caller, ends_wall, asked_at)
            while len(self._kept) > KNOWN_MAX:
                self._kept.popitem(last=False)
        return caller

    def forget(self) -> None:
        """Ask anew for everybody, because something of them has changed here."""
        with self._lock:
            self._kept.clear()

    def _of_ours(self, text: str, wall: float) -> tuple[Caller, float]:
        shown = self._people.shown(text)
        if shown is None:
            raise Refused("it is spelled like one of ours, and there is none with this secret")
        if why := refusal(shown, wall):
            raise Refused(why)
        self._note_use(shown, wall)
        assert shown.person is not None
        person = shown.person
        caller = Caller(person.name, ROLES[person.role], frozenset(person.projects))
        return caller, shown.token.ends_wall_s

    def _note_use(self, shown: Shown, wall: float) -> None:
        if self.steady() < self._note_after:
            return
        try:
            self._people.note_use(shown.token, wall=wall)
        except StoreError as error:
            # Who somebody is does not depend on it.
            self._note_after = self.steady() + NOTE_AGAIN_S
            self.log.warning("the use of token %s was not noted: %s", shown.token.id, error)


def _digest(token_text: str) -> bytes:
    """No token is kept, not even in memory."""
    return hashlib.sha256(token_text.encode("utf-8", "replace")).digest()


def refusal(shown: Shown, wall: float) -> str:
    """Why a token with the right secret is not good; empty where it is."""
    token, person = shown.token, shown.person
    whose = f"token {token.id} of `{token.person}`"
    if person is None:
        return f"{whose} is of nobody"
    if person.left_wall_s is not None:
        return f"{whose} is of somebody who left"
    if token.revoked_wall_s is not None:
        return f"{whose} is revoked"
    if wall >= token.ends_wall_s:
        return f"{whose} has ended"
    if person.role not in ROLES:
        return f"{whose} is of somebody whose role `{person.role}` this glidepath does not know"
    return ""
