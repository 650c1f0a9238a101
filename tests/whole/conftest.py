"""Homes for whole runs, and a way to start glidepath in them that always ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from whole.running import Running, house


@pytest.fixture
def home() -> Iterator[Path]:
    with house() as found:
        yield found


@pytest.fixture
def up(home: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*words: str, at: Path | None = None) -> Running:
        running = Running(at or home, *words)
        started.append(running)
        return running

    yield start
    for running in started:
        running.close()
