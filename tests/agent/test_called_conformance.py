"""A site that calls, with an agent on a thread and the local backend under it, keeps the promises of every
backend; only that the agent must have called before a listing says anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from glidepath.agent.keep import Keep
from glidepath.agent.turn import Agent
from glidepath.backends.called import backend as called_kind
from glidepath.backends.local import backend as local_kind
from glidepath.called.backend import CalledBackend
from glidepath.called.late import LateAnswer
from glidepath.called.post import Late, Post
from glidepath.called.tray import Terms
from glidepath.called.words import Orders, Report
from glidepath.conformance import BackendConformance
from glidepath.core.provision.offer import Limits
from glidepath.core.provision.pilot import PilotSpec, SiteState
from glidepath.core.quantity import Instant, SiteName
from glidepath.ports import Backend, Place
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

HERE = SiteName("here")


class WallClock:
    def now(self) -> Instant:
        return Instant(int(time.time()))

    def wall(self) -> float:
        return time.time()


class ByHand:
    """The way to the server without a server: the words are turned into text and back all the same."""

    def __init__(self, post: Post) -> None:
        self.post = post

    def call(self, report: Report) -> Orders | LateAnswer | None:
        said = Report.model_validate_json(report.model_dump_json(exclude_defaults=True))
        now = WallClock().now()
        answer = self.post.call(HERE, said, now=now, wall=time.time(), terms=Terms())
        if isinstance(answer, Late):
            return LateAnswer(ticket=answer.ticket, nonce=report.nonce)
        return Orders.model_validate_json(answer.model_dump_json())


class TestCalledBackend(BackendConformance):
    settle_s: ClassVar[float] = 60.0

    def make(self, home: Path) -> CalledBackend:
        self.home = home
        made = called_kind(HERE, {}, Place(home, f"sqlite:///{home}/glidepath.db"))
        assert isinstance(made, CalledBackend)
        return made

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        home = tmp_path / "home"
        home.mkdir()
        made = self.make(home)
        store = open_store(f"sqlite:///{home}/glidepath.db")
        migrate(store)
        local = local_kind(HERE, {}, Place(home / "site", ""))
        (home / "site").mkdir()
        agent = Agent(local, ByHand(Post(store)), Keep(home / "agent"), WallClock(), limits=Limits())
        self.stop = threading.Event()
        agent.turn()

        def run() -> None:
            while not self.stop.wait(0.02):
                agent.turn()

        caller = threading.Thread(target=run, daemon=True)
        caller.start()
        yield made
        self.clear(made)
        self.stop.set()
        caller.join(30)
        made.close()
        store.close()

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        # Nobody serves this pool: the pilots run and try to join, which is all that is asked of them here.
        join = (("GLIDEPATH_POOL_SOCKET", str(self.home / "pool.sock")),)
        return replace(super().spec(backend, name), join=join)

    def submitted(self, backend: Backend, name: str) -> PilotSpec:
        """Until the agent has told of it: what the tray lists before may start while it is being withdrawn,
        and is then left alone, as the next listing says."""
        spec = super().submitted(backend, name)
        self.until(f"`{name}` is reported", lambda: self.listed(backend)[name].state is not SiteState.PENDING)
        return spec

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[None]:
        assert isinstance(backend, CalledBackend)
        site = self.home / "site"
        away = site.rename(site.with_name("away"))
        self.until("the agent has said so", lambda: not self._seen(backend))
        yield
        away.rename(site)
        self.until("the agent sees its site again", lambda: self._seen(backend))

    def _seen(self, backend: CalledBackend) -> bool:
        report = backend._post().tray(HERE).report
        return report is not None and report.seen
