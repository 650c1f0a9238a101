"""Plug-ins are found by entry point; one that is broken, misspelt or offered twice is told by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import glidepath
from glidepath import plugins
from glidepath.plugins import (
    BACKENDS,
    DEMAND,
    POLICIES,
    ClashingPlugins,
    Installed,
    UnknownPlugin,
)

CHILD_S_MAX = 30


def distribution(folder: Path, name: str, entries: str) -> None:
    """A distribution as an installer leaves it, reduced to what is looked up."""
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    distribution(tmp_path, "near", "[glidepath.backends]\nslurm = fractions:Fraction\n[other]\nx = y\n")
    distribution(
        tmp_path,
        "far-away",
        "[glidepath.backends]\npbs = decimal:Decimal\n[glidepath.demand]\na = ast:parse\n",
    )
    return tmp_path


def test_names_are_sorted_and_kept_apart_by_group(folder: Path) -> None:
    found = Installed([str(folder)])
    assert [found.names(group) for group in (BACKENDS, DEMAND, POLICIES)] == [("pbs", "slurm"), ("a",), ()]


def test_a_name_gives_its_object(folder: Path) -> None:
    from fractions import Fraction

    assert Installed([str(folder)]).load(BACKENDS, "slurm") is Fraction


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("slrum", "no plug-in named `slrum` in `glidepath.backends`; did you mean `slurm`? "
            "installed backends: `pbs`, `slurm`"),
        ("x\n\u202e", "no plug-in named `x\\n\\u202e` in `glidepath.backends`; "
            "installed backends: `pbs`, `slurm`"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_told_with_what_there_is(folder: Path, name: str, said: str) -> None:
    with pytest.raises(UnknownPlugin) as caught:
        Installed([str(folder)]).load(BACKENDS, name)
    assert str(caught.value) == said


def test_a_group_without_plug_ins_says_so(folder: Path) -> None:
    with pytest.raises(UnknownPlugin, match="installed policies: none"):
        Installed([str(folder)]).load(POLICIES, "steady")


def test_two_distributions_with_one_name_are_both_named(folder: Path) -> None:
    distribution(folder, "rival", "[glidepath.backends]\nslurm = decimal:Decimal\n")
    found = Installed([str(folder)])
    assert found.names(BACKENDS) == ("pbs", "slurm")
    with pytest.raises(ClashingPlugins) as caught:
        found.load(BACKENDS, "slurm")
    assert {"`near`", "`rival`"} <= set(str(caught.value).replace(";", "").split())
    assert found.load(BACKENDS, "pbs")


def test_one_distribution_twice_on_the_path_is_no_clash(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    second = tmp_path_factory.mktemp("second")
    distribution(second, "Near", "[glidepath.backends]\nslurm = decimal:Decimal\n")
    from fractions import Fraction

    assert Installed([str(folder), str(second)]).load(BACKENDS, "slurm") is Fraction


@pytest.mark.parametrize(
    "entries", ["[glidepath.backends]\nno equals sign\n", "\xff", "[glidepath.backends\n", ""]
)
def test_unreadable_metadata_does_not_hide_the_others(folder: Path, entries: str) -> None:
    distribution(folder, "odd", "")
    (folder / "odd-1.0.dist-info" / "entry_points.txt").write_bytes(entries.encode("latin-1"))
    assert Installed([str(folder)]).names(BACKENDS) == ("pbs", "slurm")


def test_a_distribution_without_a_name_is_still_usable(folder: Path) -> None:
    distribution(folder, "nameless", "[glidepath.backends]\nlsf = decimal:Decimal\n")
    (folder / "nameless-1.0.dist-info" / "METADATA").write_text("")
    found = Installed([str(folder)])
    assert found.load(BACKENDS, "slurm")


BROKEN_MODULES = {
    "fails": "raise RuntimeError('no licence\\nfor this')",
    "exits": "import sys; sys.exit(3)",
    "syntax": "def broken(:",
    "lacks": "",
    "missing": "import a_module_that_nobody_has",
    "works": "def backend(site, settings, place): return site",
}


def test_a_plug_in_that_cannot_be_imported_names_its_distribution_and_spares_the_others(
    tmp_path: Path,
) -> None:
    for name, code in BROKEN_MODULES.items():
        (tmp_path / f"{name}_plugin.py").write_text(code)
    entries = "".join(f"{name} = {name}_plugin:backend\n" for name in BROKEN_MODULES)
    distribution(tmp_path, "out-of-tree", f"[glidepath.backends]\n{entries}")
    script = (
        "from glidepath import plugins\n"
        "for name in plugins.names(plugins.BACKENDS):\n"
        f"    if name not in {sorted(BROKEN_MODULES)}:\n"
        "        plugins.load(plugins.BACKENDS, name)\n"
        "        continue\n"
        "    try: print(name, plugins.load(plugins.BACKENDS, name)('x', {}, None))\n"
        "    except plugins.BrokenPlugin as error: print(name, error)\n"
    )
    source = str(Path(glidepath.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), source]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=CHILD_S_MAX,
        check=True,
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    start = (
        "the plug-in `{}` of `glidepath.backends`, from the distribution `out-of-tree`, cannot be loaded: {}"
    )
    assert said["works"] == "x"
    assert said["fails"] == start.format("fails", "RuntimeError: no licence\\nfor this")
    assert said["exits"] == start.format("exits", "SystemExit: 3")
    assert said["missing"].startswith(start.format("missing", "ModuleNotFoundError: "))
    assert said["lacks"].startswith(start.format("lacks", "AttributeError: "))
    assert said["syntax"].startswith(start.format("syntax", "SyntaxError: "))


def test_our_own_policies_are_installed_and_say_their_numbers() -> None:
    assert {"seed", "steady"} <= set(plugins.names(POLICIES))
    for name in ("seed", "steady"):
        policy = plugins.load(POLICIES, name)
        assert all(isinstance(value, int) for value in policy.NUMBERS.values())  # type: ignore[attr-defined]
