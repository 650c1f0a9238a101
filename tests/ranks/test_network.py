"""Who may speak with whom, by the policies that are made: a table, its properties, and what is amiss."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from glidepath.cluster.kubernetes.network import amiss, floor_of, policies_of, policy_names, stands
from glidepath.cluster.kubernetes.peers import peer_files, peer_marks
from glidepath.cluster.kubernetes.pod import INTENT, intent_of
from glidepath.cluster.kubernetes.sets import Members
from glidepath.core.place.rank import RankSet, SetKey
from glidepath.kube.shapes import Decoder, Named
from ranks.policy_evaluator import End, Object, reaches
from ranks.rank_builders import UID, anchor_seen, pod, pod_seen, ranks, runs, settings

PORT = 8080
_NAMED = Decoder(Named)
PROXY = End("10.1.0.80", "jobs", {"app.kubernetes.io/name": "glidepath"})
OUTSIDE = End("93.184.216.34")
SERVER = "10.96.0.1"


def a_set(job: int, *peers: int, nodes: int = 1) -> RankSet:
    names = tuple(f"n{number}" for number in range(nodes))
    return ranks(key=SetKey(f"{job}.1"), nodes=names, peers=peers)


def ends(of: RankSet) -> tuple[End, ...]:
    """Its pods, as the door makes them."""
    job = int(of.key.partition(".")[0])
    return tuple(
        End(f"10.1.{job}.{rank + 1}", "jobs", pod(of, rank)["metadata"]["labels"])
        for rank in range(len(of.seats))
    )


def policies(*sets: RankSet, **network: Any) -> tuple[Object, ...]:
    """All that stands in the namespace with these sets, placed there as the server would."""
    made = [floor_of("lab", settings(network=network).network)]
    for each in sets:
        made += policies_of(intent(each), "lab", UID)
    return tuple({**one, "metadata": {**one["metadata"], "namespace": "jobs"}} for one in made)


def intent(of: RankSet) -> Any:
    return intent_of(anchor_seen(of).metadata.annotations[INTENT])


# The table.

MINE, PEER, FAR, STRANGER = a_set(7, 3, nodes=2), a_set(3, 2), a_set(2), a_set(9, nodes=2)
ALL = policies(MINE, PEER, FAR, STRANGER)
ROWS = {
    "own rank": (ends(MINE)[1], True, True),
    "peer": (ends(PEER)[0], True, True),
    "peer of a peer": (ends(FAR)[0], False, False),
    "stranger's job": (ends(STRANGER)[0], False, False),
    "proxy": (PROXY, True, False),
    "outside": (OUTSIDE, False, True),
}


@pytest.mark.parametrize("row", ROWS)
def test_who_reaches_a_rank_and_whom_it_reaches(row: str) -> None:
    """Six others, in and out: twelve cells."""
    other, into, out = ROWS[row]
    mine = ends(MINE)[0]
    assert (reaches(ALL, other, mine, PORT), reaches(ALL, mine, other, PORT)) == (into, out)


@pytest.mark.parametrize(
    ("address", "port", "protocol", "out"),
    [
        ("10.96.0.10", 53, "UDP", True),  # names
        ("10.96.0.10", 53, "TCP", True),
        (SERVER, 443, "TCP", False),  # the cluster's own API
        ("10.0.0.5", 10250, "TCP", False),  # a node
        ("169.254.169.254", 80, "TCP", False),  # what a cloud tells a machine of itself
        ("100.64.3.4", 443, "TCP", False),
        ("fd00::1", 443, "TCP", False),
        ("fe80::1", 443, "TCP", False),
        ("2606:2800:220::1", 443, "TCP", True),
        ("9.255.255.255", 22, "TCP", True),
        ("11.0.0.0", 22, "TCP", True),
    ],
)
def test_a_rank_reaches_names_and_the_world_and_nothing_of_the_cluster(
    address: str, port: int, protocol: str, out: bool
) -> None:
    assert reaches(ALL, ends(MINE)[0], End(address), port, protocol=protocol) is out


def test_pods_that_are_not_ours_are_left_as_they_were() -> None:
    """Neither a tenant of the namespace nor a job of an older glidepath, which has no number on it."""
    tenant, other = End("10.1.50.1", "jobs", {"app": "web"}), End("10.1.50.2", "other", {})
    old = End("10.1.51.1", "jobs", {"glidepath/cluster": "lab", "glidepath/set": "1.1"})
    for one, two in ((tenant, other), (other, tenant), (tenant, old), (old, other)):
        assert reaches(ALL, one, two, PORT)
    for end in (tenant, other, old):
        assert not reaches(ALL, end, ends(MINE)[0], PORT)


def test_a_pod_elsewhere_with_labels_like_ours_gets_nowhere() -> None:
    liar = replace(ends(MINE)[1], address="10.1.99.1", namespace="evil")
    proxy = replace(PROXY, namespace="evil")
    assert not reaches(ALL, liar, ends(MINE)[0], PORT)
    assert not reaches(ALL, proxy, ends(MINE)[0], PORT)


def test_the_proxy_is_where_the_settings_say() -> None:
    mine = ends(MINE)[0]
    there = policies(MINE, proxy={"app": "gate"}, proxy_namespace="front", proxy_blocks=["10.7.0.0/24"])
    gate = End("10.1.60.1", "front", {"app": "gate"})
    assert reaches(there, gate, mine, PORT)
    assert reaches(there, End("10.7.0.9"), mine, PORT)
    assert not reaches(there, replace(gate, namespace="jobs"), mine, PORT)
    assert not reaches(there, PROXY, mine, PORT)
    assert not reaches(policies(MINE, proxy={}), PROXY, mine, PORT)


def test_outside_is_what_the_settings_say() -> None:
    mine = ends(MINE)[0]
    shut = policies(MINE, outside=[])
    assert not reaches(shut, mine, OUTSIDE, 443)
    one = policies(MINE, outside=["0.0.0.0/0", "10.20.0.5/32"])
    assert reaches(one, mine, End("10.20.0.5"), 5000)
    assert not reaches(one, mine, End("10.20.0.6"), 5000)


def test_a_job_alone_needs_no_policy_of_its_own() -> None:
    assert policy_names(intent(a_set(7))) == ()
    assert policy_names(intent(a_set(7, nodes=2))) == ("gp-7-1-ranks",)
    assert policy_names(intent(a_set(7, 5, nodes=2))) == ("gp-7-1-with-5",)
    assert policy_names(intent(a_set(7, 7))) == ()


GRAPHS = st.lists(
    st.tuples(st.integers(1, 2), st.lists(st.integers(1, 5), max_size=3)), min_size=1, max_size=5
)


@effort(max_examples=30)
@given(GRAPHS)
def test_what_connected_jobs_reach_is_the_same_both_ways_and_nothing_more(
    graph: list[tuple[int, list[int]]],
) -> None:
    sets = [a_set(at + 1, *peers, nodes=nodes) for at, (nodes, peers) in enumerate(graph)]
    standing = policies(*sets)
    joined = {frozenset((at + 1, peer)) for at, (_, peers) in enumerate(graph) for peer in peers}
    found = {int(each.key.partition(".")[0]): ends(each) for each in sets}
    for one, other in product(found, found):
        wanted = one == other or frozenset((one, other)) in joined
        reached = {reaches(standing, a, b, PORT) for a, b in product(found[one], found[other])}
        assert reached == {wanted}


# The evaluator itself, by what the documentation of the kind says.

WEB, DB = End("10.2.0.1", "a", {"app": "web"}), End("10.2.0.2", "a", {"app": "db"})


def rule(selector: dict[str, Any], *types: str, **more: Any) -> Object:
    return {"metadata": {"namespace": "a"}, "spec": {"podSelector": selector, "policyTypes": types, **more}}


DENY = rule({}, "Ingress", "Egress")
IN = rule({"matchLabels": {"app": "db"}}, "Ingress", ingress=[{"from": [{"podSelector": {}}]}])
OUT = rule({}, "Egress", egress=[{}])


@pytest.mark.parametrize(
    ("standing", "open_"),
    [
        ([], True),
        ([DENY], False),
        ([IN], True),
        ([DENY, IN], False),  # the other end must agree
        ([DENY, OUT], False),
        ([DENY, IN, OUT], True),  # what any allows is allowed
        ([DENY, rule({}, "Egress", egress=[]), IN], False),
        ([rule({}, "Ingress", ingress=[{"ports": [{"port": 80, "endPort": 90}]}])], False),
        ([rule({}, "Ingress", ingress=[{"ports": [{"port": 8000, "endPort": 9000}]}])], True),
        ([rule({}, "Ingress", ingress=[{"ports": [{"port": PORT, "protocol": "UDP"}]}])], False),
        ([rule({}, "Ingress", ingress=[{"from": [{"namespaceSelector": {}}]}])], True),
    ],
)
def test_the_evaluator_reads_policies_as_they_are_documented(standing: list[Object], open_: bool) -> None:
    assert reaches(standing, WEB, DB, PORT) is open_
    assert reaches(standing, WEB, WEB, PORT)


# What is amiss.


def named(body: Object, uid: str = "p", **meta: Any) -> Named:
    made = {**body, "metadata": {**body["metadata"], "uid": uid, "resourceVersion": "1", **meta}}
    return _NAMED.item(json.dumps(made).encode())


def members(of: RankSet, *, notes: dict[str, str] | None = None, whole: bool = True) -> Members:
    anchor = anchor_seen(of, notes=notes, whole=whole)
    pods = {at: pod_seen(of, at, phase="Running", state=runs()) for at in range(len(of.seats))}
    return Members(anchor, intent(of), pods)


def listed(*sets: RankSet) -> dict[str, Named]:
    bodies = [body for each in sets for body in policies_of(intent(each), "lab", UID)]
    return {body["metadata"]["name"]: named(body) for body in bodies}


def test_what_is_missing_is_made_and_what_belongs_to_nothing_is_stray() -> None:
    gang, pair, gone = a_set(7, nodes=2), a_set(8, 7), a_set(4, nodes=2)
    there = {**listed(gang, gone), "gp-floor-lab": named(floor_of("lab", settings().network))}
    found = amiss("lab", [members(gang), members(pair)], there)
    assert found.missing == policies_of(intent(pair), "lab", UID)
    assert [each.metadata.name for each in found.stray] == ["gp-4-1-ranks"]
    assert amiss("lab", [members(gang)], listed(gang)) == amiss("lab", [], {})


def test_a_policy_of_another_set_of_the_name_is_stray_and_one_that_goes_already_is_left() -> None:
    gang = a_set(7, nodes=2)
    (body,) = policies_of(intent(gang), "lab", "uid-of-one-before")
    name = body["metadata"]["name"]
    assert amiss("lab", [members(gang)], {name: named(body)}).stray == (named(body),)
    leaving = named(body, deletionTimestamp="2030-01-01T10:00:00Z")
    assert amiss("lab", [members(gang)], {name: leaving}).stray == ()


def test_nothing_is_opened_for_a_set_that_was_given_up() -> None:
    verdict = {"glidepath/verdict": '{"cause": "stopped"}'}
    assert amiss("lab", [members(a_set(7, nodes=2), notes=verdict)], {}).missing == ()


def test_a_floor_of_other_settings_does_not_stand() -> None:
    floor = floor_of("lab", settings().network)
    known = {"gp-floor-lab": named(floor)}
    assert stands(floor, known)
    assert not stands(floor, {})
    assert not stands(floor_of("lab", settings(network={"outside": []}).network), known)


# Names.


def test_connected_jobs_are_named_to_each_other_and_to_nobody_else() -> None:
    one, two, alone = a_set(3, nodes=2), a_set(7, 3), a_set(9)
    found = peer_files([members(each) for each in (one, two, alone)])
    assert found == {
        "3.1": "7 0 gp-7-1-0.gp-7-1\n",
        "7.1": "3 0 gp-3-1-0.gp-3-1\n3 1 gp-3-1-1.gp-3-1\n",
    }


def test_pods_are_told_once_and_told_when_the_other_is_gone() -> None:
    one, two = members(a_set(3)), members(a_set(7, 3))
    due = {pod.metadata.name: told for pod, told in peer_marks([one, two])}
    assert due == {"gp-3-1-0": "7 0 gp-7-1-0.gp-7-1\n", "gp-7-1-0": "3 0 gp-3-1-0.gp-3-1\n"}
    told = replace(
        two,
        pods={
            0: pod_seen(
                a_set(7, 3), 0, phase="Running", state=runs(), notes={"glidepath/peers": due["gp-7-1-0"]}
            )
        },
    )
    assert [pod.metadata.name for pod, _ in peer_marks([one, told])] == ["gp-3-1-0"]
    assert [(pod.metadata.name, text) for pod, text in peer_marks([told])] == [("gp-7-1-0", "")]
    assert [*peer_marks([members(a_set(9))])] == []
