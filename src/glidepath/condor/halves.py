"""A queue in two halves, read at the same time: numbers of jobs come in, constraints and results go out.

The binding holds the interpreter while it waits, so that the second half is read by a process of its own,
forked for it and gone after it.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar

from glidepath.condor.binding import HTCondorException
from glidepath.condor.groups import JobId

T = TypeVar("T")

# Queues of fewer jobs are read before a second process has started.
HALVED_MIN = 20_000
# Jobs of one cluster stay together in blocks of so many, dealt out in turns: what was submitted
# together is mostly alike, so that few groups are in both halves, and no walk has to find the middle first.
BLOCK = 256
# Odd, so that clusters whose numbers are all even do not end up in one half.
PARTS = 31
# Fewer than half of them are read here, as this process looks around meanwhile.
PARTS_HERE = 14


def part_of(own: JobId) -> int:
    """As the constraint has it."""
    return (own[0] + own[1] // BLOCK) % PARTS


@dataclass(frozen=True, slots=True)
class Half:
    cut: int  # the first part of the upper half
    upper: bool

    @property
    def constraint(self) -> str:
        """Asked of each job, and once more of each group, which has no such numbers: then it is undefined.

        Users cannot change the two numbers of a job, so that none can count in both halves.
        """
        which = ">=" if self.upper else "<"
        return f"((ClusterId + ProcId / {BLOCK}) % {PARTS} {which} {self.cut}) isnt false"

    def refuse_others(self, ids: tuple[JobId, JobId]) -> None:
        """Where a schedd does not ask the constraint of each job, all would be counted twice."""
        if any((part_of(own) >= self.cut) != self.upper for own in ids):
            raise NotHalvedError("the schedd's answer has jobs that were not asked for")


def two_halves(*, upper_here: bool) -> tuple[Half, Half]:
    """What is read here, and what is read beside it."""
    cut = PARTS - PARTS_HERE if upper_here else PARTS_HERE
    return Half(cut, upper=upper_here), Half(cut, upper=not upper_here)


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
