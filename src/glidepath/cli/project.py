"""`glidepath project`: which projects there are, and who belongs to them.

They submit in its name and see its jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

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
    Column("PEOPLE", lambda item: ", ".join(item["people"])),
)


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
    """Show one project, with who belongs to it"""

    options: ClassVar[Options] = {**PROJECT, **Reader.options}

    def found(self, register: Register, caller: Caller) -> Answer:
        item = register.project(caller, self.given["project"])
        pairs = [("name", item["name"]), ("made", item["made"]), ("by", item["by"]), ("closed", item["gone"])]
        return Answer("Project", (item,), lines=card([*pairs, ("people", ", ".join(item["people"]))]))


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
    """Close a project: nobody belongs to it any more; its jobs keep its name"""

    kind = "Project"
    options: ClassVar[Options] = {**PROJECT, **Change.options}

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        return register.close(caller, self.given["project"], dry=self.dry)

    def said(self, item: dict[str, Any]) -> str:
        return f"project `{item['name']}` is closed; people who belonged to it: {len(item['people'])}"


NOUN = Noun(
    "project",
    {"add": Add, "list": List, "show": Show, "join": Join, "leave": Leave, "close": Close},
)
