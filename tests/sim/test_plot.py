"""Pictures: what stands in them, that they are the same every time, and what is refused before drawing."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from glidepath.sim.page import PlotError, drawing
from glidepath.sim.plot import POLICIES_MAX, compare_figure, plot_compare, plot_run, run_figure
from glidepath.sim.score import (
    CAUSES,
    Result,
    Score,
    Series,
    Spread,
    by_policy,
    compared_in_words,
    in_words,
    middle,
    percentile,
    spread,
    thinned,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG_BYTES_MAX = 400_000
SEVEN = ("seed", "prp", "glideinwms", "pyglidein", "one-to-one", "steady", "seed at 10 s")
WASTE_H = dict(zip(CAUSES, (120.5, 44.25, 3.0, 0.0, 7.5, 1.25), strict=True))


def a_score(**changes: object) -> Score:
    score = Score(
        scenario="burst",
        policy="steady",
        seed=7,
        cycles=360,
        span_s=6 * 3600,
        jobs=12_400,
        started=12_400,
        wait_median_s=130,
        wait_mean_s=243,
        wait_p95_s=720,
        busy_h=1512.0,
        waste_h=tuple(WASTE_H.items()),
        asked=2_345,
        unused=211,
        overshoot=42,
        limits_broken=0,
    )
    return replace(score, **changes)


def a_series(samples: int = 360, *, step_s: int = 60, top: int = 400, seed: int = 1) -> Series:
    """Bursts that pilots follow with some delay."""
    chance, series = random.Random(seed), Series()
    waiting = running = coming = 0
    for number in range(samples):
        waiting += top if number % 90 == 20 else chance.randint(0, 5)
        started = min(waiting, coming)
        waiting, running = waiting - started, running + started - running // 20
        coming = min(waiting, top // 6)
        unclaimed = chance.randint(0, 9)
        row = (number * step_s, waiting, running, coming, unclaimed, running, waiting + running)
        for name, count in zip(Series.__slots__, row, strict=True):
            getattr(series, name).append(count)
    return series


def a_result(policy: str = "steady", seed: int = 7, **changes: object) -> Result:
    chance = random.Random(f"{policy!a} {seed}")
    waits = tuple(sorted(int(chance.lognormvariate(4.5, 1.2)) for _ in range(2_000)))
    slow = chance.uniform(0.8, 1.6)
    measured = {
        "wait_median_s": percentile(waits, 0.5) * slow,
        "wait_mean_s": sum(waits) / len(waits) * slow,
        "wait_p95_s": percentile(waits, 0.95) * slow,
        "waste_h": tuple((cause, hours * chance.uniform(0.5, 2)) for cause, hours in WASTE_H.items()),
    }
    return Result(a_score(policy=policy, seed=seed, **(measured | changes)), a_series(seed=seed), waits)


def several(policies: tuple[str, ...], seeds: int = 5) -> list[Result]:
    return [a_result(policy, seed) for policy in policies for seed in range(1, seeds + 1)]


def texts(path: Path) -> list[str]:
    """Every text of an SVG; that it can be parsed is part of what is asked."""
    root = ElementTree.parse(path).getroot()
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_of_a_run_says_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    plot_run(replace(a_result(), score=a_score()), path)
    told = texts(path)
    expected = {
        "burst: policy steady, seed 7",
        *("Jobs", "jobs", "waiting", "running"),
        *("Pilots", "pilots", "claimed", "unclaimed", "coming", "demand, in pilots' worth"),
        "time since the start (hours)",
        *("Waits of jobs that started", "median 2m10s", "mean 4m3s", "95 % within 12m"),
        "wait from joining the queue to the start (log scale; s, m, h, d)",
        *("1m", "10m", "1h"),
    }
    assert expected - set(told) == set()
    assert " ".join(in_words(a_score())) in " ".join(told)


def test_the_picture_of_a_comparison_says_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "compare.svg"
    plot_compare(several(SEVEN), path)
    told = texts(path)
    expected = {
        "burst: 7 policies, 5 seeds each",
        *(
            "Wait against waste: lower left is better",
            "mean wait (minutes)",
            "pilot-hours that no job used (h)",
        ),
        *("Waste by cause", *CAUSES),
        *("Waits", "wait of jobs that started (minutes)", "median", "mean", "95 % within"),
        *("Pilots asked for", "pilots", "ran a job", "ran none", "2,345"),
        *("jobs waiting", "time since the start (hours)"),
    }
    assert expected - set(told) == set()
    # Beside its dot, in three panels of bars, and above its own small panel.
    assert [told.count(policy) for policy in SEVEN] == [5] * len(SEVEN)
    assert "No run broke a limit." in " ".join(told)


@pytest.mark.parametrize(
    ("ending", "first", "never"),
    [
        (".svg", b"<?xml", b"dc:date"),
        (".png", b"\x89PNG", b"tIME"),
        (".pdf", b"%PDF", b"CreationDate"),
    ],
)
def test_a_result_gives_the_same_bytes_twice(tmp_path: Path, ending: str, first: bytes, never: bytes) -> None:
    one, other = tmp_path / f"one{ending}", tmp_path / f"other{ending}"
    for path in (one, other):
        plot_run(a_result(), path)
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().startswith(first)
    assert never not in one.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == [one.name, other.name]


def test_the_same_comparison_gives_the_same_bytes_over_an_older_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    other.write_text("older")
    for path in (one, other):
        plot_compare(several(("steady",), seeds=2), path)
    assert one.read_bytes() == other.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == [one.name, other.name]


@pytest.mark.parametrize("name", ["run", "run.jpeg", "run.svg.gz", ".svg"])
def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlotError) as caught:
        plot_run(a_result(), tmp_path / name)
    known = "a picture ends in .svg, .png, .pdf; nothing was written"
    assert str(caught.value) == f"`{tmp_path / name}`: {known}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none/run.svg", "`{at}/none/run.svg`: there is no folder `{at}/none`; make it first"),
        ("file/run.svg", "`{at}/file/run.svg`: there is no folder `{at}/file`; make it first"),
        ("folder.svg", "`{at}/folder.svg` is a folder; name a file"),
        ("nul\0.svg", "`{at}/nul\\x00.svg` could not be written: embedded null byte"),
        ("e\x1b[J/run.svg", "`{at}/e\\x1b[J/run.svg`: there is no folder `{at}/e\\x1b[J`; make it first"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_and_nothing_is_left(
    tmp_path: Path, name: str, expected: str
) -> None:
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(PlotError) as caught:
        plot_run(a_result(), tmp_path / name)
    assert str(caught.value) == expected.replace("{at}", str(tmp_path))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder.svg"]


@pytest.mark.parametrize("path", [Path("/proc/run.svg"), Path("/tmp") / ("x" * 300 + ".svg")])
def test_what_the_system_refuses_is_told_in_its_words(path: Path) -> None:
    # Nobody may make files in /proc, root included, and no file system takes a name of 300 letters.
    with pytest.raises(PlotError, match=r"could not be written: (No such file|Permission|File name too)"):
        plot_run(a_result(), path)


NOTHING = a_score(
    jobs=0,
    started=0,
    asked=0,
    unused=0,
    busy_h=0.0,
    overshoot=0,
    span_s=0,
    wait_median_s=0.0,
    wait_mean_s=0.0,
    wait_p95_s=0.0,
    waste_h=(),
)


def test_a_run_without_samples_and_jobs_is_drawn_and_says_so(tmp_path: Path) -> None:
    plot_run(Result(NOTHING, Series(), ()), tmp_path / "run.svg")
    told = texts(tmp_path / "run.svg")
    assert [told.count("no samples"), told.count("no job started")] == [2, 1]
    plot_compare([Result(NOTHING, Series(), ())], tmp_path / "compare.svg")
    assert "burst: 1 policy, 1 seed" in texts(tmp_path / "compare.svg")


def test_all_jobs_may_have_waited_nothing(tmp_path: Path) -> None:
    none = replace(a_result(wait_median_s=0.0, wait_mean_s=0.0, wait_p95_s=0.0), waits_s=(0, 0, 0))
    plot_run(none, tmp_path / "run.svg")
    assert "median 0s" in texts(tmp_path / "run.svg")


def test_one_policy_with_many_seeds_fits(tmp_path: Path) -> None:
    plot_compare(several(("steady",), seeds=40), tmp_path / "compare.svg")
    assert "burst: 1 policy, 40 seeds" in texts(tmp_path / "compare.svg")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([], "there is nothing to compare: not one run was handed over"),
        (
            [a_result(), a_result(scenario="si\x1bne")],
            "2 scenarios cannot share one picture (`burst`, `si\\x1bne`); draw one for each",
        ),
        (
            [a_result(f"p{number}") for number in range(POLICIES_MAX + 1)],
            "13 policies do not fit into one picture; name at most 12",
        ),
    ],
)
def test_what_does_not_go_into_one_comparison_is_refused(
    tmp_path: Path, results: list[Result], expected: str
) -> None:
    with pytest.raises(PlotError) as caught:
        plot_compare(results, tmp_path / "compare.svg")
    assert str(caught.value) == expected
    assert list(tmp_path.iterdir()) == []


HOSTILE = {
    "a\x1b[31mb\nc": "a\\x1b[31mb\\nc",
    "$\\frac<b>&amp;$": "$\\frac<b>&amp;$",
    "\u202egp.yvs": "\\u202egp.yvs",
    "中文": "\\u4e2d\\u6587",
    "x" * 500: "x" * 17 + "...",
}


def test_hostile_names_of_policies_are_made_safe(tmp_path: Path) -> None:
    path = tmp_path / "compare.svg"
    last = a_result("_中", started=12_399, limits_broken=3)
    plot_compare([*(a_result(policy) for policy in HOSTILE), last], path)
    told = texts(path)
    assert [told.count(shown) for shown in (*HOSTILE.values(), "_\\u4e2d *")] == [5] * (len(HOSTILE) + 1)
    assert (
        "* Not all jobs started, and waits leave out those that did not: _\\u4e2d 99.9 %. "
        "Limits broken: _\\u4e2d 3." in " ".join(told)
    )


def test_hostile_names_of_a_run_are_made_safe(tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    plot_run(a_result("a\nb$x$", scenario="\x1b]0;<i>\ud800" + "y" * 500), path)
    assert "\\x1b]0;<i>\\ud800" + "y" * 41 + "...: policy a\\nb$x$, seed 7" in texts(path)


@pytest.mark.parametrize(
    ("span_s", "unit", "ticks"),
    [
        (60, "seconds", ["0", "10", "20", "30", "40", "50", "60"]),
        (90 * 60, "minutes", ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90"]),
        (24 * 3600, "hours", ["0", "3", "6", "9", "12", "15", "18", "21", "24"]),
        (11 * 86400, "days", ["0", "2", "4", "6", "8", "10"]),
    ],
)
def test_the_time_axis_has_a_unit_that_suits(span_s: int, unit: str, ticks: list[str]) -> None:
    with drawing():
        jobs = run_figure(replace(a_result(span_s=span_s), series=a_series(6, step_s=span_s // 6))).axes[0]
        assert jobs.get_xlabel() == f"time since the start ({unit})"
        assert [label.get_text() for label in jobs.get_xticklabels()] == ticks


def test_demand_far_beyond_the_pilots_is_told_instead_of_drawn() -> None:
    series = a_series()
    series.wanted = [count * 100 for count in series.wanted]
    with drawing():
        pilots = run_figure(replace(a_result(), series=series)).axes[1]
        assert pilots.get_title(loc="left") == (
            f"Pilots (demand goes up to {max(series.wanted):,}, beyond this scale)"
        )


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that touch, ticks outside of their axis left out because they are not drawn."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    unseen = set()
    for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks() + axis.get_minor_ticks():
            if not low <= tick.get_loc() <= high:
                unseen |= {tick.label1, tick.label2}
    shown = [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(Text)
        if text not in unseen and text.get_visible() and text.get_text().strip()
    ]
    return [(one[0], other[0]) for one, other in combinations(shown, 2) if one[1].overlaps(other[1])]


LONG = "a-name-of-19-letter"


@pytest.mark.parametrize("policies", [("seed", "steady"), (LONG, *SEVEN)])
def test_no_two_texts_of_a_comparison_overlap_and_names_cross_no_line(policies: tuple[str, ...]) -> None:
    with drawing():
        figure = compare_figure(by_policy(several(policies)))
        assert overlaps(figure) == []
        trade = figure.axes[0]
        names = [text.get_window_extent() for text in trade.texts if text.get_text()]
        assert len(names) == len(policies)
        assert not [1 for name in names for line in trade.lines if name.overlaps(line.get_window_extent())]


def test_no_two_texts_overlap_where_policies_are_nearly_equal() -> None:
    lost = (("lost", 90.0),)
    waits = {"near-1": 200.0, "near-2": 201.0, "near-3": 202.0, "near-4": 202.0, "near-5": 203.0}
    results = [a_result(policy, wait_mean_s=wait, waste_h=lost) for policy, wait in waits.items()]
    with drawing():
        assert overlaps(compare_figure(by_policy(results))) == []


def test_no_two_texts_of_a_run_overlap() -> None:
    with drawing():
        assert overlaps(run_figure(a_result())) == []


def test_values_far_apart_get_a_log_scale() -> None:
    results = [a_result("a", wait_mean_s=10.0), a_result("b", wait_mean_s=5000.0)]
    with drawing():
        trade = compare_figure(by_policy(results)).axes[0]
        assert [trade.get_xscale(), trade.get_yscale()] == ["linear", "log"]
        assert trade.get_ylabel() == "mean wait (minutes, log scale)"


def test_a_long_and_restless_run_stays_a_small_file(tmp_path: Path) -> None:
    chance, count = random.Random(3), 30_000
    columns = [[chance.randint(0, 1000) for _ in range(count)] for _ in Series.__slots__[1:]]
    restless = Series(list(range(0, 10 * count, 10)), *columns)
    waits = tuple(range(188_041))
    results = [Result(a_score(policy=policy), restless, waits) for policy in SEVEN]
    plot_compare(results, tmp_path / "compare.svg")
    plot_run(results[0], tmp_path / "run.svg")
    sizes = [(tmp_path / name).stat().st_size for name in ("run.svg", "compare.svg")]
    assert max(sizes) < SVG_BYTES_MAX


@pytest.mark.parametrize("samples", [0, 1, 1000, 1001, 9000])
@pytest.mark.parametrize("restless", [False, True])
def test_a_thinned_series_keeps_ends_and_extremes(samples: int, restless: bool) -> None:
    series = a_series(samples)
    if restless:
        chance = random.Random(samples)
        series.waiting = [chance.randint(0, 1000) for _ in range(samples)]
    few = thinned(series, 1000)
    assert len(few.at_s) <= 1000
    assert few.at_s[:1] + few.at_s[-1:] == series.at_s[:1] + series.at_s[-1:]
    rows = set(zip(*(getattr(series, name) for name in Series.__slots__), strict=True))
    assert rows.issuperset(zip(*(getattr(few, name) for name in Series.__slots__), strict=True))
    assert few.at_s == sorted(set(few.at_s))
    # A line may be off by the coarsest step where that is enough, and not at all where only a band is drawn.
    slack = 0.032 * max([0, *series.waiting])
    assert max([0, *few.waiting]) >= max([0, *series.waiting]) - slack


def test_a_peak_of_one_sample_stays_as_narrow_as_it_is() -> None:
    quiet = [0] * 50_000
    peak = quiet.copy()
    peak[31_234] = 900
    few = thinned(Series(list(range(50_000)), peak, *(quiet for _ in range(5))), 100)
    assert list(zip(few.at_s, few.waiting, strict=True)) == [
        *((0, 0), (31_233, 0), (31_234, 900), (31_235, 0), (49_999, 0)),
    ]


def test_the_middle_run_is_one_that_happened() -> None:
    runs = [a_result(seed=seed, asked=asked) for seed, asked in ((1, 50), (2, 10), (3, 40), (4, 20))]
    assert middle(runs, lambda score: score.asked).score.seed == 4
    assert spread(runs, lambda score: score.asked) == Spread(10, 20, 50)
    assert spread(runs[:1], lambda score: score.asked) == Spread(50, 50, 50)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (
            a_score(),
            (
                "All 12,400 jobs started; they waited 2m10s in the median, 4m3s on average, "
                "and 95 % of them at most 12m.",
                "2,345 pilots were asked for, 211 (9 %) ran no job; at most 42 were free or coming "
                "beyond what waited.",
                "1,512.0 pilot-hours were used by jobs, 176.5 h were not (unclaimed 120.5 h, "
                "starting 44.2 h, failed 3.0 h, black hole 7.5 h, lost 1.2 h).",
                "No limit was broken.",
            ),
        ),
        (
            a_score(started=12_000, unused=0, waste_h=(), limits_broken=1_000, cost_milli=1_234_500),
            (
                "12,000 of 12,400 jobs started; they waited 2m10s in the median, 4m3s on average, "
                "and 95 % of them at most 12m.",
                "2,345 pilots were asked for, each ran a job; at most 42 were free or coming "
                "beyond what waited.",
                "1,512.0 pilot-hours were used by jobs, 0.0 h were not; all cost 1,234.50.",
                "Limits broken: 1,000.",
            ),
        ),
        (
            NOTHING,
            (
                "There were no jobs.",
                "No pilot was asked for.",
                "0.0 pilot-hours were used by jobs, 0.0 h were not.",
                "No limit was broken.",
            ),
        ),
        (a_score(started=0), ("None of 12,400 jobs started.", *in_words(a_score())[1:])),
    ],
)
def test_a_score_is_told_in_words(score: Score, expected: tuple[str, ...]) -> None:
    assert in_words(score) == expected


def test_a_comparison_is_told_in_words() -> None:
    runs = [a_result("b", seed, limits_broken=seed) for seed in (1, 2)]
    runs.insert(0, a_result("a", 1, started=12_399))
    assert compared_in_words(by_policy(runs)) == (
        "2 policies, 1 to 2 seeds each",
        "* Not all jobs started, and waits leave out those that did not: a 99.9 %.",
        "Limits broken: b 3.",
    )


def test_matplotlib_is_imported_only_to_draw_and_missed_with_a_sentence(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from glidepath.sim import page, plot, score
assert "matplotlib" not in sys.modules and "numpy" not in sys.modules
sys.modules["matplotlib"] = None
nothing = score.Result({NOTHING!r}, score.Series(), ())
try:
    plot.plot_run(nothing, Path({str(tmp_path)!r}, "run.svg"))
except page.PlotError as error:
    print(error)
""".replace("Score(", "score.Score(")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == (
        "pictures need matplotlib (import of matplotlib halted; None in sys.modules); "
        "`pip install 'glidepath[plots]'`\n"
    )
    assert list(tmp_path.iterdir()) == []
