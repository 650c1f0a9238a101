"""Words find their verb, mistakes find a suggestion, and every end has its exit code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glidepath.cli.main import commands, main, noun_of
from glidepath.cli.nouns import NOUNS, PLURALS
from glidepath.cli.parser import parsed, peeled
from glidepath.cli.reference import page
from glidepath.cli.verb import Caller, Exit

from .conftest import Cli, Ran

HEAVY = (
    "pydantic",
    "sqlalchemy",
    "rich",
    "asyncio",
    "glidepath.config",
    "glidepath.store",
    "glidepath.core.provision",
)


def run(*words: str, home: Path, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    environ = {"GLIDEPATH_HOME": str(home), "HOME": str(home), "PATH": os.environ["PATH"]}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", "glidepath", *words]
    return subprocess.run(
        command, env=environ, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False
    )


MISTAKES = [
    (
        ["jbo", "list"],
        "glidepath: there is no noun `jbo`; did you mean `job`?\nhint: `glidepath --help` lists them\n",
    ),
    (
        ["zzzzzz"],
        "glidepath: there is no noun `zzzzzz`\nhint: `glidepath --help` lists them\n",
    ),
    (
        ["job", "lst"],
        "glidepath: `job` has no verb `lst`; did you mean `list`?\n"
        "hint: its verbs are submit, list, show, explain, extend, cancel, logs, wait\n",
    ),
    (
        ["job", "list", "--lmit", "3"],
        "glidepath: unknown option `--lmit`; did you mean `--limit`?\n"
        "hint: see `glidepath job list --help`\n",
    ),
    (
        ["job", "list", "--lim", "3"],
        "glidepath: unknown option `--lim`; did you mean `--limit`?\nhint: see `glidepath job list --help`\n",
    ),
    (
        ["job", "list", "--limit"],
        "glidepath: `--limit` needs a value\nhint: see `glidepath job list --help`\n",
    ),
    (
        ["job", "list", "--limit", "-1"],
        "glidepath: `--limit`: `-1` is not a whole number from 0 to 1000000\n"
        "hint: see `glidepath job list --help`\n",
    ),
    (
        ["job", "list", "-o", "jsn"],
        "glidepath: `--output`: `jsn` is none of `table`, `wide`, `json`, `yaml`, `name`; "
        "did you mean `json`?\n"
        "hint: see `glidepath job list --help`\n",
    ),
    (
        ["job", "show"],
        "glidepath: `glidepath job show` needs ID\nhint: see `glidepath job show --help`\n",
    ),
    (
        ["job", "show", "1", "2"],
        "glidepath: unknown argument `2`\nhint: see `glidepath job show --help`\n",
    ),
    (
        ["job", "submit", "--mem", "4", "--", "true"],
        "glidepath: `--mem`: `4` is not a size; write `512MiB`, `4GiB`, `1TiB`, or `4GB` for powers of ten\n"
        "hint: see `glidepath job submit --help`\n",
    ),
    (
        ["job", "submit", "--time", "90", "--", "true"],
        "glidepath: `--time`: `90` is not a duration; write `90s`, `15m`, `2h`, `1d`, `1w`, `1h30m`, "
        "`HH:MM:SS` or `D-HH:MM:SS`\nhint: see `glidepath job submit --help`\n",
    ),
    (
        ["job", "submit", "sleep", "10"],
        "glidepath: unknown argument `sleep`\n"
        "hint: put `--` before the command: `glidepath job submit [options] -- COMMAND...`\n",
    ),
    (
        ["job", "submit", "--env", "1A=b", "--", "true"],
        "glidepath: `--env`: `1A=b` is not `key=value` with a plain word as key\n"
        "hint: see `glidepath job submit --help`\n",
    ),
    (
        ["\x1b[2J\u202e"],
        "glidepath: there is no noun `\\x1b[2J\\u202e`\nhint: `glidepath --help` lists them\n",
    ),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_every_mistake_names_the_word_and_what_to_do(cli: Cli, words: list[str], said: str) -> None:
    assert cli(*words) == Ran(Exit.USAGE, "", said)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_is_data_and_lists_every_noun_with_its_verbs(cli: Cli, words: list[str]) -> None:
    ran = cli(*words)
    assert (ran.code, ran.err) == (0, "")
    for name, entry in NOUNS.items():
        assert f"\n  {name} " in ran.out, "a column that is as wide as its longest noun"
        assert ", ".join(entry.verbs) in ran.out


def test_no_word_at_all_is_wrong_use_and_gets_the_same_help_on_stderr(cli: Cli) -> None:
    assert cli() == Ran(Exit.USAGE, "", cli("--help").out)


def test_a_noun_without_a_verb_lists_its_verbs(cli: Cli) -> None:
    said = """\
