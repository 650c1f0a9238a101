"""Configuration through the command line: every problem at once, and nothing started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glidepath.cli.verb import Exit
from glidepath.config import EXAMPLE, reference

from .conftest import Cli, Ran

GOOD = """\
[pools.main]
kind = "embedded"

[sites.here]
kind = "local"

[sites.here.offers.cpu]
cpus = 2
memory = "4GiB"
"""
BAD = """\
[pools.main]
kind = "embedded"

[sites.here]
kind = "local"
limts = { live_max = 3 }

[sites.here.offers.cpu]
cpus = 2
memory = 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "glidepath.toml"


def test_a_good_file_is_counted(cli: Cli, file: Path) -> None:
    file.write_text(GOOD)
    said = f"{file}: no problem, 1 pool, 1 site, 1 offer\n"
    assert cli("config", "check", str(file)) == Ran(0, said, "")
    assert cli("config", "check", "--config", str(file)) == Ran(0, said, "")
    assert cli("config", "check", GLIDEPATH_CONFIG=str(file)) == Ran(0, said, "")


def test_every_problem_of_a_bad_file_is_told_with_its_line(cli: Cli, file: Path) -> None:
    file.write_text(BAD)
    ran = cli("config", "check", str(file))
    assert ran.code == Exit.USAGE
    lines = ran.out.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"{file}:6", "sites.here.limts"],
        [f"{file}:10", "sites.here.offers.cpu.memory"],
    ]
    assert "did you mean `limits`?" in lines[0]
    assert ran.err == "2 problems\n"


def test_problems_are_items_in_json(cli: Cli, file: Path) -> None:
    file.write_text(BAD)
    items = json.loads(cli("config", "check", str(file), "-o", "json").out)["items"]
    assert [(item["line"], item["key"]) for item in items] == [
        (6, "sites.here.limts"),
        (10, "sites.here.offers.cpu.memory"),
    ]


@pytest.mark.parametrize(
    "words", [["job", "list"], ["job", "submit", "--", "true"], ["demand"], ["config", "show"]]
)
def test_no_verb_works_on_a_bad_file(cli: Cli, file: Path, home: Path, words: list[str]) -> None:
    file.write_text(BAD)
    ran = cli(*words, GLIDEPATH_CONFIG=str(file))
    assert (ran.code, ran.out) == (Exit.USAGE, "")
    assert len(ran.err.splitlines()) == 3
    assert ran.err.splitlines()[-1] == "glidepath: the configuration has 2 problems; nothing was done"
    assert not home.exists()


def test_a_named_file_that_is_missing_is_a_problem_not_the_default(cli: Cli, file: Path) -> None:
    ran = cli("config", "check", str(file))
    assert (ran.code, ran.out) == (Exit.USAGE, f"{file}: there is no such file; check the path\n")


def test_hostile_names_in_a_file_are_shown_as_escapes(cli: Cli, file: Path) -> None:
    file.write_text(GOOD + '[sites."\\u001b[2J\\u202e"]\nkind = "local"\n')
    ran = cli("config", "check", str(file))
    assert ran.code == Exit.USAGE
    assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())


def test_show_prints_what_is_in_force_and_checks_again(cli: Cli, file: Path, tmp_path: Path) -> None:
    file.write_text(GOOD)
    shown = cli("config", "show", "--config", str(file)).out
    assert shown.startswith(f"# In force, defaults included; from {file}\n")
    again = tmp_path / "again.toml"
    again.write_text(shown)
    assert cli("config", "check", str(again)).out == f"{again}: no problem, 1 pool, 1 site, 1 offer\n"


def test_the_reference_is_that_of_the_configuration_module(cli: Cli) -> None:
    assert cli("config", "reference") == Ran(0, reference(), "")


def test_the_example_of_the_reference_passes_the_check(cli: Cli, file: Path) -> None:
    file.write_text(EXAMPLE)
    assert cli("config", "check", str(file)).code == 0


def test_a_configuration_of_the_prp_is_printed_and_its_notes_apart(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "pod.conf"
    path.write_text("[k8s]\nnamespace=ice\nsleep_time=60\n")
    ran = cli("config", "import", "prp", str(path))
    assert (ran.code, ran.out.splitlines()[0]) == (0, "# Made from the configuration of a PRP provisioner.")
    assert "note: `sleep_time` is left out" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("prb", "x"), Exit.NOT_FOUND, "no provisioner is named `prb`; did you mean `prp`?"),
        (("prp", "/nowhere/pod.conf"), Exit.USAGE, "/nowhere/pod.conf: No such file or directory"),
    ],
)
def test_what_cannot_be_imported_is_told(cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    ran = cli("config", "import", *words)
    assert ran.code == code
    assert said in ran.err
