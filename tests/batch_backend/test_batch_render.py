"""What is sent for a pilot, to the letter; and that no value becomes a line, an option or a file of its own.

The files in `golden` are what `glidepath site render` prints; a change there is a change of what sites get.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from batch_world import a_spec
from pydantic import ValidationError

from glidepath.batch.dialects import DIALECTS
from glidepath.batch.intent import mark_of
from glidepath.batch.lines import option_refusal, setup_line
from glidepath.batch.script import Made, Site, made, rendered, top_of
from glidepath.batch.settings import SETTINGS, walltime_refusal
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, NodeName, PilotName, PoolName, Resources, SiteName
from glidepath.pilot import pilot_name

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("slurm", "pbs", "sge", "lsf", "htcondor")
FULL: dict[str, Any] = {
    "folder": "/scratch/ada/glidepath",
    "setup": ["module load python/3.11", "export LC_ALL=C"],
    "account": "phys",
    "walltime": "10h",
    "memory_percent": 110,
    "gpu_type": "a100",
    "htcondor": "/sw/htcondor-24.tar.gz",
}
OWN: dict[str, dict[str, Any]] = {
    "slurm": {"queue": "long,gpu", "qos": "low", "nodes": 2, "options": ["--constraint=haswell"]},
    "pbs": {"queue": "long", "nodes": 2, "options": ["-l scratch=10gb"]},
    "sge": {"queue": "long", "nodes": 2, "parallel": "mpi", "options": ["-R y"]},
    "lsf": {"queue": "long", "nodes": 2, "whole_node": True},
    "htcondor": {"options": ["rank = Memory", '+Group = "physics"']},
}


def spec_of(kind: str) -> PilotSpec:
    mates = (PilotName("gp-b"),) if OWN[kind].get("nodes") == 2 else ()
    plain = replace(a_spec("gp-a"), asked_at=Instant(1000), lifetime_s=8 * 3600, pool=PoolName("campus"))
    size = Resources(4000, 8192, 20480, 1)
    avoid = (NodeName("bad1"), NodeName("bad[2-3]"))
    secrets = (plain.secrets,) * len(mates)
    return replace(plain, size=size, avoid=avoid, mates=mates, mates_secrets=secrets)


def made_of(kind: str, spec: PilotSpec, **changed: Any) -> Made:
    settings = SETTINGS[kind].model_validate({**FULL, **OWN[kind], **changed})
    site = Site(top_of(settings, SiteName("west")), mark_of(settings.folder, SiteName("west")))
    return made(spec, settings.job("small"), DIALECTS[kind], site)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sent_is_known_to_the_letter(kind: str) -> None:
    # The pilot's own file has the sum of its bytes in its name.
    found = rendered(made_of(kind, spec_of(kind))).replace(pilot_name(), "pilot-SUM.pyz")
    path = GOLDEN / f"{kind}.txt"
    if os.environ.get("GLIDEPATH_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_every_script_is_one_that_shells_read(kind: str, tmp_path: Path) -> None:
    ready = made_of(kind, spec_of(kind))
    for file in ready.files:
        if file.mode == 0o700:
            script = tmp_path / file.name
            script.write_text(file.content)
            for shell in ("bash", "sh"):
                subprocess.run([shell, "-n", script], check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_travel_in_files_that_nobody_else_can_open(kind: str) -> None:
    ready = made_of(kind, spec_of(kind))
    with tarfile.open(fileobj=BytesIO(ready.packed())) as archive:
        modes = {entry.name: entry.mode for entry in archive}
    tokens = [name for name in modes if "tokens.d" in name]
    assert tokens
    assert all(mode in (0o600, 0o700) for mode in modes.values())
    assert list(modes)[-1] == "asked"
    shown = [ready.words.given, *ready.words.argv, rendered(ready)]
    assert not any("the-secret" in text for text in shown)
    assert not any("the-secret" in file.content for file in ready.files if not file.secret)


# Random and hostile values.

PIECES = (
    *("a", "queue", "x" * 300, "-", "--wrap=id", "-o", " ", "\n", "\r", "\t", "\0", ";", "&&", "|", "`id`"),
    *("$(id)", "${HOME}", "'", '"', "\\", "\\\n", "#", "=", ",", "..", "/", "../..", "*", "?", "[", "]", "<"),
    *(">", "~", "!", "%", "\u202e", "é", "\x1b[2J", "\u2028", "queue 2", "+Owner", "$$(x)", "\x7f", "(", ")"),
)
FIELDS = (
    "queue",
    "account",
    "qos",
    "gpu_type",
    "gpu_form",
    "parallel",
    "memory_form",
    "nodes_form",
    "python",
)
PER_KIND = 1_000


def hostile(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_becomes_an_option_a_line_or_a_file(kind: str, tmp_path: Path) -> None:
    """Through the settings, as a file would bring them: each is refused, or stays in its own place."""
    chance = random.Random(7)
    plain = made_of(kind, replace(spec_of(kind), mates=(), mates_secrets=()), nodes=1)
    taken = 0
    for _ in range(PER_KIND):
        text, name = hostile(chance), chance.choice((*FIELDS, "options", "setup", "trait", "node", "name"))
        spec, changed = replace(spec_of(kind), mates=(), mates_secrets=()), {"nodes": 1}
        if name == "trait":
            spec = replace(spec, traits=(("os", text),))
        elif name == "node":
            spec = replace(spec, avoid=(NodeName(text),))
        elif name == "name":
            spec = replace(spec, name=PilotName(text))
        else:
            changed[name] = [text] if name in ("options", "setup") else text
        try:
            found = made_of(kind, spec, **changed)
        except (ValueError, ValidationError):
            continue
        taken += 1
        check(found, plain, setup=name == "setup")
    assert taken > 10


def check(found: Made, plain: Made, *, setup: bool) -> None:
    for word in (*found.words.argv, *found.words.given.split("\n")):
        assert word.isprintable()
    assert "\r" not in found.words.given
    assert [file.name for file in found.files if "/" not in file.name] == [
        file.name for file in plain.files if "/" not in file.name
    ]
    # An option and its value at most, or one entry, for each that was asked for.
    assert abs(len(found.words.argv) - len(plain.words.argv)) <= 2
    assert abs(found.words.given.count("\n") - plain.words.given.count("\n")) <= 2
    for file, before in zip(found.files, plain.files, strict=True):
        if file.mode == 0o700:
            lines, known = file.content.count("\n"), before.content.count("\n")
            assert lines == known or (setup and abs(lines - known) <= 2)
            assert not re.search(r"\$\(id\)|`id`|--wrap", file.content)
        if file.name == "words":
            assert file.content.count("\n") == before.content.count("\n")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "htcondor"])
def test_the_command_reaches_its_program_word_by_word(kind: str, tmp_path: Path) -> None:
    ready = made_of(kind, spec_of(kind))
    stub = tmp_path / ready.words.argv[0]
    stub.write_text(f"#!{sys.executable}\nimport sys\nprint('\\0'.join(sys.argv[1:]), end='')\n")
    stub.chmod(0o755)
    for command in (list(ready.words.argv), ["sh", "-c", shlex.join(ready.words.argv)]):
        done = subprocess.run(
            command, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
        )
        assert done.stdout.split("\0") == list(ready.words.argv[1:])


@pytest.mark.parametrize(
    ("kind", "line", "taken"),
    [
        ("slurm", "--constraint=haswell", True),
        ("slurm", "--signal=B:USR1@600", True),
        ("slurm", "--export=ALL", False),
        ("slurm", "--output=/tmp/x", False),
        ("slurm", "--wrap=id", False),
        ("slurm", "--constrain=haswell", False),
        ("slurm", "--constraint=a b", False),
        ("pbs", "-l scratch=10gb", True),
        ("pbs", "-l walltime=1:00:00", False),
        ("pbs", "-l scratch=1gb,walltime=9", False),
        ("pbs", "-W stagein=x", False),
        ("pbs", "-v X=1", False),
        ("sge", "-l h_rt=9", False),
        ("sge", "-l scratch=10G", True),
        ("lsf", "-app test", True),
        ("lsf", "-o /tmp/x", False),
        ("htcondor", "rank = Memory", True),
        ("htcondor", '+Group = "physics"', True),
        ("htcondor", "executable = /bin/id", False),
        ("htcondor", "queue 5", False),
        ("htcondor", "rank = $(x)", False),
    ],
)
def test_options_are_those_of_a_list(kind: str, line: str, taken: bool) -> None:
    assert (option_refusal(kind, line) == "") is taken


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("module load python/3.11 gcc", True),
        ("module use /opt/modules", True),
        ("module purge", True),
        ("ml python", True),
        ("source /opt/env.sh", True),
        (". /opt/env.sh", True),
        ("export OMP_NUM_THREADS=1", True),
        ("ulimit -n 4096", True),
        ("ulimit -s unlimited", True),
        ("export PATH=/opt/bin:$PATH", False),
        ("export LD_PRELOAD=/tmp/x", False),
        ("source /opt/../tmp/x", False),
        ("module load x; id", False),
        ("module load $(id)", False),
        ("rm -rf /", False),
        ("export A=1\nid", False),
        ("", False),
    ],
)
def test_lines_before_the_pilot_are_of_known_forms(line: str, taken: bool) -> None:
    try:
        assert setup_line(line) == line
    except ValueError:
        assert not taken
    else:
        assert taken


# Amounts and times.


@pytest.mark.parametrize(
    ("own", "cpus", "memory_mib"),
    [
        ({}, 4, 8192),
        ({"memory_percent": 105}, 4, 8602),
        ({"memory_per_core": "2GiB"}, 4, 8192),
        ({"memory_per_core": "1GiB"}, 8, 8192),
        ({"memory_per_core": "1GiB", "memory_percent": 110}, 9, 9012),
        ({"per_node": 2}, 8, 16384),
        ({"memory_by": "none"}, 4, 0),
    ],
)
def test_what_is_asked_for_follows_from_the_size_and_the_rules_of_the_site(
    own: dict[str, Any], cpus: int, memory_mib: int
) -> None:
    spec = replace(a_spec("gp-a"), size=Resources(4000, 8192))
    if own.get("per_node"):
        spec = replace(spec, mates=(PilotName("gp-b"),), mates_secrets=(spec.secrets,))
    settings = SETTINGS["slurm"].model_validate({"folder": "/scratch", **own})
    site = Site(top_of(settings, SiteName("west")), "abcdef")
    job = made(spec, settings.job("small"), DIALECTS["slurm"], site).job
    assert (job.cpus, job.memory_mib) == (cpus, memory_mib)


@pytest.mark.parametrize(
    ("walltime", "grace", "lifetime_s", "asked_s"),
    [
        # By default as long as the pilot, its jobs after it, and five minutes.
        ("0s", None, 3600, 3600 + 1200 + 300),
        ("0s", "600", 3600, 3600 + 600 + 300),
        ("2h", None, 3600, 7200),
        # A site that gives less has pilots that live less.
        ("1h", None, 3600 - 1200 - 300, 3600),
    ],
)
def test_a_pilot_is_gone_before_its_job_is_ended(
    walltime: str, grace: str | None, lifetime_s: int, asked_s: int
) -> None:
    spec = replace(a_spec("gp-a"), lifetime_s=3600)
    if grace is not None:
        spec = replace(spec, join=(*spec.join, ("GLIDEPATH_GRACE_S", grace)))
    settings = SETTINGS["slurm"].model_validate({"folder": "/scratch", "walltime": walltime})
    ready = made(
        spec, settings.job("small"), DIALECTS["slurm"], Site(top_of(settings, SiteName("w")), "abcdef")
    )
    words = next(file.content for file in ready.files if file.name == "words")
    assert f"--lifetime-s={lifetime_s}\n" in words
    assert ready.job.walltime_s == asked_s
    assert asked_s - lifetime_s >= (int(grace) if grace else 1200) + 300


def test_a_walltime_that_is_too_short_for_the_offer_is_told_with_numbers() -> None:
    settings = SETTINGS["slurm"].model_validate({"folder": "/scratch", "walltime": "10h"})
    assert "too short for pilots that live 14h" in walltime_refusal(settings.job("x"), 14 * 3600)
    assert walltime_refusal(settings.job("x"), 9 * 3600) == ""
