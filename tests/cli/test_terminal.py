"""A real terminal: a person sees the table, cut to the width, and nothing that a hostile job asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte

from glidepath.cli.session import login

from .conftest import Cli

COLUMNS, LINES = 70, 12
READS_MAX = 1000


class Screen(pyte.Screen):
    """A screen that also remembers all that was ever painted on it."""

    painted = ""

    def draw(self, data: str) -> None:
        self.painted += data
        super().draw(data)


def on_a_terminal(*words: str, home: Path, code: int = 0) -> Screen:
    """The screen after the command has ended."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environ = {"GLIDEPATH_HOME": str(home), "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "glidepath", *words]
    screen = Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        for _ in range(READS_MAX):
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break  # The other end is closed: Linux answers with EIO.
            if not piece:
                break
            stream.feed(piece)
        os.close(ours)
        assert child.wait(timeout=30) == code
    return screen


def test_a_terminal_shows_the_table_cut_to_its_width(cli: Cli, home: Path) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\u202e" + "x" * 300
    cli("job", "submit", "--name", "fit", "--", "sh", "-c", hostile)
    screen = on_a_terminal("job", "list", "-o", "wide", home=home)
    assert screen.title == ""
    assert "".join(screen.display).count("\\x1b[2J\\x1b]0;owned\\x07\\u202e") == 1
    screen = on_a_terminal("job", "list", home=home)
    assert screen.display[0].split()[:5] == ["ID", "NAME", "OWNER", "STATE", "EXIT"]
    assert screen.display[1].split()[:5] == ["1", "fit", login(), "queued", "-"]
    assert screen.buffer[0][0].bold
    assert screen.display[2].strip() == ""


def test_watching_redraws_in_place(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    screen = on_a_terminal("job", "list", "--watch", "--times", "2", "--every", "0s", home=home)
    assert screen.display[0].startswith("ID")
    assert screen.display[1].split()[0] == "1"
    assert screen.display[2].strip() == ""


def test_waiting_for_a_job_shows_progress_on_a_terminal(cli: Cli, home: Path) -> None:
    cli("job", "submit", "--", "true")
    screen = on_a_terminal("job", "wait", "1", "--timeout", "2s", home=home, code=1)
    assert "waiting for 1 of 1 jobs" in screen.painted
