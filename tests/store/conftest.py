"""Every store test runs on a real SQLite file and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import shared_server

from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store/glidepath.db"
        return
    with shared_server(request.config).database() as url:
        yield url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open store of the newest version."""
    with open_store(store_url) as opened:
        migrate(opened)
        yield opened
