"""Commands by ssh, with a stand-in for the program where the real one does not fail on demand."""

from __future__ import annotations

import ast
import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.ssh_site import short_folder
from tests.ssh_stand_in import StandIn, stand_in

from glidepath.remote import den
from glidepath.remote.local import LocalRunner
from glidepath.remote.open import runner_of
from glidepath.remote.runner import OUT_BYTES_MAX, NotSent, Ran
from glidepath.remote.settings import SshSettings
from glidepath.remote.ssh import SILENT_S, SshRunner

LONG_S = 60.0


class Host:
    """A host behind the stand-in, and the runners of tests that reach it."""

    def __init__(self, folder: Path) -> None:
        self.ssh: StandIn = stand_in(folder / "bin")
        self.home = folder / "home"
        self.now = 1_000_000.0
        self.made: list[SshRunner] = []

    def runner(self, **settings: Any) -> SshRunner:
        own = SshSettings(**{"host": "login.example", **settings})
        found = SshRunner(own, environ=self.ssh.environ, folder=self.home, site="west", wall=lambda: self.now)
        self.made.append(found)
        return found


@pytest.fixture
def host() -> Iterator[Host]:
    with short_folder() as folder:
        found = Host(folder)
        yield found
        found.ssh.fault()
        for runner in found.made:
            if runner.connection().is_open:
                runner.logout()


def test_without_a_host_the_commands_run_on_this_machine(tmp_path: Path) -> None:
    runner = runner_of(SshSettings(), environ=os.environ, folder=tmp_path)
    assert isinstance(runner, LocalRunner)
    assert isinstance(
        runner_of(SshSettings(host="west"), environ=os.environ, folder=tmp_path, site="w"), SshRunner
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["", "noise"])
@pytest.mark.parametrize(
    ("argv", "given", "expected"),
    [
        (["true"], b"", Ran(0)),
        (["sh", "-c", "exit 7"], b"", Ran(7)),
        (["sh", "-c", "echo out; echo err >&2; exit 255"], b"", Ran(255, "out\n", "err\n")),
        (["printf", "no end of line"], b"", Ran(0, "no end of line")),
        (["printf", "\\n\\n"], b"", Ran(0, "\n\n")),
        (["cat"], b"", Ran(0)),
        (["cat"], "köln\n".encode(), Ran(0, "köln\n")),
        (["cat"], b"a\\nb\\c'\"$(id)`id`%s\0z\r\n\n", Ran(0, "a\\nb\\c'\"$(id)`id`%s\0z\r\n\n")),
        (["true"], b"x" * (1 << 18), Ran(0)),
        (
            ["printf", "%s|", "a b", "$HOME", "`id`", "", "*", "-n", "'", "a\nb\n", "!!", "\\", "WORDS"],
            b"",
            Ran(0, "a b|$HOME|`id`||*|-n|'|a\nb\n|!!|\\|WORDS|"),
        ),
    ],
)
def test_a_command_ends_as_it_does_here_whatever_is_said_around_it(
    host: Host, fault: str, argv: list[str], given: bytes, expected: Ran
) -> None:
    host.ssh.fault(fault)
    assert host.runner().run(argv, given=given, limit_s=LONG_S) == expected


def test_one_that_is_killed_there_has_the_code_that_a_shell_gives_it(host: Host) -> None:
    assert host.runner().run(["sh", "-c", "kill -9 $$"], limit_s=LONG_S).code == 128 + 9


def test_every_byte_arrives(host: Host) -> None:
    ran = host.runner().run(["od", "-An", "-v", "-tx1"], given=bytes(range(256)) * 2, limit_s=LONG_S)
    assert bytes.fromhex(ran.out) == bytes(range(256)) * 2


def test_a_command_sees_only_what_it_needs_and_speaks_no_language(host: Host) -> None:
    runner = SshRunner(
        SshSettings(host="h", path="/opt/slurm/bin:/opt/b"),
        environ={**host.ssh.environ, "SBATCH_PARTITION": "other", "LANG": "de_DE.UTF-8", "TOKEN": "x"},
        folder=host.home,
    )
    host.made.append(runner)
    told = dict(line.split("=", 1) for line in runner.run(["env"], limit_s=LONG_S).out.splitlines())
    assert told["LC_ALL"] == "C"
    assert told["PATH"].startswith("/opt/slurm/bin:/opt/b:")
    assert {"SBATCH_PARTITION", "LANG", "TOKEN"} & set(told) == set()


