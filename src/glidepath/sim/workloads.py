"""Made-up workloads: chance and options come in, arrivals go out in order, one at a time.

Each kind is a pure function of the `Random` that it is given. Only `random()` and `getrandbits()` are drawn
from it, and no set is walked, so that one seed gives one workload everywhere. Sites are unknown here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from heapq import merge
from itertools import accumulate, pairwise
from operator import attrgetter
from random import Random
from typing import Any, Literal, NamedTuple

from glidepath.core.quantity import Owner, PoolName, Resources, Shape
from glidepath.core.text import one_line
from glidepath.sim.arrival import Arrival

HOUR_S = 3600
# Beyond these nothing is simulated in earnest, and sums of seconds stay far from what a float counts exactly.
SPAN_S_MAX = 10 * 366 * 86400
JOBS_AT_ONCE_MAX = 10_000_000
PER_HOUR_MAX = 100_000_000
WEIGHT_MAX = 1_000_000
# A switch that may come at any time within its turn is as irregular as it gets and still stays in order.
JITTER_PERCENT_MAX = 100
QUOTED_LETTERS_MAX = 40

SMALL = Shape(Resources(cpu_milli=1000, memory_mib=2048))
MIDDLE = Shape(Resources(cpu_milli=2000, memory_mib=4096))
LARGE = Shape(Resources(cpu_milli=8000, memory_mib=32768))

# The least and the most of every option that is a whole number, by its name.
BOUNDS: dict[str, tuple[int, int]] = {
    "span_s": (1, SPAN_S_MAX),
    **dict.fromkeys(("run_s_low", "run_s_median", "run_s_high"), (1, SPAN_S_MAX)),
    **dict.fromkeys(("long_run_s_low", "long_run_s_median", "long_run_s_high"), (1, SPAN_S_MAX)),
    "jobs": (1, JOBS_AT_ONCE_MAX),
    "quiet_s": (0, SPAN_S_MAX),
    **dict.fromkeys(("period_s", "on_s", "off_s"), (1, SPAN_S_MAX)),
    **dict.fromkeys(("per_hour", "per_hour_high", "long_per_hour"), (1, PER_HOUR_MAX)),
    "per_hour_low": (0, PER_HOUR_MAX),
    "jitter_percent": (0, JITTER_PERCENT_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What all kinds share: whose jobs, for which pools, of what shapes, how long they come and run."""

    pools: tuple[PoolName, ...] = (PoolName("pool"),)
    shapes: tuple[Shape, ...] = (SMALL, MIDDLE, LARGE)
    weights: tuple[int, ...] = ()  # of the shapes, in their order; empty: all alike
    owners: tuple[Owner, ...] = (Owner("ann"), Owner("ben"), Owner("cleo"), Owner("dora"))
    span_s: int = 6 * HOUR_S  # jobs come from 0 until just before this
    run_s_low: int = 60
    run_s_median: int = 600  # half of the jobs run no longer
    run_s_high: int = 2 * HOUR_S
    limits: bool = False  # whether owners say that their jobs need at most the high bound

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in BOUNDS:
                _check_whole(field.name, getattr(self, field.name))
        if type(self.limits) is not bool:
            raise ValueError(f"`limits` must be true or false, not {_said(self.limits)}")
        _check_names("pools", self.pools)
        _check_names("owners", self.owners)
        _check_shapes(self.shapes, self.weights)
        _check_order(self, "run_s_low", "run_s_median", "run_s_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst(Mix):
    """Nothing, then many at once, again and again: the first lot comes after the quiet span."""

    jobs: int = 500  # in each burst
    quiet_s: int = HOUR_S // 2
    period_s: int = HOUR_S  # from one burst to the next

    def __post_init__(self) -> None:
        Mix.__post_init__(self)
        _check_quiet(self.quiet_s, self.span_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady(Mix):
    """Jobs that come one by one, independently, at the same rate all the time."""

    per_hour: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sine(Mix):
    """Few jobs at night, many by day. The default day is short, so that two fit into the default span."""

    per_hour_low: int = 60  # at the start of the run and after every period
    per_hour_high: int = 1200  # half a period later
    period_s: int = 3 * HOUR_S

    def __post_init__(self) -> None:
        Mix.__post_init__(self)
        _check_order(self, "per_hour_low", "per_hour_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoKinds(Mix):
    """Many short small jobs in bursts, and a few long large ones that need their place all the time."""

    shapes: tuple[Shape, ...] = (SMALL, LARGE)  # of the short ones, of the long ones
    run_s_low: int = 30  # of the short ones, and so on
    run_s_median: int = 180
    run_s_high: int = 900
    jobs: int = 300
    quiet_s: int = 600
    period_s: int = HOUR_S // 2
    long_run_s_low: int = HOUR_S
    long_run_s_median: int = 3 * HOUR_S
    long_run_s_high: int = 12 * HOUR_S
    long_per_hour: int = 20

    def __post_init__(self) -> None:
        Mix.__post_init__(self)
        if len(self.shapes) != 2 or self.weights:
            raise ValueError("`shapes` must be two, of the short and of the long jobs, without `weights`")
        _check_quiet(self.quiet_s, self.span_s)
        _check_order(self, "long_run_s_low", "long_run_s_median", "long_run_s_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTail(Mix):
    """Most jobs are short, and a few take most of the time."""

    run_s_low: int = 60
    run_s_median: int = 150
    run_s_high: int = 12 * HOUR_S
    per_hour: int = 600
    tail: Literal["pareto", "log-normal"] = "pareto"

    def __post_init__(self) -> None:
        Mix.__post_init__(self)
        if self.tail not in ("pareto", "log-normal"):
            raise ValueError(f"`tail` must be `pareto` or `log-normal`, not {_said(self.tail)}")
        if not self.run_s_low < self.run_s_median < self.run_s_high:
            raise ValueError("`run_s_median` must lie between `run_s_low` and `run_s_high` to have a tail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping(Mix):
    """Demand that goes on and off about as fast as pilots start, so that every answer comes too late."""

    run_s_low: int = 30
    run_s_median: int = 90
    run_s_high: int = 240
    on_s: int = 240
    off_s: int = 240
    per_hour: int = 1200  # while it is on
    # How much shorter or longer each turn may be. Without it the turns could fall in step with the cycles
    # of a policy, and the score would tell the luck of that step.
    jitter_percent: int = 10


def burst(rng: Random, options: Burst) -> Iterator[Arrival]:
    draw = _Draw(options)
    for at in range(options.quiet_s, options.span_s, options.period_s):
        for _ in range(options.jobs):
            yield draw.arrival(rng, at)


def steady(rng: Random, options: Steady) -> Iterator[Arrival]:
    draw = _Draw(options)
    for at_s in _poisson(rng, options.per_hour, 0, options.span_s):
        yield draw.arrival(rng, int(at_s))


def sine(rng: Random, options: Sine) -> Iterator[Arrival]:
    """Candidates come at the high rate; each stays with the chance that the rate of its time has of it."""
    draw = _Draw(options)
    low, high = options.per_hour_low, options.per_hour_high
    for at_s in _poisson(rng, high, 0, options.span_s):
        day = (1 - math.cos(2 * math.pi * at_s / options.period_s)) / 2
        if rng.random() * high < low + (high - low) * day:
            yield draw.arrival(rng, int(at_s))


def two_kinds(rng: Random, options: TwoKinds) -> Iterator[Arrival]:
    """Each kind has its own chance, so that more bursts leave the long jobs as they were."""
    short_rng, long_rng = Random(rng.getrandbits(64)), Random(rng.getrandbits(64))
    small, large = options.shapes
    short_ones = Burst(
        pools=options.pools,
        owners=options.owners,
        span_s=options.span_s,
        shapes=(small,),
        run_s_low=options.run_s_low,
        run_s_median=options.run_s_median,
        run_s_high=options.run_s_high,
        limits=options.limits,
        jobs=options.jobs,
        quiet_s=options.quiet_s,
        period_s=options.period_s,
    )
    long_ones = Steady(
        pools=options.pools,
        owners=options.owners,
        span_s=options.span_s,
        shapes=(large,),
        run_s_low=options.long_run_s_low,
        run_s_median=options.long_run_s_median,
        run_s_high=options.long_run_s_high,
        limits=options.limits,
        per_hour=options.long_per_hour,
    )
    return merge(burst(short_rng, short_ones), steady(long_rng, long_ones), key=attrgetter("at"))


def long_tail(rng: Random, options: LongTail) -> Iterator[Arrival]:
    run_s = _pareto if options.tail == "pareto" else _log_normal
    draw = _Draw(options, run_s)
    for at_s in _poisson(rng, options.per_hour, 0, options.span_s):
        yield draw.arrival(rng, int(at_s))


def flapping(rng: Random, options: Flapping) -> Iterator[Arrival]:
    draw = _Draw(options)
    start_s = 0.0
    while start_s < options.span_s:
        until_s = start_s + _turn_s(rng, options.on_s, options.jitter_percent)
        for at_s in _poisson(rng, options.per_hour, start_s, min(until_s, options.span_s)):
            yield draw.arrival(rng, int(at_s))
        # At full jitter a turn can last no time at all; one second each time keeps the loop going on.
        start_s = max(until_s + _turn_s(rng, options.off_s, options.jitter_percent), start_s + 1)


class Kind(NamedTuple):
    options: type[Mix]
    arrivals: Callable[[Random, Any], Iterator[Arrival]]  # of exactly these options


# By the name that a scenario gives.
KINDS: dict[str, Kind] = {
    "burst": Kind(Burst, burst),
    "steady": Kind(Steady, steady),
    "sine": Kind(Sine, sine),
    "two-kinds": Kind(TwoKinds, two_kinds),
    "long-tail": Kind(LongTail, long_tail),
    "flapping": Kind(Flapping, flapping),
}


def _poisson(rng: Random, per_hour: int, start_s: float, until_s: float) -> Iterator[float]:
    """Times of independent events from the start until just before the end."""
    mean_s = HOUR_S / per_hour
    at_s = start_s + _gap_s(rng, mean_s)
    while at_s < until_s:
        yield at_s
        at_s += _gap_s(rng, mean_s)


def _gap_s(rng: Random, mean_s: float) -> float:
    return -math.log(1 - rng.random()) * mean_s


def _turn_s(rng: Random, usual_s: int, jitter_percent: int) -> float:
    return usual_s * (1 + (2 * rng.random() - 1) * jitter_percent / 100)


def _two_halves(rng: Random, options: Mix) -> float:
    """Half of the jobs below the median and half above, each half even on a logarithmic scale."""
    if rng.random() < 0.5:
        low, high = options.run_s_low, options.run_s_median
    else:
        low, high = options.run_s_median, options.run_s_high
    return low * math.exp(math.log(high / low) * rng.random())


def _pareto(rng: Random, options: Mix) -> float:
    """The low bound and the median say how heavy the tail is; the high bound cuts it as a queue would."""
    heavy = math.log(options.run_s_median / options.run_s_low) / math.log(2)
    # Multiplied as logarithms, because the power itself can be more than a float holds.
    above = -math.log(1 - rng.random()) * heavy
    return options.run_s_low * math.exp(min(above, math.log(options.run_s_high / options.run_s_low)))


def _log_normal(rng: Random, options: Mix) -> float:
    """Around the median, so wide that about one job in a thousand would pass the high bound."""
    sigma = math.log(options.run_s_high / options.run_s_median) / 3
    # Two even draws make a normal one; the first is kept above zero, where the logarithm ends.
    normal = math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())
    return options.run_s_median * math.exp(normal * sigma)


class _Draw:
    """What one job is like, drawn in a fixed order: pool, shape, owner, run time."""

    def __init__(self, options: Mix, run_s: Callable[[Random, Mix], float] = _two_halves) -> None:
        self._options = options
        self._run_s = run_s
        self._steps = list(accumulate(options.weights or (1,) * len(options.shapes)))

    def arrival(self, rng: Random, at: int) -> Arrival:
        options = self._options
        return Arrival(
            at=at,
            pool=options.pools[int(rng.random() * len(options.pools))],
            shape=options.shapes[bisect_right(self._steps, int(rng.random() * self._steps[-1]))],
            owner=options.owners[int(rng.random() * len(options.owners))],
            run_s=min(max(round(self._run_s(rng, options)), options.run_s_low), options.run_s_high),
            run_s_max=options.run_s_high if options.limits else None,
        )


def _said(value: object) -> str:
    return f"`{one_line(str(value), letters_max=QUOTED_LETTERS_MAX)}`"


def _check_whole(name: str, value: object) -> None:
    low, high = BOUNDS[name]
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"`{name}` must be a whole number from {low} to {high}, not {_said(value)}")


def _check_names(name: str, names: object) -> None:
    if not isinstance(names, tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"`{name}` must be a tuple of one or more names")


def _check_shapes(shapes: object, weights: object) -> None:
    if not isinstance(shapes, tuple) or not shapes or not all(isinstance(s, Shape) for s in shapes):
        raise ValueError("`shapes` must be a tuple of one or more shapes")
    if not all(shape.request for shape in shapes):
        raise ValueError("`shapes` must each ask for something; a job of nothing fits any number of times")
    if not isinstance(weights, tuple) or not all(type(w) is int and 0 <= w <= WEIGHT_MAX for w in weights):
        raise ValueError(f"`weights` must be a tuple of whole numbers from 0 to {WEIGHT_MAX}")
    if weights and (len(weights) != len(shapes) or not any(weights)):
        raise ValueError("`weights` must be one for each of `shapes`, and not all 0")


def _check_order(options: Mix, *names: str) -> None:
    for low, high in pairwise(names):
        if getattr(options, low) > getattr(options, high):
            raise ValueError(
                f"`{low}` must not be more than `{high}`: {getattr(options, low)}, {getattr(options, high)}"
            )


def _check_quiet(quiet_s: int, span_s: int) -> None:
    if quiet_s >= span_s:
        raise ValueError(f"`quiet_s` must be less than `span_s`, or no job comes: {quiet_s}, {span_s}")
