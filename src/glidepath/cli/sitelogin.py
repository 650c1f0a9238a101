"""`glidepath site login` and `logout`: a person opens the connection to a site, or closes it, step by step.

What is asked is asked by the site's own door in this terminal; no password passes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.output import DRY_RUN, OUTPUT, drawn, span
from glidepath.cli.pilot import backend_of
from glidepath.cli.session import located
from glidepath.cli.verb import Answer, Column, Exit, Options, Stop, Verb
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.ports import Connection, LogsIn

NAME: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "the name of a site"}}
COLUMNS = (
    Column("SITE", lambda item: item["name"]),
    Column("HOST", lambda item: item["host"]),
    Column("LOGIN", lambda item: item["login"]),
    Column("OPEN", lambda item: "yes" if item["open"] else "no"),
    Column("KEPT", lambda item: span(item["keep_s"]) if item["keep_s"] else "", right=True),
)


class _AtSite(Verb):
    """What both verbs share: the site's door, and its connection as the answer."""

    def run(self) -> int:
        from glidepath.ports import WORLD_ERRORS, Connection, LogsIn

        place = located(self)
        try:
            door = backend_of(place, self.given["name"])
            if not isinstance(door, LogsIn):
                return self.show(Connection())
            try:
                return self.act(door)
            finally:
                door.close()
        except WORLD_ERRORS as error:
            raise Stop(f"site `{one_line(self.given['name'])}`: {error}") from None

    def act(self, door: LogsIn) -> int:
        raise NotImplementedError

    def step(self, line: str) -> None:
        self.caller.say(f"site `{self.given['name']}`: {line}")

    def show(self, found: Connection) -> int:
        if not found.host:
            self.step("nothing is to be opened to get there")
        item: dict[str, Any] = {
            "name": self.given["name"],
            "host": found.host,
            "login": found.login if found.host else "",
            "open": found.is_open,
            "keep_s": found.keep_s,
            "why": found.why,
        }
        # As a note, for a terminal would cut the end of it, which says what to do.
        answer = Answer("Connection", (item,), COLUMNS, notes=(found.why,) if found.why else ())
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.out.flush()
        return Exit.DONE


class Login(_AtSite):
    """Open the connection to a site; a password or a second factor is asked for here, once

    It stays open for the glidepath that runs, and for every other command, until nobody has used it for the
    time that the site's `ssh.keep` says.
    """

    options: ClassVar[Options] = {
        **NAME,
        "check": {
            "args": ("--check",),
            "action": "store_true",
            "help": "only say whether it is open, and end with 1 where it is not",
        },
        **OUTPUT,
    }

    def act(self, door: LogsIn) -> int:
        if not self.given["check"]:
            return self.show(door.login(self.step))
        found = door.connection()
        self.show(found)
        return Exit.DONE if found.is_open else Exit.FAILED


class Logout(_AtSite):
    """Close the connection to a site at once, whoever uses it"""

    options: ClassVar[Options] = {**NAME, **DRY_RUN, **OUTPUT}

    def act(self, door: LogsIn) -> int:
        if self.given["dry_run"]:
            is_open = door.connection().is_open
            self.step("its connection would be closed; nothing was changed" if is_open else "nothing is open")
            return self.show(door.connection())
        return self.show(door.logout())
