"""Two people on every route: neither sees nor touches what the other has, and no route is left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glidepath.serve.jobops import LOG_PATH
from glidepath.serve.operation import PREFIX
from glidepath.serve.operations import OPERATIONS
from serve.api_server import ApiServer, api_server

SECRET = "alices-secret"
NEVER = 999_999
Case = tuple[str, str, Any]
# What somebody else asks, given the number of a job that is not theirs.
OF_A_JOB: dict[str, Callable[[int], Case]] = {
    "show": lambda job: ("GET", f"/jobs/{job}", None),
    "cancel": lambda job: ("POST", f"/jobs/{job}/cancel", None),
    "extend": lambda job: ("POST", f"/jobs/{job}/extend", {"limit": "2h"}),
    "explain": lambda job: ("GET", f"/jobs/{job}/explain", None),
    "job_events": lambda job: ("GET", f"/jobs/{job}/events", None),
    "log": lambda job: ("GET", f"/jobs/{job}/ranks/0/log", None),
}
OF_MANY: dict[str, Case] = {
    "list": ("GET", "/jobs?limit=1000", None),
    "events": ("GET", "/events", None),
    "queues": ("GET", "/queues", None),
    "partitions": ("GET", "/partitions", None),
    "nodes": ("GET", "/nodes", None),
    "me": ("GET", "/me", None),
    "usage": ("GET", "/usage?by=owner,project&step=hour", None),
    "projects": ("GET", "/projects", None),
    "windows": ("GET", "/windows?over=true", None),
    "window": ("GET", "/windows/1", None),
    "submit": ("POST", "/jobs?wait=0", {"command": ["true"], "partition": "main"}),
    "test": ("POST", "/jobs/test", {"command": ["true"], "partition": "main"}),
}
FAR_AWAY = {"all": True, "starts": "+30d", "lasts": "1h"}
OF_OPERATORS: dict[str, Case] = {
    "pause_queue": ("POST", "/queues/batch/pause", {"why": "mine"}),
    "resume_queue": ("POST", "/queues/batch/resume", None),
    "pause_partition": ("POST", "/partitions/main/pause", {"why": "mine"}),
    "resume_partition": ("POST", "/partitions/main/resume", None),
    "cordon_node": ("POST", "/nodes/n1/cordon", {"why": "mine"}),
    "drain_node": ("POST", "/nodes/n1/drain", {"why": "mine"}),
    "resume_node": ("POST", "/nodes/n1/resume", None),
    "add_window": ("POST", "/windows", {**FAR_AWAY, "dry": True}),
    "move_window": ("POST", "/windows/1/move", {"version": 1, "lasts": "1h", "dry": True}),
    "cancel_window": ("POST", "/windows/1/cancel", {"version": 1, "dry": True}),
}
# Of people: everybody knows themselves, and admins everybody.
OF_ADMINS: dict[str, Case] = {
    "people": ("GET", "/people", None),
    "add_person": ("POST", "/people", {"name": "mallory"}),
    "set_role": ("POST", "/people/alice/role", {"role": "viewer"}),
    "leave": ("POST", "/people/alice/leave", None),
    "tokens": ("GET", "/people/alice/tokens", None),
    "issue_token": ("POST", "/people/alice/tokens", None),
    "add_project": ("POST", "/projects", {"name": "mine"}),
    "join": ("POST", "/projects/physics/join", {"person": "bob"}),
    "part": ("POST", "/projects/physics/part", {"person": "alice"}),
    "close": ("POST", "/projects/physics/close", None),
    "grant": ("POST", "/projects/physics/grant", {"amount": 5}),
    "take": ("POST", "/projects/physics/take", {"amount": 5}),
    "set_project": ("POST", "/projects/physics/set", {"weight": 5}),
}
# Everybody has their own, under names of their own: the same words mean another thing for each.
OF_ONESELF: dict[str, Case] = {
    "notices": ("GET", "/notices", None),
    "set_notice": ("POST", "/notices", {"to": "mallory@example.org", "name": "hers"}),
    "notice": ("GET", "/notices/hers", None),
    "test_notice": ("POST", "/notices/hers/test", None),
    "remove_notice": ("POST", "/notices/hers/remove", None),
}
UNKNOWN: dict[str, tuple[Case, Case]] = {
    "person": (("GET", "/people/alice", None), ("GET", "/people/nobody", None)),
    "project": (("GET", "/projects/physics", None), ("GET", "/projects/nobody", None)),
    "revoke_token": (("POST", "/tokens/TOKEN/revoke", None), ("POST", "/tokens/zzzzzzzz/revoke", None)),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("home")) as made:
        for name, role, projects in (
            ("alice", "user", ("physics",)),
            ("bob", "user", ("biology",)),
            ("eve", "viewer", ()),
            ("carol", "operator", ()),
            ("phil", "viewer", ("physics",)),
        ):
            made.person(name, role, projects)
        code, said = made.ask("POST", "/windows", {**FAR_AWAY, "why": "new disks"}, who="carol")
        assert (code, said["id"]) == (201, 1), said
        yield made


@pytest.fixture(scope="module")
def job(world: ApiServer) -> int:
    wish = {
        "command": ["echo", SECRET],
        "name": SECRET,
        "partition": "main",
        "queue": "batch",
        "project": "physics",
        "env": {"KEY": SECRET},
    }
    code, said = world.ask("POST", "/jobs?wait=0", wish, who="alice")
    assert code == 201, said
    return int(said["jobs"][0]["id"])


def test_every_operation_has_a_case_here() -> None:
    cases = {*OF_A_JOB, *OF_MANY, *OF_OPERATORS, *OF_ADMINS, *OF_ONESELF, *UNKNOWN}
    assert cases == {each.name for each in OPERATIONS} | {"log"}


def test_every_route_of_the_application_is_described(world: ApiServer) -> None:
    code, described = world.ask("GET", "/openapi.json")
    assert code == 200
    served = {
        (method, route.path)
        for route in world.application.routes
        for method in route.methods - {"HEAD"}
        if route.path.startswith(f"{PREFIX}/") and not route.path.endswith(("/alive", "/openapi.json"))
    }
    told = {(m.upper(), path) for path, item in described["paths"].items() for m in item if m != "parameters"}
    assert {(m, path.replace(":str", "")) for m, path in served} == told
    assert ("GET", PREFIX + LOG_PATH) in told


@pytest.mark.parametrize("name", sorted(OF_A_JOB))
@pytest.mark.parametrize("who", ["bob", "eve"])
def test_a_job_of_somebody_else_is_as_unknown_as_one_that_never_was(
    world: ApiServer, job: int, name: str, who: str
) -> None:
    before = world.ask("GET", f"/jobs/{job}", who="alice")
    code, said = world.ask(*OF_A_JOB[name](job), who=who)
    never_code, never = world.ask(*OF_A_JOB[name](NEVER), who=who)
    assert (code, never_code) == (404, 404)
    assert json.dumps(said).replace(str(job), "N") == json.dumps(never).replace(str(NEVER), "N")
    after = world.ask("GET", f"/jobs/{job}", who="alice")
    assert _still(after) == _still(before)


@pytest.mark.parametrize("name", sorted(OF_MANY))
@pytest.mark.parametrize("who", ["bob", "eve"])
def test_nothing_of_somebody_elses_job_is_in_any_list(
    world: ApiServer, job: int, name: str, who: str
) -> None:
    code, said = world.ask(*OF_MANY[name], who=who)
    assert code in (200, 201, 403, 409), said
    assert SECRET not in json.dumps(said)
    assert job not in [one["id"] for one in said.get("jobs", []) if isinstance(one, dict)]
    assert job not in [one["job"] for one in said.get("events", [])]
    if name == "nodes":
        assert all(job not in node["jobs"] for node in said["nodes"])


@pytest.mark.parametrize("name", sorted(OF_OPERATORS))
@pytest.mark.parametrize("who", ["alice", "eve"])
def test_words_of_operators_are_not_for_everybody(world: ApiServer, name: str, who: str) -> None:
    code, said = world.ask(*OF_OPERATORS[name], who=who)
    assert (code, said["kind"]) == (403, "forbidden")


@pytest.mark.parametrize("name", sorted(OF_ADMINS))
@pytest.mark.parametrize("who", ["bob", "eve", "carol"])
def test_people_and_projects_are_changed_by_admins_alone(world: ApiServer, name: str, who: str) -> None:
    code, said = world.ask(*OF_ADMINS[name], who=who)
    assert (code, said["kind"]) == (403, "forbidden")
    assert world.ask("GET", "/me", who="alice") == (
        200,
        {"name": "alice", "role": "user", "projects": ["physics"]},
    )


@pytest.mark.parametrize("who", ["bob", "eve", "carol"])
def test_where_somebody_is_told_of_their_jobs_is_seen_and_changed_by_nobody_else(
    world: ApiServer, who: str
) -> None:
    wish = {"to": f"{SECRET}@example.org", "name": "hers", "on": ["end"]}
    code, _ = world.ask("POST", "/notices", wish, who="alice")
    assert code in (200, 201)
    before = world.ask("GET", "/notices", who="alice")
    assert [(one["to"], one["testing"]) for one in before[1]["notices"]] == [(wish["to"], False)]
    # In this order the words of somebody else are there in the end, and are theirs.
    order = (
        "notices",
        "notice",
        "test_notice",
        "remove_notice",
        "set_notice",
        "test_notice",
        "remove_notice",
    )
    answers = [world.ask(*OF_ONESELF[name], who=who) for name in order]
    may = who != "eve"
    codes = [200, 404, 404, 404, 201, 200, 200] if may else [200, 404, 403, 403, 403, 403, 403]
    assert [code for code, _ in answers] == codes
    assert SECRET not in json.dumps(answers)
    assert world.ask("GET", "/notices", who="alice") == before


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_who_and_what_there_is_is_not_told(world: ApiServer, name: str) -> None:
    hers = world.ask("GET", "/people/alice", who="alice")[1]["tokens"][0]["name"]
    answers = []
    for (method, path, wish), word in zip(UNKNOWN[name], (hers, "zzzzzzzz"), strict=True):
        path = path.replace("TOKEN", hers)
        code, said = world.ask(method, path, wish, who="bob")
        shown = next(each for each in (word, "alice", "nobody", "physics") if each in path)
        answers.append((code, json.dumps(said).replace(shown, "X")))
    assert answers[0] == answers[1]
    assert answers[0][0] == (403 if name == "person" else 404)
    assert world.ask("GET", "/me", who="alice")[0] == 200


def test_everybody_may_look_at_themselves_and_end_their_own_token(world: ApiServer) -> None:
    mine = world.ask("GET", "/people/phil", who="phil")[1]
    assert (mine["role"], mine["projects"]) == ("viewer", ["physics"])
    fresh = world.person("zoe", "user")
    token = world.ask("GET", "/people/zoe/tokens", who="zoe")[1]["tokens"][0]["name"]
    assert world.ask("POST", f"/tokens/{token}/revoke", who="zoe")[0] == 200
    headers = {"Authorization": f"Bearer {fresh}"}
    assert world.ask("GET", "/me", headers=headers)[0] == 401


def test_an_admin_lets_people_in_over_http(world: ApiServer) -> None:
    world.person("root", "admin")
    assert world.ask("POST", "/people", {"name": "kim", "role": "user"}, who="root")[0] == 201
    assert world.ask("POST", "/projects", {"name": "chemistry"}, who="root")[0] == 201
    assert world.ask("POST", "/projects/chemistry/join", {"person": "kim"}, who="root")[1]["new"] is True
    code, issued = world.ask("POST", "/people/kim/tokens", {"lasts": "1d"}, who="root")
    headers = {"Authorization": f"Bearer {issued['text']}"}
    expected = {"name": "kim", "role": "user", "projects": ["chemistry"]}
    assert (code, world.ask("GET", "/me", headers=headers)) == (201, (200, expected))
    assert world.ask("POST", "/people/kim/leave", who="root")[1]["revoked"] == 1
    assert world.ask("GET", "/me", headers=headers)[0] == 401


def test_an_operator_sees_all_and_may_change_it(world: ApiServer, job: int) -> None:
    code, shown = world.ask("GET", f"/jobs/{job}", who="carol")
    assert (code, shown["owner"]) == (200, "alice")
    code, said = world.ask("POST", "/queues/batch/pause", {"why": "a test"}, who="carol")
    assert (code, said["state"]) == (200, "paused")
    assert world.ask("GET", "/queues", who="bob")[1]["queues"][1]["why"] == "a test"
    assert world.ask("POST", "/queues/batch/resume", who="carol")[0] == 200


def test_people_of_a_project_read_its_jobs_and_change_none(world: ApiServer, job: int) -> None:
    code, shown = world.ask("GET", f"/jobs/{job}", who="phil")
    assert (code, shown["name"]) == (200, SECRET)
    assert world.ask("POST", f"/jobs/{job}/cancel", who="phil")[0] == 403
    assert [one["id"] for one in world.ask("GET", "/jobs", who="phil")[1]["jobs"]] == [job]


def test_values_of_variables_are_told_to_nobody(world: ApiServer, job: int) -> None:
    for path in (f"/jobs/{job}", "/jobs", f"/jobs/{job}/explain", f"/jobs/{job}/events"):
        code, said = world.ask("GET", path, who="alice")
        assert code == 200
        for item in said.get("jobs", [said]):
            assert item.get("env", ["KEY"]) == ["KEY"]


def test_who_submits_is_who_the_token_says(world: ApiServer) -> None:
    wish = {"command": ["true"], "partition": "main", "owner": "alice"}
    code, said = world.ask("POST", "/jobs?wait=0", wish, who="bob")
    assert (code, said["places"][0]["place"]) == (422, "owner")
    wish = {"command": ["true"], "partition": "main", "project": "physics"}
    code, said = world.ask("POST", "/jobs?wait=0", wish, who="bob")
    assert (code, said["kind"]) == (403, "forbidden")
    code, said = world.ask("POST", "/jobs?wait=0", {"command": ["true"]}, who="eve")
    assert (code, said["kind"]) == (403, "forbidden")


@pytest.mark.parametrize("shown", ["", "x", "Basic YTpi", "Bearer", "Bearer  ", "Bearer gpp.aaaa.bbbb"])
def test_without_a_token_in_force_every_route_says_the_same(tmp_path: Path, shown: str) -> None:
    with api_server(tmp_path / "home", strangers_per_minute=10_000) as world:
        cases = [make(1) for make in OF_A_JOB.values()]
        cases += [*OF_MANY.values(), *OF_OPERATORS.values(), *OF_ADMINS.values(), *OF_ONESELF.values()]
        cases += [case for both in UNKNOWN.values() for case in both]
        headers = {"Authorization": shown}
        answers = {json.dumps(world.ask(*case, headers=headers)) for case in cases}
    assert len(answers) == 1
    assert json.loads(answers.pop())[0] == 401


def _still(answer: tuple[int, Any]) -> Any:
    """What does not change by itself."""
    code, said = answer
    return code, {
        key: value for key, value in said.items() if key not in ("age_s", "ran_s", "start", "promised")
    }
