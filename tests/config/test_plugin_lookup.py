"""Which plug-ins are installed is looked up once for a program, and anew by whoever asks for a new look."""

from __future__ import annotations

from pathlib import Path

import pytest

from glidepath import plugins
from glidepath.plugins import POLICIES, Installed, UnknownPlugin


def distribution(folder: Path, name: str) -> None:
    """A distribution that offers one policy under its own name."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{POLICIES}]\n{name} = fractions:Fraction\n")


def test_what_is_installed_later_is_not_found_by_a_program_that_has_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plugins.names(POLICIES)
    distribution(tmp_path, "latecomer")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.names(POLICIES) == before
    assert "latecomer" not in before
    with pytest.raises(UnknownPlugin, match="no plug-in named `latecomer`"):
        plugins.load(POLICIES, "latecomer")
    assert Installed().names(POLICIES) == tuple(sorted({*before, "latecomer"}))


def test_one_look_serves_every_later_question(tmp_path: Path) -> None:
    distribution(tmp_path, "first")
    found = Installed([str(tmp_path)])
    assert found.names(POLICIES) == ("first",)
    distribution(tmp_path, "second")
    assert found.names(POLICIES) == ("first",)
    assert Installed([str(tmp_path)]).names(POLICIES) == ("first", "second")


@pytest.mark.parametrize("name", ["seed", "steady", "prp"])
def test_a_name_gives_the_very_same_object_every_time(name: str) -> None:
    assert plugins.load(POLICIES, name) is plugins.load(POLICIES, name) is Installed().load(POLICIES, name)
