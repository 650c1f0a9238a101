"""`glidepath notice`: where one is told of one's jobs, by mail or to a webhook; each only of whoever asks."""

from __future__ import annotations

from typing import Any, ClassVar

from glidepath.cli.atdesk import SERVER, at_desk
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, drawn
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop, Verb

# The words of `glidepath.notices.words`, which this module must not load; a test compares them.
KINDS = ("start", "moved", "limit", "again", "end")
KINDS_HELP = (
    "start: it began to run; moved: its promised start moved; limit: its time is almost out, or something "
    "else is about to end it; again: it lost a node, and goes on or waits again; end: it ended"
)
TEST_S_MAX = 60.0
TEST_LOOK_S = 0.5
COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("TO", lambda item: item["to"]),
    Column("ON", lambda item: ",".join(item["on"])),
    Column("STATE", lambda item: item["state"]),
    Column("SENT", lambda item: item["sent"] or "never"),
    Column("MADE", lambda item: item["made"], wide=True),
    Column("TESTED", lambda item: item["tested"], wide=True),
    Column("WHY", lambda item: item["why"]),
)
NAME: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "its name, as the list shows it"}}


class Change(Verb):
    """Base of the verbs that change something: the sentence about it, and the item for those who ask."""

    options: ClassVar[Options] = {**DRY_RUN, **OUTPUT, **SERVER}

    def told(self, item: dict[str, Any], said: str, lines: tuple[str, ...] = ()) -> int:
        answer = Answer("Notice", (item,), lines=lines)
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.say(f"nothing was changed; otherwise: {said}" if self.given["dry_run"] else said)
        return Exit.DONE


class Set(Change):
    """Be told of your jobs at a mail address, or at a webhook whose secret is printed this once

    Under a name that you have already it is changed. One letter tells what happened within seconds of each
    other, and what comes beyond the limit of an hour waits for the next.
    """

    options: ClassVar[Options] = {
        "to": {"args": ("to",), "metavar": "TO", "help": "such as ada@example.org or https://example.org/x"},
        "on": {
            "args": ("--on",),
            "default": "",
            "metavar": "KINDS",
            "help": f"what is told, with commas in between; {KINDS_HELP} (default: all)",
        },
        "name": {
            "args": ("--name",),
            "default": "",
            "metavar": "NAME",
            "help": "its name, where you want several (default: mail or webhook)",
        },
        **Change.options,
    }

    def run(self) -> int:
        given = self.given
        on = tuple(word.strip() for word in given["on"].split(",") if word.strip())
        dry = given["dry_run"]
        with at_desk(self, write=not dry, create=not dry) as (desk, caller):
            item = dict(desk.notices.set(caller, given["to"], name=given["name"], on=on, dry=dry))
        secret = (item["secret"],) if item["secret"] else ()
        kept = (
            "; its letters are signed with the secret on stdout, which is shown this once" if secret else ""
        )
        words = f"`{item['name']}` is told at `{item['to']}`: {', '.join(item['on'])}{kept}"
        return self.told(item, f"{words}; try it with `glidepath notice test {item['name']}`", secret)


class List(Reader):
    """List where you are told of your jobs, and how it went"""

    options: ClassVar[Options] = {**SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            items = tuple(desk.notices.list(caller))
        nothing = "you are told nowhere; `glidepath notice set ada@example.org` changes that"
        return Answer("NoticeList", items, COLUMNS, nothing=nothing)


class Test(Change):
    """Send a test now and say what became of it; one that was switched off is on again when it is taken"""

    __test__ = False  # No test of ours, whatever it is called.
    options: ClassVar[Options] = {**NAME, **Change.options}

    def run(self) -> int:
        given = self.given
        dry = given["dry_run"]
        with at_desk(self, write=not dry) as (desk, caller):
            item = dict(desk.notices.test(caller, given["name"], dry=dry))
            if dry:
                return self.told(item, f"a test is sent to `{item['to']}`")
            deadline = self.caller.wall() + TEST_S_MAX
            while item["testing"] and self.caller.wall() < deadline:
                self.caller.sleep(TEST_LOOK_S)
                item = dict(desk.notices.show(caller, given["name"]))
        if item["testing"]:
            why = f"nobody has sent the test within {TEST_S_MAX:.0f} s; it is sent when `glidepath up` runs"
            raise Stop(why, code=Exit.INCOMPLETE)
        self.told(item, f"the test to `{item['to']}`: {item['tested']}")
        return Exit.DONE if item["tested"].startswith("taken") else Exit.FAILED


class Remove(Change):
    """Be told there no more"""

    options: ClassVar[Options] = {**NAME, **Change.options}

    def run(self) -> int:
        given = self.given
        dry = given["dry_run"]
        with at_desk(self, write=not dry) as (desk, caller):
            item = dict(desk.notices.remove(caller, given["name"], dry=dry))
        return self.told(item, f"`{item['name']}` is removed: nothing is sent to `{item['to']}` any more")


NOUN = Noun("notice", {"set": Set, "list": List, "test": Test, "remove": Remove})
