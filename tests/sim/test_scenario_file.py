"""A scenario file becomes a scenario, or every mistake of it at once; the page on it names every key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from glidepath.config import ConfigError
from glidepath.core.provision.offer import Limits
from glidepath.core.quantity import Resources, Shape
from glidepath.sim import file
from glidepath.sim.builtin import (
    NoTrace,
    Trace,
    grid,
    scenario_of,
    three_sites,
)
from glidepath.sim.file import key_of, load_scenario, workload_table
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario, Workload
from glidepath.sim.study import simulated
from glidepath.sim.swf import SwfOptions
from glidepath.sim.workloads import KINDS, Burst, LongTail, Sine

PAGE = Path(__file__).parents[2] / "docs/reference/scenario.md"
DURATIONS = "`90s`, `15m`, `2h`, `1d`, `1w`, `1h30m`, `HH:MM:SS` or `D-HH:MM:SS`"
KINDS_LISTED = "`burst`, `steady`, `sine`, `two-kinds`, `long-tail`, `flapping`, `trace`"
CONFIG = """\
[pools.alpha]
kind = "embedded"
[pools.beta]
kind = "embedded"
[sites.west]
kind = "local"
listing_lag = "45s"
pools = ["alpha"]
[sites.west.offers.node]
cpus = 4
memory = "8GiB"
[sites.east]
kind = "local"
[sites.east.offers.node]
cpus = 1
memory = "2GiB"
"""
SMALL_JOBS = '[[workload.shapes]]\ncpus = 1\nmemory = "1GiB"\n'
ROW = "{n} {at} 5 60 1 -1 -1 1 600 -1 1 7 1 1 1 -1 -1 -1\n"


def written(folder: Path, text: str, **more: str) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    for stem, content in more.items():
        (folder / f"{stem}.toml").write_text(content)
    return path


def loaded(folder: Path, text: str, **more: str) -> Scenario:
    return load_scenario(written(folder, text, **more))(1)


def problems(folder: Path, text: str, **more: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_scenario(written(folder, text, **more))
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def trace_file(folder: Path, count: int = 3) -> Path:
    path = folder / "jobs.swf"
    path.write_text("; a header\n" + "".join(ROW.format(n=n, at=60 * n) for n in range(count)))
    return path


def table_of(text: str, kind: str = "burst") -> str:
    return f'[workload]\nkind = "{kind}"\n{text}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["small.toml: workload: this key is needed; which jobs come: a table with a `kind`"]),
        ("workload = 3\n", ["small.toml:1: workload: must be a table, not `3`"]),
        ("[workload]\n", [f"small.toml:1: workload.kind: this key is needed; one of {KINDS_LISTED}"]),
        (
            table_of("", "brust"),
            ["small.toml:2: workload.kind: there is no kind `brust`; did you mean `burst`?"],
        ),
        (
            table_of("", "zzz"),
            [f"small.toml:2: workload.kind: there is no kind `zzz`; there are {KINDS_LISTED}"],
        ),
        (
            "[workload]\nkind = 4\n",
            [f"small.toml:2: workload.kind: there is no kind `4`; there are {KINDS_LISTED}"],
        ),
        (table_of("jbos = 3\n"), ["small.toml:3: workload.jbos: unknown key; did you mean `jobs`?"]),
        (table_of('tail = "pareto"\n'), ["small.toml:3: workload.tail: unknown key"]),
        (table_of("weights = [1]\n"), ["small.toml:3: workload.weights: unknown key"]),
        (table_of("jobs = 0\n"), ["small.toml:3: workload.jobs: must be 1 or more, not `0`"]),
        (table_of("jobs = 1.5\n"), ["small.toml:3: workload.jobs: must be a whole number, not `1.5`"]),
        (table_of("span = 60\n"), [f"small.toml:3: workload.span: `60` has no unit; write {DURATIONS}"]),
        (table_of('span = "0s"\n'), ["small.toml:3: workload.span: must be longer than nothing"]),
        (
            table_of('quiet = "7h"\n'),
            ["small.toml:3: workload.quiet: `quiet` must be less than `span`, or no job comes: 25200, 21600"],
        ),
        (
            table_of('run_high = "1m"\nrun_low = "2m"\nrun_median = "90s"\n'),
            ["small.toml:4: workload.run_low: `run_low` must not be more than `run_median`: 120, 90"],
        ),
        (
            table_of('tail = "fat"\n', "long-tail"),
            ['small.toml:3: workload.tail: must be `pareto` or `log-normal`, not the text `"fat"`'],
        ),
        (table_of("pools = []\n"), ["small.toml:3: workload.pools: must be a list with at least one entry"]),
        (
            table_of('pools = ["pol"]\n'),
            ["small.toml:3: workload.pools[1]: there is no pool `pol`; did you mean `pool`?"],
        ),
        (
            table_of('[[workload.shapes]]\ncpus = 1\nmemry = "1GiB"\n'),
            [
                "small.toml:3: workload.shapes[1].memory: this key is needed; memory of a job",
                "small.toml:5: workload.shapes[1].memry: unknown key; did you mean `memory`?",
            ],
        ),
        (
            table_of('[[workload.shapes]]\ncpus = 17\nmemory = "1GiB"\ntraits = { arch = "arm64" }\n'),
            [
                "small.toml:3: workload.shapes[1]: no offer for the pool `pool` fits a job of 17 CPU 1GiB, "
                "arch arm64; say what jobs need in `[[workload.shapes]]`, or offer more"
            ],
        ),
        (
            table_of(SMALL_JOBS, "two-kinds"),
            [
                "small.toml:3: workload.shapes: `shapes` must be two, of the short and of the long jobs, "
                "without `weight`"
            ],
        ),
        (
            table_of("[sites.camps]\n[pools.pole]\n"),
            [
                "small.toml:3: sites.camps: there is no site of this name; did you mean `campus`?",
                "small.toml:4: pools.pole: there is no pool of this name; did you mean `pool`?",
            ],
        ),
        (
            table_of('[sites.campus]\nstart = ["5m", "30s"]\nboot = 3\nfailing = 0.02\nnodes = 10001\n'),
            [
                "small.toml:4: sites.campus.start: must name the shorter one first: `5m`, `30s`",
                "small.toml:5: sites.campus.boot: must be a duration, or two, from and to, such as "
                '`["30s", "5m"]`',
                "small.toml:6: sites.campus.failing: must be a whole number of a thousand, from 0 to 1000, "
                "not `0.02`",
                "small.toml:7: sites.campus.nodes: must be 10000 or less, not `10001`",
            ],
        ),
        (
            table_of('[pools.pool]\nevery = "0s"\nsources = 0\nreuse = 1\n'),
            [
                "small.toml:4: pools.pool.every: must be longer than nothing",
                "small.toml:5: pools.pool.sources: must be 1 or more, not `0`",
                "small.toml:6: pools.pool.reuse: must be `true` or `false`, not `1`",
            ],
        ),
        (
            table_of('[faults]\nblind-reeds = 1\nevictions = 1001\ncrashes = "2%"\n'),
            [
                "small.toml:4: faults.blind-reeds: there is no fault of this name; "
                "did you mean `blind-reads`?",
                "small.toml:5: faults.evictions: must be a whole number of a thousand, from 0 to 1000, "
                "not `1001`",
                "small.toml:6: faults.crashes: must be a whole number of a thousand, from 0 to 1000, "
                "not `2%`",
            ],
        ),
        (table_of("[run]\nspann = 1\n"), ["small.toml:4: run.spann: unknown key; did you mean `span`?"]),
        ("sitse = 1\n" + table_of(""), ["small.toml:1: sitse: unknown key; did you mean `sites`?"]),
        ("config = 1\n" + table_of(""), ["small.toml:1: config: must be text, not `1`"]),
        (
            'config = "no.toml"\n' + table_of(""),
            ["small.toml:1: config: there is no file `no.toml`; the path begins at the folder of this file"],
        ),
        ("[workload\n", ["small.toml:1: is not valid TOML: Expected ']' at the end of a table declaration"]),
    ],
)
def test_every_mistake_is_told_at_once_with_its_line_and_what_to_write(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    assert problems(tmp_path, text) == said


def test_hostile_words_of_a_file_are_made_visible(tmp_path: Path) -> None:
    said = "\n".join(problems(tmp_path, table_of('"\\u001b[2J" = 1\n[faults]\n"\\u202e" = 1\n')))
    assert said.isascii()
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file; check the path"),
        (lambda path: path.mkdir(), "is a folder, not a file; name the file, for example `glidepath.toml`"),
        (lambda path: path.write_bytes(b"\xff"), "is not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / "odd.toml"
    make(path)
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_scenario(path)


def test_a_configuration_beside_it_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "wrong.toml").write_text("[[[")
    assert loaded(tmp_path, table_of("")).name == "small"


# Whole values


def test_the_least_file_is_the_built_in_scenario_of_that_kind(tmp_path: Path) -> None:
    for kind in KINDS:
        expected = scenario_of(kind, 1)
        found = loaded(tmp_path, table_of("", kind))
        assert (found.rules, found.sites, found.pools) == (expected.rules, expected.sites, expected.pools)
        assert (found.workload, found.end_s, found.rates) == (expected.workload, expected.end_s, {})


def test_a_file_says_only_what_is_otherwise(tmp_path: Path) -> None:
    text = """\
