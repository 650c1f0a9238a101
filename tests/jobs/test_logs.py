"""What a job wrote, piece by piece: any offset, any size, and nothing but plain files of its own folder."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from glidepath.jobs.desk import LOG_PIECE_BYTES_MAX, LogAsked, LogPiece
from glidepath.jobs.errors import DeskError, Unknown, Unusable
from jobs.desk_scene import ANN, DeskScene

TEXT = b"0123456789"


@pytest.fixture
def job(scene: DeskScene) -> int:
    """A pulled job that is over."""
    number = scene.pulled(ANN)
    scene.taken(exit_code=0)
    return number


@pytest.mark.parametrize(
    ("offset", "bytes_max", "content", "start"),
    [
        (0, 4, b"0123", 0),
        (4, 100, b"456789", 4),
        (10, 100, b"", 10),
        (99, 100, b"", 99),
        (10**30, 100, b"", 10**30),
        (-3, 100, b"789", 7),
        (-99, 4, b"0123", 0),
        (-(10**30), 4, b"0123", 0),
    ],
)
def test_a_piece_is_what_was_asked_for_and_no_more(
    scene: DeskScene, job: int, offset: int, bytes_max: int, content: bytes, start: int
) -> None:
    scene.wrote(TEXT, job, 1)
    asked = LogAsked(offset=offset, bytes_max=bytes_max)
    assert scene.desk.log(ANN, job, asked) == LogPiece(content, start, start + len(content), 10, 1, True)


def test_pieces_make_up_the_log_and_each_is_bounded(scene: DeskScene, job: int) -> None:
    file = scene.wrote(b"", job, 1)
    size = 10 << 30
    os.truncate(file, size)  # Ten gigabytes with holes.
    with file.open("r+b") as opened:
        opened.seek(size - 5)
        opened.write(b"end.\n")
    tracemalloc.start()
    try:
        piece = scene.desk.log(ANN, job, LogAsked(offset=0, bytes_max=1 << 40))
        assert (len(piece.content), piece.end, piece.size) == (LOG_PIECE_BYTES_MAX, LOG_PIECE_BYTES_MAX, size)
        last = scene.desk.log(ANN, job, LogAsked(offset=-5))
        assert (last.content, last.end) == (b"end.\n", size)
        assert tracemalloc.get_traced_memory()[1] < 8 * LOG_PIECE_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_log_is_over_when_its_attempt_is(scene: DeskScene) -> None:
    number = scene.pulled(ANN)
    scene.taken()
    scene.wrote(TEXT, number, 1)
    assert scene.desk.log(ANN, number, LogAsked()).over is False
    scene.desk.cancel(ANN, number)
    assert scene.desk.log(ANN, number, LogAsked()).over is False
    placed = scene.placed(ANN)
    scene.wrote(b"rank", placed, 1, 0)
    assert scene.desk.log(ANN, placed, LogAsked()).over is False
    scene.world.until_over(placed)
    assert scene.desk.log(ANN, placed, LogAsked()).over is True


def test_each_rank_and_each_output_has_its_own(scene: DeskScene) -> None:
    placed = scene.placed(ANN, ranks=2)
    for rank in (0, 1):
        scene.wrote(f"out {rank}".encode(), placed, 1, rank)
        scene.wrote(f"err {rank}".encode(), placed, 1, rank, name="stderr")
    read = [
        scene.desk.log(ANN, placed, LogAsked(rank, stderr)).content
        for rank in (0, 1)
        for stderr in (False, True)
    ]
    assert read == [b"out 0", b"err 0", b"out 1", b"err 1"]


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (LogAsked(attempt=7), Unknown, "job 1 left no stdout for attempt 7"),
        (LogAsked(stderr=True), Unknown, "job 1 left no stderr for attempt 1"),
        (LogAsked(rank=2), Unusable, "job 1 is not a placed one and has no ranks"),
        (LogAsked(attempt=-1), Unknown, "job 1 left no stdout for attempt -1"),
    ],
)
def test_what_was_never_written_is_told(
    scene: DeskScene, job: int, asked: LogAsked, kind: type[DeskError], said: str
) -> None:
    scene.wrote(TEXT, job, 1)
    with pytest.raises(kind) as refused:
        scene.desk.log(ANN, job, asked)
    assert str(refused.value) == said


def test_a_job_that_has_not_started_has_no_log(scene: DeskScene) -> None:
    with pytest.raises(Unknown, match="job 1 has not started yet: it is queued"):
        scene.desk.log(ANN, scene.pulled(ANN), LogAsked())


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe", "folder"])
def test_no_link_is_followed_and_nothing_but_a_file_is_read(
    scene: DeskScene, job: int, tmp_path: Path, kind: str
) -> None:
    secret = tmp_path / "elsewhere" / "1" / "stdout"
    secret.parent.mkdir(parents=True)
    secret.write_text("secret")
    file = scene.wrote(b"", job, 1)
    file.unlink()
    if kind == "link to a file":
        file.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.parent.rmdir()
        file.parent.symlink_to(secret.parent)
    with pytest.raises(Unknown, match="job 1 left no stdout for attempt 1"):
        scene.desk.log(ANN, job, LogAsked())
