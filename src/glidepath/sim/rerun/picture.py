"""The picture of a log that was played again: how full the machine was, who waited, and who ran where.

A log and its reruns come in, one file goes out, the same bytes every time. It refuses to know the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glidepath.core.schedule.compiled import Floats, Ints
from glidepath.core.units import shown_duration
from glidepath.sim.page import (
    BLUE,
    DAY,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    checked,
    count_axis,
    drawing,
    legend,
    nothing,
    page,
    time_axis,
    time_unit,
    wait_limits,
    wait_ticks,
    write,
)
from glidepath.sim.rerun.chart import SizeClass, busiest, by_size, edges_of, means, places
from glidepath.sim.rerun.rules import Rerun
from glidepath.sim.rerun.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The first rule is what the others are held against, so it has the ink.
RULE_COLOURS = (INK, BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
USER_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, YELLOW)
OTHERS = "#BBBBBB"
# Lines and marks.
MEDIAN, P95 = ("-", "o"), ("--", "^")
LEGEND_COLUMNS = 5  # Above the narrowest panel.
PARTS = 240  # Of the time axis; more would be narrower than a line.
# Beyond this many bars an SVG would have more bytes for them than for a picture made of dots.
BARS_MAX = 3000


@dataclass(frozen=True)
class View:
    """A log on one machine, and which part of it is shown job by job; none: the busiest."""

    name: str
    trace: Trace
    processors: int
    from_s: int | None = None  # since the first submission
    span_s: int = DAY


def plot_rerun(view: View, reruns: Sequence[Rerun], path: Path) -> None:
    """Raises PlotError; what was there before is then still there."""
    ending = checked(path)
    with drawing():
        write(rerun_figure(view, reruns), path, ending)


def rerun_figure(view: View, reruns: Sequence[Rerun]) -> Figure:
    """Not yet in a file; call it within `drawing`. Job by job are shown the first rule and the last."""
    ends = [reruns[0], reruns[-1]] if len(reruns) > 1 else [reruns[0]]
    head = f"{len(view.trace):,} jobs on {view.processors:,} processors"
    figure = page((13, 6.6 + 3.1 * len(ends)), view.name, head, *map(in_words, reruns))
    grid = figure.add_gridspec(1 + len(ends), 1, height_ratios=(5.2, *(3.1 for _ in ends)))
    upper = grid[0].subgridspec(1, 2, width_ratios=(1.25, 1))
    left = upper[0].subgridspec(2, 1)
    used, queue = figure.add_subplot(left[0]), figure.add_subplot(left[1])
    edges = edges_of(view.trace, [each.start for each in reruns], PARTS)
    for axes, draw in ((used, _used), (queue, _queue)):
        draw(axes, view, reruns, edges)
        time_axis(axes, int(edges[-1] - edges[0]))
        legend(axes, columns=len(RULE_COLOURS))
    used.set_xlabel("")
    used.tick_params(labelbottom=False)
    _waits_by_size(figure.add_subplot(upper[1]), view.trace, reruns)
    since = _since(view, ends[0])
    names = _user_names(view, ends, since)
    for row, rerun in enumerate(ends, start=1):
        _who_ran_where(figure.add_subplot(grid[row]), view, rerun, since=since, names=names)
    return figure


def in_words(rerun: Rerun) -> str:
    score = rerun.score
    mean, p95, longest = map(shown_duration, (round(score.wait_s_mean), score.wait_s_p95, score.wait_s_max))
    rest = f"slowdown {score.slowdown_mean:,.2f}, {100 * score.used:.1f} % used"
    return f"{rerun.rule}: mean wait {mean}, 95 % within {p95}, longest {longest}, {rest}."


def _used(axes: Axes, view: View, reruns: Sequence[Rerun], edges: Ints) -> None:
    trace = view.trace
    axes.set(title="Utilisation", ylabel="processors in use (%)", ylim=(0, 104))
    for rerun, colour in zip(reruns, RULE_COLOURS, strict=False):
        level = 100 * means(rerun.start, rerun.start + trace.run, trace.procs, edges) / view.processors
        _steps(axes, edges, level, colour=colour, name=rerun.rule)


def _queue(axes: Axes, view: View, reruns: Sequence[Rerun], edges: Ints) -> None:
    trace = view.trace
    step = shown_duration(int(edges[1] - edges[0]))
    axes.set(title="Queue", ylabel=f"jobs waiting\n(mean of {step})")
    top = 1.0
    for rerun, colour in zip(reruns, RULE_COLOURS, strict=False):
        level = means(trace.submit, rerun.start, np.ones(len(trace), np.int64), edges)
        top = max(top, float(level.max()))
        _steps(axes, edges, level, colour=colour, name=rerun.rule)
    count_axis(axes, top)


def _steps(axes: Axes, edges: Ints, level: Floats, *, colour: str, name: str) -> None:
    across = (edges - edges[0]).tolist()
    up = [*level.tolist(), float(level[-1])]
    axes.plot(across, up, color=colour, lw=1.1, alpha=0.9, drawstyle="steps-post", label=name)


def _waits_by_size(axes: Axes, trace: Trace, reruns: Sequence[Rerun]) -> None:
    axes.set(title="Wait by size", ylabel="wait (log scale; the lower edge: none)")
    axes.set_xlabel("processors of a job (and how many jobs there are of that size)")
    classes: list[SizeClass] = []
    longest = 1
    for rerun, colour in zip(reruns, RULE_COLOURS, strict=False):
        classes = by_size(trace, rerun.start)
        longest = max([longest, *(each.wait_s_p95 for each in classes)])
        axes.plot([], [], color=colour, lw=2.5, label=rerun.rule)
        for (line, mark), waits in (
            (MEDIAN, [each.wait_s_median for each in classes]),
            (P95, [each.wait_s_p95 for each in classes]),
        ):
            # A log scale has no zero.
            style: dict[str, Any] = {"ls": line, "marker": mark, "color": colour, "ms": 5, "lw": 1.4}
            axes.plot(range(len(classes)), [max(1, wait) for wait in waits], clip_on=False, **style)
    for (line, mark), name in ((MEDIAN, "median"), (P95, "95 % within")):
        axes.plot([], [], ls=line, marker=mark, color=GREY, ms=5, lw=1.4, label=name)
    low, high = wait_limits(1, longest)
    axes.set(yscale="log", ylim=(low, high), xlim=(-0.3, len(classes) - 0.7))
    wait_ticks(axes.yaxis, low, high)
    axes.set_xticks(range(len(classes)), [f"{each}\n({each.jobs:,})" for each in classes], fontsize=8.5)
    rows = -(-(len(reruns) + 2) // LEGEND_COLUMNS)
    if rows > 1:
        axes.set_title(axes.get_title(loc="left"), pad=6 + 15 * rows)  # Else the legend would stand on it.
    legend(axes, columns=LEGEND_COLUMNS)


def _since(view: View, rerun: Rerun) -> int:
    if view.from_s is not None:
        return int(view.trace.submit.min()) + view.from_s
    return busiest(view.trace, rerun.start, view.span_s)


def _seen(view: View, rerun: Rerun, since: int) -> tuple[Ints, Ints, Ints]:
    """The jobs of the part that is shown, in order of their start, and from when to when they are seen."""
    end, until = rerun.start + view.trace.run, since + view.span_s
    seen = np.flatnonzero((rerun.start < until) & (end > since) & (view.trace.run > 0))
    seen = seen[np.argsort(rerun.start[seen], kind="stable")]
    return seen, np.maximum(rerun.start[seen], since) - since, np.minimum(end[seen], until) - since


def _user_names(view: View, reruns: Sequence[Rerun], since: int) -> dict[int, str]:
    """Each user's name in the legends; those with the most processor time have one of their own."""
    work: dict[int, int] = {}
    for rerun in reruns:
        seen, lefts, rights = _seen(view, rerun, since)
        spent = (rights - lefts) * view.trace.procs[seen]
        for user, each in zip(view.trace.user[seen].tolist(), spent.tolist(), strict=True):
            work[user] = work.get(user, 0) + each
    order = sorted(work, key=lambda user: (-work[user], user))
    most, others = order[: len(USER_COLOURS)], order[len(USER_COLOURS) :]
    named = {user: "unknown user" if user < 0 else f"user {user}" for user in most}
    return {**named, **dict.fromkeys(others, "others")}


