"""A flag beats the environment, the environment beats the default, the working directory never counts."""

from __future__ import annotations

from pathlib import Path

from glidepath.cli.where import Where, where


def test_without_anything_the_home_is_the_xdg_default_and_no_file_is_read(tmp_path: Path) -> None:
    assert where({"HOME": str(tmp_path)}) == Where(
        tmp_path / ".local/state/glidepath", "the default", None, "the embedded default"
    )


def test_the_environment_beats_the_default(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "GLIDEPATH_HOME": "/h", "GLIDEPATH_CONFIG": "/c.toml"}
    assert where(environ) == Where(Path("/h"), "$GLIDEPATH_HOME", Path("/c.toml"), "$GLIDEPATH_CONFIG")


def test_a_flag_beats_the_environment() -> None:
    environ = {"GLIDEPATH_HOME": "/h", "GLIDEPATH_CONFIG": "/c.toml"}
    assert where(environ, home="/flag", config="/flag.toml") == Where(
        Path("/flag"), "--home", Path("/flag.toml"), "--config"
    )


def test_xdg_folders_are_used_and_relative_ones_are_not(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "glidepath" / "glidepath.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    environ = {
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "st"),
        "XDG_CONFIG_HOME": str(tmp_path / "conf"),
    }
    assert where(environ) == Where(tmp_path / "st/glidepath", "the default", file, "the default")
    assert where({"HOME": str(tmp_path), "XDG_STATE_HOME": "st"}).home == tmp_path / ".local/state/glidepath"


def test_a_file_in_the_working_directory_configures_nothing(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "glidepath.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert where({"HOME": str(tmp_path)}).config is None


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert where({}, home="here").home == tmp_path / "here"
