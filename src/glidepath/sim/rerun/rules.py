"""The rules that a log can be played with, by name, and what comes of it in the terms of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType

import numpy as np

from glidepath.core.schedule.compiled import NEVER, Floats, Ints
from glidepath.core.schedule.order import Kind
from glidepath.core.schedule.placing import Way
from glidepath.sim.rerun.conservative import play_conservative
from glidepath.sim.rerun.run import Rule, play_of, started
from glidepath.sim.rerun.trace import Trace

ALL = 1 << 40
EASY = Way(keep=1, past=True)
RULES = {
    "fcfs": Rule(Kind.ARRIVAL, Way(keep=0, past=False)),
    "easy": Rule(Kind.ARRIVAL, EASY),
    # Everybody has a place; it is played by its own loop, because places outlive the pass.
    "conservative": Rule(Kind.ARRIVAL, Way(keep=ALL, past=True)),
    "sjf": Rule(Kind.KEY, EASY),
    "f1": Rule(Kind.KEY, EASY),
    "wfp3": Rule(Kind.WAIT_OVER_LIMIT, EASY),
    "steady": Rule(Kind.STEADY, EASY),
}
# Below this a job is so short that its slowdown says nothing.
FLOOR_S = 10


@dataclass(frozen=True)
class Score:
    """How jobs fared. Slowdown: from submission to the end over the run time, at least ten seconds of it."""

    jobs: int
    wait_s_mean: float
    wait_s_p95: int  # of the sorted waits the one at floor(0.95 (n - 1))
    wait_s_max: int
    slowdown_mean: float  # bounded: never below 1
    used: float  # share of the processors from the first submission to the last end


@dataclass(frozen=True)
class Rerun:
    """A log as it was played with one rule."""

    rule: str
    start: Ints  # of each job
    score: Score


def rerun(trace: Trace, processors: int, name: str) -> Rerun:
    start = played(trace, processors, name)
    return Rerun(name, start, score(trace, start, processors))


def is_compiled() -> bool:
    """Whether logs are played by machine code, or else a hundred times slower."""
    return not isinstance(play_conservative, FunctionType)


def keys(trace: Trace, name: str) -> Floats | None:
    """The fixed number of each job, for the rules that order by one; smallest first."""
    limit, submit = trace.limit.astype(np.float64), trace.submit.astype(np.float64)
    if name == "sjf":
        return limit
    if name == "f1":
        return np.asarray(np.log10(limit) * trace.procs + 870 * np.log10(np.maximum(submit, 1)))
    return None


def played(trace: Trace, processors: int, name: str) -> Ints:
    """When each job starts under the rule of that name."""
    if name == "conservative":
        play = play_of(trace, processors, RULES[name])
        play_conservative(play)
        return play.board.work.at
    return started(trace, processors, RULES[name], keys(trace, name))


def score(trace: Trace, start: Ints, processors: int) -> Score:
    wait = start - trace.submit
    if len(trace) == 0 or start.max() == NEVER:
        raise ValueError("a job never started; it asks for more processors than there are")
    slowdown = np.maximum(1.0, (wait + trace.run) / np.maximum(trace.run, FLOOR_S))
    span = int((start + trace.run).max() - trace.submit.min())
    return Score(
        jobs=len(trace),
        wait_s_mean=float(wait.mean()),
        wait_s_p95=int(np.sort(wait)[int(0.95 * (len(wait) - 1))]),
        wait_s_max=int(wait.max()),
        slowdown_mean=float(slowdown.mean()),
        used=float((trace.procs * trace.run).sum() / (processors * max(span, 1))),
    )