def _who_ran_where(axes: Axes, view: View, rerun: Rerun, *, since: int, names: Mapping[int, str]) -> None:
    """One bar for each part of the machine that a job has; whoever uses most of it has a colour."""
    from matplotlib.collections import PolyCollection

    trace = view.trace
    unit, first = time_unit(view.span_s)[0], since - int(trace.submit.min())
    axes.set(title=f"Who ran where: {rerun.rule}", ylabel="processors", ylim=(0, view.processors))
    time_axis(axes, view.span_s)
    axes.set_xlabel(f"time since {shown_duration(first)} after the first job came ({unit})")
    axes.grid(visible=False)
    seen, lefts, rights = _seen(view, rerun, since)
    if not len(seen):
        return nothing(axes, "no job ran")
    begin, procs = rerun.start[seen], trace.procs[seen]
    parts = places(begin, begin + trace.run[seen], procs, processors=view.processors)
    bars: dict[str, list[list[tuple[int, int]]]] = {name: [] for name in names.values()}
    for user, left, right, own in zip(
        trace.user[seen].tolist(), lefts.tolist(), rights.tolist(), parts, strict=True
    ):
        bars[names[user]] += ([(left, low), (right, low), (right, high), (left, high)] for low, high in own)
    many = sum(map(len, bars.values())) > BARS_MAX
    for (name, shapes), colour in zip(bars.items(), (*USER_COLOURS, OTHERS), strict=False):
        found = PolyCollection(shapes, facecolor=colour, edgecolor="white", lw=0.3, label=name)
        found.set_rasterized(many)
        axes.add_collection(found)
    return legend(axes, columns=len(USER_COLOURS) + 1)
