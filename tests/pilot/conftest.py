"""Each test of a real pilot has pilots and jobs of its own in the pool of the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bed_pool import condor_pool, nothing_is_left  # noqa: F401 (a fixture)
from pilot.pilot_world import PilotWorld


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[PilotWorld]:
    made = PilotWorld(condor_pool(request.config))
    try:
        yield made
    finally:
        made.close()
