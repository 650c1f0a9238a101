"""What `glidepath up` shows while it runs: a picture that renews itself on a terminal, lines elsewhere.

Cycles and jobs come in, text goes out. It decides nothing, and all foreign text is made safe first.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from glidepath.core.cycle import Decision, Did, Done, Plan
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotAction,
    PilotPhase,
    Submit,
    Track,
    Withdraw,
    WriteOff,
)
from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.view import Frame

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from glidepath.store.job import Job

EVENTS_SHOWN = 12
JOBS_SHOWN = 10
PILOTS_SHOWN = 12
# A reason with all its numbers; cutting it in a log would lose what the log is for.
LINE_LETTERS_MAX = 2000


def stamp(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))


def action_lines(plan: Plan[PilotAction], outcomes: Iterable[Did]) -> list[str]:
    """One sentence for every action of a plan, with its reason, and one for every act that did not work."""
    lines = []
    for decision in plan.decisions:
        line = _action_line(decision)
        if line:
            lines.append(line)
    for did in outcomes:
        if not isinstance(did.outcome, Done):
            lines.append(f"{did.verb} {did.about}: {type(did.outcome).__name__.lower()}, {did.outcome.why}")
    return [one_line(line, letters_max=LINE_LETTERS_MAX) for line in lines]


def _action_line(decision: Decision[PilotAction]) -> str:
    why = str(decision.reason)
    match decision.action:
        case Submit(names=names, offer=offer):
            return f"ask for {_pilots(len(names))} at {offer}: {why}"
        case Withdraw(site, pilots):
            return f"withdraw {_pilots(len(pilots))} at {site}: {why}"
        case Drain(site, pilots):
            return f"drain {_pilots(len(pilots))} at {site}: {why}"
        case Clear(site, ended) | WriteOff(site, ended):
            return (
                f"{_pilots(len(ended))} at {site} ended ({', '.join(sorted({e.why for e in ended}))}): {why}"
            )
        case _:
            return ""


def _pilots(count: int) -> str:
    return "1 pilot" if count == 1 else f"{count} pilots"


def demand_rows(plan: Plan[PilotAction]) -> list[tuple[str, str]]:
    return [
        (one_line(d.about.removeprefix("demand:")), one_line(str(d.reason), letters_max=LINE_LETTERS_MAX))
        for d in plan.decisions
        if d.about.startswith("demand:")
    ]


class Lines:
    """For pipes, logs and tests: what changed, once, with the time."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self._demand: dict[str, str] = {}
        self._phases: dict[str, PilotPhase] = {}
        self._jobs: dict[int, str] = {}
        self._trouble = ""

    def show(self, frame: Frame) -> None:
        at = stamp(frame.wall)
        if frame.trouble != self._trouble:
            self._trouble = frame.trouble
            self._line(at, one_line(frame.trouble or "all is well again"))
        demand = dict(demand_rows(frame.plan))
        for name, why in demand.items():
            if self._demand.get(name) != why:
                self._line(at, f"demand {name}: {why}")
        self._demand = demand
        for line in action_lines(frame.plan, frame.outcomes):
            self._line(at, line)
        for line in self._pilot_lines(frame.memory.tracks):
            self._line(at, line)
        for job in frame.jobs:
            if self._jobs.get(job.id) != job.state.value:
                self._jobs[job.id] = job.state.value
                self._line(at, job_line(job))

    def _pilot_lines(self, tracks: tuple[Track, ...]) -> list[str]:
        lines = [
            one_line(f"pilot {track.name} is {track.phase.value}")
            for track in tracks
            if self._phases.get(track.name) is not track.phase
        ]
        self._phases = {track.name: track.phase for track in tracks}
        return lines

    def _line(self, at: str, text: str) -> None:
        print(at, text, file=self.out, flush=True)

    def say(self, text: str) -> None:
        print(one_line(text, letters_max=LINE_LETTERS_MAX), file=self.out, flush=True)

    def close(self) -> None:
        pass


def job_line(job: Job) -> str:
    end = f", {job.reason}" if job.reason else ""
    if job.exit_code is not None and not job.reason:
        end = f", exit code {job.exit_code}"
    return one_line(f"job {job.id} ({job.spec.name or job.spec.command[0]}) is {job.state.value}{end}")


