"""Estimates of starts from plans: by limits the latest, by what such jobs ran the likely one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.schedule.worlds import MINUTE, Play, cluster, job, node

from glidepath.core.quantity import Instant
from glidepath.core.schedule.estimate import FEATURES, Known, estimated, estimates
from glidepath.core.schedule.eta import Asked, learnt
from glidepath.core.schedule.explain import explained, lines
from glidepath.core.schedule.job import Book, JobName, Memory, World

ONE = cluster(node("n1"))


def crowd() -> Play:
    """Jobs of an hour that end after six minutes; ten have ended, one runs, three wait."""
    names = [f"j{at:02}" for at in range(14)]
    play = Play(ONE, [job(f"{name} 60") for name in names], runs=dict.fromkeys(names, 6))
    play.until(62)
    return play


def test_the_likely_start_is_by_what_such_jobs_ran_and_limits_are_the_late_end() -> None:
    play = crowd()
    waiting = play.world()
    told = estimated(waiting, Book(), play.memory, JobName("j13"))
    # Three jobs of six minutes before it, or of an hour each by their limits.
    assert 8 * MINUTE <= told.likely_s <= 40 * MINUTE
    assert told.low_s <= 16 * MINUTE <= told.high_s <= 8 * 60 * MINUTE
    assert told.confidence == 0.8


def test_without_a_past_the_limits_are_all_that_is_known() -> None:
    jobs = tuple(job(f"j{at} 60") for at in range(3))
    told = estimated(World(Instant(0), ONE, jobs), Book(), Memory(), JobName("j2"))
    assert 60 * MINUTE <= told.likely_s <= 240 * MINUTE
    assert told.from_jobs == 0


def test_trees_that_know_waits_are_heard() -> None:
    count = 400
    asked = Asked.of(np.zeros(count), np.ones((count, FEATURES)), np.arange(count))
    forest = learnt(asked, np.full(count, 30.0), now=1e6)
    play = crowd()
    plain = estimated(play.world(), Book(), play.memory, JobName("j13"))
    told = estimated(play.world(), Book(), play.memory, JobName("j13"), known=Known(forest))
    assert told.likely_s < plain.likely_s
    assert told.from_jobs > 100


def test_a_job_that_cannot_be_planned_gets_the_widest_range() -> None:
    world = World(Instant(0), ONE, (job("a 5"),), paused=("queue:batch",))
    told = estimated(world, Book(), Memory(), JobName("a"))
    sure = estimated(World(Instant(0), ONE, (job("a 5"),)), Book(), Memory(), JobName("a"))
    assert told.high_s > 1000 * max(sure.high_s, 1.0)


def test_who_does_not_wait_has_no_estimate() -> None:
    with pytest.raises(KeyError):
        estimated(World(Instant(0), ONE, ()), Book(), Memory(), JobName("nobody"))


def test_asking_changes_nothing() -> None:
    play = crowd()
    world = play.world()
    first = estimated(world, Book(), play.memory, JobName("j12"))
    assert estimated(world, Book(), play.memory, JobName("j12")) == first


def test_a_job_that_waits_without_a_start_is_told_its_estimate() -> None:
    play = crowd()
    told = explained(play.world(), play.book, play.memory, JobName("j13"))
    assert told.estimate is not None
    assert any(line.strip().startswith("it will probably start in ") for line in lines(told))
    kept = explained(play.world(), play.book, play.memory, JobName("j11"))
    assert kept.estimate is None


def test_several_are_told_what_each_would_be_told_alone() -> None:
    play = crowd()
    names = [JobName(f"j{number}") for number in (11, 12, 13)]
    told = estimates(play.world(), Book(), play.memory, [*names, JobName("nobody")])
    assert told == {name: estimated(play.world(), Book(), play.memory, name) for name in names}


def test_where_a_partition_rests_no_start_is_thought_likely() -> None:
    play = crowd()
    name = JobName("j13")
    world = play.world()
    resting = replace(world, paused=(f"partition:{world.waiting[0].partition}",))
    assert estimates(world, Book(), play.memory, [name], planned_only=True) != {}
    assert estimates(resting, Book(), play.memory, [name], planned_only=True) == {}
    assert explained(resting, play.book, play.memory, name).estimate is None
