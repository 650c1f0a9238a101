"""A pilot's job is cancelled behind our back."""

from __future__ import annotations

import pytest
from bed.parts.slurm import Slurm

from scenes.several import seldom
from sites.sites_world import WAIT_S, Sites
from sites.test_real_troubles import PATIENT, one_running

pytestmark = pytest.mark.real


def test_a_pilot_that_is_cancelled_behind_our_back_is_told_and_replaced_once(
    world: Sites, slurm: Slurm
) -> None:
    asked = world.at(slurm, live_max=1, offer=PATIENT)
    world.up()
    work, number = one_running(world)
    [first] = world.pilots_at(asked)
    world.take_away(asked, number)
    seldom(lambda: number not in world.jobs_at(asked), world.said, within_s=WAIT_S)

    def replaced() -> bool:
        there = world.pilots_at(asked)
        return len(there) == 1 and there != [first] and world.slots() == there

    # Its job waits again once the pool has given it up.
    seldom(replaced, world.said, within_s=WAIT_S)
    seldom(lambda: [each["name"] for each in world.ended()] == [first], world.said, within_s=WAIT_S)
    world.cycles_later()
    assert (world.asked(), len(world.jobs_at(asked))) == (sorted((first, *world.pilots_at(asked))), 1)
    assert world.waiting(work) == 1
