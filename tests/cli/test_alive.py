"""`glidepath alive`: a loop that turns, one that hangs, one that is not there; and what is asked for it."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from glidepath.pulse import Beat, Pulse, ask, pulse_path

from .conftest import Cli


@pytest.fixture
def home() -> Iterator[Path]:
    """In a short path, for its socket."""
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        yield Path(folder)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(home: Path, clock: Clock) -> Iterator[Pulse]:
    made = Pulse(home, steady=clock)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("silent_s", "code", "told"),
    [
        (0.0, 0, "alive: cycle 7, 0 s ago\n"),
        (60.0, 0, "alive: cycle 7, 60 s ago\n"),
        (61.0, 1, "glidepath: the loop hangs: cycle 7, for 61 s; 60 s are the most it should take\n"),
    ],
)
def test_a_loop_is_alive_for_as_long_as_it_said_it_would_take(
    silent_s: float, code: int, told: str, pulse: Pulse, clock: Clock, cli: Cli
) -> None:
    pulse.beat("cycle 7", 60)
    clock.now_s += silent_s
    ran = cli("alive")
    assert (ran.code, ran.out + ran.err) == (code, told)


def test_before_its_first_word_it_is_not_alive_for_long(pulse: Pulse, clock: Clock, home: Path) -> None:
    assert ask(home) == Beat("starting", 0.0, 0.0)
    clock.now_s += 1
    assert ask(home).late


def test_where_none_runs_or_the_last_was_killed_there_is_no_life(cli: Cli, pulse: Pulse, home: Path) -> None:
    pulse.stop()
    assert not pulse_path(home).exists()
    none = f"glidepath: no glidepath runs in `{home}`\nhint: start it with `glidepath up`\n"
    assert (cli("alive").code, cli("alive").err) == (1, none)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(pulse_path(home)))
    assert cli("alive").err == none


def test_the_next_one_takes_the_place_of_one_that_was_killed(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(pulse_path(home)))
    pulse = Pulse(home)
    pulse.start()
    pulse.beat("waiting", 5)
    assert (ask(home).doing, ask(home).late) == ("waiting", False)
    assert pulse_path(home).stat().st_mode & 0o777 == 0o600
    pulse.stop()


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"doing": 1}', b"[" * 4096, b"x" * 100_000])
def test_what_answers_and_is_no_glidepath_is_told(answer: bytes, home: Path) -> None:
    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            try:
                peer.sendall(answer)
            except OSError:
                pass  # Nobody reads so much.

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(pulse_path(home)))
        listener.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        with pytest.raises(OSError, match="is no glidepath"):
            ask(home)
        serving.join()


def test_one_that_does_not_answer_is_given_up(home: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(pulse_path(home)))
        silent.listen()
        with pytest.raises(OSError, match=r"does not answer within 0\.2 s"):
            ask(home, limit_s=0.2)


def test_a_home_that_is_too_long_for_a_socket_is_named(home: Path) -> None:
    deep = home / ("x" * 100)
    deep.mkdir()
    Pulse(deep).start()
    assert list(deep.iterdir()) == []
    with pytest.raises(OSError, match="too long for a socket"):
        ask(deep)


def test_one_that_stands_by_in_the_same_home_takes_the_word_only_when_it_owns_the_store(home: Path) -> None:
    first, second = Pulse(home), Pulse(home)
    first.start()
    first.beat("leading", 60)
    second.start()
    second.beat("standing by", 60)
    assert ask(home).doing == "leading"
    second.stop()
    assert ask(home).doing == "leading"
    second.start(owner=True)
    assert ask(home).doing == "standing by"
    first.stop()
    assert ask(home).doing == "standing by"
    second.stop()
    assert not pulse_path(home).exists()