class Picture:
    """For people at a terminal: demand, offers, pilots, jobs and the last events, renewed in place."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = console or Console()
        self.events: deque[tuple[str, str]] = deque(maxlen=EVENTS_SHOWN)
        self.frame: Frame | None = None
        self.live = Live(console=self.console, auto_refresh=False, transient=False)
        self.live.start()

    def show(self, frame: Frame) -> None:
        at = stamp(frame.wall)
        self.events.extend((at, line) for line in action_lines(frame.plan, frame.outcomes))
        self.frame = frame
        self.live.update(self._drawn(), refresh=True)

    def say(self, text: str) -> None:
        self.events.append((stamp(time.time()), one_line(text)))
        if self.frame is None:
            self.console.print(one_line(text), markup=False)
        else:
            self.live.update(self._drawn(), refresh=True)

    def close(self) -> None:
        self.live.stop()

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        frame = self.frame
        assert frame is not None
        counts = ", ".join(f"{number} {state}" for state, number in frame.counts.items() if number) or "none"
        head = Text.assemble(
            ("glidepath ", "bold"), f"cycle {frame.plan.cycle} at {stamp(frame.wall)}; jobs: {counts}"
        )
        parts: list[RenderableType] = [head]
        if frame.trouble:
            parts.append(Text(one_line(frame.trouble), style="bold red"))
        for part in (self._demand(frame), self._offers(frame), self._pilots(frame), self._jobs(frame)):
            parts += [Text(), part]
        if self.events:
            parts.append(Text())
            parts.append(Text("\n".join(f"{at} {line}" for at, line in self.events), style="dim"))
        parts.append(
            Text("Ctrl-C ends the pilots and gives their jobs back; a second one kills", style="dim")
        )
        return Group(*parts)

    def _table(self, *columns: str) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
        for column in columns:
            number = column.isupper() and column in ("IDLE", "BUSY", "PENDING", "STARTING", "LIVE", "RUN")
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        return table

    def _demand(self, frame: Frame) -> RenderableType:
        table = self._table("DEMAND", "WHY")
        for name, why in demand_rows(frame.plan) or [("none", "no job waits or runs")]:
            table.add_row(_plain(name), _plain(why))
        return table

    def _offers(self, frame: Frame) -> RenderableType:
        table = self._table("OFFER", "PENDING", "STARTING", "IDLE", "BUSY", "WHY")
        reasons = {
            d.about.removeprefix("offer:"): str(d.reason)
            for d in frame.plan.decisions
            if d.about.startswith("offer:")
        }
        for offer, why in sorted(reasons.items()):
            mine = [track.phase for track in frame.memory.tracks if track.offer == offer]
            waiting = mine.count(PilotPhase.PENDING) + mine.count(PilotPhase.EXPECTED)
            numbers = (
                waiting,
                *(mine.count(phase) for phase in (PilotPhase.STARTING, PilotPhase.IDLE, PilotPhase.BUSY)),
            )
            table.add_row(
                _plain(one_line(offer)), *(str(number) for number in numbers), _plain(one_line(why))
            )
        return table

    def _pilots(self, frame: Frame) -> RenderableType:
        table = self._table("PILOT", "PHASE", "FOR", "RUN", "ENDS IN")
        if not frame.memory.tracks:
            table.add_row("none")
        now = frame.plan.at
        for track in frame.memory.tracks[:PILOTS_SHOWN]:
            ends = "" if track.ends_at is None else shown_duration(track.ends_at - now)
            since = shown_duration(now - track.since)
            table.add_row(_plain(one_line(track.name)), track.phase.value, since, str(track.jobs_run), ends)
        return table

    def _jobs(self, frame: Frame) -> RenderableType:
        table = self._table("JOB", "NAME", "STATE", "PILOT", "NOTE")
        for job in frame.jobs[:JOBS_SHOWN]:
            end = "" if job.exit_code is None else f"exit code {job.exit_code}"
            note = one_line(job.reason or end)
            table.add_row(
                str(job.id),
                _plain(one_line(job.spec.name)),
                job.state.value,
                _plain(one_line(job.pilot or "")),
                _plain(note),
            )
        return table


def _plain(text: str) -> RenderableType:
    """As it stands: square brackets in a job's name are no markup of ours."""
    from rich.text import Text

    return Text(text)


if TYPE_CHECKING:
    from rich.table import Table
