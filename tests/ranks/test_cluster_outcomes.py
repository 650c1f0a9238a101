"""What came of a request to start a set, by what the server answered: what is not sure is not said."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from embedded.world import until
from glidepath.cluster.kubernetes.door import KubernetesCluster
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused, Unsure
from glidepath.core.place.rank import Cause, ClusterName, File, RankState, SetKey
from glidepath.core.quantity import Instant
from glidepath.ports import WORLD_ERRORS, Place
from kube.stand_in import Answer, Asked, StandIn, plain_access
from ranks.rank_builders import ranks, settings

BELOW = "/api/v1/namespaces/here/"
FLOOR = ("networkpolicies", "gp-floor-lab")
APART_BELOW = "/apis/networking.k8s.io/v1/namespaces/here/"
NOW = Instant(2_000)
WAIT_S = 60.0
MADE_AT = 1893492000.0  # When the server says that everything was made.
STATED = [{"name": "cap", "count": 3, "cpus": 8, "memory": "16GiB"}]
GANG = ("cap-0", "cap-1", "cap-2")
Object = dict[str, Any]


def status(code: int, reason: str = "", message: str = "no") -> Answer:
    body = {"kind": "Status", "message": message, "reason": reason, "code": code}
    return Answer(code, json.dumps(body).encode())


class Server(StandIn):
    """Objects of one namespace in memory. `faults` has answers by verb and kind, taken from the front."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], Object] = {}
        self.faults: dict[str, list[Answer | str]] = {}
        self.made: Counter[str] = Counter()
        self.version = 10
        self.events: list[tuple[str, str, Object]] = []
        self.changed = threading.Condition()

    def next_answer(self, asked: Asked) -> Answer:
        with self.lock:
            self.asked.append(asked)
        path = urlsplit(asked.path).path
        kind, _, name = path.removeprefix(BELOW).removeprefix(APART_BELOW).partition("/")
        fault = self.faults.get(f"{asked.method} {kind}", [])
        now = fault.pop(0) if fault else None
        if isinstance(now, Answer):
            return now
        with self.changed:
            answer = self._answered(asked, kind, name)
            self.changed.notify_all()
        # The change is made, and nobody hears of it.
        return Answer(gone=True) if now == "lost" else answer

    def _answered(self, asked: Asked, kind: str, name: str) -> Answer:
        self.version += 1
        if asked.method == "POST":
            return self._made(kind, json.loads(asked.body))
        query = dict(parse_qsl(urlsplit(asked.path).query))
        if "watch" in query:
            return Answer(chunks=self._told(kind, int(query["resourceVersion"])))
        if not name:
            items = [each for (of, _), each in self.kept.items() if of == kind and _ours(each)]
            meta = {"resourceVersion": str(self.version)}
            return Answer(body=json.dumps({"kind": "List", "metadata": meta, "items": items}).encode())
        found = self.kept.get((kind, name))
        if found is None:
            return status(404, "NotFound")
        if asked.method == "PATCH":
            change = json.loads(asked.body)
            notes = found["metadata"].setdefault("annotations", {})
            notes |= change["metadata"].get("annotations", {})
            found |= {key: change[key] for key in ("spec",) if key in change}
            self._happened("MODIFIED", kind, found)
        if asked.method == "DELETE":
            self._gone(kind, name)
        return Answer(body=json.dumps(found).encode())

    def _made(self, kind: str, made: Object) -> Answer:
        name = made["metadata"]["name"]
        if (kind, name) in self.kept:
            return status(409, "AlreadyExists")
        self.made[f"{kind}/{name}"] += 1
        made["metadata"] |= {"uid": f"uid-{kind}-{name}", "creationTimestamp": "2030-01-01T10:00:00Z"}
        if kind == "pods":
            made["status"] = {"phase": "Pending"}
        self.kept[kind, name] = made
        self._happened("ADDED", kind, made)
        return Answer(201, json.dumps(made).encode())

    def _gone(self, kind: str, name: str) -> None:
        gone = self.kept.pop((kind, name))
        self._happened("DELETED", kind, gone)
        for of, other in list(self.kept):
            owners = self.kept[of, other]["metadata"].get("ownerReferences", [])
            if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self._gone(of, other)

    def _happened(self, what: str, kind: str, thing: Object) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((kind, what, json.loads(json.dumps(thing))))

    def _told(self, kind: str, since: int) -> Iterator[bytes]:
        at = 0
        while not self.over.is_set():
            with self.changed:
                fresh = self.events[at:]
                at += len(fresh)
                if not fresh:
                    self.changed.wait(0.05)
            for of, what, thing in fresh:
                if of == kind and _ours(thing) and int(thing["metadata"]["resourceVersion"]) > since:
                    yield json.dumps({"type": what, "object": thing}).encode() + b"\n"

    @property
    def of_sets(self) -> dict[tuple[str, str], Object]:
        """All but what stands for every job of the namespace."""
        with self.changed:
            return {row: each for row, each in self.kept.items() if row != FLOOR}

    def names(self, kind: str) -> list[str]:
        with self.changed:
            return sorted(name for of, name in self.kept if of == kind)


