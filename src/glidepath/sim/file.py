"""Scenario files: a TOML file comes in, the scenario that it describes goes out, or every mistake at once.

The keys of a workload are those of its options class, and the rules can be those of a real configuration. It
refuses to know what is done with a scenario; files and lines are the business of `glidepath.config`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, create_model

from glidepath.config import ConfigError, Problem, load, rules_of
from glidepath.config.fields import Count, Cpus, Duration, Name, Size, Span, TraitName, Word
from glidepath.config.files import Source, sources_of
from glidepath.config.problems import Loc, did_you_mean, shown_key
from glidepath.config.tables import Table
from glidepath.config.wording import Finding, findings_of
from glidepath.core.provision.offer import Rules, kind_for
from glidepath.core.quantity import Owner, PoolName, Resources, Shape
from glidepath.core.text import one_line
from glidepath.core.units import duration_s, shown_resources
from glidepath.sim.arrival import Arrival
from glidepath.sim.builtin import ONE_CORE, TRACE, NoTrace, Place, Trace, place_of
from glidepath.sim.fault import NAMES, RATE_MAX
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Jobs, Scenario, Workload
from glidepath.sim.swf import LINES_MAX, PROCS_MAX, SPEED_MAX, SwfOptions
from glidepath.sim.workloads import BOUNDS, KINDS, WEIGHT_MAX

# A world looks through all nodes of a site at every start, and through all sources at every matching.
NODES_MAX = 10_000
SOURCES_MAX = 100
LISTED_MAX = 20  # A hint is one line.


def _rate(value: object) -> int:
    if type(value) is not int or not 0 <= value <= RATE_MAX:
        said = one_line(str(value), letters_max=40)
        raise ValueError(f"must be a whole number of a thousand, from 0 to {RATE_MAX}, not `{said}`")
    return value


def _between(value: object) -> tuple[int, int]:
    ends = [value, value] if isinstance(value, str) else value
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise ValueError('must be a duration, or two, from and to, such as `["30s", "5m"]`')
    low, high = (duration_s(one_line(end)) for end in ends)
    if low > high:
        raise ValueError(f"must name the shorter one first: `{one_line(ends[0])}`, `{one_line(ends[1])}`")
    return low, high


def _some(value: tuple[object, ...]) -> tuple[object, ...]:
    if not value:
        raise ValueError("must be a list with at least one entry")
    return value


Rate = Annotated[int, BeforeValidator(_rate)]
Between = Annotated[tuple[int, int], BeforeValidator(_between)]


class SiteTable(Table):
    """How a site behaves; what is not said is as in the world that it stands in."""

    start: Between | None = Field(default=None, description="Time in the site's queue, from and to.")
    boot: Between | None = Field(default=None, description="Time from started to joined, from and to.")
    failing: Rate | None = Field(default=None, description="Starts of a thousand that fail.")
    quota: Count | None = Field(default=None, description="Pilots that run at once.")
    nodes: Annotated[int, Field(ge=0, le=NODES_MAX)] | None = Field(default=None, description="Nodes.")
    listing_lag: Duration | None = Field(default=None, description="How far its listing trails the truth.")


class PoolTable(Table):
    """How a pool brings jobs to pilots."""

    every: Span | None = Field(default=None, description="Time between two rounds of matching.")
    sources: Annotated[int, Field(ge=1, le=SOURCES_MAX)] | None = Field(default=None, description="Queues.")
    reuse: bool | None = Field(default=None, description="Whether a pilot takes the next job by itself.")


class RunTable(Table):
    """When it is over."""

    span: Span | None = Field(default=None, description="Time after which faults and arrivals stop.")


class JobTable(Table):
    """What one job needs."""

    cpus: Cpus = Field(description="CPUs of a job.")
    memory: Size = Field(description="Memory of a job.")
    disk: Size = Field(default=0, description="Scratch disk of a job.")
    gpus: Count = Field(default=0, description="GPUs of a job.")
    traits: Mapping[TraitName, Word] = Field(default_factory=dict, description="What a pilot must be.")

    @property
    def shape(self) -> Shape:
        request = Resources(self.cpus, self.memory, self.disk, self.gpus)
        return Shape(request, tuple(sorted(self.traits.items())))


class ShapeTable(JobTable):
    """One of several sorts of jobs."""

    weight: Annotated[int, Field(ge=0, le=WEIGHT_MAX)] | None = Field(
        default=None, description="How many jobs are of this shape, relative to the other shapes."
    )


class TraceTable(Table):
    """A workload that is read from a trace."""

    kind: Literal["trace"] = Field(description="The word `trace`.")
    file: Word | None = Field(default=None, description="The trace, in the Standard Workload Format.")
    pool: Name | None = Field(default=None, description="The pool that the jobs are for.")
    shape: JobTable | None = Field(default=None, description="What every job needs.")
    cpus_max: Annotated[int, Field(ge=1, le=PROCS_MAX)] | None = Field(
        default=None, description="Larger jobs are left out."
    )
    jobs_max: Annotated[int, Field(ge=1, le=LINES_MAX)] | None = Field(
        default=None, description="Jobs that are read at most."
    )
    first: Duration | None = Field(default=None, description="Time in the trace at which the run begins.")
    span: Span | None = Field(default=None, description="How much of the trace is played.")
    speed: Annotated[int, Field(ge=1, le=SPEED_MAX)] = Field(
        default=100, description="Percent: at 200 jobs come twice as fast."
    )
    limits: bool = Field(default=False, description="Whether owners say the requested time of the row.")
    on_missing: Literal["leave out", "error"] = Field(
        default="leave out", description="What is done with a row that lacks a number."
    )


class ScenarioTable(Table):
    """Everything that a scenario file can say."""

    config: Word | None = Field(default=None, description="A configuration whose rules are simulated.")
    workload: Mapping[str, object] = Field(description="Which jobs come: a table with a `kind`.")
    sites: Mapping[Name, SiteTable] = Field(default_factory=dict, description="How sites behave.")
    pools: Mapping[Name, PoolTable] = Field(default_factory=dict, description="How pools match.")
    faults: Mapping[str, Rate] = Field(default_factory=dict, description="Rates of faults by name.")
    run: RunTable = Field(default_factory=RunTable, description="When it is over.")


# Of the options of workloads, those that are lists.
_LISTS: dict[str, Any] = {
    "pools": Annotated[tuple[Name, ...], Field(strict=False), AfterValidator(_some)],
    "owners": Annotated[tuple[Word, ...], Field(strict=False), AfterValidator(_some)],
    "shapes": Annotated[tuple[ShapeTable, ...], Field(strict=False), AfterValidator(_some)],
}


def key_of(option: str) -> str:
    """How an option of a workload is written in a file: seconds become durations and lose their unit."""
    return option.replace("_s_", "_").removesuffix("_s")


@lru_cache(maxsize=len(KINDS))
def workload_table(kind: str) -> type[Table]:
    """The keys of one kind, made from its options class, so that a new option is a new key."""
    keys: dict[str, Any] = {"kind": (str, Field(description="Which jobs come."))}
    for option in fields(KINDS[kind].options):
        if option.name != "weights":  # Each shape says its own.
            form = _LISTS.get(option.name)
            key = (form, Field(default=())) if form else (_form(option.name) | None, Field(default=None))
            keys[key_of(option.name)] = key
    return cast("type[Table]", create_model(f"{kind} workload", __base__=Table, **keys))


def _form(option: str) -> Any:
    """The type of a key that has one value."""
    low, high = BOUNDS.get(option, (0, 0))
    if option in BOUNDS and key_of(option) != option:
        return Span if low else Duration
    if option in BOUNDS:
        return Annotated[int, Field(ge=low, le=high)]
    return {"limits": bool, "tail": Literal["pareto", "log-normal"]}[option]


@dataclass(frozen=True, slots=True)
class Cut:
    """The first part of other jobs."""

    jobs: Jobs
    span_s: int

    def arrivals(self, seed: int) -> Iterable[Arrival]:
        return takewhile(lambda arrival: arrival.at < self.span_s, self.jobs.arrivals(seed))


def load_scenario(path: Path, *, trace: Path | None = None) -> Callable[[int], Scenario]:
    """The scenario of the file, the same for every seed. Raises ConfigError with all problems.

    `trace` takes the place of the file that a workload of kind `trace` names; NoTrace for any other.
    """
    draft = _Draft(path, _source(path))
    raw = draft.source.tables
    table = draft.table(ScenarioTable, raw, ())
    jobs = draft.workload(raw.get("workload"))
    if trace is not None and jobs is not None and not isinstance(jobs, TraceTable):
        name = one_line(str(path))
        raise NoTrace(f"the scenario `{name}` makes up its jobs; `--trace` is for kind `trace`")
    place = draft.place(raw.get("config"))
    draft.names("faults", raw.get("faults"), NAMES)
    if place is not None:
        draft.names("sites", raw.get("sites"), [site.name for site in place.rules.sites])
        draft.names("pools", raw.get("pools"), [pool.name for pool in place.rules.pools])
    made = draft.jobs(jobs, place, trace) if jobs is not None and place is not None else None
    if draft.problems or table is None or place is None or made is None:
        first = draft.source.file
        in_order = sorted(draft.problems, key=lambda each: (each.file != first, each.file, each.line or 0))
        raise ConfigError(tuple(dict.fromkeys(in_order)))
    scenario = _scenario(path.stem, table, place, made)
    return lambda seed: scenario


def _scenario(name: str, table: ScenarioTable, place: Place, jobs: Jobs) -> Scenario:
    span_s = table.run.span
    return Scenario(
        name=name,
        rules=place.rules,
        sites=tuple(_behaviour(site, table.sites.get(site.site)) for site in place.sites),
        pools=tuple(_matching(pool, table.pools.get(pool.pool)) for pool in place.pools),
        workload=jobs if span_s is None else Cut(jobs, span_s),
        rates={name: table.faults[name] for name in NAMES if name in table.faults},
        end_s=span_s or (jobs.options.span_s if isinstance(jobs, Workload) else None),
    )


def _behaviour(usual: Behaviour, table: SiteTable | None) -> Behaviour:
    names = {"start": "start_s", "boot": "boot_s", "listing_lag": "lag_s"}
    return replace(usual, **_said(table, names))


def _matching(usual: Matching, table: PoolTable | None) -> Matching:
    return replace(usual, **_said(table, {"every": "every_s"}))


def _said(table: Table | None, names: Mapping[str, str]) -> dict[str, Any]:
    """What the table says, by the names of the values; what it leaves out stays as it is."""
    found = table.model_dump(exclude_none=True) if table else {}
    return {names.get(key, key): value for key, value in found.items()}


def _source(path: Path) -> Source:
    # A `conf.d` beside it belongs to a configuration that may stand in the same folder.
    sources, problems = sources_of(path)
    for source in sources:
        if source.file == str(path):
            return source
    raise ConfigError(tuple(problem for problem in problems if problem.file == str(path)))


@dataclass(slots=True)
class _Draft:
    """One file on its way to a scenario, and everything that was found wrong with it so far."""

    path: Path
    source: Source
    problems: list[Problem] = field(default_factory=list)

    def note(self, *found: Finding) -> None:
        for each in found:
            line = self.source.lines.of(each.loc)
            problem = Problem(self.source.file, line, shown_key(each.loc), each.message, each.hint)
            self.problems.append(problem)

    def table(self, model: Any, raw: object, at: Loc) -> Any:
        """The table, or None after its mistakes were noted."""
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            self.note(*findings_of(error, model, at))
            return None

    def workload(self, raw: object) -> Table | None:
        if not isinstance(raw, dict):
            return None  # Noted with the whole file.
        kind, kinds = raw.get("kind"), (*KINDS, TRACE)
        if kind == TRACE:
            return cast("Table | None", self.table(TraceTable, raw, ("workload",)))
        if isinstance(kind, str) and kind in KINDS:
            return cast("Table | None", self.table(workload_table(kind), raw, ("workload",)))
        listed = ", ".join(f"`{each}`" for each in kinds)
        if kind is None:
            self.note(Finding(("workload", "kind"), "this key is needed", f"one of {listed}"))
        else:
            said = one_line(str(kind), letters_max=40)
            hint = did_you_mean(str(kind), kinds) or f"there are {listed}"
            self.note(Finding(("workload", "kind"), f"there is no kind `{said}`", hint))
        return None

    def place(self, config: object) -> Place | None:
        """The rules and the world: those of the configuration, or the ones built in for the kind."""
        if config is None:
            raw = self.source.tables.get("workload")
            kind = raw.get("kind") if isinstance(raw, dict) else None
            return place_of(kind) if kind in (*KINDS, TRACE) else None
        if not isinstance(config, str) or not config.strip():
            return None  # Noted with the whole file.
        try:
            path = self.path.parent / config
            if not path.exists():
                hint = "the path begins at the folder of this file"
                self.note(Finding(("config",), f"there is no file `{one_line(str(path))}`", hint))
                return None
            rules = rules_of(load(path).settings)
        except ConfigError as error:
            self.problems.extend(error.problems)
            return None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path itself.
            self.note(Finding(("config",), f"cannot be read: {one_line(str(error))}"))
            return None
        # The worst that its operator expects of a site is what the world does, unless the file says less.
        sites = tuple(Behaviour(site.name, lag_s=site.listing_lag_s) for site in rules.sites)
        return Place(rules, sites, tuple(Matching(pool.name) for pool in rules.pools))

    def names(self, key: str, raw: object, known: Iterable[str]) -> None:
        """Each table of these must be about something that is there."""
        there = list(known)
        listed = ", ".join(f"`{one_line(name)}`" for name in there[:LISTED_MAX])
        for name in raw if isinstance(raw, dict) else ():
            if name not in there:
                hint = did_you_mean(name, there) or f"there are {listed}"
                self.note(Finding((key, name), f"there is no {key.removesuffix('s')} of this name", hint))

    def jobs(self, table: Table, place: Place, trace: Path | None) -> Jobs | None:
        before = len(self.problems)
        made = (
            self._trace(table, place, trace) if isinstance(table, TraceTable) else self._made_up(table, place)
        )
        return made if len(self.problems) == before else None

    def _made_up(self, table: Any, place: Place) -> Jobs | None:
        kind = KINDS[table.kind]
        said = {each.name: getattr(table, key_of(each.name), None) for each in fields(kind.options)}
        options = {name: value for name, value in said.items() if value not in (None, ())}
        pools = [pool.name for pool in place.rules.pools]
        self._known_pools(("workload", "pools"), options.get("pools", ()), pools)
        options["pools"] = tuple(PoolName(name) for name in options.get("pools", pools))
        if "owners" in options:
            options["owners"] = tuple(map(Owner, options["owners"]))
        if "shapes" in options:
            options["shapes"], options["weights"] = _shapes(options["shapes"])
        try:
            checked = kind.options(**options)
        except ValueError as error:
            self.note(_in_keys(str(error), said))
            return None
        for number, shape in enumerate(checked.shapes):
            self._fits(("workload", "shapes", number), checked.pools, shape, place.rules)
        return Workload(table.kind, checked)

    def _trace(self, table: TraceTable, place: Place, trace: Path | None) -> Jobs | None:
        pools = [pool.name for pool in place.rules.pools]
        if table.pool is None and len(pools) > 1:
            listed = ", ".join(f"`{name}`" for name in pools[:LISTED_MAX])
            self.note(Finding(("workload", "pool"), "this key is needed", f"the pools are {listed}"))
        self._known_pools(("workload", "pool"), table.pool, pools)
        pool = PoolName(table.pool or pools[0])
        # The world that is built in for traces has one core to offer, whatever the rows ask for.
        usual = Shape(ONE_CORE) if "config" not in self.source.tables else None
        shape = table.shape.shape if table.shape else usual
        if shape is not None:
            self._fits(("workload", "shape"), (pool,), shape, place.rules)
        path = trace or (self.path.parent / table.file if table.file else None)
        if path is None:
            self.note(Finding(("workload", "file"), "this key is needed", "or name one with `--trace FILE`"))
            return None
        if trace is None and not path.exists():
            hint = "the path begins at the folder of this file"
            self.note(Finding(("workload", "file"), f"there is no file `{one_line(str(path))}`", hint))
        try:
            options = SwfOptions(
                pool=pool,
                shape=shape,
                cpus_max=table.cpus_max,
                limits=table.limits,
                jobs_max=table.jobs_max,
                first_s=table.first,
                span_s=table.span,
                speed=table.speed,
                on_missing=table.on_missing,
            )
        except ValueError as error:
            self.note(_in_keys(str(error), {each.name: None for each in fields(SwfOptions)}))
            return None
        return Trace(path, options)

    def _known_pools(self, at: Loc, named: object, known: list[PoolName]) -> None:
        for number, name in enumerate(named if isinstance(named, tuple) else [named]):
            if name is not None and name not in known:
                listed = ", ".join(f"`{each}`" for each in known[:LISTED_MAX])
                loc = (*at, number) if isinstance(named, tuple) else at
                hint = did_you_mean(str(name), known) or f"there are {listed}"
                self.note(Finding(loc, f"there is no pool `{one_line(str(name))}`", hint))

    def _fits(self, at: Loc, pools: Iterable[PoolName], shape: Shape, rules: Rules) -> None:
        """Jobs that no offer fits would wait to the end, and the waits of the others would mean little."""
        for pool in pools:
            sites = [site for site in rules.sites if not site.pools or pool in site.pools]
            if not any(kind_for(offer, shape) for site in sites for offer in site.offers):
                traits = "".join(f", {key} {value}" for key, value in shape.traits)
                what = f"{shown_resources(shape.request)}{traits}"
                hint = "say what jobs need in `[[workload.shapes]]`, or offer more"
                self.note(Finding(at, f"no offer for the pool `{pool}` fits a job of {one_line(what)}", hint))


def _shapes(tables: tuple[ShapeTable, ...]) -> tuple[tuple[Shape, ...], tuple[int, ...]]:
    weighed = any(table.weight is not None for table in tables)
    weights = tuple(1 if table.weight is None else table.weight for table in tables)
    return tuple(table.shape for table in tables), weights if weighed else ()


def _in_keys(sentence: str, options: Iterable[str]) -> Finding:
    """What an options class says of its options, said of the keys; at the first key that it names."""
    words = {**{option: key_of(option) for option in options}, "weights": "weight", "shapes": "shapes"}
    named = [words[name] for name in re.findall(r"`(\w+)`", sentence) if name in words]
    text = re.sub(r"`(\w+)`", lambda found: f"`{words.get(found[1], found[1])}`", sentence)
    return Finding(("workload", *named[:1]), text)
