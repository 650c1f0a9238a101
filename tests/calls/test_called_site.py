"""What the admin of a site that calls can count on: no open port, a downtime of their own, a way by files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from calls.calling import Land, both_call, ended, gone, over, tray
from calls.sockets import listening, opened
from whole.running import until

CALL_S_MAX = 60
CARRY_S = 0.2

pytestmark = pytest.mark.real


def test_an_agent_that_works_listens_nowhere(land: Land) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        assert f"tcp 127.0.0.1:{ours.getsockname()[1]}" in listening(os.getpid()), "what listens is found"
    run = land.up()
    try:
        both_call(land)
        land.submit("sleep", "1", count=4)
        found: list[str] = []

        def done() -> bool:
            for agent in land.agents.values():
                found.extend(listening(agent.child.pid))
            return set(land.jobs()) == {"done"}

        until(done, lambda: f"all jobs are done: {land.jobs()}")
        assert tray(land, "east").given + tray(land, "west").given > 0
        assert found == []
        gone(land, "east", "west")
        ended(run)
    finally:
        run.close()


def test_a_downtime_that_its_admin_declares_closes_the_site_and_nothing_else(land: Land) -> None:
    run = land.up()
    try:
        both_call(land)
        said = land.run(
            "agent", "close", str(land.home / "west.toml"), "--for", "1h", "--why", "new switches"
        )
        assert said == ""
        closed = "the site is closed for a maintenance window"
        until(lambda: closed in land.run("explain", "west"), lambda: land.run("explain", "west"))
        told = land.run("explain", "west")
        assert ("new switches" in told, closed in land.run("explain", "east")) == (True, False), told
        before = tray(land, "west").given
        land.submit("sleep", "1", count=3)
        over(land)
        assert tray(land, "west").given == before, "everything went to the other site"
        land.run("agent", "open", str(land.home / "west.toml"))
        until(lambda: closed not in land.run("explain", "west"), lambda: land.run("explain", "west"))
        gone(land, "east")
        land.submit("sleep", "1", count=4)
        over(land)
        assert tray(land, "west").given > before, "it has its share again"
        gone(land, "east", "west")
        ended(run)
    finally:
        run.close()


def test_tokens_are_listed_with_their_use_and_revoked_one_by_one(land: Land) -> None:
    run = land.up()
    try:
        used = land.token("west").split(".")[2]
        spare = land.run("token", "issue", "west", "--note", "login2").strip()
        other = land.token("east").split(".")[2]
        land.agent("west")
        land.agent("east")
        until(lambda: all(tray(land, name).calls > 1 for name in ("east", "west")), "both have called")
        rows = json.loads(land.run("token", "list", "-o", "json"))["items"]
        told = {row["name"]: (row["site"], bool(row["used"]), row["revoked"], row["note"]) for row in rows}
        unused = spare.split(".")[2]
        assert told == {
            used: ("west", True, None, ""),
            unused: ("west", False, None, "login2"),
            other: ("east", True, None, ""),
        }
        assert not any(secret in json.dumps(rows) for secret in (spare.split(".")[3], spare))
        land.run("token", "revoke", unused)
        calls = tray(land, "west").calls
        until(lambda: tray(land, "west").calls > calls + 1, "the other token of the site is in force")
        land.run("token", "revoke", used)
        land.agents["west"].wait_for("the server refuses the token (HTTP 401)")
        (land.home / "west.token").write_text(spare)
        assert "no token is named `aaaaaaaa`" in land.run("token", "revoke", "aaaaaaaa", code=4)
        calls = tray(land, "east").calls
        until(lambda: tray(land, "east").calls > calls + 1, "the other site calls on")
        rows = json.loads(land.run("token", "list", "-o", "json"))["items"]
        assert {row["name"]: bool(row["revoked"]) for row in rows} == {used: True, unused: True, other: False}
        assert not any("the server answers again" in line for line in land.agents["west"].lines)
        ended(run)
    finally:
        run.close()


@contextmanager
def carrier(here: Path, there: Path) -> Iterator[None]:
    """Carries the files of both ends, each as a whole, as somebody with `rsync` would."""
    stop = threading.Event()

    def carry() -> None:
        while not stop.wait(CARRY_S):
            for name, source, target in (("report.json", here, there), ("orders.json", there, here)):
                with suppress(FileNotFoundError):
                    fresh = target / f".{name}.carried"
                    shutil.copy(source / name, fresh)
                    fresh.rename(target / name)

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(CALL_S_MAX)


def test_a_site_that_cannot_call_at_all_runs_jobs_through_files_that_somebody_carries(home: Path) -> None:
    here, there = home / "site-drop", home / "server-drop"
    for folder in (here, there):
        folder.mkdir()
    land = Land(home, "west", stale="60s", lost="70s", serve=f'[serve.drops]\nwest = "{there}"\n')
    run = land.up()
    sockets: list[str] = []
    try:
        land.token("west")
        agent = land.agent("west", way=f'drop = "{here}"')
        agent.wait_for("the answer to the last report is still to come")
        assert tray(land, "west").calls == 0, "nobody has carried anything"
        with carrier(here, there):
            land.submit("true", count=2)

            def done() -> bool:
                sockets.extend(opened(agent.child.pid))
                return set(land.jobs()) == {"done"}

            until(done, lambda: f"all jobs are done: {land.jobs()}, {agent.lines}")
            assert 1 <= tray(land, "west").given <= 2
            assert sockets == [], "it reached nobody but by files"
            gone(land, "west")
            ended(run)
    finally:
        run.close()
        land.close()


def plain_address(land: Land) -> tuple[int, list[dict[str, object]]]:
    """The demand, as the address of the original says it to everybody."""
    said = {"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 1}
    asked = Request(f"http://127.0.0.1:{land.port}/jsonrpc", json.dumps(said).encode())
    try:
        with urlopen(asked, timeout=CALL_S_MAX) as answer:
            return answer.status, json.loads(answer.read())["result"]
    except HTTPError as error:
        with error:
            return error.code, []


@pytest.mark.parametrize("switched_on", [True, False])
def test_the_plain_address_of_pyglidein_shows_the_whole_demand_where_it_is_switched_on(
    home: Path, switched_on: bool
) -> None:
    land = Land(home, "east", "west", serve="open = true" if switched_on else "")
    run = land.up()
    try:
        land.submit("true", count=3)
        land.run("job", "submit", "--count", "2", "--cpus", "2", "--mem", "3000MiB", "--", "true")
        if switched_on:
            rows = {(1, 50, 3), (2, 3000, 2)}
            until(lambda: said(land) == rows, lambda: str(plain_address(land)))
        else:
            assert (len(land.jobs()), plain_address(land)) == (5, (404, []))
        assert [tray(land, name).calls for name in ("east", "west")] == [0, 0], "it is nobody's share"
        run.signal(signal.SIGINT)
        assert run.wait_end(within_s=30) == 0, run.text
    finally:
        run.close()


def said(land: Land) -> set[tuple[object, ...]]:
    return {(row["cpus"], row["memory"], row["count"]) for row in plain_address(land)[1]}
