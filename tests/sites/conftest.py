"""Every test has a glidepath of its own beside the pool and the batch sites of the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from tests.bed_pool import condor_pool, nothing_is_left
from tests.bed_site import shared_site

from sites.sites_world import Sites
from whole.running import house

__all__ = ["nothing_is_left"]


@pytest.fixture
def slurm(request: pytest.FixtureRequest) -> Slurm:
    return shared_site(request.config, Slurm)


@pytest.fixture
def grid_engine(request: pytest.FixtureRequest) -> GridEngine:
    return shared_site(request.config, GridEngine)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[Sites]:
    pool = condor_pool(request.config)
    with house() as home:
        made = Sites(home, pool)
        try:
            yield made
        finally:
            made.close()
