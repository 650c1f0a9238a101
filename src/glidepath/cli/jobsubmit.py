"""`glidepath job submit`: options and a file come in, one wish goes to the desk, its answer is printed.

What the command line says goes before what the file says. It refuses to know how jobs are kept and started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.atdesk import SERVER, at_desk, server_of, stopped
from glidepath.cli.jobfile import file_put, file_table
from glidepath.cli.jobview import answer_of
from glidepath.cli.output import DRY_RUN, OUTPUT, drawn, need, span
from glidepath.cli.session import located
from glidepath.cli.verb import Answer, Exit, Options, Stop, Verb

if TYPE_CHECKING:
    from glidepath.cli.session import Located
    from glidepath.jobs.errors import DeskError
    from glidepath.jobs.submission import Submission

COUNT_MAX = 100_000


def _text(flag: str, words: str, **more: Any) -> dict[str, Any]:
    return {"args": (flag,), "help": words, **more}


def _flag(flag: str, words: str) -> dict[str, Any]:
    return {"args": (flag,), "action": "store_true", "help": words}


def _value(flag: str, read: Any, metavar: str, words: str) -> dict[str, Any]:
    return {"args": (flag,), "type": read, "metavar": metavar, "help": words}


def _many(flag: str, metavar: str, words: str, **more: Any) -> dict[str, Any]:
    return {"args": (flag,), "action": "append", "default": [], "metavar": metavar, "help": words, **more}


CPUS, SIZE, SPAN = (argument.as_written(read) for read in (argument.cpus, argument.size, argument.duration))
LIMIT, WHEN = argument.as_written(argument.limit), argument.as_written(argument.moment)
# Each is a key of a wish, and stands in a submit file under the same name.
WISH: Options = {
    "partition": _text(
        "--partition", "where it goes (default: the first by name that its options fit)", metavar="P"
    ),
    "cpus": _value("--cpus", CPUS, "N", "CPUs (default: 1)"),
    "mem": _value("--mem", SIZE, "SIZE", "memory (default: 512MiB)"),
    "disk": _value("--disk", SIZE, "SIZE", "disk (default: 0)"),
    "gpus": _value("--gpus", argument.count, "N", "GPUs (default: 0)"),
    "trait": _many(
        "--trait",
        "KEY=VALUE",
        "a property that the pilot must have, for example `arch=arm64`; may be repeated",
        type=argument.pair,
    ),
    "time": _value(
        "--time",
        LIMIT,
        "SPAN",
        "run time limit; `none` for none. Pilots near their end may take a job that has one "
        "(default: none in a pool, that of the partition where it is placed)",
    ),
    "retries": _value(
        "--retries",
        argument.count,
        "N",
        "how often it is run again after its pilot or node was lost (default: 3)",
    ),
    "name": _text("--name", "a name for people"),
    "env": _many("--env", "KEY=VALUE", "a variable of the job; may be repeated", type=argument.pair),
    "queue": _text(
        "--queue",
        "placed on a cluster: in strict order with a promised start, or reordered (default: "
        "interactive with a port or a terminal, else batch)",
        choices=("interactive", "batch"),
    ),
    "ranks": _value(
        "--ranks",
        argument.count,
        "N",
        "placed: nodes at once, all or none; the command runs on each (default: 1)",
    ),
    "image": _text("--image", "placed: its container image", metavar="NAME"),
    "workdir": _text("--workdir", "placed: where it begins", metavar="DIR"),
    "port": _many("--port", "N", "placed: a port that it serves at; may be repeated", type=argument.count),
    "terminal": {
        **_flag("--terminal", "placed: somebody will sit at a terminal of it, which it brings itself"),
        "args": ("-t", "--terminal"),
    },
    "shm": _value("--shm", SIZE, "SIZE", "placed: /dev/shm"),
    "gpu_share": _value("--gpu-share", argument.count, "N", "placed: thousandths of one GPU"),
    "gpu_kind": _many("--gpu-kind", "KIND", "placed: only GPUs of this kind; may be repeated"),
    "runtime": _text("--runtime", "placed: runtime class", metavar="NAME"),
    "exclusive": _flag("--exclusive", "placed: nobody else on its nodes"),
    "project": _text("--project", "placed: who pays", metavar="NAME"),
    "start_after": _value(
        "--start-after", WHEN, "WHEN", "placed: not before, `2030-01-31T08:00:00Z` or `+2h` from now"
    ),
    "start_before": _value("--start-before", WHEN, "WHEN", "placed: by then, or not at all"),
    "deadline": _value("--deadline", WHEN, "WHEN", "placed: over by then"),
    "beside": _value("--beside", argument.number, "ID", "placed: starts with that job, or while it runs"),
    "same_node": _flag("--same-node", "placed: on the nodes of the job that it is beside"),
    "on_loss": _text(
        "--on-loss",
        "placed: when it loses a node (default: requeue, as often as --retries says)",
        choices=("end", "requeue", "go-on"),
    ),
    "stoppable": _flag("--stoppable", "placed: may be ended for others, and waits again"),
    "notice": _value("--notice", SPAN, "SPAN", "placed: SIGUSR1 so long before its limit (default: none)"),
    "gather": _value(
        "--gather", SPAN, "SPAN", "placed: all ranks are in place within this, or none begins (default: 5m)"
    ),
}


class Submit(Verb):
    """Submit a command as a job, or many of them, and print the numbers

    Write `--` before the command: glidepath job submit --cpus 2 --mem 4GiB -- python fit.py
    """

    takes_command = True
    options: ClassVar[Options] = {
        **WISH,
        "put": _many(
            "--put", "FILE[:PATH]", "placed: a file that is there before the command begins; may be repeated"
        ),
        "file": _text(
            "--file",
            "options, command, env and files of the job in TOML or YAML; the command line goes first",
            metavar="FILE",
            default="",
        ),
        "count": {
            **_value("--count", argument.count, "N", "how many of them (default: 1)"),
            "default": 1,
        },
        "client_key": _text(
            "--client-key",
            "the same word twice gives the same job, so that a submission may be repeated",
            metavar="WORD",
            default="",
        ),
        "test_only": _flag("--test-only", "placed: say when it would start, and submit nothing"),
        **DRY_RUN,
        **SERVER,
        **OUTPUT,
    }

    def run(self) -> int:
        from glidepath.jobs.errors import DeskError

        given = self.given
        need(1 <= given["count"] <= COUNT_MAX, f"`--count` must be from 1 to {COUNT_MAX}")
        alone = not (given["client_key"] and given["count"] > 1)
        need(alone, "a client key is for one job; leave out `--count`")
        try:
            wish = self.wish()
            place = None if server_of(self) else located(self)
            if place is None:
                need(not given["dry_run"], "what a server far away would do is told by `--test-only`")
            else:
                # Before anything is made: a mistake must leave no store behind.
                what = _meant(wish, place)
                if given["dry_run"]:
                    return self.told(what)
            if given["test_only"]:
                return self.tested(wish, place)
            return self.submitted(wish, place)
        except DeskError as error:
            raise _not_submitted(error) from None

    def wish(self) -> Submission:
        from glidepath.jobs.submission import read_submission

        given = self.given
        table = file_table(given["file"], WISH) if given["file"] else {}
        said = {key: given[key] for key in WISH if given[key] not in (None, []) and given[key] is not False}
        if given["put"]:
            said["files"] = [*(file_put(word) for word in given["put"]), *table.get("files", ())]
        if given["command"]:
            said["command"] = given["command"]
        said = {**table, **said}
        need(
            said.get("command"), "no command is given", hint="`glidepath job submit [options] -- COMMAND...`"
        )
        return read_submission(said)

    def told(self, what: _Meant) -> int:
        count = self.given["count"]
        many = "1 job" if count == 1 else f"{count} jobs"
        where = f"{what.queue} of `{what.partition}`" if what.queue else f"`{what.partition}`"
        why = f", {what.queue_why}" if what.queue_why else ""
        self.caller.say(f"would submit {many} of {what.shape} to {where}{why}; nothing was submitted")
        return Exit.DONE

    def tested(self, wish: Submission, place: Located | None) -> int:
        with at_desk(self, place=place) as (desk, caller):
            item = desk.test(caller, wish)
        nodes = ", ".join(item["nodes"])
        line = f"would start at {item['start']} (in {span(item['wait_s'])}) on {nodes}; nothing was submitted"
        answer = Answer("JobList", (item,), lines=(line,), name=lambda one: one["start"])
        if item["queue_why"]:
            self.caller.say(f"{item['queue']}, {item['queue_why']}")
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        return Exit.DONE

    def submitted(self, wish: Submission, place: Located | None) -> int:
        from glidepath.jobs.errors import DeskError

        given = self.given
        with at_desk(self, place=place, create=True) as (desk, caller):
            try:
                done = desk.submit(caller, wish, key=given["client_key"], count=given["count"])
            except DeskError as error:
                raise _not_submitted(error) from None
        if done.say:
            self.caller.say(done.say)
        # The number alone on stdout, so that `ID=$(glidepath job submit ...)` works as with sbatch.
        answer = answer_of(list(done.items), lines=tuple(str(item["id"]) for item in done.items))
        self.caller.out.write(drawn(answer, given["output"], self.caller))
        return Exit.DONE


@dataclass(frozen=True)
class _Meant:
    """Where a wish goes by the settings of this home; a queue only where it is placed."""

    partition: str
    shape: str
    queue: str
    queue_why: str = ""


def _meant(wish: Submission, place: Located) -> _Meant:
    from glidepath.core.quantity import Resources, Shape
    from glidepath.jobs.specs import goal_of, queue_of

    goal = goal_of(wish, place.settings)
    shape = Shape(Resources(wish.cpus, wish.mem, wish.disk, wish.gpus), wish.trait)
    if not goal.placed:
        return _Meant(goal.partition, str(shape), "")
    queue, why = queue_of(wish, place.settings.partitions[goal.partition])
    return _Meant(goal.partition, str(shape), queue.value, why)


def _not_submitted(error: DeskError) -> Stop:
    from glidepath.jobs.errors import Clash, Unusable

    if isinstance(error, Clash):
        return Stop(f"the job is not submitted: {error}")
    if not isinstance(error, Unusable):
        return stopped(error)
    said = [what.replace(f"`{key}`", f"`{_flag_of(key)}`") for key, what in error.places]
    return Stop(f"the job is not submitted: {'; '.join(said) or error}", code=Exit.USAGE)


def _flag_of(key: str) -> str:
    return str(WISH[key]["args"][0]) if key in WISH else key
