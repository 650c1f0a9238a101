"""Storms as the last judge of the core: nothing is broken, and every plan is decided twice alike."""

from __future__ import annotations

import pytest

from glidepath.sim.keep import Encoded
from glidepath.sim.storm import storm
from glidepath.sim.study import replayed, simulated


@pytest.mark.parametrize("seed", range(3))
def test_a_short_storm_breaks_nothing_and_every_plan_is_decided_again_from_its_journal(seed: int) -> None:
    keeps = Encoded()
    finished = simulated(storm(seed), seed, cycles=60, keeps=keeps)
    count, differ = replayed(keeps)
    assert (finished.broken, finished.left, differ) == ((), 0, ())
    assert count >= 60
