"""Pictures of simulated runs: results come in, one SVG, PNG or PDF file goes out, the same bytes every time.

It refuses to know how a run came about. The drawing library is imported only while something is drawn: it is
large and optional. Its settings are changed for that time, so only one thread may draw.
"""

from __future__ import annotations

import io
import math
import secrets
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from os import fsync
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glidepath.core.text import escape, one_line
from glidepath.core.units import shown_duration
from glidepath.sim import score as tally
from glidepath.sim.score import CAUSES, Groups, Result, Score, Series, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

# What is written beside the picture, by file ending: no dates, or equal pictures would be unequal files.
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "glidepath"},
    ".png": {"Software": "glidepath"},
    ".pdf": {"CreationDate": None, "Creator": "glidepath"},
}

# Okabe and Ito's colours, which people with any colour vision can tell apart. One thing has one colour in
# every picture: a pilot at work is as blue as the job that it runs, and a starting one as light as its waste.
BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, PURPLE, YELLOW, GREY, INK = "#D55E00", "#CC79A7", "#F0E442", "#999999", "#222222"
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

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # Text stays text: it can be searched, selected and read aloud.
    "svg.hashsalt": "glidepath",  # The library draws names inside the file at random otherwise.
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # The second is as wide, where the first is missing.
    "text.parse_math": False,  # A `$` in a name is a dollar, and never a formula.
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
}
DPI = 150  # Sharp on a projector, and a PNG stays below 1 MB.

# More samples than a picture has columns of dots; an SVG stays below 400 KB.
POINTS_MAX = 1000
SMALL_POINTS_MAX = 300  # For one of the small panels of a comparison.
CURVE_POINTS_MAX = 500  # Of the curve of waits.
POLICIES_MAX = 12  # Beyond, rows and small panels are too many for one page.
SMALL_COLUMNS_MAX = 4  # Narrower panels would have no room for their ticks.
TITLE_LETTERS_MAX = 60
NAME_LETTERS_MAX = 20  # A longer name would push the bars aside, and meet the seed above a small panel.
SEED_LETTERS_MAX = 14
FOOT_LETTERS_MAX = 900  # Five lines; twelve policies that left jobs waiting need no more.
FOOT_LETTERS_PER_INCH = 15

MINUTE, HOUR, DAY = 60, 3600, 86400
Unit = tuple[str, int, list[float]]
# Name, seconds, and the tick steps that people expect of it: quarters of an hour, quarters of a day.
UNITS: tuple[Unit, ...] = (
    ("seconds", 1, [1, 1.5, 2, 3, 10]),
    ("minutes", MINUTE, [1, 1.5, 2, 3, 10]),
    ("hours", HOUR, [1, 1.2, 2, 2.4, 3, 6, 10]),
    ("days", DAY, [1, 2, 5, 10]),
)
UNITS_SHOWN_MIN = 3  # Fewer of a unit than this are better told in the next smaller one.
# Ticks of waits, about three to a factor of ten, at spans that people have words for.
WAIT_TICKS_S = (
    *(1, 3, 10, 30, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE),
    *(HOUR, 3 * HOUR, 10 * HOUR, DAY, 3 * DAY, 10 * DAY, 30 * DAY, 100 * DAY, 1000 * DAY, 10000 * DAY),
)
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


class PlotError(Exception):
    """Why there is no picture, as a sentence for people."""


def plot_run(result: Result, path: Path) -> None:
    """One run: jobs, pilots and waits. Raises PlotError; what was there before is then still there."""
    ending = _checked(path)
    with drawing():
        _write(run_figure(result), path, ending)


def plot_compare(results: Sequence[Result], path: Path) -> None:
    """Policies side by side on one scenario. Raises PlotError; what was there before is then still there."""
    ending = _checked(path)
    groups = tally.by_policy(results)
    if not groups:
        raise PlotError("there is nothing to compare: not one run was handed over")
    if len(scenarios := sorted({result.score.scenario for result in results})) > 1:
        names = ", ".join(f"`{one_line(name, letters_max=NAME_LETTERS_MAX)}`" for name in scenarios[:2])
        raise PlotError(f"{len(scenarios)} scenarios cannot share one picture ({names}); draw one for each")
    if len(groups) > POLICIES_MAX:
        raise PlotError(f"{len(groups)} policies do not fit into one picture; name at most {POLICIES_MAX}")
    with drawing():
        _write(compare_figure(groups), path, ending)


def _checked(path: Path) -> str:
    """The file ending; told before the drawing, so that nobody waits for a picture that has no place."""
    ending, where = path.suffix.lower(), one_line(str(path))
    if ending not in METADATA:
        raise PlotError(f"`{where}`: a picture ends in {', '.join(METADATA)}; nothing was written")
    try:
        folder, taken = path.parent.is_dir(), path.is_dir()
    except OSError as error:
        raise _unwritten(path, error) from error
    if not folder:
        raise PlotError(f"`{where}`: there is no folder `{one_line(str(path.parent))}`; make it first")
    if taken:
        raise PlotError(f"`{where}` is a folder; name a file")
    return ending


