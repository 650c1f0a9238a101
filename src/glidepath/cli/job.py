"""`glidepath job`: submit, list, show, cancel and wait; the desk says all of it, here it is printed.

It works whether or not the controllers run. Submitting is in `jobsubmit`, reading logs in `joblog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli import argument
from glidepath.cli.atdesk import SERVER, at_desk, stopped
from glidepath.cli.joblog import Logs
from glidepath.cli.jobsubmit import Submit
from glidepath.cli.jobview import COLUMNS, OVER, STARTS, answer_of, pairs_of
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, card, drawn, span
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop, Verb

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.jobs.desk import Item, JobDesk

LIST_DEFAULT = 50
POLL_S = 0.5
# A wait without a limit ends some day: a forgotten one must not hold the store for years.
WAIT_S_MAX = 30 * 86400
STATES = ("queued", "starting", "running", "ending", "cancelling", "done", "failed", "cancelled")

IDS: Options = {
    "ids": {"args": ("ids",), "nargs": "+", "type": argument.number, "metavar": "ID", "help": "job numbers"}
}
ONE_ID: Options = {"id": {"args": ("id",), "type": argument.number, "metavar": "ID", "help": "a job number"}}


class List(Reader):
    """List jobs, the newest last"""

    options: ClassVar[Options] = {
        "start": {
            "args": ("--start",),
            "action": "store_true",
            "help": "also when each began, is to begin by what was promised, or will probably begin",
        },
        "me": {"args": ("--me",), "action": "store_true", "help": "only my own jobs"},
        "state": {"args": ("--state",), "choices": STATES, "help": "only jobs in this state"},
        "partition": {"args": ("--partition",), "metavar": "P", "help": "only jobs of this partition"},
        "limit": {
            "args": ("--limit",),
            "type": argument.count,
            "default": LIST_DEFAULT,
            "metavar": "N",
            "help": "the newest N (default: 50)",
        },
        "all": {"args": ("--all",), "action": "store_true", "help": "as many as the store gives at once"},
        **SERVER,
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.jobs.desk import Asked
        from glidepath.store.jobs import LIST_MAX

        given = self.given
        asked = Asked(
            mine=given["me"],
            state=given["state"],
            partition=given["partition"],
            limit=LIST_MAX if given["all"] else given["limit"],
            starts=given["start"],
        )
        with at_desk(self) as (desk, caller):
            items = list(desk.list(caller, asked))
        nothing = "no job matches; submit one with `glidepath job submit -- COMMAND...`"
        columns = (*COLUMNS[:4], *STARTS, *COLUMNS[4:]) if given["start"] else COLUMNS
        return answer_of(items, columns=columns, nothing=nothing)


class Show(Reader):
    """Show one job in full, with every attempt to run it"""

    options: ClassVar[Options] = {**ONE_ID, **SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            item = desk.show(caller, self.given["id"])
        return answer_of([item], lines=card(pairs_of(item)))


class Cancel(Verb):
    """Cancel jobs: a waiting one is over at once, a running one when its pilot has stopped it"""

    options: ClassVar[Options] = {**IDS, **DRY_RUN, **SERVER, **OUTPUT}

    def run(self) -> int:
        from glidepath.jobs.errors import DeskError

        code, items, dry = Exit.DONE, [], self.given["dry_run"]
        with at_desk(self, write=not dry) as (desk, caller):
            for number in self.given["ids"]:
                try:
                    items.append(desk.cancel(caller, number, dry=dry))
                except DeskError as error:
                    # The others are still cancelled: half of a list is better than none of it.
                    stop = stopped(error)
                    self.caller.say(f"glidepath: {stop}")
                    code = stop.code
        columns = (
            COLUMNS[0],
            Column("BEFORE", lambda item: item["before"]),
            Column("STATE", lambda item: item["state"]),
        )
        answer = Answer("JobList", tuple(items), columns, name=lambda item: item["id"])
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        if dry:
            self.caller.say("nothing was cancelled: this was a dry run")
        return code


class Wait(Verb):
    """Wait until jobs are over; exits with 0 when all of them are done, else with 1"""

    options: ClassVar[Options] = {
        **IDS,
        "timeout": {
            "args": ("--timeout",),
            "type": argument.duration,
            "default": WAIT_S_MAX,
            "metavar": "SPAN",
            "help": "how long at most (default: 30d)",
        },
        **SERVER,
        **OUTPUT,
    }

    def run(self) -> int:
        found: dict[int, Item] = {}
        with at_desk(self) as (desk, caller):
            looks = int(min(self.given["timeout"], WAIT_S_MAX) / POLL_S) + 1
            for look in range(looks):
                left = self.look(desk, caller, found)
                if not left:
                    break
                self.progress(f"waiting for {len(left)} of {len(found)} jobs, {span(int(look * POLL_S))}")
                if look < looks - 1:
                    self.caller.sleep(POLL_S)
        self.progress("")
        self.caller.out.write(drawn(answer_of(list(found.values())), self.given["output"], self.caller))
        if left:
            numbers = ", ".join(map(str, left))
            raise Stop(f"gave up after {span(self.given['timeout'])}: not over yet: {numbers}")
        return Exit.DONE if all(item["state"] == "done" for item in found.values()) else Exit.FAILED

    def look(self, desk: JobDesk, caller: Caller, found: dict[int, Item]) -> list[int]:
        """Ask for those that are not over; their numbers."""
        for number in self.given["ids"]:
            if number not in found or found[number]["state"] not in OVER:
                found[number] = desk.show(caller, number)
        return [number for number, item in found.items() if item["state"] not in OVER]

    def progress(self, line: str) -> None:
        """One line that is overwritten, and only where somebody can see it."""
        if self.caller.err.isatty():
            self.caller.err.write(f"\r\x1b[K{line}")
            self.caller.err.flush()


class Extend(Verb):
    """Ask for another time limit of a job that runs, counted from its start, longer or shorter

    It is granted where no promised start moves by it and no window is run into.
    """

    options: ClassVar[Options] = {
        **ONE_ID,
        "time": {
            "args": ("--time",),
            "type": argument.duration,
            "required": True,
            "metavar": "SPAN",
            "help": "the new limit, all of it: `6h` for a job that has 2h and shall have 4h more",
        },
        "force": {
            "args": ("--force",),
            "action": "store_true",
            "help": "also where promised starts move by it; only the operator of this home may",
        },
        **DRY_RUN,
        **SERVER,
        **OUTPUT,
    }

    def run(self) -> int:
        given = self.given
        with at_desk(self, write=not given["dry_run"]) as (desk, caller):
            if given["dry_run"]:
                return self.tried(desk, caller)
            item = desk.extend(caller, given["id"], given["time"], forced=given["force"])
        self.caller.say(item.pop("say"))
        self.caller.out.write(drawn(answer_of([item], lines=()), given["output"], self.caller))
        return Exit.DONE

    def tried(self, desk: JobDesk, caller: Caller) -> int:
        from glidepath.jobs.errors import Clash

        given = self.given
        try:
            item = desk.extend(caller, given["id"], given["time"], forced=given["force"], dry=True)
        except Clash as refusal:
            self.caller.say(f"would be refused: {refusal}; nothing was changed")
            return Exit.FAILED
        self.caller.say(f"would be granted: {item['say']}; nothing was changed")
        return Exit.DONE


class ExplainJob(Reader):
    """Say why a placed job waits, what holds its nodes, what would start now instead"""

    options: ClassVar[Options] = {**ONE_ID, **SERVER, **Reader.options}

    def answer(self) -> Answer:
        with at_desk(self) as (desk, caller):
            item = desk.explain(caller, self.given["id"])
        return Answer("Explanation", (item,), lines=tuple(item["explained"]))


NOUN = Noun(
    "job",
    {
        "submit": Submit,
        "list": List,
        "show": Show,
        "explain": ExplainJob,
        "extend": Extend,
        "cancel": Cancel,
        "logs": Logs,
        "wait": Wait,
    },
)
