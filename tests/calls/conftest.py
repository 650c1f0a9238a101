"""A home for a whole run, empty of processes and gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from whole.running import house


@pytest.fixture
def home() -> Iterator[Path]:
    with house() as found:
        yield found
