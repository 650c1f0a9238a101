"""A backend of another project: the tutorial's own files are installed and held to the promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "write-a-backend.md"
FILE = re.compile(r"\*\*`([a-z_.]+)`\*\*\n\n```\w+\n(.*?)```\n", re.DOTALL)
LINES_MAX = 100


def run(*command: str, cwd: Path, **variables: str) -> str:
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    found = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sources; the package itself is in `site` beside them."""
    folder = tmp_path_factory.mktemp("spool")
    for name, text in FILE.findall(TUTORIAL.read_text()):
        (folder / name).write_text(text)
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run(*pip, "--no-cache-dir", "--target", str(folder / "site"), ".", cwd=folder)
    return folder


def test_the_tutorial_is_short_enough_to_be_read() -> None:
    assert len(TUTORIAL.read_text().splitlines()) < LINES_MAX


def test_the_installed_backend_is_found_by_its_entry_point(installed: Path) -> None:
    code = "from glidepath.plugins import load; print(load('glidepath.backends', 'spool').__module__)"
    assert run("-c", code, cwd=installed.parent, PYTHONPATH=str(installed / "site")) == "glidepath_spool\n"


def test_the_installed_backend_keeps_every_promise(installed: Path) -> None:
    tests = installed / "check"
    tests.mkdir()
    (installed / "test_spool.py").rename(tests / "test_spool.py")
    pytest_command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(tests)]
    said = run(*pytest_command, str(tests), cwd=tests, PYTHONPATH=str(installed / "site"))
    assert re.search(r"^[0-9]+ passed in", said.splitlines()[-1]), said


def test_a_backend_that_breaks_a_promise_is_caught(installed: Path, tmp_path: Path) -> None:
    """The suite must be able to fail: a listing that hides an error is the fault it exists for."""
    source = (installed / "site" / "glidepath_spool.py").read_text()
    broken = source.replace("self.folder.iterdir() if", "self.folder.glob('*') if")
    assert broken != source
    (tmp_path / "glidepath_spool.py").write_text(broken)
    blocks = dict(FILE.findall(TUTORIAL.read_text()))
    (tmp_path / "test_spool.py").write_text(blocks["test_spool.py"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    found = subprocess.run(
        [*command, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 1
    assert "1 failed" in found.stdout
    assert "test_a_failed_listing_raises_and_never_returns_less" in found.stdout
