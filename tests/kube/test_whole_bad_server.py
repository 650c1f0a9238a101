"""A whole glidepath whose clusters misbehave, each in its own way, all at the same time.

One `glidepath up` has a site for each fault, and a good one beside them. Whatever the servers say, they are
asked seldom, no pilot appears, vanishes, doubles or is deleted for it, and people read what is wrong.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kube.bad_server import FAULTS, LOST_ANSWERS, RETRY_AFTER_S, BadServer
from kube.stand_in import Papers, papers
from whole.running import WAIT_S, Running, glidepath, house

EACH = 2  # pilots of each site
IDLE_JOBS = 500
# A fault shows when what was heard before it is too old to be believed.
SHOWN_S_MAX = 60.0
BELIEVED_S = 20
# However long a server is broken here: it is asked less and less.
REQUESTS_MAX = 25
# In any one second: two turns, and the pages of one list.
AT_ONCE_MAX = 4
CYCLES_MIN = 10
FRESH_S_MAX = 15
POLL_S = 1.0

CONFIG = """
[cycle]
min = "1s"
max = "2s"
deadline = "10s"

[pilots]
withdraw_after = "1h"

[pools.standing]
kind = "standing"

[pools.standing.standing]
file = "{file}"
"""
SITE = """
[sites.{name}]
kind = "kubernetes"
repeat_within = "0s"

[sites.{name}.kubernetes]
kubeconfig = "{kubeconfig}"
image = "images.example/pilot:1"
token_secret = "pool-token"

