"""The keeper by real shells, as the first process of a PID namespace: what a container is to it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from glidepath.cluster.kubernetes.keeper import SCRIPT, Left, Words, words_of

pytestmark = pytest.mark.real

# That of busybox runs in every pod of the bed.
SHELLS = [("dash",), ("bash", "--posix")]
ENDS_S_MAX = 60
POLL_S = 0.05
SUM = hashlib.sha256(b"hello").hexdigest()
ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@dataclass
class Ran:
    """One container, as far as a keeper sees it."""

    folder: Path
    process: subprocess.Popen[str]
    output: Path
    told: Path = field(init=False)

    def __post_init__(self) -> None:
        self.told = self.folder / "told"

    def tell(self, name: str, word: str) -> None:
        """As the kubelet writes it: whole or not at all."""
        fresh = self.told / f".{name}"
        fresh.write_text(word)
        fresh.replace(self.told / name)

    def until(self, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ENDS_S_MAX
        while not met():
            assert time.monotonic() < deadline, self.said()
            time.sleep(POLL_S)

    def said(self) -> str:
        return self.output.read_text()

    def ended(self) -> tuple[int, Words | None]:
        code = self.process.wait(timeout=ENDS_S_MAX)
        words = self.folder / "words"
        return code, words_of(words.read_text()) if words.exists() else None


class Keepers:
    """Starts keepers with one shell, and leaves none behind."""

    def __init__(self, shell: tuple[str, ...], folder: Path) -> None:
        self.shell, self.folder, self.started = shell, folder, list[Ran]()

    def __call__(
        self,
        *command: str,
        told: dict[str, str] | None = None,
        checks: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        workdir: str = "",
        notice_s: int = 0,
        grace_s: int = 2,
        gather_s: int = 30,
    ) -> Ran:
        home = self.folder / f"r{len(self.started)}"
        for name in ("told", "files", "work"):
            (home / name).mkdir(parents=True)
        (home / "files/f0").write_text("hello")
        for name, word in {"go": "yes", **(told or {})}.items():
            (home / "told" / name).write_text(word)
        count = checks.count("file") + checks.count("volume")
        words = [str(home / "told"), str(home / "files"), str(home / "words"), str(grace_s), str(gather_s)]
        words += [workdir or str(home / "work"), str(notice_s), "USR1", str(count), *checks, *command]
        with (home / "out").open("w") as out:
            process = subprocess.Popen(
                [*ALONE, *self.shell, "-c", SCRIPT, "glidepath", *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env={"PATH": os.environ["PATH"], **(env or {})},
            )
        self.started.append(Ran(home, process, home / "out"))
        return self.started[-1]

    def close(self) -> None:
        for each in self.started:
            if each.process.poll() is None:
                each.process.send_signal(signal.SIGKILL)
                each.process.wait(timeout=ENDS_S_MAX)


@pytest.fixture(params=SHELLS, ids=" ".join)
def run(request: pytest.FixtureRequest, tmp_path: Path):  # type: ignore[no-untyped-def]
    if shutil.which(request.param[0]) is None or os.geteuid() != 0:
        pytest.skip(f"no `{request.param[0]}`, or not root, who alone may make a PID namespace")
    keepers = Keepers(request.param, tmp_path)
    yield keepers
    keepers.close()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "echo said; exit 3"), 3),
        (("sh", "-c", "sleep 2.2; exit 7"), 7),
        (("true",), 0),
        (("sh", "-c", "kill -TERM $$"), 143),
        # The first process of a container cannot be ended from within.
        (("sh", "-c", "kill -9 1; exit 5"), 5),
    ],
)
def test_it_leaves_as_its_command_did(run: Keepers, command: tuple[str, ...], code: int) -> None:
    ended, words = run(*command).ended()
    assert ended == code
    assert words is not None
    assert (words.left, words.at) == (Left.EXITED, code)


def test_what_a_command_says_is_all_that_is_said(run: Keepers) -> None:
    ran = run("sh", "-c", "echo out; echo err >&2; kill -KILL $$")
    assert ran.ended()[0] == 137
    assert ran.said() == "out\nerr\n"


@pytest.mark.parametrize("command", ["no-such-program", "/no/such/program", "./here", "/etc/passwd", "-x"])
def test_a_command_that_is_not_there_begins_nothing(run: Keepers, command: str) -> None:
    code, words = run(command).ended()
    assert code == 125
    assert words == Words(Left.NO_COMMAND)


def test_a_limit_holds_and_notice_is_given_before(run: Keepers) -> None:
    ran = run(
        "sh", "-c", "trap 'echo noticed' USR1; while :; do sleep 0.1; done", told={"limit": "4"}, notice_s=3
    )
    code, words = ran.ended()
    assert (code, words and words.left) == (124, Left.LIMIT)
    assert ran.said() == "noticed\n"


def test_a_limit_can_become_longer_and_shorter_and_notice_is_given_anew(run: Keepers) -> None:
    ran = run(
        "sh", "-c", "trap 'echo noticed' USR1; while :; do sleep 0.1; done", told={"limit": "5"}, notice_s=4
    )
    ran.until(lambda: ran.said() == "noticed\n")
    ran.tell("limit", "500")
    time.sleep(6)  # Beyond what it was: it is the old limit that must not hold.
    assert ran.process.poll() is None
    ran.tell("limit", "1")
    code, words = ran.ended()
    assert (code, words and words.left) == (124, Left.LIMIT)


@pytest.mark.parametrize("limit", ["", "soon", "-1", "1 1", "99999999999999999999", "0x10", "$(id)"])
def test_what_is_no_number_is_no_limit(run: Keepers, limit: str) -> None:
    ran = run("sh", "-c", "sleep 2.5", told={"limit": limit})
    assert ran.ended()[0] == 0


def test_one_that_will_not_end_is_killed_with_all_that_it_started(run: Keepers) -> None:
    script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo up; while :; do sleep 1; done"
    ran = run("sh", "-c", script, grace_s=1)
    ran.until(lambda: "up" in ran.said())
    ran.tell("stop", "now")
    code, words = ran.ended()
    assert (code, words) == (143, Words(Left.STOPPED, 137, words.ran_s if words else 0))


def test_a_command_may_use_its_grace_to_end_well(run: Keepers) -> None:
    ran = run("sh", "-c", "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done", grace_s=30)
    ran.until(lambda: "up" in ran.said())
    ran.tell("stop", "now")
    assert ran.ended()[0] == 143
    assert ran.said().split()[-1] == "saved"


def test_it_waits_for_the_others_and_gives_up_alone(run: Keepers) -> None:
    waits = run("echo", "began", told={"go": ""})
    waits.until(lambda: (waits.folder / "words").exists())
    assert words_of((waits.folder / "words").read_text()) == Words(Left.READY)
    assert waits.said() == ""
    waits.tell("go", "1")
    assert waits.ended()[0] == 0
    assert waits.said() == "began\n"
    alone = run("echo", "began", told={"go": ""}, gather_s=1)
    assert alone.ended() == (125, Words(Left.ALONE))
    assert alone.said() == ""
    stopped = run("echo", "began", told={"go": "", "stop": "now"})
    assert stopped.ended() == (143, Words(Left.STOPPED))


def test_notice_can_be_given_at_once(run: Keepers) -> None:
    ran = run("sh", "-c", "trap 'echo noticed; exit 0' USR1; echo up; while :; do sleep 0.1; done")
    ran.until(lambda: "up" in ran.said())
    ran.tell("notice", "1")
    assert ran.ended()[0] == 0
    assert ran.said() == "up\nnoticed\n"


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (("file", "f0", "640", SUM, "in/a"), None),
        (("file", "f1", "640", SUM, "in/a"), Words(Left.NO_FILE)),
        (("file", "f0", "640", "0" * 64, "in/a"), Words(Left.NO_FILE)),
        (("file", "f0", "640", SUM, "in/a", "file", "f0", "640", SUM, "/proc/x/y"), Words(Left.NO_FILE, 1)),
        (("volume", "r", "/tmp"), None),
        (("volume", "w", "/nowhere", "file", "f0", "640", SUM, "in/a"), Words(Left.NO_VOLUME)),
    ],
)
def test_files_and_volumes_are_there_before_the_command_or_it_does_not_begin(
    run: Keepers, checks: tuple[str, ...], expected: Words | None
) -> None:
    ran = run("sh", "-c", "echo began; [ ! -e in/a ] || stat -c %a in/a", checks=checks)
    code, words = ran.ended()
    if expected is None:
        assert code == 0
        assert ran.said() == ("began\n640\n" if "file" in checks else "began\n")
    else:
        assert (code, words, ran.said()) == (125, expected, "")


def test_a_working_directory_that_is_not_there_begins_nothing(run: Keepers) -> None:
    assert run("true", workdir="/no/such/folder").ended() == (125, Words(Left.NO_FOLDER))


def test_a_command_has_its_own_variables_and_path_untouched(run: Keepers) -> None:
    names = ("grace", "told", "code", "IFS_", "now", "pid")
    path = f"/made/up:{os.environ['PATH']}"
    told = {name: f"mine-{name}" for name in names} | {"PATH": path}
    ran = run("env", env=told)
    assert ran.ended()[0] == 0
    seen = dict(line.partition("=")[::2] for line in ran.said().splitlines())
    assert {name: seen.get(name) for name in told} == told
    assert not [name for name in seen if name.startswith("GLIDEPATH")]


@pytest.mark.parametrize(
    "word", ["echo", "exec", "GLIDEPATH_k_leave", "--", "-c", "a b", "$HOME", "`id`", "\n", "ü", "*"]
)
def test_arguments_arrive_as_they_are(run: Keepers, word: str) -> None:
    ran = run("python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", word, "last")
    assert ran.ended()[0] == 0
    assert json.loads(ran.said()) == [word, "last"]


@pytest.mark.parametrize("text", ["", "{", "null", '{"left": "gone"}', '{"left": 5}', "[" * 100_000])
def test_words_that_no_keeper_leaves_are_none(text: str) -> None:
    assert words_of(text) is None
