"""One way to run the command line in a test: words in, code and both streams out."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from glidepath.cli.main import main
from glidepath.cli.verb import Caller

WALL = 1_800_000_000.0


@dataclass(frozen=True)
class Ran:
    """What one call gave."""

    code: int
    out: str
    err: str


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


Cli = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Runs `glidepath` with a home of its own, nothing of this machine, and no real waits."""

    def call(*words: str, terminal: bool = False, wall: float = WALL, **environ: str) -> Ran:
        out, err = (Screen() if terminal else io.StringIO()), io.StringIO()
        surroundings = {"HOME": str(tmp_path), "GLIDEPATH_HOME": str(home), **environ}
        caller = Caller(out, err, surroundings, lambda seconds: None, lambda: wall)
        code = main(list(words), caller=caller)
        return Ran(int(code), out.getvalue(), err.getvalue())

    return call
