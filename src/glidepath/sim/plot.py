"""Pictures of simulated runs: results come in, one file goes out, the same bytes every time.

It refuses to know how a run came about. The drawing library is imported only while something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.sim import score as tally
from glidepath.sim.page import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    PlotError,
    checked,
    count_axis,
    drawing,
    legend,
    nothing,
    page,
    shown_number,
    shown_text,
    time_axis,
    time_unit,
    wait_limits,
    wait_ticks,
    write,
)
from glidepath.sim.score import CAUSES, Groups, Result, Score, Series, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

# One thing has one colour in every picture: a pilot at work is as blue as the job that it runs, and a
# starting one as light as its waste.
WAITING, RUNNING, DEMAND = VERMILLION, BLUE, INK
CLAIMED, UNCLAIMED, COMING = BLUE, ORANGE, SKY
CAUSE_COLOURS = dict(zip(CAUSES, (UNCLAIMED, COMING, PURPLE, YELLOW, INK, GREY), strict=True))

Number = Callable[[Score], float]
WASTED: Number = attrgetter("wasted_h")
ASKED: Number = attrgetter("asked")
WAIT_MEAN: Number = attrgetter("wait_mean_s")
# Shades of one hue, dark to light, because the three are one thing seen three ways.
WAITS: tuple[tuple[str, Number, str, str], ...] = (
    ("median", attrgetter("wait_median_s"), "#00563F", "-"),
    ("mean", WAIT_MEAN, GREEN, "--"),
    ("95 % within", attrgetter("wait_p95_s"), "#8FD6C2", "-."),
)

# More samples than a picture has columns of dots; an SVG stays below 400 KB.
POINTS_MAX = 1000
SMALL_POINTS_MAX = 300  # For one of the small panels of a comparison.
CURVE_POINTS_MAX = 500  # Of the curve of waits.
POLICIES_MAX = 12  # Beyond, rows and small panels are too many for one page.
SMALL_COLUMNS_MAX = 4  # Narrower panels would have no room for their ticks.
NAME_LETTERS_MAX = 20  # A longer name would push the bars aside, and meet the seed above a small panel.
SEED_LETTERS_MAX = 14

LOG_RATIO_MIN = 20  # From here on the small values would be one blot on an even scale.
CLIP_RATIO_MIN = 4  # Demand so far above the pilots would press them flat against the axis.
# Where a name may stand around its dot, best first: offset in points, then which side of it touches there.
AROUND: tuple[tuple[tuple[int, int], str, str], ...] = tuple(
    ((across * far, up * far), ("right", "center", "left")[across + 1], ("top", "center", "bottom")[up + 1])
    for far in (7, 16, 28, 42, 60)
    for across, up in ((1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (0, 1), (0, -1), (-1, 0))
)
NEAR = 8  # So many of these need no line from the name to the dot.
HOW_TO_READ = "Bars and dots: the seed in the middle; thin lines: from the lowest seed to the highest."
HOLLOW = "Hollow dots: another policy is better at both."


def plot_run(result: Result, path: Path) -> None:
    """One run: jobs, pilots and waits. Raises PlotError; what was there before is then still there."""
    ending = checked(path)
    with drawing():
        write(run_figure(result), path, ending)


def plot_compare(results: Sequence[Result], path: Path) -> None:
    """Policies side by side on one scenario. Raises PlotError; what was there before is then still there."""
    ending = checked(path)
    groups = tally.by_policy(results)
    if not groups:
        raise PlotError("there is nothing to compare: not one run was handed over")
    if len(scenarios := sorted({result.score.scenario for result in results})) > 1:
        names = ", ".join(f"`{one_line(name, letters_max=NAME_LETTERS_MAX)}`" for name in scenarios[:2])
        raise PlotError(f"{len(scenarios)} scenarios cannot share one picture ({names}); draw one for each")
    if len(groups) > POLICIES_MAX:
        raise PlotError(f"{len(groups)} policies do not fit into one picture; name at most {POLICIES_MAX}")
    with drawing():
        write(compare_figure(groups), path, ending)


def run_figure(result: Result) -> Figure:
    """The picture of one run, not yet in a file; call it within `drawing`."""
    score, series = result.score, tally.thinned(result.series, POINTS_MAX)
    head = f"policy {shown_text(score.policy, NAME_LETTERS_MAX)}, seed {score.seed}"
    figure = page((11, 9.6), score.scenario, head, *tally.in_words(score))
    jobs, pilots, waits = figure.subplots(3, 1, height_ratios=(1, 1.15, 1))
    _jobs_over_time(jobs, series)
    _pilots_over_time(pilots, series)
    for axes in (jobs, pilots):
        time_axis(axes, result.span_s)
        legend(axes)
        if not series.at_s:
            nothing(axes, "no samples")
    _wait_curve(waits, result)
    return figure


def _jobs_over_time(axes: Axes, series: Series) -> None:
    axes.set(title="Jobs", ylabel="jobs")
    count_axis(axes, max([1, *series.running, *series.waiting]))
    axes.plot(series.at_s, series.running, color=RUNNING, lw=1.4, label="running")
    axes.plot(series.at_s, series.waiting, color=WAITING, lw=1.4, label="waiting")


def _pilots_over_time(axes: Axes, series: Series) -> None:
    axes.set(title="Pilots", ylabel="pilots")
    floor = [0] * len(series.at_s)
    layers = ((series.claimed, CLAIMED, "claimed"), (series.unclaimed, UNCLAIMED, "unclaimed"))
    for counts, colour, name in (*layers, (series.coming, COMING, "coming")):
        top = [low + count for low, count in zip(floor, counts, strict=True)]
        axes.fill_between(series.at_s, floor, top, color=colour, lw=0, label=name)
        floor = top
    axes.plot(series.at_s, series.wanted, color=DEMAND, lw=1.1, label="demand, in pilots' worth")
    supply, demand = max([0, *floor]), max([0, *series.wanted])
    clipped = 0 < CLIP_RATIO_MIN * supply < demand
    count_axis(axes, 1.5 * supply if clipped else max(1, supply, demand))
    if clipped:
        axes.set_title(f"Pilots (demand goes up to {demand:,}, beyond this scale)")


def _wait_curve(axes: Axes, result: Result) -> None:
    axes.set(title="Waits of jobs that started", ylabel="jobs that waited\nno longer (%)", ylim=(0, 104))
    axes.set_xlabel("wait from joining the queue to the start (log scale; s, m, h, d)")
    waits = result.waits_s
    # A log scale has no zero, and few who hardly waited must not squeeze the rest: they are at the left edge.
    low, high = wait_limits(tally.percentile(waits, 0.01), tally.percentile(waits, 1))
    axes.set(xscale="log", xlim=(low, high))
    wait_ticks(axes.xaxis, low, high)
    if not waits:
        return nothing(axes, "no job started")
    picks = sorted({n * (len(waits) - 1) // (CURVE_POINTS_MAX - 1) for n in range(CURVE_POINTS_MAX)})
    curve = [(max(waits[pick], low), 100 * (pick + 1) / len(waits)) for pick in picks]
    across, up = zip((low, 0.0), *curve, (high, 100.0), strict=True)
    axes.fill_between(across, up, step="post", color="#EEF4F1", lw=0)
    axes.plot(across, up, color=INK, drawstyle="steps-post", lw=1.6)
    for name, number, colour, line in WAITS:
        wait_s = number(result.score)
        label = f"{name} {shown_duration(round(wait_s))}"
        axes.axvline(max(wait_s, low), color=colour, linestyle=line, lw=2.2, label=label)
    return legend(axes)


def compare_figure(groups: Groups) -> Figure:
    """The picture of a comparison, not yet in a file; call it within `drawing`."""
    count = len(groups)
    small_rows = math.ceil(count / SMALL_COLUMNS_MAX)
    heights = (max(3.6, 1.5 + 0.38 * count), 1.1 + 0.42 * count, 0.5 + 1.75 * small_rows)
    scenario = next(iter(groups.values()))[0].score.scenario
    head, *told = tally.compared_in_words(groups)
    figure = page((13, sum(heights) + 1.4), scenario, head, HOW_TO_READ, HOLLOW, *told)
    grid = figure.add_gridspec(3, 1, height_ratios=heights)
    halves = (grid[0].subgridspec(1, 2), grid[1].subgridspec(1, 2))
    trade, waste, waits, asked = (figure.add_subplot(half[side]) for half in halves for side in (0, 1))
    names = [_name(policy, runs) for policy, runs in groups.items()]
    for draw, axes in ((_waste_bars, waste), (_wait_bars, waits), (_asked_bars, asked)):
        draw(axes, groups)
        _rows(axes, names)
        legend(axes, columns=3)
    spots = _trade_dots(trade, groups)
    cells = grid[2].subgridspec(small_rows, math.ceil(count / small_rows))
    panels = [figure.add_subplot(cells[number]) for number in range(count)]
    _small_panels(panels, cells.ncols, names, groups)
    # Names find their places only once the page is laid out, and must not move it again.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    _place_names(trade, names, spots)
    return figure


def _waste_bars(axes: Axes, groups: Groups) -> None:
    axes.set(title="Waste by cause", xlabel="pilot-hours that no job used (h)")
    thick = min(0.62, 0.1 + 0.2 * len(groups))
    for row, runs in enumerate(groups.values()):
        left = 0.0
        for cause, hours in tally.middle(runs, WASTED).score.waste_h:
            label = "" if row else cause
            axes.barh(row, hours, left=left, height=thick, color=CAUSE_COLOURS[cause], lw=0, label=label)
            left += hours
    spreads = [tally.spread(runs, WASTED) for runs in groups.values()]
    _spread_lines(axes, list(enumerate(spreads)), lambda hours: f"{shown_number(hours)} h")


def _wait_bars(axes: Axes, groups: Groups) -> None:
    columns = [[tally.spread(runs, number) for runs in groups.values()] for _, number, _, _ in WAITS]
    unit, unit_s, _ = time_unit(max(each.high for column in columns for each in column))
    axes.set(title="Waits", xlabel=f"wait of jobs that started ({unit})")
    lines: list[tuple[float, Spread]] = []
    for place, (name, _, colour, _) in enumerate(WAITS):
        column = [Spread(each.low / unit_s, each.mid / unit_s, each.high / unit_s) for each in columns[place]]
        rows = [row + 0.27 * (place - 1) for row in range(len(groups))]
        axes.barh(rows, [each.mid for each in column], height=0.25, color=colour, lw=0, label=name)
        lines += zip(rows, column, strict=True)
    _spread_lines(axes, lines, lambda shown: shown_duration(round(shown * unit_s)))


def _asked_bars(axes: Axes, groups: Groups) -> None:
    axes.set(title="Pilots asked for", xlabel="pilots")
    rows = range(len(groups))
    scores = [tally.middle(runs, ASKED).score for runs in groups.values()]
    used, unused = [score.asked - score.unused for score in scores], [score.unused for score in scores]
    axes.barh(rows, used, height=0.62, color=CLAIMED, lw=0, label="ran a job")
    hatched: dict[str, Any] = {"color": "white", "edgecolor": CLAIMED, "hatch": "////", "lw": 0.8}
    axes.barh(rows, unused, left=used, height=0.62, label="ran none", **hatched)
    spreads = [tally.spread(runs, ASKED) for runs in groups.values()]
    _spread_lines(axes, list(enumerate(spreads)), shown_number)


def _spread_lines(axes: Axes, lines: Sequence[tuple[float, Spread]], shown: Callable[[float], str]) -> None:
    """From the lowest to the highest seed, and the middle in figures where no bar or line is."""
    axes.set_xlim(0, 1.17 * max(each.high for _, each in lines) or 1)
    for row, each in lines:
        axes.plot([each.low, each.high], [row, row], color=INK, lw=1, marker="|", ms=4)
        place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(shown(each.mid), (each.high, row), fontsize=8, color=INK, **place)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    """One row for each policy, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(shown_number)


