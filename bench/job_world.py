"""A home with a whole `glidepath up` whose cluster has no processes, its store, and jobs for both queues."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bench.job_door import RUN_S, nodes_kept
from bench.placement_worlds import cluster_of, jobs_of
from glidepath.clock import SteadyClock
from glidepath.core.place.record import Phase
from glidepath.core.schedule.job import Job
from glidepath.jobs.caller import Caller, Role
from glidepath.people.register import Register
from glidepath.store.engine import Store, open_store
from glidepath.store.job import JobSpec
from glidepath.store.job_rows import jobs
from glidepath.store.jobs import number_on
from glidepath.store.migrations import migrate
from glidepath.store.placed import PlacedStore
from glidepath.store.placed_spec import PlacedSpec

SERVED = """
[serve]
listen = "127.0.0.1:{port}"
person_calls_per_minute = 1000000
"""
PAPER = """
[clusters.paper]
kind = "local"

[partitions.main]
cluster = "paper"
limit_max = "7d"
"""
START_S_MAX = 180.0
STOP_S_MAX = 30.0
SUBMITTED_AT_ONCE = 500


def spec_of(job: Job, *, run_s: float | None = None) -> PlacedSpec:
    """The same job as a user would submit it."""
    assert job.limit_s is not None
    env = () if run_s is None else ((RUN_S, f"{run_s:g}"),)
    spec = JobSpec(
        partition=str(job.partition),
        owner=str(job.owner),
        command=("work",),
        env=env,
        request=job.ask.size,
        run_s_max=job.limit_s,
    )
    ask = job.ask
    return PlacedSpec(
        spec, job.queue, nodes=ask.nodes, gpu_milli=ask.gpu_milli, gpu_kinds=ask.gpu_kinds, stoppable=False
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Http:
    """Somebody with a token and a connection that is kept."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        text = None if body is None else json.dumps(body)
        self._connection.request(verb, f"/api/v1{path}", text, self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), (verb, path, answer.status, said[:300])
        found: dict[str, Any] = json.loads(said)
        return found

    def close(self) -> None:
        self._connection.close()


class Home:
    """A folder with a configuration, a store and, while `up` is entered, a scheduler."""

    def __init__(self, folder: Path, *, clusters: str = PAPER, program: str = "bench.job_door") -> None:
        self.folder, self.program = folder, program
        self.config = folder / "glidepath.toml"
        self.port = free_port()
        self.config.write_text(SERVED.format(port=self.port) + clusters)
        self.store: Store = open_store(f"sqlite:///{folder / 'glidepath.db'}")
        migrate(self.store)
        number_on(self.store, folder)
        self.jobs = PlacedStore(self.store, SteadyClock())
        register, admin = Register(self.store, time.time), Caller("bench", Role.ADMIN)
        register.add(admin, "ann", Role.ADMIN.word)
        self.token = str(register.issue(admin, "ann")["text"])

    def caller(self) -> Http:
        return Http(self.port, self.token)

    def submit_all(self, specs: list[PlacedSpec]) -> None:
        for first in range(0, len(specs), SUBMITTED_AT_ONCE):
            self.jobs.submit_many([(spec, "") for spec in specs[first : first + SUBMITTED_AT_ONCE]])

    def count(self, phase: Phase) -> int:
        return sum(count for (_, _, found), count in self.jobs.counts().items() if found == phase.value)

    def live(self) -> int:
        """How many are not over."""
        return sum(self.jobs.counts().values())

    def cpu_milli(self) -> dict[int, int]:
        """What each job asks for, by its number."""
        with self.store.read() as conn:
            return {row.id: row.cpu_milli for row in conn.execute(select(jobs.c.id, jobs.c.cpu_milli))}

    def until(self, what: Callable[[], bool], why: str) -> None:
        until = time.monotonic() + START_S_MAX
        while not what():
            assert time.monotonic() < until, why
            time.sleep(0.2)

    def ready(self) -> None:
        """Everything that fits runs, the scheduler rests, and the server answers."""
        self.until(lambda: self.count(Phase.RUNNING) > 0 and not self.count(Phase.STARTING), "nothing runs")
        self.until(self.answers, "the server does not answer")

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[bytes]]:
        """The whole program; machine code is made, as it is for a cluster of many nodes."""
        words = ["up", "--home", str(self.folder), "--config", str(self.config), "--plain"]
        log = (self.folder / "up.log").open("wb")
        child = subprocess.Popen(
            [sys.executable, "-m", self.program, *words],
            stdout=log,
            stderr=log,
            env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
            cwd=Path(__file__).parents[1],
        )
        try:
            yield child
        finally:
            child.terminate()
            child.wait(STOP_S_MAX)
            log.close()


def full(folder: Path, *, nodes: int, waiting: int, interactive: int) -> Home:
    """Nodes that are taken to the last, and so many jobs more."""
    home = Home(folder)
    cluster = cluster_of(nodes)
    nodes_kept(folder, cluster)
    home.submit_all([spec_of(job) for job in jobs_of(4 * nodes, 5, interactive=0, prefix="r")])
    home.submit_all([spec_of(job) for job in jobs_of(waiting, interactive=interactive)])
    return home