[sites.{name}.offers.worker]
cpus = 1
memory = "1GiB"
disk = "1GiB"
limits = {{ live_max = {each} }}
"""


class World:
    """One glidepath, its servers by the name of their site, and the file that its pool stands in."""

    def __init__(self, home: Path, made: Papers, servers: Mapping[str, BadServer]) -> None:
        self.home, self.servers = home, servers
        self.file, self.config = home / "pool.json", home / "glidepath.toml"
        self.stand(idle=0)
        text = CONFIG.format(file=self.file)
        for name, server in servers.items():
            access = home / f"{name}.yaml"
            access.write_text(json.dumps(kubeconfig(server, made)))
            text += SITE.format(name=name, kubeconfig=access, each=EACH)
        self.config.write_text(text)
        self.env = {"PYTHONPATH": os.pathsep.join((str(plug_in(home)), str(Path(__file__).parent)))}

    def stand(self, *, idle: int) -> None:
        """So many jobs wait, and every pilot that there is has joined and has one."""
        names = [name for server in self.servers.values() for name in server.names()]
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"idle": idle, "claimed": names}))
        fresh.rename(self.file)

    def ask(self, *words: str) -> Any:
        return json.loads(self.told(*words, "-o", "json"))

    def told(self, *words: str) -> str:
        return glidepath(self.home, *words, "--config", str(self.config), COLUMNS="2000", **self.env)

    def status(self) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]], int]:
        """Sources and notes by site, and the number of the cycle."""
        shown = self.ask("site", "status")
        rows = {row["name"].removeprefix("site "): row for row in shown["sources"]}
        notes: dict[str, list[str]] = {}
        for note in shown.get("notes", ()):
            site, _, words = note.partition(": ")
            notes.setdefault(site, []).append(words)
        cycle = next(name for name in rows if name.startswith("cycle "))
        return {name: rows[name] for name in self.servers if name in rows}, notes, int(cycle.split()[1])

    def pilots(self) -> dict[str, dict[str, str]]:
        """By site, name and phase of each."""
        found: dict[str, dict[str, str]] = {name: {} for name in self.servers}
        for row in self.ask("pilot", "list")["items"]:
            found[row["site"]][row["name"]] = row["phase"]
        return found

    def all_seen(self) -> bool:
        rows, notes, _ = self.status()
        fresh = {name for name, row in rows.items() if row["state"] == "seen" and row["age_s"] <= FRESH_S_MAX}
        return fresh == set(self.servers) and not notes

    def all_broken(self) -> bool:
        rows, _, _ = self.status()
        unseen = {name for name, row in rows.items() if row["state"] == "unseen"}
        return unseen >= set(UNSEEN) and rows["half-open"]["age_s"] > BELIEVED_S

    def all_busy(self, *, but: str) -> bool:
        return all(
            len(found) == EACH and set(found.values()) == {"busy"}
            for name, found in self.pilots().items()
            if name != but
        )

    def look(self) -> Look:
        rows, notes, cycle = self.status()
        pods = {name: server.names() for name, server in self.servers.items()}
        return Look(rows, notes, self.told("site", "status"), self.pilots(), pods, cycle)


def kubeconfig(server: BadServer, made: Papers) -> dict[str, Any]:
    authority = base64.b64encode(made.text("ca.crt").encode()).decode()
    return {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "here"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": server.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def plug_in(folder: Path) -> Path:
    """The standing pool, as an installed distribution offers its plug-ins."""
    about = folder / "plug-ins/standing-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: standing\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[glidepath.demand]\nstanding = standing_pool:kind\n")
    return about.parent


@contextmanager
def serving(made: Papers) -> Iterator[BadServer]:
    with BadServer(made.server_side("server")) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Look:
    """What people and servers could tell at one moment."""

    sources: dict[str, dict[str, Any]]
    notes: dict[str, list[str]]
    text: str
    pilots: dict[str, dict[str, str]]
    pods: dict[str, dict[str, str]]
    cycle: int


@dataclass(frozen=True)
class Story:
    """Before the faults, while they lasted, and after."""

    before: Look
    broken: Look
    mended: Look
    requests: dict[str, list[float]]  # while they lasted, in seconds since they began
    created: dict[str, Counter[str]]
    deleted: dict[str, list[str]]
    lost: str  # the pilot of the good site that somebody deleted meanwhile


UNSEEN = {
    "html": "which is no answer of Kubernetes: <html>",
    "truncated": "the stream broke off: it ended before it was whole",
    "busy": "too many requests, please try again later",
    "busy-until": "too many requests, please try again later",
    "expired": "The provided continue parameter is too old",
    "blind": "the stream broke off: it ended before it was whole",
}
SEEN = {"good", "closing", "half-open", *LOST_ANSWERS} - {"blind"}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    made = papers(tmp_path_factory.mktemp("papers"))
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        names = ["good", *FAULTS, *LOST_ANSWERS]
        servers = {name: stack.enter_context(serving(made)) for name in dict.fromkeys(names)}
        for name in LOST_ANSWERS:
            if name not in FAULTS:
                servers[name].break_with(name)  # From the start.
        home = stack.enter_context(house())
        world = World(home, made, servers)
        patch.setenv("PYTHONPATH", world.env["PYTHONPATH"])
        run = Running(home, "--config", str(world.config))
        stack.callback(run.close)
        yield told(world, run)


def told(world: World, run: Running) -> Story:
    servers = world.servers
    until(lambda: bool(run.lines) and world.all_seen(), lambda: run.text)
    # This one breaks between the last list and the first pilot.
    servers["blind"].break_with("blind")
    world.stand(idle=IDLE_JOBS)
    until(lambda: all(len(server.names()) >= EACH for server in servers.values()), lambda: run.text)
    world.stand(idle=IDLE_JOBS)
    until(lambda: world.all_busy(but="blind"), lambda: world.told("site", "status"))
    before, began = world.look(), time.monotonic()
    for name in FAULTS:
        servers[name].break_with(name)
    lost = min(servers["good"].names())
    servers["good"].lose(lost)
    world.stand(idle=IDLE_JOBS)
    time.sleep(BELIEVED_S)  # Before that, what was heard last is believed, and there is nothing to see.
    until(world.all_broken, lambda: world.told("site", "status"), within_s=SHOWN_S_MAX)
    broken = world.look()
    requests = {name: [at - began for at in server.asked_since(began)] for name, server in servers.items()}
    mended = time.monotonic()
    for server in servers.values():
        server.break_with("")
    world.stand(idle=IDLE_JOBS)
    until(
        lambda: all(servers[name].asked_since(mended) for name in UNSEEN) and world.all_seen(),
        lambda: world.told("site", "status"),
        within_s=SHOWN_S_MAX,
    )
    return Story(
        before,
        broken,
        world.look(),
        requests,
        {name: server.created for name, server in servers.items()},
        {name: server.deleted for name, server in servers.items()},
        lost,
    )


def until(met: Callable[[], bool], told: Callable[[], str], *, within_s: float = WAIT_S) -> None:
    """Asks seldom: each question is a command of ours, and the servers have to be heard beside it."""
    deadline = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < deadline, told()
        time.sleep(POLL_S)


def test_people_read_what_is_wrong_and_since_when(story: Story) -> None:
    for name, words in UNSEEN.items():
        row = story.broken.sources[name]
        assert (row["state"], row["age_s"] > BELIEVED_S) == ("unseen", True), row
        assert row["why"].startswith("nothing was heard for "), row
        assert words in row["why"], row
        line = rf"site {name} UNSEEN \S+ \(nothing was heard for \d+ s: [^)]*{re.escape(words)}"
        assert re.search(line, story.broken.text), story.broken.text
    assert "the site cannot be seen, so nothing is done there" in story.broken.text


def test_a_list_of_which_some_cannot_be_read_is_told_as_partial_with_each_reason(story: Story) -> None:
    assert story.broken.sources["malformed"]["state"] == "partial"
    notes = story.broken.notes["malformed"]
    ours = min(story.before.pods["malformed"])
    for name in ("?", "stranger", "stranger-2", ours):
        assert [note for note in notes if note.startswith(f"the pod `{name}` cannot be read: ")], notes
    assert f"note: malformed: the pod `{ours}` cannot be read: " in story.broken.text


def test_streams_that_tell_nothing_show_by_the_age_and_in_words(story: Story) -> None:
    assert story.broken.sources["half-open"]["age_s"] > BELIEVED_S
    assert story.broken.notes["closing"] == [
        "the server ends each stream at once, so what happens there is seen late, by lists"
    ]


def test_a_broken_server_is_asked_seldom(story: Story) -> None:
    assert story.broken.cycle - story.before.cycle >= CYCLES_MIN
    for name, times in story.requests.items():
        assert len(times) <= REQUESTS_MAX, (name, times)
        crowded = max((sum(1 for each in times if at <= each < at + 1) for at in times), default=0)
        assert crowded <= AT_ONCE_MAX, (name, times)


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(story: Story) -> None:
    times = story.requests["busy-until"]
    assert len(times) > 1
    assert min(b - a for a, b in pairwise(times)) >= RETRY_AFTER_S


def test_no_pilot_appears_or_vanishes_while_a_server_is_broken(story: Story) -> None:
    for name in {*FAULTS, *LOST_ANSWERS} - {"blind"}:
        assert (
            story.broken.pilots[name]
            == story.before.pilots[name]
            == dict.fromkeys(story.before.pods[name], "busy")
        ), name
        assert story.broken.pods[name] == story.mended.pods[name] == story.before.pods[name], name
        assert len(story.before.pods[name]) == EACH, name


def test_nothing_is_deleted_and_nothing_doubled(story: Story) -> None:
    for name, created in story.created.items():
        assert set(created.values()) == {1}, (name, created)
        assert len(created) == EACH + (name == "good"), (name, created)
        assert story.deleted[name] in ([], [story.lost]), name


def test_pilots_whose_answers_were_lost_are_asked_for_once_even_where_nothing_is_seen(story: Story) -> None:
    """The limit holds although no list ever showed them."""
    assert story.broken.pilots["blind"].keys() == story.before.pods["blind"].keys()
    assert story.mended.pods["blind"] == story.before.pods["blind"]
    assert set(story.mended.pilots["blind"].values()) == {"busy"}


def test_a_good_site_beside_them_is_served_all_the_time(story: Story) -> None:
    for name in SEEN:
        assert story.broken.sources[name]["state"] == "seen", name
    assert story.lost not in story.broken.pods["good"]
    assert len(story.broken.pods["good"]) == EACH  # Another was started in its place.


def test_once_they_are_mended_all_is_seen_again(story: Story) -> None:
    assert {row["state"] for row in story.mended.sources.values()} == {"seen"}
    assert not any(story.mended.notes.values()), story.mended.notes
    assert "UNSEEN" not in story.mended.text
