"""Logs are kept once and whole, however they come: cut anywhere, broken off, thrown away by their node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded.world import until
from glidepath.cluster.kubernetes.fetching import Fetching, Wanted
from glidepath.cluster.kubernetes.logs import LOST, RankLog
from glidepath.core.place.rank import SetKey
from glidepath.kube.api import Api, UnansweredError
from glidepath.kube.errors import KubeError
from glidepath.ranklog import read_log

KEY = SetKey("7.1")
PARTIAL = 40  # A runtime cuts longer lines, as the real one does at 16 KiB.


class Node:
    """What a kubelet has of one log: entries with times, in one file; older ones were thrown away."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.now_ns = 0
        self.cut = 0  # bytes of an answer, after which it breaks off; 0 for never
        self.piece = 7
        self.asked: list[Mapping[str, str | int]] = []

    def write(self, content: bytes, *, after_ns: int = 1) -> None:
        for line in content.splitlines(keepends=True):
            for at in range(0, len(line), PARTIAL):
                self.now_ns += after_ns
                self.entries.append((self.now_ns, line[at : at + PARTIAL]))

    def rotate(self) -> None:
        self.entries.clear()

    def answer(self, since: str) -> bytes:
        since_ns = int(since[17:19]) * 10**9 + int(since[14:16]) * 60 * 10**9 if since else 0
        told, is_new = bytearray(), True
        for at_ns, content in self.entries:
            if at_ns >= since_ns:
                told += (_shown(at_ns) + b" " if is_new else b"") + content
            is_new = content.endswith(b"\n")
        return bytes(told)

    @contextmanager
    def parts(
        self, path: str, query: Mapping[str, str | int], *, limit_s: float
    ) -> Iterator[Iterator[bytes]]:
        self.asked.append(query)
        yield self._parts(self.answer(str(query.get("sinceTime", ""))))

    def _parts(self, whole: bytes) -> Iterator[bytes]:
        for at in range(0, len(whole), self.piece):
            if self.cut and at >= self.cut:
                raise UnansweredError("it broke off")
            yield whole[at : at + self.piece]


def _shown(at_ns: int) -> bytes:
    minutes, rest = divmod(at_ns, 60 * 10**9)
    return f"2030-01-01T00:{minutes:02d}:{rest // 10**9:02d}.{rest % 10**9:09d}Z".encode()


def turn(log: RankLog, node: Node, *, last: bool = False) -> None:
    log.turn(cast(Api, node), "/log", last=last)


def kept(home: Path) -> bytes:
    return read_log(home, KEY, 0, bytes_max=1 << 20).content


def a_log(home: Path, bytes_max: int = 1 << 20) -> RankLog:
    return RankLog(home, KEY, 0, bytes_max)


WRITES = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from([b"a", b"\n", b" ", b"2030-01-01T00:00:00.000000001Z x", b"\xff\0", b"x" * 90])
        ),
        st.integers(1, 900_000_000),
        st.sampled_from(["", "turn", "turn", "again", "cut"]),
        st.integers(1, 300),
    ),
    max_size=12,
)


@given(WRITES)
def test_whatever_is_written_is_kept_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, writes: Any
) -> None:
    home, node = tmp_path_factory.mktemp("home"), Node()
    log, whole = a_log(home), b""
    for words, after_ns, then, number in writes:
        content = b"".join(words)
        node.write(content, after_ns=after_ns)
        whole += content
        node.piece = number
        if then == "again":
            log = a_log(home)  # Another glidepath goes on where this one was.
        if then == "cut":
            node.cut = number
            with suppress(UnansweredError):  # Where the answer is shorter, it comes whole.
                turn(log, node)
            node.cut = 0
        elif then:
            turn(log, node)
            assert kept(home) == whole
    turn(log, node, last=True)
    assert kept(home) == whole
    assert log.over


def test_less_is_asked_for_once_a_second_is_over(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path)
    for _ in range(5):
        node.write(b"line\n", after_ns=10**9)
        turn(log, node)
    assert [asked.get("sinceTime") for asked in node.asked] == [
        None,
        *(f"2030-01-01T00:00:0{second}Z" for second in range(1, 5)),
    ]
    assert kept(tmp_path) == b"line\n" * 5


def test_what_its_node_threw_away_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path)
    node.write(b"first\n", after_ns=2 * 10**9)
    turn(log, node)
    node.rotate()
    node.write(b"x" * 50 + b"\nlast\n", after_ns=2 * 10**9)
    turn(log, node, last=True)
    assert kept(tmp_path) == b"first\n" + LOST + b"x" * 50 + b"\nlast\n"


