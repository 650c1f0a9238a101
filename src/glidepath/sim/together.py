"""Several runs at once: tasks come in, what each gave goes out as it ends, from processes of their own.

It refuses to know what is compared. Whoever stops listening, by Ctrl-C or by an error, stops all of them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context

from glidepath.core.provision.offer import PolicyRule
from glidepath.sim.scenario import Scenario
from glidepath.sim.study import Finished, simulated


class Ended(Exception):
    """A run was ended from outside, as a sentence for people."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run, as a value that goes to another process."""

    scenario: Scenario
    seed: int
    rule: PolicyRule
    cycle_s: int | None


def played(task: Task) -> Finished:
    return simulated(task.scenario, task.seed, policy=task.rule, cycle_s=task.cycle_s)


def played_all(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Finished]]:
    """Each run with the place of its task, in the order in which they end. Raises Ended."""
    if workers <= 1:
        yield from ((place, played(task)) for place, task in enumerate(tasks))
        return
    # A fresh interpreter each, because a copy of this one would hold its threads and its open files.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            with _unheard_ctrl_c():
                places = {pool.submit(played, task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()
        except BrokenProcessPool as error:
            raise Ended("a run was ended from outside, perhaps because the memory was full") from error
        except BaseException:
            # Nobody waits for the others any more, and without this they would go on to their ends. What has
            # not begun is taken back first: its place in the queue could keep this process from ending.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.kill()
            raise


@contextmanager
def _unheard_ctrl_c() -> Iterator[None]:
    """What is started within never hears Ctrl-C: this one ends it, and it says nothing of its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
