"""Submissions by HTTP, one job each, as fast as they are taken: all of them kept, and each answered soon.

A whole `glidepath up` on two cores: the server, the scheduler that plans all the while, and the clients. The
nodes are full, so that every job waits; a turn that knows all of them is over within seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.job_door import nodes_kept
from bench.job_world import Home, spec_of
from bench.machine import header
from bench.placement_worlds import cluster_of, jobs_of
from glidepath.journal.placing import PlacingJournal

NODES = 100
RATE_MIN = 500
PLANNED_S_MAX = 5.0
ANSWER_S_MAX = 60.0
WISH = {"partition": "main", "queue": "batch", "cpus": 2, "mem": "1GiB", "time": "2h", "command": ["true"]}


class Clients:
    """So many connections that are kept open; each submits again when it was answered."""

    def __init__(self, home: Home, connections: int) -> None:
        self.port = home.port
        self.headers = {"Authorization": f"Bearer {home.token}"}
        self.body = json.dumps(WISH).encode()
        self.answers_s: list[float] = []
        self.numbers: list[int] = []
        self.failed: list[str] = []
        self.connections = connections

    def run(self, for_s: float) -> float:
        until = time.monotonic() + for_s
        threads = [threading.Thread(target=self._submit, args=(until,)) for _ in range(self.connections)]
        began = time.monotonic()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return time.monotonic() - began

    def _submit(self, until: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)
        while time.monotonic() < until:
            began = time.monotonic()
            connection.request("POST", "/api/v1/jobs?wait=0", self.body, self.headers)
            answer = connection.getresponse()
            said = answer.read()
            self.answers_s.append(time.monotonic() - began)
            if answer.status == 201:
                self.numbers.append(json.loads(said)["jobs"][0]["id"])
            else:
                self.failed.append(f"{answer.status} {said[:200]!r}")
        connection.close()


def alive(home: Home) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", home.port, timeout=5)
        connection.request("GET", "/api/v1/alive")
        return connection.getresponse().status == 200
    except OSError:
        return False


def planned_s(home: Home) -> float:
    """How long after the last answer a plan is kept that saw all of them."""
    journal, began = PlacingJournal(home.store, "paper", ("main",)), time.monotonic()
    last = home.jobs.newest_event()
    home.until(lambda: journal.seen_event() >= last, "nothing is planned any more")
    return time.monotonic() - began


def measured(folder: Path, *, for_s: float, connections: int) -> dict[str, float]:
    home = Home(folder)
    nodes_kept(folder, cluster_of(NODES))
    home.submit_all([spec_of(job) for job in jobs_of(4 * NODES, 5, interactive=0, prefix="r")])
    with home.up():
        home.until(lambda: alive(home), "the server did not start")
        clients = Clients(home, connections)
        took_s = clients.run(for_s)
        behind_s = planned_s(home)
        kept = {found.id for number in clients.numbers if (found := home.jobs.find(number)) is not None}
    lost = len(set(clients.numbers) - kept) + len(clients.numbers) - len(set(clients.numbers))
    for each in clients.failed[:5]:
        print(f"  refused: {each}")
    quantiles = statistics.quantiles(clients.answers_s, n=20)
    return {
        "rate": len(clients.numbers) / took_s,
        "jobs": len(clients.numbers),
        "refused": len(clients.failed),
        "lost": lost,
        "p50_s": quantiles[9],
        "p95_s": quantiles[18],
        "planned_s": behind_s,
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=16)
    asked = parser.parse_args(words)
    print(header("python -m bench.job_submit"))
    with tempfile.TemporaryDirectory(prefix="gp-") as folder:
        found = measured(Path(folder), for_s=asked.seconds, connections=asked.connections)
    print(
        f"{found['jobs']:.0f} jobs in {asked.seconds:g} s over {asked.connections} connections: "
        f"{found['rate']:.0f} a second (at least {RATE_MIN}), answers p50 {found['p50_s'] * 1000:.1f} ms, "
        f"p95 {found['p95_s'] * 1000:.1f} ms; refused {found['refused']:.0f}, lost {found['lost']:.0f}; "
        f"planned with all {found['planned_s']:.1f} s after the last answer (at most {PLANNED_S_MAX:g})"
    )
    met = found["rate"] >= RATE_MIN and not found["refused"] and not found["lost"]
    return 0 if met and found["planned_s"] <= PLANNED_S_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
