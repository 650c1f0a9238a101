"""`glidepath sim`: made-up worlds in virtual time, run by themselves or policy beside policy.

Scenarios, seeds and names of policies come in; scores, plots and every promise that was broken go out. It
refuses to know how a world works: `glidepath.sim` does, and is imported only when something is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.output import OUTPUT, drawn, need, span
from glidepath.cli.simreplay import SimReplay
from glidepath.cli.simrerun import SimRerun
from glidepath.cli.simverb import PLOT, TRACE, SimVerb, cadence, drawn_seed, policy_names, rates, seed_number
from glidepath.cli.simview import COMPARED, compare_item, file_name, repeated, rules_item, score_item, told
from glidepath.cli.verb import Answer, Exit, Item, Noun, Options, Stop, Verb

if TYPE_CHECKING:
    from glidepath.sim.keep import Keeps
    from glidepath.sim.scenario import Scenario
    from glidepath.sim.score import Result
    from glidepath.sim.study import Finished
    from glidepath.sim.together import Task

# What was published, from the seed of the project to its default.
POLICIES = ("seed", "prp", "glideinwms", "pyglidein", "one-to-one", "steady")
SEEDS = 3  # Few enough to wait for, enough to tell luck from a difference.
SEEDS_MAX = 1000


class List(Verb):
    """List the built-in scenarios, the kinds of workloads, the faults and the policies"""

    options: ClassVar[Options] = {**OUTPUT}

    def run(self) -> int:
        parts = (
            ("scenarios, for `glidepath sim run NAME`", list(scenarios())),
            ("workloads, for `kind` of `[workload]` in a scenario file", list(workloads())),
            (
                "faults, for `--faults NAME=RATE` and `[faults]`; the rate is how often of a thousand",
                list(faults()),
            ),
            (
                "policies, for `--policy NAME` and `--policies NAME,...`, with their own cadence",
                list(policies()),
            ),
        )
        items = tuple(item for _, found in parts for item in found)
        answer = Answer("SimPartList", items, lines=tuple(sections(parts)))
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        return Exit.DONE


def sections(parts: Sequence[tuple[str, Sequence[Item]]]) -> Iterator[str]:
    """Each part under its title, aligned; what an item is about comes last."""
    for title, items in parts:
        if title != parts[0][0]:
            yield ""
        yield f"{title}:"
        names = max((len(item["name"]) for item in items), default=0)
        rests = max((len(_when(item)) for item in items), default=0)
        for item in items:
            yield f"  {item['name']:<{names}}  {f'{_when(item):<{rests}}  ' if rests else ''}{item['about']}"


def _when(item: Item) -> str:
    if "every" in item:
        return f"per {item['every']}"
    return f"every {span(item['cycle_s'])}" if item.get("cycle_s") else ""


def scenarios() -> Iterable[Item]:
    from glidepath.sim.builtin import BUILTIN

    for name, builtin in BUILTIN.items():
        yield {"what": "scenario", "name": name, "about": builtin.about}


def workloads() -> Iterable[Item]:
    from glidepath.sim.builtin import TRACE as KIND
    from glidepath.sim.workloads import KINDS

    for name, kind in KINDS.items():
        yield {"what": "workload", "name": name, "about": first_sentence(kind.options.__doc__)}
    yield {"what": "workload", "name": KIND, "about": "jobs of a real system, from a file in the SWF format"}


def faults() -> Iterable[Item]:
    from glidepath.sim.fault import NAMES, kind_of

    for name in NAMES:
        kind = kind_of(name)
        yield {"what": "fault", "name": name, "about": kind.about, "every": kind.every}


def policies() -> Iterable[Item]:
    from inspect import getmodule

    from glidepath.plugins import POLICIES as GROUP
    from glidepath.plugins import PluginError, names
    from glidepath.policy import policy_kind

    for name in names(GROUP):
        try:
            kind = policy_kind(name)
        except PluginError as error:
            yield {"what": "policy", "name": name, "about": str(error)}
            continue
        about = first_sentence(getattr(getmodule(type(kind)), "__doc__", "").replace(f"`{name}`: ", "", 1))
        more = {"cycle_s": getattr(kind, "CYCLE_S", None), "numbers": dict(kind.NUMBERS)}
        yield {"what": "policy", "name": name, "about": about, **more}


def first_sentence(text: str | None) -> str:
    """Of a docstring, on one line, as part of a list."""
    sentence = " ".join((text or "").strip().split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:]


class Run(SimVerb):
    """Run a scenario: prints the seed first, then scores, and draws a plot; exits with 1 when a promise broke

    SCENARIO is the name of a built-in one (see `glidepath sim list`) or a path that ends in `.toml`.
    """

    options: ClassVar[Options] = {
        "scenario": {"args": ("scenario",), "metavar": "SCENARIO", "help": "a name, or a file in TOML"},
        "seed": {
            "args": ("--seed",),
            "type": seed_number,
            "metavar": "N",
            "help": "what chance is drawn from; the same seed gives the same run (default: a new one)",
        },
        "policy": {
            "args": ("--policy",),
            "metavar": "NAME",
            "help": "decide with this policy, at its own cadence (default: the scenario's)",
        },
        "cycle": {
            "args": ("--cycle",),
            "type": cadence,
            "metavar": "SPAN",
            "help": "time between two cycles (default: the policy's or the scenario's)",
        },
        "cycles": {
            "args": ("--cycles",),
            "type": argument.count,
            "metavar": "N",
            "help": "cycles until faults and arrivals stop (default: until the scenario is over)",
        },
        **TRACE,
        "faults": {
            "args": ("--faults",),
            "type": rates,
            "metavar": "NAME=RATE,...",
            "help": "faults to add; the rate is how often of a thousand, see `glidepath sim list`",
        },
        **PLOT,
        **OUTPUT,
    }

    def run(self) -> int:
        from glidepath.sim.study import rules_under

        given = self.given
        need(given["cycles"] != 0, "`--cycles`: write 1 or more")
        self.check_plot()
        if given["policy"] is not None:
            self.kind(given["policy"])
        made = self.source(given["scenario"])
        seed = drawn_seed() if given["seed"] is None else given["seed"]
        self.caller.say(f"seed {seed}")
        scenario = made(seed)
        scenario = replace(scenario, rates={**scenario.rates, **(given["faults"] or {})})
        rule, own_cycle_s = self.rule(scenario, given["policy"], word=given["scenario"])
        rules = rules_under(scenario.rules, rule, given["cycle"] or own_cycle_s)
        scenario = replace(self.surveyed(scenario), rules=rules)
        finished, replayed = self.study(scenario, seed)
        self.progress("")
        repeat = self.repeated(seed)
        item = {
            "name": f"{scenario.name}-{rule.name}-{seed}",
            **score_item(finished.result.score),
            **rules_item(rules),
            "left": finished.left,
            "faults": dict(finished.faults),
            "lives": finished.lives,
            "replayed": replayed,
            "broken": list(finished.broken),
            "repeat": repeat,
        }
        self.show(Answer("SimRunList", (item,), lines=tuple(told(finished, rules, replayed))))
        picture = file_name("sim", scenario.name, rule.name, seed)
        drew = self.draw(picture, lambda path: plotted(finished.result, path))
        if finished.broken:
            self.tell_broken(finished.broken, repeat)
        return Exit.FAILED if finished.broken or not drew else Exit.DONE

    def study(self, scenario: Scenario, seed: int) -> tuple[Finished, int]:
        """What the run gave, and how many of its cycles were decided again.

        Under faults every cycle is kept as the journal would have it, and a plan that comes out otherwise
        the second time is a promise that was broken, too.
        """
        from glidepath.sim.keep import Encoded
        from glidepath.sim.study import replayed, simulated

        keeps: Keeps | None = Encoded() if scenario.rates else None
        cycles = self.given["cycles"]
        finished = simulated(scenario, seed, cycles=cycles, keeps=keeps, progress=self.part)
        if keeps is None:
            return finished, 0
        self.progress("every plan is decided again")
        count, differ = replayed(keeps)
        return replace(finished, broken=(*finished.broken, *differ)), count

    def part(self, cycles: int, part: float) -> None:
        done = "the rest is served, " if part >= 1 else f"{100 * part:.0f} %, " if part else ""
        self.progress(f"{done}{cycles:,} cycles")

    def repeated(self, seed: int) -> str:
        given = self.given
        return repeated(
            given["scenario"],
            seed,
            cycles=given["cycles"],
            policy=given["policy"],
            cycle=f"{given['cycle']}s" if given["cycle"] else None,
            trace=given["trace"],
            faults=",".join(f"{name}={rate}" for name, rate in (given["faults"] or {}).items()),
        )


def plotted(result: Result, path: Any) -> None:
    from glidepath.sim.plot import plot_run

    plot_run(result, path)


class Compare(SimVerb):
    """Run policies side by side on one scenario: one table, with ratios to the first policy, and one plot

    Each policy runs at the cadence of the system that it comes from, unless --same-cycle is given; the one
    that the scenario's own configuration names keeps the cadence and the numbers that it has there.
    """

    options: ClassVar[Options] = {
        "scenario": {
            "args": ("scenario",),
            "nargs": "?",
            "metavar": "SCENARIO",
            "help": "a name, or a file in TOML (default: `burst`, and `grid` with --trace)",
        },
        "policies": {
            "args": ("--policies",),
            "type": policy_names,
            "default": list(POLICIES),
            "metavar": "NAME,...",
            "help": f"which policies; ratios are to the first (default: {','.join(POLICIES)})",
        },
        "seeds": {
            "args": ("--seeds",),
            "type": argument.count,
            "metavar": "N",
            "help": f"run each policy with the seeds 1 to N (default: {SEEDS})",
        },
        "seed": {"args": ("--seed",), "type": seed_number, "metavar": "N", "help": "only this seed"},
        "same_cycle": {
            "args": ("--same-cycle",),
            "type": cadence,
            "metavar": "SPAN",
            "help": "one time between two cycles for all policies",
        },
        **TRACE,
        "workers": {
            "args": ("--workers",),
            "type": argument.count,
            "metavar": "N",
            "help": "how many runs at once (default: one for each CPU)",
        },
        **PLOT,
        **OUTPUT,
    }

    def run(self) -> int:
        from glidepath.sim.score import by_policy, compared_in_words
        from glidepath.sim.study import rules_under

        word = self.given["scenario"] or ("grid" if self.given["trace"] else "burst")
        seeds = self.seeds()
        self.check_plot()
        for name in self.given["policies"]:
            self.kind(name)
        made = self.source(word)
        self.caller.say(f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}")
        scenarios = {seed: made(seed) for seed in seeds}
        tasks = list(self.tasks(word, scenarios))
        self.surveyed(scenarios[seeds[0]])
        finished = self.finished(tasks)
        results = [each.result for each in finished]
        groups = by_policy(results)
        first = tasks[0].rule.name
        rules = {task.rule.name: rules_under(task.scenario.rules, task.rule, task.cycle_s) for task in tasks}
        items = tuple(compare_item(runs, groups[first], rules[name]) for name, runs in groups.items())
        self.show(Answer("SimComparisonList", items, COMPARED))
        for line in compared_in_words(groups):
            self.caller.say(line)
        middle = "each number is that of the seed in the middle; " if len(seeds) > 1 else ""
        self.caller.say(f"{middle}ratios are to `{first}`; of waits, waste and pilots less is better")
        picture = file_name("sim", scenarios[seeds[0]].name, "compare")
        drew = self.draw(picture, lambda path: plotted_beside(results, path))
        kept = self.all_kept(word, tasks, finished)
        return Exit.DONE if kept and drew else Exit.FAILED

    def seeds(self) -> list[int]:
        one, count = self.given["seed"], self.given["seeds"]
        need(one is None or count is None, "give `--seeds N` or `--seed N`, not both")
        if one is not None:
            return [one]
        count = SEEDS if count is None else count
        need(1 <= count <= SEEDS_MAX, f"`--seeds`: write a number from 1 to {SEEDS_MAX}")
        return list(range(1, count + 1))

    def tasks(self, word: str, scenarios: Mapping[int, Scenario]) -> Iterator[Task]:
        from glidepath.sim.together import Task

        for name in self.given["policies"]:
            for seed, scenario in scenarios.items():
                rule, cycle_s = self.rule(scenario, name, word=word)
                yield Task(scenario, seed, rule, self.given["same_cycle"] or cycle_s)

    def finished(self, tasks: Sequence[Task]) -> list[Finished]:
        from os import cpu_count

        from glidepath.sim.together import Ended, played_all

        cpus = cpu_count() or 1
        at_once = min(self.given["workers"] or cpus, cpus, len(tasks))
        found: dict[int, Finished] = {}
        self.progress(f"0 of {len(tasks)} runs")
        try:
            for place, each in played_all(tasks, at_once):
                found[place] = each
                self.progress(f"{len(found)} of {len(tasks)} runs")
        except Ended as error:
            raise Stop(str(error), hint="run fewer at once with `--workers N`") from None
        finally:
            self.progress("")
        return [found[place] for place in range(len(tasks))]

    def all_kept(self, word: str, tasks: Sequence[Task], finished: Sequence[Finished]) -> bool:
        """Whether no run broke a promise; each that did is told with the line that repeats it."""
        same = self.given["same_cycle"]
        for task, each in zip(tasks, finished, strict=True):
            if each.broken:
                cycle = f"{same}s" if same else None
                trace = self.given["trace"]
                repeat = repeated(word, task.seed, policy=task.rule.name, cycle=cycle, trace=trace)
                self.tell_broken(each.broken, repeat)
        return not any(each.broken for each in finished)


def plotted_beside(results: Sequence[Result], path: Any) -> None:
    from glidepath.sim.plot import plot_compare

    plot_compare(results, path)


NOUN = Noun(
    "sim",
    {
        "list": List,
        "run": Run,
        "compare": Compare,
        "replay": SimReplay,
        "rerun": SimRerun,
    },
)
