"""A queue in two halves, read at the same time: numbers of jobs come in, constraints and results go out.

The binding holds the interpreter while it waits, so that the second half is read by a process of its own,
forked for it and gone after it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar

from glidepath.condor.binding import HTCondorException
from glidepath.condor.groups import JobId

T = TypeVar("T")

# Queues of fewer jobs are read before a second process has started.
HALVED_MIN = 20_000
# About every so many jobs one is looked at for the middle; few enough to be fetched beside other things.
EVERY = 997
SAMPLE_MIN = 15

# Numbers of jobs have 31 bits.
_PLACES = 1 << 31


def sampled() -> str:
    return f"(ClusterId + ProcId) % {EVERY} == 0"


def is_sampled(own: JobId) -> bool:
    return sum(own) % EVERY == 0


def middle(sample: Sequence[JobId]) -> JobId | None:
    """Where to cut, so that jobs that were submitted together stay together; None where that is not known."""
    ordered = sorted(sample)
    return ordered[len(ordered) // 2] if len(ordered) >= SAMPLE_MIN else None


@dataclass(frozen=True, slots=True)
class Half:
    cut: JobId
    upper: bool

    @property
    def constraint(self) -> str:
        """Asked of each job, and once more of each group, which has no such numbers: then it is undefined.

        Users cannot change the two numbers of a job, so that none can count in both halves.
        """
        which = ">=" if self.upper else "<"
        return f"(ClusterId * {_PLACES} + ProcId {which} {self.cut[0] * _PLACES + self.cut[1]}) isnt false"

    def refuse_others(self, ids: tuple[JobId, JobId]) -> None:
        """Where a schedd does not ask the constraint of each job, all would be counted twice."""
        if any((own >= self.cut) != self.upper for own in ids):
            raise NotHalvedError("the schedd's answer has jobs that were not asked for")


class NotHalvedError(RuntimeError):
    """This schedd cannot be read in halves."""


def at_once(here: Callable[[], T], beside: Callable[[], T]) -> tuple[T, T]:
    """Both results. Raises what `here` raises, and HTCondorException where the other process failed."""
    forked = multiprocessing.get_context("fork")
    results, sender = forked.Pipe(duplex=False)
    left_s = signal.getitimer(signal.ITIMER_REAL)[0]
    other = forked.Process(target=_sent, args=(sender, beside, left_s), daemon=True)
    other.start()
    sender.close()
    try:
        first = here()
        second: T | Exception = results.recv()
    except EOFError:
        raise HTCondorException("the process that read the other half ended") from None
    finally:
        other.kill()
        other.join()
        results.close()
    if isinstance(second, Exception):
        raise second
    return first, second


def _sent(sender: Connection, asked: Callable[[], object], left_s: float) -> None:
    # Limits of time are not inherited, and nobody may be left to end this process.
    signal.setitimer(signal.ITIMER_REAL, left_s)
    try:
        sender.send(asked())
    except (HTCondorException, NotHalvedError) as error:
        sender.send(error)
