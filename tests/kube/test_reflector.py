"""Following a list: what is there is known, whatever the server does, and nothing is invented."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.kube.errors import KubeError
from glidepath.kube.reflector import GOOD_S, REST_S_MIN, Heard, Reflector
from glidepath.kube.shapes import Decoder, Pod
from kube.cluster import FakeCluster, pod

WAIT_S_MAX = 60.0


class Following:
    def __init__(self, cluster: FakeCluster, **options: Any) -> None:
        self.cluster = cluster
        self.reflector: Reflector[Pod] = Reflector(
            cluster,  # type: ignore[arg-type]  # As much of a door as is asked here.
            "/pods",
            Pod,
            selector="glidepath/site=a",
            chance=Random(1),
            **options,
        )

    def heard(self) -> Heard[Pod]:
        return self.reflector.heard(wait_s=WAIT_S_MAX)

    def until(self, met: Callable[[Heard[Pod]], bool]) -> Heard[Pod]:
        deadline = time.monotonic() + WAIT_S_MAX
        while not met(found := self.heard()):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def names(self, *names: str) -> Heard[Pod]:
        return self.until(lambda found: sorted(found.items) == sorted(names))


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    for name in ("a", "b", "c"):
        made.put(pod(name))
    return made


@pytest.fixture
def following(cluster: FakeCluster) -> Iterator[Following]:
    made = Following(cluster)
    yield made
    made.reflector.stop()


def test_all_pages_are_listed_and_changes_are_followed(cluster: FakeCluster, following: Following) -> None:
    following.names("a", "b", "c")
    cluster.put(pod("d"))
    cluster.put(pod("a", status={"phase": "Running"}))
    cluster.drop("b")
    found = following.names("a", "c", "d")
    assert found.items["a"].status.phase == "Running"
    assert list(found.gone) == ["b"]
    following.reflector.forget("b")
    assert not following.heard().gone
    following.reflector.forget("c", "uid-c")
    cluster.drop("c")
    assert not following.names("a", "d").gone
    assert (found.counts.lists, found.counts.watches, found.counts.drift, found.trouble) == (1, 1, 0, "")
    queries = [query for _, _, query in cluster.asked]
    assert all(query["labelSelector"] == "glidepath/site=a" for query in queries)
    assert [query.get("continue") for query in queries[:2]] == [None, "2"]


def test_a_version_that_is_gone_is_listed_again(cluster: FakeCluster, following: Following) -> None:
    cluster.stream_faults = [KubeError("too old", status=410, reason="Expired")]
    following.names("a", "b", "c")
    found = following.until(lambda found: found.counts.lists == 2)
    assert (found.counts.gone, found.counts.failures) == (1, 0)


def test_a_version_that_goes_while_it_is_followed_is_listed_again(
    cluster: FakeCluster, following: Following
) -> None:
    following.names("a", "b", "c")
    with cluster.changed:
        error = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "gone"}}
        cluster.version += 1
        cluster.events.append((cluster.version, "ERROR", error["object"]))  # type: ignore[arg-type]
        cluster.objects["e"] = pod("e")
        cluster.objects["e"]["metadata"]["resourceVersion"] = str(cluster.version)
        cluster.changed.notify_all()
    assert following.names("a", "b", "c", "e").counts.gone == 1


def test_a_list_that_breaks_in_its_middle_leaves_what_was_known(cluster: FakeCluster) -> None:
    following = Following(cluster, relist_s=1.0)
    following.names("a", "b", "c")
    cluster.page = 1
    cluster.drop("a", told=False)
    expired = KubeError("the continue token is too old", status=410, reason="Expired")
    cluster.list_faults = [None, expired, None, b'{"metadata": {}, "items": [{"met']
    cluster.stream_faults = ["close"]
    found = following.until(lambda found: found.counts.failures >= 2)
    assert sorted(found.items) == ["a", "b", "c"]
    found = following.names("b", "c")
    assert found.counts.lists == 2
    following.reflector.stop()


def test_streams_that_are_closed_at_once_are_not_asked_for_more_than_twice_a_second(
    cluster: FakeCluster, following: Following
) -> None:
    cluster.stream_faults = ["close"] * 3
    following.until(lambda found: found.counts.watches >= 4)
    times = [at for at, kind, _ in cluster.asked if kind == "watch"]
    assert min(b - a for a, b in pairwise(times)) > REST_S_MIN - 0.05
    assert following.heard().brief == 3
    cluster.put(pod("d"))
    assert following.names("a", "b", "c", "d").brief == 0


def test_a_stream_that_was_broken_and_stands_again_is_no_trouble_though_it_is_quiet(
    cluster: FakeCluster,
) -> None:
    clock = [1000.0]
    following = Following(cluster, mono=lambda: clock[0])
    cluster.stream_faults = [OSError("broken")]
    following.until(lambda found: found.trouble == "broken")
    deadline = time.monotonic() + WAIT_S_MAX
    # By its own clock no time passes, so it waits for its turn until the clock is put forward.
    while following.heard().trouble:
        assert time.monotonic() < deadline
        clock[0] += 1.0
        time.sleep(0.1)
    assert following.heard().age_s > GOOD_S
    following.reflector.stop()


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(
    cluster: FakeCluster, following: Following
) -> None:
    cluster.list_faults = [KubeError("too many requests", status=429, retry_after_s=1.5)]
    following.names("a", "b", "c")
    first, second = (at for at, _, _ in cluster.asked[:2])
    assert second - first > 1.45


def test_a_silent_stream_is_taken_up_again_where_it_was(cluster: FakeCluster) -> None:
    following = Following(cluster, silent_s=0.3)
    cluster.stream_faults = ["mute"]
    following.names("a", "b", "c")
    cluster.put(pod("d"))
    found = following.names("a", "b", "c", "d")
    assert (found.counts.silent >= 1, found.counts.lists) == (True, 1)
    versions = [query["resourceVersion"] for _, kind, query in cluster.asked if kind == "watch"]
    assert versions[0] == versions[1]
    following.reflector.stop()


def test_an_event_that_was_lost_is_found_by_comparing(cluster: FakeCluster) -> None:
    following = Following(cluster, relist_s=1.0)
    cluster.stream_faults = ["close"]
    following.names("a", "b", "c")
    cluster.drop("a", told=False)
    cluster.put(pod("z"), told=False)
    cluster.put(pod("b", status={"phase": "Failed"}), told=False)
    cluster.put(pod("y"))  # This one is told, and no drift.
    found = following.until(lambda found: found.counts.lists >= 2 and "z" in found.items)
    assert (sorted(found.items), list(found.gone)) == (["b", "c", "y", "z"], ["a"])
    assert found.counts.drift == 3
    following.reflector.stop()


def test_what_cannot_be_read_is_named_and_the_others_are_known(
    cluster: FakeCluster, following: Following
) -> None:
    cluster.objects["odd"] = {"metadata": {"name": "odd", "resourceVersion": "7"}, "status": 5}
    found = following.names("a", "b", "c")
    assert [each.name for each in found.odd] == ["odd"]
    cluster.put(pod("a", status={"phase": ["no", "phase"]}))
    found = following.until(lambda found: len(found.odd) == 2)
    assert sorted(found.items) == ["a", "b", "c"]  # `a` as it was last known.
    cluster.put(pod("a", status={"phase": "Running"}))
    following.until(lambda found: len(found.odd) == 1 and found.items["a"].status.phase == "Running")
    cluster.drop("odd")
    following.until(lambda found: not found.odd)


def test_nothing_heard_yet_is_an_error_with_the_reason(cluster: FakeCluster) -> None:
    cluster.list_faults = [OSError("no route")] * 50
    following = Following(cluster)
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        with pytest.raises(OSError) as raised:
            following.reflector.heard(wait_s=0.05)
        if "no route" in str(raised.value):
            break
        assert time.monotonic() < deadline
    following.reflector.stop()


def test_the_age_grows_while_nobody_answers_and_what_was_known_stands(cluster: FakeCluster) -> None:
    clock = [1000.0]
    following = Following(cluster, mono=lambda: clock[0])
    cluster.stream_faults = [OSError("broken")] * 100
    following.names("a", "b", "c")
    clock[0] += 40
    found = following.heard()
    assert found.age_s >= 40
    assert sorted(found.items) == ["a", "b", "c"]
    following.reflector.stop()


def test_our_own_change_shows_at_once(cluster: FakeCluster, following: Following) -> None:
    following.names("a", "b", "c")
    meta = {"name": "new", "uid": "u", "resourceVersion": "999"}
    following.reflector.seen(Decoder(Pod).item(json.dumps({"metadata": meta}).encode()))
    assert "new" in following.heard().items


ACTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["put", "drop"])), max_size=30)


@given(ACTS, st.lists(st.sampled_from(["close", None, "error"]), max_size=3))
@settings(max_examples=5, deadline=None)
def test_in_the_end_exactly_what_is_there_is_known(
    acts: list[tuple[str, str]], faults: list[str | None]
) -> None:
    cluster = FakeCluster()
    cluster.stream_faults = [OSError("broken") if each == "error" else each for each in faults]
    following = Following(cluster)
    following.heard()
    for name, act in acts:
        if act == "put":
            cluster.put(pod(name))
        elif name in cluster.objects:
            cluster.drop(name)
    assert following.names(*cluster.objects).counts.drift == 0
    following.reflector.stop()