def _ours(thing: Object) -> bool:
    """What the selector of the door lets through."""
    return bool(thing["metadata"].get("labels", {}).get("glidepath/cluster") == "lab")


@contextmanager
def a_door(server: Server, home: Path, *, later_s: float = 0.0, **said: Any) -> Iterator[KubernetesCluster]:
    made = KubernetesCluster(
        ClusterName("lab"),
        settings(stated=STATED, changes_per_second=0, **said),
        Place(home, ""),
        access=lambda: plain_access(server),
        wall=lambda: MADE_AT + later_s,
    )
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            found.over.set()
            found.shutdown()
            thread.join()


def outcome(server: Server, home: Path, **more: Any) -> Outcome:
    with a_door(server, home) as door:
        return door.start(ranks(**{"nodes": GANG, "files": (File("a", "b"),), **more}))


def test_a_set_is_its_service_its_files_and_its_pods(server: Server, tmp_path: Path) -> None:
    assert outcome(server, tmp_path) == Done()
    assert server.names("services") == ["gp-7-2"]
    assert server.names("secrets") == ["gp-7-2-files"]
    assert server.names("pods") == ["gp-7-2-0", "gp-7-2-1", "gp-7-2-2"]
    owners = {
        owner["uid"]
        for (kind, _), each in server.of_sets.items()
        if kind != "services"
        for owner in each["metadata"]["ownerReferences"]
    }
    assert owners == {"uid-services-gp-7-2"}


BUSY = status(429, "TooManyRequests")
DOWN = Answer(503, b"<html>down</html>", kind="text/html")


@pytest.mark.parametrize(
    ("what", "answer", "expected", "goes"),
    [
        # Nothing was made.
        ("POST services", status(403, "Forbidden", "exceeded quota"), Failed, True),
        ("POST services", BUSY, Failed, True),
        ("POST services", DOWN, Failed, True),
        # What it was made for is not known.
        ("POST services", status(500), Unsure, False),
        ("POST services", "lost", Unsure, False),
        # All or none: what was made of it goes again.
        ("POST pods", status(403, "Forbidden", "exceeded quota"), Failed, True),
        ("POST pods", status(422, "Invalid"), Refused, True),
        ("POST secrets", status(403, "Forbidden"), Failed, True),
        # It may be whole soon, or be asked for once more.
        ("POST pods", BUSY, Unsure, False),
        ("POST pods", status(500), Unsure, False),
        ("POST pods", "lost", Unsure, False),
        ("POST pods", status(409, "Conflict"), Unsure, False),
        # It was started, whatever comes of writing that down.
        ("PATCH services", "lost", Done, False),
        ("PATCH services", DOWN, Done, False),
    ],
)
def test_an_answer_says_whether_it_may_be_asked_again(
    server: Server, tmp_path: Path, what: str, answer: Answer | str, expected: type, goes: bool
) -> None:
    server.faults[what] = [answer]
    with a_door(server, tmp_path) as door:
        of = ranks(nodes=GANG, files=(File("a", "b"),))
        first = door.start(of)
        assert isinstance(first, expected), first
        if goes:
            until("what was made of it is gone", lambda: not server.of_sets, wait_s=WAIT_S)
        else:
            # The same once more completes it, and makes nothing twice.
            assert isinstance(door.start(of), Done)
        assert server.names("pods") in ([], ["gp-7-2-0", "gp-7-2-1", "gp-7-2-2"])
        assert not server.made or max(server.made.values()) == 1


