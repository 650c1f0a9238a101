"""Calls: many at once, each by name, errors as text, and one that hangs holds up nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from glidepath.calls import Answer, Calls, InlineCalls, ThreadCalls, answer

# Longer than any machine needs to start a thread; a test that works never waits for it.
PLENTY_S = 20.0
SHORT_S = 0.05


class Gate:
    """A call that hangs until it is let go, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.thread: threading.Thread | None = None
        self._open = threading.Event()

    def __call__(self) -> str:
        self.asked += 1
        self.thread = threading.current_thread()
        assert self._open.wait(PLENTY_S)
        return "at last"

    def let_go(self) -> None:
        self._open.set()
        if self.thread is not None:
            self.thread.join(PLENTY_S)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.let_go()


def raises(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


BOTH = pytest.mark.parametrize("calls", [InlineCalls(), ThreadCalls()], ids=["inline", "threads"])


@BOTH
def test_every_call_is_answered_under_its_name(calls: Calls) -> None:
    found = calls.gather({"one": lambda: 1, "none": lambda: None, "list": lambda: [1, 2]}, limit_s=PLENTY_S)
    assert found == {"one": Answer(1), "none": Answer(None), "list": Answer([1, 2])}


@BOTH
def test_no_calls_are_no_answers(calls: Calls) -> None:
    assert calls.gather({}, limit_s=PLENTY_S) == {}


WORDS = [
    (OSError("no route to host"), "no route to host"),
    (TimeoutError("timed out"), "timed out"),
    (RuntimeError("squeue exit 1"), "squeue exit 1"),
    (ValueError("bad answer"), "bad answer"),
    (
        UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd"),
        "'ascii' codec can't decode byte 0xff in position 0: odd",
    ),
    (TimeoutError(), "TimeoutError"),  # An error without words is named, or it would read as an answer.
    (OSError(), "OSError"),
]


@BOTH
@pytest.mark.parametrize(("error", "words"), WORDS)
def test_the_worlds_errors_become_text_and_spare_the_others(
    calls: Calls, error: BaseException, words: str
) -> None:
    found = calls.gather({"bad": raises(error), "good": lambda: 7}, limit_s=PLENTY_S)
    assert found == {"bad": Answer(error=words), "good": Answer(7)}


def test_a_bug_of_a_door_is_not_taken_for_the_worlds_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        answer(lambda: 1 // 0)


# The thread's traceback is meant to reach the log of the process, and pytest turns that into a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_door_that_breaks_says_so_and_is_not_taken_for_a_slow_one(gate: Gate) -> None:
    calls = ThreadCalls()
    doors = {"broken": raises(KeyError("uid")), "slow": gate, "good": lambda: 7}
    found = calls.gather(doors, limit_s=0.5)
    assert found == {
        "broken": Answer(error="the door broke; see the log"),
        "slow": Answer(error="no answer within 0.5 s"),
        "good": Answer(7),
    }
    # Its thread is dead, so it may be asked again.
    assert calls.gather({"broken": lambda: 8}, limit_s=PLENTY_S) == {"broken": Answer(8)}


def test_threads_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=PLENTY_S)
    found = ThreadCalls().gather({"a": both.wait, "b": both.wait}, limit_s=PLENTY_S)
    assert sorted(found[name].value for name in "ab") == [0, 1]


def test_inline_calls_run_one_after_the_other_on_the_callers_thread() -> None:
    here: list[tuple[str, int]] = []
    calls = {name: lambda name=name: here.append((name, threading.get_ident())) for name in "bac"}
    InlineCalls().gather(calls, limit_s=0)
    assert here == [(name, threading.get_ident()) for name in "bac"]


def test_a_hung_call_is_left_behind_at_the_limit_and_the_others_are_answered(gate: Gate) -> None:
    started = time.monotonic()
    found = ThreadCalls().gather({"a": gate, "b": lambda: 2}, limit_s=SHORT_S)
    assert found == {"a": Answer(error="no answer within 0.05 s"), "b": Answer(2)}
    assert SHORT_S <= time.monotonic() - started < PLENTY_S / 2


def test_several_hung_calls_share_one_limit() -> None:
    gates = {f"site {number}": Gate() for number in range(8)}
    started = time.monotonic()
    try:
        found = ThreadCalls().gather(dict(gates), limit_s=0.25)
        assert time.monotonic() - started < 8 * 0.25
        assert {row.error for row in found.values()} == {"no answer within 0.25 s"}
    finally:
        for each in gates.values():
            each.let_go()


def test_a_hung_call_is_not_asked_again_until_it_came_back(gate: Gate) -> None:
    calls = ThreadCalls()
    calls.gather({"west": gate}, limit_s=SHORT_S)
    for _ in range(3):
        found = calls.gather({"west": gate, "east": lambda: 1}, limit_s=PLENTY_S)
        assert found == {"west": Answer(error="still waiting for its last answer"), "east": Answer(1)}
    assert gate.asked == 1
    gate.let_go()
    assert calls.gather({"west": gate}, limit_s=PLENTY_S) == {"west": Answer("at last")}
    assert gate.asked == 2


def test_a_late_answer_is_dropped_and_not_taken_for_the_next_one(gate: Gate) -> None:
    calls = ThreadCalls()
    calls.gather({"west": gate}, limit_s=SHORT_S)
    gate.let_go()
    assert calls.gather({"west": lambda: "fresh"}, limit_s=PLENTY_S) == {"west": Answer("fresh")}


def test_a_hung_call_cannot_keep_the_program_from_ending(gate: Gate) -> None:
    ThreadCalls().gather({"west": gate}, limit_s=SHORT_S)
    assert gate.thread is not None
    assert gate.thread.daemon
    assert gate.thread.name == "call west"
