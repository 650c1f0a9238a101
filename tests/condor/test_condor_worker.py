"""Children that hang, flood, die or talk nonsense end in an error, and the next question finds a new one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from glidepath.condor.client import environment
from glidepath.condor.worker import ChildError, Workers

COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("stand_in.py")))
LIMIT_S = 20.0
SHORT_S = 1.0


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers({"PATH": os.environ["PATH"], "ONLY": "this"}, command=COMMAND, children_max=3)
    yield made
    made.close()


def echo(workers: Workers, name: str = "a") -> int:
    return int(workers.ask(name, {"how": "echo"}, limit_s=LIMIT_S)["pid"])


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def living(group: int) -> list[str]:
    """Members of a process group that run; one that is dead and not yet buried is none."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # It ended while we looked.
        if int(pgrp) == group and state != "Z":
            found.append(stat.parent.name)
    return found


def test_a_child_lives_from_question_to_question_and_has_its_own_group(workers: Workers) -> None:
    first = echo(workers)
    assert (echo(workers), os.getpgid(first)) == (first, first)
    assert echo(workers, "b") != first


def test_a_child_has_no_environment_but_what_it_is_given(workers: Workers) -> None:
    answer = workers.ask("a", {"how": "echo"}, limit_s=LIMIT_S)
    assert set(answer["env"]) <= {"PATH", "ONLY", "LC_CTYPE"}


def test_a_long_question_arrives_whole(workers: Workers) -> None:
    long = "x" * 3_000_000
    assert workers.ask("a", {"how": "echo", "say": long}, limit_s=LIMIT_S)["said"] == long


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ("hang", TimeoutError, "a: no answer within 1 s"),
        ("die", OSError, "a: the child ended"),
        ("nonsense", OSError, "a: "),
        ("list", OSError, "a: the child talks nonsense"),
        ("flood", OSError, "a: "),
    ],
)
def test_a_child_that_misbehaves_is_killed_and_replaced(
    workers: Workers, how: str, error: type[Exception], said: str
) -> None:
    before = echo(workers)
    with pytest.raises(error) as raised:
        workers.ask("a", {"how": how}, limit_s=SHORT_S if how == "hang" else LIMIT_S)
    assert str(raised.value).startswith(said)
    assert gone(before)
    assert not living(before)
    assert echo(workers) != before


def test_a_killed_child_leaves_word_of_what_it_was_busy_with(workers: Workers) -> None:
    with pytest.raises(TimeoutError):
        workers.ask("a", {"how": "hang"}, limit_s=SHORT_S)
    assert workers.marks["a"] == ("mallory", "eve")


def test_an_answer_that_it_could_not_keeps_the_child(workers: Workers) -> None:
    before = echo(workers)
    with pytest.raises(ChildError, match=r"a: the\\nworld"):
        workers.ask("a", {"how": "error"}, limit_s=LIMIT_S)
    assert echo(workers) == before


def test_the_child_that_was_idle_for_longest_makes_room(workers: Workers) -> None:
    pids = [echo(workers, name) for name in "abc"]
    echo(workers, "a")
    echo(workers, "d")
    assert [gone(pid) for pid in pids] == [False, True, False]


def test_one_that_hangs_costs_the_others_nothing_and_too_many_are_refused(workers: Workers) -> None:
    hanging = [
        threading.Thread(target=_suppressed, args=(workers, name), daemon=True) for name in ("x", "y", "z")
    ]
    for thread in hanging[:2]:
        thread.start()
    while len(workers._seats) < 2:
        assert any(thread.is_alive() for thread in hanging[:2])
    assert echo(workers, "b") > 0
    hanging[2].start()
    while "z" not in workers._seats:
        assert hanging[2].is_alive()
    with pytest.raises(OSError, match="all 3 children are busy"):
        workers.ask("late", {"how": "echo"}, limit_s=LIMIT_S)
    workers.close()
    for thread in hanging:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in hanging)


def _suppressed(workers: Workers, name: str) -> None:
    with pytest.raises(OSError):
        workers.ask(name, {"how": "hang"}, limit_s=60)


def test_closing_ends_all_children_and_takes_no_more_questions(workers: Workers) -> None:
    pids = [echo(workers, name) for name in "ab"]
    workers.close()
    assert all(gone(pid) for pid in pids)
    with pytest.raises(OSError, match="closed"):
        echo(workers)


def test_the_real_child_answers_what_it_cannot_do_and_stays() -> None:
    workers = Workers(environment("127.0.0.1:1", given={}))
    try:
        for _ in range(2):
            with pytest.raises(ChildError, match="collector: "):
                workers.ask("collector", {"ask": "schedds", "collector": "127.0.0.1:1"}, limit_s=LIMIT_S)
        with pytest.raises(ChildError, match="KeyError"):
            workers.ask("collector", {"ask": "dance"}, limit_s=LIMIT_S)
    finally:
        workers.close()


def test_a_child_is_told_its_pool_and_no_secret() -> None:
    made = environment(
        "cm.example.org", token_folder="/t", given={"HOME": "/h", "AWS_SECRET": "x", "CONDOR_CONFIG": "/etc"}
    )
    assert made["CONDOR_CONFIG"] == "ONLY_ENV"
    assert made["_CONDOR_COLLECTOR_HOST"] == "cm.example.org"
    assert made["_CONDOR_SEC_TOKEN_DIRECTORY"] == "/t"
    assert "AWS_SECRET" not in made