def _small_panels(panels: Sequence[Axes], columns: int, names: Sequence[str], groups: Groups) -> None:
    """Jobs waiting over time, on one scale for all policies."""
    runs = [tally.middle(each, WAIT_MEAN) for each in groups.values()]
    top = max(max([1, *run.series.waiting]) for run in runs)
    for number, (axes, run) in enumerate(zip(panels, runs, strict=True)):
        kept = tally.telling_places([run.series.waiting], SMALL_POINTS_MAX)
        across, up = [run.series.at_s[each] for each in kept], [run.series.waiting[each] for each in kept]
        axes.fill_between(across, up, color=WAITING, alpha=0.25, lw=0)
        axes.plot(across, up, color=WAITING, lw=1)
        axes.set_title(names[number], fontsize=9.5)
        seed = one_line(f"seed {run.score.seed}", letters_max=SEED_LETTERS_MAX)
        axes.set_title(seed, loc="right", fontsize=8, fontweight="normal", color="#666666")
        count_axis(axes, top)
        time_axis(axes, max(run.span_s for run in runs), ticks_max=6)
        leftmost, lowest = number % columns == 0, number + columns >= len(groups)
        axes.set_ylabel("jobs waiting" if leftmost else "")
        axes.xaxis.label.set_visible(lowest)
        axes.tick_params(labelbottom=lowest, labelleft=leftmost)
        if not kept:
            nothing(axes, "no samples")


