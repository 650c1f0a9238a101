"""`glidepath person`: who may use this glidepath by HTTP, with which role, and the tokens that they show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader, card
from glidepath.cli.registering import PERSON, Change, Look
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop
from glidepath.core.text import one_line
from glidepath.jobs.caller import ROLES

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.people.register import Register

DAY_S = 86400
ROLE_HELP = "viewer reads, user submits, operator sees and changes every job, admin also people"
COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("ROLE", lambda item: item["role"]),
    Column("MADE", lambda item: item["made"]),
    Column("BY", lambda item: item["by"], wide=True),
    Column("LEFT", lambda item: item["left"] or ""),
    Column("PROJECTS", lambda item: ", ".join(item["projects"])),
)
TOKEN_COLUMNS = (
    Column("ID", lambda item: item["name"]),
    Column("PERSON", lambda item: item["person"]),
    Column("ISSUED", lambda item: item["issued"]),
    Column("BY", lambda item: item["by"], wide=True),
    Column("ENDS", lambda item: item["ends"]),
    Column("USED", lambda item: item["used"] or "never"),
    Column("REVOKED", lambda item: item["revoked"] or ""),
    Column("NOTE", lambda item: item["note"], wide=True),
)


class Add(Change):
    """Let somebody in, with a role; a token is issued to them apart"""

    kind, creates = "Person", True
    options: ClassVar[Options] = {
        **PERSON,
        "role": {
            "args": ("--role",),
            "choices": tuple(ROLES),
            "default": "user",
            "help": f"{ROLE_HELP} (default: user)",
        },
        "again": {
            "args": ("--again",),
            "action": "store_true",
            "help": "somebody who left and has come back: the jobs of that name are theirs",
        },
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        given = self.given
        return register.add(caller, given["name"], given["role"], again=given["again"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        name = item["name"]
        return f"`{name}` is let in as {item['role']}; `glidepath person issue {name}` makes a token for them"


class List(Look):
    """List people: their roles, their projects, and who has left"""

    def found(self, register: Register, caller: Caller) -> Answer:
        return Answer("PersonList", tuple(register.people(caller)), COLUMNS, nothing="nobody was let in yet")


class Show(Look):
    """Show one person, with their tokens"""

    options: ClassVar[Options] = {**PERSON, **Reader.options}

    def found(self, register: Register, caller: Caller) -> Answer:
        item = register.person(caller, self.given["name"])
        pairs = [(name, item[name]) for name in ("name", "role", "made", "by", "left")]
        tokens = [_in_words(token) for token in item["tokens"]]
        more = [("projects", ", ".join(item["projects"])), *(("token", words) for words in tokens)]
        return Answer("Person", (item,), lines=card([*pairs, *more]))


class SetRole(Change):
    """Give somebody another role"""

    kind = "Person"
    options: ClassVar[Options] = {
        **PERSON,
        "role": {"args": ("role",), "choices": tuple(ROLES), "help": ROLE_HELP},
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.set_role(caller, self.given["name"], self.given["role"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        if item["role"] == item["before"]:
            return f"the role of `{item['name']}` is {item['role']} already"
        return f"the role of `{item['name']}` is {item['role']}, and was {item['before']}"


class Leave(Change):
    """Send somebody away: their tokens are revoked at once, and they are out of every project

    Their jobs go on and keep their name; `glidepath job cancel` ends them.
    """

    kind = "Person"
    options: ClassVar[Options] = {**PERSON, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.leave(caller, self.given["name"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        return f"`{item['name']}` has left; tokens revoked: {item['revoked']}"


class Issue(Change):
    """Issue a token for a person and print it; it is shown this once and kept nowhere"""

    kind = "PersonToken"
    options: ClassVar[Options] = {
        **PERSON,
        "for": {
            "args": ("--for",),
            "type": argument.duration,
            "default": 90 * DAY_S,
            "metavar": "SPAN",
            "help": "how long it is good, at most 366d (default: 90d)",
        },
        "note": {
            "args": ("--note",),
            "default": "",
            "metavar": "TEXT",
            "help": "where it is used, for people",
        },
        "to": {
            "args": ("--to",),
            "metavar": "FILE",
            "help": "write it to this new file, which nobody else can read, instead of printing it",
        },
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        given = self.given
        if self.dry or not given["to"]:
            return self.issued(register, caller)
        # Before there is a token: one that cannot be written down would be lost.
        file = new_file(Path(given["to"]))
        try:
            item = self.issued(register, caller)
        except BaseException:
            os.close(file)
            Path(given["to"]).unlink()
            raise
        with os.fdopen(file, "w", encoding="ascii") as written:
            written.write(f"{item['text']}\n")
        return {**item, "text": ""}

    def issued(self, register: Register, caller: Caller) -> dict[str, Any]:
        given = self.given
        return register.issue(caller, given["name"], for_s=given["for"], note=given["note"], dry=self.dry)

    def lines(self, item: dict[str, Any]) -> tuple[str, ...]:
        return (item["text"],) if item["text"] else ()

    def said(self, item: dict[str, Any]) -> str:
        if self.dry:
            return f"a token for `{item['person']}` is issued that ends {item['ends']}"
        where = f" is in `{one_line(self.given['to'])}`," if self.given["to"] else ""
        shown = f"token {item['name']} of `{item['person']}`{where} ends {item['ends']}"
        return f"{shown}; revoke it with `glidepath person revoke {item['name']}`"


class Tokens(Look):
    """List tokens of people: when each was issued and last used, and when it ends"""

    options: ClassVar[Options] = {
        "name": {"args": ("name",), "nargs": "?", "metavar": "NAME", "help": "only those of this person"},
        **Reader.options,
    }

    def found(self, register: Register, caller: Caller) -> Answer:
        items = tuple(register.tokens(caller, self.given["name"]))
        return Answer("PersonTokenList", items, TOKEN_COLUMNS, nothing="no token was issued yet")


class Revoke(Change):
    """Revoke a token: whoever has it is cut off within two seconds, others are not touched"""

    kind = "PersonToken"
    options: ClassVar[Options] = {
        "id": {"args": ("id",), "metavar": "ID", "help": "its id, as `glidepath person tokens` shows it"},
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.revoke(caller, self.given["id"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        already = " already" if item["revoked"] else ""
        return f"token {item['name']} of `{item['person']}` is revoked{already}"


def new_file(path: Path) -> int:
    """Open for us alone; one that is there already is left as it is."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        why = f"`{one_line(str(path))}` cannot be made: {error.strerror or error}; no token was issued"
        raise Stop(why, code=Exit.FAILED) from None


def _in_words(token: dict[str, Any]) -> str:
    """One token on one line."""
    end = f"revoked {token['revoked']}" if token["revoked"] else f"ends {token['ends']}"
    used = f"used {token['used']}" if token["used"] else "never used"
    return ", ".join(part for part in (token["name"], end, used, token["note"]) if part)


NOUN = Noun(
    "person",
    {
        "add": Add,
        "list": List,
        "show": Show,
        "role": SetRole,
        "leave": Leave,
        "issue": Issue,
        "tokens": Tokens,
        "revoke": Revoke,
    },
)
