"""A site that is asked for its limits: what is printed loads as a configuration."""

from __future__ import annotations

import io
import json
import shlex
import time
import tomllib
from pathlib import Path

import pytest
from bed.parts.batch_site import Site
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from tests.bed_pool import nothing_is_left, pool
from tests.bed_site import shared_site

from glidepath.batch.dialect import QueueFacts
from glidepath.batch.probe import found, ssh_of
from glidepath.cli.main import main
from glidepath.cli.verb import Caller
from glidepath.config import load
from glidepath.core.quantity import SiteName

__all__ = ["nothing_is_left"]

WAIT_S_MAX = 120
STARTD = "DAEMON_LIST = $(DAEMON_LIST) STARTD\nNUM_CPUS = 3\nMEMORY = 3000\nuse FEATURE : PartitionableSlot\n"

POOL = '[pools.campus]\nkind = "condor"\ncollector = "pool.example"\n\n'
LONG = QueueFacts("long", 7 * 86400, 2, 2, 4, 6000, 0, "", False)
WHOLE = QueueFacts("big", 7200, 4, 8, 64, 256000, 4, "a100", True, notes=("accounts: abc",))
PRINTED = """\
# What slurm said of its queues on login.west.
[sites.west]
kind = "slurm"

[sites.west.slurm]
# It must be there, and every node must see it under this name.
folder = "/home/ann/glidepath"
ssh = { host = "login.west", user = "ann" }

# long: jobs of at most 7d and 2 nodes; 2 nodes with at least 4 CPUs, 6000 MiB; shared
[sites.west.offers.long]
cpus = 4
memory = "6000MiB"

[sites.west.slurm.offers.long]
queue = "long"

# big: jobs of at most 2h and 4 nodes; 8 nodes with at least 64 CPUs, 256000 MiB, 4 GPUs; given whole
#   accounts: abc
[sites.west.offers.big]
cpus = 64
memory = "256000MiB"
gpus = 4
traits = { gpu_type = "a100" }
lifetime = "1h35m"

[sites.west.slurm.offers.big]
queue = "big"
whole_node = true"""


def loaded(lines: tuple[str, ...], tmp_path: Path) -> dict[str, object]:
    """The tables as they stand in a configuration that is usable."""
    text = "\n".join(lines)
    file = tmp_path / "glidepath.toml"
    file.write_text(POOL + text + "\n", encoding="utf-8")
    load(file)
    tables: dict[str, object] = tomllib.loads(text)
    return tables


def test_tables_of_a_site_are_printed_with_what_was_found(tmp_path: Path) -> None:
    ssh = ssh_of({"host": "login.west", "user": "ann"})
    told = found(SiteName("west"), "slurm", ssh, queues=(LONG, WHOLE), home="/home/ann")
    assert "\n".join(told.lines) == PRINTED
    loaded(told.lines, tmp_path)
    assert [queue["name"] for queue in told.queues] == ["long", "big"]
    assert told.queues[1]["gpu_type"] == "a100"


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        (QueueFacts("minute", 60, 1, 2, 4, 6000), "a pilot needs 25m to end in, and some time before that"),
        (QueueFacts("old.q", None, 1, 0), "the site does not say what its nodes have"),
        (QueueFacts("away", None, 1, 2, 4, 6000, open=False), "it is closed; take it up when it is open"),
        (QueueFacts('a"\n[sites.x]', None, 1, 2, 4, 6000), "is refused"),
        (QueueFacts("a", None, 1, 2, 4, 6000, 1, 'x"]'), "is refused"),
        (QueueFacts("a", None, 1, 2, 4, 6000, parallel='x"]'), "is refused"),
        (QueueFacts("a\u2028b\x1b[2J", None, 1, 2, 4, 6000), "is refused"),
    ],
)
def test_a_queue_that_can_hold_no_pilot_is_a_comment(queue: QueueFacts, why: str, tmp_path: Path) -> None:
    told = found(SiteName("west"), "sge", ssh_of({}), queues=(queue, LONG), home="/home/ann")
    assert [line for line in told.lines if line.startswith("# No offer: ") and why in line]
    assert all("\n" not in line and line.isprintable() for line in told.lines)
    tables = loaded(told.lines, tmp_path)
    assert list(tables["sites"]["west"]["offers"]) == ["long"]  # type: ignore[index]


def test_offers_have_names_of_their_own(tmp_path: Path) -> None:
    names = ("All.q", "all.q", "ALL-Q", "7days", "ü" * 3, "x" * 90, "x" * 91)
    queues = tuple(QueueFacts(name, None, 1, 2, 4, 6000, parallel="smp") for name in names)
    told = found(SiteName("west"), "sge", ssh_of({}), queues=queues, home="/home/ann")
    tables = loaded(told.lines, tmp_path)
    offers = tables["sites"]["west"]["offers"]  # type: ignore[index]
    assert list(offers) == ["all-q", "all-q-2", "all-q-3", "q-7days", "x" * 35, f"{'x' * 35}-2"]
    assert tables["sites"]["west"]["sge"]["offers"]["q-7days"] == {"queue": "7days", "parallel": "smp"}  # type: ignore[index]


