"""A pilot's job is cancelled behind our back, and its site may have forgotten it before we look again."""

from __future__ import annotations

import signal

import pytest
from bed.parts.batch_site import Site
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from tests.bed_site import shared_site

from scenes.several import seldom
from sites.sites_world import WAIT_S, Sites
from sites.test_real_troubles import PATIENT, one_running

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("kind", "looking"), [(Slurm, True), (GridEngine, False)], ids=["scancel", "qdel between two looks"]
)
def test_a_pilot_that_is_cancelled_behind_our_back_is_told_and_replaced_once(
    request: pytest.FixtureRequest, world: Sites, kind: type[Site], looking: bool
) -> None:
    """Grid Engine has no word of a finished job in its queue: it is purged as soon as it is over."""
    asked = world.at(shared_site(request.config, kind), live_max=1, offer=PATIENT)
    run = world.up()
    work, number = one_running(world)
    [first] = world.pilots_at(asked)
    if not looking:
        run.signal(signal.SIGKILL)
        run.wait_end()
    world.take_away(asked, number)
    seldom(lambda: number not in world.jobs_at(asked), world.said, within_s=WAIT_S)
    if not looking:
        world.up()

    def replaced() -> bool:
        there = world.pilots_at(asked)
        return len(there) == 1 and there != [first] and there[0] in world.slots()

    # Its job waits again once the pool has given it up, and is not matched with what is left of the first.
    seldom(replaced, world.said, within_s=WAIT_S)
    world.running(work, 1)
    seldom(lambda: [each["name"] for each in world.ended()] == [first], world.said, within_s=WAIT_S)
    world.cycles_later()
    assert (world.asked(), len(world.jobs_at(asked))) == (sorted((first, *world.pilots_at(asked))), 1)
    assert world.waiting(work) == 1