def test_what_is_not_there_was_not_sent(host: Host) -> None:
    with pytest.raises(NotSent, match=r"`sbatch-is-not-here` is not on `login.example`.*set `path`"):
        host.runner().run(["sbatch-is-not-here"], limit_s=LONG_S)


@pytest.mark.parametrize("argv", [[], ["a\0b"], ["true", "a\0b"]])
def test_words_that_no_command_can_have_are_refused(host: Host, argv: list[str]) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        host.runner().run(argv, limit_s=LONG_S)


def test_without_ssh_on_this_machine_nothing_is_sent(host: Host, tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path), "HOME": "/nowhere"}
    with pytest.raises(NotSent, match="install the client of OpenSSH"):
        SshRunner(SshSettings(host="h"), environ=empty, folder=host.home).run(["true"], limit_s=LONG_S)


def test_many_commands_from_many_threads_share_one_login(host: Host) -> None:
    runner = host.runner(sessions=4)
    with ThreadPoolExecutor(8) as threads:
        rans = list(threads.map(lambda n: runner.run(["printf", "%s", str(n)], limit_s=LONG_S), range(100)))
    assert rans == [Ran(0, str(n)) for n in range(100)]
    assert (host.ssh.asked("-M"), host.ssh.asked()) == (1, 101)


def test_two_runners_of_one_home_share_the_connection_and_those_of_another_do_not(host: Host) -> None:
    for _ in range(2):
        assert host.runner().run(["true"], limit_s=LONG_S) == Ran(0)
    assert host.ssh.asked("-M") == 1
    host.home = host.home.with_name("other")
    assert host.runner().run(["true"], limit_s=LONG_S) == Ran(0)
    assert host.ssh.asked("-M") == 2


def test_no_more_sessions_than_allowed_are_under_way(host: Host, tmp_path: Path) -> None:
    runner, began, done = host.runner(sessions=1), tmp_path / "began", tmp_path / "done"
    words = ["sh", "-c", f"touch {began}; while [ ! -e {done} ]; do sleep 0.1; done"]
    held = threading.Thread(target=runner.run, args=(words,), kwargs={"limit_s": LONG_S})
    held.start()
    try:
        deadline = time.monotonic() + LONG_S
        while not began.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(NotSent, match=r"all 1 sessions at `login.example` were busy for 0.2 s"):
            runner.run(["true"], limit_s=0.2)
    finally:
        done.touch()
        held.join()


# What went wrong is certain, so that the caller may repeat it or must not.


