"""Jobs on a real kubelet: what only a cluster does to them, and what of it their owners are told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.bed_cluster import a_pod
from tests.bed_pool import nothing_is_left

from cluster_real.jobs_world import KEY, LONG_S, NODE, World, world
from glidepath.core.cycle import Done, Failed
from glidepath.core.place.rank import Cause, File, RankState, SetKey
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import NodeState
from glidepath.core.units import cpu_milli
from kube.real import until

__all__ = ["nothing_is_left", "world"]
pytestmark = pytest.mark.real


def taken_by_others(world: World) -> dict[str, int]:
    """Thousandths of a CPU that pods ask for which are bound to the node and not over."""
    told = json.loads(world.cluster.kubectl("get", "pods", "-A", "-o", "json").must("no pods").out)["items"]
    return {
        pod["metadata"]["name"]: sum(
            cpu_milli(each.get("resources", {}).get("requests", {}).get("cpu", "0m"))
            for each in pod["spec"]["containers"]
        )
        for pod in told
        if pod["spec"].get("nodeName") == NODE and pod["status"]["phase"] in ("Pending", "Running")
    }


def test_the_node_is_there_with_what_others_take_of_it(world: World) -> None:
    (before,) = (each for each in world.door.nodes(now=Instant(0)).nodes if each.node.name == NODE)
    assert before.node.state is NodeState.UP
    assert before.node.size.cpu_milli > 0
    assert dict(before.node.traits) == {"arch": "x86_64", "os": "linux"}
    other = a_pod("tenant", "/bin/sleep", "600", namespace="default")
    other["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "110m", "memory": "8Mi"}}
    world.cluster.apply(other)
    try:

        def counted() -> bool:
            """Against what the server says at that time: pods of the tests before may still be leaving."""
            (now,) = (each for each in world.door.nodes(now=Instant(0)).nodes if each.node.name == NODE)
            taken = taken_by_others(world)
            return "tenant" in taken and now.others.cpu_milli == sum(taken.values())

        until("the pod of others is counted", counted)
    finally:
        world.cluster.kubectl("delete", "pod", "tenant", "--namespace", "default", "--wait=false")


def test_a_rank_has_what_was_asked_for_and_no_more(world: World) -> None:
    script = (
        "id -u; df -m /dev/shm | tail -n 1 | awk '{print $2}'; pwd; ls /var/run/secrets 2>&1 | wc -l; "
        "env | grep -c SERVICE_HOST; hostname; cat in/note; grep CapEff /proc/self/status"
    )
    plain = world.ranks(script)
    work = replace(plain.work, shm_mib=5, files=(File("in/note", "a note"),))
    world.start(replace(plain, work=work))
    (rank,) = world.comes_to(RankState.OVER)
    assert rank.exit_code == 0, rank
    lines = world.wrote().split("\n")
    assert lines[:3] == ["20000", "5", "/work"]
    assert lines[5] == "gp-1-1-0"
    assert lines[6].startswith("a note")
    assert lines[6].endswith("0000000000000000")
    # The variables of the API itself are there in every pod; those of Services are not.
    assert int(lines[4]) <= 1


def test_a_gang_begins_together_and_its_names_can_be_found(world: World) -> None:
    world.start(world.ranks("echo begun; sleep 600", nodes=(NODE,) * 3))
    seen = world.comes_to(RankState.RUNNING)
    assert [rank.host for rank in seen] == [f"gp-1-1-{rank}.gp-1-1" for rank in range(3)]

    def hosts() -> set[str]:
        shown = json.loads(world.kubectl("get", "endpointslices", "-o", "json"))
        return {each.get("hostname", "") for row in shown["items"] for each in row["endpoints"] or ()}

    until("their names are published", lambda: hosts() == {f"gp-1-1-{rank}" for rank in range(3)})
    for rank in range(3):
        until("it has written", lambda rank=rank: world.says("begun", rank))  # type: ignore[misc]
    world.door.stop(KEY)
    assert {rank.cause for rank in world.comes_to(RankState.OVER)} == {Cause.STOPPED}
    assert [world.wrote(rank) for rank in range(3)] == ["begun\n"] * 3


def test_a_gang_for_which_there_is_no_room_begins_nothing(world: World) -> None:
    big = world.ranks("echo begun", nodes=(NODE,) * 3)
    (node,) = (each.node for each in world.door.nodes(now=Instant(0)).nodes if each.node.name == NODE)
    half = node.size.cpu_milli * 45 // 100
    world.again(refused_after="2s")
    world.start(replace(big, size=Resources(half, 32)))
    seen = world.comes_to(RankState.OVER)
    assert {rank.cause for rank in seen} == {Cause.REFUSED, Cause.NOT_GATHERED}
    assert any("Insufficient cpu" in rank.why for rank in seen)
    assert not any(world.says("begun", rank) for rank in range(3))
    assert isinstance(world.door.clear(KEY), Done)
    until("nothing is left of it", lambda: not world.kubectl("get", "pods,services", "-o", "name"))


def test_a_quota_that_lets_in_only_a_part_starts_nothing(world: World) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "two", "namespace": world.namespace},
        "spec": {"hard": {"pods": "2"}},
    }
    world.cluster.apply(quota)
    until("it counts", lambda: "used" in world.kubectl("get", "resourcequota", "two", "-o", "json"))
    refused = world.door.start(world.ranks("echo begun", nodes=(NODE,) * 3))
    assert isinstance(refused, Failed)
    assert "exceeded quota: two" in refused.why
    until("nothing is left of it", lambda: not world.kubectl("get", "pods,services", "-o", "name"))


def test_an_exclusive_job_has_its_node_alone(world: World) -> None:
    world.start(replace(world.ranks("sleep 600"), exclusive=True))
    world.comes_to(RankState.RUNNING)
    world.door.start(replace(world.ranks("true"), key=SetKey("2.1")))

    def waits() -> bool:
        shown = world.kubectl("get", "pod", "gp-2-1-0", "-o", "json")
        return "anti-affinity" in shown or "Insufficient" in shown

    until("another one finds no room", waits)
    world.door.stop(SetKey("2.1"))


def test_an_image_that_is_missing_is_told_with_the_words_of_the_cluster(world: World) -> None:
    plain = world.ranks("true")
    world.start(replace(plain, work=replace(plain.work, image="bed.invalid/missing:1")))
    (rank,) = world.comes_to(RankState.OVER)
    assert (rank.cause, "ErrImageNeverPull" in rank.why) == (Cause.IMAGE, True)


def test_more_memory_than_asked_for_is_told_so(world: World) -> None:
    """Also where the kernel ends only one of several programs of a rank, and its shell goes on."""
    world.start(world.ranks("head -c 100000000 /dev/zero | tail; exit $?"))
    (rank,) = world.comes_to(RankState.OVER)
    assert (rank.cause, rank.exit_code, rank.signal) == (Cause.MEMORY, None, None), rank


def test_a_limit_holds_while_nobody_of_us_is_there(world: World) -> None:
    world.start(replace(world.ranks("echo begun; sleep 600"), limit_s=5))
    world.comes_to(RankState.RUNNING)
    world.door.close()

    def phase() -> str:
        return str(json.loads(world.kubectl("get", "pod", "gp-1-1-0", "-o", "json"))["status"]["phase"])

    until("it has ended all the same", lambda: phase() in ("Failed", "Succeeded"))
    world.again()
    (rank,) = world.comes_to(RankState.OVER)
    assert rank.cause is Cause.LIMIT
    assert world.wrote() == "begun\n"


def test_logs_outlive_a_pod_that_others_delete(world: World) -> None:
    world.start(world.ranks("echo kept; sleep 600"))
    until("it is written", lambda: world.says("kept"))
    world.cluster.kubectl(
        "delete", "pod", "gp-1-1-0", "--namespace", world.namespace, "--force", "--grace-period=0"
    )
    (rank,) = world.comes_to(RankState.OVER)
    assert rank.cause is Cause.EVICTED
    assert world.wrote() == "kept\n"


def test_a_node_that_is_deleted_under_a_job_is_told_so(world: World) -> None:
    name = f"lost-{world.namespace}"
    world.cluster.fake_nodes(1, prefix=name, run_s=900)
    try:
        assert f"{name}-0" in {each.node.name for each in world.door.nodes(now=Instant(0)).nodes}
        world.start(world.ranks("sleep 600", nodes=(f"{name}-0",)))
        until("it is on its node", lambda: any(rank.state is RankState.RUNNING for rank in world.seen()))
        world.cluster.kubectl("delete", "node", f"{name}-0").must("the node")
        (rank,) = world.comes_to(RankState.OVER, wait_s=2 * LONG_S)
        assert rank.cause is Cause.NODE_LOST, rank
        found = {each.node.name: each.node.state for each in world.door.nodes(now=Instant(0)).nodes}
        assert found.get(NodeName(f"{name}-0")) is NodeState.LOST
    finally:
        world.cluster.kubectl("delete", "node", f"{name}-0", "--ignore-not-found")
