"""A real PostgreSQL for tests: found on this machine, or installed where that is possible, started in a
folder of its own on a socket there, and always stopped and removed. It touches no server that is running.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

START_S_MAX = 60
STOP_S_MAX = 30
INSTALL_S_MAX = 600
POLL_S = 0.05
OUTPUT_LETTERS_MAX = 2000

FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "",  # the socket only: no port to collide with
    "max_connections": "50",
    "shared_buffers": "32MB",
}


class Unavailable(Exception):
    """Why there is no PostgreSQL here."""


@dataclass
class Server:
    folder: Path
    user: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def url(self, database: str) -> str:
        return f"postgresql://{self.user}@/{database}?host={self.folder}"

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The address of a new, empty database, which is dropped afterwards whoever is still in it."""
        name = f"test_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]


_SHARED = pytest.StashKey[Server]()


def shared_server(config: pytest.Config) -> Server:
    """One server for the whole session, started by the first test that needs it."""
    if _SHARED not in config.stash:
        whole = contextlib.ExitStack()
        config.stash[_SHARED] = whole.enter_context(postgres())
        config.add_cleanup(whole.close)
    return config.stash[_SHARED]


@contextlib.contextmanager
def postgres() -> Iterator[Server]:
    """One server for as long as the block lasts; skips, or fails in CI, where there can be none."""
    try:
        binaries = find_binaries() or installed_binaries()
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"PostgreSQL is needed for this test: {error}")
        pytest.skip(f"no PostgreSQL here: {error}")
    user = server_user()
    # A socket's path may have 107 letters at most, so the folder is not pytest's own.
    folder = Path(tempfile.mkdtemp(prefix="gp-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        yield from _running(binaries, folder, user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(binaries: Path, folder: Path, user: str) -> Iterator[Server]:
    options = ["-D", f"{folder}/d", "-U", user, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    made = subprocess.run(
        as_user(user, [str(binaries / "initdb"), *options]),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_S_MAX,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-OUTPUT_LETTERS_MAX:]
    wanted = {**FAST, "unix_socket_directories": str(folder)}
    settings = [f"--{name}={value}" for name, value in wanted.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            as_user(user, [str(binaries / "postgres"), "-D", f"{folder}/d", *settings]),
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    server = Server(folder, user)
    try:
        _wait_until_it_answers(server, process)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S_MAX)


def _wait_until_it_answers(server: Server, process: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(int(START_S_MAX / POLL_S)):
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            said = (server.folder / "log").read_text(errors="replace")[-OUTPUT_LETTERS_MAX:]
            assert process.poll() is None, f"PostgreSQL ended at its start: {said}"
            time.sleep(POLL_S)
    raise AssertionError(f"PostgreSQL gave no answer in {START_S_MAX} s: {said}")


def find_binaries() -> Path | None:
    """The folder of `initdb` and `postgres`; the newest where there are several."""
    folders: list[Path] = []
    if shutil.which("pg_config"):
        told = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, timeout=10, check=False
        )
        folders.append(Path(told.stdout.strip()))
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(installed, key=lambda bin_: _number(bin_.parent.name), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def installed_binaries() -> Path:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable("`initdb` and `postgres` are not found; install the package `postgresql`")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
        try:
            done = subprocess.run(
                ["apt-get", "-q", *command], env=quiet, capture_output=True, text=True, timeout=INSTALL_S_MAX,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"`apt-get {command[0]}` did not end in {INSTALL_S_MAX} s") from error
        said = " ".join(done.stderr.split())[-OUTPUT_LETTERS_MAX:]
    binaries = find_binaries()
    if binaries is None:
        raise Unavailable(f"`apt-get install postgresql` did not bring it: {said}")
    return binaries


def server_user() -> str:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_user(user: str, command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return command
    entry = pwd.getpwnam(user)
    rights = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    # A test run that is killed must not leave its server behind: it goes when its parent does.
    return ["setpriv", *rights, "--pdeathsig=INT", "--", *command]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
