"""Calls into the world, each with a limit: many are started at once, and none can hold up the cycle.

A door that does not answer in time is left behind on its own thread and counts as unanswered until it comes
back; it is not asked again meanwhile, so that a dead server never gathers threads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from glidepath.ports import WORLD_ERRORS


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned, or why it did not."""

    value: Any = None
    error: str = ""


class Calls(Protocol):
    def gather(self, calls: Mapping[str, Callable[[], Any]], *, limit_s: float) -> dict[str, Answer]:
        """Run all of them, by name, and wait no longer than the limit for the last."""
        ...

    def side_by_side(self, steps: Sequence[Callable[[], None]], *, at_once: int) -> None:
        """Run all, begun in this order, up to so many at the same time. Steps keep their own limits."""
        ...


def answer(call: Callable[[], Any]) -> Answer:
    try:
        return Answer(call())
    except WORLD_ERRORS as error:
        return Answer(error=f"{error}" or type(error).__name__)


class InlineCalls:
    """One after the other, on the caller's own thread: for simulation, where time is not real."""

    def gather(self, calls: Mapping[str, Callable[[], Any]], *, limit_s: float) -> dict[str, Answer]:
        return {name: answer(call) for name, call in calls.items()}

    def side_by_side(self, steps: Sequence[Callable[[], None]], *, at_once: int) -> None:
        for step in steps:
            step()


class ThreadCalls:
    """Each on a thread of its own, which dies with the process."""

    def __init__(self) -> None:
        self._busy: dict[str, threading.Thread] = {}

    def gather(self, calls: Mapping[str, Callable[[], Any]], *, limit_s: float) -> dict[str, Answer]:
        deadline = time.monotonic() + limit_s
        answers: dict[str, Answer] = {}
        started: dict[str, tuple[threading.Thread, list[Answer]]] = {}
        for name, call in calls.items():
            stuck = self._busy.get(name)
            if stuck is not None and stuck.is_alive():
                answers[name] = Answer(error="still waiting for its last answer")
                continue
            started[name] = self._start(name, call)
        for name, (thread, box) in started.items():
            thread.join(max(0.0, deadline - time.monotonic()))
            silent = f"no answer within {limit_s:g} s" if thread.is_alive() else "the door broke; see the log"
            answers[name] = box[0] if box else Answer(error=silent)
        return answers

    def side_by_side(self, steps: Sequence[Callable[[], None]], *, at_once: int) -> None:
        """One alone first, and for each that ends one more: a site that refuses, or hangs, is not stormed."""
        left, turn = deque(steps), threading.Lock()
        others: list[threading.Thread] = []

        def work() -> None:
            while True:  # Until there is none left.
                with turn:
                    step = left.popleft() if left else None
                if step is None:
                    return
                step()
                with turn:
                    if left and len(others) + 1 < at_once:
                        others.append(threading.Thread(target=work, name="side by side", daemon=True))
                        others[-1].start()

        work()
        for each in others:  # It may grow meanwhile, by those who are waited for.
            each.join()

    def _start(self, name: str, call: Callable[[], Any]) -> tuple[threading.Thread, list[Answer]]:
        box: list[Answer] = []

        def run() -> None:
            box.append(answer(call))

        thread = threading.Thread(target=run, name=f"call {name}", daemon=True)
        self._busy[name] = thread
        thread.start()
        return thread, box
