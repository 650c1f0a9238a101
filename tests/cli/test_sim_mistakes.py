"""How `glidepath sim` says no: one sentence, a code, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from glidepath.cli.verb import Exit

from .conftest import Cli, Ran
from .small_sim import written

FULL = "`90s`, `15m`, `2h`, `1d`, `1w`, `1h30m`, `HH:MM:SS` or `D-HH:MM:SS`"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(written(tmp_path))
    return Path.cwd()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run"], 2, "`glidepath sim run` needs SCENARIO\nhint: see `glidepath sim run --help`"),
        (
            ["run", "brust"],
            4,
            "there is no scenario `brust`; did you mean `burst`? a path that ends in `.toml` is a file\n"
            "hint: `glidepath sim list` shows them",
        ),
        (["run", "no.toml"], 4, "there is no file `no.toml`"),
        (["run", "grid", "--trace", "no.swf"], 4, "there is no file `no.swf`"),
        (["run", "grid"], 2, "the scenario `grid` plays a trace: name one with `--trace FILE`"),
        (
            ["run", "sine", "--trace", "jobs.swf"],
            2,
            "the scenario `sine` makes up its jobs; `--trace` is for `grid`",
        ),
        (
            ["run", "small.toml", "--seed", "abc"],
            2,
            "`--seed`: `abc` is not a seed; write a whole number such as `17`\n"
            "hint: see `glidepath sim run --help`",
        ),
        (
            ["run", "small.toml", "--seed", "-1"],
            2,
            "`--seed`: `-1` is not a seed; write a whole number such as `17`\n"
            "hint: see `glidepath sim run --help`",
        ),
        (
            ["run", "small.toml", "--policy", "sed"],
            2,
            "there is no policy `sed`; did you mean `seed`?\n"
            "hint: installed are `glideinwms`, `one-to-one`, `prp`, `pyglidein`, `seed`, `steady`",
        ),
        (
            ["run", "small.toml", "--faults", "evictons=5"],
            2,
            "`--faults`: there is no fault `evictons`; did you mean `evictions`?\n"
            "hint: see `glidepath sim run --help`",
        ),
        (
            ["run", "small.toml", "--faults", "evictions=2%"],
            2,
            "`--faults`: `evictions=2%` is not `NAME=RATE` with a rate from 0 to 1000\n"
            "hint: see `glidepath sim run --help`",
        ),
        (
            ["run", "small.toml", "--cycle", "10"],
            2,
            f"`--cycle`: `10` is not a duration; write {FULL}\nhint: see `glidepath sim run --help`",
        ),
        (
            ["run", "small.toml", "--cycle", "0s"],
            2,
            "`--cycle`: a cycle takes at least `1s`\nhint: see `glidepath sim run --help`",
        ),
        (["run", "small.toml", "--cycles", "0"], 2, "`--cycles`: write 1 or more"),
        (["run", "small.toml", "--plot", "x.gif"], 2, "`--plot`: `x.gif` must end in .svg, .png, .pdf"),
        (
            ["run", "small.toml", "--plot", "no/x.svg"],
            2,
            "`--plot`: there is no folder `no`\nhint: make it first",
        ),
        (
            ["run", "small.toml", "--plot", "x.svg", "--no-plot"],
            2,
            "give `--plot FILE` or `--no-plot`, not both",
        ),
        (
            ["run", "small.toml", "--config", "x.toml"],
            2,
            "`sim` reads no configuration by itself, so that a run can be repeated anywhere\n"
            'hint: write `config = "FILE"` in a scenario file',
        ),
        (
            ["compare", "small.toml", "--policies", "seed,stedy"],
            2,
            "there is no policy `stedy`; did you mean `steady`?\n"
            "hint: installed are `glideinwms`, `one-to-one`, `prp`, `pyglidein`, `seed`, `steady`",
        ),
        (
            ["compare", "small.toml", "--policies", ","],
            2,
            "`--policies`: names no policy; write for example `seed,steady`\n"
            "hint: see `glidepath sim compare --help`",
        ),
        (
            ["compare", "small.toml", "--seeds", "2", "--seed", "1"],
            2,
            "give `--seeds N` or `--seed N`, not both",
        ),
        (["compare", "small.toml", "--seeds", "0"], 2, "`--seeds`: write a number from 1 to 1000"),
        (
            ["run", "\x1b[2J"],
            4,
            "there is no scenario `\\x1b[2J`; there are: burst, steady, sine, two-kinds, long-tail, "
            "flapping, grid, storm, node-storm; a path that ends in `.toml` is a file\n"
            "hint: `glidepath sim list` shows them",
        ),
    ],
)
def test_every_mistake_is_one_sentence_and_a_code(cli: Cli, words: list[str], code: int, said: str) -> None:
    assert cli("sim", *words) == Ran(code, "", f"glidepath: {said}\n")


def test_every_mistake_of_a_scenario_is_told_at_once(cli: Cli) -> None:
    assert cli("sim", "run", "broken.toml") == Ran(
        Exit.USAGE,
        "",
        "broken.toml:10: workload.jbos: unknown key; did you mean `jobs`?\n"
        "broken.toml:12: faults.evictons: there is no fault of this name; did you mean `evictions`?\n"
        "glidepath: the scenario has 2 problems; nothing was done\n",
    )


@pytest.mark.parametrize("verb", ["run", "compare"])
def test_a_bad_row_of_a_trace_is_told_with_its_line_before_anything_is_run(cli: Cli, verb: str) -> None:
    ran = cli("sim", verb, "grid", "--trace", "odd.swf", "--seed", "1")
    said = "odd.swf:2: not sorted: submitted at 30, the row before at 90"
    assert ran == Ran(Exit.USAGE, "", f"seed 1\nglidepath: {said}\n")
