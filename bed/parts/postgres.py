"""PostgreSQL: found on this machine, or installed where that is possible, on a socket in its own folder.

A name comes in, a running server with its address goes out. It touches no server that is already running
and opens no port, unless it is given an address to listen on; who comes from there needs a password.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import time
from pathlib import Path

from bed import lifecycle, versions
from bed.cache import Say, silent
from bed.command import run
from bed.machine import Machine
from bed.place import Instance, Place
from bed.ports import free_port
from bed.running import State, began, end, remember, start, state_of
from bed.trouble import Trouble

INSTALL_S_MAX = 600
INIT_S_MAX = 120
UP_S_MAX = 60
# Time to end its sessions and to write what it holds.
SOFT_S_MAX = 30
ASK_S_MAX = 10
POLL_S = 0.05
# The line of `postmaster.pid` that tells how far the server is; it is how pg_ctl knows, too.
STATUS_LINE = 7

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "",  # The socket only: no port to collide with.
    "max_connections": "50",
    "shared_buffers": "32MB",
}


class Postgres:
    """The part of the bed; `Server` is one instance of it."""

    name = "postgres"

    def prepared(self, place: Place) -> bool:
        return find_binaries() is not None

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        if self.prepared(place):
            return []
        if machine.uid != 0:
            return ["no `initdb` and `postgres` are found, and not root, so that they cannot be installed"]
        if "apt-get" not in machine.tools:
            return ["no `initdb` and `postgres` are found, and no `apt-get` that could install them"]
        return []

    def lacking(self, place: Place) -> list[str]:
        return []

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        package = str(versions.section(self.name)["package"])
        say(f"postgres: installing `{package}`")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        said = ""
        for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
            done = run(["apt-get", "-q", *words], environ=quiet, limit_s=INSTALL_S_MAX)
            said = done.err
        if find_binaries() is None:
            raise Trouble(f"`apt-get install {package}` did not bring PostgreSQL: {said[-2000:]}")

    def up(self, instance: Instance, say: Say, port: int) -> State:
        if port:
            raise Trouble("`postgres` listens on a socket only; leave the port out")
        return Server(instance.name, place=instance.place, say=say).up()

    def down(self, instance: Instance) -> None:
        state = state_of(instance)
        if state and state.alive():
            end(state, softly=[state.pid], number=signal.SIGINT, soft_s_max=SOFT_S_MAX)


class Server:
    """One server, by its name."""

    def __init__(self, name: str = "postgres", *, place: Place | None = None, say: Say = silent) -> None:
        self.part = Postgres()
        self.instance = Instance.named(name, place or Place.of(os.environ))
        self.folder = self.instance.folder
        self.user = server_user()
        self.say = say
        self.port = 5432

    def url(self, database: str) -> str:
        return f"postgresql://{self.user}@/{database}?host={self.folder}&port={self.port}"

    def up(self, *, tied: bool = False, address: str = "") -> State:
        """Starts it where it is not up; `tied`, it ends with this process."""
        return lifecycle.up(
            self.part, self.instance, self.say, lambda: self._begin(tied=tied, address=address)
        )

    def down(self) -> None:
        lifecycle.down(self.part, self.instance, self.say)

    def _begin(self, *, tied: bool, address: str) -> State:
        binaries = find_binaries()
        if not binaries:
            raise Trouble("`initdb` and `postgres` are not found")
        logs = self.folder / "log"
        logs.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.folder, self.user)
        cluster = self.folder / "d"
        options = [
            "-D",
            str(cluster),
            "-U",
            self.user,
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        words = as_user(self.user, [str(binaries / "initdb"), *options], tied=True)
        run(words, limit_s=INIT_S_MAX, folder=self.folder).must("PostgreSQL made no database")
        wanted = {**FAST, "unix_socket_directories": str(self.folder)}
        if address:
            self.port = free_port(address)
            wanted |= {"listen_addresses": address, "port": str(self.port)}
            with (cluster / "pg_hba.conf").open("a", encoding="utf-8") as rights:
                rights.write("host all all all scram-sha-256\n")
        settings = [f"--{name}={value}" for name, value in wanted.items()]
        words = as_user(self.user, [str(binaries / "postgres"), "-D", str(cluster), *settings], tied=tied)
        pid = start(words, self.instance, environ=os.environ, output=logs / "output")
        state = State(self.instance.name, pid, began(pid), self.url("postgres"), 0, str(logs))
        remember(self.instance, state)
        self._wait_until_ready(state, cluster / "postmaster.pid")
        return state

    def _wait_until_ready(self, state: State, file: Path) -> None:
        until = time.monotonic() + UP_S_MAX
        while not ready(file):
            if not state.alive():
                raise Trouble("PostgreSQL ended at its start")
            if time.monotonic() > until:
                raise Trouble(f"PostgreSQL was not ready in {UP_S_MAX} s")
            time.sleep(POLL_S)


def ready(file: Path) -> bool:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == "ready"


def find_binaries() -> Path | None:
    """The folder of `initdb` and `postgres`; the newest where there are several."""
    folders: list[Path] = []
    if shutil.which("pg_config"):
        folders.append(Path(run(["pg_config", "--bindir"], limit_s=ASK_S_MAX).out.strip()))
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(installed, key=lambda folder: _number(folder.parent.name), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def server_user() -> str:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_user(user: str, words: list[str], *, tied: bool) -> list[str]:
    """The command as that user; `tied`, it ends when whoever started it does."""
    order = ["--pdeathsig=INT"] if tied else []
    if os.geteuid() != 0:
        return ["setpriv", *order, "--", *words] if tied and shutil.which("setpriv") else words
    entry = pwd.getpwnam(user)
    rights = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return ["setpriv", *rights, *order, "--", *words]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
