"""Verbs of placed jobs: the answer of a submission, another time limit, why a job waits.

They change what is asked for in the store and wait for the scheduler to answer; none of them plans or starts
anything itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.jobask import PLACED, from_file, spec_of
from glidepath.cli.jobview import answer_of
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, drawn, need, span
from glidepath.cli.placedview import (
    ANSWER_LOOK_S,
    ANSWER_S_MAX,
    answer_to,
    at_text,
    cluster_of_partition,
    explained,
    placed_item,
    scheduler_is_silent,
    told_start,
    would_start,
)
from glidepath.cli.session import login, opened
from glidepath.cli.verb import Answer, Exit, Options, Stop, Verb

if TYPE_CHECKING:
    from glidepath.cli.session import Located, Session
    from glidepath.store.placed import PlacedJob
    from glidepath.store.placed_spec import PlacedSpec

ONE_ID: Options = {"id": {"args": ("id",), "type": argument.count, "metavar": "ID", "help": "a job number"}}
SILENT = "no scheduler runs here at present, so nothing is promised yet; start it with `glidepath up`"


def submit_placed(verb: Verb, partition: str, place: Located) -> int:
    """Submit, and answer with a start."""
    given = verb.given
    count = given["count"]
    need(not (given["client_key"] and count > 1), "a client key is for one job; leave out `--count`")
    with opened(verb, place=place, create=not (given["dry_run"] or given["test_only"])) as session:
        spec = spec_of(given, partition, place, at_wall=session.clock.at_wall)
        if given["dry_run"]:
            where = f"{spec.queue.value} of `{partition}`"
            verb.caller.say(f"would submit {spec.job.shape} to {where}; nothing was submitted")
            return Exit.DONE
        if given["test_only"]:
            return _tested(verb, session, spec)
        return _submitted(verb, session, spec)


def _tested(verb: Verb, session: Session, spec: PlacedSpec) -> int:
    cluster = cluster_of_partition(session, spec.job.partition)
    job = spec.asked(0, session.clock.now(), spec.job.run_s_max)
    at, nodes = would_start(session, cluster, job)
    if at is None:
        raise Stop(f"it would not start: {nodes or 'there is no room for it in sight'}")
    start = at_text(at, session)
    item = {"id": 0, "name": spec.job.name, "partition": spec.job.partition, "start": start, "nodes": nodes}
    wait_s = max(at - session.clock.now(), 0)
    line = f"would start at {start} (in {span(wait_s)}) on {nodes}; nothing was submitted"
    answer = Answer("JobList", (item,), lines=(line,), name=lambda one: one["start"])
    verb.caller.out.write(drawn(answer, verb.given["output"], verb.caller))
    return Exit.DONE


def _submitted(verb: Verb, session: Session, spec: PlacedSpec) -> int:
    given = verb.given
    try:
        done = session.placed.submit_many([(spec, given["client_key"])] * given["count"])
    except ValueError as error:
        raise Stop(f"the job is not submitted: {error}") from None
    numbers = [one.job for one in done]
    silent = scheduler_is_silent(session, cluster_of_partition(session, spec.job.partition))
    if silent:
        last = session.placed.get(numbers[-1])
        verb.caller.say(SILENT)
    else:
        last = answer_to(session, numbers[-1], verb.caller.sleep)
        verb.caller.say(told_start(last, session))
    if not done[-1].new:
        verb.caller.say(f"the client key had this job already: {numbers[-1]}")
    items = [placed_item(session.placed.get(number), session) for number in numbers]
    answer = answer_of(items, lines=tuple(str(number) for number in numbers))
    verb.caller.out.write(drawn(answer, given["output"], verb.caller))
    return Exit.DONE


def with_file(given: dict[str, Any], options: Options) -> dict[str, Any]:
    return from_file(given["file"], given, options) if given["file"] else given


def found_placed(session: Session, number: int) -> PlacedJob:
    from glidepath.cli.jobview import found_job

    found_job(session, number)
    found = session.placed.find(number)
    if found is None:
        raise Stop(f"job {number} is not a placed one: a pilot takes it from a pool", code=Exit.USAGE)
    return found


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
        **OUTPUT,
    }

    def run(self) -> int:
        given = self.given
        with opened(self, write=not given["dry_run"]) as session:
            found = found_placed(session, given["id"])
            if given["dry_run"]:
                return self.tried(session, found)
            try:
                after = session.placed.ask_limit(found.id, given["time"], forced=given["force"], by=login())
            except ValueError as error:
                raise Stop(str(error)) from None
            for _ in range(int(ANSWER_S_MAX / ANSWER_LOOK_S)):
                for event in session.placed.events(job=found.id, after=after):
                    if event.kind == "extended":
                        return self.told(session, found.id)
                    if event.kind == "not extended":
                        raise Stop(f"job {found.id} keeps its limit: {event.text}")
                self.caller.sleep(ANSWER_LOOK_S)
            raise Stop(
                f"nobody answered within {ANSWER_S_MAX:g} s; the wish for job {found.id} is kept",
                hint="start the scheduler with `glidepath up`",
            )

    def told(self, session: Session, number: int) -> int:
        item = placed_item(session.placed.get(number), session)
        self.caller.say(f"job {number} may run for {span(item['run_s_max'])}, until {item['ends']}")
        answer = answer_of([item], lines=())
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        return Exit.DONE

    def tried(self, session: Session, found: PlacedJob) -> int:
        from glidepath.cli.placedview import planned_world
        from glidepath.core.schedule.extend import Extension, extended

        cluster = cluster_of_partition(session, found.job.spec.partition)
        wish = Extension(found.record.job.name, self.given["time"], self.given["force"])
        impact = extended(*planned_world(session, cluster), wish)
        verb = "would be granted" if impact.granted else "would be refused"
        self.caller.say(f"{verb}: {impact.reason}; nothing was changed")
        return Exit.DONE if impact.granted else Exit.FAILED


class ExplainJob(Reader):
    """Say why a placed job waits, what holds its nodes, what would start now instead"""

    options: ClassVar[Options] = {**ONE_ID, **Reader.options}

    def answer(self) -> Answer:
        with opened(self) as session:
            found = found_placed(session, self.given["id"])
            said = explained(session, found)
            item = {**placed_item(found, session), "explained": list(said)}
        return Answer("Explanation", (item,), lines=said)


SUBMIT: Options = {
    "file": {
        "args": ("--file",),
        "default": "",
        "metavar": "FILE",
        "help": "options, command, env and files of the job in TOML or YAML; the command line goes first",
    },
    **PLACED,
}
