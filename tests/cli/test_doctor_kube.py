"""The doctor looks over sites of Kubernetes with the pools that their pilots have to reach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glidepath.cli.doctor_reach import addresses_of, only_here
from glidepath.cli.verb import Exit
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import SitePilot, SiteState
from glidepath.core.provision.sight import PoolSlots, SiteListing
from glidepath.core.quantity import Instant
from glidepath.journal.journal import Journal
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

from . import scene
from .conftest import WALL, Cli

CONFIG = """
{pools}
[sites.pods]
kind = "{kind}"
{own}
[sites.pods.offers.worker]
cpus = 4
memory = "8GiB"
disk = "20GiB"
"""
KUBERNETES = '[sites.pods.kubernetes]\nimage = "pilot:1"\nkubeconfig = "{}"\n'
DOCTOR_S_MAX = 60


def found_with(cli: Cli, folder: Path, pools: str, **environ: str) -> dict[str, dict[str, str]]:
    path = folder / "glidepath.toml"
    own = KUBERNETES.format(folder / "none.yaml")
    path.write_text(CONFIG.format(pools=pools, kind="kubernetes", own=own))
    ran = cli("doctor", "-o", "json", GLIDEPATH_CONFIG=str(path), **environ)
    assert ran.code == Exit.FAILED  # The kubeconfig is not there.
    found = {item["name"]: item for item in json.loads(ran.out)["items"]}
    assert found["site pods: access"]["verdict"] == "fail"
    assert "none.yaml" in found["site pods: access"]["found"]
    return found


def test_a_collector_of_this_machine_alone_is_warned_of_beside_what_the_pool_says(
    cli: Cli, tmp_path: Path
) -> None:
    found = found_with(cli, tmp_path, '[pools.campus]\ncollector = "127.0.0.1:1"\n')
    assert found["site pods: pool campus"] == {
        "name": "site pods: pool campus",
        "verdict": "warn",
        "found": "`127.0.0.1:1` is this machine itself; pilots of this site run elsewhere",
        "fix": "write an address of the collector that they reach, and let the collector listen on it",
    }
    assert "pool campus: binding" in found  # The round trip to the collector is the pool's own.


def test_an_embedded_pool_cannot_be_reached_from_pods(cli: Cli, tmp_path: Path) -> None:
    found = found_with(cli, tmp_path, '[pools.own]\nkind = "embedded"\n')
    assert found["site pods: pool own"]["verdict"] == "fail"
    assert found["site pods: pool own"]["fix"] == "name pools of HTCondor in `pools` of the site"


@pytest.mark.parametrize(
    ("host", "addresses", "in_pod", "why"),
    [
        ("127.0.0.1", (), False, "is this machine itself"),
        ("127.8.8.8:9618", (), True, "is this machine itself"),
        ("[::1]:9618", (), False, "is this machine itself"),
        ("::1", (), False, "is this machine itself"),
        ("0.0.0.0", (), False, "is this machine itself"),
        ("169.254.1.2:9618", (), False, "is known on one cable only"),
        ("fe80::1%eth0", (), False, "is known on one cable only"),
        ("localhost:9618", (), False, "is this machine itself"),
        ("LOCALHOST.", (), False, "is this machine itself"),
        ("cm.localhost", (), False, "is this machine itself"),
        ("10.1.2.3:9618", (), False, ""),
        ("[2001:db8::5]:9618", (), False, ""),
        ("cm.example.org", ("10.1.2.3",), False, ""),
        ("cm.example.org:9618", ("127.0.1.1",), False, "is 127.0.1.1 here, which is this machine itself"),
        ("cm.example.org", ("127.0.0.1", "10.1.2.3"), False, ""),
        ("cm.example.org", (), False, ""),
        ("cm", ("10.1.2.3",), False, "has no domain, so that elsewhere it is another name or none"),
        ("cm:9618", ("10.1.2.3",), True, ""),
        ("cm", ("127.0.1.1",), True, "is 127.0.1.1 here, which is this machine itself"),
    ],
)
def test_what_only_this_machine_reaches(
    host: str, addresses: tuple[str, ...], in_pod: bool, why: str
) -> None:
    assert only_here(host, in_pod=in_pod, addresses=lambda _: addresses) == why


def test_names_of_this_machine_are_looked_up() -> None:
    assert set(addresses_of("localhost")) & {"127.0.0.1", "::1"}
    assert addresses_of("no-such-name.invalid") == ()
    assert addresses_of("x" * 300) == ()


def test_an_offer_whose_pilots_fail_is_told_in_the_words_of_the_last(cli: Cli, home: Path) -> None:
    home.mkdir()
    start = int(WALL) - 100
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        migrate(store)
        journal = Journal(store)
        empty = scene.snapshot(start, SiteListing(()), PoolSlots(()))
        memory, names = scene.cycle(journal, Memory("inc", Instant(start)), empty)
        failed = SitePilot(
            names[0],
            scene.CPU.key,
            scene.POOL,
            scene.CPU.size,
            SiteState.FAILED,
            Instant(start + 10),
            Instant(start),
            note="image cannot be pulled: ImagePullBackOff",
        )
        scene.cycle(journal, memory, scene.snapshot(start + 60, SiteListing((failed,)), PoolSlots(())))
    items = json.loads(cli("doctor", "-o", "json").out)["items"]
    (found,) = [item for item in items if item["name"].startswith("offer ")]
    assert found == {
        "name": "offer here/cpu",
        "verdict": "warn",
        "found": "1 pilot has failed since the last that joined: image cannot be pulled: ImagePullBackOff",
        "fix": "`glidepath explain here/cpu` tells what is done about it",
    }


def test_offers_whose_pilots_are_well_are_not_spoken_of(cli: Cli, home: Path) -> None:
    scene.write(home)
    items = json.loads(cli("doctor", "-o", "json").out)["items"]
    assert not [item for item in items if item["name"].startswith("offer ")]


BRITTLE = """
class Kind:
    def __call__(self, site, settings, place):
        raise ValueError("its library is not installed")


kind = Kind()
"""


def test_a_site_that_could_not_be_made_is_not_passed_over(tmp_path: Path) -> None:
    about = tmp_path / "brittle-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brittle\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[glidepath.backends]\nbrittle = brittle_kind:kind\n")
    (tmp_path / "brittle_kind.py").write_text(BRITTLE)
    path = tmp_path / "glidepath.toml"
    path.write_text(CONFIG.format(pools='[pools.own]\nkind = "embedded"\n', kind="brittle", own=""))
    done = subprocess.run(
        [sys.executable, "-m", "glidepath", "doctor", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=DOCTOR_S_MAX,
        check=False,
        env={
            **os.environ,
            "GLIDEPATH_HOME": str(tmp_path / "home"),
            "GLIDEPATH_CONFIG": str(path),
            "PYTHONPATH": str(tmp_path),
        },
    )
    assert done.returncode == Exit.FAILED, done.stderr
    found = {item["name"]: item for item in json.loads(done.stdout)["items"]}
    assert found["site pods"]["found"] == "the backend could not be made: its library is not installed"