def test_where_ssh_ends_before_the_greeting_nothing_was_sent(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault("255 mux_client_request_session: session request failed: Session open refused by peer\n")
    with pytest.raises(NotSent, match="no session left on this connection; make `sessions` smaller"):
        runner.run(["true"], limit_s=3.0)
    assert host.ssh.asked("-M") == 1


def test_a_session_refused_for_a_moment_is_asked_for_again(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault("once Session open refused by peer\n")
    assert runner.run(["echo", "1"], limit_s=LONG_S) == Ran(0, "1\n")
    assert host.ssh.asked("-M") == 1


def test_a_connection_that_died_is_noticed_and_replaced(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault("once dead")
    assert runner.run(["echo", "1"], limit_s=LONG_S) == Ran(0, "1\n")
    assert host.ssh.asked("-M") == 2


def test_a_socket_that_was_left_by_one_that_was_killed_is_replaced(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    (pid,) = host.home.glob("*.pid")
    os.kill(int(pid.read_text(encoding="utf-8")), 9)
    pid.unlink()
    assert runner.run(["echo", "1"], limit_s=LONG_S) == Ran(0, "1\n")
    assert host.ssh.asked("-M") == 2


def test_no_answer_in_time_before_the_greeting_means_that_nothing_was_sent(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault("hang")
    with pytest.raises(NotSent, match=r"no answer within \d s; nothing was sent"):
        runner.run(["true"], limit_s=SILENT_S + 1)
    host.ssh.fault()
    # The connection was half open for all that could be known; another is made.
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert host.ssh.asked("-M") == 2


def test_a_short_wait_says_nothing_of_the_connection(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault("hang")
    with pytest.raises(NotSent, match=r"no answer within \d s; nothing was sent"):
        runner.run(["true"], limit_s=0.5)
    host.ssh.fault()
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert host.ssh.asked("-M") == 1


def test_a_shell_that_ends_by_itself_is_told_with_what_it_said(host: Host) -> None:
    host.ssh.fault("shell This account is currently not available.")
    with pytest.raises(NotSent, match=r"said `This account is currently not available\.`"):
        host.runner().run(["true"], limit_s=LONG_S)


@pytest.mark.parametrize("count", [45, 60, 68])
def test_an_answer_that_is_cut_says_that_something_may_have_happened(host: Host, count: int) -> None:
    host.ssh.fault(f"cut {count}")
    ran = host.runner().run(["sh", "-c", "echo 1234567890"], limit_s=LONG_S)
    assert ran.code is None
    assert ran.out.startswith("1234567890\n"[: count - len("glidepath-0123456789abcdef-begin\n")])


def test_empty_output_with_a_good_end_is_an_end(host: Host) -> None:
    assert host.runner().run(["sh", "-c", "exit 0"], limit_s=LONG_S) == Ran(0, "", "")


@pytest.mark.parametrize("count", [0, 10])
def test_an_answer_that_is_cut_within_the_greeting_says_that_nothing_was_sent(host: Host, count: int) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    host.ssh.fault(f"cut {count}")
    with pytest.raises(NotSent, match=r"no session at `login\.example`"):
        runner.run(["true"], limit_s=2.0)


def test_at_its_limit_a_command_is_left_and_the_connection_stays(host: Host) -> None:
    runner = host.runner()
    runner.run(["true"], limit_s=LONG_S)
    assert runner.run(["sh", "-c", "echo begun; sleep 1000"], limit_s=4.0) == Ran(None, "begun\n")
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert host.ssh.asked("-M") == 1


def test_what_is_printed_beyond_the_bound_is_dropped_and_the_end_is_known(host: Host) -> None:
    ran = host.runner().run(["head", "-c", str(40 << 20), "/dev/zero"], limit_s=LONG_S)
    assert (ran.code, ran.cut) == (0, True)
    assert OUT_BYTES_MAX - 100 < len(ran.out) <= OUT_BYTES_MAX


# Logging in.

DENIED = "pilot@login.example: Permission denied (publickey,keyboard-interactive).\r\n"


def test_after_a_refused_login_the_next_waits_longer_each_time_also_in_another_program(host: Host) -> None:
    host.ssh.fault(f"open {DENIED}")
    waits = []
    for _ in range(8):
        with pytest.raises(NotSent, match=r"refused the login: .*Permission denied"):
            host.runner().run(["true"], limit_s=LONG_S)
        before = host.ssh.asked("-M")
        waited_s = 0
        while host.ssh.asked("-M") == before and waited_s <= 4000:
            with pytest.raises(NotSent, match="glidepath site login west"):
                host.runner().run(["true"], limit_s=LONG_S)
            host.now += 150
            waited_s += 150
        waits.append(waited_s)
        host.now -= 150
    assert waits[:4] == sorted(waits[:4])
    assert max(waits) <= 4000
    assert host.ssh.asked("-M") <= 20


def test_a_login_that_works_again_forgets_what_failed(host: Host) -> None:
    host.ssh.fault(f"open {DENIED}")
    with pytest.raises(NotSent):
        host.runner().run(["true"], limit_s=LONG_S)
    host.ssh.fault()
    with pytest.raises(NotSent, match="not tried again for 2m30s"):
        host.runner().run(["true"], limit_s=LONG_S)
    host.now += 150
    assert host.runner().run(["true"], limit_s=LONG_S) == Ran(0)
    assert list(host.home.glob("*.failed")) == []


def test_a_clock_that_was_set_back_holds_nobody_for_years(host: Host) -> None:
    host.ssh.fault(f"open {DENIED}")
    with pytest.raises(NotSent):
        host.runner().run(["true"], limit_s=LONG_S)
    host.now -= 400 * 86400
    with pytest.raises(NotSent, match=r"not tried again for 1h$"):
        host.runner().run(["true"], limit_s=LONG_S)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "No ED25519 host key is known for [login.example]:2222 and you have requested strict "
            "checking.\r\nHost key verification failed.\r\n",
            "is not known here yet, so nobody logged in; .* `glidepath site login west`",
        ),
        (
            "@@@@@@@@@@@@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
            "Offending ED25519 key in /home/a/.ssh/known_hosts:3\r\n"
            "Host key for login.example has changed and you have requested strict checking.\r\n"
            "Host key verification failed.\r\n",
            r"`ssh-keygen -f /home/a/.ssh/known_hosts -R 'login.example'`",
        ),
        ("Host key verification failed.\r\n", "could not be verified; try `ssh -l me login.example`"),
        (
            "ssh: connect to host login.example port 22: Connection refused\r\n",
            "no connection to `login.example`: .*Connection refused; try `ssh -l me login.example` by hand",
        ),
        (
            'Load key "/home/a/.ssh/id": Permission denied\r\nssh: Could not resolve hostname x: no\r\n',
            "no connection to `login.example`: ssh: Could not resolve hostname x: no",
        ),
        ("", "ssh says nothing"),
    ],
)
def test_why_nobody_got_in_is_one_clear_sentence(host: Host, said: str, expected: str) -> None:
    host.ssh.fault(f"open {said}")
    with pytest.raises(NotSent, match=expected) as caught:
        host.runner(user="me").run(["true"], limit_s=LONG_S)
    assert "\n" not in str(caught.value)


def test_a_host_that_says_nothing_holds_nobody_longer_than_the_limit(host: Host) -> None:
    host.ssh.fault("open-hang")
    with pytest.raises(NotSent, match=r"let nobody in within \d s; try `ssh login\.example`"):
        host.runner().run(["true"], limit_s=0.6)


def test_where_a_person_logs_in_glidepath_never_does(host: Host) -> None:
    runner = host.runner(login="person")
    for _ in range(3):
        with pytest.raises(NotSent, match="only a person may open it; run `glidepath site login west`"):
            runner.run(["true"], limit_s=LONG_S)
    assert host.ssh.asked() == 0
    # Somebody has logged in meanwhile, by another program.
    opened = host.runner()
    opened.run(["true"], limit_s=LONG_S)
    assert runner.run(["true"], limit_s=LONG_S) == Ran(0)
    assert runner.connection().is_open


def test_close_ends_what_was_opened_from_here_and_nothing_else(host: Host) -> None:
    first, second = host.runner(), host.runner()
    first.run(["true"], limit_s=LONG_S)
    second.run(["true"], limit_s=LONG_S)
    second.close()
    assert first.connection().is_open
    first.close()
    assert not first.connection().is_open


# What is never told to ssh, and where the socket is.


def test_the_words_for_ssh_are_strict_whatever_its_configuration_says(host: Host) -> None:
    runner = host.runner(
        user="u", port=2222, identity="/k", config="~/c", jump="a,b:2", keep="1h", connect="7s"
    )
    runner.run(["true"], limit_s=LONG_S)
    opening, carrier = (
        ast.literal_eval(line) for line in (host.ssh.folder / "log").read_text(encoding="utf-8").splitlines()
    )
    assert opening[:2] == ["-F", "/nowhere/c"]
    assert opening[-2:] == ["--", "login.example"]
    assert set(opening) >= {
        *("-M", "-N", "-f", "-i", "/k", "-J", "a,b:2", "-p", "2222", "-l", "u"),
        *("BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "ControlPersist=3600"),
        *("ConnectTimeout=7", "ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no"),
    }
    assert carrier[:3] == ["-F", "none", "-S"]
    assert set(carrier) >= {"ProxyCommand=false", "ControlMaster=no", "BatchMode=yes", "--"}
    # Not in what other users of this machine see either.
    assert "true" not in " ".join(carrier)


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "-l", "a b", "a;id", "$(id)", "a\nb", "ssh://x"])
def test_a_host_or_user_that_looks_like_an_option_is_refused(name: str) -> None:
    for field in ("host", "user"):
        with pytest.raises(ValueError, match="no name of a"):
            SshSettings(**{"host": "fine", field: name})


@pytest.mark.parametrize(
    ("folder", "below_tmp"),
    [("/home/a/.local/state/glidepath/ssh", False), ("/" + "x" * 90, True), ("/a b/%h", True)],
)
def test_the_socket_has_a_path_that_a_socket_can_have(folder: str, below_tmp: bool) -> None:
    found = den.socket_of(SshSettings(host="h"), Path(folder))
    assert len(str(found)) + 17 < 104
    assert str(found).startswith("/tmp/glidepath-") is below_tmp
    assert found != den.socket_of(SshSettings(host="h", user="u"), Path(folder))


def test_the_folder_of_the_socket_is_ours_alone_or_is_refused(tmp_path: Path) -> None:
    open_to_all, linked = tmp_path / "open", tmp_path / "link"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    den.made(open_to_all)
    assert stat.S_IMODE(open_to_all.stat().st_mode) == 0o700
    linked.symlink_to(open_to_all)
    with pytest.raises(NotSent, match="not a folder of ours"):
        den.made(linked)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(NotSent, match="no folder for the connection"):
        den.made(tmp_path / "file")
    if os.geteuid() == 0:
        strange = tmp_path / "strange"
        strange.mkdir()
        os.chown(strange, 12345, 12345)
        with pytest.raises(NotSent, match="not a folder of ours"):
            den.made(strange)
