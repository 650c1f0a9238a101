"""The desk: every question about jobs, the words for them, and what an answer is. Values and one protocol.

A caller and a wish come in; plain items, which can be written as JSON as they are, or a `DeskError` go out.
Whoever prints or sends an answer needs nothing else of this room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glidepath.jobs.caller import Caller
from glidepath.jobs.errors import DeskError

if TYPE_CHECKING:
    from glidepath.jobs.submission import Submission

Item = dict[str, Any]
What = Literal["queue", "partition", "node"]
Word = Literal["pause", "cordon", "drain", "resume"]
# Which words there are for what; all but `resume` may carry a reason.
WORDS: dict[What, tuple[Word, ...]] = {
    "queue": ("pause", "resume"),
    "partition": ("pause", "resume"),
    "node": ("cordon", "drain", "resume"),
}
LIST_DEFAULT = 50
LOG_PIECE_BYTES_MAX = 1 << 20
# So long a submission waits for the scheduler to answer with a start.
ANSWER_S_MAX = 10.0
USAGE_KEYS = ("owner", "project", "partition")
USAGE_SINCE = "30d"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which jobs to list: the newest that match, oldest first; `below` a number for the page before."""

    mine: bool = False
    owner: str | None = None
    project: str | None = None
    state: str | None = None
    partition: str | None = None
    below: int | None = None
    limit: int = LIST_DEFAULT
    starts: bool = False  # also when those will probably start that wait and are promised nothing


@dataclass(frozen=True, slots=True)
class UsageAsked:
    """Of what was used: whose, from when until when as people write times, and which sums.

    `by` are some of `USAGE_KEYS`; a project is meant with all that are below it.
    """

    by: tuple[str, ...] = ()
    step: str = "all"
    since: str = USAGE_SINCE
    until: str = ""  # now
    owner: str | None = None
    project: str | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class LogAsked:
    """Which part of what a rank wrote. A negative offset counts from the end; no attempt means the latest."""

    rank: int = 0
    stderr: bool = False
    attempt: int | None = None
    offset: int = 0
    bytes_max: int = LOG_PIECE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some bytes of a log. Where `over` and nothing is left behind `end`, no more will come.

    Offsets are of all that was written; what lies between the offset that was asked for and `start` is not
    kept any more, and `glidepath.keptlog.gone_words` says so in its place.
    """

    content: bytes
    start: int
    end: int  # where the next piece begins
    size: int  # of all that was written, by now
    attempt: int
    over: bool  # the attempt has ended


@dataclass(frozen=True, slots=True)
class WindowWish:
    """A window that an operator wants: times as people write them, and whom it is kept for, if anybody."""

    starts: str = ""  # now
    ends: str = ""  # or how long it lasts
    lasts_s: int | None = None
    cluster: str | None = None  # the only one
    nodes: tuple[str, ...] = ()
    everywhere: bool = False
    projects: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class WindowMove:
    """Other times of a window that was seen in this version; its length stays where only a start is said."""

    version: int | None
    starts: str = ""
    ends: str = ""
    lasts_s: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody submits: jobs that are described alike, under a key of the client's or none."""

    caller: Caller
    submission: Submission
    key: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a submission gave: one item each; `new` is false where the client key had this job already."""

    items: tuple[Item, ...]
    new: bool = True
    answered: bool = True  # whether a scheduler has looked at it
    say: str = ""  # the sentence with the start


class NoticeDesk(Protocol):
    """Where somebody wants notices of their jobs: everybody sees and changes their own, and nobody another's.

    An item has `name`, `kind`, `to`, `on`, `state` and how it went; the `secret` of a webhook only when it is
    new.
    """

    def list(self, caller: Caller) -> Sequence[Item]: ...

    def show(self, caller: Caller, name: str) -> Item: ...

    def set(
        self, caller: Caller, to: str, *, name: str = "", on: Sequence[str] = (), dry: bool = False
    ) -> Item: ...

    def test(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        """Have a letter sent there soon; what became of it is in `tested` then."""
        ...

    def remove(self, caller: Caller, name: str, *, dry: bool = False) -> Item: ...


class JobDesk(Protocol):
    """All that can be asked of jobs. A call raises a `DeskError` where it cannot or may not be answered."""

    @property
    def notices(self) -> NoticeDesk: ...

    def submit(
        self, caller: Caller, wish: Submission, *, key: str = "", count: int = 1, wait_s: float = ANSWER_S_MAX
    ) -> Submitted:
        """Make the jobs durable, then wait no longer than so long for a start to be promised."""
        ...

    def test(self, caller: Caller, wish: Submission) -> Item:
        """When it would start and where, and nothing is submitted: `start`, `nodes`, `wait_s`."""
        ...

    def list(self, caller: Caller, asked: Asked) -> Sequence[Item]: ...

    def show(self, caller: Caller, job: int) -> Item:
        """The item with `attempts`, `rank_list` and `events`."""
        ...

    def cancel(self, caller: Caller, job: int, *, dry: bool = False) -> Item:
        """`id`, `before` and `state`."""
        ...

    def extend(
        self, caller: Caller, job: int, limit_s: int, *, forced: bool = False, dry: bool = False
    ) -> Item:
        """The item with the new limit, and `say`; a `Clash` with the reason where it is not granted."""
        ...

    def explain(self, caller: Caller, job: int) -> Item:
        """The item, with the sentences in `explained`."""
        ...

    def events(
        self, caller: Caller, *, job: int | None = None, after: int = 0, limit: int = 1000
    ) -> Sequence[Item]:
        """`id`, `job`, `attempt`, `at`, `kind`, `text` of what happened since, oldest first."""
        ...

    def log(self, caller: Caller, job: int, asked: LogAsked) -> LogPiece: ...

    def usage(self, caller: Caller, asked: UsageAsked) -> Item:
        """What was used by those who are seen: `usage`, `total`, `since`, `until`, `metered`."""
        ...

    def queues(self, caller: Caller) -> Sequence[Item]: ...

    def partitions(self, caller: Caller) -> Sequence[Item]: ...

    def nodes(self, caller: Caller) -> Sequence[Item]: ...

    def word(
        self, caller: Caller, what: What, name: str, word: Word, *, why: str = "", dry: bool = False
    ) -> Item:
        """An operator's word: `name`, `state` and `say`, the sentence of what became of it."""
        ...

    def windows(self, caller: Caller, *, over: bool = False) -> Sequence[Item]:
        """The calendar: windows to come and open ones; with `over` also those that were."""
        ...

    def window(self, caller: Caller, number: int) -> Item: ...

    def add_window(self, caller: Caller, wish: WindowWish, *, dry: bool = False) -> Item:
        """The window, with `affected`: whose start or end is another one by it, and `say`."""
        ...

    def move_window(self, caller: Caller, number: int, move: WindowMove, *, dry: bool = False) -> Item:
        """The same; a `Clash` where it is not any more what was seen."""
        ...

    def cancel_window(
        self, caller: Caller, number: int, version: int | None, *, why: str = "", dry: bool = False
    ) -> Item: ...

    def newest(self) -> int:
        """The number of the newest event of all: cheap, for whoever waits for a change."""
        ...


class ServedDesk(JobDesk, Protocol):
    """What a server asks, who answers many people at the same time."""

    def submit_each(self, wishes: Sequence[Wish]) -> Sequence[Submitted | DeskError]:
        """What several people submit who wait for no start: each gets an answer or a refusal of its own."""
        ...
