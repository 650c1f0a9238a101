"""The built-in scenarios: a name, a seed and, for one of them, a trace come in, a scenario goes out.

Each kind of workload has one of its own name, over the same three made-up sites. `grid` plays a trace on one
site without limits, where only the policy counts; `storm` and `node-storm` have every fault. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from glidepath.core.provision.offer import Limits, Offer, PoolRules, Rules, SiteRules
from glidepath.core.quantity import PoolName, Resources, Shape, SiteName
from glidepath.core.text import nearest, one_line
from glidepath.sim.arrival import Arrival
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario, Workload
from glidepath.sim.storm import node_storm, storm
from glidepath.sim.swf import SwfOptions, SwfTrace
from glidepath.sim.workloads import KINDS

POOL = PoolName("pool")  # The one that workloads have where nothing else is said.
# The cadence of `steady`, and the same in every cycle, so that a run by itself gives the row that it has in
# a comparison.
CYCLE_S = 10
# Longer than any trace: a pilot that ends by its age would be counted against the policy.
FOR_EVER_S = 10**8
# More failures in a row than a trace has pilots.
NEVER = 10**6
DAY_S = 86400
ONE_CORE = Resources(cpu_milli=1000, memory_mib=1024)
TRACE = "trace"  # The kind of workload that is read and not made up.
ENDING = ".toml"  # By this a scenario file is told from a name.


class UnknownScenario(ValueError):
    """There is no scenario of that name, as a sentence for people."""


class NoTrace(ValueError):
    """A trace is missing where one is needed, or is given where none is read, as a sentence for people."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a trace holds: its jobs, the time of the last one, and the rows that are left out by reason."""

    jobs: int
    last_s: int
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a trace, the same for every seed."""

    path: Path
    options: SwfOptions

    def arrivals(self, seed: int) -> Iterable[Arrival]:
        return SwfTrace(self.path, self.options)

    def survey(self) -> Survey:
        """Reads it once: a bad row near its end is told before the run and not an hour later."""
        trace, last_s = SwfTrace(self.path, self.options), 0
        for arrival in trace:
            last_s = arrival.at
        return Survey(trace.jobs, last_s, dict(trace.left_out))


@dataclass(frozen=True, slots=True)
class Builtin:
    about: str  # one line for people
    made: Callable[[int, Path | None], Scenario]
    reads_trace: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What a workload needs around it: the rules of the controller and the world that it works in."""

    rules: Rules
    sites: tuple[Behaviour, ...]
    pools: tuple[Matching, ...]


def three_sites() -> Place:
    """A campus that starts pilots soon and has few places, a large site where they wait, a cloud that
    costs money: what is best depends on how many jobs come and for how long."""
    campus, large, cloud = SiteName("campus"), SiteName("hpc"), SiteName("cloud")
    sites = (
        SiteRules(
            campus,
            (Offer(campus, "node", Resources(8000, 32768), lifetime_s=2 * DAY_S, weight=150),),
            limits=Limits(live_max=60, pending_max=30),
        ),
        SiteRules(
            cloud,
            (
                Offer(cloud, "large", Resources(8000, 32768), lifetime_s=7 * DAY_S, price_milli=400),
                Offer(cloud, "small", Resources(2000, 8192), lifetime_s=7 * DAY_S, price_milli=100),
            ),
            limits=Limits(live_max=120, per_cycle_max=20),
        ),
        SiteRules(
            large,
            (Offer(large, "node", Resources(16000, 65536), lifetime_s=2 * DAY_S, idle_s=900),),
            limits=Limits(live_max=80, pending_max=40),
            listing_lag_s=60,
        ),
    )
    behaviours = (
        Behaviour(campus, start_s=(20, 90), boot_s=(5, 20), failing=5, quota=40, nodes=20),
        Behaviour(cloud, start_s=(60, 180), boot_s=(10, 40), failing=20, nodes=100),
        Behaviour(large, start_s=(180, 900), boot_s=(10, 30), failing=10, quota=40, nodes=40, lag_s=30),
    )
    rules = Rules(pools=(PoolRules(POOL),), sites=sites, cycle_s_min=CYCLE_S, cycle_s_max=CYCLE_S)
    return Place(rules, behaviours, (Matching(POOL),))


