"""Jobs kept apart on a real server: it takes the policies, they go with their job, and crashes leave none.

The network of the bed enforces no policy. Whom they let through is worked out by the evaluator of the tests,
from what the server keeps.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.bed_pool import nothing_is_left

from cluster_real.jobs_world import KEY, LONG_S, NODE, World, world
from glidepath.core.cycle import Done
from glidepath.core.place.rank import RankState, SetKey
from glidepath.core.quantity import Instant
from kube.real import until
from ranks.policy_evaluator import End, Object, reaches

__all__ = ["nothing_is_left", "world"]
pytestmark = pytest.mark.real

FLOOR, RANKS, WITH = "gp-floor-pods", "gp-1-1-ranks", "gp-2-1-with-1"
SECOND, FAR, STRANGER = SetKey("2.1"), SetKey("3.1"), SetKey("4.1")
OUTSIDE = End("93.184.216.34")


def kept(world: World, kind: str) -> dict[str, Any]:
    rows = json.loads(world.kubectl("get", kind, "-o", "json"))["items"]
    return {row["metadata"]["name"]: row for row in rows}


def policies(world: World) -> dict[str, Object]:
    return kept(world, "networkpolicies")


def end(world: World, name: str) -> End:
    meta = kept(world, "pods")[name]["metadata"]
    rank = sum(map(ord, name)) % 250
    return End(f"10.1.0.{rank}", world.namespace, meta["labels"])


def begins(world: World, key: SetKey) -> None:
    def running() -> bool:
        found = {each.key: each for each in world.door.list(now=Instant(5000)).sets}
        return key in found and all(rank.state is RankState.RUNNING for rank in found[key].ranks)

    until(f"{key} runs", running, wait_s=LONG_S)


def test_connected_jobs_are_named_to_each_other_and_kept_apart_from_all_others(world: World) -> None:
    tells = 'while :; do cat "$GLIDEPATH_PEER_FILE"; sleep 1; done'
    world.start(world.ranks(tells, nodes=(NODE, NODE)))
    begins(world, KEY)
    world.start(world.ranks("sleep 600", key=SECOND, peers=(1,)))
    world.start(world.ranks("sleep 600", key=FAR, peers=(2,)))
    world.start(world.ranks("sleep 600", key=STRANGER))
    for key in (SECOND, FAR, STRANGER):
        begins(world, key)
    assert set(policies(world)) == {FLOOR, RANKS, WITH, "gp-3-1-with-2"}
    standing = tuple(policies(world).values())
    mine, gate = (
        end(world, "gp-1-1-0"),
        End("10.1.0.251", world.namespace, {"app.kubernetes.io/name": "glidepath"}),
    )
    rows = {
        "own rank": (end(world, "gp-1-1-1"), True, True),
        "peer": (end(world, "gp-2-1-0"), True, True),
        "peer of a peer": (end(world, "gp-3-1-0"), False, False),
        "stranger's job": (end(world, "gp-4-1-0"), False, False),
        "proxy": (gate, True, False),
        "outside": (OUTSIDE, False, True),
    }
    found = {
        row: (other, reaches(standing, other, mine, 8080), reaches(standing, mine, other, 8080))
        for row, (other, _, _) in rows.items()
    }
    assert found == rows
    # It has begun long before the other came, and is told of it all the same.
    until("it is told", lambda: world.says("2 0 gp-2-1-0.gp-2-1\n"), wait_s=LONG_S)

    def hosts() -> set[str]:
        slices = kept(world, "endpointslices").values()
        return {each.get("hostname", "") for row in slices for each in row["endpoints"] or ()}

    until("both names are published", lambda: {"gp-1-1-0", "gp-1-1-1", "gp-2-1-0"} <= hosts(), wait_s=LONG_S)
    world.door.stop(SECOND)
    world.end(SECOND)
    assert isinstance(world.door.clear(SECOND), Done)
    until("its policy has gone with it", lambda: WITH not in policies(world), wait_s=LONG_S)
    assert {FLOOR, RANKS} <= set(policies(world))


def test_what_a_crash_left_is_mended_both_ways(world: World) -> None:
    """One of us died with a policy not made yet, and one that is left of a job that is gone."""
    world.start(world.ranks("sleep 600", nodes=(NODE, NODE)))
    begins(world, KEY)
    stray = {**policies(world)[RANKS]}
    meta = {
        "name": "gp-9-1-ranks",
        "namespace": world.namespace,
        "labels": {**stray["metadata"]["labels"], "glidepath/set": "9.1"},
    }
    world.door.close()
    world.cluster.apply({**stray, "metadata": meta})
    world.kubectl("delete", "networkpolicies", RANKS, FLOOR)
    world.again()
    world.door.list(now=Instant(5000))
    until("both are as they were", lambda: set(policies(world)) == {FLOOR, RANKS}, wait_s=LONG_S)
    (owner,) = policies(world)[RANKS]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Service", "gp-1-1")
