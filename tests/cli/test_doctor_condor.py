"""The doctor looks over pools of HTCondor, and settings that these could not work with are warned of."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from glidepath.cli.verb import Exit

from .conftest import Cli

SITE = """
[sites.here]
kind = "local"
{pools}
[sites.here.offers.worker]
cpus = 4
memory = "8GiB"
{disk}
"""
POOL = '[pools.campus]\ncollector = "{}"\n'


def written(folder: Path, text: str, *, pools: str = "", disk: str = "") -> str:
    path = folder / "glidepath.toml"
    path.write_text(text + SITE.format(pools=pools, disk=disk))
    return str(path)


@pytest.fixture
def nobody() -> str:
    """An address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_pool_that_refuses_is_told_with_where_it_was_looked_for_and_the_rest_is_told_too(
    cli: Cli, tmp_path: Path, nobody: str
) -> None:
    pytest.importorskip("htcondor2")
    file = written(tmp_path, POOL.format(nobody), disk='disk = "20GiB"')
    ran = cli("doctor", "-o", "json", GLIDEPATH_CONFIG=file)
    assert ran.code == Exit.FAILED
    found = {item["name"]: item for item in json.loads(ran.out)["items"]}
    assert found["pool campus: binding"]["verdict"] == "ok"
    assert found["pool campus: collector"] == {
        "name": "pool campus: collector",
        "verdict": "fail",
        "found": f"`{nobody}` refuses connections; a collector's usual port is 9618",
        "fix": "is the collector up, on this address and port?",
    }
    assert found["pool campus: pilot token"]["fix"] == "write the pool's TRUST_DOMAIN as `trust_domain`"
    assert found["store"]["verdict"] == found["pilots"]["verdict"] == "ok"


def test_the_name_of_another_pool_is_what_may_have_been_meant(cli: Cli, tmp_path: Path, nobody: str) -> None:
    pytest.importorskip("htcondor2")
    host = "cm.no-such-lab.invalid"
    pools = POOL.format(host) + f'[pools.east]\ncollector = "{host.replace("lab", "lb")}"\n'
    file = written(tmp_path, pools, disk='disk = "20GiB"')
    items = json.loads(cli("doctor", "-o", "json", GLIDEPATH_CONFIG=file).out)["items"]
    found = {item["name"]: item for item in items}
    assert found["pool east: collector"]["fix"] == f"did you mean `{host}`?"


@pytest.mark.parametrize(
    ("pools", "disk", "warned"),
    [
        ("", "", True),
        ('pools = ["campus"]', "", True),
        ('pools = ["own"]', "", False),
        ("", 'disk = "20GiB"', False),
    ],
)
def test_an_offer_without_disk_for_a_pool_of_htcondor_is_warned_of_with_the_line_to_add(
    cli: Cli, tmp_path: Path, pools: str, disk: str, warned: bool
) -> None:
    own = '[pools.own]\nkind = "embedded"\n'
    file = written(tmp_path, POOL.format("cm.example.org") + own, pools=pools, disk=disk)
    ran = cli("config", "check", file)
    said = (
        f"warning: {file}:9: sites.here.offers.worker: the offer has no disk, and every job of HTCondor "
        'in the pool `campus` asks for some; add for example `disk = "20GiB"`'
    )
    counted = f"{file}: no problem, 2 pools, 1 site, 1 offer"
    assert ran.code == Exit.DONE
    assert ran.out.splitlines() == ([said] if warned else []) + [counted]
    items = json.loads(cli("config", "check", file, "-o", "json").out)["items"]
    assert [(item["level"], item["line"]) for item in items] == ([("warning", 9)] if warned else [])
