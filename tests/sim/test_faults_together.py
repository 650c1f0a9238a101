"""Faults together: they nest in one order, draw apart, and none of them is confused with another.

And isolation: a site, a schedd or a pool that is broken all the time keeps nobody else from being served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, PoolRules
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import PoolName
from glidepath.provisioner import Doors, Provisioner
from glidepath.sim.fault import NAMES, RATE_MAX, Crash, Faults, kind_of
from glidepath.sim.place import Matching
from glidepath.sim.run import Run
from glidepath.sim.scenario import Scenario
from glidepath.sim.study import started
from glidepath.sim.world import START
from sim.planted_books import OneSiteDown
from sim.small import WEST, Calls, Scene, behaviour, job, rules, scenario, site, world

ALWAYS = RATE_MAX
CYCLES_MAX = 600
ALPHA, BETA = PoolName("alpha"), PoolName("beta")


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_that_is_told_to_stop_or_never_strikes_changes_nothing(name: str) -> None:
    plain, never, stopped = (history({}), history({name: 0}), history({name: ALWAYS}, stop=True))
    assert (plain, plain) == (never, stopped)


def history(rates: dict[str, int], *, stop: bool = False) -> list[object]:
    run = started(scenario(*(job(n * 3, 40) for n in range(12)), rates=rates), 5)
    if stop:
        run.faults.stop()
    cycles = [run.turn() for _ in range(25)]
    assert not any(run.faults.counts.values())
    return [cycle and (cycle.plan, cycle.outcomes) for cycle in cycles]


@pytest.mark.parametrize("name", NAMES)
def test_every_fault_counts_itself_and_says_what_it_is(name: str) -> None:
    kind = kind_of(name)
    assert (kind.name, bool(kind.every), bool(kind.about)) == (name, True, True)
    run = started(scenario(*(job(n * 2, 60) for n in range(30)), rates={name: 300}), 4)
    for _ in range(60):
        run.turn()
    assert run.faults.counts[name] > 0
    assert run.watch.broken == []
    run.faults.stop()
    before = run.faults.counts
    for _ in range(40):
        run.turn()
    assert run.faults.counts == before


def test_faults_are_nested_from_the_site_outwards_whatever_order_they_are_named_in() -> None:
    rates = dict.fromkeys(reversed(NAMES), 1)
    assert tuple(fault.name for fault in Faults(Scene(world()), 1, rates).all) == NAMES


@pytest.mark.parametrize(
    ("names", "answer", "now", "in_time"),
    [
        (("duplicate-effects", "lost-replies"), TimeoutError, (1, 2), 2),
        (("duplicate-effects", "late-effects"), TimeoutError, (0,), 2),
        (("lost-replies", "late-effects"), TimeoutError, (0,), 1),
        (("duplicate-effects", "crashes"), Crash, (0,), 0),
        (("lost-replies", "crashes"), Crash, (0,), 0),
    ],
)
def test_several_faults_strike_the_same_act(
    names: tuple[str, ...], answer: type[BaseException], now: tuple[int, ...], in_time: int
) -> None:
    for seed in range(20):
        scene = Scene(world())
        faults = Faults(scene, seed, dict.fromkeys(names, ALWAYS))
        calls = Calls()
        with pytest.raises(answer):
            faults.act("submit west", calls)
        assert calls.count in now
        scene.world.advance(START + 200)
        assert calls.count == in_time


def test_adding_a_fault_does_not_change_when_the_others_strike() -> None:
    def struck(rates: dict[str, int]) -> list[bool]:
        faults = Faults(Scene(world()), 9, rates)
        blind = next(fault for fault in faults.all if fault.name == "blind-reads")
        return [blind.hits() for _ in range(300)]

    assert struck({"blind-reads": 200}) == struck({"crashes": 500, "blind-reads": 200, "stale-lists": 500})
    assert 30 < sum(struck({"blind-reads": 200})) < 90


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("blind-read", "there is no fault `blind-read`; did you mean `blind-reads`?"),
        ("Crashes", "there is no fault `Crashes`; did you mean `crashes`?"),
        ("meteor", f"there is no fault `meteor`; there are: {', '.join(NAMES)}"),
        ("a\x1b[31m\nb", None),
    ],
)
def test_an_unknown_fault_gets_a_hint_and_cannot_paint_the_terminal(name: str, told: str | None) -> None:
    with pytest.raises(ValueError) as error:
        Faults(Scene(world()), 1, {name: 1})
    assert told is None or str(error.value) == told
    assert str(error.value).isprintable()


# Isolation


def breaking(break_door: Callable[[Doors], None]) -> type[Provisioner]:
    """A provisioner of which one door is broken in every life."""

    class Broken(Provisioner):
        whole = True

        def observe(self, memory: Memory) -> Snapshot:
            if self.whole:
                break_door(self.doors)
                self.whole = False
            return super().observe(memory)

    return Broken


class Dead:
    """A door that is there, and of which some calls always fail."""

    def __init__(self, inner: Any, *calls: str) -> None:
        self.inner = inner
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        if name in self.calls:
            return self._fail
        return getattr(self.inner, name)

    def _fail(self, *given: Any, **named: Any) -> Any:
        raise ConnectionError("connection refused")


def dead_site(*calls: str) -> type[Provisioner]:
    def break_door(doors: Doors) -> None:
        doors.backends[WEST] = Dead(doors.backends[WEST], *calls)

    return breaking(break_door)


def dead_pool(*calls: str) -> type[Provisioner]:
    def break_door(doors: Doors) -> None:
        doors.pools[ALPHA] = Dead(doors.pools[ALPHA], *calls)

    return breaking(break_door)


class DeadSchedd:
    """A pool of which the first schedd never answers."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def sources(self) -> Any:
        first, *others = self.inner.sources()
        return (Dead(first, "demand"), *others)


