"""Memory under bad input, for as long as one likes: `glidepath up` with its server must not grow.

Hostile requests, clients that never read, tokens that are not in force, bodies beyond the bound, requests
that are torn, and beside them people who submit and cancel. What both processes have in memory is told each
minute; the slope is that of the least squares after a warm-up, in which pools of threads and what is kept for
speed fill up.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.job_hostile import Scene, at_work, submits, wrong
from bench.job_world import Home
from bench.machine import header
from glidepath.core.schedule.follow import OVER_ROWS_MAX
from glidepath.core.units import duration_s, shown_duration
from glidepath.jobs.caller import Caller, Role
from glidepath.people.register import TOKEN_S_MIN, Register
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

FOR, WARM_UP = "20m", "6m"
SLOPE_MAX_MB_PER_H = 5.0
TOLD_S, LOOK_S = 60.0, 2.0
HOUR_S, MB = 3600.0, 1e6
FILLED, AT_ONCE = OVER_ROWS_MAX + 500, 8
CLUSTERS = """
[keep]
log_size = "64MiB"

[clusters.here]
kind = "local"
cpus = 4
memory = "2GiB"

[partitions.main]
cluster = "here"
limit_max = "7d"
"""
# It has all there is, so that others wait, and writes for as long as it runs.
WRITES = "while :; do yes 0123456789abcdef | head -c 200000; sleep 0.2; done"


@dataclass
class Series:
    """Memory in use over time, process by process."""

    seconds: list[float] = field(default_factory=list)
    used: dict[str, list[float]] = field(default_factory=dict)

    def take(self, at_s: float, pids: dict[str, int]) -> None:
        self.seconds.append(at_s)
        for name, pid in pids.items():
            self.used.setdefault(name, []).append(rss_bytes(pid) / MB)

    def slope(self, name: str, after_s: float) -> float:
        """MB in an hour, by least squares."""
        rows = zip(self.seconds, self.used[name], strict=True)
        kept = [(at_s, used) for at_s, used in rows if at_s >= after_s]
        hours, used = [at_s / HOUR_S for at_s, _ in kept], [each for _, each in kept]
        return statistics.linear_regression(hours, used).slope

    def line(self) -> str:
        now = ", ".join(f"{name} {used[-1]:.1f} MB" for name, used in self.used.items())
        return f"{self.seconds[-1] / 60:5.1f} min: {now}"


def rss_bytes(pid: int) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(row.split()[1]) for row in rows if row.startswith("VmRSS:"))


def server_of(parent: int) -> int:
    """The server beside it."""
    for entry in Path("/proc").iterdir():
        try:
            about = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(about[1]) == parent and b"serve" in words:
            return int(entry.name)
    raise AssertionError("there is no server")


def dead_tokens(home: Home, folder: Path) -> tuple[str, ...]:
    """One that is over in a minute, one that was revoked, one of another store."""
    admin = Caller("bench", Role.ADMIN)
    register = Register(home.store, time.time)
    brief = register.issue(admin, "ann", for_s=TOKEN_S_MIN)
    revoked = register.issue(admin, "ann")
    register.revoke(admin, revoked["name"])
    with open_store(f"sqlite:///{folder / 'other.db'}") as other:
        migrate(other)
        others = Register(other, time.time)
        others.add(admin, "ann", Role.ADMIN.word)
        foreign = others.issue(admin, "ann")
    return tuple(str(each["text"]) for each in (brief, revoked, foreign))


def machine_code_made() -> None:
    """Before anything is measured: a program that makes it in itself keeps 300 MB that its compiler took."""
    made = "from glidepath.core.schedule.rehearsal import rehearse; rehearse()"
    subprocess.run([sys.executable, "-c", made], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "0"})


def soaked(folder: Path, for_s: int) -> tuple[Series, Scene]:
    home, series = Home(folder, clusters=CLUSTERS, program="glidepath"), Series()
    dead = dead_tokens(home, folder)
    with home.up() as child:
        home.until(home.answers, "the server did not start")
        caller = home.caller()
        limit = f"{for_s + 600}s"
        wish = {"partition": "main", "cpus": 4, "mem": "1GiB", "time": limit, "command": ["sh", "-c", WRITES]}
        writer = caller.ask("POST", "/jobs", wish)["jobs"][0]["id"]
        caller.close()
        pids = {"up": child.pid, "serve": server_of(child.pid)}
        scene = Scene(home.port, home.token, dead, writer)
        issued = time.monotonic()
        # What plans keep of jobs that are over has a bound, and is full from here on.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda seed: submits(scene, random.Random(seed)), range(FILLED)))
        time.sleep(max(0.0, issued + TOKEN_S_MIN + 1 - time.monotonic()))  # Until the brief one is over.
        began = told = time.monotonic()
        try:
            with at_work(scene):
                while (at_s := time.monotonic() - began) < for_s:
                    series.take(at_s, pids)
                    if time.monotonic() - told >= TOLD_S:
                        told = time.monotonic()
                        print(f"{series.line()}; load {os.getloadavg()[0]:.1f}", flush=True)
                    time.sleep(LOOK_S)
        finally:
            home.caller().ask("POST", f"/jobs/{writer}/cancel")
            home.until(lambda: not home.live(), "the writer did not end")
    return series, scene


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.job_soak", description=__doc__)
    parser.add_argument("--for", dest="length", type=duration_s, default=duration_s(FOR), help=FOR)
    parser.add_argument("--warm-up", type=duration_s, default=duration_s(WARM_UP), help=WARM_UP)
    asked = parser.parse_args(words)
    if asked.warm_up >= asked.length:
        parser.error("the warm-up is shorter than all of it")
    print(header("python -m bench.job_soak"), flush=True)
    machine_code_made()
    with tempfile.TemporaryDirectory(prefix="gp-soak-") as folder:
        series, scene = soaked(Path(folder), asked.length)
    for (who, status), count in sorted(scene.counts.items()):
        print(f"  {who}: {count:,} times {status or 'no answer'}")
    slopes = {name: series.slope(name, asked.warm_up) for name in series.used}
    whole = sum(slopes.values())
    after = f"in {shown_duration(asked.length)}, the first {shown_duration(asked.warm_up)} left out"
    print(f"slope {after}: {', '.join(f'{name} {each:+.1f}' for name, each in slopes.items())}; ", end="")
    print(f"together {whole:+.1f} MB an hour (target below {SLOPE_MAX_MB_PER_H:g})")
    odd = wrong(scene)
    for each in odd:
        print(f"  {each}")
    return 1 if odd or whole >= SLOPE_MAX_MB_PER_H else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
