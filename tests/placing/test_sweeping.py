"""Folders of logs and jobs in the store go together, and nothing but what is meant is ever removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from placing_world import PlacingWorld

from glidepath.config import KeepSettings
from glidepath.core.quantity import Instant
from glidepath.jobs.kept import no_such_job, no_such_log
from glidepath.ranklog import logged_jobs, remove_logs
from glidepath.store.sweep import Sweep
from glidepath.sweeping import Sweeper

DAY = 86400


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path)
    yield made
    made.close()


@dataclass
class Clocks:
    wall_s: float = 0.0
    steady_s: int = 0

    def wall(self) -> float:
        return self.wall_s

    def now(self) -> Instant:
        return Instant(self.steady_s)


@dataclass
class Swept:
    """A sweeper of a world, and the two clocks that it goes by."""

    world: PlacingWorld
    home: Path
    clocks: Clocks = field(default_factory=Clocks)

    def after(self, days: float, *, wall_days: float | None = None) -> str:
        self.clocks.steady_s = int(self.world.time.at + days * DAY)
        self.clocks.wall_s = self.world.time.at + (days if wall_days is None else wall_days) * DAY
        made = Sweeper(
            self.home,
            Sweep(self.world.store),
            keep=KeepSettings,
            now=self.clocks.now,
            wall=self.clocks.wall,
            journal_s=lambda: 30 * DAY,
            rest_s=0.0,
        )
        return made.pass_once()


def logged(home: Path, job: int) -> Path:
    folder = home / "jobs" / str(job) / "1" / "0"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("words\n")
    return folder


def a_job_that_is_over(world: PlacingWorld) -> int:
    job = world.submit()
    world.until_over(job)
    return job


def test_a_log_goes_first_and_its_job_later(world: PlacingWorld, tmp_path: Path) -> None:
    job, swept = a_job_that_is_over(world), Swept(world, tmp_path)
    logged(tmp_path, job)
    assert swept.after(29) == ""
    assert sorted(logged_jobs(tmp_path)) == [job]
    assert swept.after(31) == ""
    assert sorted(logged_jobs(tmp_path)) == []
    assert world.stands(job) == "done"
    swept.after(91)
    assert world.jobs.find(job) is None


def test_one_clock_that_jumps_ahead_removes_nothing(world: PlacingWorld, tmp_path: Path) -> None:
    job, swept = a_job_that_is_over(world), Swept(world, tmp_path)
    logged(tmp_path, job)
    swept.after(1, wall_days=3650)
    swept.after(3650, wall_days=1)
    assert sorted(logged_jobs(tmp_path)) == [job]
    assert world.stands(job) == "done"


def test_logs_of_jobs_that_are_open_or_of_no_job_stay(world: PlacingWorld, tmp_path: Path) -> None:
    job, swept = world.submit(), Swept(world, tmp_path)
    for number in (job, 99):
        logged(tmp_path, number)
    (tmp_path / "jobs" / "notes").mkdir()
    swept.after(4000)
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == [str(job), "99", "notes"]


def test_a_link_in_place_of_a_folder_goes_and_not_what_it_points_at(
    world: PlacingWorld, tmp_path: Path
) -> None:
    job, outside = a_job_that_is_over(world), tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / str(job)).symlink_to(outside)
    assert Swept(world, tmp_path).after(31) == ""
    assert sorted(logged_jobs(tmp_path)) == []
    assert (outside / "precious").read_text() == "mine"


def test_no_link_is_followed_and_no_depth_is_too_deep(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    folder = logged(tmp_path, 7)
    (folder / "out").symlink_to(outside)
    (folder / "file").symlink_to(outside / "precious")
    (folder / "going-1").write_text("in the way")
    os.mkfifo(folder / "pipe")
    deep = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # Longer than any path, and deeper than Python calls itself.
        os.mkdir("d", dir_fd=deep)
        inner = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    (folder / "shut" / "in").mkdir(parents=True)
    (folder / "shut" / "in").chmod(0)
    (folder / "shut").chmod(0)
    steps = 0
    while not remove_logs(tmp_path, 7, entries_max=100):
        steps += 1
        assert steps < 1000
    assert steps > 10, "each step does only so much"
    assert list((tmp_path / "jobs").iterdir()) == []
    assert (outside / "precious").read_text() == "mine"
    assert remove_logs(tmp_path, 7, entries_max=1), "what is gone is done"


def test_what_was_removed_is_told_with_its_time() -> None:
    keep = KeepSettings()
    assert no_such_job(7, keep) == "there is no job 7; one that is over is kept for 90d after its end"
    log = "stdout of rank 0"
    assert no_such_log(7, log, keep, ended_wall=0.0, wall=31.0 * DAY) == (
        "the stdout of rank 0 of job 7 was kept for 30d after its end and is gone"
    )
    assert no_such_log(7, log, keep, ended_wall=0.0, wall=1.0) == "job 7 left no stdout of rank 0"
    assert no_such_log(7, log, keep, ended_wall=None, wall=1e9) == "job 7 left no stdout of rank 0"
