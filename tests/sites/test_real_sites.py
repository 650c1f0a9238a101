"""Real Slurm and Grid Engine start pilots that join the real pool and run its jobs, from zero to zero."""

from __future__ import annotations

import socket

import pytest
from bed.parts.batch_site import Site
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import NODES, Slurm
from tests.bed_site import CondorSite, site_of

from scenes.several import seldom
from sites.sites_world import WAIT_S, Sites

pytestmark = pytest.mark.real

SHARED = ['queue = "long"', 'account = "abc123"', "memory_percent = 110"]
WHOLE = ['queue = "whole"', "whole_node = true", 'memory_by = "none"', 'walltime = "100m"']


@pytest.mark.parametrize(
    ("kind", "lines"),
    [(Slurm, SHARED), (Slurm, WHOLE), (GridEngine, []), (CondorSite, [])],
    ids=["slurm", "slurm whole nodes", "sge", "htcondor"],
)
def test_jobs_get_pilots_of_a_batch_site_from_zero_to_zero(
    request: pytest.FixtureRequest, world: Sites, kind: type[Site], lines: list[str]
) -> None:
    site = world.at(site_of(request.config, kind), lines=lines, offer={"idle": "15s", "jobs": "cpu"})
    work = world.submit("sleep 1; hostname", "request_memory = 300", "output = out.$(Process)", count=6)
    run = world.up("--until-idle")
    world.done(work)
    assert world.history(work, "ExitCode") == [["0"]] * 6
    seldom(lambda: not world.slots() and not world.jobs_at(site), world.said, within_s=WAIT_S)
    if lines is SHARED:
        # A minute later nobody needs the traces of pilots any more, and it ends by itself.
        assert run.wait_end(within_s=WAIT_S) == 0, run.text
        world.nothing_is_kept()
    # A batch system has forgotten a pilot before the next look of the glidepath that notes its end.
    seldom(lambda: 0 < len(world.ended()) == len(world.asked()), world.said, within_s=WAIT_S)
    ended = world.ended()
    asked = [each["name"] for each in ended]
    assert (len(set(asked)) == len(asked), 1 <= len(asked) < 6) == (True, True), asked
    assert {(each["site"], each["phase"]) for each in ended} == {(site.name, "done")}, ended
    there = socket.gethostname() if kind is CondorSite else "login"
    assert {(world.pool.home("ann") / f"out.{number}").read_text() for number in range(6)} == {f"{there}\n"}
    if lines:
        shown = {name: world.accounted_of(site, name, "AllocCPUS", "State") for name in asked}
        # A pilot of two CPUs: on a node that is not shared it has all four.
        assert shown == {name: ["4" if lines is WHOLE else "2", "COMPLETED"] for name in asked}


def test_a_job_of_two_nodes_starts_one_pilot_on_each(world: Sites, slurm: Slurm) -> None:
    site = world.at(slurm, lines=['queue = "long"', "nodes = 2"])
    work = world.submit("sleep 600", "request_memory = 300", "request_cpus = 2", count=2)
    world.up()
    world.running(work, 2)
    [number] = world.jobs_at(site)
    shown = world.accounted(site, number, "NodeList", "State", not_yet=("PENDING",))
    assert shown == ["node[1-2]", "RUNNING"]
    pilots = world.pilots()
    assert sorted(each["node"] for each in pilots) == list(NODES), pilots
    assert world.slots() == sorted(each["name"] for each in pilots)
    world.cycles_later()
    assert (len(world.asked()), world.jobs_at(site)) == (2, [number])


def test_two_batch_sites_and_a_cluster_share_jobs_that_wait(
    request: pytest.FixtureRequest, world: Sites, slurm: Slurm, grid_engine: GridEngine
) -> None:
    """Nothing starts anywhere, so that what is asked for can be counted against the 100 jobs."""
    import contextlib

    from tests.bed_cluster import cluster as a_cluster

    from scenes.several import pods_in, site_table

    offer = {"cpus": 1, "memory": "600MiB", "disk": "1GiB"}
    with contextlib.ExitStack() as until_then:
        cluster = until_then.enter_context(a_cluster("kubernetes@shared3"))
        cluster.up(nodes=0, tied=True)
        slurm.run("scontrol", "update", "PartitionName=long", "State=DOWN").must("Slurm goes on")
        until_then.callback(slurm.run, "scontrol", "update", "PartitionName=long", "State=UP")
        grid_engine.run("qmod", "-d", "*").must("Grid Engine goes on")
        until_then.callback(grid_engine.run, "qmod", "-e", "*")
        world.extra = site_table("near", cluster, "sites")
        sites = [world.at(each, live_max=100, offer=offer) for each in (slurm, grid_engine)]
        work = world.submit("true", "request_memory = 100", "request_cpus = 1", count=100)

        def asked() -> list[int]:
            return [len(pods_in(cluster, "sites")), *(len(world.jobs_at(site)) for site in sites)]

        world.up()
        seldom(lambda: sum(asked()) >= 100, lambda: f"{asked()}: {world.said()}", within_s=WAIT_S)
        world.cycles_later()
        found = asked()
        assert (sum(found), min(found) > 0) == (100, True), found
        world.pool.run("condor_rm", str(work)).must("the jobs go")
        seldom(lambda: not any(asked()), lambda: f"{asked()}: {world.said()}", within_s=WAIT_S)
        # Before the cluster goes, which the glidepath would miss.
        world.close()