def one_open_site() -> Place:
    """One site that takes everything, one shape, no limits, no breakers: only the policy counts."""
    site = SiteName("grid")
    rules = Rules(
        pools=(PoolRules(POOL),),
        sites=(
            SiteRules(
                site,
                (Offer(site, "core", ONE_CORE, lifetime_s=FOR_EVER_S, idle_s=600),),
                failures_max=NEVER,
                node_failures_max=NEVER,
            ),
        ),
        cycle_s_min=CYCLE_S,
        cycle_s_max=CYCLE_S,
        left_s_min=0,
    )
    behaviour = Behaviour(site, start_s=(30, 300), failing=20, nodes=0)
    return Place(rules, (behaviour,), (Matching(POOL, every_s=60),))


def place_of(kind: str) -> Place:
    """The world around a kind of workload, where a scenario names none of its own."""
    return one_open_site() if kind == TRACE else three_sites()


def grid(trace: Path) -> Scenario:
    options = SwfOptions(pool=POOL, shape=Shape(ONE_CORE), limits=False)
    place = one_open_site()
    return Scenario("grid", place.rules, place.sites, place.pools, Trace(trace, options))


def _of_kind(kind: str) -> Callable[[int, Path | None], Scenario]:
    def made(seed: int, trace: Path | None) -> Scenario:
        options, place = KINDS[kind].options(), place_of(kind)
        workload = Workload(kind, options)
        return Scenario(kind, place.rules, place.sites, place.pools, workload, end_s=options.span_s)

    return made


def _grid(seed: int, trace: Path | None) -> Scenario:
    if trace is None:
        raise NoTrace("the scenario `grid` plays a trace: name one with `--trace FILE`")
    return grid(trace)


def _storm(seed: int, trace: Path | None) -> Scenario:
    return storm(seed)


def _node_storm(seed: int, trace: Path | None) -> Scenario:
    return node_storm(seed)


BUILTIN: dict[str, Builtin] = {
    "burst": Builtin("500 jobs at once, every hour, for six hours", _of_kind("burst")),
    "steady": Builtin("jobs come one by one, 600 in an hour, for six hours", _of_kind("steady")),
    "sine": Builtin("two short days: few jobs at night, 1,200 an hour at noon", _of_kind("sine")),
    "two-kinds": Builtin(
        "many short small jobs in bursts beside a few long large ones", _of_kind("two-kinds")
    ),
    "long-tail": Builtin("most jobs are short, and a few take most of the time", _of_kind("long-tail")),
    "flapping": Builtin("demand goes on and off about as fast as pilots start", _of_kind("flapping")),
    "grid": Builtin(
        "a trace (`--trace FILE`) on one site without limits, where only the policy counts",
        _grid,
        reads_trace=True,
    ),
    "storm": Builtin("another world for each seed, with every fault at once", _storm),
    "node-storm": Builtin("the same over batch sites, whose jobs start pilots on several nodes", _node_storm),
}


def source_of(word: str, trace: Path | None = None) -> Callable[[int], Scenario]:
    """What makes the scenario from a seed. Raises UnknownScenario, NoTrace, or ConfigError for a file."""
    if word.endswith(ENDING):
        from glidepath.sim.file import load_scenario  # Its models cost time that a name does not need.

        return load_scenario(Path(word), trace=trace)
    if word not in BUILTIN:
        near = nearest(word, BUILTIN)
        hint = f"did you mean `{near}`?" if near else f"there are: {', '.join(BUILTIN)};"
        raise UnknownScenario(
            f"there is no scenario `{one_line(word)}`; {hint} a path that ends in `{ENDING}` is a file"
        )
    builtin = BUILTIN[word]
    if trace is not None and not builtin.reads_trace:
        raise NoTrace(f"the scenario `{word}` makes up its jobs; `--trace` is for `grid`")
    if trace is None and builtin.reads_trace:
        raise NoTrace(f"the scenario `{word}` plays a trace: name one with `--trace FILE`")
    return lambda seed: builtin.made(seed, trace)


def scenario_of(word: str, seed: int, trace: Path | None = None) -> Scenario:
    """A built-in scenario by its name, or the file at that path. Raises what `source_of` raises."""
    return source_of(word, trace)(seed)
