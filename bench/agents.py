"""Five hundred sites that call, each every half minute: what the demand server needs for it, how quickly it
answers, and what the loop notices of it.

A real `glidepath serve` on loopback, a store on the disk, reports with pilots in them. The loop's cycle
(observe, look and decide over the same sites) is timed without and with the callers, in turns.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.machine import header
from glidepath.assembly import doors_of, memory_after
from glidepath.clock import SteadyClock
from glidepath.config import Settings, load
from glidepath.config.settings import Settings as SettingsModel
from glidepath.ports import Place
from glidepath.provisioner import Provisioner
from glidepath.store.engine import open_store
from glidepath.store.jobs import number_on
from glidepath.store.migrations import migrate
from glidepath.store.site_tokens import AGENT, SiteTokens

SITES = 500
PILOTS = 20
POLL_S = 30
TURNS = 3
TURN_S = 40
CALLERS = 32
CORES_MAX = 1.0
P99_MS_MAX = 100.0
SLOWER_MAX = 1.10
START_S_MAX = 60.0
CONFIG = """
[serve]
listen = "127.0.0.1:{port}"
calls_per_minute = 6000

[cycle]
deadline = "60s"

[pools.local]
kind = "embedded"
"""
SITE = """
[sites.site-{n}]
kind = "called"

[sites.site-{n}.called]
silent_after = "10m"