def test_a_job_of_grid_engine_without_an_environment_has_one_core(tmp_path: Path) -> None:
    told = found(SiteName("west"), "sge", ssh_of({}), queues=(LONG,), home="/home/ann")
    assert "cpus = 1" in told.lines
    loaded(told.lines, tmp_path)


def test_more_queues_than_anybody_reads_are_counted() -> None:
    queues = tuple(QueueFacts(f"q{number}", None, 1, 2, 4, 6000) for number in range(150))
    told = found(SiteName("west"), "slurm", ssh_of({}), queues=queues, home="/home/ann")
    assert told.lines[-1] == "# 50 more queues were found and left out."


# The command.


def cli(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    environ = {"HOME": str(tmp_path), "GLIDEPATH_HOME": str(tmp_path / "home")}
    caller = Caller(out, err, environ, lambda seconds: None, lambda: 1_800_000_000.0)
    return int(main(["site", "probe", *words], caller=caller)), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("slrum",), 2, "did you mean `slurm`?"),
        (("local",), 2, "have no limits that could be asked for"),
        (("pbs",), 1, "the limits of a site with pbs are not read; write its tables by hand"),
        (("slurm", "--name", "No Such"), 2, "is no name of a site"),
        (("slurm", "--host=-oProxyCommand=id"), 1, "is no name of a host"),
        (("slurm", "--host", "a", "--user=-x"), 1, "is no name of a user"),
        (("slurm", "--user", "ann"), 1, "`user` says how to reach a host, and no `host` is set"),
        (("slurm", "--path", "/nowhere/at/all"), 1, "`scontrol` is not on this machine"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    found_code, out, err = cli(tmp_path, *words)
    assert (found_code, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def stand_in(folder: Path, **answers: str) -> Path:
    folder.mkdir()
    for name, text in answers.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        file = folder / name
        file.write_text(f"#!/bin/sh\ncat {folder}/{name}.txt\n", encoding="utf-8")
        file.chmod(0o755)
    return folder


def test_an_answer_that_is_none_is_told_and_nothing_printed(tmp_path: Path) -> None:
    for number, text in enumerate(("", "<html></html>\n", "Welcome\n")):
        commands = stand_in(tmp_path / f"bin{number}", scontrol=text, sinfo=text)
        code, out, err = cli(tmp_path, "slurm", "--path", str(commands))
        assert (code, out) == (1, "")
        assert "the site told nothing: `sinfo` answered what it never does" in err


@pytest.fixture(params=["slurm", "sge"])
def real(request: pytest.FixtureRequest) -> tuple[str, Site]:
    kind = Slurm if request.param == "slurm" else GridEngine
    return request.param, shared_site(request.config, kind)


@pytest.mark.real
def test_a_real_site_is_probed_on_its_login_node_and_from_elsewhere(
    real: tuple[str, Site], tmp_path: Path
) -> None:
    kind, site = real
    code, out, err = cli(tmp_path, kind, "--path", str(site.commands("ann")))
    assert (code, err) == (0, "")
    host, port = site.address.split(":")
    config = tmp_path / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {site.known_hosts}\n", encoding="utf-8")
    way = ("--host", host, "--port", port, "--user", "ann", "--identity", str(site.key("ann")))
    code, by_ssh, err = cli(tmp_path, kind, "--name", "west", *way, "--ssh-config", str(config))
    assert (code, err) == (0, "")
    for text in (out, by_ssh):
        loaded(tuple(text.splitlines()), tmp_path)
    assert 'folder = "/home/ann/glidepath"' in by_ssh
    offers = tomllib.loads(by_ssh)["sites"]["west"]["offers"]
    expected = {"slurm": ["short", "long", "whole"], "sge": ["all-q", "short-q"]}
    assert list(offers) == expected[kind]
    assert all(offer["cpus"] == 4 for offer in offers.values())
    code, out, _ = cli(tmp_path, kind, "--path", str(site.commands("ann")), "-o", "json")
    assert code == 0
    queues = {item["name"]: item for item in json.loads(out)["items"]}
    assert queues["short" if kind == "slurm" else "short.q"]["walltime_s_max"] == 1800


@pytest.mark.real
def test_kinds_of_machines_of_a_real_pool_become_offers(tmp_path: Path) -> None:
    with pool("condor@probe") as daemons:
        daemons.up(tied=True, extra_config=STARTD)
        commands = tmp_path / "bin"
        commands.mkdir()
        tool = commands / "condor_status"
        words = shlex.join(daemons.beside("/usr/bin/condor_status", user="ann"))
        told = f"CONDOR_CONFIG={daemons.folder}/condor_config"
        tool.write_text(f'#!/bin/sh\nexec env {told} {words} "$@"\n', encoding="utf-8")
        tool.chmod(0o755)
        end = time.monotonic() + WAIT_S_MAX
        while "sites.htcondor.offers" not in (found := cli(tmp_path, "htcondor", "--path", str(commands)))[1]:
            assert time.monotonic() < end, found
            time.sleep(0.25)
    code, out, err = found
    assert (code, err) == (0, "")
    tables = loaded(tuple(out.splitlines()), tmp_path)
    offers = tables["sites"]["htcondor"]["offers"]  # type: ignore[index]
    assert offers == {"cores-3-memory-3000": {"cpus": 3, "memory": "3000MiB"}}
