"""Files instead of calls: signed, carried by anybody, late or twice, and each used once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent_builders import Served, served, spec
from agent.test_agent_turn import WEST, Queue, agent_of
from glidepath.agent.drop import DropExchange
from glidepath.agent.exchange import NotHeard
from glidepath.agent.turn import Agent
from glidepath.called.backend import CalledBackend
from glidepath.called.settings import CalledSettings
from glidepath.core.provision.pilot import SiteState
from glidepath.ports import Place
from glidepath.serve.drops import Drops


class Carried:
    """A folder at each end, and whoever carries files between them."""

    def __init__(self, world: Served, home: Path) -> None:
        self.world, self.here, self.there = world, home / "site", home / "server"
        for folder in (self.here, self.there):
            folder.mkdir(parents=True)
        self.token = world.token()
        path = home / "token"
        path.touch(mode=0o600)
        path.write_text(self.token)
        self.said: list[str] = []
        self.drops = Drops(world.desk, {"west": self.there}, self.said.append)
        self.queue = Queue()
        self.agent: Agent = agent_of(home / "agent", self.queue, DropExchange(self.here, "west", path))
        self.site = CalledBackend(WEST, CalledSettings(), Place(world.home, world.url_of_store))

    def carry(self) -> None:
        """Both ways, as `rsync` would, with the server's look in between."""
        if (self.here / "report.json").exists():
            shutil.copy(self.here / "report.json", self.there / "report.json")
        self.drops.look()
        if (self.there / "orders.json").exists():
            shutil.copy(self.there / "orders.json", self.here / "orders.json")

    def round(self) -> None:
        self.agent.turn()
        self.carry()

    def submit(self, name: str = "p1") -> None:
        self.site.submit(spec(name, asked_at=self.world.desk.clock().now()))


@pytest.fixture
def carried(tmp_path: Path) -> Iterator[Carried]:
    with served(tmp_path / "home") as world:
        made = Carried(world, tmp_path)
        yield made
        made.site.close()


def test_a_pilot_is_asked_for_and_reported_by_files_alone(carried: Carried) -> None:
    carried.round()
    carried.submit()
    for _ in range(8):
        carried.round()
    assert carried.queue.acts == [("submit", "p1")]
    listing = carried.site.list(now=carried.world.desk.clock().now())
    assert [(p.name, p.state) for p in listing.pilots] == [("p1", SiteState.PENDING)]


def test_files_that_come_again_do_nothing(carried: Carried, tmp_path: Path) -> None:
    carried.round()
    carried.submit()
    for _ in range(3):
        carried.round()
    old = tmp_path / "old"
    shutil.copytree(carried.there, old)
    for _ in range(5):
        carried.round()
    before = carried.world.desk.post.tray(WEST)
    for _ in range(3):
        shutil.copy(old / "report.json", carried.there / "report.json")
        shutil.copy(old / "orders.json", carried.here / "orders.json")
        carried.drops.look()
        carried.agent.turn()
    assert carried.queue.acts == [("submit", "p1")]
    assert carried.world.desk.post.tray(WEST).calls == before.calls


@pytest.mark.parametrize("change", ["body", "signature", "site", "token", "what", "no JSON"])
def test_a_file_that_was_changed_on_the_way_is_not_used(carried: Carried, change: str) -> None:
    carried.round()
    for _ in range(2):
        carried.round()
    calls = carried.world.desk.post.tray(WEST).calls
    carried.agent.turn()
    path = carried.here / "report.json"
    told = json.loads(path.read_text())
    if change == "body":
        told["body"] = told["body"].replace('"seen":true', '"seen":false')
    elif change == "signature":
        told["signature"] = "0" * 64
    elif change != "no JSON":
        told[change] = {"site": "east", "token": "aaaaaaaa", "what": "orders"}[change]
    (carried.there / "report.json").write_text("{" if change == "no JSON" else json.dumps(told))
    carried.drops.look()
    assert carried.world.desk.post.tray(WEST).calls == calls
    assert "the file of `west` is not used" in carried.said[-1]


def test_a_revoked_token_signs_nothing(carried: Carried) -> None:
    carried.round()
    calls = carried.world.desk.post.tray(WEST).calls
    carried.world.tokens.revoke(carried.token.split(".")[2], wall=1.0)
    for _ in range(3):
        carried.round()
    assert carried.world.desk.post.tray(WEST).calls == calls
    assert "not that of a token in force" in carried.said[-1]


def test_orders_that_were_changed_on_the_way_start_nothing(carried: Carried) -> None:
    carried.round()
    carried.submit()
    for _ in range(2):
        carried.round()
    path = carried.here / "orders.json"
    told = json.loads(path.read_text())
    told["body"] = told["body"].replace("p1", "p2")
    path.write_text(json.dumps(told))
    acts = list(carried.queue.acts)
    with pytest.raises(NotHeard, match="is not used"):
        carried.agent.turn()
    assert carried.queue.acts == acts
