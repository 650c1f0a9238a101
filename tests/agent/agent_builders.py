"""Builders for tests of sites that call: requests, reports, trays and servers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from glidepath.called.post import digest_of
from glidepath.called.tray import Terms, Tray, asked, called
from glidepath.called.words import Answer, Orders, Pilot, Report
from glidepath.config import Settings
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName
from glidepath.serve.app import application
from glidepath.serve.desk import Desk
from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate
from glidepath.store.site_tokens import AGENT, SiteTokens

WEST = SiteName("west")
NOW = Instant(100_000)
TERMS = Terms(lapse_s=300, silent_s=900, call_again_s=30)
WAIT_S_MAX = 90.0


def spec(name: str = "p1", *, asked_at: int = NOW, **more: Any) -> PilotSpec:
    more.setdefault("site", WEST)
    more.setdefault("join", (("GLIDEPATH_POOL", "pool"),))
    return PilotSpec(
        name=PilotName(name),
        offer=OfferKey(f"{more['site']}/a"),
        pool=PoolName("pool"),
        size=Resources(1000, 1024),
        traits=(("os", "linux"),),
        lifetime_s=3600,
        idle_s=600,
        asked_at=Instant(asked_at),
        owner=more.pop("owner", Owner("alice")),
        **more,
    )


def tray_with(*specs: PilotSpec, site: SiteName = WEST, **more: Any) -> Tray:
    tray = Tray(site, **more)
    for each in specs:
        tray, _ = asked(tray, each, digest_of(each))
    return tray


def pilot(name: str = "p1", state: str = "pending", **more: Any) -> Pilot:
    more.setdefault("offer", "west/a")
    plain = {"name": name, "pool": "pool", "size": [1000, 1024, 0, 0], "state": state}
    return Pilot.model_validate({"since_s": 5, "asked_s": 10, **plain, **more})


def report(tray: Tray | None = None, *pilots: Pilot, **more: Any) -> Report:
    more.setdefault("seen", True)
    return Report(ticket=tray.ticket if tray else "", nonce="n", pilots=list(pilots), **more)


def answer(name: str = "p1", outcome: str = "done", verb: str = "start", why: str = "") -> Answer:
    return Answer.model_validate({"verb": verb, "name": name, "outcome": outcome, "why": why})


def call(tray: Tray, *pilots: Pilot, now: int = NOW, **more: Any) -> tuple[Tray, Orders]:
    """One call of an agent that is up to date; the ticket is the number of the call."""
    more.setdefault("seen", True)
    said = report(tray, *pilots, **more)
    return called(tray, said, Instant(now), terms=TERMS, ticket=f"t{tray.calls + 1}")


def starts(orders: Orders) -> list[str]:
    return [start.name for start in orders.starts]


def wishes(orders: Orders) -> list[tuple[str, str]]:
    return [(wish.verb, wish.name) for wish in orders.wishes]


def until(what: str, met: Any, *, wait_s: float = WAIT_S_MAX) -> None:
    deadline = time.monotonic() + wait_s
    while not met():
        assert time.monotonic() < deadline, f"within {wait_s:g} s it did not happen that {what}"
        time.sleep(0.02)


def settings_of(*sites: str, **serve: Any) -> Settings:
    offers = {"a": {"cpus": 1, "memory": "1GiB"}}
    return Settings.model_validate(
        {
            "pools": {"pool": {"kind": "embedded"}},
            "sites": {name: {"kind": "called", "offers": offers} for name in sites or ("west", "east")},
            "serve": serve,
        }
    )


class Served:
    """A demand server on a port of loopback, in a thread of this process, over a store of its own."""

    def __init__(self, home: Path, settings: Settings, url_of_store: str = "") -> None:
        self.home = home
        self.url_of_store = url_of_store or f"sqlite:///{home}/glidepath.db"
        self.store: Store = open_store(self.url_of_store)
        migrate(self.store)
        self.desk = Desk(self.store, settings)
        self.tokens = SiteTokens(self.store)
        self.application = self.made()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(self.application, log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        listener.listen(64)
        self._listener = listener
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self.thread.start()
        until("the server is up", lambda: self.server.started)

    def made(self) -> Starlette:
        return application(self.desk)

    def token(self, site: str = "west", *, use: str = AGENT) -> str:
        return self.tokens.issue(site, use=use, by="test", note="", wall=time.time())[1]

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(WAIT_S_MAX)
        self._listener.close()
        self.store.close()


@contextmanager
def served(home: Path, *sites: str, url_of_store: str = "", **serve: Any) -> Iterator[Served]:
    home.mkdir(parents=True, exist_ok=True)
    made = Served(home, settings_of(*sites, **serve), url_of_store)
    try:
        yield made
    finally:
        made.close()


def plain_report(**more: Any) -> dict[str, Any]:
    """A report as a program of somebody else would write it."""
    return {"version": 1, "ticket": "", "nonce": "n", "seen": True, **more}


def renamed(one: PilotSpec, name: str) -> PilotSpec:
    return replace(one, name=PilotName(name))


def text(value: object) -> bytes:
    return json.dumps(value).encode()
