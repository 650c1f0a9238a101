"""Desks on stores of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.desk_scene import DeskScene
from store.conftest import store_url


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[DeskScene]:
    made = DeskScene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def scene_anywhere(tmp_path: Path, store_url: str) -> Iterator[DeskScene]:
    """The same on SQLite and on PostgreSQL."""
    made = DeskScene(tmp_path, url=store_url)
    yield made
    made.close()


__all__ = ["store_url"]
