"""A server of jobs on loopback over a real store, and a cluster in memory; tests take its turns."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from agent.agent_builders import Served
from glidepath.config import Settings
from glidepath.core.place.rank import ClusterName
from glidepath.core.place.turn import Rules
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Partition, PartitionName
from glidepath.jobs.stored import StoredDesk
from glidepath.people.known import People
from glidepath.people.register import Register
from glidepath.serve.api import Api, Paces
from glidepath.serve.app import STRANGERS_PER_MINUTE, application
from glidepath.serve.pace import Pace
from glidepath.store.people import PeopleStore, Person, Project
from placing.placing_world import PlacingWorld, Time

TOKEN_DAYS = 30
SETTINGS: dict[str, Any] = {
    "pools": {"pool": {"kind": "embedded"}},
    "clusters": {"lab": {"kind": "local", "nodes": 2, "cpus": 4, "memory": "8GiB"}},
    "partitions": {
        "main": {"cluster": "lab", "limit_max": "1d", "endless": True},
        "pulled": {"pool": "pool"},
    },
    "notices": {
        "smtp": {"server": "127.0.0.1:9", "sender": "glidepath@example.org"},
        "webhooks": True,
        "networks": ["127.0.0.0/8"],
    },
}


class ApiServer(Served):
    """People ask over HTTP; `turn` lets the scheduler look once."""

    def __init__(self, home: Path, *, strangers_per_minute: int = STRANGERS_PER_MINUTE) -> None:
        self.strangers_per_minute = strangers_per_minute
        self.held: dict[str, str] = {}
        super().__init__(home, Settings.model_validate(SETTINGS))
        rules = Rules(ClusterName("lab"), (Partition(PartitionName("main"), (), endless=True),))
        self.place = PlacingWorld(home, url=self.url_of_store, rules=rules)
        self.place.time = _Now(self)
        self.place.cluster.time = self.place.time
        self.place.live()
        self.place.turn(after_s=0)

    def made(self) -> Starlette:
        self.people_store = PeopleStore(self.store)
        self.people = People(self.store)
        self.jobs = StoredDesk(self.desk.settings, self.store, self.home)
        strangers = Pace(self.strangers_per_minute, steady=time.monotonic)
        paces = Paces(Pace(1_000_000, steady=time.monotonic), strangers)
        register = Register(self.store, time.time, self.people.forget)
        self.api = Api(self.jobs, self.people, register, paces)
        return application(self.desk, self.api)

    def person(self, name: str, role: str, projects: tuple[str, ...] = ()) -> str:
        """Somebody new, and a token of theirs."""
        wall = time.time()
        self.people_store.add(Person(name, role, "root", wall))
        for project in projects:
            self.people_store.add_project(Project(project, "root", wall))
            self.people_store.join(name, project, by="root", wall=wall)
        ends_wall = wall + TOKEN_DAYS * 86400
        _, self.held[name] = self.people_store.issue(name, by="root", note="", wall=wall, ends_wall=ends_wall)
        return self.held[name]

    def leave(self, name: str) -> None:
        self.people_store.leave(name, wall=time.time())
        self.people.forget()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        who: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = dict(headers or {})
        if who:
            sent["Authorization"] = f"Bearer {self.held[who]}"
        try:
            connection.request(method, f"/api/v1{path}", body, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        wish: Any = None,
        *,
        who: str = "",
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """The status and what the JSON says."""
        body = json.dumps(wish).encode() if wish is not None else raw
        code, _, said = self.request(method, path, body, who=who, headers=headers)
        return code, json.loads(said)

    def read(self, path: str, *, who: str) -> tuple[dict[str, str], bytes]:
        code, headers, content = self.request("GET", path, who=who)
        assert code == 200, content
        return headers, content

    def ran(self, who: str, *, stdout: bytes) -> int:
        """A job that ran to its end and wrote this."""
        code, said = self.ask("POST", "/jobs?wait=0", {"command": ["true"], "partition": "main"}, who=who)
        assert code == 201, said
        job = int(said["jobs"][0]["id"])
        self.place.cluster.runs_s[job] = 0
        for _ in range(10):
            self.place.turn(after_s=0)
        assert self.place.stands(job) == "done"
        folder = self.home / "jobs" / str(job) / "1" / "0"
        folder.mkdir(parents=True)
        (folder / "stdout").write_bytes(stdout)
        return job

    def close(self) -> None:
        super().close()
        self.place.close()


class _Now(Time):
    """The timeline that the server's desk goes by."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(int(server.desk.clock().now()))
        self._clock = server.desk.clock()

    def now(self) -> Instant:
        self.at = int(self._clock.now())
        return Instant(self.at)

    def wall(self) -> float:
        return time.time()


@contextmanager
def api_server(home: Path, **more: Any) -> Iterator[ApiServer]:
    home.mkdir(parents=True, exist_ok=True)
    made = ApiServer(home, **more)
    try:
        yield made
    finally:
        made.close()
