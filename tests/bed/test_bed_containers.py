"""Apptainer in the bed: had where the archive has it, done without and told where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bed.command import Ended
from bed.parts.condor import Condor
from bed.parts.condor_containers import ABOUT, fetched, installed, one_line, table_of, why_none
from bed.place import Place
from bed.trouble import Trouble

from bed import versions

ROOT = Path(__file__).parent.parent.parent
WAIT_S_MAX = 120
TABLE = {
    "suite": "old",
    "architecture": "amd64",
    "packages": {"condor": {"version": "1", "sha256": "0"}},
    "containers": {"suite": "new", "packages": {"apptainer": {"version": "2:3", "sha256": "0"}}},
}
DEB = "apptainer_2%3a3_amd64.deb"


def test_what_is_pinned_is_whole_and_of_its_own_suite() -> None:
    table = versions.section("condor")
    pinned = versions.pins(table_of(table))
    assert list(pinned) == ["apptainer"]
    assert all(pin.version and len(pin.sha256) == 64 for pin in pinned.values())
    assert table_of(table)["suite"] != table["suite"]


def test_only_the_package_of_the_other_suite_is_asked_of_it(tmp_path: Path) -> None:
    asked = []
    assert fetched(tmp_path, TABLE, lambda folder, table: asked.append((folder, table))) == ""
    expected = {
        "suite": "new",
        "architecture": "amd64",
        "packages": {"apptainer": {"version": "2:3", "sha256": "0"}},
    }
    assert asked == [(tmp_path, expected)]


def test_an_archive_that_has_moved_on_is_a_reason_and_no_trouble(tmp_path: Path) -> None:
    def moved_on(_: Path, table: Mapping[str, Any]) -> None:
        versions.compare_versions(versions.pins(table), {"apptainer": "2:4"})

    why = fetched(tmp_path, TABLE, moved_on)
    assert "apptainer: pinned 2:3, the archive has 2:4; hint: change `version` and `sha256`" in why
    assert "\n" not in why


def world(tmp_path: Path) -> tuple[Path, Path]:
    root, folder = tmp_path / "root", tmp_path / "packages"
    (root / "var/cache/apt/archives").mkdir(parents=True)
    folder.mkdir()
    (folder / DEB).write_bytes(b"x")
    return root, folder


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ("", ""),
        ("apt-get", "`apptainer` could not be installed: `apt-get` ended with 1: no room"),
        ("apptainer", "`apptainer` does not run: `apptainer` ended with 1: no room"),
    ],
)
def test_what_cannot_be_installed_or_run_is_a_reason(tmp_path: Path, failing: str, expected: str) -> None:
    root, folder = world(tmp_path)
    ran = []

    def inside(_: Path, *words: str) -> Ended:
        ran.append(words)
        return Ended(words, int(words[0] == failing), "", "no room\n")

    assert installed(root, folder, TABLE, inside) == expected
    assert ran[0][-1] == f"/var/cache/apt/archives/{DEB}"
    assert (root / "var/cache/apt/archives" / DEB).read_bytes() == b"x"


def test_a_program_that_does_not_end_is_a_reason(tmp_path: Path) -> None:
    root, folder = world(tmp_path)

    def inside(_: Path, *words: str) -> Ended:
        raise Trouble(f"`{words[0]}` did not end\nand was killed")

    assert installed(root, folder, TABLE, inside) == "`apt-get` did not end; and was killed"


def test_a_long_reason_is_one_line_of_bounded_length() -> None:
    assert one_line(" a  b\n\n\tc: \n  d") == "a b; c: d"
    assert len(one_line("x" * 5000)) < 500


@pytest.mark.parametrize("about", ['{"without_containers": ""}', "{}", "{", None])
def test_a_build_with_it_or_an_unfinished_one_lacks_nothing(tmp_path: Path, about: str | None) -> None:
    if about is not None:
        (tmp_path / ABOUT).write_text(about)
    assert why_none(tmp_path) == ""


def test_a_part_that_was_built_without_it_says_so_and_how_to_try_again(tmp_path: Path) -> None:
    place = Place(tmp_path / "cache", Path(f"/tmp/gp-rules-{os.getpid()}"))
    folder = Condor().build_folder(place)
    assert Condor().lacking(place) == []
    folder.mkdir(parents=True)
    (folder / ABOUT).write_text(json.dumps({"without_containers": "the archive has moved on"}))
    why = f"no `apptainer`, so that no jobs in containers: the archive has moved on; `rm -r {folder}`"
    environ = {
        **os.environ,
        "GLIDEPATH_BED_CACHE": str(place.cache),
        "GLIDEPATH_BED_RUN": str(place.run),
    }
    for words, told in ((["parts"], f"cached; {why}"), (["prepare", "condor"], f"condor: cached; {why}")):
        command = [sys.executable, "bed/ctl", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
        )
        assert done.returncode == 0, done.stderr
        # Where this machine cannot host it at all, `parts` has a graver word.
        assert told in done.stdout or " no: " in done.stdout
