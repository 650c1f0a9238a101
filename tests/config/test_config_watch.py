"""A change is told once, good or bad; looking costs next to nothing and never raises."""

from __future__ import annotations

import os
from pathlib import Path

from config_builders import CATALOG, GOOD, loaded, written

from glidepath.config import ConfigError, Loaded, Watcher


def watched(path: Path, known: Loaded | None = None) -> Watcher:
    return Watcher(path, known, catalog=CATALOG)


def replaced(path: Path, text: str) -> None:
    """As editors do it: a new file takes the place of the old one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_nothing_is_told_while_nothing_changes(tmp_path: Path) -> None:
    first = loaded(tmp_path)
    watcher = watched(first.files[0], first)
    assert [watcher.poll() for _ in range(3)] == [None, None, None]


def test_without_a_known_configuration_the_first_look_reads_it(tmp_path: Path) -> None:
    watcher = watched(written(tmp_path))
    assert isinstance(watcher.poll(), Loaded)
    assert watcher.poll() is None


def test_each_change_is_told_once_and_a_mended_file_again(tmp_path: Path) -> None:
    first = loaded(tmp_path)
    path = first.files[0]
    watcher = watched(path, first)
    watcher.poll()
    replaced(path, GOOD + "weight = 5\n")
    changed = watcher.poll()
    assert isinstance(changed, Loaded)
    assert changed.settings.sites["west"].offers["small"].weight == 5
    assert watcher.poll() is None
    replaced(path, GOOD + "wieght = 5\n")
    assert isinstance(watcher.poll(), ConfigError)
    assert watcher.poll() is None
    replaced(path, GOOD + "weight = 5\n")
    assert watcher.poll() == changed
    assert watcher.poll() is None


def test_files_that_come_go_and_are_touched_in_conf_d_are_seen(tmp_path: Path) -> None:
    first = loaded(tmp_path)
    watcher = watched(first.files[0], first)
    watcher.poll()
    written(tmp_path, GOOD, x="[limits]\nlive_max = 3\n")
    more = watcher.poll()
    assert isinstance(more, Loaded)
    assert more.settings.limits.live_max == 3
    extra = tmp_path / "conf.d" / "x.toml"
    os.utime(extra, ns=(1, 1))
    assert watcher.poll() is None
    extra.unlink()
    assert watcher.poll() == first


def test_a_file_or_folder_that_goes_away_is_a_problem_told_once(tmp_path: Path) -> None:
    first = loaded(tmp_path)
    watcher = watched(first.files[0], first)
    watcher.poll()
    first.files[0].unlink()
    assert isinstance(watcher.poll(), ConfigError)
    assert watcher.poll() is None
    (tmp_path / "conf.d").write_text("no folder")
    assert isinstance(watcher.poll(), ConfigError)
    assert watcher.poll() is None


def test_a_path_that_cannot_exist_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    assert isinstance(watched(Path("a\0b/c.toml")).poll(), ConfigError)
    assert isinstance(watched(tmp_path / ("x" * 300)).poll(), ConfigError)
