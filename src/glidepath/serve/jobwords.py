"""What goes over the wire for jobs: the models that requests are read by and that answers are described by.

A request with a key that is not here is refused. Answers are what the desk says; a test compares them with
these models, so that the description stays true.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from glidepath.core.units import duration_s
from glidepath.jobs.desk import ANSWER_S_MAX, LIST_DEFAULT, LOG_PIECE_BYTES_MAX, USAGE_SINCE

COUNT_MAX = 10_000
LIST_MAX = 1000
EVENTS_MAX = 1000
NUMBER_MAX = (1 << 63) - 1
NAME_CHARS_MAX = 253
WHY_CHARS_MAX = 500
SPAN_S_MAX = 10 * 366 * 86400
State = Literal["queued", "starting", "running", "ending", "cancelling", "done", "failed", "cancelled"]
Text = Annotated[str, Field(max_length=NAME_CHARS_MAX)]


def span_of(value: object) -> object:
    """Seconds, where a text such as `6h` says them."""
    return duration_s(value) if isinstance(value, str) else value


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubmitAsked(Asked):
    count: int = Field(1, ge=1, le=COUNT_MAX, description="How many such jobs; a client key is for one.")
    wait: float = Field(
        ANSWER_S_MAX,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Seconds to wait for the scheduler to answer with a start; the job is kept in any case.",
    )


class ListAsked(Asked):
    mine: bool = Field(False, description="Only the caller's own.")
    owner: Text | None = Field(None, description="Only those of this person.")
    project: Text | None = Field(None, description="Only those of this project.")
    state: State | None = Field(None, description="Only those in this state.")
    partition: Text | None = Field(None, description="Only those of this partition.")
    below: int | None = Field(None, ge=1, le=NUMBER_MAX, description="Only those before this number.")
    limit: int = Field(LIST_DEFAULT, ge=1, le=LIST_MAX, description="The newest so many.")
    starts: bool = Field(
        False, description="Also when those will probably start that wait and are promised nothing: `likely`."
    )


class EventsAsked(Asked):
    after: int = Field(0, ge=0, le=NUMBER_MAX, description="Only events behind this one.")
    limit: int = Field(EVENTS_MAX, ge=1, le=EVENTS_MAX, description="So many at most.")


class LogWish(Asked):
    stream: Literal["stdout", "stderr"] = Field("stdout", description="Which of the two.")
    attempt: int | None = Field(None, ge=1, le=NUMBER_MAX, description="An earlier attempt.")
    offset: int = Field(
        0, ge=-NUMBER_MAX, le=NUMBER_MAX, description="Where to begin; below zero, so far before the end."
    )
    bytes: int = Field(LOG_PIECE_BYTES_MAX, ge=1, le=LOG_PIECE_BYTES_MAX, description="So many at most.")
    follow: bool = Field(False, description="Go on until the attempt is over, whatever `bytes` says.")


class UsageWish(Asked):
    by: Annotated[str, Field(max_length=64)] = Field(
        "", description="Apart by which of `owner`, `project` and `partition`, with commas in between."
    )
    step: Literal["all", "month", "day", "hour"] = Field("all", description="Apart by which time, in UTC.")
    since: Text = Field(USAGE_SINCE, description="From when on: so long ago, a day, or a date and time.")
    until: Text = Field("", description="Until when, in the same forms; by default now.")
    owner: Text | None = Field(None, description="Only of this person.")
    project: Text | None = Field(None, description="Only of this project and those below it.")
    partition: Text | None = Field(None, description="Only of this partition.")


class ExtendAsked(Asked):
    limit: Annotated[int, BeforeValidator(span_of), Field(ge=1, le=SPAN_S_MAX, strict=True)] = Field(
        description="The new limit from the start of the job, in seconds or as `6h`.",
        json_schema_extra={"type": ["integer", "string"]},
    )
    force: bool = Field(False, strict=True, description="Also where promised starts move; operators only.")
    dry: bool = Field(False, strict=True, description="Only say what would be answered.")


class CancelAsked(Asked):
    dry: bool = Field(False, strict=True, description="Only say what would be.")


class WordAsked(CancelAsked):
    why: str = Field("", strict=True, max_length=WHY_CHARS_MAX, description="What others are told.")


class Said(BaseModel):
    """What an answer holds; keys that are not described here are a fault of ours."""

    model_config = ConfigDict(extra="forbid")


class Likely(Said):
    """When a job will probably start. Nothing is kept free for it, and it is no promise."""

    start: str
    earliest: str
    latest: str
    confidence: float = Field(description="The share of such jobs that start between the two.")


class JobItem(Said):
    id: int
    name: str
    owner: str
    state: str
    why: str
    exit_code: int | None
    signal: int | None
    partition: str
    shape: str
    cpu_milli: int
    memory_mib: int
    disk_mib: int
    gpus: int
    traits: dict[str, str]
    run_s_max: int | None = Field(description="The time limit; none where there is none.")
    retries_max: int
    losses: int = Field(description="How many attempts were lost by no fault of the job.")
    attempt: int
    pilot: str | None
    command: list[str]
    env: list[str] = Field(description="Names of its variables; values are told to nobody.")
    submitted: str | None
    started: str | None
    ended: str | None
    age_s: int
    ran_s: int | None
    queue: str | None = Field(None, description="Of a placed job: `interactive` or `batch`.")
    queue_why: str | None = Field(None, description="Why that queue, where the submission named none.")
    project: str | None = None
    image: str | None = None
    ranks: int | None = None
    nodes: list[str] | None = None
    start: str | None = Field(None, description="When it began, or is to begin.")
    likely: Likely | None = Field(None, description="In a list with `starts`, of a job that waits.")
    promised: str | None = Field(None, description="The start that stands promised.")
    promised_first: str | None = Field(None, description="The start that was promised first.")
    moved: int | None = Field(None, description="How often the promise moved.")
    ends: str | None = None
    beside: int | None = None
    on_loss: str | None = None
    files: list[str] | None = None
    ports: list[int] | None = None
    terminal: bool | None = Field(None, description="Whether somebody will sit at a terminal of it.")


class AttemptItem(Said):
    attempt: int
    pilot: str
    started: str | None
    ended: str | None
    how: str | None
    exit_code: int | None
    signal: int | None


class RankItem(Said):
    attempt: int
    rank: int
    node: str
    state: str
    cause: str
    exit_code: int | None
    signal: int | None
    why: str
    began: str | None
    ended: str | None


class EventItem(Said):
    id: int
    job: int
    attempt: int
    at: str | None
    kind: str
    text: str


class JobShown(JobItem):
    attempts: list[AttemptItem]
    rank_list: list[RankItem] = []
    events: list[EventItem] = []


class ExtendAnswer(JobItem):
    say: str = Field(description="Why it is, or would be, so.")


class JobExplained(JobItem):
    explained: list[str]


class SubmitAnswer(Said):
    jobs: list[JobItem]
    new: bool = Field(description="False where the key had this job already.")
    answered: bool = Field(description="Whether a scheduler has looked at it yet.")
    say: str


class TestAnswer(Said):
    id: int
    name: str
    partition: str
    queue: str
    queue_why: str
    start: str | None
    nodes: list[str]
    wait_s: int


class ListAnswer(Said):
    jobs: list[JobItem]
    below: int | None = Field(description="What to ask for next; none where there is no more.")


class EventsAnswer(Said):
    events: list[EventItem]
    after: int = Field(description="What to ask for next.")


class CancelAnswer(Said):
    id: int
    before: str
    state: str


class QueueItem(Said):
    name: str
    paused: bool
    waiting: int
    running: int
    why: str


class PartitionItem(QueueItem):
    kind: str
    of: str
    queues: list[str]
    limit_s_max: int | None
    notes: list[str] = Field(description="What the cluster has to say to those who run jobs there.")


class NodeItem(Said):
    name: str
    cluster: str
    state: str
    size: str
    gpu_kind: str
    jobs: list[int] = Field(description="Those that the caller may see.")
    why: str


class QueuesAnswer(Said):
    queues: list[QueueItem]


class PartitionsAnswer(Said):
    partitions: list[PartitionItem]


class NodesAnswer(Said):
    nodes: list[NodeItem]


class WordAnswer(Said):
    name: str
    state: str
    say: str


class Place(Said):
    place: str = Field(description="Where in the body or the address.")
    why: str


class ErrorAnswer(Said):
    """Why something was not done. `kind` is for programs, `error` for people."""

    error: str
    kind: str
    hint: str = Field("", description="What to do about it, where that is known.")
    places: list[Place] = []


class UsageItem(Said):
    start: str | None = Field(description="Of the step; none where all is one.")
    owner: str | None
    project: str | None
    partition: str | None
    runs: int = Field(description="That began in this time.")
    seconds: int
    cpu_hours: float
    memory_gib_hours: float
    disk_gib_hours: float
    gpu_hours: float
    charged: float = Field(description="In credits, refunds not taken off.")
    refunded: float = Field(description="In credits, for attempts that were lost by no fault of the job.")
    credits: float = Field(description="Charged less refunded.")


class UsageAnswer(Said):
    usage: list[UsageItem]
    total: UsageItem
    since: str
    until: str
    metered: str | None = Field(description="When it was counted last.")
