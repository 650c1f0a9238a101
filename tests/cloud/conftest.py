"""Real tests here have a glidepath of their own beside the pool of the session, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bed_pool import nothing_is_left  # noqa: F401 (a fixture)
from cloud.cloud_world import World
from cloud.queue_service import IMAGES, serving


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "jobs", IMAGES, room=2) as service:
        yield World(service, tmp_path / "home")
