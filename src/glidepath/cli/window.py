"""`glidepath window`: the calendar of clusters, when nodes are closed or kept for somebody.

Operators make, move and cancel windows; jobs end before one opens, or are told that they are ended then. The
scheduler reads the calendar in its next turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, card, drawn
from glidepath.cli.pause import WHY
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Verb

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.jobs.desk import JobDesk

COLUMNS = (
    Column("WINDOW", lambda item: item["id"], right=True),
    Column("CLUSTER", lambda item: item["cluster"]),
    Column("STATE", lambda item: item["state"]),
    Column("OPENS", lambda item: item["opens"]),
    Column("CLOSES", lambda item: item["closes"]),
    Column("NODES", lambda item: _nodes(item)),
    Column("FOR", lambda item: _whose(item)),
    Column("VERSION", lambda item: item["version"], right=True),
    Column("BY", lambda item: item["changed_by"], wide=True),
    Column("WHY", lambda item: item["why"]),
)
AFFECTED = (
    Column("JOB", lambda item: item["job"], right=True),
    Column("OWNER", lambda item: item["owner"]),
    Column("WHAT", lambda item: item["what"]),
    Column("BEFORE", lambda item: item["before"] or "never"),
    Column("AFTER", lambda item: item["after"] or "never"),
    Column("THEN", lambda item: item["then"]),
)
NUMBER: Options = {
    "window": {"args": ("window",), "metavar": "WINDOW", "type": argument.number, "help": "its number"}
}
TIMES: Options = {
    "starts": {
        "args": ("--from",),
        "dest": "starts",
        "default": "",
        "metavar": "WHEN",
        "help": "when it opens: `2030-01-31T08:00:00+01:00`, or `+2h` from now",
    },
    "ends": {
        "args": ("--to",),
        "dest": "ends",
        "default": "",
        "metavar": "WHEN",
        "help": "when it closes, in the same forms",
    },
    "lasts": {
        "args": ("--for",),
        "dest": "lasts",
        "type": argument.duration,
        "metavar": "SPAN",
        "help": "how long it is, such as `4h`, in place of --to",
    },
}
VERSION: Options = {
    "version": {
        "args": ("--version",),
        "type": argument.number,
        "metavar": "N",
        "help": "the version that `window list` shows; where somebody changed it since, nothing is done",
    }
}


def number(item: Mapping[str, Any]) -> object:
    return item["id"]


def _nodes(item: Mapping[str, Any]) -> str:
    return ", ".join(item["nodes"]) or "all"


def _whose(item: Mapping[str, Any]) -> str:
    return ", ".join([*item["projects"], *item["people"]]) or "nobody"


class List(Reader):
    """List windows that are open or to come"""

    options: ClassVar[Options] = {
        "all": {"args": ("--all",), "action": "store_true", "help": "also those that are over or cancelled"},
        **SERVER,
        **Reader.options,
    }

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            items = tuple(desk.windows(caller, over=self.given["all"]))
        return Answer("WindowList", items, COLUMNS, name=number, nothing="no window is open or planned")


class Show(Reader):
    """Show one window: its times, its nodes, whom it is for, and who said so"""

    options: ClassVar[Options] = {**NUMBER, **SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            item = desk.window(caller, self.given["window"])
        said = {**item, "nodes": _nodes(item), "for": _whose(item)}
        names = ("cluster", "state", "opens", "closes", "nodes", "for", "why", "version")
        pairs = [("window", item["id"]), *((name, said[name]) for name in names)]
        pairs += [("made", f"{item['made']} by {item['made_by']}")]
        pairs += [("changed", f"{item['changed']} by {item['changed_by']}")]
        return Answer("Window", (item,), lines=card(pairs), name=number)


class _Change(Verb):
    """Base: change the calendar, say what came of it, and name the jobs that it is about."""

    creates: ClassVar[bool] = False  # whether it may make a store where there is none
    options: ClassVar[Options] = {**WHY, **SERVER, **DRY_RUN, **OUTPUT}

    def change(self, desk: JobDesk, caller: Caller) -> dict[str, Any]:
        raise NotImplementedError

    def run(self) -> int:
        dry = self.given["dry_run"]
        with at_desk(self, write=not dry, create=self.creates and not dry) as (desk, caller):
            item = self.change(desk, caller)
        form = self.given["output"]
        if form in ("table", "wide"):
            affected = tuple(item["affected"])
            answer = Answer("AffectedList", affected, AFFECTED, nothing="no job is affected")
        else:
            answer = Answer("Window", (item,), name=number)
        self.caller.out.write(drawn(answer, form, self.caller))
        self.caller.say(f"nothing was changed; otherwise: {item['say']}" if dry else item["say"])
        return Exit.DONE


class Add(_Change):
    """Close nodes for a time, or keep them for projects and people

    Jobs are planned around it. A job that runs already and would run into it is told now, is given notice,
    and is ended when it opens. With --dry-run the jobs are named and nothing is changed.
    """

    creates = True
    options: ClassVar[Options] = {
        "nodes": {"args": ("nodes",), "nargs": "*", "metavar": "NODE", "help": "the nodes that it is about"},
        "all": {"args": ("--all",), "action": "store_true", "help": "every node of the cluster"},
        "cluster": {
            "args": ("--cluster",),
            "metavar": "NAME",
            "help": "of which cluster (default: the only one)",
        },
        **TIMES,
        "projects": {
            "args": ("--project",),
            "dest": "projects",
            "action": "append",
            "metavar": "NAME",
            "help": "keep the nodes for this project; may be given several times",
        },
        "people": {
            "args": ("--person",),
            "dest": "people",
            "action": "append",
            "metavar": "NAME",
            "help": "keep the nodes for this person; may be given several times",
        },
        **_Change.options,
    }

    def change(self, desk: JobDesk, caller: Caller) -> dict[str, Any]:
        from glidepath.jobs.desk import WindowWish

        given = self.given
        wish = WindowWish(
            starts=given["starts"],
            ends=given["ends"],
            lasts_s=given["lasts"],
            cluster=given["cluster"],
            nodes=tuple(given["nodes"]),
            everywhere=given["all"],
            projects=tuple(given["projects"] or ()),
            people=tuple(given["people"] or ()),
            why=given["why"],
        )
        return desk.add_window(caller, wish, dry=given["dry_run"])


class Move(_Change):
    """Give a window other times; those whom it is about are told

    Its length stays where only --from is given. Of one that is open only the end can be moved.
    """

    options: ClassVar[Options] = {**NUMBER, **TIMES, **VERSION, **_Change.options}

    def change(self, desk: JobDesk, caller: Caller) -> dict[str, Any]:
        from glidepath.jobs.desk import WindowMove

        given = self.given
        move = WindowMove(given["version"], given["starts"], given["ends"], given["lasts"], given["why"])
        return desk.move_window(caller, given["window"], move, dry=given["dry_run"])


class Cancel(_Change):
    """Cancel a window, also one that is open: its nodes take jobs again"""

    options: ClassVar[Options] = {**NUMBER, **VERSION, **_Change.options}

    def change(self, desk: JobDesk, caller: Caller) -> dict[str, Any]:
        given = self.given
        return desk.cancel_window(
            caller, given["window"], given["version"], why=given["why"], dry=given["dry_run"]
        )


NOUN = Noun("window", {"add": Add, "list": List, "show": Show, "move": Move, "cancel": Cancel})
