"""What can be asked of jobs over HTTP: rows of the table of operations. The desk decides who may."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glidepath.jobs.desk import WORDS, Asked, Submitted, UsageAsked, What, Wish, Word
from glidepath.jobs.errors import DeskError
from glidepath.jobs.submission import Submission, read_submission
from glidepath.serve import jobwords as words
from glidepath.serve.operation import PREFIX, Call, Operation, Reply, Together

EVENT_STREAM = "text/event-stream"
LOG_PATH = "/jobs/{job}/ranks/{rank}/log"
LOG_SUMMARY = "What a rank wrote, from the store of logs and not from a pod that may be gone"


def _submit(call: Call) -> Reply:
    return _submitted(
        call.desk.submit(call.caller, call.body, key=call.key, count=call.query.count, wait_s=call.query.wait)
    )


def _submit_each(calls: Sequence[Call]) -> Sequence[Reply | Exception]:
    wishes = [Wish(call.caller, call.body, call.key, call.query.count) for call in calls]
    done = calls[0].desk.submit_each(wishes)
    return [one if isinstance(one, DeskError) else _submitted(one) for one in done]


def _waits_for_no_start(call: Call) -> bool:
    asked: words.SubmitAsked = call.query
    return asked.wait == 0 and asked.count == 1


def _submitted(done: Submitted) -> Reply:
    content = {"jobs": list(done.items), "new": done.new, "answered": done.answered, "say": done.say}
    where = f"{PREFIX}/jobs/{done.items[-1]['id']}"
    return Reply(content, 201 if done.new else 200, where)


def _test(call: Call) -> Reply:
    return Reply(call.desk.test(call.caller, call.body))


def _list(call: Call) -> Reply:
    query: words.ListAsked = call.query
    asked = Asked(**query.model_dump())
    items = list(call.desk.list(call.caller, asked))
    return Reply({"jobs": items, "below": items[0]["id"] if len(items) == asked.limit else None})


def _show(call: Call) -> Reply:
    return Reply(call.desk.show(call.caller, call.number()))


def _cancel(call: Call) -> Reply:
    asked = call.body or words.CancelAsked.model_validate({})
    return Reply(call.desk.cancel(call.caller, call.number(), dry=asked.dry))


def _extend(call: Call) -> Reply:
    body: words.ExtendAsked = call.body
    done = call.desk.extend(call.caller, call.number(), body.limit, forced=body.force, dry=body.dry)
    return Reply(done)


def _explain(call: Call) -> Reply:
    return Reply(call.desk.explain(call.caller, call.number()))


def _events(call: Call) -> Reply:
    job = call.number() if "job" in call.path else None
    found = list(call.desk.events(call.caller, job=job, after=call.query.after, limit=call.query.limit))
    return Reply({"events": found, "after": found[-1]["id"] if found else call.query.after})


def _queues(call: Call) -> Reply:
    return Reply({"queues": list(call.desk.queues(call.caller))})


def _partitions(call: Call) -> Reply:
    return Reply({"partitions": list(call.desk.partitions(call.caller))})


def _nodes(call: Call) -> Reply:
    return Reply({"nodes": list(call.desk.nodes(call.caller))})


def _usage(call: Call) -> Reply:
    query: words.UsageWish = call.query
    by = tuple(word for word in query.by.split(",") if word)
    return Reply(call.desk.usage(call.caller, UsageAsked(**{**query.model_dump(), "by": by})))


def _word(what: What, word: Word) -> Callable[[Call], Reply]:
    def run(call: Call) -> Reply:
        asked = call.body or words.WordAsked.model_validate({})
        return Reply(call.desk.word(call.caller, what, call.path["name"], word, why=asked.why, dry=asked.dry))

    return run


def _word_operations() -> tuple[Operation, ...]:
    return tuple(
        Operation(
            f"{word}_{what}",
            "POST",
            f"/{what}s/{{name}}/{word}",
            f"An operator's word: {word} this {what}",
            _word(what, word),
            words.WordAnswer,
            body=words.WordAsked,
        )
        for what, each in WORDS.items()
        for word in each
    )


JOB_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "submit",
        "POST",
        "/jobs",
        "Submit a job, and hear when it will start; with an `Idempotency-Key` it may be sent again",
        _submit,
        words.SubmitAnswer,
        query=words.SubmitAsked,
        body=Submission,
        reads=read_submission,
        body_needed=True,
        statuses=(201, 200),
        together=Together(_waits_for_no_start, _submit_each),
    ),
    Operation(
        "test",
        "POST",
        "/jobs/test",
        "When a job would start if it were submitted now; nothing is submitted",
        _test,
        words.TestAnswer,
        body=Submission,
        reads=read_submission,
        body_needed=True,
    ),
    Operation(
        "list",
        "GET",
        "/jobs",
        "The newest jobs that the caller may see, oldest of them first",
        _list,
        words.ListAnswer,
        query=words.ListAsked,
    ),
    Operation("show", "GET", "/jobs/{job}", "One job in full", _show, words.JobShown),
    Operation(
        "cancel",
        "POST",
        "/jobs/{job}/cancel",
        "End a job: at once where it waits, else when its ranks have ended",
        _cancel,
        words.CancelAnswer,
        body=words.CancelAsked,
    ),
    Operation(
        "extend",
        "POST",
        "/jobs/{job}/extend",
        "Ask for another time limit of a job that runs; granted where no promised start moves",
        _extend,
        words.ExtendAnswer,
        body=words.ExtendAsked,
        body_needed=True,
    ),
    Operation(
        "explain",
        "GET",
        "/jobs/{job}/explain",
        "Why a job waits, what holds its nodes, what would start now",
        _explain,
        words.JobExplained,
    ),
    Operation(
        "job_events",
        "GET",
        "/jobs/{job}/events",
        "What happened to a job",
        _events,
        words.EventsAnswer,
        query=words.EventsAsked,
        also=EVENT_STREAM,
    ),
    Operation(
        "events",
        "GET",
        "/events",
        "What happened to all jobs that the caller may see",
        _events,
        words.EventsAnswer,
        query=words.EventsAsked,
        also=EVENT_STREAM,
    ),
    Operation("queues", "GET", "/queues", "The queues, open or paused", _queues, words.QueuesAnswer),
    Operation(
        "partitions",
        "GET",
        "/partitions",
        "Where jobs can be submitted",
        _partitions,
        words.PartitionsAnswer,
    ),
    Operation("nodes", "GET", "/nodes", "The nodes of clusters as last seen", _nodes, words.NodesAnswer),
    Operation(
        "usage",
        "GET",
        "/usage",
        "What was used by whoever the caller may see, and what it cost",
        _usage,
        words.UsageAnswer,
        query=words.UsageWish,
    ),
    *_word_operations(),
)
