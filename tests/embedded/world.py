"""A home with a store, a pool server and real pilots, and one way to wait: with a deadline."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from glidepath.core.quantity import Instant, Resources, Traits
from glidepath.embedded.records import job_log
from glidepath.embedded.server import PoolServer, socket_path
from glidepath.pilot import pilot_file
from glidepath.pilot.remains import sweep
from glidepath.store.engine import open_store
from glidepath.store.job import OVER, Job, JobSpec
from glidepath.store.jobs import JobStore
from glidepath.store.migrations import migrate

WAIT_S_MAX = 120.0
ONE_CPU = Resources(1000, 512)
TWO_CPUS = Resources(2000, 2048)


def until(what: str, met: Callable[[], object], *, wait_s: float = WAIT_S_MAX) -> None:
    """The one place where tests wait."""
    deadline = time.monotonic() + wait_s
    while not met():
        if time.monotonic() > deadline:
            raise AssertionError(f"within {wait_s:g} s it did not happen that {what}")
        time.sleep(0.02)


class SteadyClock:
    def now(self) -> Instant:
        return Instant(int(time.monotonic()))

    def wall(self) -> float:
        return time.time()


class World:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.home.mkdir(parents=True, exist_ok=True)
        self.clock = SteadyClock()
        self.store_url = f"sqlite:///{home}/glidepath.db"
        self.store = open_store(self.store_url)
        migrate(self.store)
        self.jobs = JobStore(self.store, self.clock)
        self.server: PoolServer | None = None
        self.pilots: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self) -> PoolServer:
        self.server = PoolServer(self.store, self.home, {"here": ("here",)}, clock=self.clock)
        self.server.start()
        return self.server

    def stop_serving(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def pilot(self, name: str, *options: str, size: Resources = TWO_CPUS) -> Path:
        """Start a pilot as a child of this test, so that its end can be waited for."""
        folder = self.home / "pilots" / name
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-I", str(pilot_file(self.home)), "--name", name, "--folder", str(folder)]
        command += ["--socket", str(socket_path(self.home)), "--pool", "here"]
        command += ["--cpus-milli", str(size.cpu_milli), "--memory-mib", str(size.memory_mib), *options]
        with (folder / "pilot.log").open("ab") as log:
            self.pilots[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return folder

    def submit(
        self,
        *command: str,
        request: Resources = ONE_CPU,
        run_s_max: int | None = None,
        retries_max: int = 3,
        traits: Traits = (),
    ) -> int:
        spec = JobSpec(
            "here",
            "ada",
            command,
            request=request,
            run_s_max=run_s_max,
            retries_max=retries_max,
            traits=traits,
        )
        job = self.jobs.submit(spec)
        if self.server is not None:
            self.server.wake()
        return job

    def python(self, code: str, **options: int) -> int:
        return self.submit(sys.executable, "-c", code, run_s_max=options.get("run_s_max"))

    def over(self, *ids: int) -> list[Job]:
        """The jobs, once all of them are over."""
        until(f"jobs {ids} are over", lambda: all(self.jobs.get(job).state in OVER for job in ids))
        return [self.jobs.get(job) for job in ids]

    def log(self, job: int, stream: str = "stdout") -> str:
        return job_log(self.home, job, self.jobs.get(job).attempt, stream=stream)

    def output(self, job: int, words: str) -> None:
        """Wait until the job has written these words."""

        def written() -> bool:
            try:
                return words in self.log(job)
            except LookupError:
                return False

        until(f"job {job} wrote {words!r}", written)

    def send(self, name: str, number: signal.Signals) -> None:
        self.pilots[name].send_signal(number)

    def ended(self, name: str, *, wait_s: float = WAIT_S_MAX) -> dict[str, object]:
        """The summary of a pilot, once it has left."""
        assert self.pilots.pop(name).wait(wait_s) == 0
        found: dict[str, object] = json.loads((self.home / "pilots" / name / "summary.json").read_text())
        return found

    def close(self) -> None:
        names = list(self.pilots)
        for pilot in self.pilots.values():
            pilot.kill()
            pilot.wait(WAIT_S_MAX)
        self.stop_serving()
        self.store.close()
        assert all(sweep(name, self.home.resolve()) for name in names)
