"""Each test has a world of its own, and nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    try:
        made.serve()
        yield made
    finally:
        made.close()
