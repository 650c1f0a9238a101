"""A whole glidepath whose batch sites call it: a real agent for each, which reaches its site by ssh."""

from __future__ import annotations

from pathlib import Path

from bed.parts.condor import Pool

from calls.calling import AgentRun, free_port, listens
from glidepath.called.post import Post
from glidepath.called.tray import Tray
from glidepath.core.quantity import SiteName
from glidepath.store.engine import open_store
from scenes.several import seldom
from sites.sites_world import WAIT_S, Asked, Sites
from whole.running import Running, glidepath

# Longer than a turn of an agent that starts dozens of pilots over ssh beside two other lanes of tests.
SILENT_S = 30
LOST_AFTER_S = 5
SERVE = """
[serve]
listen = "127.0.0.1:{port}"
calls_per_minute = 6000
"""
CALLED = """
[sites.{name}]
kind = "called"
share_lost_after = "{lost}s"
stale_after = "{silent}s"

[sites.{name}.called]
silent_after = "{silent}s"
lapse_after = "{silent}s"
call_again = "1s"
"""
AGENT = """
site = "{name}"
server = "http://127.0.0.1:{port}"
token_file = "{name}.token"
poll = "1s"
poll_max = "2s"
kind = "{kind}"
"""


class Calling(Sites):
    """One glidepath that calls nobody: its batch sites have agents."""

    def __init__(self, home: Path, pool: Pool) -> None:
        self.agents: list[AgentRun] = []
        self.port = free_port()
        self.silent_s = SILENT_S
        self.pool_live_max = 0
        self.mint = ""  # the program that makes a token for each pilot; else all have the one in the file
        super().__init__(home, pool)

    def configure(self, *_: object, **more: object) -> None:
        super().configure(**more)
        text = self.config.read_text().replace('withdraw_after = "1m"', 'withdraw_after = "3s"')
        if self.mint:
            text = text.replace(f'file = "{self.home / "pool.token"}"', f'mint = "{self.mint}"\nwait = "10m"')
        if self.pool_live_max:
            text = text.replace("[pools.bed]", f"[pools.bed]\nlimits = {{ live_max = {self.pool_live_max} }}")
        self.config.write_text(text + SERVE.format(port=self.port))

    def _table(self, asked: Asked) -> str:
        lost_s = self.silent_s + LOST_AFTER_S
        return CALLED.format(name=asked.name, lost=lost_s, silent=self.silent_s) + self.offered(asked)

    def up(self, *words: str) -> Running:
        run = super().up(*words)
        seldom(lambda: listens(self.port), self.said, within_s=WAIT_S)
        return run

    def token(self, asked: Asked) -> str:
        """A new one, where the agent finds it."""
        text = self.tell("token", "issue", asked.name).strip()
        path = self.home / f"{asked.name}.token"
        path.touch(mode=0o600)
        path.write_text(text)
        return text

    def agent(self, asked: Asked) -> AgentRun:
        text = AGENT.format(name=asked.name, port=self.port, kind=asked.kind) + self.own(asked, asked.kind)
        (self.home / f"{asked.name}.toml").write_text(text)
        self.agents.append(AgentRun(self.home, asked.name))
        return self.agents[-1]

    def tell(self, *words: str) -> str:
        return glidepath(self.home, *words, "--config", str(self.config))

    # What is seen.

    def tray(self, asked: Asked) -> Tray:
        with open_store(f"sqlite:///{self.home}/glidepath.db", read_only=True) as store:
            return Post(store).tray(SiteName(asked.name))

    def calls_on(self, asked: Asked, count: int = 2) -> None:
        """It is heard again and again."""
        before = self.tray(asked).calls
        seldom(lambda: self.tray(asked).calls >= before + count, self.said, within_s=WAIT_S)

    def said(self) -> str:
        return "\n".join([super().said(), *(line for run in self.agents for line in run.lines[-20:])])

    def close(self) -> None:
        while self.agents:
            self.agents.pop().close()
        super().close()
