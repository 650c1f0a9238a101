"""What is answered is what is described: real jobs of every kind, through every operation that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from glidepath.serve.jobops import JOB_OPERATIONS
from serve.api_server import ApiServer, api_server

MODELS = {each.name: each.answer for each in JOB_OPERATIONS}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("home")) as made:
        made.person("alice", "operator", ("physics",))
        yield made


@pytest.fixture(scope="module")
def jobs(world: ApiServer) -> dict[str, int]:
    """One that is over, one that runs, one that waits with a promise, one for pilots."""
    over = world.ran("alice", stdout=b"done\n")
    made = {"over": over}
    for name, wish in (
        ("runs", {"partition": "main", "queue": "interactive", "cpus": 4, "ranks": 2, "time": "1h"}),
        ("waits", {"partition": "main", "queue": "interactive", "project": "physics", "port": [8888]}),
        ("pulled", {"partition": "pulled", "trait": {"arch": "x86_64"}}),
    ):
        code, said = world.ask("POST", "/jobs?wait=0", {"command": ["true"], **wish}, who="alice")
        assert code == 201, said
        made[name] = int(said["jobs"][0]["id"])
        for _ in range(4):
            world.place.turn(after_s=0)
    assert world.place.stands(made["runs"]) == "running"
    return made


def asked(world: ApiServer, name: str, *case: Any) -> Any:
    """The answer, once the model that describes it has taken it: one key too many is a fault."""
    code, said = world.ask(*case, who="alice")
    assert code in (200, 201), said
    MODELS[name].model_validate(said)
    return said


@pytest.mark.parametrize("which", ["over", "runs", "waits", "pulled"])
def test_a_job_of_every_kind_is_shown_as_described(
    world: ApiServer, jobs: dict[str, int], which: str
) -> None:
    job = jobs[which]
    shown = asked(world, "show", "GET", f"/jobs/{job}")
    listed = {item["id"]: item for item in asked(world, "list", "GET", "/jobs")["jobs"]}
    assert (shown["id"], shown["owner"], shown["command"]) == (job, "alice", ["true"])
    assert listed[job]["state"] == shown["state"]
    if which != "pulled":
        events = asked(world, "job_events", "GET", f"/jobs/{job}/events")["events"]
        assert events[0]["kind"] == "submitted"
        assert asked(world, "explain", "GET", f"/jobs/{job}/explain")["explained"]


def test_a_page_of_jobs_names_where_the_next_begins(world: ApiServer, jobs: dict[str, int]) -> None:
    first = asked(world, "list", "GET", "/jobs?limit=2")
    rest = asked(world, "list", "GET", f"/jobs?below={first['below']}")
    numbers = [item["id"] for item in rest["jobs"] + first["jobs"]]
    assert numbers == sorted(jobs.values())
    assert rest["below"] is None


def test_places_and_queues_are_shown_as_described(world: ApiServer, jobs: dict[str, int]) -> None:
    queues = asked(world, "queues", "GET", "/queues")["queues"]
    places = asked(world, "partitions", "GET", "/partitions")["partitions"]
    nodes = asked(world, "nodes", "GET", "/nodes")["nodes"]
    assert [queue["name"] for queue in queues] == ["interactive", "batch"]
    assert {place["name"]: place["kind"] for place in places} == {"main": "placed", "pulled": "pulled"}
    assert {node["name"]: node["jobs"] for node in nodes} == {"n1": [jobs["runs"]], "n2": [jobs["runs"]]}


def test_a_test_says_when_and_submits_nothing(world: ApiServer, jobs: dict[str, int]) -> None:
    wish = {"command": ["true"], "partition": "main", "queue": "interactive"}
    said = asked(world, "test", "POST", "/jobs/test", wish)
    assert said["wait_s"] > 0
    assert [item["id"] for item in asked(world, "list", "GET", "/jobs")["jobs"]] == sorted(jobs.values())


def test_a_submission_says_where_to_look(world: ApiServer) -> None:
    body = b'{"command": ["true"], "partition": "pulled"}'
    code, headers, _ = world.request("POST", "/jobs?wait=0", body, who="alice")
    assert code == 201
    assert world.request("GET", headers["location"].removeprefix("/api/v1"), who="alice")[0] == 200


def test_a_job_that_runs_may_be_extended_one_that_waits_not(world: ApiServer, jobs: dict[str, int]) -> None:
    code, said = world.ask("POST", f"/jobs/{jobs['waits']}/extend", {"limit": "2h"}, who="alice")
    assert (code, said["kind"]) == (409, "clash")
    tried = asked(world, "extend", "POST", f"/jobs/{jobs['runs']}/extend", {"limit": 1800, "dry": True})
    assert tried["id"] == jobs["runs"]


def test_words_and_cancels_say_what_became_of_it(world: ApiServer, jobs: dict[str, int]) -> None:
    assert asked(world, "cordon_node", "POST", "/nodes/n1/cordon", {"why": "a fan"})["state"] == "cordoned"
    assert asked(world, "nodes", "GET", "/nodes")["nodes"][0]["why"] == "a fan"
    assert asked(world, "resume_node", "POST", "/nodes/n1/resume")["state"] == "open"
    tried = asked(world, "pause_partition", "POST", "/partitions/main/pause", {"dry": True})
    assert tried["say"].endswith("nothing was changed")
    assert not asked(world, "partitions", "GET", "/partitions")["partitions"][0]["paused"]
    done = asked(world, "cancel", "POST", f"/jobs/{jobs['waits']}/cancel")
    assert (done["before"], done["state"]) == ("queued", "cancelled")
