"""Names of connected jobs for each other: sets come in, what is written to their pods goes out.

A line has the number of the job, the rank, and its host. It follows while both are there: one that is started
again has other names, and one that is over has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from glidepath.cluster.kubernetes.pod import PEERS, anchor_name, pod_name
from glidepath.cluster.kubernetes.sets import Members, is_over
from glidepath.core.place.rank import SetKey, split_key
from glidepath.kube.shapes import Pod


def peer_files(members: Iterable[Members]) -> Mapping[SetKey, str]:
    """What each set is told of the others; those that are told nothing are left out."""
    live = {split_key(each.key)[0]: each for each in members if _live(each)}
    told: dict[SetKey, set[int]] = defaultdict(set)
    for number, each in live.items():
        for peer in each.intent.peers:
            other = live.get(peer)
            if other is not None and peer != number:
                told[each.key].add(peer)
                told[other.key].add(number)
    return {key: "".join(_lines(live, others)) for key, others in told.items()}


def peer_marks(members: Iterable[Members]) -> Iterator[tuple[Pod, str]]:
    """Pods that are told something else than is so."""
    members = tuple(members)
    files = peer_files(members) if any(each.intent.peers for each in members) else {}
    for each in members:
        told = files.get(each.key, "")
        for pod in each.pods.values():
            if pod.metadata.annotations.get(PEERS, "") != told and not is_over(pod):
                yield pod, told


def _live(members: Members) -> bool:
    ended = bool(members.pods) and all(is_over(pod) for pod in members.pods.values())
    return members.verdict is None and not ended


def _lines(live: Mapping[int, Members], others: Iterable[int]) -> Iterator[str]:
    for number in sorted(others):
        each = live[number]
        for rank in range(each.intent.ranks):
            yield f"{number} {rank} {pod_name(each.key, rank)}.{anchor_name(each.key)}\n"
