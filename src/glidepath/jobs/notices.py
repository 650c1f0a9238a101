"""Where people want notices of their jobs: a caller and a wish come in, plain items or a refusal go out.

Everybody has their own addresses and sees no others. What is refused here is looked at again whenever a
letter goes out, because names of machines change what they mean.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from glidepath.clock import iso
from glidepath.config.address import checked_mail
from glidepath.core.text import known_word, nearest, one_line
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import Item, NoticeDesk
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Clash, Forbidden, Unknown, Unusable
from glidepath.notices.address import NotFound, NotThere, Resolve, addresses_of, reach_of, target_of
from glidepath.notices.hook import new_secret
from glidepath.notices.ways import closed
from glidepath.notices.words import Kind
from glidepath.store.notices import NoticeStore, TooManyWays, Way
from glidepath.store.token_rows import drawn

# All that people may choose; the rest is told anyway.
WANTED = tuple(kind.value for kind in Kind if kind is not Kind.OFF)
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
NAME_FORM = "up to 40 small letters, digits and `-`, with a letter or digit at both ends"


@dataclass(frozen=True)
class StoredNotices(NoticeDesk):
    """Of one store."""

    doors: Doors
    resolve: Resolve = socket.getaddrinfo

    def list(self, caller: Caller) -> Sequence[Item]:
        return [self._item(way) for way in self._store.ways(caller.name)]

    def show(self, caller: Caller, name: str) -> Item:
        return self._item(self._way(caller, name))

    def set(
        self, caller: Caller, to: str, *, name: str = "", on: Sequence[str] = (), dry: bool = False
    ) -> Item:
        _need(caller, "have notices sent")
        wanted = wanted_of(on)
        webhook = "://" in to
        name = name or ("webhook" if webhook else "mail")
        if not NAME.fullmatch(name):
            raise Unusable(f"`{one_line(name)}` is no name of an address; write {NAME_FORM}")
        self._check(to)
        had = self._store.way(caller.name, name)
        new = had is None or had.target != to
        secret = new_secret() if webhook and not dry else ""
        way = Way(drawn()[0], caller.name, name, to, secret, wanted, self.doors.wall())
        if not dry:
            try:
                way = self._store.set(way)
            except TooManyWays as error:
                raise Clash(f"{error}; nothing was changed") from None
        return {**self._item(way), "new": new, "secret": way.secret if new else ""}

    def test(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        _need(caller, "have notices sent")
        way = self._way(caller, name)
        if why := closed(self.doors.settings.notices, way.target):
            raise Clash(why)
        if not dry:
            self._store.ask_test(caller.name, name)
            way = self._way(caller, name)
        return self._item(way)

    def remove(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        """The item as it was."""
        _need(caller, "change where notices are sent")
        way = self._way(caller, name)
        if not dry:
            self._store.remove(caller.name, name)
        return self._item(way)

    @property
    def _store(self) -> NoticeStore:
        return NoticeStore(self.doors.store)

    def _way(self, caller: Caller, name: str) -> Way:
        # What is no name at all is not looked for: databases have their own words for odd characters.
        way = self._store.way(caller.name, name) if NAME.fullmatch(name) else None
        if way is None:
            near = nearest(name, (each.name for each in self._store.ways(caller.name)))
            raise Unknown(
                f"no address for notices is named `{one_line(name)}`"
                + (f"; did you mean `{near}`?" if near else ""),
                hint="`glidepath notice list` shows those that you have",
            )
        return way

    def _check(self, to: str) -> None:
        """Nothing is called here, but a name of a machine is looked up."""
        settings = self.doors.settings.notices
        try:
            if "://" in to:
                target = target_of(to)
            else:
                checked_mail(to)
        except NotThere as error:
            raise Unusable(str(error)) from None
        except ValueError as error:
            raise Unusable(f"`{one_line(to)}` {error}, or a webhook that begins with `https://`") from None
        if why := closed(settings, to):
            raise Clash(why)
        if "://" not in to:
            return
        try:
            addresses_of(target, reach_of(settings), resolve=self.resolve)
        except (NotThere, NotFound) as error:
            raise Unusable(f"{error}; nothing was changed") from None

    def _item(self, way: Way) -> Item:
        return {
            "name": way.name,
            "kind": "webhook" if way.webhook else "mail",
            "to": way.target,
            "on": list(way.wanted),
            "state": _state(way, closed(self.doors.settings.notices, way.target)),
            "why": closed(self.doors.settings.notices, way.target) or way.why,
            "made": iso(way.made_wall_s),
            "sent": iso(way.sent_wall_s),
            "failing": iso(way.failing_wall_s),
            "testing": way.test,
            "tested": way.tested,
        }


def _state(way: Way, why: str) -> str:
    if way.off_wall_s is not None:
        return "off"
    return "closed" if why else "failing" if way.tries else "on"


def _need(caller: Caller, what: str) -> None:
    if caller.role < Role.USER:
        raise Forbidden(f"a viewer may not {what}; the role of `{caller.name}` is `{caller.role.word}`")


def wanted_of(words: Sequence[str]) -> tuple[str, ...]:
    """In one order, each once; all where none is named."""
    try:
        named = {known_word(word, WANTED) for word in words}
    except ValueError as error:
        raise Unusable(f"{error}") from None
    return tuple(word for word in WANTED if word in named) or WANTED
