"""Turns that somebody calls for by a nudge or in the store: made by a thread, as when it runs."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from placing_world import PlacingWorld, a_spec

from glidepath.clock import SteadyClock
from glidepath.config import Settings
from glidepath.core.place.rank import ClusterName
from glidepath.core.place.turn import Rules, Word
from glidepath.core.schedule.cluster import Partition, PartitionName
from glidepath.jobs.doors import Doors
from glidepath.jobs.places import Places
from glidepath.journal.journal import Journal
from glidepath.nudge import Nudges, nudge, nudge_path
from glidepath.placement import Pace, Placement, words_of
from glidepath.store.placed import PlacedStore

# Far beyond what a test waits: whatever happens was called for.
NEVER_S = 3600
WAIT_S_MAX = 180.0
JUNK = (b"", b"\0" * 4096, b"stop", os.urandom(512))


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gp-nudge-") as folder:  # The path of a socket has a bound.
        yield Path(folder)


@pytest.fixture
def world(home: Path) -> Iterator[PlacingWorld]:
    rules = Rules(ClusterName("lab"), (Partition(PartitionName("here"), ()),), cycle_s_max=NEVER_S)
    made = PlacingWorld(home, rules=rules)
    yield made
    made.close()


@contextmanager
def placing(world: PlacingWorld, home: Path, *, look_s: float = NEVER_S) -> Iterator[Placement]:
    """The thread of a cluster, which somebody may nudge."""
    world.live()
    made = Placement(
        "lab",
        world.scheduler,
        world.recorder.journal,
        cast("SteadyClock", cast("Any", world.time)),
        world.jobs,
        look_s=look_s,
    )
    nudges = Nudges(home, made.woken.set)
    nudges.start()
    made.start()
    try:
        until(lambda: made.last is not None)
        yield made
    finally:
        nudges.stop()
        made.stop()
    assert not made.alive


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_a_submission_is_answered_though_no_turn_is_due(world: PlacingWorld, home: Path) -> None:
    jobs = PlacedStore(world.store, world.time, nudge=lambda: nudge(home))
    with placing(world, home):
        number = jobs.submit(a_spec()).job
        until(lambda: jobs.get(number).promise is not None)
        assert jobs.get(number).stands in ("starting", "running")


def test_an_operators_word_is_heard_though_no_turn_is_due(world: PlacingWorld, home: Path) -> None:
    settings = Settings.model_validate(
        {"clusters": {"lab": {"kind": "local"}}, "partitions": {"here": {"cluster": "lab"}}}
    )
    places = Places(Doors(settings, world.store, home))
    with placing(world, home) as placement:
        placement.scheduler.doors.words = lambda: words_of(Journal(world.store))

        def heard() -> tuple[Word, ...]:
            assert placement.last is not None
            return placement.last.snapshot.words

        places.word("queue", "interactive", "pause", by="oz", why="", dry=False)
        until(lambda: heard() == (Word("queue:interactive"),))
        places.word("queue", "interactive", "resume", by="oz", why="", dry=False)
        until(lambda: heard() == ())


def test_a_word_that_nobody_nudges_for_is_found_once(world: PlacingWorld, home: Path) -> None:
    with placing(world, home, look_s=0.05) as placement:
        world.words = (Word("node:n1", drain=True),)
        until(lambda: placement.last is not None and placement.last.snapshot.words == world.words)
        assert not placement._asked(), "what was heard calls for nothing more"


def test_what_nobody_nudges_for_is_found_in_the_store(world: PlacingWorld, home: Path) -> None:
    with placing(world, home, look_s=0.05):
        number = world.submit()
        until(lambda: world.job(number).promise is not None)


def test_junk_on_the_socket_only_wakes(world: PlacingWorld, home: Path) -> None:
    jobs = PlacedStore(world.store, world.time, nudge=lambda: nudge(home))
    with placing(world, home) as placement:
        first = placement.last
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hostile:
            for junk in JUNK * 50:
                hostile.sendto(junk, str(nudge_path(home)))
        until(lambda: not placement.woken.is_set())
        assert placement.last is first, "nobody asked for anything"
        number = jobs.submit(a_spec()).job
        until(lambda: jobs.get(number).promise is not None)


def test_the_socket_is_its_owners_and_goes_with_it(home: Path) -> None:
    nudge(home)  # Nobody is there.
    nudges = Nudges(home, lambda: None)
    nudge_path(home).write_text("left behind by another life")
    nudges.start()
    assert nudges.listening
    assert stat.S_IMODE(nudge_path(home).stat().st_mode) == 0o600
    nudges.stop()
    assert not nudge_path(home).exists()
    nudge(home)


def test_a_home_with_too_long_a_path_has_no_socket(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    nudges = Nudges(home, lambda: None)
    nudges.start()
    assert not nudges.listening
    nudge(home)
    nudges.stop()


def test_one_call_is_answered_at_once_and_a_stream_of_them_in_half_of_the_time() -> None:
    pace, now, turns = Pace(burst_s=0.25, share=0.5), 1000.0, 0
    assert pace.soonest(now) == now
    while now < 1100.0:
        began = pace.soonest(now)
        now = began + 0.1
        pace.took(began, now)
        turns += 1
    assert 495 <= turns <= 510, "100 s have room for 500 turns of 100 ms, and for a burst"
    later = now + 10.0
    assert pace.soonest(later) == later


@pytest.mark.parametrize(("asks", "asked"), [("submit", True), ("cancel", True), ("nothing", False)])
def test_only_what_people_want_calls_for_a_turn(world: PlacingWorld, asks: str, asked: bool) -> None:
    number = world.submit()
    since = world.jobs.newest_event()
    world.turns(2)  # These tell events, too.
    newest = world.jobs.newest_event()
    assert newest > since
    if asks == "submit":
        world.submit()
    if asks == "cancel":
        world.jobs.cancel(number)
    assert world.jobs.asked_since(since) == (asked, world.jobs.newest_event())
    assert world.jobs.asked_since(world.jobs.newest_event()) == (False, world.jobs.newest_event())
