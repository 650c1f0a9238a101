"""What all pictures of the simulator share: their page, their axes, their colours and how a file is written.

Figures come in, one SVG, PNG or PDF file goes out, the same bytes every time. It refuses to know what is
drawn. The drawing library is imported only while something is drawn: it is large and optional. Its settings
are changed for that time, so only one thread may draw.
"""

from __future__ import annotations

import io
import secrets
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from os import fsync
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glidepath.core.text import escape, one_line
from glidepath.core.units import shown_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# What is written beside the picture, by file ending: no dates, or equal pictures would be unequal files.
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "glidepath"},
    ".png": {"Software": "glidepath"},
    ".pdf": {"CreationDate": None, "Creator": "glidepath"},
}

# Okabe and Ito's colours, which people with any colour vision can tell apart.
BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILLION, PURPLE, YELLOW, GREY, INK = "#D55E00", "#CC79A7", "#F0E442", "#999999", "#222222"

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
TITLE_LETTERS_MAX = 60
FOOT_LETTERS_MAX = 900  # Five lines; twelve policies that left jobs waiting need no more.
FOOT_LETTERS_PER_INCH = 14  # Figures and capitals are wide.

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


class PlotError(Exception):
    """Why there is no picture, as a sentence for people."""


def checked(path: Path) -> str:
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


def write(figure: Figure, path: Path, ending: str) -> None:
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


def wait_limits(shortest_s: float, longest_s: float) -> tuple[int, int]:
    """The ticks around all waits, two different ones in any case."""
    low = max([tick for tick in WAIT_TICKS_S[:-1] if tick <= shortest_s], default=WAIT_TICKS_S[0])
    high = min([tick for tick in WAIT_TICKS_S if tick >= longest_s and tick > low], default=WAIT_TICKS_S[-1])
    return low, high


def wait_ticks(axis: Axis, low: int, high: int) -> None:
    """Of a log scale between two of the ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator([tick for tick in WAIT_TICKS_S if low <= tick <= high]))
    axis.set_major_formatter(FuncFormatter(lambda wait_s, _: shown_duration(round(wait_s))))
    axis.set_minor_locator(NullLocator())


def page(size: tuple[float, float], scenario: str, head: str, *foot: str) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(size, DPI, layout=ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.09))
    FigureCanvasAgg(figure)  # Keeps what measures texts; without it, that is made anew for each of them.
    title = f"{shown_text(scenario, TITLE_LETTERS_MAX)}: {shown_text(head, TITLE_LETTERS_MAX)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=15, fontweight="bold")
    lines = textwrap.wrap(shown_text(" ".join(foot), FOOT_LETTERS_MAX), int(FOOT_LETTERS_PER_INCH * size[0]))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=9, color="#444444")
    return figure


def legend(axes: Axes, *, columns: int = 4) -> None:
    """Above the panel, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(ncols=columns, handlelength=1.6, columnspacing=1.4, **place)


def nothing(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)


def time_unit(span_s: float) -> Unit:
    """The largest unit of which the span has several."""
    return [unit for unit in UNITS if unit is UNITS[0] or span_s >= UNITS_SHOWN_MIN * unit[1]][-1]


def time_axis(axes: Axes, span_s: int, *, ticks_max: int = 10) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    name, unit_s, steps = time_unit(span_s)
    ticks = MaxNLocator(ticks_max, steps=steps, integer=True).tick_values(0, max(span_s, 1) / unit_s)
    axes.set(xlim=(0, max(span_s, 1)), xlabel=f"time since the start ({name})")
    axes.xaxis.set_major_locator(FixedLocator([tick * unit_s for tick in ticks if tick * unit_s <= span_s]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at_s, _: f"{at_s / unit_s:,.0f}"))


def count_axis(axes: Axes, top: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(0, 1.08 * top)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(shown_number)


def shown_number(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def shown_text(text: str, letters_max: int) -> str:
    """Safe, bounded, and with an escape for every letter that the font cannot draw."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    safe = one_line(text, letters_max=letters_max)
    drawn = "".join(char if font.get_char_index(ord(char)) else escape(char) for char in safe)
    return one_line(drawn, letters_max=letters_max)
