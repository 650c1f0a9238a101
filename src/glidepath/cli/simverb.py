"""What the verbs of `glidepath sim` share: how a scenario is found, a policy chosen, a picture drawn.

Words of the caller come in, scenarios and rules go out; every way in which there is none is an end for
people. The simulator is imported only when something is run.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glidepath.cli import argument
from glidepath.cli.output import drawn, need, span
from glidepath.cli.session import refused
from glidepath.cli.text import did_you_mean
from glidepath.cli.verb import Answer, Exit, Options, Stop, Verb
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.core.provision.offer import PolicyRule
    from glidepath.core.provision.pressure import PolicyKind
    from glidepath.sim.scenario import Scenario

DRAWN_BELOW = 1_000_000  # A seed that is drawn is written down and typed again by people.
BROKEN_SHOWN_MAX = 20
_NUMBER = re.compile(r"[0-9]{1,18}")


def seed_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ArgumentTypeError(f"`{one_line(text)}` is not a seed; write a whole number such as `17`")
    return int(text)


def drawn_seed() -> int:
    from secrets import randbelow

    return randbelow(DRAWN_BELOW)


def cadence(text: str) -> int:
    seconds = argument.duration(text)
    if not seconds:
        raise ArgumentTypeError("a cycle takes at least `1s`")
    return seconds


def rates(text: str) -> dict[str, int]:
    """`evictions=5,crashes=10`: faults by name, each with how often of a thousand it strikes."""
    from glidepath.sim.fault import RATE_MAX, kind_of

    found = {}
    for part in text.split(","):
        name, _, rate = (word.strip() for word in part.partition("="))
        try:
            kind_of(name)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None
        if not _NUMBER.fullmatch(rate) or int(rate) > RATE_MAX:
            given = one_line(part)
            raise ArgumentTypeError(f"`{given}` is not `NAME=RATE` with a rate from 0 to {RATE_MAX}")
        found[name] = int(rate)
    return found


def policy_names(text: str) -> list[str]:
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise ArgumentTypeError("names no policy; write for example `seed,steady`")
    return found


TRACE: Options = {
    "trace": {
        "args": ("--trace",),
        "metavar": "FILE",
        "help": "the trace of `grid`, or of a scenario file of kind `trace`; .swf or .swf.gz",
    }
}
PLOT: Options = {
    "plot": {
        "args": ("--plot",),
        "metavar": "FILE",
        "help": "where the picture goes: .svg, .png or .pdf (default: an .svg in this folder)",
    },
    "no_plot": {"args": ("--no-plot",), "action": "store_true", "help": "draw no picture"},
}


class SimVerb(Verb):
    """Base of the verbs that run something."""

    def source(self, word: str) -> Callable[[int], Scenario]:
        """What makes the scenario from a seed."""
        from glidepath.config import ConfigError
        from glidepath.sim.builtin import ENDING, NoTrace, UnknownScenario, source_of

        message = "`sim` reads no configuration by itself, so that a run can be repeated anywhere"
        need(self.given["config"] is None, message, hint='write `config = "FILE"` in a scenario file')
        trace = self.given["trace"]
        for path in (word if word.endswith(ENDING) else None, trace):
            if path is not None and not Path(path).exists():
                raise Stop(f"there is no file `{one_line(path)}`", code=Exit.NOT_FOUND)
        try:
            return source_of(word, None if trace is None else Path(trace))
        except UnknownScenario as error:
            raise Stop(str(error), code=Exit.NOT_FOUND, hint="`glidepath sim list` shows them") from None
        except NoTrace as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        except ConfigError as error:
            raise refused(self.caller, error, "scenario") from None

    def surveyed(self, scenario: Scenario) -> Scenario:
        """The same; where it plays a trace, that has been read once and is told."""
        from glidepath.sim.builtin import Trace
        from glidepath.sim.swf import SwfError

        jobs = getattr(scenario.workload, "jobs", scenario.workload)
        if not isinstance(jobs, Trace):
            return scenario
        self.progress("reading the trace")
        try:
            found = jobs.survey()
        except SwfError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        finally:
            self.progress("")
        rest = "".join(f", {count:,} left out ({why})" for why, count in found.left_out.items())
        self.caller.say(f"{jobs.path}: {found.jobs:,} jobs in {span(found.last_s)}{rest}")
        return replace(scenario, end_s=scenario.end_s or found.last_s + 1)

    def kind(self, name: str) -> PolicyKind:
        """The policy of that name."""
        from glidepath.plugins import POLICIES, PluginError, UnknownPlugin, names
        from glidepath.policy import policy_kind

        try:
            return policy_kind(name)
        except UnknownPlugin:
            known = names(POLICIES)
            message = f"there is no policy `{one_line(name)}`{did_you_mean(name, known)}"
            hint = f"installed are {', '.join(f'`{one_line(each)}`' for each in known)}"
            raise Stop(message, code=Exit.USAGE, hint=hint) from None
        except PluginError as error:
            raise Stop(str(error), code=Exit.USAGE) from None

    def rule(self, scenario: Scenario, name: str | None, *, word: str) -> tuple[PolicyRule, int | None]:
        """The policy of that name and the cadence of the system that it comes from.

        The one that a scenario file names through its configuration keeps its numbers and its cadence,
        because it is the one that would be deployed.
        """
        from glidepath.core.provision.offer import PolicyRule
        from glidepath.sim.builtin import ENDING

        own = scenario.rules.policy
        if name is None or (name == own.name and word.endswith(ENDING)):
            return own, None
        return PolicyRule(name), getattr(self.kind(name), "CYCLE_S", None)

    def check_plot(self) -> None:
        """Looked at before the run, which may take an hour."""
        from glidepath.sim.page import METADATA

        given = self.given["plot"]
        need(not (given and self.given["no_plot"]), "give `--plot FILE` or `--no-plot`, not both")
        if given:
            path, endings = Path(given), ", ".join(METADATA)
            need(path.suffix.lower() in METADATA, f"`--plot`: `{one_line(given)}` must end in {endings}")
            folder = one_line(str(path.parent))
            need(path.parent.is_dir(), f"`--plot`: there is no folder `{folder}`", hint="make it first")

    def draw(self, default: str, draw: Callable[[Path], None]) -> bool:
        """Whether all is there that was asked for; a picture that nobody asked for may fail."""
        from glidepath.sim.page import PlotError

        if self.given["no_plot"]:
            return True
        path = Path(self.given["plot"] or default)
        try:
            draw(path)
        except PlotError as error:
            self.caller.say(f"no plot: {error}")
            return self.given["plot"] is None
        self.caller.say(f"plot: {path}")
        return True

    def progress(self, text: str) -> None:
        """One line that is drawn over; only where somebody looks."""
        if self.caller.err.isatty():
            self.caller.err.write(f"\r\x1b[K{text}")
            self.caller.err.flush()

    def show(self, answer: Answer) -> None:
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.out.flush()

    def tell_broken(self, what: Sequence[str], repeat: str) -> None:
        """Each promise that was not kept, and last the one line that shows it again."""
        for each in what[:BROKEN_SHOWN_MAX]:
            self.caller.say(f"broken: {each}")
        if len(what) > BROKEN_SHOWN_MAX:
            self.caller.say(f"and {len(what) - BROKEN_SHOWN_MAX} more")
        self.caller.say(f"repeat it with `{repeat}`")
