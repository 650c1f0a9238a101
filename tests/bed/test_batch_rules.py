"""What the parts of batch sites decide without a server: machines, names, and texts of configuration."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from bed.machine import Machine
from bed.parts import batch_root, slurm_config
from bed.parts.batch_site import BatchPart
from bed.parts.gridengine import GridEngine, GridEnginePart, replaced
from bed.parts.slurm import NODES, SETTINGS, Slurm, SlurmPart
from bed.parts.sshd import Login, Sshd
from bed.place import Place
from bed.registry import PARTS
from bed.trouble import Trouble

GOOD = Machine(
    uid=0,
    system="debian",
    codename="bookworm",
    architecture="x86_64",
    tools=frozenset({"apt-get", "nsenter", "pivot_root", "setpriv", "unshare"}),
    namespaces=True,
    mirror="http://mirror.example/debian",
)
SITES: list[type[BatchPart]] = [SlurmPart, GridEnginePart, Sshd]
PORTS = {"slurmctld": 1, "slurmdbd": 2, "node1": 3, "node2": 4}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(cache=tmp_path / "cache", run=Path(f"/tmp/gp-rules-{os.getpid()}"))


@pytest.mark.parametrize("part", SITES)
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"uid": 1000}, ["not root"]),
        ({"system": "fedora"}, ["not Debian but `fedora`"]),
        ({"architecture": "aarch64"}, ["this is aarch64"]),
        ({"namespaces": False}, ["forbids private mount"]),
        ({"tools": GOOD.tools - {"apt-get"}}, ["neither debootstrap nor packages"]),
    ],
)
def test_a_machine_that_cannot_host_a_batch_site_says_why(
    part: type[BatchPart], facts: dict[str, object], expected: list[str], place: Place
) -> None:
    reasons = part().obstacles(dataclasses.replace(GOOD, **facts), place)  # type: ignore[arg-type]
    assert len(reasons) == len(expected), reasons
    assert all(told in reason for told, reason in zip(expected, reasons, strict=True))


def test_all_sites_are_prepared_by_the_one_root_file_system(place: Place) -> None:
    assert {PARTS[part.name] for part in SITES} == set(SITES)
    assert [part().prepared(place) for part in SITES] == [False] * 3
    batch_root.build_folder(place).mkdir(parents=True)
    assert [part().prepared(place) for part in SITES] == [True] * 3
    assert Sshd().obstacles(dataclasses.replace(GOOD, system="fedora", mirror=""), place) == []


def test_a_site_is_found_by_a_name_of_its_own_part_only(place: Place) -> None:
    assert Slurm("slurm@two", place=place).folder == place.run / "slurm-two"
    for kind in (Slurm, GridEngine, Login):
        assert kind(place=place).instance.name == kind.part.name
        with pytest.raises(Trouble, match="is not a site of"):
            kind("condor", place=place)
        with pytest.raises(Trouble, match="is not up"):
            _ = kind(place=place).address


def test_nodes_of_slurm_have_a_port_each_and_are_in_every_partition() -> None:
    text = slurm_config.slurm_text(Path("/f"), PORTS, NODES, settings={**SETTINGS, "cpus": 7})
    lines = text.splitlines()
    nodes = [line.split() for line in lines if line.startswith("NodeName=")]
    assert [(node[0], node[3], node[4]) for node in nodes] == [
        ("NodeName=node1", "Port=3", "CPUs=7"),
        ("NodeName=node2", "Port=4", "CPUs=7"),
    ]
    partitions = [line for line in lines if line.startswith("PartitionName=")]
    assert len(partitions) == len(slurm_config.PARTITIONS)
    assert all(" Nodes=node1,node2 " in line for line in partitions)
    assert {"SlurmctldPort=1", "AccountingStoragePort=2"} <= set(lines)
    assert "DbdPort=2" in slurm_config.slurmdbd_text(PORTS).splitlines()


def test_what_grid_engine_tells_is_given_back_with_other_values() -> None:
    shown = "#global:\nmailer   /usr/bin/mail\nparams   a=1 \\\n         b=2\nempty\n"
    assert replaced(shown, {"mailer": "none", "new": "x y"}).splitlines() == [
        "mailer none",
        "params a=1           b=2",
        "empty ",
        "new x y",
    ]
