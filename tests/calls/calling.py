"""A real glidepath with a demand server, and real agents as processes of their own, none left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from glidepath.called.post import Post
from glidepath.called.tray import Tray
from glidepath.core.quantity import SiteName
from glidepath.store.engine import open_store
from whole.running import WAIT_S, Running, glidepath, until

CONFIG = """
[cycle]
min = "1s"
max = "2s"
deadline = "10s"

[policy]
name = "steady"
release_after = "3s"

[pilots]
withdraw_after = "3s"
left_min = "10s"
useful_min = "30s"

[serve]
listen = "127.0.0.1:{port}"
calls_per_minute = 6000
{serve}
[pools.local]
kind = "embedded"
stale_after = "30s"
"""
SITES = """
[sites.{name}]
kind = "called"
share_lost_after = "{lost}"
stale_after = "{stale}"

[sites.{name}.called]
silent_after = "{stale}"
lapse_after = "{stale}"
call_again = "1s"

[sites.{name}.offers.worker]
cpus = 1
memory = "1GiB"
disk = "1GiB"
lifetime = "4h"
idle = "10s"
"""
AGENT = """
site = "{name}"
{way}
token_file = "{name}.token"
poll = "1s"
poll_max = "2s"
kind = "local"
{more}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Land:
    """One home with its configuration, and the agents that were started in it."""

    def __init__(self, home: Path, *sites: str, stale: str = "5s", lost: str = "6s", serve: str = "") -> None:
        self.home = home
        self.port = free_port()
        self.config = home / "c.toml"
        text = CONFIG.format(port=self.port, serve=serve)
        text += "".join(SITES.format(name=name, stale=stale, lost=lost) for name in sites)
        self.config.write_text(text)
        self.agents: dict[str, AgentRun] = {}
        self._all: list[AgentRun] = []

    def up(self) -> Running:
        running = Running(self.home, "--config", str(self.config))
        until(lambda: listens(self.port), lambda: f"the demand server listens; said:\n{running.text}")
        return running

    def run(self, *words: str, code: int = 0) -> str:
        return glidepath(self.home, *words, code=code, GLIDEPATH_CONFIG=str(self.config))

    def token(self, name: str) -> str:
        """Issued for an agent and put where it finds it."""
        text = self.run("token", "issue", name).strip()
        path = self.home / f"{name}.token"
        path.touch(mode=0o600)
        path.write_text(text)
        return text

    def settings(self, name: str, *, way: str = "", more: str = "") -> Path:
        path = self.home / f"{name}.toml"
        way = way or f'server = "http://127.0.0.1:{self.port}"'
        path.write_text(AGENT.format(name=name, way=way, more=more))
        return path

    def agent(self, name: str, **more: str) -> AgentRun:
        self.settings(name, **more)
        self.agents[name] = AgentRun(self.home, name)
        self._all.append(self.agents[name])
        return self.agents[name]

    def submit(self, *command: str, count: int = 1) -> None:
        ask = ("job", "submit", "--count", str(count), "--cpus", "1", "--mem", "50MiB", "--", *command)
        self.run(*ask)

    def jobs(self) -> list[str]:
        """The state of every job."""
        items = json.loads(self.run("job", "list", "--all", "-o", "json"))["items"]
        return [item["state"] for item in items]

    def started(self, name: str) -> set[str]:
        """Pilots that were ever started at a site and not yet cleared there."""
        folder = self.home / "agents" / name / "pilots"
        return {path.name for path in folder.iterdir() if path.name[0] != "."} if folder.exists() else set()

    def close(self) -> None:
        for agent in self._all:
            agent.close()


def ended(run: Running) -> None:
    run.signal(signal.SIGINT)
    assert run.wait_end(within_s=30) == 0, run.text


def over(land: Land) -> None:
    until(lambda: set(land.jobs()) == {"done"}, lambda: f"all jobs are done: {land.jobs()}")


def tray(land: Land, name: str) -> Tray:
    with open_store(f"sqlite:///{land.home}/glidepath.db", read_only=True) as store:
        return Post(store).tray(SiteName(name))


def both_call(land: Land) -> None:
    """Agents of both sites run, and the controllers have seen what they say."""
    for name in ("east", "west"):
        land.token(name)
        land.agent(name)
    until(lambda: all(tray(land, name).calls > 1 for name in ("east", "west")), "both have called")


def gone(land: Land, *names: str) -> None:
    """The pilots leave by themselves when they have nothing to do, and their agents clear up."""
    until(lambda: not any(land.started(name) for name in names), "the pilots have left")


class AgentRun:
    """One `glidepath agent run`, with everything that it has said so far."""

    def __init__(self, home: Path, name: str, *words: str) -> None:
        command = [sys.executable, "-m", "glidepath", "agent", "run", str(home / f"{name}.toml"), *words]
        self.child = subprocess.Popen(
            [*command, "--home", str(home)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, words: str) -> None:
        until(lambda: any(words in line for line in self.lines), lambda: f"`{words}` in {self.lines}")

    def kill(self) -> None:
        """As a machine that loses its power."""
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait(WAIT_S)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.terminate()
            self.child.wait(WAIT_S)
        self._reader.join(WAIT_S)
        assert self.child.stdout is not None
        self.child.stdout.close()
