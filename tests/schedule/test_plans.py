"""What holds for every plan, whatever the world: drawn worlds are played forward and watched."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import MINUTE, Play, ProjectName, cluster, job, node, window

from glidepath.core.because import Because
from glidepath.core.quantity import Instant, Owner
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Cluster, Queue
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, Job, JobName, Memory, Running, Share, Used, World
from glidepath.core.schedule.order import Kind
from glidepath.core.schedule.refuse import grown

slow = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    sizes = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4))
    nodes = [node(f"n{at}", cpus=cpus, gpus=gpus) for at, (cpus, gpus) in enumerate(sizes)]
    windows = []
    for at, (first, length, where) in enumerate(
        draw(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 5), st.integers(0, 4)), max_size=2))
    ):
        names = (f"n{where}",) if where < len(nodes) else ()
        windows.append(replace(window(first, first + length, *names), name=f"w{at}"))
    return cluster(*nodes, windows=tuple(windows))


@st.composite
def some_jobs(draw: st.DrawFn, count_max: int = 12) -> list[Job]:
    made = []
    came = 0
    for at in range(draw(st.integers(1, count_max))):
        came += draw(st.integers(0, 2))
        queue = draw(st.sampled_from(("interactive", "batch")))
        whole = draw(st.integers(0, 1))
        one = job(f"j{at} {draw(st.integers(1, 3))}n {draw(st.integers(1, 3))}c {whole}g 1 {queue}", came)
        milli = 0 if whole else draw(st.sampled_from((0, 0, 300, 600)))
        exclusive = draw(st.integers(0, 9)) == 0
        ask = replace(one.ask, gpu_milli=milli, exclusive=exclusive)
        limit_s = draw(st.integers(1, 6)) * MINUTE
        made.append(replace(one, ask=ask, limit_s=limit_s, owner=Owner(draw(st.sampled_from("ab")))))
    return made


@st.composite
def plays(draw: st.DrawFn) -> Play:
    jobs = draw(some_jobs())
    assert all(one.limit_s for one in jobs)
    runs = {one.name: draw(st.integers(1, (one.limit_s or 0) // MINUTE)) for one in jobs}
    book = Book(keep=draw(st.sampled_from((0, 1, 2, 50))))
    kind = draw(st.sampled_from((Kind.ARRIVAL, Kind.STEADY)))
    return Play(draw(clusters()), jobs, book=book, kind=kind, runs=runs)


def overbooked(at: Cluster, running: list[Running]) -> list[str]:
    """Nodes and devices that hold more than they have, and whole nodes that are shared."""
    found = []
    for one in at.nodes:
        here = [(run.job, place) for run in running for place in run.places if place.node == one.name]
        needs = [grown(of.ask, at) for of, _ in here]
        if sum(need.cpu_milli for need in needs) > one.size.cpu_milli:
            found.append(f"{one.name} cpu")
        if sum(need.memory_mib for need in needs) > one.size.memory_mib:
            found.append(f"{one.name} memory")
        if any(of.ask.exclusive for of, _ in here) and len(here) > 1:
            found.append(f"{one.name} shared")
        for device in range(one.size.gpus):
            taken = sum(of.ask.gpu_milli or 1000 for of, place in here if device in place.devices)
            if taken > 1000:
                found.append(f"{one.name} device {device}")
    return found


@slow
@given(plays())
def test_no_node_is_overbooked_gangs_are_whole_and_windows_are_respected(play: Play) -> None:
    for _ in range(30):
        play.step()
        assert overbooked(play.cluster, play.running) == []
        for run in play.running:
            names = [place.node for place in run.places]
            wanted = run.job.ask.size.gpus or (1 if run.job.ask.gpu_milli else 0)
            assert len(set(names)) == len(names) == run.job.ask.nodes
            assert all(len(place.devices) == wanted for place in run.places)
            end = run.started_at + (run.job.limit_s or 0)
            for shut in play.cluster.windows:
                hit = not shut.nodes or set(shut.nodes) & set(names)
                assert not hit or end <= shut.opens_at or run.started_at >= shut.closes_at


@slow
@given(plays())
def test_interactive_jobs_keep_their_order_and_no_promise_is_broken(play: Play) -> None:
    """Jobs end by their limits and nothing is taken away: then a promised start only ever gets earlier."""
    jobs = [one for one in play.coming if one.queue is Queue.INTERACTIVE]
    for _ in range(30):
        play.step()
    for starts in play.told.values():
        assert starts == sorted(starts, reverse=True)
    begun = [play.starts[one.name] for one in jobs if one.name in play.starts]
    assert begun == sorted(begun)
    waiting = {one.name for one in play.waiting}
    if play.last is not None:
        promised = [one.job for one in play.last.memory.promises]
        assert {one.name for one in jobs if one.name in waiting} <= set(promised)
        assert all(one.moved == 0 for one in play.last.memory.promises)


@slow
@given(plays(), st.integers(0, 8))
def test_nothing_that_goes_past_delays_a_reservation(play: Play, minute: int) -> None:
    """Whoever starts out of turn is taken away, and room is kept at the very same instants."""
    for _ in range(minute):
        play.step()
    play.waiting += play.coming[:3]
    world = play.world()
    made = decide(world, play.book, play.memory, Kind.ARRIVAL)
    kept = {
        one.about.removeprefix("job:"): dict(one.reason.facts)["at"]
        for one in made.plan.decisions
        if one.reason.because is Because.ROOM_KEPT
    }
    order = [one.name for one in world.waiting]
    for name, at in kept.items():
        before = tuple(one for one in world.waiting if order.index(one.name) <= order.index(name))
        interactive = tuple(
            one for one in world.waiting if one.queue is Queue.INTERACTIVE and one not in before
        )
        alone = decide(replace(world, waiting=before + interactive), play.book, play.memory, Kind.ARRIVAL)
        again = {
            one.about.removeprefix("job:"): dict(one.reason.facts)["at"]
            for one in alone.plan.decisions
            if one.reason.because is Because.ROOM_KEPT
        }
        assert again[name] == at


@slow
@given(plays())
def test_every_waiting_job_is_told_of_in_the_plan(play: Play) -> None:
    for _ in range(12):
        coming = [one for one in play.coming if one.came_at <= play.now * MINUTE]
        names = {f"job:{one.name}" for one in (*play.waiting, *coming)}
        made = play.step()
        single = [d.about for d in made.plan.decisions if d.about in names]
        groups = [d for d in made.plan.decisions if d.about.startswith("queue:")]
        assert len(single) == len(set(single))
        assert len(single) + sum(int(dict(d.reason.facts)["waiting"]) for d in groups) == len(names)


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (5, 2)])
def test_usage_comes_to_the_weights(weights: tuple[int, int]) -> None:
    """Two projects that always have jobs waiting: each gets its part, and so do the users of one of them."""
    shares = tuple(Share(ProjectName(name), weight) for name, weight in zip("pq", weights, strict=True))
    book = Book(fair=True, shares=shares, half_life_s=600 * MINUTE)
    people = [("p", "ann"), ("p", "ben"), ("q", "cat")]
    spent = dict.fromkeys(people, 0.0)
    at = cluster(node("n1"), node("n2"))
    running: list[Running] = []
    serial, memory = 0, Memory()
    for minute in range(400):
        now = Instant(minute * MINUTE)
        running = [run for run in running if run.started_at + (run.job.limit_s or 0) > now]
        waiting = []
        for project, owner in people:
            for _ in range(3):
                serial += 1
                made = job(f"{project}{owner}{serial} 2", minute, project=ProjectName(project))
                waiting.append(replace(made, owner=Owner(owner)))
        used = tuple(Used(ProjectName(p), Owner(o), amount, now) for (p, o), amount in spent.items())
        plan = decide(World(now, at, tuple(waiting), tuple(running), used=used), book, memory)
        memory = replace(plan.memory, passed=())
        jobs = {one.name: one for one in waiting}
        for action in plan.plan.actions:
            assert isinstance(action, Start)
            one = jobs[action.job]
            running.append(Running(one, now, action.places))
            spent[one.project, str(one.owner)] += 120.0
    total = sum(spent.values())
    assert sum(spent[who] for who in people[:2]) / total == pytest.approx(weights[0] / sum(weights), abs=0.02)
    assert spent[people[0]] == pytest.approx(spent[people[1]], rel=0.03)


SEEDED = """
from tests.schedule.worlds import Play, cluster, job, node, window
import dataclasses, hashlib
names = [f"j{at}" for at in range(25)]
jobs = [job(f"{n} {1 + at % 2}n {1 + at % 3}c {1 + at % 5} {'interactive' if at % 3 else 'batch'}", at // 4,
            owner=f"u{at % 4}", project=f"p{at % 2}") for at, n in enumerate(names)]
play = Play(cluster(*(node(f"n{at}", cpus=3) for at in range(5)), windows=(window(6, 8, "n1"),)), jobs)
play.book = dataclasses.replace(play.book, fair=True, keep=3, user_jobs_max=4)
text = "".join(repr(play.step()) for _ in range(20))
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_same_world_gives_the_same_plan_under_any_hash_seed() -> None:
    found = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        made = subprocess.run(
            [sys.executable, "-c", SEEDED], env=env, capture_output=True, text=True, timeout=300
        )
        assert made.returncode == 0, made.stderr
        found.add(made.stdout)
    assert len(found) == 1


def test_names_are_only_names() -> None:
    """Words that strangers chose come out as they went in, and decide nothing."""
    odd = JobName("x\n{}%s\x00")
    plain = job("a 2")
    at = cluster(node("n1"))
    made = decide(World(Instant(0), at, (replace(plain, name=odd),)), Book(), Memory())
    assert [action.job for action in made.plan.actions] == [odd]
