"""The bed for tests: a place of this session's own, a pool that all tests share, and a look at what is left.

Servers of tests are tied to the test run: where it is killed, they go with it. A machine that cannot host a
part skips its tests with the reason that `bed/ctl parts` gives; under CI=true that is a failure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.machine import Machine
from bed.parts import Part
from bed.parts.condor import Pool
from bed.place import Place
from bed.trouble import Trouble

from bed import leaks, lifecycle

POLL_S = 0.1
# A process that was told to end may need a moment to be gone; one that is still there then was forgotten.
LEAVE_S_MAX = 10

_SHARED = pytest.StashKey[Pool]()
# Folders of the servers that the whole session shares: these are meant to be up.
MEANT: set[Path] = set()


def place() -> Place:
    """The session's own place, so that test runs beside each other do not meet.

    It is put into the environment too: whatever a test starts can be told by it when it is forgotten.
    """
    usual = Place.of(os.environ)
    own = f"-{os.getpid()}"
    if not usual.run.name.endswith(own):
        usual = Place(usual.cache, usual.run.with_name(usual.run.name + own))
        os.environ["GLIDEPATH_BED_RUN"] = str(usual.run)
    return usual


def needs(part: Part) -> None:
    """Goes on where this machine has the part, or can have it; skips otherwise, or fails in CI."""
    try:
        lifecycle.prepare(part, Machine.here(), place(), print)
        lifecycle.refuse_where_it_cannot_be(part, Machine.here(), place())
    except Trouble as trouble:
        if os.environ.get("CI") == "true":
            pytest.fail(str(trouble))
        pytest.skip(str(trouble))


def pool(name: str = "condor") -> Pool:
    """A pool of this session that is not up yet; whoever starts it takes it down."""
    found = Pool(name, place=place())
    needs(found.part)
    return found


def condor_pool(config: pytest.Config) -> Pool:
    """One pool for the whole session, started by the first test that needs it."""
    if _SHARED not in config.stash:
        started = pool("condor@shared")
        started.up(tied=True)
        MEANT.add(started.folder)
        config.stash[_SHARED] = started
        config.add_cleanup(started.down)
    return config.stash[_SHARED]


def left() -> list[str]:
    """What is there of this session's bed besides the servers that are meant to be up."""
    ours = {pid for folder in MEANT for pid in leaks.marked(folder)}
    found = leaks.left(place(), meant=MEANT)
    found += [one for one in leaks.naming(str(place().run)) if one not in found and one.pid not in ours]
    return [str(one) for one in found]


def must_leave_nothing() -> None:
    until = time.monotonic() + LEAVE_S_MAX
    while found := left():
        if time.monotonic() > until:
            pytest.fail("left behind:\n" + "\n".join(found))
        time.sleep(POLL_S)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test that starts real servers, nothing of them is there any more."""
    yield
    if request.node.get_closest_marker("real"):
        must_leave_nothing()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_in_the_end() -> Iterator[None]:
    """For files whose tests share a program that they start: it is looked when that has ended, too."""
    yield
    must_leave_nothing()
