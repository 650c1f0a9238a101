"""What a user may ask for: hostile text is refused with a sentence that is itself safe to print."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.quantity import Resources
from glidepath.store.job import LIVE, NEXT, OVER, ExitRecord, How, JobSpec, JobState

GOOD: dict[str, Any] = {"partition": "here", "owner": "ada", "command": ("true",)}
VARIABLE = "the name of a variable must be letters, digits and `_`, no digit first"
TRAIT = "a trait must be `name=value` of letters, digits, `.`, `_`, `+` and `-`"
OURS = "the variable `GLIDEPATH_JOB` is set by glidepath; choose another name"
NUL = "argument 1 of the command has a NUL character, which no program can be given"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": "a\nb"}, "the name has the control character U+000A at place 2; leave it out"),
        ({"name": "\x1b[2J"}, "the name has the control character U+001B at place 1; leave it out"),
        ({"name": "\u202egnp.exe"}, "the name has the control character U+202E at place 1; leave it out"),
        ({"name": "n" * 300}, "the name has 300 characters; at most 200 are kept"),
        ({"owner": "o" * 300}, "the owner has 300 characters; at most 100 are kept"),
        ({"owner": "a\0b"}, "the owner has the control character U+0000 at place 2; leave it out"),
        ({"owner": "\ud800"}, "the owner has the control character U+D800 at place 1; leave it out"),
        ({"owner": ""}, "the owner is empty"),
        ({"partition": "../x"}, "the partition is not a name of small letters, digits, `-`, `_` and `.`"),
        ({"command": ()}, "the command is empty"),
        ({"command": ("",)}, "the command names no program"),
        ({"command": ("a", "b\0")}, NUL),
        ({"command": ("a", "\udcff")}, "argument 1 of the command is not valid text; write it in UTF-8"),
        ({"command": ("a", 5)}, "argument 1 of the command is not text"),
        ({"env": (("1A", "x"),)}, VARIABLE),
        ({"env": (("A\n", "x"),)}, VARIABLE),
        (
            {"env": (("GLIDEPATH_JOB", "x"),)},
            OURS,
        ),
        ({"env": (("A", "1"), ("A", "2"))}, "a variable is set twice"),
        ({"request": Resources()}, "the request for CPU is 0; it must be from 1 to 1000000000"),
        ({"run_s_max": 0}, "the run time limit is 0 s; it must be from 1 s to ten years"),
        ({"retries_max": -1}, "retries_max is -1; it must be from 0 to 100"),
        ({"traits": (("os", "a b"),)}, TRAIT),
        ({"traits": (("b", "1"), ("a", "1"))}, "traits must be sorted and each named once"),
    ],
)
def test_a_hostile_or_impossible_wish_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        JobSpec(**{**GOOD, **wrong})
    assert str(refusal.value) == sentence


def test_a_command_longer_than_a_program_can_take_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 131072 can be passed"):
        JobSpec("here", "ada", ("echo", "x" * 128 * 1024))


def test_quotes_and_newlines_in_arguments_are_kept_as_they_are() -> None:
    command = ("python3", "-c", "print('a')\nprint(\"b\")", "$(reboot); `x`", "--", "\u202e")
    assert JobSpec("here", 'O\'Brien "x"', command).command == command


@given(st.text(max_size=40))
def test_no_accepted_name_can_deceive_a_terminal(name: str) -> None:
    deceiving = {c for c in name if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    if deceiving:
        with pytest.raises(ValueError) as refusal:
            JobSpec("here", "ada", ("true",), name=name)
        assert str(refusal.value).isprintable()
    else:
        assert JobSpec("here", "ada", ("true",), name=name).name == name


def test_states_are_closed_reachable_and_ending() -> None:
    assert set(NEXT) == set(JobState)
    assert all(not NEXT[state] for state in OVER)
    reached, fresh = set(), {JobState.QUEUED}
    while fresh:
        reached |= fresh
        fresh = {after for state in fresh for after in NEXT[state]} - reached
    assert reached == set(JobState)
    assert all(NEXT[state] & OVER for state in LIVE)


@pytest.mark.parametrize(
    ("how", "exit_code", "expected"),
    [
        (How.EXITED, 0, JobState.DONE),
        (How.EXITED, 1, JobState.FAILED),
        (How.SIGNALLED, None, JobState.FAILED),
        (How.TIMED_OUT, 0, JobState.FAILED),
        (How.CANCELLED, 0, JobState.CANCELLED),
        (How.NOT_STARTED, 127, JobState.FAILED),
        (How.GIVEN_BACK, None, JobState.QUEUED),
    ],
)
def test_the_state_after_an_attempt(how: How, exit_code: int | None, expected: JobState) -> None:
    assert ExitRecord(1, 1, "p", how, exit_code).state is expected
