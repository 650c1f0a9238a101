"""What is kept of a job, read by offsets of all that it wrote, and what is said of what is gone."""

from __future__ import annotations

from contextlib import closing

import pytest

from glidepath.core.place.rank import set_key
from glidepath.jobs.desk import LogAsked, LogPiece
from glidepath.jobs.errors import Unknown
from glidepath.keptlog import KeptLog
from glidepath.ranklog import log_folder
from jobs.desk_scene import ANN, DeskScene


def test_a_log_that_was_cut_is_read_by_the_same_offsets(scene: DeskScene) -> None:
    job = scene.placed(ANN)
    scene.world.until_over(job)
    folder = log_folder(scene.home, set_key(job, 1), 0)
    folder.mkdir(parents=True)
    whole = b"".join(b"%04d," % number for number in range(40))
    with closing(KeptLog(str(folder), "stdout", 80)) as log:
        log.write(whole)
    read = [scene.desk.log(ANN, job, LogAsked(offset=offset)) for offset in (0, 20, -10, 200)]
    assert read == [
        LogPiece(whole[:20], 0, 20, 200, 1, True),
        LogPiece(whole[140:], 140, 200, 200, 1, True),
        LogPiece(whole[190:], 190, 200, 200, 1, True),
        LogPiece(b"", 200, 200, 200, 1, True),
    ]
    for asked in (LogAsked(rank=9), LogAsked(attempt=0), LogAsked(attempt=-1), LogAsked(rank=-1)):
        with pytest.raises(Unknown, match="left no stdout"):
            scene.desk.log(ANN, job, asked)
