"""How fast the embedded pool is: jobs of `true` through two pilots, everything durable.

`python -m bench.embedded` prints jobs per second, from the first claim possible to the last exit record kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from glidepath.core.quantity import Instant, Resources
from glidepath.embedded.server import PoolServer, socket_path
from glidepath.pilot import pilot_file
from glidepath.store.engine import open_store
from glidepath.store.job import JobSpec, JobState
from glidepath.store.jobs import JobStore
from glidepath.store.migrations import migrate

PILOTS = 2
SLOTS = 4
RUN_S_MAX = 300
TARGET_PER_S = 100


class BenchClock:
    def now(self) -> Instant:
        return Instant(int(time.monotonic()))

    def wall(self) -> float:
        return time.time()


def pilot_command(home: Path, name: str) -> list[str]:
    folder = home / "pilots" / name
    folder.mkdir(parents=True)
    size = ["--cpus-milli", str(SLOTS * 1000), "--memory-mib", str(SLOTS * 512)]
    place = ["--folder", str(folder), "--socket", str(socket_path(home)), "--pool", "bench"]
    return [sys.executable, "-I", str(pilot_file(home)), "--name", name, *place, *size, "--idle-s", "600"]


def measure(home: Path, count: int) -> float:
    """Seconds from the submission of all jobs to the last of them being durably done."""
    clock = BenchClock()
    with open_store(f"sqlite:///{home}/glidepath.db") as store:
        migrate(store)
        jobs = JobStore(store, clock)
        server = PoolServer(store, home, {"bench": ("bench",)}, clock=clock)
        server.start()
        pilots = [
            subprocess.Popen(pilot_command(home, f"bench-{n}"), stdout=subprocess.DEVNULL)
            for n in range(PILOTS)
        ]
        try:
            spec = JobSpec("bench", "bench", ("true",), request=Resources(1000, 512))
            began = time.monotonic()
            jobs.submit_many([spec] * count)
            server.wake()
            while jobs.counts("bench").get(JobState.DONE, 0) < count:
                if time.monotonic() - began > RUN_S_MAX:
                    raise TimeoutError(f"{count} jobs did not end within {RUN_S_MAX} s")
                time.sleep(0.05)
            return time.monotonic() - began
        finally:
            for pilot in pilots:
                pilot.terminate()
            for pilot in pilots:
                pilot.wait(20)
            server.stop()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    args = parser.parse_args(argv)
    from bench.machine import header

    print(header(f"python -m bench.embedded --jobs {args.jobs}"))
    with tempfile.TemporaryDirectory(prefix="glidepath-bench-") as folder:
        seconds = measure(Path(folder), args.jobs)
    rate = args.jobs / seconds
    print(
        f"{args.jobs} jobs of `true` through {PILOTS} pilots of {SLOTS} slots: {seconds:.2f} s, "
        f"{rate:.0f} jobs/s (target {TARGET_PER_S} or more)"
    )
    return 0 if rate >= TARGET_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
