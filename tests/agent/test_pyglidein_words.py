"""What clients of pyglidein ask and say: same keys and units, counted once, and nothing shown as markup."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent_builders import NOW, TERMS, WEST, Served, renamed, served, spec, tray_with
from glidepath.called.backend import CalledBackend
from glidepath.called.nameless import Counted, Wanted, counted, shown
from glidepath.called.settings import CalledSettings
from glidepath.called.tray import JOINS_S_MAX, Step, Tray, listing_of, withdrawn
from glidepath.core.cycle import Done
from glidepath.core.quantity import Instant, PilotName, Resources
from glidepath.ports import Place
from glidepath.serve.jsonrpc import BODY_BYTES_MAX
from glidepath.store.site_tokens import ADDRESS

SCRIPT = "<script>alert(1)</script>"
ONE = Wanted(cpus=1, memory=1024, disk=10_000, gpus=0, os="linux")


def steps(tray: Tray) -> list[str]:
    return sorted(request.step.value for request in tray.requests)


def three() -> Tray:
    return tray_with(*(renamed(spec(), f"p{n}") for n in range(3)))


def look(tray: Tray, *, now: int = NOW) -> tuple[Tray, dict[Wanted, int]]:
    return shown(tray, Instant(now), terms=TERMS, client="c")


def say(tray: Tray, launched: int, idle: int, running: int) -> Tray:
    return counted(tray, Counted(launched, idle, running), Instant(NOW), client="c")


def test_what_is_wanted_is_shown_once_and_counts_until_it_has_started() -> None:
    tray, rows = look(three())
    assert rows == {ONE: 3}
    tray = say(tray, 2, 0, 0)
    assert steps(tray) == ["asked", "launched", "launched"], "what it did not launch waits on"
    tray, rows = look(tray)
    assert rows == {ONE: 1}
    tray = say(tray, 1, 2, 0)
    assert steps(tray) == ["launched"] * 3
    tray, rows = look(tray)
    assert rows == {}
    tray = say(tray, 0, 1, 2)
    assert steps(tray) == ["launched", "started", "started"]
    for later_s, expected in ((0, "pending"), (JOINS_S_MAX, "pending"), (JOINS_S_MAX + 1, "withdrawn")):
        states = [p.state for p in listing_of(tray, Instant(NOW + later_s), lapse_s=300).pilots]
        assert sorted(states) == ["pending", expected, expected], "then the pool knows them by other names"


def test_a_client_that_had_nothing_to_do_has_not_looked_at_its_queue() -> None:
    """Unmodified clients count their queue only where something is wanted, and say zero otherwise."""
    tray = say(look(three())[0], 3, 0, 0)
    assert steps(say(tray, 0, 0, 0)) == ["launched"] * 3


def test_what_a_silent_client_was_shown_is_not_shown_again_and_not_counted_on_for_ever() -> None:
    tray, _ = look(three())
    tray, rows = look(tray, now=NOW + 10)
    assert rows == {}
    tray, rows = look(tray, now=NOW + TERMS.lapse_s + 1)
    assert (rows, steps(tray)) == ({}, ["served"] * 3)


def test_a_client_that_launches_more_than_it_was_shown_gains_nothing() -> None:
    assert steps(say(look(three())[0], 50, 0, 0)) == ["launched"] * 3


def test_what_such_a_client_has_is_let_go_and_leaves_by_itself() -> None:
    tray = say(look(three())[0], 3, 0, 0)
    tray, outcome = withdrawn(tray, PilotName("p0"), "")
    assert isinstance(outcome, Done)
    assert steps(tray) == ["launched", "launched", "served"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (Resources(1000, 1024, 0), (1, 1024, 10_000, 0)),
        (Resources(1500, 0, 100, 2), (2, 2000, 103, 2)),
        (Resources(100, 3000, 20_000, 1), (1, 3000, 20_480, 1)),
    ],
)
def test_sizes_are_in_the_units_of_the_original(size: Resources, expected: tuple[int, ...]) -> None:
    _, rows = look(tray_with(replace(spec(), size=size)))
    (row,) = rows
    assert (row.cpus, row.memory, row.disk, row.gpus) == expected


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", "west", "east", calls_per_minute=10_000, open=False) as made:
        yield made


def ask(world: Served, path: str, body: bytes | None = None) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=30)
    try:
        connection.request("POST" if body is not None else "GET", path, body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def rpc(world: Served, address: str, method: str, params: Any = None, **more: Any) -> tuple[int, Any]:
    said = {
        "jsonrpc": "2.0",
        "method": method,
        "params": params if params is not None else {},
        "id": 7,
        **more,
    }
    code, _, text = ask(world, f"{address}/jsonrpc", json.dumps(said).encode())
    return code, json.loads(text)


def backend(world: Served) -> CalledBackend:
    return CalledBackend(WEST, CalledSettings(), Place(world.home, world.url_of_store))


def wanted(world: Served, count: int) -> None:
    site, now = backend(world), world.desk.clock().now()
    for n in range(count):
        site.submit(renamed(spec(asked_at=now), f"p{n}"))
    site.close()


NEWER = {"uuid": "ann@login", "timestamp": 1.5, "metrics": {"glideins_launched": {"Cluster": 2, "gpu": 1}}}
OLDER = {"uuid": "ann@login", "glideins_launched": 3, "glideins_idle": {"Cluster": 0}, "unknown": "x"}


@pytest.mark.parametrize("payload", [NEWER, OLDER], ids=["newer", "older"])
def test_a_client_at_its_own_address_sees_its_share_and_tells_what_came_of_it(
    world: Served, payload: dict[str, Any]
) -> None:
    wanted(world, 3)
    address = f"/sites/{world.token('west', use=ADDRESS)}"
    row = {"cpus": 1, "memory": 1024, "disk": 10000, "gpus": 0, "os": "linux", "count": 3}
    assert rpc(world, address, "get_state") == (200, {"jsonrpc": "2.0", "result": [row], "id": 7})
    assert rpc(world, address, "monitoring", payload) == (200, {"jsonrpc": "2.0", "result": "", "id": 7})
    assert [r.step for r in world.desk.post.tray(WEST).requests] == [Step.LAUNCHED] * 3
    assert rpc(world, address, "get_state")[1]["result"] == []


def test_other_sites_see_nothing_of_it_and_no_address_is_told_from_another(world: Served) -> None:
    wanted(world, 2)
    other = f"/sites/{world.token('east', use=ADDRESS)}"
    assert rpc(world, other, "get_state")[1]["result"] == []
    agents = world.token("west").replace("gps.", "").replace(".", "-")
    for address in ("", "/sites/west", "/sites/west-x", f"/sites/{agents}", "/sites/x-" + "a" * 61):
        assert ask(world, f"{address}/jsonrpc", b"{}")[0] == 404
        assert ask(world, address or "/")[0] == 404


def call(**more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 7, **more}).encode()


def monitoring(**more: Any) -> bytes:
    return call(method="monitoring", params={"uuid": "u", **more})


BAD: dict[str, tuple[bytes, int]] = {
    "not JSON": (b"{", -32700),
    "nothing": (b"", -32700),
    "deep": (b"[" * 30_000, -32700),
    "a batch": (b"[" + call() + b"," + call() + b"]", -32600),
    "an empty batch": (b"[]", -32600),
    "text": (b'"get_state"', -32600),
    "version 1": (call(jsonrpc="1.0"), -32600),
    "no version": (b'{"method":"get_state","id":7}', -32600),
    "version true": (call(jsonrpc=True), -32600),
    "no method": (b'{"jsonrpc":"2.0","id":7}', -32600),
    "a private method": (call(method="_state"), -32600),
    "a number as method": (call(method=5), -32600),
    "an object as id": (call(id={"a": 1}), -32600),
    "an unknown method": (call(method="shutdown"), -32601),
    "a script as method": (call(method=SCRIPT), -32601),
    "a list of params": (call(params=[1]), -32602),
    "no uuid": (call(method="monitoring", params={}), -32602),
    "a number as uuid": (call(method="monitoring", params={"uuid": 5}), -32602),
    "a long uuid": (call(method="monitoring", params={"uuid": "u" * 201}), -32602),
    "a negative count": (monitoring(glideins_launched=-1), -32602),
    "a negative count of a partition": (monitoring(glideins_idle={"a": 1, "b": -2}), -32602),
    "a count as text": (monitoring(glideins_idle="many"), -32602),
    "a count without end": (
        b'{"jsonrpc":"2.0","method":"monitoring","id":7,"params":{"uuid":"u","glideins_idle":Infinity}}',
        -32602,
    ),
    "too many partitions": (monitoring(glideins_idle={f"p{n}": 1 for n in range(51)}), -32602),
    "metrics that are a list": (monitoring(timestamp=1, metrics=[1]), -32602),
    "a timestamp as text": (monitoring(timestamp="now", metrics={}), -32602),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_call_that_is_wrong_gets_its_code_and_changes_nothing(world: Served, name: str) -> None:
    wanted(world, 1)
    address = f"/sites/{world.token('west', use=ADDRESS)}"
    before = world.desk.post.tray(WEST)
    body, expected = BAD[name]
    code, _, text = ask(world, f"{address}/jsonrpc", body)
    assert (code, json.loads(text)["error"]["code"]) == (400, expected)
    assert SCRIPT not in text
    assert world.desk.post.tray(WEST) == before
    assert world.desk.post.clients("west") == {}


def test_a_body_of_ten_megabytes_is_not_read(world: Served) -> None:
    address = f"/sites/{world.token('west', use=ADDRESS)}"
    try:
        code = ask(world, f"{address}/jsonrpc", b" " * (10 << 20))[0]
    except (BrokenPipeError, ConnectionResetError):
        code = 413  # It did not wait for the rest.
    assert code == 413
    assert ask(world, f"{address}/jsonrpc", b" " * (BODY_BYTES_MAX + 1))[0] == 413


def test_a_report_that_is_sent_again_changes_nothing_whatever_the_clock_of_the_client(world: Served) -> None:
    wanted(world, 3)
    address = f"/sites/{world.token('west', use=ADDRESS)}"
    rpc(world, address, "get_state")
    hour_off = {**NEWER, "timestamp": 99_999_999_999}
    assert rpc(world, address, "monitoring", hour_off)[0] == 200
    before = world.desk.post.tray(WEST)
    code, said = rpc(world, address, "monitoring", hour_off)
    assert (code, said["error"]["code"], said["id"]) == (400, -32602, 7)
    assert world.desk.post.tray(WEST) == before
    assert rpc(world, address, "monitoring", {**NEWER, "timestamp": 5})[0] == 200, "its clock may go back"
    other = {**hour_off, "metrics": {"glideins_idle": {"Cluster": 1}}}
    assert rpc(world, address, "monitoring", other)[0] == 200, "it may say two things in one second"
    assert rpc(world, address, "monitoring", other, id=9)[0] == 200, "or the same in two rounds"


def test_the_page_shows_what_strangers_say_as_text_alone(world: Served) -> None:
    wanted(world, 2)
    address = f"/sites/{world.token('west', use=ADDRESS)}"
    hostile = {"uuid": f"{SCRIPT}\u202e", "timestamp": 1, "metrics": {"glideins_idle": {f"{SCRIPT}": 4}}}
    assert rpc(world, address, "monitoring", hostile)[0] == 200
    code, headers, text = ask(world, address)
    assert (code, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert SCRIPT not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text
    assert '<td class="num">2</td>' in text
    assert "glideins_idle: 4" in text
    assert world.desk.post.tray(WEST).requests[0].step is Step.ASKED, "to look is not to be shown a share"


def test_the_open_address_shows_the_whole_demand_to_all_where_it_is_switched_on(tmp_path: Path) -> None:
    with served(tmp_path / "home", "west", open=True) as world:
        code, said = rpc(world, "", "get_state")
        assert (code, said["result"]) == (200, [])
        assert rpc(world, "", "monitoring", NEWER)[0] == 200
        code, _, text = ask(world, "/")
        assert code == 200
        assert "ann@login" in text
        assert world.desk.post.tray(WEST).calls == 0