config: check, show and explain the configuration

usage: glidepath config VERB [options]

  check      Check a configuration and name every problem at once, with its file and line
  show       Show the configuration in force, defaults included, as TOML
  reference  Print the reference of all keys, in Markdown
  import     Print a configuration made from that of another provisioner
"""
    assert cli("config") == Ran(Exit.USAGE, "", said)
    assert cli("config", "--help") == Ran(0, said, "")


def test_the_version_is_one_line(cli: Cli) -> None:
    assert cli("--version") == Ran(0, "glidepath 0.1.0\n", "")


@pytest.mark.parametrize("name", NOUNS)
def test_the_table_of_nouns_agrees_with_the_verbs_themselves(name: str) -> None:
    noun = noun_of(name)[1]
    assert noun.name == name
    assert tuple(verb for verb in noun.verbs if verb) == NOUNS[name].verbs


def test_every_verb_explains_itself_and_its_options(cli: Cli) -> None:
    for noun, verb, summary in commands():
        ran = cli(*[noun, verb] if verb else [noun], "--help")
        assert (ran.code, ran.err) == (0, "")
        assert summary in ran.out
        assert not summary.endswith(".")
        options = noun_of(noun)[1].verbs[verb].options
        assert all(option["help"] for option in options.values())


def test_every_verb_is_in_the_reference_page() -> None:
    text = page()
    for noun, verb, summary in commands():
        assert f"### `glidepath {noun}{' ' + verb if verb else ''}" in text
        assert f"{summary}." in text


def test_plural_nouns_are_accepted(cli: Cli) -> None:
    for plural, noun in PLURALS.items():
        assert noun_of(plural)[0] == noun


@pytest.mark.parametrize(
    ("words", "front", "rest"),
    [
        (["-v", "job", "list"], ["-v"], ["job", "list"]),
        (["--home", "/h", "-o", "json", "job"], ["--home", "/h", "-o", "json"], ["job"]),
        (["--config=c", "-qq", "job"], ["--config=c", "-qq"], ["job"]),
        (["job", "-v"], [], ["job", "-v"]),
        (["--home"], ["--home"], []),
    ],
)
def test_shared_options_may_stand_in_front(words: list[str], front: list[str], rest: list[str]) -> None:
    assert peeled(words) == (front, rest)


def test_what_follows_the_dashes_belongs_to_the_command() -> None:
    submit = noun_of("job")[1].verbs["submit"]
    options = parsed("x", submit, ["--cpus", "2", "--", "fit", "--cpus", "9", "--", "-h"])
    assert options["cpus"] == "2"
    assert options["command"] == ["fit", "--cpus", "9", "--", "-h"]


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom glidepath.cli.main import main\n"
        "assert main(['--help']) == 0 and main(['job', 'submit', '--help']) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, timeout=60, check=True
    )
    assert ran.stderr == b"[]\n"


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = run("config", "reference", home=tmp_path, stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_command_of_its_own_process_ends_with_its_code(tmp_path: Path) -> None:
    ran = run("job", "show", "7", home=tmp_path)
    assert ran.returncode == Exit.NOT_FOUND
    assert ran.stdout == b""
    assert ran.stderr.decode() == (
        f"glidepath: there is no store at `{tmp_path}/glidepath.db` yet\nhint: start it with `glidepath up`\n"
    )


class Interrupting(io.StringIO):
    """A stream on which somebody presses Ctrl-C."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


def test_ctrl_c_ends_with_the_code_that_shells_expect() -> None:
    caller = Caller(Interrupting(), io.StringIO(), {}, lambda seconds: None, lambda: 0.0)
    assert main(["config", "--help"], caller=caller) == 130


def test_a_traceback_is_only_for_those_who_ask_for_all(cli: Cli) -> None:
    assert "Traceback" not in cli("-v", "job", "list").err
    assert "Traceback" in cli("-vv", "job", "list").err
    assert cli("-vv", "job", "list").code == Exit.NOT_FOUND
    assert "Traceback" not in cli("job", "submit", "--partition", "x", "--", "run", "-vv").err
