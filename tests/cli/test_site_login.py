"""`glidepath site login` and `logout`, on a site of Slurm behind a stand-in for ssh."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ssh_site import LONG_S, at_a_terminal, configure, environ_of, short_folder
from tests.ssh_stand_in import StandIn, stand_in

OPEN = {"name": "west", "host": "login.example", "login": "key", "open": True, "keep_s": 28800, "why": ""}


@dataclass
class World:
    """A configuration with such a site, and the stand-in for ssh on the path."""

    folder: Path
    ssh: StandIn

    @property
    def environ(self) -> dict[str, str]:
        return environ_of(self.folder, self.ssh.environ)

    def configure(self, login: str = "key") -> None:
        configure(self.folder, host="login.example", login=login)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "glidepath", "site", *words],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
            start_new_session=True,
        )


@pytest.fixture
def world() -> Iterator[World]:
    with short_folder() as folder:
        found = World(folder, stand_in(folder / "bin"))
        found.configure()
        yield found
        found.ssh.fault()
        found.run("logout", "west")


def test_a_login_is_told_step_by_step_and_leaves_the_connection_open(world: World) -> None:
    done = world.run("login", "west", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"] == [OPEN]
    assert done.stderr.splitlines() == [
        "site `west`: connecting to `login.example` with a key; there is no terminal to ask in",
        "site `west`: logged in; a command is tried",
        "site `west`: it ran; the connection stays open for 8h after its last use",
    ]
    assert world.run("login", "west", "--check").returncode == 0
    again = world.run("login", "west")
    assert "is open already" in again.stderr
    assert world.ssh.asked("-M") == 1


def test_a_check_changes_nothing_and_says_what_to_do(world: World) -> None:
    world.configure(login="person")
    done = world.run("login", "west", "--check", "-o", "json")
    assert done.returncode == 1
    (item,) = json.loads(done.stdout)["items"]
    assert item == {**OPEN, "login": "person", "open": False, "why": item["why"]}
    assert "run `glidepath site login west`" in item["why"]
    assert world.ssh.asked() == 0


def test_a_logout_closes_it_and_a_second_one_is_no_failure(world: World) -> None:
    world.run("login", "west")
    told = world.run("logout", "west", "--dry-run")
    assert (told.returncode, "nothing was changed" in told.stderr) == (0, True)
    assert world.run("login", "west", "--check").returncode == 0
    for _ in range(2):
        done = world.run("logout", "west", "-o", "json")
        assert (done.returncode, json.loads(done.stdout)["items"][0]["open"]) == (0, False)


def test_in_a_terminal_ssh_itself_may_ask(world: World) -> None:
    world.configure(login="person")
    code, seen = at_a_terminal(["login", "west"], world.environ)
    assert code == 0, seen
    assert "ssh asks here for what it needs" in seen
    opening = (world.ssh.folder / "log").read_text(encoding="utf-8").splitlines()[0]
    assert "StrictHostKeyChecking=ask" in opening
    assert "BatchMode" not in opening


def test_without_a_terminal_nobody_can_be_asked(world: World) -> None:
    world.configure(login="person")
    done = world.run("login", "west")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == "glidepath: site `west`: `login.example` asks a person, and this is no terminal; log in from one\n"
    )


def test_a_login_that_fails_says_why_and_leaves_nothing_open(world: World) -> None:
    world.ssh.fault("open me@login.example: Permission denied (publickey).\n")
    for _ in range(2):
        # A person who asks for it is not held by the failures before.
        done = world.run("login", "west")
        assert done.returncode == 1
        assert "refused the login: me@login.example: Permission denied (publickey)" in done.stderr
    assert world.ssh.asked("-M") == 2
    assert world.run("login", "west", "--check").returncode == 1


def test_a_connection_that_is_open_and_dead_is_replaced(world: World) -> None:
    world.run("login", "west")
    world.ssh.fault("once dead")
    done = world.run("login", "west")
    assert done.returncode == 0, done.stderr
    assert world.ssh.asked("-M") == 2


def test_where_nothing_is_to_be_opened_that_is_no_failure(world: World) -> None:
    for words in (["login", "here"], ["login", "here", "--check"], ["logout", "here"]):
        done = world.run(*words)
        assert (done.returncode, done.stderr) == (0, "site `here`: nothing is to be opened to get there\n")


def test_a_site_that_is_not_there_is_named(world: World) -> None:
    done = world.run("login", "wets")
    assert done.returncode == 4
    assert "no site is named `wets`; did you mean `west`?" in done.stderr


@contextmanager
def up(world: World) -> Iterator[None]:
    """A glidepath that runs meanwhile."""
    command = [sys.executable, "-m", "glidepath", "up", "--plain"]
    with (world.folder / "up.log").open("wb") as log:
        running = subprocess.Popen(command, env=world.environ, stdout=log, stderr=log)
        try:
            yield
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(LONG_S)


def why_unseen(world: World) -> str:
    """What `glidepath site status` says of the site, once a cycle has looked at it."""
    deadline, why = time.monotonic() + LONG_S, ""
    while not why and time.monotonic() < deadline:
        sources = json.loads(world.run("status", "-o", "json").stdout or "{}").get("sources", [])
        why = " ".join(source["why"] for source in sources if source["name"] == "site west")
    return why


def test_a_site_that_waits_for_a_person_is_shown_with_what_to_do(world: World) -> None:
    world.configure(login="person")
    with up(world):
        assert why_unseen(world) == (
            "no connection to `login.example` is open, and only a person may open it; "
            "run `glidepath site login west`"
        )
    assert world.ssh.asked() == 0


def test_what_has_ended_leaves_no_connection_that_it_opened(world: World) -> None:
    with up(world):
        # There is no Slurm behind the stand-in.
        assert "is not on `login.example`" in why_unseen(world)
    assert world.ssh.asked("-M") == 1
    assert world.run("login", "west", "--check").returncode == 1
    done = subprocess.run(
        [sys.executable, "-m", "glidepath", "plan"],
        env=world.environ,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert world.ssh.asked("-M") == 2
    assert world.run("login", "west", "--check").returncode == 1
