"""Steady time: it never goes back, never jumps with the wall clock, and carries on after a restart."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.clock import Moment, SteadyClock, this_boot
from glidepath.core.quantity import Instant


@dataclass
class Machine:
    """The clocks of a machine, set by hand."""

    wall_s: float = 5000.0
    mono_s: float = 100.0
    boot: str = "boot-a"

    def clock(self, last: Moment | None = None) -> SteadyClock:
        return SteadyClock(last, wall=lambda: self.wall_s, mono=lambda: self.mono_s, boot=self.boot)

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.mono_s += seconds

    def reboots(self, *, down_s: float, up_s: float = 7.0) -> None:
        self.wall_s += down_s
        self.mono_s = up_s
        self.boot += "'"


def test_without_a_store_it_starts_at_wall_time_and_follows_the_monotonic_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    assert (clock.now(), clock.wall()) == (5000, 5000.0)
    machine.passes(60)
    assert (clock.now(), clock.wall()) == (5060, 5060.0)


@pytest.mark.parametrize("jump_s", [-4000.0, -1.0, 1.0, 86400.0])
def test_a_jump_of_the_wall_clock_does_not_move_it(jump_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(10)
    machine.wall_s += jump_s
    assert clock.now() == 5010
    machine.passes(10)
    assert clock.now() == 5020
    assert clock.wall() == 5020 + jump_s


@pytest.mark.parametrize("jump_s", [-4000.0, 0.0, 86400.0])
def test_a_restart_in_the_same_boot_carries_on_whatever_the_wall_clock_did(jump_s: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(10)
    kept = clock.moment()
    machine.passes(30)
    machine.wall_s += jump_s
    again = machine.clock(kept)
    assert again.now() == 5040
    machine.passes(5)
    assert again.now() == 5045


@pytest.mark.parametrize(
    ("down_s", "now"),
    [
        (600.0, 5610),  # The wall clock alone knows how long it was down.
        (0.0, 5010),
        (-3000.0, 5010),  # It may have gone back; steady time may not.
    ],
)
def test_after_a_reboot_wall_time_counts_and_never_goes_back(down_s: float, now: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(10)
    kept = clock.moment()
    machine.reboots(down_s=down_s)
    again = machine.clock(kept)
    assert again.now() == now
    machine.passes(20)
    assert again.now() == now + 20


def test_a_monotonic_clock_that_restarted_under_the_same_boot_id_counts_as_a_reboot() -> None:
    machine = Machine()
    machine.clock()
    kept = Moment(5000.0, Instant(5000), "boot-a", 100.0)
    machine.mono_s = 99.0
    machine.wall_s = 4000.0
    assert machine.clock(kept).now() == 5000


def test_a_moment_holds_every_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(1)
    machine.wall_s += 50
    assert clock.moment() == Moment(5051.0, Instant(5001), "boot-a", 101.0)


def test_a_moment_is_of_the_whole_second_on_every_steady_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(1.75)
    assert clock.moment() == Moment(5001.75, Instant(5001), "boot-a", 101.0)


@pytest.mark.parametrize("gap_s", [0.25, 0.5, 0.875, 1.75, 7.125])
def test_a_hundred_restarts_in_one_boot_lose_nothing(gap_s: float) -> None:
    machine = Machine(wall_s=1.7e9 + 0.375)
    steady = machine.clock()
    clock = machine.clock(steady.moment())
    for _ in range(100):
        machine.passes(gap_s)
        kept = clock.moment()
        machine.passes(gap_s)
        clock = machine.clock(kept)
        assert clock.now() == steady.now()


@given(st.floats(0, 2e9), st.lists(st.floats(0.001, 1000), max_size=30))
def test_a_clock_restarted_often_stays_with_one_that_never_was(wall_s: float, gaps: list[float]) -> None:
    machine = Machine(wall_s=wall_s)
    steady = machine.clock()
    clock = machine.clock()
    for gap_s in gaps:
        kept = clock.moment()
        machine.passes(gap_s)
        machine.wall_s += 3600
        clock = machine.clock(kept)
        # The last bit of a float may fall on either side of a whole second, but nothing adds up.
        assert abs(clock.now() - steady.now()) <= 1
    machine.passes(0.5)
    assert abs(clock.at_wall(machine.wall_s) - steady.at_wall(machine.wall_s)) <= 1


@pytest.mark.parametrize("jump_s", [-4000.0, 0.0, 86400.0])
@pytest.mark.parametrize("ahead_s", [-100.0, 0.0, 3600.0])
def test_a_wall_time_becomes_the_instant_at_which_the_wall_clock_will_show_it(
    jump_s: float, ahead_s: float
) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(10)
    machine.wall_s += jump_s
    meant = clock.at_wall(machine.wall_s + ahead_s)
    assert meant == clock.now() + ahead_s
    machine.passes(ahead_s)
    assert clock.now() == meant


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), st.integers(0, 1000)),
        st.tuples(st.just("jumps"), st.integers(-(10**6), 10**6)),
        st.tuples(st.just("restarts"), st.integers(0, 100)),
        st.tuples(st.just("reboots"), st.integers(-1000, 1000)),
    ),
    max_size=20,
)


@given(EVENTS)
def test_no_history_takes_it_back_and_every_second_of_running_counts(events: list[tuple[str, int]]) -> None:
    machine = Machine(wall_s=10.0**8)
    clock = machine.clock()
    for event, seconds in events:
        before, kept = clock.now(), clock.moment()
        match event:
            case "passes":
                machine.passes(seconds)
                assert clock.now() == before + seconds
            case "jumps":
                machine.wall_s += seconds
                assert clock.now() == before
            case "restarts":
                machine.passes(seconds)
                clock = machine.clock(kept)
                assert clock.now() == before + seconds
            case "reboots":
                machine.reboots(down_s=seconds)
                clock = machine.clock(kept)
                assert clock.now() == max(before, int(machine.wall_s))


@given(st.lists(st.floats(0, 1000), max_size=10))
def test_no_restart_goes_behind_the_moment_that_was_kept(gaps: list[float]) -> None:
    machine = Machine()
    clock = machine.clock()
    for gap in gaps:
        machine.passes(gap)
        kept = clock.moment()
        clock = machine.clock(kept)
        assert clock.now() >= kept.at


def test_the_real_clock_of_this_machine_is_close_to_wall_time_and_restarts_where_it_was() -> None:
    clock = SteadyClock()
    assert abs(clock.now() - clock.wall()) < 60
    kept = clock.moment()
    assert kept.boot_id == this_boot() == clock.boot_id
    assert 0 <= SteadyClock(kept).now() - kept.at < 60
