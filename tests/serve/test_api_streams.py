"""Answers that go on: events as they come and logs as they grow, and clients that behave badly."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent_builders import until
from glidepath.serve import stream
from serve.api_server import ApiServer, api_server

WISH = {"command": ["true"], "partition": "main", "queue": "batch"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "home") as made:
        made.person("alice", "user")
        made.person("bob", "user")
        yield made


def submitted(world: ApiServer, who: str = "alice") -> int:
    code, said = world.ask("POST", "/jobs?wait=0", WISH, who=who)
    assert code == 201, said
    return int(said["jobs"][0]["id"])


class Listening:
    """One open stream of events."""

    def __init__(self, world: ApiServer, who: str, path: str = "/events", *, last: int | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=30)
        headers = {"Authorization": f"Bearer {world.held[who]}", "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request("GET", f"/api/v1{path}", headers=headers)
        self.answer = self.connection.getresponse()

    def next(self) -> dict[str, object]:
        for _ in range(1000):
            line = self.answer.readline().decode()
            assert line, "the stream ended"
            if line.startswith("data: "):
                found: dict[str, object] = json.loads(line[6:])
                return found
        raise AssertionError("a thousand lines without an event")

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


def test_events_come_while_they_happen_and_only_to_those_who_may_see_them(world: ApiServer) -> None:
    hers, his = Listening(world, "alice"), Listening(world, "bob")
    assert (hers.answer.status, hers.answer.getheader("content-type")) == (
        200,
        "text/event-stream; charset=utf-8",
    )
    first = submitted(world, "alice")
    second = submitted(world, "bob")
    assert (hers.next()["job"], his.next()["job"]) == (first, second)
    world.ask("POST", f"/jobs/{first}/cancel", who="alice")
    assert [hers.next()["kind"]] == ["cancelled"]
    hers.close()
    his.close()


def test_a_stream_goes_on_where_it_was_left(world: ApiServer) -> None:
    job = submitted(world)
    listening = Listening(world, "alice")
    seen = listening.next()
    listening.close()
    world.ask("POST", f"/jobs/{job}/cancel", who="alice")
    again = Listening(world, "alice", last=int(str(seen["id"])))
    assert again.next()["kind"] == "cancelled"
    again.close()


def test_the_stream_of_a_job_that_is_not_theirs_does_not_begin(world: ApiServer) -> None:
    job = submitted(world)
    listening = Listening(world, "bob", f"/jobs/{job}/events")
    assert listening.answer.status == 404
    listening.close()


def test_a_person_whose_token_is_revoked_hears_nothing_more(world: ApiServer) -> None:
    world.api.streams.known_again_s = 0.1
    listening = Listening(world, "alice")
    submitted(world)
    assert listening.next()["kind"] == "submitted"
    world.leave("alice")
    until("the stream is closed", lambda: not world.api.streams.open.total())
    submitted(world, "bob")
    with pytest.raises(http.client.IncompleteRead) as cut:
        listening.answer.read()
    assert b"data: " not in cut.value.partial
    listening.close()


def test_one_person_cannot_take_all_streams(world: ApiServer) -> None:
    mine = [Listening(world, "alice") for _ in range(stream.OF_ONE_MAX)]
    assert {each.answer.status for each in mine} == {200}
    more = Listening(world, "alice")
    assert more.answer.status == 429
    other = Listening(world, "bob")
    assert other.answer.status == 200
    for each in (*mine, more, other):
        each.close()
    until("all streams are closed", lambda: not world.api.streams.open.total())


def test_a_log_is_read_in_pieces_from_where_one_was_and_from_the_end(world: ApiServer) -> None:
    job = world.ran("alice", stdout=b"0123456789" * 10)
    head, first = world.read(f"/jobs/{job}/ranks/0/log?bytes=30", who="alice")
    assert (first, head["glidepath-log-end"], head["glidepath-log-size"]) == (b"0123456789" * 3, "30", "100")
    head, rest = world.read(f"/jobs/{job}/ranks/0/log?offset=30", who="alice")
    assert (len(rest), head["glidepath-log-over"]) == (70, "true")
    head, end = world.read(f"/jobs/{job}/ranks/0/log?offset=-4", who="alice")
    assert (end, head["glidepath-log-start"]) == (b"6789", "96")
    assert head["content-disposition"] == "attachment"
    assert head["x-content-type-options"] == "nosniff"


def test_a_log_is_followed_until_its_attempt_is_over(world: ApiServer) -> None:
    job = world.ran("alice", stdout=b"\x00\xffbinary\n" * 100_000)
    _, content = world.read(f"/jobs/{job}/ranks/0/log?follow=true", who="alice")
    assert content == b"\x00\xffbinary\n" * 100_000


def test_a_client_that_never_reads_its_log_is_let_go_and_costs_no_memory(world: ApiServer) -> None:
    world.api.streams.send_s_max = 1.0
    job = world.ran("alice", stdout=b"x" * (64 << 20))
    silent = socket.create_connection(("127.0.0.1", world.port))
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking = f"GET /api/v1/jobs/{job}/ranks/0/log?follow=true HTTP/1.1\r\nHost: x\r\n"
    silent.sendall(f"{asking}Authorization: Bearer {world.held['alice']}\r\n\r\n".encode())
    until("the stream is open", lambda: world.api.streams.open.total() == 1)
    until("it is let go", lambda: not world.api.streams.open.total())
    # What was taken out of the file is what the sockets hold, and not the file.
    assert world.api.streams.poured < 16 << 20
    silent.close()
