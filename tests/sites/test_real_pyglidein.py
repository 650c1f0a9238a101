"""The real client of pyglidein, unmodified, for jobs of a real pool, at real Slurm and real HTCondor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from bed.parts.batch_site import Site
from bed.parts.slurm import Slurm
from tests.bed_pool import condor_pool
from tests.bed_site import CondorSite, site_of

from calls.pyglidein_client import run_client
from scenes.several import seldom
from sites.calling_world import Calling
from sites.glideins import Client
from sites.sites_world import WAIT_S
from whole.running import house

pytestmark = pytest.mark.real

JOBS = 4
# Clients come from cron: what they have not counted for so long makes room for another.
CRON_S = 600
CALL_S_MAX = 60
SMALL = {"cpus": 1, "memory": "600MiB", "disk": "1GiB"}
# The jobs fit any system but that of the second kind.
JOB = ("request_memory = 300", "request_cpus = 1", 'requirements = TARGET.OpSysAndVer =!= "SL6"')
SYSTEMS = """
[sites.west.offers.small.traits]
os = "Debian"

[sites.west.offers.other]
cpus = 1
memory = "600MiB"
disk = "1GiB"
traits = { os = "SL6" }
"""


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[Calling]:
    pool = condor_pool(request.config)
    with house() as home:
        made = Calling(home, pool)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("kind", [Slurm, CondorSite], ids=["slurm", "htcondor"])
def test_an_unmodified_client_launches_glideins_for_the_jobs_of_a_real_pool_once(
    request: pytest.FixtureRequest, world: Calling, kind: type[Site]
) -> None:
    world.extra, world.silent_s = SYSTEMS, CRON_S
    asked = world.at(site_of(request.config, kind), "west", live_max=20, offer=SMALL)
    client = Client(asked.at, world.pool, world.folder(asked))
    secret = world.tell("token", "issue", "west", "--address").strip()
    address = f"http://127.0.0.1:{world.port}/sites/{secret}"
    world.up()
    launched: list[int] = []

    def one_round() -> None:
        said = run_client(client.work, client.config(address), path=client.commands)
        launched.extend(int(count) for count in re.findall(r"launched (\d+) glideins", said))

    one_round()
    assert launched == [], "nothing waits, and nothing is shown"
    work = world.submit("sleep 3", *JOB, count=JOBS)
    seldom(lambda: world.tray(asked).requests != (), world.said, within_s=WAIT_S)
    with urlopen(address, timeout=CALL_S_MAX) as answer:
        page = answer.read().decode()
    assert ("<td>Debian</td>" in page, "SL6" in page) == (True, False), page

    def over() -> bool:
        one_round()
        return not world.waiting(work)

    seldom(over, lambda: f"launched {launched}: {client.told_by_glideins()}\n{world.said()}", within_s=WAIT_S)
    assert world.history(work, "ExitCode") == [["0"]] * JOBS
    assert 1 <= sum(launched) <= JOBS, launched
    one_round()
    assert sum(launched) == len(client.submitted()), "each of them is one job of the site, and no more"
    client.end_glideins()
    seldom(lambda: not world.jobs_at(asked), world.said, within_s=WAIT_S)
