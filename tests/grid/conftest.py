"""Every test has a glidepath of its own beside the pool of the session, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bed_pool import condor_pool, nothing_is_left  # noqa: F401 (a fixture)
from grid.grid_world import Grid
from whole.running import house


@pytest.fixture
def grid(request: pytest.FixtureRequest) -> Iterator[Grid]:
    pool = condor_pool(request.config)
    with house() as home:
        made = Grid(home, pool)
        try:
            yield made
        finally:
            made.close()
