"""Commands by the real ssh at a real login node: keys, a second factor, noise, and connections that break."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bed.parts.batch_root import SECOND_FACTOR
from bed.parts.sshd import Login
from tests.bed_pool import nothing_is_left
from tests.bed_site import shared_site
from tests.ssh_site import at_a_terminal, configure, environ_of, short_folder

from glidepath.remote.runner import OUT_BYTES_MAX, NotSent, Ran
from glidepath.remote.settings import SshSettings
from glidepath.remote.ssh import SILENT_S, SshRunner

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("nothing_is_left")]
__all__ = ["nothing_is_left"]

LONG_S = 120.0
WAIT_S_MAX = 120.0
# The usual of a server.
MAX_SESSIONS = 10


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Node:
    """The login node, and the runners of one test that reach it from a home of their own."""

    def __init__(self, login: Login, folder: Path) -> None:
        self.login, self.folder, self.now = login, folder, time.time()
        self.config = folder / "ssh_config"
        self.made: list[SshRunner] = []
        self.known(login.known_hosts.read_text(encoding="utf-8"))
        self._logins = self.count("Accepted publickey")

    def known(self, text: str) -> None:
        """What ssh here takes for the key of the host."""
        file = self.folder / "known_hosts"
        file.write_text(text, encoding="utf-8")
        self.config.write_text(
            # What a careless person may have: it must change nothing.
            "StrictHostKeyChecking no\nRequestTTY yes\nRemoteCommand id\nControlMaster auto\n"
            f"LogLevel DEBUG\nUserKnownHostsFile {file}\nGlobalKnownHostsFile /dev/null\n",
            encoding="utf-8",
        )

    def settings(self, user: str = "pilot", **more: Any) -> dict[str, Any]:
        host, port = self.login.address.split(":")
        own = {"host": host, "port": int(port), "user": user, "identity": str(self.login.key(user))}
        return {**own, "config": str(self.config), **more}

    def runner(self, user: str = "pilot", *, environ: dict[str, str] | None = None, **more: Any) -> SshRunner:
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **(environ or {})}
        own = SshSettings(**self.settings(user, **more))
        found = SshRunner(
            own, environ=surroundings, folder=self.folder / "ssh", site="west", wall=lambda: self.now
        )
        self.made.append(found)
        return found

    def count(self, words: str) -> int:
        return self.login.log("sshd").count(words)

    def logins(self) -> int:
        return self.count("Accepted publickey") - self._logins

    def master(self) -> int:
        """The one process here that keeps a connection of this test."""
        (found,) = [
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit()
            and _words(path)[:1] == ["ssh"]
            and str(self.config) in " ".join(_words(path))
        ]
        return found

    def close(self) -> None:
        for runner in self.made:
            if runner.connection().is_open:
                runner.logout()


def _words(process: Path) -> list[str]:
    try:
        words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []
    return [Path(words[0]).name, *words[1:]]


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    login = shared_site(request.config, Login)
    if not login.processes("sshd"):
        login.restart("sshd")
    with short_folder() as folder:
        found = Node(login, folder)
        yield found
        found.close()


@pytest.fixture
def asks(tmp_path: Path) -> dict[str, str]:
    """A program that answers in the place of a person."""
    program = tmp_path / "answer"
    program.write_text(f"#!/bin/sh\necho {SECOND_FACTOR}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"SSH_ASKPASS": str(program), "SSH_ASKPASS_REQUIRE": "force"}


@pytest.mark.parametrize("user", ["pilot", "noisy"])
def test_commands_end_as_they_say_also_where_the_shell_speaks_before_them(node: Node, user: str) -> None:
    runner = node.runner(user)
    table: list[tuple[list[str], bytes, Ran]] = [
        (["id", "-un"], b"", Ran(0, f"{user}\n")),
        (["sh", "-c", "echo out; echo err >&2; exit 255"], b"", Ran(255, "out\n", "err\n")),
        (["cat"], b"", Ran(0)),
        (["cat"], "köln\0\\n'\n".encode(), Ran(0, "köln\0\\n'\n")),
        (["true"], b"x" * (1 << 18), Ran(0)),
        (
            ["printf", "%s|", "a b", "$HOME", "`id`", "", "*", "-n", "'", "\n"],
            b"",
            Ran(0, "a b|$HOME|`id`||*|-n|'|\n|"),
        ),
    ]
    assert [runner.run(argv, given=given, limit_s=LONG_S) for argv, given, _ in table] == [
        ran for _, _, ran in table
    ]
    assert node.logins() == 1


def test_a_hundred_commands_from_several_threads_take_one_login(node: Node) -> None:
    runner = node.runner()
    with ThreadPoolExecutor(8) as threads:
        rans = list(threads.map(lambda n: runner.run(["echo", str(n)], limit_s=LONG_S), range(100)))
    assert rans == [Ran(0, f"{n}\n") for n in range(100)]
    assert node.logins() == 1


def test_more_commands_than_the_server_has_sessions_wait_for_each_other(node: Node) -> None:
    count = MAX_SESSIONS * 2
    runner = node.runner(sessions=count)
    with ThreadPoolExecutor(count) as threads:
        rans = list(
            threads.map(
                lambda n: runner.run(["sh", "-c", f"sleep 0.5; echo {n}"], limit_s=LONG_S), range(count)
            )
        )
    assert rans == [Ran(0, f"{n}\n") for n in range(count)]
    assert node.logins() == 1


def test_forty_megabytes_are_cut_and_the_end_is_known(node: Node) -> None:
    ran = node.runner().run(["head", "-c", str(40 << 20), "/dev/zero"], limit_s=LONG_S)
    assert (ran.code, ran.cut) == (0, True)
    assert OUT_BYTES_MAX - 100 < len(ran.out) <= OUT_BYTES_MAX


def test_a_command_at_its_limit_is_ended_there_too_and_the_connection_stays(node: Node) -> None:
    runner = node.runner()
    runner.run(["true"], limit_s=LONG_S)
    assert runner.run(["sh", "-c", "echo begun; exec sleep 98765"], limit_s=4.0) == Ran(None, "begun\n")
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    until(lambda: node.login.run("pgrep", "-f", "sleep 98765").code == 1, "the command goes on at the site")
    assert node.logins() == 1


# Connections that break.


def test_a_connection_that_breaks_during_a_command_says_that_it_may_have_happened(node: Node) -> None:
    runner = node.runner()
    began = node.login.home("pilot") / "began"
    began.unlink(missing_ok=True)
    found: list[Ran] = []
    words = ["sh", "-c", "echo some; touch began; exec sleep 600"]
    thread = threading.Thread(target=lambda: found.append(runner.run(words, limit_s=LONG_S)))
    thread.start()
    until(began.exists, "the command did not begin")
    node.login.hang_up()
    thread.join(WAIT_S_MAX)
    assert [(ran.code, ran.out) for ran in found] == [(None, "some\n")]
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert node.logins() == 2
    node.login.run("pkill", "-f", "sleep 600")


def test_a_connection_that_broke_while_nothing_was_asked_is_replaced(node: Node) -> None:
    runner = node.runner()
    for _ in range(3):
        assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
        node.login.hang_up()
    assert node.logins() == 3


def test_the_process_that_keeps_it_may_be_killed_at_any_time(node: Node) -> None:
    runner = node.runner()
    for _ in range(3):
        assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
        os.kill(node.master(), signal.SIGKILL)
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert node.logins() == 4


def test_a_network_that_is_gone_holds_nobody_and_the_connection_is_replaced(node: Node) -> None:
    runner = node.runner()
    runner.run(["true"], limit_s=LONG_S)
    # What serves the connection says nothing any more, as behind a firewall that forgot it.
    words = ["pkill", "-STOP", "-f", "^sshd: pilot"]
    assert node.login.run(*words).code == 0
    try:
        with pytest.raises(NotSent, match=r"no answer within \d s; nothing was sent"):
            runner.run(["true"], limit_s=SILENT_S + 1)
        assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
        assert node.logins() == 2
    finally:
        node.login.hang_up()


def test_a_server_that_is_down_is_tried_again_when_its_time_has_come(node: Node) -> None:
    node.login.stop("sshd")
    try:
        runner = node.runner()
        for _ in range(2):
            with pytest.raises(NotSent, match=r"no connection to `127.0.0.1`: .*Connection refused"):
                runner.run(["true"], limit_s=LONG_S)
    finally:
        node.login.restart("sshd")
    with pytest.raises(NotSent, match="not tried again for 10s"):
        runner.run(["true"], limit_s=LONG_S)
    node.now += 10
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)


# Whom to let in, and whom to believe.


def test_an_unknown_host_is_not_believed_whatever_ssh_is_configured_for(node: Node) -> None:
    node.known("")
    with pytest.raises(
        NotSent, match=r"not known here yet, so nobody logged in; .*`glidepath site login west`"
    ):
        node.runner().run(["true"], limit_s=LONG_S)
    assert (node.logins(), (node.folder / "known_hosts").read_text(encoding="utf-8")) == (0, "")


def test_a_host_with_another_key_than_the_known_one_is_not_believed(node: Node) -> None:
    name, kind, _ = node.login.known_hosts.read_text(encoding="utf-8").split()
    other = node.login.key("ann").with_suffix(".pub").read_text(encoding="utf-8").split()[1]
    node.known(f"{name} {kind} {other}\n")
    with pytest.raises(NotSent) as caught:
        node.runner().run(["true"], limit_s=LONG_S)
    file = node.folder / "known_hosts"
    assert f"forget the old one with `ssh-keygen -f {file} -R '{name}'`" in str(caught.value)
    assert node.logins() == 0


def test_a_refused_key_is_offered_once_and_not_again_until_its_time_has_come(node: Node) -> None:
    closed = "Connection closed by authenticating user pilot"
    before = node.count(closed)
    for _ in range(5):
        with pytest.raises(NotSent, match=r"refused the login: .*Permission denied"):
            node.runner(identity=str(node.login.key("ann"))).run(["true"], limit_s=LONG_S)
    until(lambda: node.count(closed) == before + 1, "the server saw no attempt")
    node.now += 150
    with pytest.raises(NotSent, match="refused the login"):
        node.runner(identity=str(node.login.key("ann"))).run(["true"], limit_s=LONG_S)
    until(lambda: node.count(closed) == before + 2, "no second attempt, or too many")


def test_a_second_factor_is_asked_for_once_and_never_by_glidepath_itself(
    node: Node, asks: dict[str, str]
) -> None:
    glidepath = node.runner("factor", login="person")
    with pytest.raises(NotSent, match="only a person may open it; run `glidepath site login west`"):
        glidepath.run(["true"], limit_s=LONG_S)
    steps: list[str] = []
    person = node.runner("factor", login="person", environ=asks)
    assert person.login(steps.append).is_open
    person.close()
    assert [step.split(";")[0] for step in steps] == [
        "connecting to `127.0.0.1`",
        "logged in",
        "it ran",
    ]
    for _ in range(10):
        assert glidepath.run(["id", "-un"], limit_s=LONG_S) == Ran(0, "factor\n")
    glidepath.close()
    assert glidepath.connection().is_open
    node.login.hang_up()
    until(lambda: not glidepath.connection().is_open, "the connection is not known to be gone")
    with pytest.raises(NotSent, match="glidepath site login west"):
        glidepath.run(["true"], limit_s=LONG_S)


def test_without_its_second_factor_glidepath_is_refused_and_says_what_the_site_needs(node: Node) -> None:
    with pytest.raises(NotSent, match=r'a password or a second factor needs `login = "person"`'):
        node.runner("factor").run(["true"], limit_s=LONG_S)


def test_a_person_types_the_second_factor_once_in_the_terminal(node: Node) -> None:
    configure(node.folder, **node.settings("factor", login="person"))
    environ = environ_of(node.folder, {"PATH": os.environ["PATH"]})
    try:
        code, seen = at_a_terminal(
            ["login", "west"], environ, asked="assword:", answers=["000000", SECOND_FACTOR]
        )
        assert code == 0, seen
        assert SECOND_FACTOR not in seen
        assert "it ran; the connection stays open for 8h" in seen
        # Another program of the same home needs nobody any more.
        code, seen = at_a_terminal(["login", "west", "--check"], environ)
        assert code == 0, seen
    finally:
        code, seen = at_a_terminal(["logout", "west"], environ)
        assert code == 0, seen
    code, seen = at_a_terminal(["login", "west", "--check"], environ)
    assert (code, "run `glidepath site login west`" in seen.replace("\r\n", "")) == (1, True), seen