def test_a_start_that_broke_off_is_listed_so_until_it_is_asked_for_once_more(
    server: Server, tmp_path: Path
) -> None:
    server.faults["POST services"] = ["lost"]
    with a_door(server, tmp_path) as door:
        assert isinstance(door.start(ranks(nodes=GANG)), Unsure)

        def made() -> list[bool]:
            return [each.made for each in door.list(now=NOW).sets]

        until("it is listed", lambda: made() == [False], wait_s=WAIT_S)
        assert door.start(ranks(nodes=GANG)) == Done()
        until("it is whole", lambda: made() == [True], wait_s=WAIT_S)
        assert server.names("pods") == ["gp-7-2-0", "gp-7-2-1", "gp-7-2-2"]


def test_what_is_made_is_written_down_later_where_that_was_lost(server: Server, tmp_path: Path) -> None:
    server.faults["PATCH services"] = [DOWN]
    with a_door(server, tmp_path) as door:
        assert door.start(ranks()) == Done()

        def whole() -> bool:
            return "glidepath/whole" in server.kept["services", "gp-7-2"]["metadata"]["annotations"]

        until("it is written down", whole, wait_s=WAIT_S)


def test_a_quota_that_counts_what_is_there_takes_nothing_of_it_away(server: Server, tmp_path: Path) -> None:
    """The pod is made, nobody heard of it, and to make it once more would be one too many."""
    server.faults["POST pods"] = ["lost", status(403, "Forbidden", "exceeded quota")]
    server.faults["PATCH services"] = [DOWN] * 50
    with a_door(server, tmp_path) as door:
        assert isinstance(door.start(ranks()), Unsure)
        assert door.start(ranks()) == Done()
        assert server.names("pods") == ["gp-7-2-0"]
        assert server.made["pods/gp-7-2-0"] == 1


def test_the_same_key_twice_makes_one_and_for_something_else_none(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path) as door:
        assert door.start(ranks(nodes=GANG)) == Done()
        assert door.start(ranks(nodes=GANG)) == Done("it was started before")
        assert isinstance(door.start(ranks(nodes=GANG, limit_s=5)), Refused)
        # A pod that somebody else deleted is not made again: its command may have run.
        with server.changed:
            server._gone("pods", "gp-7-2-1")
        assert door.start(ranks(nodes=GANG)) == Done("it was started before")
        assert server.names("pods") == ["gp-7-2-0", "gp-7-2-2"]


@pytest.mark.parametrize("answer", [status(403, "Forbidden"), status(429, "TooManyRequests"), DOWN])
def test_of_a_set_that_is_there_and_cannot_be_read_nothing_is_said(
    server: Server, tmp_path: Path, answer: Answer
) -> None:
    with a_door(server, tmp_path) as door:
        assert door.start(ranks(nodes=GANG)) == Done()
        server.faults["GET services"] = [answer] * 50
        assert isinstance(door.start(ranks(nodes=GANG)), Unsure)
        assert server.names("pods") == ["gp-7-2-0", "gp-7-2-1", "gp-7-2-2"]


def test_a_service_of_somebody_else_is_left_alone(server: Server, tmp_path: Path) -> None:
    server._made("services", {"metadata": {"name": "gp-7-2"}})
    with a_door(server, tmp_path) as door:
        assert isinstance(door.start(ranks()), Refused)
        assert door.stop(SetKey("7.2")) == Done("it is gone")
        assert door.clear(SetKey("7.2")) == Done("it is gone")
        assert isinstance(door.extend(SetKey("7.2"), 60), Refused)
        assert door.list(now=NOW).sets == ()
    assert server.names("services") == ["gp-7-2"]
    assert server.names("pods") == []


