"""Requests that are wrong in every way that a generator, or a person with time, comes upon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from glidepath.serve.api import BODY_BYTES_MAX
from glidepath.serve.openapi import document
from glidepath.serve.operations import OPERATIONS
from serve.api_server import ApiServer, api_server

load_all_checks()
EXAMPLES_MAX = 30
GENERATED = schemathesis.openapi.from_dict(document(OPERATIONS)).include(path_regex="^/api/v1/(?!sites)")
WISH = {"command": ["true"], "partition": "main"}
DEEP = b'{"command":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with api_server(tmp_path_factory.mktemp("home")) as made:
        made.person("alice", "operator", ("physics",))
        made.person("root", "admin")
        yield made


@GENERATED.parametrize()
@hypothesis.settings(
    max_examples=EXAMPLES_MAX,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_whatever_is_sent_the_answer_is_one_that_is_described(case: Any, world: ApiServer) -> None:
    if case.method == "GET" and case.query:
        case.query.pop("follow", None)  # An answer that goes on has tests of its own.
    if case.path.endswith("/jobs"):
        case.query = {**(case.query or {}), "wait": 0}
    headers = {"Authorization": f"Bearer {world.held['root']}"}
    answer = case.call(base_url=world.url, headers=headers)
    case.validate_response(
        answer,
        checks=[status_code_conformance, content_type_conformance, response_schema_conformance],
    )
    assert answer.status_code < 500


BAD: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "deep": DEEP,
    "no text": b'{"command":["\xff"],"partition":"main"}',
    "half a character": b'{"command":["\\ud800"],"partition":"main"}',
    "a zero byte": b'{"command":["a\\u0000b"],"partition":"main"}',
    "not a number": b'{"command":["true"],"partition":"main","cpus":NaN}',
    "a number without end": b'{"command":["true"],"partition":"main","cpus":1e999}',
    "a huge number": json.dumps({**WISH, "ranks": 10**40}).encode(),
    "a truth as a number": json.dumps({**WISH, "gpus": True}).encode(),
    "an unknown key": json.dumps({**WISH, "owner": "root"}).encode(),
    "no command": json.dumps({"partition": "main"}).encode(),
    "an empty command": json.dumps({**WISH, "command": []}).encode(),
    "no such partition": json.dumps({**WISH, "partition": "else"}).encode(),
    "a path that leaves": json.dumps({**WISH, "files": [{"path": "../x", "content": ""}]}).encode(),
    "a working directory that leaves": json.dumps({**WISH, "workdir": "/a/../../b"}).encode(),
    "an image with a blank": json.dumps({**WISH, "image": "a b; rm -rf /"}).encode(),
    "a variable without a name": json.dumps({**WISH, "env": {"": "x"}}).encode(),
    "a variable with an equals sign": json.dumps({**WISH, "env": {"A=B": "x"}}).encode(),
    "a name of two lines": json.dumps({**WISH, "name": "a\nb"}).encode(),
    "a limit below zero": json.dumps({**WISH, "time": "-1h"}).encode(),
    "memory without a unit": json.dumps({**WISH, "mem": "many"}).encode(),
    "a megabyte of arguments": json.dumps({**WISH, "command": ["x" * 1023] * 1100}).encode(),
    "a port twice": json.dumps({**WISH, "port": [80, 80]}).encode(),
}


@pytest.mark.parametrize("name", sorted(BAD))
@pytest.mark.parametrize("path", ["/jobs?wait=0", "/jobs/test"])
def test_a_submission_that_is_wrong_is_refused_with_a_sentence_and_nothing_is_kept(
    world: ApiServer, name: str, path: str
) -> None:
    before = world.ask("GET", "/jobs", who="alice")[1]["jobs"][-1:]
    code, said = world.ask("POST", path, raw=BAD[name], who="alice")
    expected = (404, "unknown") if name == "no such partition" else (422, "unusable")
    assert (code, said["kind"]) == expected, said
    assert said["error"]
    assert len(json.dumps(said)) < 8000
    assert [one["id"] for one in world.ask("GET", "/jobs", who="alice")[1]["jobs"][-1:]] == [
        one["id"] for one in before
    ]


def test_every_mistake_of_a_submission_is_told_at_once_with_its_place(world: ApiServer) -> None:
    wish = {**WISH, "cpus": "many", "mem": "x", "colour": "red", "ranks": 0}
    code, said = world.ask("POST", "/jobs", wish, who="alice")
    assert code == 422
    assert {each["place"] for each in said["places"]} == {"cpus", "mem", "colour", "ranks"}


def test_a_body_that_is_too_long_is_not_read(world: ApiServer) -> None:
    long = b" " * 1024
    code, said = world.ask(
        "POST", "/jobs", raw=long, who="alice", headers={"Content-Length": str(BODY_BYTES_MAX + 1)}
    )
    assert (code, said["kind"]) == (413, "too long")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/jobs/0", 404),
        ("/jobs/-1", 404),
        ("/jobs/1e3", 404),
        ("/jobs/%31%00", 404),
        ("/jobs/99999999999999999999999", 404),
        ("/jobs/%D9%A3", 404),
        ("/jobs/..%2f..%2fetc%2fpasswd", 404),
        ("/jobs/1/ranks/99999999/log", 404),
        ("/jobs?limit=0", 422),
        ("/jobs?limit=1&limit=2", 422),
        ("/jobs?limits=1", 422),
        ("/jobs?state=asleep", 422),
        ("/jobs?below=99999999999999999999999", 422),
        ("/me?x=1", 422),
        ("/events?after=-1", 422),
        ("/nothing", 404),
    ],
)
def test_an_address_that_is_wrong_is_told_so(world: ApiServer, path: str, code: int) -> None:
    found, said = world.ask("GET", path, who="alice")
    assert (found, bool(said["error"])) == (code, True)


def test_another_verb_is_told_which_there_are(world: ApiServer) -> None:
    code, said = world.ask("DELETE", "/jobs/1", who="alice")
    assert (code, said["kind"]) == (405, "unusable")


def test_the_same_key_gives_the_same_job_and_another_wish_under_it_is_a_clash(world: ApiServer) -> None:
    wish = {**WISH, "queue": "batch"}
    key = {"Idempotency-Key": "k-1"}
    first = world.ask("POST", "/jobs?wait=0", wish, who="alice", headers=key)
    again = world.ask("POST", "/jobs?wait=0", wish, who="alice", headers=key)
    other = world.ask("POST", "/jobs?wait=0", {**wish, "cpus": 2}, who="alice", headers=key)
    assert (first[0], again[0], other[0]) == (201, 200, 409)
    assert first[1]["jobs"][0]["id"] == again[1]["jobs"][0]["id"]
    bad = world.ask("POST", "/jobs?wait=0", wish, who="alice", headers={"Idempotency-Key": "x" * 201})
    assert bad[0] == 422