def test_a_log_that_is_empty_for_a_moment_is_not_lost(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path)
    node.write(b"first\n", after_ns=2 * 10**9)
    turn(log, node)
    entries, node.entries = node.entries, []
    turn(log, node)
    node.entries = entries
    node.write(b"second\n")
    turn(log, node, last=True)
    assert kept(tmp_path) == b"first\nsecond\n"


def test_what_a_crash_left_between_file_and_cursor_is_not_kept_twice(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path)
    node.write(b"one\n")
    turn(log, node)
    path = next(tmp_path.rglob("stdout"))
    path.write_bytes(path.read_bytes() + b"two\nthr")
    node.write(b"two\nthree\n")
    turn(a_log(tmp_path), node, last=True)
    assert kept(tmp_path) == b"one\ntwo\nthree\n"


def test_two_of_us_at_the_same_log_keep_it_once(tmp_path: Path) -> None:
    node, first, second = Node(), a_log(tmp_path), a_log(tmp_path)
    for number in range(6):
        node.write(b"%d\n" % number)
        turn((first, second)[number % 2], node)
    assert kept(tmp_path) == b"0\n1\n2\n3\n4\n5\n"


def test_beyond_its_bound_the_beginning_and_the_latest_are_kept(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path, bytes_max=80)
    whole = b""
    for number in range(30):
        line = b"line %03d\n" % number
        whole += line
        node.write(line, after_ns=10**9)
        turn(log if number % 2 else a_log(tmp_path, bytes_max=80), node, last=number == 29)
    assert kept(tmp_path) == whole[:20]
    latest = read_log(tmp_path, KEY, 0, offset=20)
    assert (latest.content, latest.offset, latest.size) == (whole[latest.start :], 270, 270)
    assert len(latest.content) >= 50
    files = list(tmp_path.rglob("stdout*"))
    assert sum(path.stat().st_size for path in files) <= 80


def test_what_the_disk_does_not_take_is_fetched_again(tmp_path: Path) -> None:
    node, log = Node(), a_log(tmp_path, bytes_max=80)
    node.write(b"x" * 15 + b"\n", after_ns=10**9)
    turn(log, node)
    piece = next(tmp_path.rglob("stdout")).with_name("stdout.20")
    piece.mkdir()  # Nothing can be written there.
    node.write(b"y" * 15 + b"\n", after_ns=10**9)
    with pytest.raises(OSError, match="stdout"):
        turn(log, node)
    piece.rmdir()
    turn(a_log(tmp_path, bytes_max=80), node, last=True)
    everything = read_log(tmp_path, KEY, 0)
    assert everything.content == b"x" * 15 + b"\n" + b"y" * 15 + b"\n"


def test_a_refusal_is_told_and_changes_nothing(tmp_path: Path) -> None:
    class Refusing(Node):
        @contextmanager
        def parts(
            self, path: str, query: Mapping[str, str | int], *, limit_s: float
        ) -> Iterator[Iterator[bytes]]:
            raise KubeError("no", status=500)
            yield iter(())

    node, log = Node(), a_log(tmp_path)
    node.write(b"one\n")
    turn(log, node)
    with pytest.raises(KubeError):
        turn(log, Refusing())
    assert kept(tmp_path) == b"one\n"


class Slow(Node):
    """Says for the first few times that there is nothing of the kind."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    @contextmanager
    def parts(
        self, path: str, query: Mapping[str, str | int], *, limit_s: float
    ) -> Iterator[Iterator[bytes]]:
        if len(self.asked) < self.times:
            self.asked.append(query)
            raise KubeError("container is waiting to start", status=400)
        with super().parts(path, query, limit_s=limit_s) as found:
            yield found


@pytest.mark.parametrize(("times", "kept"), [(2, b"hello\n"), (99, b"")])
def test_a_node_that_does_not_know_of_a_log_yet_is_asked_again_so_often(
    tmp_path: Path, times: int, kept: bytes
) -> None:
    node = Slow(times)
    node.write(b"hello\n")
    fetching = Fetching(tmp_path, cast(Api, node), "/pods")
    wanted = {"gp-7-1-0": Wanted("gp-7-1-0", "u", KEY, 0, 1000, ended=True)}

    def over() -> bool:
        fetching.follow(wanted)
        return fetching.kept() == {"gp-7-1-0": True}

    until("it is told that nothing more comes", over, wait_s=60)
    fetching.close()
    if kept:
        assert read_log(tmp_path, KEY, 0).content == kept
    assert len(node.asked) == 3
