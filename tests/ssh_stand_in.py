"""A stand-in for the program `ssh`: it has a connection without a network, and faults on demand.

It knows the words that glidepath uses and no others: `-M` opens a connection, which is a process that listens
at the socket; `-O` ends it; anything else is run by the shell here. What goes wrong stands in a file beside.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = r"""#!PYTHON -IS
import os, signal, socket, subprocess, sys, time
from pathlib import Path

here, argv = Path(__file__).resolve().parent, sys.argv[1:]
with (here / "log").open("a") as log:
    log.write(repr(argv) + "\n")
dashes = argv.index("--")
words, host, rest = argv[:dashes], argv[dashes + 1], argv[dashes + 2 :]
path = words[words.index("-S") + 1]
fault = (here / "fault").read_text() if (here / "fault").exists() else ""
kind, _, told = fault.partition(" ")
# As a server leaves it to what it starts; this interpreter does otherwise.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def listening():
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


if "-M" in words:
    if kind == "open-hang":
        time.sleep(1000)
    if kind == "open":
        sys.stderr.write(told)
        sys.exit(255)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    if os.fork() == 0:
        os.setsid()
        Path(path + ".pid").write_text(str(os.getpid()))
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(quiet, number)
        for _ in range(100000):
            listener.accept()[0].close()
        os._exit(0)
    while not Path(path + ".pid").exists():
        time.sleep(0.01)
    sys.exit(0)

if "-O" in words:
    if listening():
        os.kill(int(Path(path + ".pid").read_text()), signal.SIGKILL)
        os.unlink(path)
        os.unlink(path + ".pid")
    sys.exit(0)

if kind == "once":
    (here / "fault").unlink()
    if told == "dead":
        os.kill(int(Path(path + ".pid").read_text()), signal.SIGKILL)
        told = "mux_client_hello_exchange: read packet failed: Connection reset by peer\n"
    sys.stderr.write(told)
    sys.exit(255)
if kind == "255":
    sys.stderr.write(told)
    sys.exit(255)
if kind == "hang":
    time.sleep(1000)
if kind == "shell":
    print(told)
    sys.exit(1)
if not listening():
    sys.stderr.write("Connection closed by UNKNOWN port 65535\n")
    sys.exit(255)
if kind == "cut":
    # The connection breaks after so many bytes of what comes back.
    there = subprocess.Popen(["sh", "-c", rest[0]], stdout=subprocess.PIPE)
    for _ in range(int(told)):
        os.write(1, there.stdout.read(1))
    there.kill()
    sys.stderr.write("Shared connection closed.\r\n")
    sys.exit(255)
if kind == "noise":
    # What start files say before and after, on both sides, with our own line repeated by `set -v`.
    quoted = rest[0].replace("%", "%%").replace("'", "'\\''")
    noise = "printf 'Last login: today\\n" + quoted + "\\nquota'; printf 'stty: no tty\\n' >&2; "
    after = "; printf 'bye\\n'; printf 'bye\\n' >&2; exit 3"
    os.execvp("sh", ["sh", "-c", noise + rest[0].removeprefix("exec ") + after])
os.execvp("sh", ["sh", "-c", rest[0]])
"""


@dataclass(frozen=True)
class StandIn:
    """Where the program is, what it was asked, and what goes wrong with it."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": "/nowhere"}

    def fault(self, text: str = "") -> None:
        file = self.folder / "fault"
        if text:
            file.write_text(text, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)

    def asked(self, word: str = "") -> int:
        """How often it was run with this word among the others."""
        log = self.folder / "log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return sum(1 for line in lines if not word or repr(word) in line)


def stand_in(folder: Path) -> StandIn:
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(PROGRAM.replace("PYTHON", sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return StandIn(folder)