[workload]
kind = "long-tail"
span = "2h"
per_hour = 100
tail = "log-normal"
run_median = "3m"
owners = ["ann"]
limits = true
[[workload.shapes]]
cpus = "500m"
memory = "1GiB"
weight = 3
[[workload.shapes]]
cpus = 2
memory = "2GiB"
disk = "0MiB"
gpus = 0
[sites.campus]
start = "1m"
boot = ["0s", "5s"]
failing = 100
quota = 7
nodes = 3
listing_lag = "9s"
[sites.hpc]
nodes = 4
[pools.pool]
every = "20s"
sources = 2
reuse = true
[faults]
crashes = 3
blind-reads = 2
[run]
span = "90m"
"""
    found = loaded(tmp_path, text)
    usual = three_sites()
    campus, cloud, hpc = usual.sites
    assert found.rules == usual.rules
    assert found.sites == (
        Behaviour(campus.site, (60, 60), (0, 5), 100, 7, 3, 9),
        cloud,
        Behaviour(hpc.site, hpc.start_s, hpc.boot_s, hpc.failing, hpc.quota, 4, hpc.lag_s),
    )
    assert found.pools == (Matching(usual.pools[0].pool, 20, 2, True),)
    assert found.rates == {"blind-reads": 2, "crashes": 3}
    assert found.end_s == 5400
    options = LongTail(
        span_s=7200,
        per_hour=100,
        tail="log-normal",
        run_s_median=180,
        owners=("ann",),  # type: ignore[arg-type]
        limits=True,
        shapes=(Shape(Resources(500, 1024)), Shape(Resources(2000, 2048))),
        weights=(3, 1),
    )
    assert found.workload == file.Cut(Workload("long-tail", options), 5400)


def test_no_job_comes_after_the_span_of_the_run(tmp_path: Path) -> None:
    whole = loaded(tmp_path, table_of('span = "1h"\n', "steady")).workload.arrivals(1)
    part = loaded(tmp_path, table_of('span = "1h"\n[run]\nspan = "20m"\n', "steady")).workload.arrivals(1)
    assert list(part) == [arrival for arrival in whole if arrival.at < 1200]


def test_faults_go_on_until_the_span_of_the_run_is_over(tmp_path: Path) -> None:
    text = table_of('span = "2m"\nquiet = "0s"\njobs = 1\nrun_high = "10m"\n' + SMALL_JOBS)
    text += '[faults]\nstore-full = 0\n[run]\nspan = "30m"\n'
    finished = simulated(loaded(tmp_path, text), 1)
    assert finished.result.score.span_s >= 1800
    assert (finished.broken, finished.left) == ((), 0)


def test_the_rules_of_a_configuration_are_simulated(tmp_path: Path) -> None:
    config = CONFIG + '[policy]\nname = "seed"\nnmin = 3\n[limits]\nlive_max = 9\n[cycle]\nmin = "20s"\n'
    found = loaded(
        tmp_path, 'config = "ours.toml"\n' + table_of('pools = ["alpha"]\n' + SMALL_JOBS), ours=config
    )
    assert [site.name for site in found.rules.sites] == ["east", "west"]
    assert (found.rules.policy.name, found.rules.policy.numbers) == ("seed", (("nmin", 3),))
    assert (found.rules.limits, found.rules.cycle_s_min) == (Limits(live_max=9), 20)
    # A site lags as much as its operator expects of it.
    assert found.sites == (
        Behaviour(found.rules.sites[0].name),
        Behaviour(found.rules.sites[1].name, lag_s=45),
    )
    assert [pool.pool for pool in found.pools] == ["alpha", "beta"]
    assert isinstance(found.workload, Workload)
    assert found.workload.options == Burst(pools=("alpha",), shapes=(Shape(Resources(1000, 1024)),))  # type: ignore[arg-type]


def test_jobs_are_for_all_pools_of_the_configuration_unless_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, 'config = "ours.toml"\n' + table_of(SMALL_JOBS), ours=CONFIG)
    assert isinstance(found.workload, Workload)
    assert found.workload.options.pools == ("alpha", "beta")


def test_jobs_that_no_site_of_their_pool_takes_are_a_mistake(tmp_path: Path) -> None:
    said = problems(tmp_path, 'config = "ours.toml"\n' + table_of(""), ours=CONFIG)
    assert [line.split(";")[0] for line in said] == [
        "small.toml:2: workload.shapes[2]: no offer for the pool `beta` fits a job of 2 CPU 4GiB",
        "small.toml:2: workload.shapes[3]: no offer for the pool `alpha` fits a job of 8 CPU 32GiB",
        "small.toml:2: workload.shapes[3]: no offer for the pool `beta` fits a job of 8 CPU 32GiB",
    ]


def test_mistakes_of_the_configuration_are_told_with_its_own_name(tmp_path: Path) -> None:
    text = 'config = "ours.toml"\n' + table_of("jbos = 1\n[sites.nowhere]\n")
    assert problems(tmp_path, text, ours=CONFIG + "memry = 1\n") == [
        "small.toml:4: workload.jbos: unknown key; did you mean `jobs`?",
        "ours.toml:17: sites.east.offers.node.memry: unknown key; did you mean `memory`?",
    ]


# Traces


def test_a_trace_is_played_on_one_open_site(tmp_path: Path) -> None:
    path = trace_file(tmp_path)
    found = loaded(tmp_path, table_of('file = "jobs.swf"\n', "trace"))
    assert (found.rules, found.sites, found.pools) == (
        grid(path).rules,
        grid(path).sites,
        grid(path).pools,
    )
    assert found.workload == grid(path).workload
    assert found.end_s is None


def test_a_trace_has_the_options_of_its_reader(tmp_path: Path) -> None:
    trace_file(tmp_path)
    text = 'config = "ours.toml"\n' + table_of(
        'file = "jobs.swf"\npool = "alpha"\ncpus_max = 4\njobs_max = 2\nfirst = "1m"\nspan = "1h"\n'
        'speed = 200\nlimits = true\non_missing = "error"\n[workload.shape]\ncpus = 2\nmemory = "1GiB"\n',
        "trace",
    )
    options = SwfOptions(
        pool="alpha",  # type: ignore[arg-type]
        shape=Shape(Resources(2000, 1024)),
        cpus_max=4,
        limits=True,
        jobs_max=2,
        first_s=60,
        span_s=3600,
        speed=200,
        on_missing="error",
    )
    found = loaded(tmp_path, text, ours=CONFIG)
    assert found.workload == Trace(tmp_path / "jobs.swf", options)


def test_rows_say_what_jobs_need_where_the_sites_are_real(tmp_path: Path) -> None:
    trace_file(tmp_path)
    text = 'config = "ours.toml"\n' + table_of('file = "jobs.swf"\npool = "beta"\n', "trace")
    found = loaded(tmp_path, text, ours=CONFIG)
    assert isinstance(found.workload, Trace)
    assert found.workload.options.shape is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "small.toml:1: workload.file: this key is needed; or name one with `--trace FILE`"),
        (
            'file = "no.swf"\n',
            "small.toml:3: workload.file: there is no file `no.swf`; "
            "the path begins at the folder of this file",
        ),
        ('file = "jobs.swf"\nspeed = 0\n', "small.toml:4: workload.speed: must be 1 or more, not `0`"),
        (
            'file = "jobs.swf"\non_missing = "eror"\n',
            'small.toml:4: workload.on_missing: must be `leave out` or `error`, not the text `"eror"`; '
            "did you mean `error`?",
        ),
        (
            'file = "jobs.swf"\n[workload.shape]\ncpus = 0\nmemory = "0MiB"\n',
            "small.toml:4: workload.shape: `shape` must ask for something; a job of nothing fits any number "
            "of times",
        ),
        (
            'file = "jobs.swf"\npool = "pol"\n',
            "small.toml:4: workload.pool: there is no pool `pol`; did you mean `pool`?",
        ),
    ],
)
def test_mistakes_of_a_trace_table_are_told(tmp_path: Path, text: str, said: str) -> None:
    trace_file(tmp_path)
    assert problems(tmp_path, table_of(text, "trace")) == [said]


def test_of_several_pools_a_trace_names_one(tmp_path: Path) -> None:
    trace_file(tmp_path)
    text = 'config = "ours.toml"\n' + table_of('file = "jobs.swf"\n', "trace")
    assert problems(tmp_path, text, ours=CONFIG) == [
        "small.toml:2: workload.pool: this key is needed; the pools are `alpha`, `beta`"
    ]


def test_a_trace_given_with_the_call_takes_the_place_of_the_one_in_the_file(tmp_path: Path) -> None:
    other = trace_file(tmp_path)
    path = written(tmp_path, table_of('file = "no.swf"\n', "trace"))
    found = load_scenario(path, trace=other)(1).workload
    assert isinstance(found, Trace)
    assert found.path == other
    with pytest.raises(NoTrace, match="makes up its jobs; `--trace` is for kind `trace`"):
        load_scenario(written(tmp_path, table_of("")), trace=other)


# The page


def blocks() -> dict[str, str]:
    found = re.findall(r"^```toml\n(# file: (\S+)\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return {name: body for body, name in found}


def test_the_example_of_the_page_is_a_scenario(tmp_path: Path) -> None:
    for name, body in blocks().items():
        (tmp_path / name).write_text(body)
    found = load_scenario(tmp_path / "week.toml")(1)
    assert found.name == "week"
    assert isinstance(found.workload, file.Cut)
    assert isinstance(found.workload.jobs, Workload)
    assert isinstance(found.workload.jobs.options, Sine)
    assert (found.rates, found.end_s) == ({"blind-reads": 10, "evictions": 5}, 36000)
    assert found.sites == (Behaviour(found.sites[0].site, (120, 1200), (30, 30), 20, 30, 12, 30),)


def test_the_page_names_every_key_and_every_kind() -> None:
    text = PAGE.read_text()
    tables = (
        file.ScenarioTable,
        file.SiteTable,
        file.PoolTable,
        file.RunTable,
        file.ShapeTable,
        file.TraceTable,
    )
    keys = {key for table in tables for key in table.model_fields}
    keys |= {key for kind in KINDS for key in workload_table(kind).model_fields}
    assert not {key for key in keys if not re.search(rf"`(\[\[?)?{key}[`.\]]", text)}
    assert not [kind for kind in (*KINDS, "trace") if f"`{kind}`" not in text]


def test_every_option_of_a_workload_can_be_written_in_a_file() -> None:
    for name, kind in KINDS.items():
        options = {key_of(option.name) for option in fields(kind.options)} - {"weights"}
        assert set(workload_table(name).model_fields) == {"kind", *options}