[sites.site-{n}.offers.a]
cpus = 1
memory = "1GiB"
disk = "1GiB"
"""


class Caller:
    """One site's agent, as far as the server can tell."""

    def __init__(self, port: int, site: str, token: str) -> None:
        self.port, self.site, self.token = port, site, token
        self.ticket = ""

    def call(self) -> float:
        """Seconds until the whole answer was there."""
        body = json.dumps(
            {"version": 1, "ticket": self.ticket, "nonce": "n", "seen": True, "pilots": self._pilots()}
        )
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request("POST", f"/api/v1/sites/{self.site}/call", body, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        took_s = time.perf_counter() - began
        assert answer.status in (200, 409), (answer.status, text[:300])
        self.ticket = json.loads(text)["ticket"]
        return took_s

    def _pilots(self) -> list[dict[str, object]]:
        return [
            {
                "name": f"gp-bench-{self.site}-{n}",
                "offer": f"{self.site}/a",
                "pool": "local",
                "size": [1000, 1024, 1024, 0],
                "state": "running",
                "since_s": 60,
                "asked_s": 90,
                "native_id": str(n),
                "node": f"n{n}",
                "left_s": 3600,
            }
            for n in range(PILOTS)
        ]


class Load:
    """All agents, each at its own moment of every half minute, until it is stopped."""

    def __init__(self, callers: list[Caller]) -> None:
        chance = random.Random(7)
        self.callers = [(chance.uniform(0, POLL_S), caller) for caller in callers]
        self.took_s: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        due = sorted((at, n) for n, (at, _) in enumerate(self.callers))
        with ThreadPoolExecutor(CALLERS) as pool:
            while not self._stop.is_set():  # Until the measurement is over.
                at, n = due.pop(0)
                due.append((at + POLL_S, n))
                wait_s = began + at - time.monotonic()
                if wait_s > 0 and self._stop.wait(wait_s):
                    return
                pool.submit(self._one, self.callers[n][1])

    def _one(self, caller: Caller) -> None:
        self.took_s.append(caller.call())


@contextmanager
def serving(home: Path, config: Path, port: int) -> Iterator[int]:
    """The server's process number."""
    command = [sys.executable, "-m", "glidepath", "serve", "--home", str(home), "--config", str(config)]
    child = subprocess.Popen([*command, "--until-eof"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_S_MAX
        while not _listens(port):
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.1)
        yield child.pid
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(START_S_MAX)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Beside:
    """The callers in a process of their own, so that they do not share an interpreter with the loop."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        command = [sys.executable, "-m", "bench.agents", "--call", str(port)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        )
        self._tokens = tokens
        self.took_s: list[float] = []

    def __enter__(self) -> Beside:
        assert self._child.stdin is not None
        print(json.dumps(self._tokens), file=self._child.stdin, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        text, _ = self._child.communicate("stop\n", timeout=120)
        self.took_s = json.loads(text)


def call_until_told(port: int) -> int:
    """What the process beside us does: its orders come on standard input, its figures go to the output."""
    tokens = json.loads(sys.stdin.readline())
    with Load([Caller(port, site, token) for site, token in tokens.items()]) as load_:
        sys.stdin.readline()
    print(json.dumps(load_.took_s))
    return 0


def cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cycler(settings: Settings, home: Path) -> Callable[[], float]:
    """One look of the loop at all sites, and the decision; its processor and wall seconds."""
    clock = SteadyClock()
    place = Place(home, f"sqlite:///{home}/glidepath.db", (("local", "local"),))  # type: ignore[arg-type]
    doors, rules, policy = doors_of(settings, place, clock, lambda: ())
    provisioner = Provisioner(doors, rules, policy)
    memory = memory_after(None, clock.now())

    def cycle() -> float:
        began = time.perf_counter()
        picture = provisioner.look(provisioner.observe(memory), memory)
        provisioner.decide(picture)
        return time.perf_counter() - began

    return cycle


def cycles(cycle: Callable[[], float], for_s: float) -> list[float]:
    until, found = time.monotonic() + for_s, []
    while time.monotonic() < until:
        found.append(cycle())
        time.sleep(1.0)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.agents")
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--call", type=int, metavar="PORT", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.call:
        return call_until_told(asked.call)
    print(header("python -m bench.agents"))
    with tempfile.TemporaryDirectory(prefix="gp-agents-") as folder:
        return measured(Path(folder), asked.sites, asked.turns)


def measured(home: Path, sites: int, turns: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = home / "glidepath.toml"
    config.write_text(CONFIG.format(port=port) + "".join(SITE.format(n=n) for n in range(sites)))
    settings: SettingsModel = load(config).settings
    with open_store(f"sqlite:///{home}/glidepath.db") as store:
        migrate(store)
        number_on(store, home)
        tokens = SiteTokens(store)
        names = [f"site-{n}" for n in range(sites)]
        issued = [tokens.issue(name, use=AGENT, by="bench", note="", wall=time.time())[1] for name in names]
    callers = [Caller(port, name, token) for name, token in zip(names, issued, strict=True)]
    with serving(home, config, port) as pid:
        for caller in callers:  # The first brings the ticket, the second the listing.
            caller.call()
            caller.call()
        cycle = cycler(settings, home)
        cycle()
        quiet: list[float] = []
        busy: list[float] = []
        took_s: list[float] = []
        cores: list[float] = []
        for _ in range(turns):
            quiet += cycles(cycle, TURN_S)
            before, began = cpu_s(pid), time.monotonic()
            with Beside(port, dict(zip(names, issued, strict=True))) as load_:
                busy += cycles(cycle, TURN_S)
            cores.append((cpu_s(pid) - before) / (time.monotonic() - began))
            took_s += load_.took_s
    return told(took_s, cores, quiet, busy)


def told(took_s: list[float], cores: list[float], quiet: list[float], busy: list[float]) -> int:
    ordered = sorted(took_s)
    p99_ms = 1000 * ordered[int(0.99 * (len(ordered) - 1))]
    used = max(cores)
    without, beside = statistics.median(quiet), statistics.median(busy)
    slower = beside / without
    print(f"{len(took_s)} calls: median {1000 * statistics.median(ordered):.1f} ms, p99 {p99_ms:.1f} ms")
    print(f"the server used {used:.2f} of a core (target {CORES_MAX:g}); p99 target {P99_MS_MAX:g} ms")
    print(f"a cycle over all sites: {without:.2f} s without callers, {beside:.2f} s with: {slower:.2f} times")
    good = used <= CORES_MAX and p99_ms < P99_MS_MAX and slower <= SLOWER_MAX
    print("met" if good else "missed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
