"""`glidepath project`: which projects there are, and who belongs to them.

They submit in its name and see its jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import Reader, card
from glidepath.cli.registering import PERSON, PROJECT, Change, Look
from glidepath.cli.verb import Answer, Column, Noun, Options

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.people.register import Register

COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("MADE", lambda item: item["made"]),
    Column("BY", lambda item: item["by"], wide=True),
    Column("CLOSED", lambda item: item["gone"] or ""),
    Column("BELOW", lambda item: item["parent"]),
    Column("WEIGHT", lambda item: item["weight"], wide=True, right=True),
    Column("LEFT", lambda item: _amount(item["left"]), right=True),
    Column("OF", lambda item: _amount(item["granted"]), right=True),
    Column("PEOPLE", lambda item: ", ".join(item["people"])),
)


def _amount(credits: float | None) -> str:
    """Nothing where nothing was granted: then there is no bound."""
    return "" if credits is None else f"{credits:.2f}"


AMOUNT: Options = {
    "amount": {"args": ("amount",), "metavar": "CREDITS", "help": "how much, such as `500` or `0.5`"}
}


class Add(Change):
    """Make a project; who belongs to it is said with `join`"""

    kind, creates = "Project", True
    options: ClassVar[Options] = {
        **PROJECT,
        "again": {
            "args": ("--again",),
            "action": "store_true",
            "help": "one that was closed: the jobs of that name are its jobs",
        },
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.add_project(caller, self.given["project"], again=self.given["again"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        return (
            f"there is a project `{item['name']}`; `glidepath project join {item['name']} PERSON` adds to it"
        )


class List(Look):
    """List projects, and who belongs to each"""

    def found(self, register: Register, caller: Caller) -> Answer:
        items = tuple(register.projects(caller))
        return Answer("ProjectList", items, COLUMNS, nothing="no project was made yet")


class Show(Look):
    """Show one project: who belongs to it, what it may spend, and what of that is left"""

    options: ClassVar[Options] = {**PROJECT, **Reader.options}

    def found(self, register: Register, caller: Caller) -> Answer:
        item = register.project(caller, self.given["project"])
        pairs = [("name", item["name"]), ("made", item["made"]), ("by", item["by"]), ("closed", item["gone"])]
        pairs += [("people", ", ".join(item["people"])), ("below", item["parent"])]
        lines = card([*pairs, ("weight", item["weight"]), *_wallet_pairs(item)])
        return Answer("Project", (item,), lines=(*lines, *_allocation_lines(item)))


def _wallet_pairs(item: dict[str, Any]) -> list[tuple[str, object]]:
    if item["granted"] is None:
        return [("may spend", "as much as it likes: nothing was granted, so nothing is bounded")]
    dry = "; its jobs are not started" if item["dry"] else ""
    return [("left", f"{_amount(item['left'])} of {_amount(item['granted'])} credits{dry}")]


def _allocation_lines(item: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_allocation_line(each) for each in item["allocations"])


def _allocation_line(each: dict[str, Any]) -> str:
    span = f"from {each['starts']} to {each['ends']}{'' if each['in_force'] else ' (not now)'}"
    amounts = f"{_amount(each['spent'])} of {_amount(each['granted'])} credits spent"
    return f"allocation {each['id']}, {span}: {amounts}"


class Grant(Change):
    """Let a project, and those below it, spend more: so many credits for a time

    What is spent is drawn from the project and from each that it is below. A project to which nothing was
    ever granted has no bound of its own.
    """

    kind = "Wallet"
    options: ClassVar[Options] = {
        **PROJECT,
        **AMOUNT,
        "starts": {
            "args": ("--from",),
            "dest": "starts",
            "default": "",
            "metavar": "WHEN",
            "help": "from when on: `2030-01-31`, a date and time, or `+7d` (default: now)",
        },
        "ends": {
            "args": ("--to",),
            "dest": "ends",
            "default": "+365d",
            "metavar": "WHEN",
            "help": "until when, in the same forms (default: +365d)",
        },
        "note": {"args": ("--note",), "default": "", "metavar": "TEXT", "help": "what it is for"},
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        given = self.given
        span = {"starts": given["starts"], "ends": given["ends"]}
        return register.wallets.grant(
            caller, given["project"], given["amount"], **span, note=given["note"], dry=self.dry
        )

    def said(self, item: dict[str, Any]) -> str:
        return f"`{item['name']}` may spend {item['amount']:g} credits more{_left(item)}"


class Take(Change):
    """Take back what a project has not spent; never more than is left"""

    kind = "Wallet"
    options: ClassVar[Options] = {**PROJECT, **AMOUNT, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.wallets.take(caller, self.given["project"], self.given["amount"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        return f"{item['amount']:g} credits of `{item['name']}` are taken back{_left(item)}"


def _left(item: dict[str, Any]) -> str:
    return "" if item["left"] is None else f"; it has {_amount(item['left'])} left"


class Set(Change):
    """Place a project below another, whose allocations it then draws from, too, or change its weight"""

    kind = "Wallet"
    options: ClassVar[Options] = {
        **PROJECT,
        "parent": {
            "args": ("--parent",),
            "metavar": "PROJECT",
            "help": "the project above it; `--parent ''` for none",
        },
        "weight": {
            "args": ("--weight",),
            "type": argument.count,
            "metavar": "N",
            "help": "its part beside its siblings, where batch jobs are ordered by fair share",
        },
        **Change.options,
    }

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        given = self.given
        return register.wallets.set(
            caller, given["project"], parent=given["parent"], weight=given["weight"], dry=self.dry
        )

    def said(self, item: dict[str, Any]) -> str:
        below = f"below `{item['parent']}`" if item["parent"] else "below no other"
        return f"`{item['name']}` is {below}, with the weight {item['weight']}"


class Join(Change):
    """Let a person belong to a project: they submit in its name and see its jobs"""

    kind = "Membership"
    options: ClassVar[Options] = {**PROJECT, **PERSON, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.join(caller, self.given["project"], self.given["name"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        already = "" if item["new"] else " already"
        return f"`{item['person']}` belongs to `{item['name']}`{already}"


class Leave(Change):
    """Take a person out of a project; jobs that they submitted in its name go on"""

    kind = "Membership"
    options: ClassVar[Options] = {**PROJECT, **PERSON, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.part(caller, self.given["project"], self.given["name"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        gone = "belongs to `{name}` no more" if item["new"] else "does not belong to `{name}`"
        return f"`{item['person']}` {gone.format(name=item['name'])}"


class Close(Change):
    """Close a project: nobody belongs to it any more; its jobs are stopped, and keep its name"""

    kind = "Project"
    options: ClassVar[Options] = {**PROJECT, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.close(caller, self.given["project"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        return f"project `{item['name']}` is closed; people who belonged to it: {len(item['people'])}"


NOUN = Noun(
    "project",
    {
        "add": Add,
        "list": List,
        "show": Show,
        "grant": Grant,
        "take": Take,
        "set": Set,
        "join": Join,
        "leave": Leave,
        "close": Close,
    },
)
