"""`glidepath usage`: what placed jobs used and what it cost, by user, project, partition and time.

The desk says all of it, here or far away; here it is printed, as a table, JSON, YAML or CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any, ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import FORMATS, Reader
from glidepath.cli.verb import Answer, Column, Exit, Item, Noun, Options

KEYS = ("owner", "project", "partition")
STEPS = ("all", "month", "day", "hour")
# A spreadsheet takes a text that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def amount(name: str, title: str, *, wide: bool = False) -> Column:
    return Column(title, lambda item: _shown(item[name]), wide=wide, right=True)


AMOUNTS = (
    amount("runs", "RUNS"),
    amount("cpu_hours", "CPU-H"),
    amount("gpu_hours", "GPU-H"),
    amount("memory_gib_hours", "GIB-H", wide=True),
    amount("disk_gib_hours", "DISK-GIB-H", wide=True),
    amount("charged", "CHARGED", wide=True),
    amount("refunded", "REFUNDED"),
    amount("credits", "CREDITS"),
)


# What was used is asked alike of jobs and of pilots.
SPAN: Options = {
    "since": {
        "args": ("--since",),
        "default": "30d",
        "metavar": "WHEN",
        "help": "from when on: `30d` ago, `2030-01-31`, or a date and time (default: 30d)",
    },
    "until": {
        "args": ("--until",),
        "default": "",
        "metavar": "WHEN",
        "help": "until when, in the same forms (default: now)",
    },
}
WITH_CSV: Options = {
    "output": {
        **Reader.options["output"],
        "choices": (*FORMATS, "csv"),
        "help": "how the answer is written; json, yaml and csv are stable, tables may change "
        "(default: table)",
    },
}


class Show(Reader):
    """Show what placed jobs used and what it cost: by whom, for which project, when

    Refunds are for attempts that were lost by no fault of the job, such as with a node.
    """

    options: ClassVar[Options] = {
        "by": {
            "args": ("--by",),
            "default": "project,owner",
            "metavar": "KEYS",
            "help": "apart by which of owner, project and partition, with commas in between; empty for one "
            "sum (default: project,owner)",
        },
        "step": {
            "args": ("--step",),
            "choices": STEPS,
            "default": "all",
            "help": "apart by month, day or hour, in UTC (default: all)",
        },
        **SPAN,
        "user": {"args": ("--user",), "metavar": "NAME", "help": "only of this user"},
        "project": {
            "args": ("--project",),
            "metavar": "P",
            "help": "only of this project and those below it",
        },
        "partition": {"args": ("--partition",), "metavar": "P", "help": "only of this partition"},
        **SERVER,
        **Reader.options,
        **WITH_CSV,
    }

    def answer(self) -> Answer:
        from glidepath.jobs.desk import UsageAsked

        given = self.given
        by = tuple(dict.fromkeys(word for word in given["by"].split(",") if word))
        asked = UsageAsked(
            by=by,
            step=given["step"],
            since=given["since"],
            until=given["until"],
            owner=given["user"],
            project=given["project"],
            partition=given["partition"],
        )
        with at_desk(self) as (desk, caller):
            found = desk.usage(caller, asked)
        items, total = tuple(found["usage"]), found["total"]
        counted = (
            f", counted last {found['metered']}" if found["metered"] else ", and nothing was counted yet"
        )
        notes = [f"from {found['since']} until {found['until']}{counted}"]
        if len(items) > 1:
            notes.append(
                f"together {_shown(total['cpu_hours'])} CPU hours, {_shown(total['credits'])} credits"
            )
        nothing = "nothing was used in this time by anybody whose usage you may see"
        return Answer(
            "UsageList",
            items,
            (*_keys(by, given["step"]), *AMOUNTS),
            nothing=nothing,
            notes=tuple(notes) if items else (),
            name=lambda item: " ".join(str(item[key]) for key in by) or "all",
        )

    def show(self, answer: Answer) -> int:
        if self.given["output"] != "csv":
            return super().show(answer)
        self.caller.out.write(csv_text(answer.items))
        return Exit.DONE


def _keys(by: Iterable[str], step: str) -> tuple[Column, ...]:
    def key(name: str) -> Column:
        return Column(name.upper(), lambda item: item[name])

    when = (Column("START", lambda item: item["start"]),) if step != "all" else ()
    return (*when, *(key(name) for name in by))


def csv_text(items: Iterable[Item]) -> str:
    """Every column, those that were not asked for empty, so that scripts find them in one place."""
    names = ("start", *KEYS, "runs", "seconds", "cpu_hours", "memory_gib_hours", "disk_gib_hours")
    return csv_of((*names, "gpu_hours", "charged", "refunded", "credits"), items)


def csv_of(names: tuple[str, ...], items: Iterable[Item]) -> str:
    out = io.StringIO()
    rows = csv.DictWriter(out, names, lineterminator="\n")
    rows.writeheader()
    rows.writerows({name: _cell(value) for name, value in item.items()} for item in items)
    return out.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


NOUN = Noun("usage", {"": Show})
