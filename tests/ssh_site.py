"""Sites of tests that are reached by ssh: the configuration of one, and a person at a terminal who answers
what is asked there."""

from __future__ import annotations

import os
import pty
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LONG_S = 60.0
PIECE_BYTES = 4096
CONFIG = """
[pools.own]
kind = "embedded"

[sites.west]
kind = "slurm"

[sites.west.slurm]
folder = "/home/glidepath"

[sites.west.slurm.ssh]
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


@contextmanager
def short_folder() -> Iterator[Path]:
    """One whose name leaves room for the path of a socket, which those of pytest do not."""
    folder = Path(tempfile.mkdtemp(prefix="gp-ssh-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def configure(folder: Path, **ssh: object) -> None:
    lines = [
        f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"'
        for name, value in ssh.items()
    ]
    (folder / "glidepath.toml").write_text(CONFIG.format(ssh="\n".join(lines)), encoding="utf-8")


def environ_of(folder: Path, usual: Mapping[str, str]) -> dict[str, str]:
    """Of a program that finds that configuration, and a home of its own."""
    passed = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    own = {"GLIDEPATH_HOME": str(folder / "home"), "GLIDEPATH_CONFIG": str(folder / "glidepath.toml")}
    return {**usual, **passed, "HOME": str(folder), **own}


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
