"""`glidepath sim` as people use it: what is listed, run, compared and drawn, and how it says no."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glidepath.cli.sim import Compare, Run
from glidepath.cli.simview import file_name, repeated
from glidepath.cli.verb import Caller, Exit, Verb
from glidepath.plugins import POLICIES, names
from glidepath.sim.builtin import BUILTIN, scenario_of
from glidepath.sim.fault import NAMES
from glidepath.sim.score import CAUSES, in_words
from glidepath.sim.study import Finished, simulated
from glidepath.sim.workloads import KINDS

from .conftest import Cli, Ran, Screen
from .small_sim import SMALL, written


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(written(tmp_path))
    return Path.cwd()


def items(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["items"]
    return found


# What there is


def test_the_list_has_every_scenario_workload_fault_and_policy(cli: Cli) -> None:
    found = items(cli("sim", "list", "-o", "json"))
    listed = [(item["what"], item["name"]) for item in found]
    expected = [("scenario", name) for name in BUILTIN]
    expected += [("workload", name) for name in (*KINDS, "trace")]
    expected += [("fault", name) for name in NAMES]
    expected += [("policy", name) for name in names(POLICIES)]
    assert listed == expected
    assert all(item["about"] for item in found)
    ran = cli("sim", "list")
    assert (ran.code, ran.err) == (0, "")
    for line in (
        "  blind-reads        per read                  a read of a site, a pool or a schedd fails",
        "  seed        every 2m   the rule that the project began with",
        "  storm       another world for each seed, with every fault at once",
    ):
        assert line in ran.out.splitlines()


# One run


def test_a_run_says_the_seed_first_then_its_scores_and_where_the_plot_is(cli: Cli, folder: Path) -> None:
    ran = cli("sim", "run", "small.toml", "--seed", "7")
    assert (ran.code, ran.err) == (0, "seed 7\nplot: sim-small-steady-7.svg\n")
    lines = ran.out.splitlines()
    assert re.fullmatch(r"small with steady every 10s, seed 7: \d+ cycles in \w+ of made-up time\.", lines[0])
    assert lines[1].startswith("All 60 jobs started; they waited ")
    assert lines[-1] == "No limit was broken."
    assert b"policy steady, seed 7" in (folder / "sim-small-steady-7.svg").read_bytes()


def test_the_same_seed_gives_the_same_answer_and_json_has_every_number(cli: Cli) -> None:
    words = ("sim", "run", "small.toml", "--seed", "7", "--no-plot", "-o", "json")
    first = cli(*words)
    assert first == cli(*words)
    assert cli("sim", "run", "small.toml", "--seed", "8", "--no-plot", "-o", "json").out != first.out
    (item,) = items(first)
    finished = simulated(scenario_of("small.toml", 7), 7)
    score = finished.result.score
    assert list(item) == [
        *("name", "scenario", "policy", "seed", "cycles", "span_s", "jobs", "started"),
        *("wait_median_s", "wait_mean_s", "wait_p95_s", "busy_h", "wasted_h", "asked", "unused", "churn"),
        *("overshoot", "limits_broken", "cost_milli", "waste_h", "cycle_s_min", "cycle_s_max", "numbers"),
        *("left", "faults", "lives", "replayed", "broken", "repeat"),
    ]
    for key in ("cycles", "span_s", "jobs", "started", "asked", "unused", "overshoot", "cost_milli"):
        assert item[key] == getattr(score, key)
    assert item["wait_mean_s"] == pytest.approx(score.wait_mean_s, abs=1e-6)
    assert item["waste_h"] == {cause: round(hours, 6) for cause, hours in score.waste_h}
    assert (item["name"], item["cycle_s_min"], item["cycle_s_max"]) == ("small-steady-7", 10, 10)
    assert item["repeat"] == "glidepath sim run small.toml --seed 7"
    assert cli("sim", "run", "small.toml", "--seed", "7", "--no-plot", "-o", "name").out == "small-steady-7\n"


def test_without_a_seed_one_is_drawn_and_can_be_used_again(cli: Cli) -> None:
    ran = cli("sim", "run", "small.toml", "--no-plot")
    drawn = re.fullmatch(r"seed (\d+)\n", ran.err)
    assert drawn
    assert cli("sim", "run", "small.toml", "--no-plot", "--seed", drawn[1]) == ran


@pytest.mark.parametrize(
    ("words", "policy", "cycle"),
    [
        ((), "steady", "10s"),
        (("--policy", "prp"), "prp", "2m"),
        (("--policy", "prp", "--cycle", "30s"), "prp", "30s"),
        (("--policy", "steady"), "steady", "10s"),
        (("--cycle", "1m"), "steady", "1m"),
    ],
)
def test_a_policy_brings_its_own_cadence(cli: Cli, words: tuple[str, ...], policy: str, cycle: str) -> None:
    ran = cli("sim", "run", "small.toml", "--seed", "1", "--no-plot", *words)
    assert ran.out.startswith(f"small with {policy} every {cycle}, seed 1: ")


def test_a_policy_that_is_named_runs_alike_whatever_policy_a_storm_has_drawn(cli: Cli) -> None:
    for seed in ("1", "17"):
        words = ("sim", "run", "storm", "--seed", seed, "--policy", "seed", "--cycles", "5", "--no-plot")
        assert cli(*words).out.startswith(f"storm with seed every 2m, seed {seed}: ")


def test_the_policy_of_a_configuration_keeps_its_numbers_and_its_cadence(cli: Cli, folder: Path) -> None:
    (folder / "glidepath.toml").write_text(
        '[policy]\nname = "seed"\nnmin = 2\n[cycle]\nmin = "20s"\nmax = "40s"\n[pools.p]\nkind = "embedded"\n'
        '[sites.s]\nkind = "local"\n[sites.s.offers.o]\ncpus = 8\nmemory = "32GiB"\n'
    )
    (folder / "ours.toml").write_text('config = "glidepath.toml"\n' + SMALL)
    for words in ((), ("--policy", "seed")):
        (item,) = items(cli("sim", "run", "ours.toml", "--seed", "1", "--no-plot", "-o", "json", *words))
        assert (item["cycle_s_min"], item["cycle_s_max"]) == (20, 40)
        assert item["numbers"] == {"divisor": 4, "nmin": 2}
    words = ("--policies", "seed,prp", "--seed", "1", "--workers", "1", "--no-plot", "-o", "json")
    found = items(cli("sim", "compare", "ours.toml", *words))
    assert [(item["cycle_s_min"], item["cycle_s_max"]) for item in found] == [(20, 40), (120, 120)]


def test_cycles_end_faults_and_arrivals(cli: Cli) -> None:
    (item,) = items(
        cli("sim", "run", "small.toml", "--seed", "1", "--cycles", "10", "--no-plot", "-o", "json")
    )
    assert item["jobs"] == 30
    assert item["repeat"] == "glidepath sim run small.toml --seed 1 --cycles 10"


def test_faults_can_be_added_and_every_kept_plan_is_decided_again(cli: Cli) -> None:
    faults = "evictions=100,crashes=20"
    (item,) = items(
        cli("sim", "run", "small.toml", "--seed", "1", "--faults", faults, "--no-plot", "-o", "json")
    )
    assert set(item["faults"]) == {"evictions", "crashes"}
    assert item["replayed"] > 100
    assert item["lives"] == 1 + item["faults"]["crashes"]
    assert item["broken"] == []
    assert item["repeat"] == f"glidepath sim run small.toml --seed 1 --faults {faults}"
    ran = cli("sim", "run", "small.toml", "--seed", "1", "--faults", faults, "--no-plot")
    told = ran.out.splitlines()
    assert told[-1] == f"{item['replayed']} kept plans were decided again from what they saw."
    assert told[-2].startswith(f"Faults that struck, in {item['lives']} lives of the controller: evictions ")


def test_a_storm_keeps_every_promise(cli: Cli) -> None:
    (item,) = items(cli("sim", "run", "storm", "--seed", "17", "--cycles", "40", "--no-plot", "-o", "json"))
    assert set(item["faults"]) == set(NAMES)
    assert item["broken"] == []


def test_a_trace_is_told_before_it_is_played(cli: Cli) -> None:
    ran = cli("sim", "run", "grid", "--trace", "jobs.swf", "--seed", "1", "--no-plot", "--policy", "seed")
    assert ran.err == "seed 1\njobs.swf: 60 jobs in 19m40s\n"
    assert ran.out.splitlines()[1].startswith("All 60 jobs started")


def test_progress_is_for_a_terminal_and_leaves_no_trace(folder: Path) -> None:
    out, err = io.StringIO(), Screen()
    caller = Caller(out, err, {}, lambda seconds: None, lambda: 0.0)
    options = {**dict.fromkeys(Run.options), "config": None, "scenario": "small.toml", "seed": 1}
    options |= {"no_plot": True, "output": "table", "cycle": 1}
    assert Run(logging.getLogger("glidepath"), caller=caller, **options).run() == Exit.DONE
    lines = err.getvalue().split("\r\x1b[K")
    assert lines[0] == "seed 1\n"
    assert re.fullmatch(r"\d+ %, 100 cycles", lines[1])
    assert lines[-1] == ""


# Promises


class BrokenRun(Run):
    """A run in which something was found."""

    def study(self, scenario: Any, seed: int) -> tuple[Finished, int]:
        finished, count = super().study(scenario, seed)
        return replace(finished, broken=tuple(f"cycle {n}: cap: one too many" for n in range(30))), count


class BrokenCompare(Compare):
    def finished(self, tasks: Any) -> list[Finished]:
        found = super().finished(tasks)
        return [found[0], replace(found[1], broken=("cycle 2: cap: one too many",))]


def called(verb: type[Verb], **given: object) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    caller = Caller(out, err, {}, lambda seconds: None, lambda: 0.0)
    options: dict[str, Any] = {**dict.fromkeys(verb.options), "config": None, "output": "json", **given}
    code = verb(logging.getLogger("glidepath"), caller=caller, **options).run()
    return Ran(int(code), out.getvalue(), err.getvalue())


def test_a_broken_promise_is_told_with_the_one_line_that_repeats_it(folder: Path) -> None:
    ran = called(BrokenRun, scenario="small.toml", seed=17, cycles=20, no_plot=True)
    lines = ran.err.splitlines()
    assert ran.code == Exit.FAILED
    assert lines[0] == "seed 17"
    assert lines[1:21] == [f"broken: cycle {n}: cap: one too many" for n in range(20)]
    assert lines[21:] == [
        "and 10 more",
        "repeat it with `glidepath sim run small.toml --seed 17 --cycles 20`",
    ]
    (item,) = json.loads(ran.out)["items"]
    assert len(item["broken"]) == 30
    assert item["repeat"] == "glidepath sim run small.toml --seed 17 --cycles 20"


def test_a_promise_broken_in_a_comparison_is_told_too(folder: Path) -> None:
    ran = called(
        BrokenCompare,
        scenario="small.toml",
        policies=["seed", "prp"],
        seed=3,
        same_cycle=60,
        no_plot=True,
        workers=1,
    )
    assert ran.code == Exit.FAILED
    assert ran.err.splitlines()[-2:] == [
        "broken: cycle 2: cap: one too many",
        "repeat it with `glidepath sim run small.toml --seed 3 --policy prp --cycle 60s`",
    ]


def test_the_line_that_repeats_a_run_can_be_pasted_into_a_shell() -> None:
    line = repeated("my file.toml", 3, cycles=5, policy=None, trace="a'b.swf", faults="")
    assert line == """glidepath sim run 'my file.toml' --seed 3 --cycles 5 --trace 'a'"'"'b.swf'"""


# Side by side


def test_policies_stand_side_by_side_with_ratios_to_the_first(cli: Cli, folder: Path) -> None:
    words = (
        "sim",
        "compare",
        "small.toml",
        "--policies",
        "seed,steady,seed",
        "--seeds",
        "3",
        "--workers",
        "1",
    )
    found = items(cli(*words, "--no-plot", "-o", "json"))
    assert [item["name"] for item in found] == ["seed", "steady"]
    assert [(item["cycle_s_min"], item["cycle_s_max"]) for item in found] == [(120, 120), (10, 10)]
    first, second = found
    for key in ("wait_median_s", "wait_mean_s", "wait_p95_s", "wasted_h", "asked", "cost_milli"):
        assert first[key]["ratio"] in (1, None)
        assert second[key]["low"] <= second[key]["mid"] <= second[key]["high"]
        if first[key]["mid"]:
            assert second[key]["ratio"] == pytest.approx(second[key]["mid"] / first[key]["mid"], abs=1e-6)
    assert list(first["waste_h"]) == list(CAUSES)
    assert first["seeds"] == [run["seed"] for run in first["runs"]] == [1, 2, 3]
    waits = sorted(run["wait_mean_s"] for run in second["runs"])
    assert [second["wait_mean_s"][key] for key in ("low", "mid", "high")] == waits
    alone = simulated(scenario_of("small.toml", 2), 2).result.score
    assert second["runs"][1]["wait_mean_s"] == pytest.approx(alone.wait_mean_s, abs=1e-6)
    assert in_words(alone)


def test_the_table_of_a_comparison_is_data_and_its_reading_is_talk(cli: Cli, folder: Path) -> None:
    words = ("sim", "compare", "small.toml", "--policies", "seed,steady", "--seed", "1", "--workers", "1")
    ran = cli(*words)
    assert ran.code == 0
    head, *rows = [line.split() for line in ran.out.splitlines()]
    assert head == [
        *("POLICY", "CYCLE", "MEDIAN", "MEAN", "RATIO", "P95", "WASTE", "H", "RATIO", "PILOTS", "RATIO"),
        *("UNUSED", "OVER", "BROKEN", "COST"),
    ]
    assert [row[:2] for row in rows] == [["seed", "2m"], ["steady", "10s"]]
    assert rows[0][4] == "1.00"
    assert ran.err.splitlines() == [
        "seed 1",
        "2 policies, 1 seed each",
        "No run broke a limit.",
        "ratios are to `seed`; of waits, waste and pilots less is better",
        "plot: sim-small-compare.svg",
    ]
    assert (folder / "sim-small-compare.svg").exists()
    wide = cli(*words, "--no-plot", "-o", "wide").out
    assert all(f"{cause.upper()} H" in wide for cause in CAUSES)


def test_one_cycle_for_all_policies_can_be_asked_for(cli: Cli) -> None:
    words = ("--policies", "seed,steady", "--seed", "1", "--same-cycle", "1m", "--no-plot", "-o", "json")
    found = items(cli("sim", "compare", "small.toml", *words, "--workers", "1"))
    assert [(item["cycle_s_min"], item["cycle_s_max"]) for item in found] == [(60, 60), (60, 60)]


def test_runs_in_processes_of_their_own_give_the_same(cli: Cli) -> None:
    words = ("sim", "compare", "--trace", "jobs.swf", "--policies", "seed,prp", "--seed", "1", "--no-plot")
    one, several = (cli(*words, "-o", "json", "--workers", count) for count in ("1", "2"))
    assert one == several
    assert one.err.splitlines()[:2] == ["seed 1", "jobs.swf: 60 jobs in 19m40s"]


def test_ctrl_c_ends_a_comparison_and_all_its_processes_without_words(folder: Path) -> None:
    (folder / "long.toml").write_text('[workload]\nkind = "steady"\nspan = "365d"\n')
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ("sim", "compare", "long.toml", "--policies", "seed,prp", "--no-plot", "--workers", "2")
    with subprocess.Popen(
        [sys.executable, "-m", "glidepath", *words],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stderr is not None
        assert program.stderr.readline() == b"seeds 1, 2, 3\n"
        # To all of them, as a terminal does it.
        os.killpg(program.pid, signal.SIGINT)
        try:
            # The streams end only when the last process that holds them has.
            out, err = program.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    assert (program.returncode, out, err) == (Exit.INTERRUPTED, b"", b"")


# Pictures


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_picture_goes_where_it_is_sent(cli: Cli, folder: Path, ending: str, start: bytes) -> None:
    ran = cli("sim", "run", "small.toml", "--seed", "1", "--plot", f"my picture.{ending}")
    assert (ran.code, ran.err) == (0, f"seed 1\nplot: my picture.{ending}\n")
    assert (folder / f"my picture.{ending}").read_bytes().startswith(start)


def test_without_the_drawing_library_a_run_goes_on_unless_a_picture_was_asked_for(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    why = "no plot: pictures need matplotlib (import of matplotlib halted; None in sys.modules)"
    said = f"seed 1\n{why}; `pip install 'glidepath[plots]'`\n"
    for words, code in (((), Exit.DONE), (("--plot", "x.svg"), Exit.FAILED)):
        ran = cli("sim", "run", "small.toml", "--seed", "1", *words)
        assert (ran.code, ran.err) == (code, said)
        assert ran.out.endswith("No limit was broken.\n")


def test_a_file_name_has_only_letters_that_every_system_takes() -> None:
    assert file_name("sim", "a b/c\x1b", "../p", 3) == "sim-a-b-c--..-p-3.svg"


def test_help_of_the_simulator_imports_no_simulator(folder: Path) -> None:
    code = (
        "import sys\nfrom glidepath.cli.main import main\n"
        "assert main(['sim', '--help']) == 0 and main(['sim', 'compare', '--help']) == 0\n"
        "print([name for name in sys.modules if name.startswith(('glidepath.sim', 'pydantic', 'numpy'))],"
        " file=sys.stderr)\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, timeout=60, check=True
    )
    assert ran.stderr == b"[]\n"