def _trade_dots(axes: Axes, groups: Groups) -> list[tuple[float, float]]:
    """Wait against waste, and where the dots are."""
    waste = [tally.spread(runs, WASTED) for runs in groups.values()]
    waits = [tally.spread(runs, WAIT_MEAN) for runs in groups.values()]
    pairs = list(zip(waste, waits, strict=True))
    unit, unit_s, _ = time_unit(max(wait.high for wait in waits))
    axes.set_title("Wait against waste: lower left is better")
    axes.set(xlabel="pilot-hours that no job used (h)", ylabel=f"mean wait ({unit})")
    for wasted, wait in pairs:
        across, up = wasted.mid, wait.mid / unit_s
        axes.plot([wasted.low, wasted.high], [up, up], color=GREY, lw=1.2)
        axes.plot([across, across], [wait.low / unit_s, wait.high / unit_s], color=GREY, lw=1.2)
        fill = "white" if any(x.mid < wasted.mid and y.mid < wait.mid for x, y in pairs) else INK
        axes.plot(across, up, "o", ms=8, mec=INK, mew=1.4, mfc=fill, zorder=3, clip_on=False)
    _trade_axis(axes, "x", [hours for each in waste for hours in (each.low, each.high)])
    _trade_axis(axes, "y", [wait_s / unit_s for each in waits for wait_s in (each.low, each.high)])
    return [(wasted.mid, wait.mid / unit_s) for wasted, wait in pairs]


