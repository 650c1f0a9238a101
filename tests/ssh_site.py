"""Sites of tests that are reached by ssh: a kind of site that is nothing but its runner, and a person at a
terminal who answers what is asked there."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

LONG_S = 60.0
PIECE_BYTES = 4096
KIND = """
import os
from glidepath.config.tables import Table, rebuilt
from glidepath.remote.open import runner_of
from glidepath.remote.settings import SshSettings


class Settings(Table):
    ssh: SshSettings = SshSettings()


class Door:
    limit_s = 30.0

    def __init__(self, site, settings, place):
        own = rebuilt(Settings, settings).ssh
        runner = runner_of(own, environ=os.environ, folder=place.home, site=site)
        self.connection, self.login = runner.connection, runner.login
        self.logout, self.close = runner.logout, runner.close


class Kind:
    Settings = Settings

    def __call__(self, site, settings, place):
        return Door(site, settings, place)


kind = Kind()
"""
CONFIG = """
[pools.own]
kind = "embedded"

[sites.west]
kind = "carried"

[sites.west.carried.ssh]
{ssh}

[sites.west.offers.cpu]
cpus = 1
memory = "1GiB"
disk = "1GiB"

[sites.here]
kind = "local"

[sites.here.offers.cpu]
cpus = 1
memory = "1GiB"
disk = "1GiB"
"""


def install_kind(folder: Path) -> None:
    """Puts the kind `carried` where an interpreter with this folder on its path finds it."""
    about = folder / "carried-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: carried\nVersion: 1\n", encoding="utf-8")
    text = "[glidepath.backends]\ncarried = carried_kind:kind\n"
    (about / "entry_points.txt").write_text(text, encoding="utf-8")
    (folder / "carried_kind.py").write_text(KIND, encoding="utf-8")


def configure(folder: Path, **ssh: object) -> None:
    lines = [
        f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"'
        for name, value in ssh.items()
    ]
    (folder / "glidepath.toml").write_text(CONFIG.format(ssh="\n".join(lines)), encoding="utf-8")


def environ_of(folder: Path, usual: Mapping[str, str]) -> dict[str, str]:
    """Of a program that finds that kind, that configuration, and a home of its own."""
    return {
        **usual,
        "HOME": str(folder),
        "GLIDEPATH_HOME": str(folder / "home"),
        "GLIDEPATH_CONFIG": str(folder / "glidepath.toml"),
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }


def at_a_terminal(
    words: Sequence[str], environ: Mapping[str, str], *, asked: str = "", answers: Sequence[str] = ()
) -> tuple[int, str]:
    """`glidepath site WORDS` in a terminal of its own, and all that a person sees there. Each time that the
    words `asked` appear, the next answer is typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "glidepath", "site", *words]
        os.execve(command[0], command, dict(environ))
    seen, typed, deadline = "", 0, time.monotonic() + LONG_S
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            try:
                piece = os.read(terminal, PIECE_BYTES)
            except OSError:
                break  # Nobody is at the other end any more.
            seen += piece.decode()
            if asked and typed < len(answers) and seen.count(asked) > typed:
                os.write(terminal, f"{answers[typed]}\n".encode())
                typed += 1
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