def _unwritten(path: Path, error: OSError | ValueError) -> PlotError:
    why = getattr(error, "strerror", None) or str(error)
    return PlotError(f"`{one_line(str(path))}` could not be written: {one_line(why)}")


def _write(figure: Figure, path: Path, ending: str) -> None:
    image = io.BytesIO()
    figure.savefig(image, format=ending[1:], metadata=METADATA[ending], dpi=DPI)
    # Beside the target, because a rename is whole only within one file system. A reader sees the old
    # picture or the new one, also when we are killed in between.
    fresh = path.with_name(f".glidepath-{secrets.token_hex(6)}.part")
    try:
        with fresh.open("xb") as file:
            file.write(image.getbuffer())
            file.flush()
            fsync(file.fileno())
        fresh.replace(path)
    except (OSError, ValueError) as error:
        fresh.unlink(missing_ok=True)
        raise _unwritten(path, error) from error


@contextmanager
def drawing() -> Iterator[None]:
    """The library with its own defaults and our style, whatever the settings of the user's account are."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        why = one_line(str(error))
        raise PlotError(f"pictures need matplotlib ({why}); `pip install 'glidepath[plots]'`") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        with matplotlib.rc_context(STYLE):
            yield


def run_figure(result: Result) -> Figure:
    """The picture of one run, not yet in a file; call it within `drawing`."""
    score, series = result.score, tally.thinned(result.series, POINTS_MAX)
    head = f"policy {_shown(score.policy, NAME_LETTERS_MAX)}, seed {score.seed}"
    figure = _page((11, 9.6), score.scenario, head, *tally.in_words(score))
    jobs, pilots, waits = figure.subplots(3, 1, height_ratios=(1, 1.15, 1))
    _jobs_over_time(jobs, series)
    _pilots_over_time(pilots, series)
    for axes in (jobs, pilots):
        _time_axis(axes, result.span_s)
        _legend(axes)
        if not series.at_s:
            _nothing(axes, "no samples")
    _wait_curve(waits, result)
    return figure


def _jobs_over_time(axes: Axes, series: Series) -> None:
    axes.set(title="Jobs", ylabel="jobs")
    _count_axis(axes, max([1, *series.running, *series.waiting]))
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
    _count_axis(axes, 1.5 * supply if clipped else max(1, supply, demand))
    if clipped:
        axes.set_title(f"Pilots (demand goes up to {demand:,}, beyond this scale)")


def _wait_curve(axes: Axes, result: Result) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set(title="Waits of jobs that started", ylabel="jobs that waited\nno longer (%)", ylim=(0, 104))
    axes.set_xlabel("wait from joining the queue to the start (log scale; s, m, h, d)")
    waits = result.waits_s
    # A log scale has no zero, and few who hardly waited must not squeeze the rest: they are at the left edge.
    low, high = _wait_limits(tally.percentile(waits, 0.01), tally.percentile(waits, 1))
    axes.set(xscale="log", xlim=(low, high))
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in WAIT_TICKS_S if low <= tick <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda wait_s, _: shown_duration(round(wait_s))))
    axes.xaxis.set_minor_locator(NullLocator())
    if not waits:
        return _nothing(axes, "no job started")
    picks = sorted({n * (len(waits) - 1) // (CURVE_POINTS_MAX - 1) for n in range(CURVE_POINTS_MAX)})
    curve = [(max(waits[pick], low), 100 * (pick + 1) / len(waits)) for pick in picks]
    across, up = zip((low, 0.0), *curve, (high, 100.0), strict=True)
    axes.fill_between(across, up, step="post", color="#EEF4F1", lw=0)
    axes.plot(across, up, color=INK, drawstyle="steps-post", lw=1.6)
    for name, number, colour, line in WAITS:
        wait_s = number(result.score)
        label = f"{name} {shown_duration(round(wait_s))}"
        axes.axvline(max(wait_s, low), color=colour, linestyle=line, lw=2.2, label=label)
    return _legend(axes)


def _wait_limits(shortest_s: float, longest_s: float) -> tuple[int, int]:
    """The ticks around all waits, two different ones in any case."""
    low = max([tick for tick in WAIT_TICKS_S[:-1] if tick <= shortest_s], default=WAIT_TICKS_S[0])
    high = min([tick for tick in WAIT_TICKS_S if tick >= longest_s and tick > low], default=WAIT_TICKS_S[-1])
    return low, high


def compare_figure(groups: Groups) -> Figure:
    """The picture of a comparison, not yet in a file; call it within `drawing`."""
    count = len(groups)
    small_rows = math.ceil(count / SMALL_COLUMNS_MAX)
    heights = (max(3.6, 1.5 + 0.38 * count), 1.1 + 0.42 * count, 0.5 + 1.75 * small_rows)
    scenario = next(iter(groups.values()))[0].score.scenario
    head, *told = tally.compared_in_words(groups)
    figure = _page((13, sum(heights) + 1.4), scenario, head, HOW_TO_READ, HOLLOW, *told)
    grid = figure.add_gridspec(3, 1, height_ratios=heights)
    halves = (grid[0].subgridspec(1, 2), grid[1].subgridspec(1, 2))
    trade, waste, waits, asked = (figure.add_subplot(half[side]) for half in halves for side in (0, 1))
    names = [_name(policy, runs) for policy, runs in groups.items()]
    for draw, axes in ((_waste_bars, waste), (_wait_bars, waits), (_asked_bars, asked)):
        draw(axes, groups)
        _rows(axes, names)
        _legend(axes, columns=3)
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
    _spread_lines(axes, list(enumerate(spreads)), lambda hours: f"{_shown_number(hours)} h")


def _wait_bars(axes: Axes, groups: Groups) -> None:
    columns = [[tally.spread(runs, number) for runs in groups.values()] for _, number, _, _ in WAITS]
    unit, unit_s, _ = _time_unit(max(each.high for column in columns for each in column))
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
    _spread_lines(axes, list(enumerate(spreads)), _shown_number)


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
    axes.xaxis.set_major_formatter(_shown_number)


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
        _count_axis(axes, top)
        _time_axis(axes, max(run.span_s for run in runs), ticks_max=6)
        leftmost, lowest = number % columns == 0, number + columns >= len(groups)
        axes.set_ylabel("jobs waiting" if leftmost else "")
        axes.xaxis.label.set_visible(lowest)
        axes.tick_params(labelbottom=lowest, labelleft=leftmost)
        if not kept:
            _nothing(axes, "no samples")


def _trade_dots(axes: Axes, groups: Groups) -> list[tuple[float, float]]:
    """Wait against waste, and where the dots are."""
    waste = [tally.spread(runs, WASTED) for runs in groups.values()]
    waits = [tally.spread(runs, WAIT_MEAN) for runs in groups.values()]
    pairs = list(zip(waste, waits, strict=True))
    unit, unit_s, _ = _time_unit(max(wait.high for wait in waits))
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
    axis.set_major_formatter(_shown_number)


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


def _page(size: tuple[float, float], scenario: str, head: str, *foot: str) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(size, DPI, layout=ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.09))
    FigureCanvasAgg(figure)  # Keeps what measures texts; without it, that is made anew for each of them.
    title = f"{_shown(scenario, TITLE_LETTERS_MAX)}: {_shown(head, TITLE_LETTERS_MAX)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=15, fontweight="bold")
    lines = textwrap.wrap(_shown(" ".join(foot), FOOT_LETTERS_MAX), int(FOOT_LETTERS_PER_INCH * size[0]))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9, color="#444444")
    return figure


def _legend(axes: Axes, *, columns: int = 4) -> None:
    """Above the panel, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(ncols=columns, handlelength=1.6, columnspacing=1.4, **place)


