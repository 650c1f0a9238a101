"""A home for a whole run with two sites that call, empty of processes and gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calls.calling import Land
from whole.running import house


@pytest.fixture
def home() -> Iterator[Path]:
    with house() as found:
        yield found


@pytest.fixture
def land(home: Path) -> Iterator[Land]:
    made = Land(home, "east", "west")
    yield made
    made.close()