def _trade_axis(axes: Axes, which: str, values: Sequence[float]) -> None:
    """From zero on an even scale, or a log scale where values are far apart."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis, low, high = getattr(axes, f"{which}axis"), min(values), max(values)
    if low > 0 and high > LOG_RATIO_MIN * low:
        axes.set(**{f"{which}scale": "log", f"{which}lim": (low / 1.6, high * 1.6)})
        axis.set_label_text(axis.get_label_text().removesuffix(")") + ", log scale)")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_formatter(NullFormatter())
    else:
        axes.set(**{f"{which}lim": (0, 1.15 * high or 1)})
    axis.set_major_formatter(shown_number)


def _place_names(axes: Axes, names: Sequence[str], spots: Sequence[tuple[float, float]]) -> None:
    """Each name at the first place around its dot that touches no dot, line or other name."""
    room = axes.get_window_extent()
    # Padded, because a line alone is a box without area that nothing could be found to overlap.
    taken: list[BboxBase] = [line.get_window_extent().padded(5) for line in axes.lines]
    for name, spot in zip(names, spots, strict=True):
        text = axes.annotate(name, spot, (0, 0), textcoords="offset points", fontsize=9.5, zorder=4)
        tried: list[tuple[int, int]] = []
        for number, (offset, ha, va) in enumerate(AROUND):
            text.set(position=offset, ha=ha, va=va)
            box = text.get_window_extent()
            outside = box.width * box.height - _overlap(box, room)
            # Rounded, because a difference in the last digit is no overlap.
            tried.append((round(outside + sum(_overlap(box, other) for other in taken)), number))
            if tried[-1][0] == 0:
                break
        best = min(tried)[1]
        offset, ha, va = AROUND[best]
        text.set(position=offset, ha=ha, va=va)
        taken.append(text.get_window_extent())
        if best >= NEAR:
            line = {"arrowstyle": "-", "color": GREY, "lw": 0.7, "shrinkA": 0, "shrinkB": 5}
            axes.annotate("", spot, offset, textcoords="offset points", arrowprops=line)


def _overlap(one: BboxBase, other: BboxBase) -> float:
    shared = one.intersection(one, other)
    return shared.width * shared.height if shared else 0.0


def _name(policy: str, runs: Sequence[Result]) -> str:
    return shown_text(policy, NAME_LETTERS_MAX) + ("" if tally.started_part(runs) == 1 else " *")
