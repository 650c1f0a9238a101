"""Commands on this machine: none hangs, floods or leaves anything, and none sees more than it needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from glidepath.remote import child
from glidepath.remote.local import LocalRunner, reduced
from glidepath.remote.runner import OUT_BYTES_MAX, NotSent, Ran

HERE = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "TZ": "UTC"}
LONG_S = 30.0


def here(**more: str) -> LocalRunner:
    return LocalRunner(environ={**HERE, **more})


def gone(pid: int, *, within_s: float = 10.0) -> bool:
    """Whether the process is over; one that waits to be reaped by somebody else is."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("argv", "given", "expected"),
    [
        (["true"], b"", Ran(0)),
        (["sh", "-c", "exit 7"], b"", Ran(7)),
        (["sh", "-c", "kill -9 $$"], b"", Ran(-9)),
        (["sh", "-c", "echo out; echo err >&2; exit 255"], b"", Ran(255, "out\n", "err\n")),
        (["cat"], b"", Ran(0)),
        (["cat"], "köln\n".encode(), Ran(0, "köln\n")),
        (
            ["printf", "%s|", "a b", "$HOME", "`id`", "", "*", "-n", "'"],
            b"",
            Ran(0, "a b|$HOME|`id`||*|-n|'|"),
        ),
        (["printf", "\\377\\n"], b"", Ran(0, "\ufffd\n")),
        # It reads nothing of what it is given, and that is no mistake.
        (["true"], b"x" * (1 << 20), Ran(0)),
    ],
)
def test_a_command_ends_as_it_says(argv: list[str], given: bytes, expected: Ran) -> None:
    assert here().run(argv, given=given, limit_s=LONG_S) == expected


def test_much_is_given_and_printed_at_the_same_time_without_a_deadlock() -> None:
    given = bytes(range(32, 127)) * 100_000
    assert here().run(["cat"], given=given, limit_s=LONG_S) == Ran(0, given.decode())


def test_what_is_printed_beyond_the_bound_is_dropped_and_the_command_still_ends() -> None:
    ran = here().run(["head", "-c", str(100 << 20), "/dev/zero"], limit_s=LONG_S)
    assert (ran.code, len(ran.out), ran.cut) == (0, OUT_BYTES_MAX, True)


def test_one_that_prints_for_ever_is_ended_and_keeps_no_more_than_the_bound() -> None:
    ran = here().run(["yes"], limit_s=0.5)
    assert ran.code is None
    assert len(ran.out) <= OUT_BYTES_MAX


def test_at_its_limit_a_command_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    text = f'trap "" TERM; sleep 1000 & echo $$ $! > {note}; wait; wait; sleep 1000'
    ran = here().run(["sh", "-c", text], limit_s=1.0)
    assert ran == Ran(None)
    assert all(gone(int(pid)) for pid in note.read_text(encoding="utf-8").split())


def test_one_that_is_done_is_not_waited_for_because_another_holds_its_pipes(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = f"setsid sleep 1000 & echo $! > {note}; echo said; echo more >&2"
    try:
        ran = here().run(["sh", "-c", text], limit_s=LONG_S)
    finally:
        os.kill(int(note.read_text(encoding="utf-8")), 9)
    assert ran == Ran(0, "said\n", "more\n")


def test_what_is_not_there_was_not_sent() -> None:
    with pytest.raises(NotSent, match="`sbatch-is-not-here` is not on this machine; set `path`"):
        here().run(["sbatch-is-not-here"], limit_s=LONG_S)


def test_what_cannot_be_started_was_not_sent(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x00\x01 no program")
    odd.chmod(0o755)
    with pytest.raises(NotSent, match="cannot be started on this machine: Exec format error"):
        here().run([str(odd)], limit_s=LONG_S)


@pytest.mark.parametrize("argv", [[], ["a\0b"], ["true", "a\0b"]])
def test_words_that_no_command_can_have_are_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        here().run(argv, limit_s=LONG_S)


def test_the_commands_of_the_batch_system_are_found_in_their_own_folder(tmp_path: Path) -> None:
    for name in ("sbatch", "true"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho own {name}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    runner = LocalRunner(environ=HERE, path=str(tmp_path))
    assert [runner.run([name], limit_s=LONG_S).out for name in ("sbatch", "true")] == [
        "own sbatch\n",
        "own true\n",
    ]


def test_a_command_sees_only_what_it_needs_of_the_environment() -> None:
    ours = {
        **HERE,
        "SLURM_CONF": "/etc/s.conf",
        "SBATCH_PARTITION": "other",
        "LANG": "de_DE.UTF-8",
        "TOKEN": "x",
    }
    assert reduced(ours, path="/opt/s/bin") == {
        "HOME": "/nowhere",
        "TZ": "UTC",
        "SLURM_CONF": "/etc/s.conf",
        "PATH": "/opt/s/bin:/usr/bin:/bin",
        "LC_ALL": "C",
    }
    assert "x" not in LocalRunner(environ=ours).run(["env"], limit_s=LONG_S).out.split("=")


def test_no_descriptor_is_left_open() -> None:
    runner = here()
    runner.run(["true"], limit_s=LONG_S)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for limit_s in (LONG_S, 0.05):
        runner.run(["cat", "/dev/stdin"], given=b"x" * 200_000, limit_s=limit_s)
        runner.run(["sleep", "0.2"], limit_s=limit_s)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_word_is_noticed_across_chunks_and_beyond_what_is_kept() -> None:
    kept = child.Kept(4)
    assert [kept.add(chunk, b"-end-") for chunk in (b"abcdefg-e", b"nd", b"-", b"x")] == [
        False,
        False,
        True,
        False,
    ]
    assert (bytes(kept.head), kept.cut) == (b"abcd", True)