def test_whoever_does_not_own_the_store_changes_nothing(server: Server, tmp_path: Path) -> None:
    made = KubernetesCluster(
        ClusterName("lab"),
        settings(stated=STATED),
        Place(tmp_path, "", ours=lambda: False),
        access=lambda: plain_access(server),
    )
    try:
        assert isinstance(made.start(ranks()), NotTried)
    finally:
        made.close()
    assert not server.made


def test_too_many_sets_wait_for_another_cycle(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path, sets_max=1) as door:
        assert door.start(ranks()) == Done()
        assert isinstance(door.start(ranks(key=SetKey("8.1"))), Failed)
        assert server.names("services") == ["gp-7-2"]


def test_what_is_told_to_stop_before_it_began_goes_at_once(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path) as door:
        assert door.start(ranks(nodes=GANG)) == Done()
        assert door.stop(SetKey("7.2")) == Done()
        until("its pods are gone", lambda: server.names("pods") == [], wait_s=WAIT_S)

        def causes() -> set[Cause]:
            return {rank.cause for each in door.list(now=NOW).sets for rank in each.ranks}

        until("it is told", lambda: causes() == {Cause.STOPPED}, wait_s=WAIT_S)
        assert door.clear(SetKey("7.2")) == Done()
        until("it is cleared", lambda: door.list(now=NOW).sets == (), wait_s=WAIT_S)


def test_a_gang_that_does_not_gather_is_given_up_with_its_reason(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path, later_s=3600) as door:
        assert door.start(replace(ranks(nodes=GANG), gather_s_max=60)) == Done()
        until("its pods are gone", lambda: server.names("pods") == [], wait_s=WAIT_S)

        def told() -> set[tuple[Cause, bool]]:
            ranks = [rank for each in door.list(now=NOW).sets for rank in each.ranks]
            return {(rank.cause, "not in place within 60 s" in rank.why) for rank in ranks}

        until("it is told", lambda: told() == {(Cause.NOT_GATHERED, True)}, wait_s=WAIT_S)


def test_a_pod_that_cannot_be_read_is_unsure_and_hides_no_other(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path) as door:
        assert door.start(ranks(nodes=GANG)) == Done()
        with server.changed:
            odd = server.kept["pods", "gp-7-2-1"]
            odd["status"] = "Running"
            server._happened("MODIFIED", "pods", odd)
            server.changed.notify_all()

        def states() -> list[RankState]:
            return [rank.state for each in door.list(now=NOW).sets for rank in each.ranks]

        expected = [RankState.ASKED, RankState.UNSURE, RankState.ASKED]
        until("it is unsure", lambda: states() == expected, wait_s=WAIT_S)


def test_a_service_that_is_not_as_we_wrote_it_stops_the_listing(server: Server, tmp_path: Path) -> None:
    with a_door(server, tmp_path) as door:
        assert door.start(ranks()) == Done()
        with server.changed:
            bad = server.kept["services", "gp-7-2"]
            bad["metadata"]["annotations"]["glidepath/intent"] = "{}"
            server._happened("MODIFIED", "services", bad)
            server.changed.notify_all()

        def raises() -> bool:
            try:
                door.list(now=NOW)
            except WORLD_ERRORS as error:
                return "is not ours" in str(error)
            return False

        until("it is said", raises, wait_s=WAIT_S)


def test_nothing_is_started_that_would_stand_open(server: Server, tmp_path: Path) -> None:
    server.faults["POST networkpolicies"] = [status(403, "Forbidden")] * 9
    with a_door(server, tmp_path) as door:
        refused = door.start(ranks())
    assert isinstance(refused, Failed)
    assert "jobs cannot be kept apart" in refused.why
    assert "or set `separate = false`" in refused.why
    assert not server.made
