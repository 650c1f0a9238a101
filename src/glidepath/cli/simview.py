"""Simulated runs in words and numbers: results come in, items for programs and lines for people go out.

Items are the stable contract of `glidepath sim -o json`: every number of a score under its own name. It
refuses to know how a run came about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from glidepath.cli.output import span
from glidepath.cli.verb import Column, Item

if TYPE_CHECKING:
    from glidepath.core.provision.offer import Rules
    from glidepath.sim.score import Result, Score
    from glidepath.sim.study import Finished

DIGITS = 6  # Of a number of seconds or hours in JSON; more is noise of the machine.
# Numbers of a comparison, as they are called in a score.
NUMBERS = (
    *("wait_median_s", "wait_mean_s", "wait_p95_s", "busy_h", "wasted_h"),
    *("asked", "unused", "churn", "overshoot", "limits_broken", "cost_milli"),
)
_ODD_LETTERS = re.compile(r"[^A-Za-z0-9._-]+")

Number = Callable[[Any], float]


def file_name(*parts: object) -> str:
    """A name for a picture, of letters that every system takes."""
    return _ODD_LETTERS.sub("-", "-".join(str(part) for part in parts)) + ".svg"


def repeated(scenario: str, seed: int, **options: object) -> str:
    """The one line that runs the same again; options that are not set are left out."""
    from shlex import join

    words = ["glidepath", "sim", "run", scenario, "--seed", str(seed)]
    for name, value in options.items():
        words += [f"--{name}", str(value)] if value else []
    return join(words)


def score_item(score: Score) -> dict[str, Any]:
    """All numbers of one run."""
    return {
        "scenario": score.scenario,
        "policy": score.policy,
        "seed": score.seed,
        "cycles": score.cycles,
        "span_s": score.span_s,
        "jobs": score.jobs,
        "started": score.started,
        **{name: round(getattr(score, name), DIGITS) for name in NUMBERS},
        "waste_h": {cause: round(hours, DIGITS) for cause, hours in score.waste_h},
    }


def rules_item(rules: Rules) -> dict[str, Any]:
    """What was decided with."""
    numbers = dict(rules.policy.numbers)
    return {"cycle_s_min": rules.cycle_s_min, "cycle_s_max": rules.cycle_s_max, "numbers": numbers}


def told(finished: Finished, rules: Rules, replayed: int) -> Iterator[str]:
    """One run in sentences."""
    from glidepath.sim.score import in_words

    score = finished.result.score
    cycle = _cycle(rules_item(rules))
    yield (
        f"{score.scenario} with {score.policy} every {cycle}, seed {score.seed}: {score.cycles:,} cycles in "
        f"{span(score.span_s)} of made-up time."
    )
    yield from in_words(score)
    if finished.left:
        yield f"Jobs that could not be served: {finished.left:,}."
    if finished.faults:
        counts = ", ".join(f"{name} {count:,}" for name, count in finished.faults)
        lives = "1 life" if finished.lives == 1 else f"{finished.lives:,} lives"
        yield f"Faults that struck, in {lives} of the controller: {counts}."
    if replayed:
        yield f"{replayed:,} kept plans were decided again from what they saw."


def compare_item(runs: Sequence[Result], first: Sequence[Result], rules: Rules) -> dict[str, Any]:
    """One policy of a comparison, and how it stands to the first."""
    from glidepath.sim.score import CAUSES, started_part

    score = runs[0].score
    return {
        "name": score.policy,
        "scenario": score.scenario,
        "policy": score.policy,
        **rules_item(rules),
        "seeds": [run.score.seed for run in runs],
        "started_part": round(started_part(runs), DIGITS),
        **{name: spread_item(runs, first, attrgetter(name)) for name in NUMBERS},
        "waste_h": {cause: spread_item(runs, first, _hours(cause)) for cause in CAUSES},
        "runs": [score_item(run.score) for run in runs],
    }


def spread_item(runs: Sequence[Result], first: Sequence[Result], number: Number) -> dict[str, Any]:
    """The lowest, the middle and the highest, and how the middle stands to that of the first policy."""
    from glidepath.sim.score import spread

    found, base = spread(runs, number), spread(first, number).mid
    return {
        "low": round(found.low, DIGITS),
        "mid": round(found.mid, DIGITS),
        "high": round(found.high, DIGITS),
        "ratio": round(found.mid / base, DIGITS) if base else None,
    }


def _hours(cause: str) -> Number:
    return lambda score: float(dict(score.waste_h)[cause])


def _cycle(item: Item) -> str:
    low, high = item["cycle_s_min"], item["cycle_s_max"]
    return span(low) if low == high else f"{span(low)} to {span(high)}"


def _time(seconds: float) -> str:
    return span(round(seconds))


def _tenths(value: float) -> str:
    return f"{value:,.1f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _thousandths(value: float) -> str:
    return f"{value / 1000:,.2f}"


def _number(title: str, name: str, shown: Callable[[float], str]) -> tuple[Column, ...]:
    """The middle; where people have a wide terminal, also from where to where."""

    def spread(item: Item) -> str:
        found = item[name]
        return f"{shown(found['low'])} to {shown(found['high'])}" if len(item["seeds"]) > 1 else ""

    return (
        Column(title, lambda item: shown(item[name]["mid"]), right=True),
        Column(f"{title} FROM TO", spread, wide=True, right=True),
    )


def _ratio(name: str) -> Column:
    def shown(item: Item) -> str:
        found = item[name]["ratio"]
        return "" if found is None else f"{found:.2f}"

    return Column("RATIO", shown, right=True)


def _cause(cause: str) -> Column:
    shown = f"{cause.upper()} H"
    return Column(shown, lambda item: _tenths(item["waste_h"][cause]["mid"]), wide=True, right=True)


COMPARED = (
    Column("POLICY", lambda item: item["policy"] + ("" if item["started_part"] >= 1 else "*")),
    Column("CYCLE", _cycle),
    _number("MEDIAN", "wait_median_s", _time)[0],
    *_number("MEAN", "wait_mean_s", _time),
    _ratio("wait_mean_s"),
    _number("P95", "wait_p95_s", _time)[0],
    *_number("WASTE H", "wasted_h", _tenths),
    _ratio("wasted_h"),
    *map(_cause, ("unclaimed", "starting", "failed", "withdrawn", "black hole", "lost")),
    *_number("PILOTS", "asked", _whole),
    _ratio("asked"),
    Column("UNUSED", lambda item: _whole(item["unused"]["mid"]), right=True),
    Column("OVER", lambda item: _whole(item["overshoot"]["mid"]), right=True),
    # The worst of all seeds: a limit that was broken once was broken.
    Column("BROKEN", lambda item: _whole(item["limits_broken"]["high"]), right=True),
    Column("COST", lambda item: _thousandths(item["cost_milli"]["mid"]), right=True),
)