def dead_schedd() -> type[Provisioner]:
    def break_door(doors: Doors) -> None:
        doors.pools[ALPHA] = DeadSchedd(doors.pools[ALPHA])  # type: ignore[assignment]

    return breaking(break_door)


def two_sites(**more: Any) -> Scenario:
    west, east = (site(name, backoff_s_max=300) for name in ("west", "east"))
    jobs = [job(n * 5, 60) for n in range(30)]
    under = rules(west, east, **more)
    return scenario(*jobs, under=under)


def two_pools() -> Scenario:
    jobs = [job(n * 5, 60, pool=(ALPHA, BETA)[n % 2], owner=f"u{n}") for n in range(40)]
    under = rules(pools=(PoolRules(ALPHA), PoolRules(BETA)))
    return scenario(*jobs, under=under, pools=(Matching(ALPHA, 30, sources=2), Matching(BETA, 30)))


def served(run: Run, left: Callable[[], int]) -> bool:
    """Whether, within the bound, nothing is left of what ought to be served."""
    for _ in range(CYCLES_MAX):
        run.turn()
        assert run.watch.broken == []
        if not run.world.more_to_come and not left():
            return True
    return False


@pytest.mark.parametrize(
    ("shell", "more"),
    [
        (dead_site("list"), {}),
        (dead_site("submit"), {}),
        (dead_site("list", "submit", "remove", "drain", "withdraw"), {}),
        (OneSiteDown, {"limits": Limits(live_max=12)}),
    ],
    ids=[
        "cannot be listed",
        "answers no submit",
        "answers nothing",
        "went down later, limits span sites",
    ],
)
def test_a_broken_site_keeps_no_job_from_finishing_elsewhere(
    shell: type[Provisioner], more: dict[str, Any]
) -> None:
    run = started(two_sites(**more), 1, provisioner=shell)
    assert served(run, lambda: run.world.jobs_left)


def test_a_site_where_every_start_fails_gets_a_few_pilots_and_keeps_no_job_from_finishing() -> None:
    failing = two_sites()
    sites = (behaviour("west", failing=1000), behaviour("east"))
    run = started(Scenario("small", failing.rules, sites, failing.pools, failing.workload), 1)
    assert served(run, lambda: run.world.jobs_left)
    failed = {health.about: health.failed for health in run.life.memory.health}
    assert 0 < failed["west"] < 20


@pytest.mark.parametrize(
    "shell",
    [dead_pool("slots"), dead_pool("sources"), dead_pool("join"), dead_pool("slots", "sources", "join")],
    ids=["slots", "sources", "join", "nothing answers"],
)
def test_a_broken_pool_keeps_no_job_of_another_from_finishing(shell: type[Provisioner]) -> None:
    run = started(two_pools(), 1, provisioner=shell)
    queues = run.world.pools[BETA].queues
    assert served(run, lambda: sum(queue.idle + queue.running for queue in queues))


def test_a_broken_schedd_keeps_no_job_of_another_from_finishing() -> None:
    run = started(two_pools(), 1, provisioner=dead_schedd())
    silent, *others = run.world.pools[ALPHA].queues
    queues = [*others, *run.world.pools[BETA].queues]
    assert silent.pool == ALPHA
    assert served(run, lambda: sum(queue.idle + queue.running for queue in queues))
