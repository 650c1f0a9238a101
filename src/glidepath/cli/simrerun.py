"""`glidepath sim rerun`: a public log of jobs is played again on one machine, rule beside rule.

A file of the Standard Workload Format comes in; a row for each rule, with ratios to the first, and a picture
go out. It refuses to know how a rule decides: `glidepath.sim.rerun` does, and is imported only to play.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import OUTPUT, need, span
from glidepath.cli.simverb import PLOT, SimVerb
from glidepath.cli.simview import DIGITS, file_name
from glidepath.cli.text import did_you_mean
from glidepath.cli.verb import Answer, Column, Exit, Item, Options, Stop
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.sim.rerun.rules import Rerun
    from glidepath.sim.rerun.trace import Logged, Trace

RULES = ("easy", "steady")  # The rule that clusters run today, and ours.


def _time(name: str) -> Callable[[Item], str]:
    return lambda item: span(round(item[name]))


def _ratio(name: str, *, wide: bool = False) -> Column:
    def shown(item: Item) -> str:
        found = item["ratio"][name]
        return "" if found is None else f"{found:.2f}"

    return Column("RATIO", shown, wide=wide, right=True)


COLUMNS = (
    Column("RULE", lambda item: item["rule"]),
    Column("JOBS", lambda item: f"{item['jobs']:,}", right=True),
    Column("WAIT MEAN", _time("wait_mean_s"), right=True),
    _ratio("wait_mean_s"),
    Column("P95", _time("wait_p95_s"), right=True),
    _ratio("wait_p95_s", wide=True),
    Column("LONGEST", _time("wait_max_s"), right=True),
    _ratio("wait_max_s", wide=True),
    Column("SLOWDOWN", lambda item: f"{item['slowdown_mean']:,.2f}", right=True),
    _ratio("slowdown_mean"),
    Column("USED", lambda item: f"{100 * item['used']:.1f} %", right=True),
)


class SimRerun(SimVerb):
    """Play a log of jobs again under one or several rules: one table, with ratios to the first, and one plot

    LOG is a file in the Standard Workload Format, .swf or .swf.gz, for example of the Parallel Workloads
    Archive. All jobs come as they came then, to one empty machine, and ask for what they asked for then.
    With `--nodes`, LOG is a list of pods and FILE one of nodes, both .csv or .csv.gz as in Alibaba's GPU
    trace of 2023, and jobs are placed on these nodes with their CPUs, memory and shares of GPUs.
    """

    options: ClassVar[Options] = {
        "log": {"args": ("log",), "metavar": "LOG", "help": "the log, .swf or .swf.gz"},
        "rule": {
            "args": ("--rule",),
            "action": "append",
            "metavar": "NAME",
            "help": (
                "fcfs, easy, conservative, sjf, f1, wfp3 or steady; may be repeated, ratios are to the first "
                f"(default: {', '.join(RULES)})"
            ),
        },
        "nodes": {
            "args": ("--nodes",),
            "metavar": "FILE",
            "help": "place the pods of LOG on these nodes (rules: easy and steady)",
        },
        "processors": {
            "args": ("--processors",),
            "type": argument.count,
            "metavar": "N",
            "help": "how many the machine has (default: MaxProcs or MaxNodes of the log's header)",
        },
        "first": {
            "args": ("--first",),
            "type": argument.count,
            "default": 1,
            "metavar": "N",
            "help": "begin with the Nth job in order of arrival (default: 1)",
        },
        "jobs": {
            "args": ("--jobs",),
            "type": argument.count,
            "metavar": "N",
            "help": "so many jobs and no more (default: all)",
        },
        **PLOT,
        "gantt_from": {
            "args": ("--gantt-from",),
            "type": argument.duration,
            "metavar": "SPAN",
            "help": "show who ran where from this long after the first job (default: where most is in use)",
        },
        "gantt_span": {
            "args": ("--gantt-span",),
            "type": argument.duration,
            "default": 86400,
            "metavar": "SPAN",
            "help": "how long a part of the log is shown so (default: 1d)",
        },
        **OUTPUT,
    }

    def run(self) -> int:
        given = self.given
        need(given["config"] is None, "`sim rerun` reads no configuration; everything is in its options")
        for name in ("processors", "first", "jobs"):
            need(given[name] != 0, f"`--{name}`: write 1 or more")
        need(given["gantt_span"], "`--gantt-span`: show at least `1s`")
        self.check_plot()
        names = self.names()
        if given["nodes"] is not None:
            need(given["processors"] is None, "`--processors`: `--nodes` says what there is")
            return self.told(*self.on_nodes(names))
        log = self.log()
        trace = self.part(log)
        processors = self.processors(log, trace)
        return self.told(trace, processors, self.reruns(trace, processors, names))

    def told(self, trace: Trace, processors: int, reruns: list[Rerun]) -> int:
        """The table and the picture."""
        given = self.given
        items = tuple(item_of(each, reruns[0], given["log"], processors) for each in reruns)
        self.show(Answer("SimRerunList", items, COLUMNS))
        if len(reruns) > 1:
            self.caller.say(f"ratios are to `{reruns[0].rule}`; of waits and slowdown less is better")
        picture = file_name("sim-rerun", Path(given["log"]).name.split(".swf")[0].split(".csv")[0])
        drew = self.draw(picture, lambda path: self.plotted(trace, processors, reruns, path))
        return Exit.DONE if drew else Exit.FAILED

    def names(self) -> list[str]:
        """The rules that were asked for, each once."""
        known = list(self.rules())
        names = list(dict.fromkeys(self.given["rule"] or RULES))
        for name in names:
            if name not in known:
                message = f"there is no rule `{one_line(name)}`{did_you_mean(name, known)}"
                hint = f"there are {', '.join(f'`{each}`' for each in known)}"
                raise Stop(message, code=Exit.USAGE, hint=hint)
        return names

    def rules(self) -> Any:
        try:
            from glidepath.sim.rerun.rules import RULES as KNOWN
            from glidepath.sim.rerun.rules import is_compiled
        except ImportError as error:
            why = one_line(str(error))
            raise Stop(f"reruns need numpy ({why})", hint="pip install 'glidepath[schedule]'") from None
        if not is_compiled():
            hint = "`pip install 'glidepath[fast]'`"
            self.caller.say(f"numba is not installed: this takes a hundred times as long as with {hint}")
        return KNOWN

    def log(self) -> Logged:
        from glidepath.sim.rerun.trace import logged
        from glidepath.sim.swf import SwfError

        path = Path(self.given["log"])
        if not self.there(path):
            raise Stop(f"there is no file `{one_line(str(path))}`", code=Exit.NOT_FOUND)
        self.progress("reading the log")
        try:
            return logged(path)
        except SwfError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        finally:
            self.progress("")

    def on_nodes(self, names: list[str]) -> tuple[Trace, int, list[Rerun]]:
        """Pods played on nodes; those that never ran, or could not run there, are left out and counted."""
        from glidepath.sim.rerun.gputrace import GpuTraceError, cluster_of, pods_of
        from glidepath.sim.rerun.placed import NODE_RULES, Timed, rerun_on

        for name in names:
            need(name in NODE_RULES, f"`--rule {name}`: on nodes there are {' and '.join(NODE_RULES)}")
        for path in (self.given["log"], self.given["nodes"]):
            if not self.there(Path(path)):
                raise Stop(f"there is no file `{one_line(path)}`", code=Exit.NOT_FOUND)
        try:
            cluster, pods = cluster_of(Path(self.given["nodes"])), pods_of(Path(self.given["log"]))
        except GpuTraceError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        first, count = self.given["first"], self.given["jobs"]
        ran = [Timed(pod.job, max(1, pod.run_s)) for pod in pods if pod.run_s is not None]
        need(first <= len(ran), f"`--first`: no more than {len(ran):,} pods can be played")
        jobs = ran[first - 1 : None if count is None else first - 1 + count]
        found = []
        try:
            for place, name in enumerate(names, start=1):
                self.progress(f"placing {len(jobs):,} pods with {name}, {place} of {len(names)}")
                found.append(rerun_on(cluster, jobs, name))
        except ValueError as error:
            raise Stop(str(error), code=Exit.USAGE) from None
        finally:
            self.progress("")
        trace, processors, _ = found[0]
        refused = len(jobs) - len(trace)
        rest = f", {len(pods) - len(ran):,} never ran, {refused:,} fit on no node"
        self.caller.say(f"{len(trace):,} pods on {len(cluster.nodes):,} nodes, {processors:,} CPUs{rest}")
        return trace, processors, [rerun for _, _, rerun in found]

    def there(self, path: Path) -> bool:
        try:
            return path.exists()
        except (OSError, ValueError):
            return False

    def part(self, log: Logged) -> Trace:
        """The jobs that were asked for."""
        first, count = self.given["first"], self.given["jobs"]
        jobs = len(log.trace)
        need(first <= jobs, f"`--first`: the log has no more than {jobs:,} jobs that can be played")
        trace = log.trace.part(first - 1, jobs if count is None else count)
        from_s, last_s = self.given["gantt_from"], int(trace.submit.max() - trace.submit.min())
        late = from_s is not None and from_s > last_s
        need(not late, f"`--gantt-from`: the last job comes {span(last_s)} after the first; write no more")
        return trace

    def processors(self, log: Logged, trace: Trace) -> int:
        """What the machine has; every job must find room on it."""
        path = one_line(str(self.given["log"]))
        largest = int(trace.procs.max())
        found = self.given["processors"] or log.processors
        if found is None:
            message = f"{path}: its header does not say how many processors there are"
            hint = f"give them with `--processors N`; the largest job asks for {largest:,}"
            raise Stop(message, code=Exit.USAGE, hint=hint)
        if largest > found:
            too_large = (trace.procs > found).nonzero()[0]
            one = int(too_large[0])
            number = int(log.number[self.given["first"] - 1 + one])
            many = "1 job asks" if len(too_large) == 1 else f"{len(too_large):,} jobs ask"
            message = (
                f"{path}: {many} for more than the {found:,} processors of the machine, "
                f"the first is job {number} with {int(trace.procs[one]):,}"
            )
            raise Stop(message, code=Exit.USAGE, hint=f"give `--processors {largest}` or more")
        rest = "".join(f", {count:,} left out ({why})" for why, count in log.left_out.items())
        shown = f"{len(trace):,} of {len(log.trace):,}" if len(trace) < len(log.trace) else f"{len(trace):,}"
        last = span(int(trace.submit.max() - trace.submit.min()))
        self.caller.say(f"{path}: {shown} jobs in {last} on {found:,} processors{rest}")
        return int(found)

    def reruns(self, trace: Trace, processors: int, names: list[str]) -> list[Rerun]:
        from glidepath.sim.rerun.rules import rerun

        found = []
        try:
            for place, name in enumerate(names, start=1):
                self.progress(f"playing {len(trace):,} jobs with {name}, {place} of {len(names)}")
                found.append(rerun(trace, processors, name))
        finally:
            self.progress("")
        return found

    def plotted(self, trace: Trace, processors: int, reruns: list[Rerun], path: Path) -> None:
        from glidepath.sim.rerun.picture import View, plot_rerun

        given = self.given
        name = Path(given["log"]).name
        view = View(name, trace, processors, from_s=given["gantt_from"], span_s=given["gantt_span"])
        plot_rerun(view, reruns, path)


def item_of(rerun: Rerun, first: Rerun, log: str, processors: int) -> dict[str, Any]:
    """All numbers of one rule, and how they stand to those of the first."""
    numbers = {
        "wait_mean_s": (rerun.score.wait_s_mean, first.score.wait_s_mean),
        "wait_p95_s": (rerun.score.wait_s_p95, first.score.wait_s_p95),
        "wait_max_s": (rerun.score.wait_s_max, first.score.wait_s_max),
        "slowdown_mean": (rerun.score.slowdown_mean, first.score.slowdown_mean),
        "used": (rerun.score.used, first.score.used),
    }
    return {
        "name": rerun.rule,
        "rule": rerun.rule,
        "log": log,
        "processors": processors,
        "jobs": rerun.score.jobs,
        **{name: round(own, DIGITS) for name, (own, _) in numbers.items()},
        "ratio": {name: round(own / base, DIGITS) if base else None for name, (own, base) in numbers.items()},
    }
