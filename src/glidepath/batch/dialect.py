"""What a dialect is: a job comes in as checked values, words for the batch system go out; what the system
answered comes in, states go out. No file, clock or command is touched here or in any dialect.

An answer that is not understood raises `OddAnswer`: nothing is concluded from it, least of all an end.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeLine, SafePath, SafeWord


class OddAnswer(ValueError):
    """What came back is not what this command answers; the words are in the message, cut."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One job for the batch system, every text in it checked. Amounts are those of one node."""

    key: SafeWord  # the job's name there, by which it is found again
    script: SafePath  # the file that the system runs, in the folder of the job's first pilot
    output: SafePath  # where what it prints is kept
    walltime_s: int
    nodes: int = 1
    cpus: int = 1
    memory_mib: int = 0  # zero: not asked for
    memory_by: str = "node"  # or `core`: which of the two the system is told
    disk_mib: int = 0
    gpus: int = 0
    gpu_type: SafeWord | None = None
    gpu_form: SafeWord | None = None  # how GPUs are asked for, where a system has several ways
    memory_form: SafeWord | None = None  # the same for memory
    parallel: SafeWord | None = None  # the parallel environment, where a system has such
    nodes_form: SafeWord | None = None  # how nodes are asked for, where a system has several ways
    whole_node: bool = False
    queue: SafeWord | None = None  # the site's own
    account: SafeWord | None = None
    qos: SafeWord | None = None
    avoid: tuple[SafeWord, ...] = ()
    options: tuple[SafeLine, ...] = ()  # of an allow-list, each one option of the submit command
    files: tuple[SafePath, ...] = ()  # that the system brings along where nodes do not share a folder

    @property
    def folder(self) -> SafePath:
        return SafePath(posixpath.dirname(self.script))


@dataclass(frozen=True, slots=True)
class Words:
    """One command for the site: its words, and what it reads from its standard input."""

    argv: tuple[str, ...]
    given: str = ""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One job of ours as the batch system tells it."""

    native_id: str
    key: str  # its name there; whose it is follows from that
    state: SiteState
    word: str = ""  # the system's own word for the state, verbatim
    why: str = ""  # what else it says: why it waits, how it ended
    nodes: tuple[str, ...] = ()
    started_s_ago: int | None = None
    ended_s_ago: int | None = None


Submitted = str  # the number under which the system has it


class Dialect(Protocol):
    """How one batch system is spoken to."""

    name: str
    shares_folder: bool  # whether its nodes see the folder of the one who submits
    multi_node: bool
    avoids_nodes: bool  # whether a job can be told on which nodes not to run

    def submit(self, job: BatchJob) -> Words:
        """The command that queues the job; everything in it is visible to others, so no secret is.

        Raises ValueError where the system has no word for what the job asks for.
        """
        ...

    def submitted(self, ran: Ran) -> Submitted | Refused | Failed | Unsure:
        """The job's number, or why there is none; without an answer it may be queued."""
        ...

    def queued(self, user: SafeWord | None) -> Words:
        """The one command that tells all jobs of the user that wait or run, or ended a moment ago."""
        ...

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        """Raises OddAnswer for everything but a whole answer."""
        ...

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        """The command that looks up jobs which the queue no longer knows; None where there is no such.
        All of them: what is not in the answer then is not in accounting."""
        ...

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        """What accounting has of them; one that it does not name is still unknown."""
        ...

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        """Ends jobs, whatever they do. One that is gone is no mistake."""
        ...

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        """None where it was done or there was nothing to do."""
        ...

    def withdraw(self, native_id: str) -> Words | None:
        """Ends the job only if it has not begun, as one act of the batch system; None where the folder that
        both sides see decides that."""
        ...

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        """None where it is out of the queue; refused where it had begun."""
        ...

    def drain(self, native_id: str) -> Words | None:
        """Tells the job's script to let the pilot drain; None where the file in the folder does that."""
        ...

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None: ...


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What a site says of one of its queues; None where it does not say or has no limit."""

    name: str
    walltime_s_max: int | None = None
    nodes_max: int | None = None
    nodes: int | None = None
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str = ""
    whole_node: bool | None = None
    open: bool = True
    notes: tuple[str, ...] = field(default=())
    parallel: str = ""  # an environment for the cores of one node, where a system needs such


@runtime_checkable
class Probes(Protocol):
    """A dialect that can ask a site for its own limits."""

    def probe(self) -> tuple[Words, ...]:
        """The commands, in the order in which their answers are read."""
        ...

    def facts(self, answers: tuple[Ran, ...]) -> tuple[QueueFacts, ...]: ...
