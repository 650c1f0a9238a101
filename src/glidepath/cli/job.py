"""`glidepath job`: submit, list, show, cancel and wait, straight from the store.

It works whether or not the controllers run: a job waits in the store until a pilot takes it. It refuses to
know how jobs are started; reading what they wrote is in `joblog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.jobask import ENDLESS, is_placed, limit, refuse_placed_options
from glidepath.cli.joblog import Logs
from glidepath.cli.jobplace import SUBMIT, ExplainJob, Extend, submit_placed, with_file
from glidepath.cli.jobview import COLUMNS, START, answer_of, attempt_item, found_job, item_of, pairs_of
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, card, drawn, need, span
from glidepath.cli.placedview import placed_item, placed_pairs, rank_item
from glidepath.cli.session import iso, located, login, opened
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop, Verb, not_found

if TYPE_CHECKING:
    from glidepath.cli.session import Located, Session
    from glidepath.store.job import Job, JobSpec
    from glidepath.store.placed import PlacedJob

COUNT_MAX = 100_000
LIST_DEFAULT = 50
POLL_S = 0.5
# A wait without a limit ends some day: a forgotten one must not hold the store for years.
WAIT_S_MAX = 30 * 86400
STATES = ("queued", "running", "cancelling", "done", "failed", "cancelled")

IDS: Options = {
    "ids": {"args": ("ids",), "nargs": "+", "type": argument.count, "metavar": "ID", "help": "job numbers"}
}
ONE_ID: Options = {"id": {"args": ("id",), "type": argument.count, "metavar": "ID", "help": "a job number"}}


class Submit(Verb):
    """Submit a command as a job, or many of them, and print the numbers

    Write `--` before the command: glidepath job submit --cpus 2 --mem 4GiB -- python fit.py
    """

    takes_command = True
    options: ClassVar[Options] = {
        "partition": {
            "args": ("--partition",),
            "help": "where it goes (default: the first by name that its options fit)",
            "metavar": "P",
        },
        "cpus": {
            "args": ("--cpus",),
            "type": argument.cpus,
            "default": 1000,
            "metavar": "N",
            "help": "CPUs (default: 1)",
        },
        "mem": {
            "args": ("--mem",),
            "type": argument.size,
            "default": 512,
            "metavar": "SIZE",
            "help": "memory (default: 512MiB)",
        },
        "disk": {
            "args": ("--disk",),
            "type": argument.size,
            "default": 0,
            "metavar": "SIZE",
            "help": "disk (default: 0)",
        },
        "gpus": {
            "args": ("--gpus",),
            "type": argument.count,
            "default": 0,
            "metavar": "N",
            "help": "GPUs (default: 0)",
        },
        "trait": {
            "args": ("--trait",),
            "type": argument.pair,
            "action": "append",
            "default": [],
            "metavar": "KEY=VALUE",
            "help": "a property that the pilot must have, for example `arch=arm64`; may be repeated",
        },
        "time": {
            "args": ("--time",),
            "type": limit,
            "default": None,
            "metavar": "SPAN",
            "help": "run time limit; `none` for none. Pilots near their end may take a job that has one "
            "(default: none in a pool, that of the partition where it is placed)",
        },
        "retries": {
            "args": ("--retries",),
            "type": argument.count,
            "default": 3,
            "metavar": "N",
            "help": "how often it is run again after its pilot or node was lost (default: 3)",
        },
        "name": {"args": ("--name",), "default": "", "help": "a name for people"},
        "env": {
            "args": ("--env",),
            "type": argument.pair,
            "action": "append",
            "default": [],
            "metavar": "KEY=VALUE",
            "help": "a variable of the job; may be repeated",
        },
        "count": {
            "args": ("--count",),
            "type": argument.count,
            "default": 1,
            "metavar": "N",
            "help": "how many of them (default: 1)",
        },
        **SUBMIT,
        **DRY_RUN,
        **OUTPUT,
    }

    def run(self) -> int:
        self.given = given = with_file(self.given, self.options)
        need(given["command"], "no command is given", hint="`glidepath job submit [options] -- COMMAND...`")
        need(1 <= given["count"] <= COUNT_MAX, f"`--count` must be from 1 to {COUNT_MAX}")
        place = located(self)
        placed = is_placed(given, place)
        if placed is not None:
            return submit_placed(self, placed, place)
        spec = self.spec(place)
        if given["dry_run"]:
            return self.told(spec)
        with opened(self, place=place, create=True) as session:
            ids = session.jobs.submit_many([spec] * given["count"])
        # The number alone on stdout, so that `ID=$(glidepath job submit ...)` works as with sbatch.
        items = [
            {"id": number, "name": spec.name, "partition": spec.partition, "shape": str(spec.shape)}
            for number in ids
        ]
        answer = answer_of(items, lines=tuple(str(number) for number in ids))
        self.caller.out.write(drawn(answer, given["output"], self.caller))
        return Exit.DONE

    def spec(self, place: Located) -> JobSpec:
        from glidepath.core.quantity import Resources
        from glidepath.store.job import JobSpec

        given = self.given
        partition = given["partition"] or place.partition
        if partition not in place.partitions:
            raise not_found("partition", partition, [*place.partitions, *place.placed])
        refuse_placed_options(given, partition)
        need(not given.get("files"), "files are put beside jobs that are placed; add `--queue`")
        try:
            return JobSpec(
                partition=partition,
                owner=login(),
                command=tuple(given["command"]),
                name=given["name"],
                env=tuple(given["env"]),
                request=Resources(given["cpus"], given["mem"], given["disk"], given["gpus"]),
                traits=tuple(sorted(given["trait"])),
                run_s_max=None if given["time"] == ENDLESS else given["time"],
                retries_max=given["retries"],
            )
        except ValueError as error:
            raise Stop(f"the job is not submitted: {error}", code=Exit.USAGE) from None

    def told(self, spec: JobSpec) -> int:
        count = self.given["count"]
        what = "1 job" if count == 1 else f"{count} jobs"
        self.caller.say(f"would submit {what} of {spec.shape} to `{spec.partition}`; nothing was submitted")
        return Exit.DONE


class List(Reader):
    """List jobs, the newest last"""

    options: ClassVar[Options] = {
        "start": {
            "args": ("--start",),
            "action": "store_true",
            "help": "also when each began, or is to begin by what was promised",
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
        **Reader.options,
    }

    def answer(self) -> Answer:
        from glidepath.store.job import JobState
        from glidepath.store.jobs import LIST_MAX

        with opened(self) as session:
            found = session.jobs.list(
                partition=self.given["partition"],
                owner=login() if self.given["me"] else None,
                states=[JobState(self.given["state"])] if self.given["state"] else None,
                limit=LIST_MAX if self.given["all"] else self.given["limit"],
            )
            items = [self.item(session, job) for job in found]
        nothing = "no job matches; submit one with `glidepath job submit -- COMMAND...`"
        columns = (*COLUMNS[:4], START, *COLUMNS[4:]) if self.given["start"] else COLUMNS
        return answer_of(items, columns=columns, nothing=nothing)

    def item(self, session: Session, job: Job) -> dict[str, Any]:
        placed = session.placed.find(job.id) if job.spec.partition in session.located.placed else None
        return item_of(job, self.caller.wall()) if placed is None else placed_item(placed, session)


class Show(Reader):
    """Show one job in full, with every attempt to run it"""

    options: ClassVar[Options] = {**ONE_ID, **Reader.options}

    def answer(self) -> Answer:
        with opened(self) as session:
            job = found_job(session, self.given["id"])
            placed = session.placed.find(job.id)
            if placed is not None:
                return self.placed(session, placed)
            attempts = session.jobs.attempts(job.id)
        item = item_of(job, self.caller.wall())
        item["attempts"] = [attempt_item(attempt) for attempt in attempts]
        return answer_of([item], lines=card(pairs_of(item)))

    def placed(self, session: Session, found: PlacedJob) -> Answer:
        item = {**placed_item(found, session), "attempts": []}
        ranks = session.placed.ranks(found.id)
        events = session.placed.events(job=found.id)
        item["rank_list"] = [rank_item(attempt, rank, session) for attempt, rank in ranks]
        item["events"] = [{"at": iso(each.wall_s), "kind": each.kind, "text": each.text} for each in events]
        return answer_of([item], lines=card([*pairs_of(item), *placed_pairs(item, ranks, events)]))


class Cancel(Verb):
    """Cancel jobs: a waiting one is over at once, a running one when its pilot has stopped it"""

    options: ClassVar[Options] = {**IDS, **DRY_RUN, **OUTPUT}

    def run(self) -> int:
        code, items = Exit.DONE, []
        with opened(self, write=not self.given["dry_run"]) as session:
            for number in self.given["ids"]:
                try:
                    items.append(self.one(session, number))
                except Stop as stop:
                    # The others are still cancelled: half of a list is better than none of it.
                    self.caller.say(f"glidepath: {stop}")
                    code = stop.code
        columns = (
            COLUMNS[0],
            Column("BEFORE", lambda item: item["before"]),
            Column("STATE", lambda item: item["state"]),
        )
        answer = Answer("JobList", tuple(items), columns, name=lambda item: item["id"])
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        if self.given["dry_run"]:
            self.caller.say("nothing was cancelled: this was a dry run")
        return code

    def one(self, session: Session, number: int) -> dict[str, Any]:
        before = found_job(session, number).state
        placed = session.placed.find(number)
        if placed is not None and not self.given["dry_run"]:
            after = session.placed.cancel(number, by=login()).stands
            return {"id": number, "before": placed.stands, "state": after}
        if not self.given["dry_run"]:
            return {"id": number, "before": before.value, "state": session.jobs.cancel(number).value}
        after = {"queued": "cancelled", "running": "cancelling"}.get(before.value, before.value)
        return {"id": number, "before": before.value, "state": after}


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
        **OUTPUT,
    }

    def run(self) -> int:
        from glidepath.store.job import OVER, JobState

        with opened(self) as session:
            looks = int(min(self.given["timeout"], WAIT_S_MAX) / POLL_S) + 1
            for look in range(looks):
                jobs = [found_job(session, number) for number in self.given["ids"]]
                open_jobs = [job for job in jobs if job.state not in OVER]
                if not open_jobs:
                    break
                self.progress(f"waiting for {len(open_jobs)} of {len(jobs)} jobs, {span(int(look * POLL_S))}")
                if look < looks - 1:
                    self.caller.sleep(POLL_S)
        self.progress("")
        answer = answer_of([item_of(job, self.caller.wall()) for job in jobs])
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        if open_jobs:
            numbers = ", ".join(str(job.id) for job in open_jobs)
            raise Stop(f"gave up after {span(self.given['timeout'])}: not over yet: {numbers}")
        return Exit.DONE if all(job.state is JobState.DONE for job in jobs) else Exit.FAILED

    def progress(self, line: str) -> None:
        """One line that is overwritten, and only where somebody can see it."""
        if self.caller.err.isatty():
            self.caller.err.write(f"\r\x1b[K{line}")
            self.caller.err.flush()


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
