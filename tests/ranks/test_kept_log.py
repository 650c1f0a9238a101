"""An output within a bound: its beginning and its latest part are kept, and offsets stay what they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.place.rank import SetKey
from glidepath.keptlog import PIECES_MAX, KeptLog, Part, gone_words, read_part
from glidepath.ranklog import log_folder, read_log, read_pulled

KEY = SetKey("7.1")
BOUND = 80  # 20 for the beginning, pieces of 10


def stream(length: int) -> bytes:
    """Bytes of which no two stretches are alike."""
    return b"".join(b"%04d," % number for number in range(length // 5 + 1))[:length]


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(folder: Path, offset: int = 0, bytes_max: int = 1000) -> Part:
    with opened(folder) as descriptor:
        return read_part(descriptor, "stdout", offset, bytes_max)


def test_where_a_reading_of_nothing_would_begin(tmp_path: Path) -> None:
    log = KeptLog(str(tmp_path), "stdout", BOUND)
    log.write(stream(200))
    log.close()
    gone = read(tmp_path, 25)
    assert gone.start > 25, "something of it is not kept"
    starts = {offset: read(tmp_path, offset, 0) for offset in (0, 7, 25, -3, 200, 300)}
    assert starts == {
        0: Part(b"", 0, 200),
        7: Part(b"", 7, 200),
        25: Part(b"", gone.start, 200),
        -3: Part(b"", 197, 200),
        200: Part(b"", 200, 200),
        300: Part(b"", 300, 200),
    }


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("stdout*"))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["", "", "again", "crash"])), max_size=15),
    st.integers(1, 40),
)
def test_whatever_is_read_stands_at_its_offset(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, str]], bytes_max: int
) -> None:
    folder, whole = tmp_path_factory.mktemp("log"), stream(1000)
    log, size = KeptLog(str(folder), "stdout", BOUND), 0
    for length, then in writes:
        log.write(whole[size : size + length])
        if then == "crash":
            # What came last was not written down as kept: it comes again.
            log.close()
            log = KeptLog(str(folder), "stdout", BOUND, size=size)
            log.write(whole[size : size + length])
        size += length
        if then == "again":
            log.close()
            log = KeptLog(str(folder), "stdout", BOUND, size=size)
        assert on_disk(folder) <= BOUND
        offset, seen = 0, b""
        for _ in range(size + 2):
            part = read(folder, offset, bytes_max)
            assert part.content == whole[part.start : part.end]
            assert part.start >= offset
            assert part.size == size
            offset, seen = part.end, seen + part.content
            if offset == size:
                break
        assert offset == size
        assert seen[:20] == whole[: min(size, 20)]
        latest = min(size, 10 * (PIECES_MAX - 1) - 60)
        assert latest <= 0 or seen.endswith(whole[size - latest : size])
    log.close()


def test_what_lies_in_a_gap_is_told_by_where_the_rest_begins(tmp_path: Path) -> None:
    whole = stream(200)
    with closing(KeptLog(str(tmp_path), "stdout", BOUND)) as log:
        log.write(whole)
    assert read(tmp_path) == Part(whole[:20], 0, 200)
    assert read(tmp_path, 20) == Part(whole[140:], 140, 200)
    assert read(tmp_path, 100, 5) == Part(whole[140:145], 140, 200)
    assert read(tmp_path, -5) == Part(whole[195:], 195, 200)
    assert read(tmp_path, -190) == Part(whole[10:20], 10, 200)
    assert read(tmp_path, 200) == Part(b"", 200, 200)
    assert read(tmp_path, 999) == Part(b"", 999, 200)
    assert gone_words(120) == b"\n[glidepath: 120 bytes that were written here are not kept]\n"


def test_what_is_not_beyond_the_bound_is_all_there(tmp_path: Path) -> None:
    whole = stream(BOUND)
    with closing(KeptLog(str(tmp_path), "stdout", BOUND)) as log:
        for at in range(0, BOUND, 7):
            log.write(whole[at : at + 7])
    assert read(tmp_path) == Part(whole, 0, BOUND)


def test_what_a_disk_does_not_take_is_a_gap_of_its_length(tmp_path: Path) -> None:
    whole = stream(60)
    log = KeptLog(str(tmp_path), "stdout", BOUND)
    (tmp_path / "stdout.20").mkdir()  # Nothing can be written under that name.
    log.take(whole[:25])
    assert log.size == 25
    log.take(whole[25:30])
    assert read(tmp_path, 20) == Part(whole[25:30], 25, 30)
    (tmp_path / "stdout.35").mkdir()
    log.take(whole[30:50])
    log.close()
    assert read(tmp_path, 20) == Part(whole[25:35], 25, 50)
    assert read(tmp_path, 35) == Part(b"", 50, 50), "how long it was is told all the same"


def test_a_log_is_read_while_its_oldest_piece_goes(tmp_path: Path) -> None:
    whole = stream(3000)
    log = KeptLog(str(tmp_path), "stdout", BOUND)
    offset = 0
    for at in range(0, 3000, 30):
        log.write(whole[at : at + 30])
        part = read(tmp_path, offset, 15)
        assert part.content == whole[part.start : part.end]
        offset = part.end
    log.close()


def test_logs_of_ranks_and_of_pilots_jobs_are_read_by_no_link(tmp_path: Path) -> None:
    folder = log_folder(tmp_path, KEY, 0)
    folder.mkdir(parents=True)
    (folder / "stdout").write_bytes(b"rank\n")
    (folder.parent / "stdout").write_bytes(b"pilot\n")
    assert read_log(tmp_path, KEY, 0).content == b"rank\n"
    assert read_pulled(tmp_path, 7, 1).content == b"pilot\n"
    (folder / "stderr").symlink_to(folder / "stdout")
    for _ in range(2):
        with pytest.raises(LookupError):
            read_log(tmp_path, KEY, 0, stream="stderr")
        (folder / "stderr").unlink()
        os.mkfifo(folder / "stderr")
    (folder.parent / "1").symlink_to(folder)
    for rank, stream_name in ((1, "stdout"), (2, "stdout"), (0, "stdin")):
        with pytest.raises(LookupError):
            read_log(tmp_path, KEY, rank, stream=stream_name)
