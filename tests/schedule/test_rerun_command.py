"""`glidepath sim rerun` as people use it: the table, the numbers, the picture, and how it says no."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import WALL, Cli, Ran, Screen
from glidepath.cli.main import main
from glidepath.cli.simrerun import SimRerun
from glidepath.cli.verb import Caller, Exit
from glidepath.sim.rerun.rules import RULES

HEADER = "; Version: 2.2\n; MaxNodes: 9 (4 of them for batch)\n; MaxProcs: 4\n"
# Four processors. The first job has three of them for a minute, the second wants all four and waits. The
# third is short enough to end before the second can start, the fourth is not.
JOBS = ((0, 60, 3), (10, 20, 4), (10, 40, 1), (20, 90, 1))
ROW = "{n} {at} -1 {run} {procs} -1 -1 {procs} {run} -1 1 {user} 1 1 1 -1 -1 -1\n"
RULE_NAMES = "`fcfs`, `easy`, `conservative`, `sjf`, `f1`, `wfp3`, `steady`"


def swf(*jobs: tuple[int, int, int], header: str = HEADER) -> str:
    """Jobs as (submit, run, processors); the first has the number 11."""
    rows = [
        ROW.format(n=n, at=at, run=run, procs=procs, user=n % 3)
        for n, (at, run, procs) in enumerate(jobs, start=11)
    ]
    return header + "".join(rows)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    for name, text in {
        "small": swf(*JOBS),
        "silent": swf(*JOBS, header="; Version: 2.2\n"),
        "empty": HEADER,
        "bare": swf((0, -1, 1), (5, 3, -1)),
        "odd": swf(*JOBS) + "15 30 1 2\n",
        "text": "Dear reader,\n",
        "large": swf(*JOBS, (30, 1, 6), (31, 1, 5)),
        "far": HEADER + ROW.format(n=10**20, at=0, run=1, procs=1, user=1),
    }.items():
        (here / f"{name}.swf").write_text(text)
    packed = gzip.compress(swf(*((at, at % 50, 1 + at % 4) for at in range(999))).encode(), mtime=0)
    (here / "cut.swf.gz").write_bytes(packed[: len(packed) // 2])
    (here / "broken.swf.gz").write_bytes(packed[:-8] + bytes(8))
    (here / "false.swf.gz").write_text(swf(*JOBS))
    (here / "whole.swf.gz").write_bytes(packed)
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def call(*words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        caller = Caller(out, err, {"HOME": str(tmp_path)}, lambda seconds: None, lambda: WALL)
        return Ran(int(main(["sim", "rerun", *words], caller=caller)), out.getvalue(), err.getvalue())

    return call


# What it tells


def test_rules_stand_side_by_side_with_ratios_to_the_first(cli: Cli) -> None:
    assert cli("small.swf", "--rule", "fcfs", "--rule", "easy", "--no-plot") == Ran(
        Exit.DONE,
        "RULE  JOBS  WAIT MEAN  RATIO  P95  LONGEST  SLOWDOWN  RATIO    USED\n"
        "fcfs     4        45s   1.00   1m    1m10s      2.23   1.00  57.4 %\n"
        "easy     4        28s   0.61  50s       1m      1.79   0.80  57.4 %\n",
        "small.swf: 4 jobs in 20s on 4 processors\n"
        "ratios are to `fcfs`; of waits and slowdown less is better\n",
    )


def test_json_has_every_number_of_every_rule(cli: Cli) -> None:
    ran = cli("small.swf", "--rule", "fcfs", "--rule", "easy", "--no-plot", "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["kind"], len(found["items"])) == (0, "SimRerunList", 2)
    assert found["items"][1] == {
        "name": "easy",
        "rule": "easy",
        "log": "small.swf",
        "processors": 4,
        "jobs": 4,
        "wait_mean_s": 27.5,
        "wait_p95_s": 50,
        "wait_max_s": 60,
        "slowdown_mean": 1.791667,
        "used": 0.573529,
        "ratio": {
            "wait_mean_s": 0.611111,
            "wait_p95_s": 0.833333,
            "wait_max_s": 0.857143,
            "slowdown_mean": 0.803738,
            "used": 1.0,
        },
    }


def test_easy_and_steady_are_compared_where_no_rule_is_named(cli: Cli) -> None:
    ran = cli("small.swf", "--no-plot", "-o", "name")
    assert (ran.code, ran.out) == (0, "easy\nsteady\n")


def test_a_part_of_the_log_is_played_on_a_machine_of_another_size(cli: Cli) -> None:
    ran = cli(
        "whole.swf.gz", "--first", "3", "--jobs", "20", "--processors", "7", "--rule", "easy", "--no-plot"
    )
    assert (ran.code, ran.err) == (0, "whole.swf.gz: 20 of 999 jobs in 19s on 7 processors\n")


def test_the_help_names_every_rule() -> None:
    told = SimRerun.options["rule"]["help"]
    assert not [name for name in RULES if name not in told]


def test_where_somebody_looks_the_rule_at_work_is_told(tmp_path: Path) -> None:
    err = Screen()
    caller = Caller(io.StringIO(), err, {"HOME": str(tmp_path)}, lambda seconds: None, lambda: WALL)
    main(["sim", "rerun", "small.swf", "--rule", "easy", "--no-plot"], caller=caller)
    assert "reading the log" in err.getvalue()
    assert "playing 4 jobs with easy, 1 of 1" in err.getvalue()


NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,8192,2,T4\nn2,4000,8192,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
    "a,4000,1024,1,600,,BE,Succeeded,0,100,0\n"
    "b,4000,1024,1,600,T4,BE,Succeeded,0,100,0\n"
    "c,1000,1024,2,1000,T4,LS,Succeeded,10,60,10\n"
    "d,4000,1024,0,0,,LS,Succeeded,20,60,20\n"
    "e,4000,1024,0,0,,LS,Failed,20,60,\n"
    "f,64000,1024,0,0,,LS,Succeeded,20,60,20\n"
)


def test_pods_are_placed_on_nodes_with_their_shares_of_gpus(cli: Cli, folder: Path) -> None:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS)
    ran = cli("pods.csv", "--nodes", "nodes.csv", "--no-plot", "-o", "json")
    assert ran.code == 0, ran.err
    easy, steady = json.loads(ran.out)["items"]
    # The third wants both GPUs whole and waits for the first two, which have a part of each.
    assert (easy["jobs"], easy["wait_max_s"], easy["processors"]) == (4, 90, 12)
    assert steady["wait_max_s"] == 90
    assert "4 pods on 2 nodes, 12 CPUs, 1 never ran, 1 fit on no node" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("pods.csv --nodes no.csv", 4, "there is no file `no.csv`"),
        ("pods.csv --nodes pods.csv", 2, "pods.csv:1: the columns are"),
        ("small.swf --nodes nodes.csv", 2, "small.swf:1: the columns are"),
        ("pods.csv --nodes nodes.csv --rule sjf", 2, "`--rule sjf`: on nodes there are easy and steady"),
        ("pods.csv --nodes nodes.csv --processors 5", 2, "`--processors`: `--nodes` says what there is"),
        ("pods.csv --nodes nodes.csv --first 9", 2, "`--first`: no more than 5 pods can be played"),
        ("pods.csv --nodes nodes.csv --first 5", 2, "none of the jobs fits on any of the nodes"),
    ],
)
def test_what_cannot_be_placed_is_said(cli: Cli, folder: Path, words: str, code: int, said: str) -> None:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS)
    ran = cli(*words.split(), "--no-plot")
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


# How it says no


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "`glidepath sim rerun` needs LOG\nhint: see `glidepath sim rerun --help`"),
        ("no.swf", 4, "there is no file `no.swf`"),
        (".", 2, ".: this is a folder, not a trace"),
        ("text.swf", 2, "text.swf:1: 2 fields; a row has 18"),
        ("odd.swf", 2, "odd.swf:8: 4 fields; a row has 18"),
        ("far.swf", 2, "far.swf:4: the number of the job is too large: 100000000000000000000"),
        ("empty.swf", 2, "empty.swf: the trace has no rows"),
        ("bare.swf", 2, "bare.swf: no job is left of 2 rows read; 1 no run time; 1 no processors"),
        ("false.swf.gz", 2, "false.swf.gz:1: this is not gzip although its name ends in `.gz`"),
        (
            "small.swf --rule esay",
            2,
            f"there is no rule `esay`; did you mean `easy`?\nhint: there are {RULE_NAMES}",
        ),
        (
            "silent.swf",
            2,
            "silent.swf: its header does not say how many processors there are\n"
            "hint: give them with `--processors N`; the largest job asks for 4",
        ),
        (
            "large.swf",
            2,
            "large.swf: 2 jobs ask for more than the 4 processors of the machine, "
            "the first is job 15 with 6\n"
            "hint: give `--processors 6` or more",
        ),
        (
            "large.swf --processors 5",
            2,
            "large.swf: 1 job asks for more than the 5 processors of the machine, "
            "the first is job 15 with 6\n"
            "hint: give `--processors 6` or more",
        ),
        ("small.swf --processors 0", 2, "`--processors`: write 1 or more"),
        ("small.swf --jobs 0", 2, "`--jobs`: write 1 or more"),
        ("small.swf --first 5", 2, "`--first`: the log has no more than 4 jobs that can be played"),
        ("small.swf --gantt-span 0s", 2, "`--gantt-span`: show at least `1s`"),
        (
            "small.swf --gantt-from 21s",
            2,
            "`--gantt-from`: the last job comes 20s after the first; write no more",
        ),
        ("small.swf --plot x.gif", 2, "`--plot`: `x.gif` must end in .svg, .png, .pdf"),
        ("small.swf --config x", 2, "`sim rerun` reads no configuration; everything is in its options"),
    ],
)
def test_every_mistake_is_one_sentence_and_a_code(cli: Cli, words: str, code: int, said: str) -> None:
    assert cli(*words.split()) == Ran(code, "", f"glidepath: {said}\n")


@pytest.mark.parametrize(("name", "said"), [("cut", "is cut off here"), ("broken", "is broken here")])
def test_a_compressed_log_that_is_not_whole_is_told_with_its_line(cli: Cli, name: str, said: str) -> None:
    ran = cli(f"{name}.swf.gz")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"glidepath: {name}.swf.gz:")
    assert f"the compressed file {said}" in ran.err


CALL = "import sys; sys.modules['{name}'] = None; from glidepath.cli.main import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (
            "numpy",
            1,
            "glidepath: reruns need numpy (import of numpy halted; None in sys.modules)\n"
            "hint: pip install 'glidepath[schedule]'\n",
        ),
        (
            "numba",
            0,
            "numba is not installed: this takes a hundred times as long as with "
            "`pip install 'glidepath[fast]'`\nsmall.swf: 4 jobs in 20s on 4 processors\n",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_what_to_install(name: str, code: int, said: str) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            CALL.format(name=name),
            "sim",
            "rerun",
            "small.swf",
            "--rule",
            "easy",
            "--no-plot",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stderr) == (code, said)


# The picture


def test_a_picture_is_drawn_with_the_rules_the_sizes_and_the_users(cli: Cli, folder: Path) -> None:
    ran = cli("small.swf", "--rule", "fcfs", "--rule", "easy")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "plot: sim-rerun-small.svg")
    text = (folder / "sim-rerun-small.svg").read_text()
    for word in (
        *("small.swf: 4 jobs on 4 processors", "Utilisation", "Queue", "Wait by size", "3–4"),
        *("Who ran where: fcfs", "Who ran where: easy", "user 0", "user 1", "user 2", "95 % within"),
    ):
        assert f">{word}<" in text, word


def test_the_same_log_gives_the_same_picture(cli: Cli, folder: Path) -> None:
    words = ("whole.swf.gz", "--rule", "easy", "--gantt-from", "5m", "--gantt-span", "2m")
    for name in ("one.png", "two.png"):
        assert cli(*words, "--plot", name).code == 0
    first = (folder / "one.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert len(first) > 20_000
    assert first == (folder / "two.png").read_bytes()
