"""The pilot travels alone: one file, the standard library, old interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from glidepath.pilot import PARTS, pilot_bytes, pilot_file

# What came after 3.6 and is easily used without a thought; the grammar alone does not show it.
TOO_NEW = {
    "cached_property",
    "capture_output",
    "dataclass",
    "dirs_exist_ok",
    "fromisoformat",
    "missing_ok",
    "nullcontext",
    "pidfd_open",
    "posix_spawn",
    "removeprefix",
    "removesuffix",
    "time_ns",
    "waitstatus_to_exitcode",
}


PART_FILES = sorted(PARTS.glob("*.py"))


def tree_of(part: Path) -> ast.Module:
    return ast.parse(part.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("part", PART_FILES, ids=lambda part: part.stem)
def test_the_pilot_is_written_in_the_grammar_of_python_3_6(part: Path) -> None:
    tree = tree_of(part)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {word.arg or "" for word in ast.walk(tree) if isinstance(word, ast.keyword)}
    assert names & TOO_NEW == set()
    assert not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree))


@pytest.mark.parametrize("part", PART_FILES, ids=lambda part: part.stem)
def test_the_pilot_imports_the_standard_library_only(part: Path) -> None:
    imported = set()
    for node in ast.walk(tree_of(part)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module or "")
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not f"{name}.".startswith("glidepath.pilot.parts.")} <= {"glidepath"}
    assert "__future__" not in imported


def test_the_file_is_built_once_with_the_same_bytes_and_nothing_half(tmp_path: Path) -> None:
    first = pilot_file(tmp_path)
    kept = first.stat().st_mtime_ns
    assert pilot_file(tmp_path) == first
    assert first.stat().st_mtime_ns == kept
    assert first.read_bytes() == pilot_bytes()
    pilot_bytes.cache_clear()
    assert first.read_bytes() == pilot_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    with zipfile.ZipFile(first) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_the_embedded_kind_loads_nothing_of_the_others(tmp_path: Path) -> None:
    """Start-up is counted in every pilot; what is not used is not imported."""
    code = (
        "import runpy, sys\nsys.argv = ['pilot', '--help']\n"
        f"try:\n    runpy.run_path({str(pilot_file(tmp_path))!r}, run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if 'condor' in name or name in ('tarfile', 'urllib')))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
