"""Real Slurm and Grid Engine behind agents of their own, beside a real cluster: one demand, divided once."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from bed.parts.gridengine import GridEngine
from bed.parts.kubernetes import Cluster
from bed.parts.slurm import Slurm
from tests.bed_cluster import cluster as a_cluster
from tests.bed_pool import condor_pool

from condor.test_real_tokens import mint
from glidepath.condor.tokens import RIGHTS, claims_of
from scenes.several import pods_in, seldom, site_table
from sites.calling_world import Calling
from sites.sites_world import WAIT_S, Asked
from whole.running import house

pytestmark = pytest.mark.real

JOBS = 100
# What a minted token lasts longer than its pilot: the wait in the queue, the grace, and clocks that differ.
LONGER_S_MAX = 3600
CALL_S_MAX = 60
NAMESPACE = "sites"
SMALL = {"cpus": 1, "memory": "600MiB", "disk": "1GiB"}


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[Calling]:
    pool = condor_pool(request.config)
    with house() as home:
        made = Calling(home, pool)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def resting(slurm: Slurm, grid_engine: GridEngine) -> Iterator[None]:
    """Nothing starts at either site, so that what is asked for there can be counted."""
    with contextlib.ExitStack() as until_then:
        slurm.run("scontrol", "update", "PartitionName=long", "State=DOWN").must("Slurm goes on")
        until_then.callback(slurm.run, "scontrol", "update", "PartitionName=long", "State=UP")
        grid_engine.run("qmod", "-d", "*").must("Grid Engine goes on")
        until_then.callback(grid_engine.run, "qmod", "-e", "*")
        yield


class Shared:
    """100 jobs that wait, two sites with agents and a cluster, and what each was asked for."""

    def __init__(self, world: Calling, cluster: Cluster, slurm: Asked, grid_engine: Asked) -> None:
        self.world, self.cluster, self.slurm, self.grid_engine = world, cluster, slurm, grid_engine
        self.sites = (slurm, grid_engine)

    def counts(self) -> list[int]:
        """At the cluster, with Slurm, with Grid Engine."""
        return [
            len(pods_in(self.cluster, NAMESPACE)),
            *(len(self.world.jobs_at(each)) for each in self.sites),
        ]

    def ids(self) -> set[str]:
        """All that is at the batch sites, by their own numbers."""
        return {f"{each.name} {number}" for each in self.sites for number in self.world.jobs_at(each)}

    def settled(self) -> None:
        """What is asked for is what waits, and so it is after some more looks."""
        seldom(lambda: sum(self.counts()) == JOBS, self.told, within_s=WAIT_S)
        self.world.cycles_later()
        assert sum(self.counts()) == JOBS, self.told()

    def told(self) -> str:
        return f"{self.counts()}: {self.world.said()}"


def test_two_agents_and_a_cluster_share_one_demand_through_deaths_revocations_and_losses(
    world: Calling, slurm: Slurm, grid_engine: GridEngine, resting: None
) -> None:
    with a_cluster("kubernetes@calls") as cluster:
        cluster.up(nodes=0, tied=True)
        world.extra = site_table("near", cluster, NAMESPACE)
        # Less than three full sites: a life without memory waits until it has seen them all.
        world.pool_live_max = 2 * JOBS + 10
        sites = [world.at(each, live_max=JOBS, offer=SMALL) for each in (slurm, grid_engine)]
        for asked in sites:
            world.token(asked)
            world.agent(asked)
        world.up()
        for asked in sites:
            world.calls_on(asked)
        work = world.submit("true", "request_memory = 100", "request_cpus = 1", count=JOBS)
        shared = Shared(world, cluster, *sites)
        shared.settled()
        assert min(shared.counts()) > 0, "each has its share"
        _server_killed(shared)
        _two_cut_off(shared)
        _store_lost(shared)
        world.pool.run("condor_rm", str(work)).must("the jobs go")
        seldom(lambda: not any(shared.counts()), shared.told, within_s=WAIT_S)
        # Before the cluster goes, which the glidepath would miss.
        world.close()


def _server_killed(shared: Shared) -> None:
    before = shared.ids()
    _killed(shared)
    shared.world.up()
    for asked in shared.sites:
        shared.world.calls_on(asked)
    shared.settled()
    assert shared.ids() == before, "with its store kept, nothing is asked for anew"


def _two_cut_off(shared: Shared) -> None:
    """One by its token, at once, and one by its death: the cluster has their share until they return."""
    world, before = shared.world, shared.ids()
    token, agent = (world.home / "slurm.token").read_text(), world.agents[0]
    world.tell("token", "revoke", token.split(".")[2])
    agent.wait_for("the server refuses the token (HTTP 401)")
    calls = world.tray(shared.slurm).calls
    world.calls_on(shared.grid_engine)
    assert world.tray(shared.slurm).calls == calls, "the other calls on, and this one is not heard"
    world.agents[1].kill()
    seldom(lambda: shared.counts()[0] == JOBS, shared.told, within_s=WAIT_S)
    assert shared.ids() == before, "nothing can be started or taken back there meanwhile"
    world.token(shared.slurm)
    world.agent(shared.grid_engine)
    shared.settled()
    assert shared.ids() <= before, "they return, and nothing doubles"


def _store_lost(shared: Shared) -> None:
    world, before = shared.world, shared.ids()
    _killed(shared)
    for path in world.home.glob("glidepath.db*"):
        path.unlink()
    for asked in shared.sites:
        world.token(asked)
    world.up()
    for asked in shared.sites:
        world.calls_on(asked)
    shared.settled()
    assert shared.ids() <= before, "what was asked for before is found again, and nothing is asked for twice"


def _killed(shared: Shared) -> None:
    run = shared.world.runs[-1]
    run.signal(signal.SIGKILL)
    run.wait_end()


def test_jobs_run_through_agents_and_a_stolen_token_opens_nothing_but_its_own_share(
    world: Calling, slurm: Slurm, grid_engine: GridEngine
) -> None:
    world.mint = mint(world.pool, world.home)
    sites = [world.at(each, live_max=1, offer={"idle": "15s"}) for each in (slurm, grid_engine)]
    token = world.token(sites[0])
    world.up()
    thief = Thief(world.port, token)
    thief.call("slurm")
    work = world.submit("sleep 2; hostname", "request_memory = 300", count=12)
    # What it is handed is the token of one pilot, which brings slots, for a while, and opens nothing else.
    seldom(lambda: bool(thief.call("slurm")["starts"]), world.said, within_s=WAIT_S)
    [start] = thief.heard[-1]["starts"]
    [[_, secret]] = start["secrets"]
    claims = claims_of(secret.strip())
    assert (claims.identity, claims.rights) == (f"glidepath-{start['name']}@bed.example", frozenset(RIGHTS))
    assert claims.ends_at is not None
    assert claims.ends_at - claims.starts_at <= start["lifetime_s"] + LONGER_S_MAX
    assert "sge" not in json.dumps(thief.heard)
    assert "ann" not in json.dumps(thief.heard).replace(secret, "")
    assert [thief.ask(path) for path in ("sge", "sge/call", "")] == [401, 405, 404]
    world.token(sites[1])
    for asked in sites:
        world.agent(asked)
    world.done(work)
    assert world.history(work, "ExitCode") == [["0"]] * 12
    told = world.tell("site", "status")
    for asked in sites:
        assert "1 pilots were handed to glidepath agent" in world.tell("explain", asked.name), told
    seldom(lambda: not world.slots() and not any(map(world.jobs_at, sites)), world.said, within_s=WAIT_S)
    seldom(lambda: not world.pilots(), world.said, within_s=WAIT_S)
    ended = [(each["site"], each["phase"]) for each in world.ended()]
    assert sorted(ended) == [("sge", "done"), ("slurm", "done")]


class Thief:
    """Whoever has the token of an agent and nothing else."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.heard: list[dict[str, Any]] = []

    def _request(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"http://127.0.0.1:{self.port}/api/v1/sites/{path}"
        try:
            with urlopen(Request(url, body, headers), timeout=CALL_S_MAX) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def ask(self, path: str) -> int:
        return self._request(path)[0]

    def call(self, site: str) -> dict[str, Any]:
        """As its agent would: with the ticket of the last answer, and once more where that was another."""
        for _ in range(2):
            ticket = self.heard[-1]["ticket"] if self.heard else ""
            said = {"ticket": ticket, "nonce": "n", "seen": True}
            code, answer = self._request(f"{site}/call", json.dumps(said).encode())
            assert code in (200, 409), answer
            self.heard.append(json.loads(answer))
            if code == 200:
                return self.heard[-1]
        raise AssertionError(f"somebody else calls as `{site}`: {self.heard}")