def _nothing(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)


def _time_unit(span_s: float) -> Unit:
    """The largest unit of which the span has several."""
    return [unit for unit in UNITS if unit is UNITS[0] or span_s >= UNITS_SHOWN_MIN * unit[1]][-1]


def _time_axis(axes: Axes, span_s: int, *, ticks_max: int = 10) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    name, unit_s, steps = _time_unit(span_s)
    ticks = MaxNLocator(ticks_max, steps=steps, integer=True).tick_values(0, max(span_s, 1) / unit_s)
    axes.set(xlim=(0, max(span_s, 1)), xlabel=f"time since the start ({name})")
    axes.xaxis.set_major_locator(FixedLocator([tick * unit_s for tick in ticks if tick * unit_s <= span_s]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at_s, _: f"{at_s / unit_s:,.0f}"))


def _count_axis(axes: Axes, top: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(0, 1.08 * top)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(_shown_number)


def _shown_number(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _name(policy: str, runs: Sequence[Result]) -> str:
    return _shown(policy, NAME_LETTERS_MAX) + ("" if tally.started_part(runs) == 1 else " *")


def _shown(text: str, letters_max: int) -> str:
    """Safe, bounded, and with an escape for every letter that the font cannot draw."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    safe = one_line(text, letters_max=letters_max)
    drawn = "".join(char if font.get_char_index(ord(char)) else escape(char) for char in safe)
    return one_line(drawn, letters_max=letters_max)
