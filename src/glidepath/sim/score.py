"""Scores of one simulated run: how long jobs waited, what pilots cost that no job used, and what was broken.

Numbers come in from the world, a `Score` goes out. Hours are pilot-hours, counted from the moment that a
pilot was asked for, because a place in a site's queue is a place that others do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration

# Why pilot-hours were not used by a job, in the order in which they are shown.
CAUSES = ("unclaimed", "starting", "failed", "withdrawn", "black hole", "lost")

# By how much of its whole range a line may be off when samples are left out, tried from fine to coarse. The
# last is about the height of a letter in a picture; beyond, people would see it.
CHANGE_PARTS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)


@dataclass(frozen=True, slots=True)
class Score:
    scenario: str
    policy: str
    seed: int
    cycles: int
    span_s: int  # of virtual time
    jobs: int
    started: int
    wait_median_s: float
    wait_mean_s: float
    wait_p95_s: float
    busy_h: float
    waste_h: tuple[tuple[str, float], ...]  # by cause, in the order of CAUSES
    asked: int  # pilots
    unused: int  # of those, that ended without having run a job
    overshoot: int  # the most pilots, free or on their way, beyond what waited
    limits_broken: int
    cost_milli: int = 0  # price of all pilot-hours, in thousandths

    @property
    def wasted_h(self) -> float:
        return sum(hours for _, hours in self.waste_h)

    @property
    def churn(self) -> float:
        """The part of all pilots that came and left without having run a job."""
        return self.unused / self.asked if self.asked else 0.0


@dataclass(slots=True)
class Series:
    """What was counted over time, one sample per list place; jobs and pilots as whole numbers."""

    at_s: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)  # jobs
    running: list[int] = field(default_factory=list)  # jobs
    coming: list[int] = field(default_factory=list)  # pilots asked for that have not joined
    unclaimed: list[int] = field(default_factory=list)  # pilots that joined and run nothing
    claimed: list[int] = field(default_factory=list)  # pilots that run at least one job
    wanted: list[int] = field(default_factory=list)  # waiting and running jobs, in pilots' worth


@dataclass(frozen=True, slots=True)
class Result:
    score: Score
    series: Series
    waits_s: tuple[int, ...]  # of every job that started, sorted

    @property
    def span_s(self) -> int:
        """To the end of the run, or to the last sample where that is later."""
        return max([self.score.span_s, *self.series.at_s[-1:]])


def percentile(ordered: Sequence[int], part: float) -> float:
    """By linear interpolation between the two nearest; 0 where there is nothing."""
    if not ordered:
        return 0.0
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Spread:
    """One number of several runs: the lowest, the middle and the highest."""

    low: float
    mid: float
    high: float


Groups = dict[str, list[Result]]


def middle(results: Iterable[Result], number: Callable[[Score], float]) -> Result:
    """The run in the middle by that number; of two the lower, because it is one that happened."""
    ordered = sorted(results, key=lambda result: (number(result.score), result.score.seed))
    return ordered[(len(ordered) - 1) // 2]


def spread(results: Sequence[Result], number: Callable[[Score], float]) -> Spread:
    values = [number(result.score) for result in results]
    return Spread(min(values), number(middle(results, number).score), max(values))


def by_policy(results: Iterable[Result]) -> Groups:
    """The runs of each policy, policies in the order in which they come first."""
    groups: Groups = {}
    for result in results:
        groups.setdefault(result.score.policy, []).append(result)
    return groups


def thinned(series: Series, points_max: int) -> Series:
    """At most so many samples, chosen so that a drawing of them looks like a drawing of all."""
    joined = [sum(pair) for pair in zip(series.claimed, series.unclaimed, strict=True)]
    pilots = [sum(pair) for pair in zip(joined, series.coming, strict=True)]
    watched = (series.waiting, series.running, series.wanted, series.claimed, joined, pilots)
    places = telling_places(watched, points_max)
    columns = [getattr(series, each.name) for each in fields(Series)]
    return Series(*([column[place] for place in places] for column in columns))


def telling_places(columns: Sequence[Sequence[int]], points_max: int) -> list[int]:
    """The places of the samples to keep: where something changes, else the extremes of every stretch."""
    count = len(columns[0])
    if count <= points_max:
        return list(range(count))
    for part in CHANGE_PARTS:
        if len(places := _changes(columns, part, points_max)) <= points_max:
            return places
    # Up and down all the time: only a band can be drawn, and its edges are what must be true.
    stretches = max(1, (points_max - 2) // (2 * len(columns)))
    kept = {0, count - 1}
    for number in range(stretches):
        stretch = range(number * count // stretches, (number + 1) * count // stretches)
        for column in columns:
            kept |= {max(stretch, key=column.__getitem__), min(stretch, key=column.__getitem__)}
    return sorted(kept)


def _changes(columns: Sequence[Sequence[int]], part: float, points_max: int) -> list[int]:
    """Samples unlike the one kept before, each with its neighbour: edges stay as steep as they are."""
    steps = [part * (max(column) - min(column)) for column in columns]
    count = len(columns[0])
    places, last = [0], 0
    for place in range(1, count):
        changed = any(
            abs(column[place] - column[last]) > step for column, step in zip(columns, steps, strict=True)
        )
        if changed:
            places += [place] if places[-1] == place - 1 else [place - 1, place]
            last = place
        if len(places) >= points_max:
            return [*places, count - 1, count]  # Too many, whatever is to come.
    return places if places[-1] == count - 1 else [*places, count - 1]


def in_words(score: Score) -> tuple[str, ...]:
    """The numbers of one run as sentences: what jobs got, what it cost, what was broken."""
    return (_jobs_in_words(score), _pilots_in_words(score), _waste_in_words(score), _broken_in_words(score))


def _jobs_in_words(score: Score) -> str:
    if not score.jobs:
        return "There were no jobs."
    if not score.started:
        return f"None of {score.jobs:,} jobs started."
    many = "All" if score.started == score.jobs else f"{score.started:,} of"
    median, mean, p95 = (
        shown_duration(round(wait)) for wait in (score.wait_median_s, score.wait_mean_s, score.wait_p95_s)
    )
    return (
        f"{many} {score.jobs:,} jobs started; they waited {median} in the median, {mean} on average, "
        f"and 95 % of them at most {p95}."
    )


def _pilots_in_words(score: Score) -> str:
    if not score.asked:
        return "No pilot was asked for."
    unused = f"{score.unused:,} ({100 * score.churn:.0f} %) ran no job" if score.unused else "each ran a job"
    return (
        f"{score.asked:,} pilots were asked for, {unused}; at most {score.overshoot:,} were free or coming "
        "beyond what waited."
    )


def _waste_in_words(score: Score) -> str:
    causes = ", ".join(f"{cause} {hours:,.1f} h" for cause, hours in score.waste_h if hours > 0)
    wasted = f"{score.wasted_h:,.1f} h were not" + (f" ({causes})" if causes else "")
    cost = f"; all cost {score.cost_milli / 1000:,.2f}" if score.cost_milli else ""
    return f"{score.busy_h:,.1f} pilot-hours were used by jobs, {wasted}{cost}."


def _broken_in_words(score: Score) -> str:
    return f"Limits broken: {score.limits_broken:,}." if score.limits_broken else "No limit was broken."


def started_part(runs: Sequence[Result]) -> float:
    """How much of all jobs started, from 0 to 1; 1 where there was no job."""
    jobs = sum(run.score.jobs for run in runs)
    return sum(run.score.started for run in runs) / jobs if jobs else 1.0


def compared_in_words(groups: Groups) -> tuple[str, ...]:
    """How much was compared, and what a reader must know first: who left jobs waiting, who broke limits."""
    counts = [len(runs) for runs in groups.values()]
    seeds = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"
    policies = f"{len(groups)} polic{'y' if len(groups) == 1 else 'ies'}"
    told = [f"{policies}, {seeds} seed{'' if max(counts) == 1 else 's'}{' each' if len(groups) > 1 else ''}"]
    names = [one_line(policy) for policy in groups]
    parts = [(name, started_part(runs)) for name, runs in zip(names, groups.values(), strict=True)]
    # Rounded down: `100.0 %` would say that all started.
    if behind := [f"{name} {int(1000 * part) / 10} %" for name, part in parts if part < 1]:
        told.append(f"* Not all jobs started, and waits leave out those that did not: {', '.join(behind)}.")
    sums = [sum(run.score.limits_broken for run in runs) for runs in groups.values()]
    broken = [f"{name} {count:,}" for name, count in zip(names, sums, strict=True) if count]
    told.append(f"Limits broken: {', '.join(broken)}." if broken else "No run broke a limit.")
    return tuple(told)
