"""A whole glidepath on a real pool: a configuration, `glidepath up` as a person starts it, jobs of users."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from bed.parts.condor import Pool

from whole.running import Running, glidepath, until

WAIT_S = 300.0
RIGHTS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")
# Fast enough to see pilots come and go within a test. Pool and pilots listen on this machine only.
CONFIG = """
[cycle]
min = "1s"
max = "3s"
deadline = "15s"

[policy]
name = "steady"
release_after = "5m"

[pilots]
withdraw_after = "1m"
left_min = "10s"
join_slack = "10s"
useful_min = "30s"

{pools}
[sites.here]
kind = "local"
failures_max = 2

[sites.here.offers.small]
cpus = 2
memory = "1500MiB"
disk = "2GiB"
lifetime = "1h"
idle = "{idle}"
limits = {{ live_max = {live_max} }}

[sites.here.offers.small.condor]
lines = ["NETWORK_INTERFACE = 127.0.0.1", "UPDATE_INTERVAL = 5"]
"""
POOL = """
[pools.{name}]
collector = "{address}"
stale_after = "30s"

[pools.{name}.condor]
trust_domain = "bed.example"
htcondor = "{tree}"
deadline = "{deadline}"

[pools.{name}.condor.tokens]
file = "{token}"
"""
JOB = "executable = /bin/sh\ntransfer_executable = false\nlog = log.$(Cluster)\nrequest_disk = 1000\n"


class Grid:
    def __init__(self, home: Path, pool: Pool) -> None:
        self.home = home
        self.pool = pool
        self.config = home / "glidepath.toml"
        self.runs: list[Running] = []
        self.clusters: list[tuple[Pool, int]] = []
        self.configure(pool)

    def configure(self, *pools: Pool, live_max: int = 2, idle: str = "6s", deadline: str = "8s") -> None:
        tables = ""
        for place, pool in enumerate(pools):
            token = self.home / f"{place}.token"
            token.write_text(pool.token("glidepath-bed@bed.example", RIGHTS) + "\n")
            token.chmod(0o600)
            tree = pool.host_tree()
            named = {"name": f"bed{place or ''}", "address": pool.address, "tree": tree, "token": token}
            tables += POOL.format(**named, deadline=deadline)
        self.config.write_text(CONFIG.format(pools=tables, live_max=live_max, idle=idle))

    def up(self, *words: str) -> Running:
        run = Running(self.home, "--config", str(self.config), *words)
        self.runs.append(run)
        until(lambda: run.process.poll() is not None or self._decided(), self.said, within_s=WAIT_S)
        return run

    def _decided(self) -> bool:
        """Whether a cycle is in the journal."""
        if not (self.home / "glidepath.db").exists():
            return False
        return bool(self.ask("journal", "list")["items"])

    def ask(self, *words: str, code: int = 0) -> Any:
        told = glidepath(self.home, *words, "--config", str(self.config), "-o", "json", code=code)
        return json.loads(told) if told else None

    def pilots(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("pilot", "list")["items"]
        return found

    def asked(self) -> list[str]:
        """The names of all pilots that were ever asked for: those that live and those that are over."""
        # One that ends between the two questions is in both answers.
        return sorted({each["name"] for each in [*self.pilots(), *self.ended()]})

    def ended(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("pilot", "list", "--ended", "--limit", "1000")["items"]
        return found

    def folders(self) -> list[str]:
        """Pilots of which the site has a trace."""
        with suppress(FileNotFoundError):
            return sorted(
                each.name for each in (self.home / "pilots").iterdir() if not each.name.startswith(".")
            )
        return []

    def submit(
        self, script: str, *lines: str, user: str = "ann", count: int = 1, pool: Pool | None = None
    ) -> int:
        text = JOB + "".join(f"{line}\n" for line in lines)
        text += f"arguments = \"-c '{script}'\"\nqueue {count}\n"
        there = pool or self.pool
        ended = there.run("condor_submit", "-terse", "-", user=user, given=text).must("no job")
        self.clusters.append((there, int(ended.out.split(".")[0])))
        return self.clusters[-1][1]

    def waiting(self, cluster: int, pool: Pool | None = None) -> int:
        shown = (pool or self.pool).run("condor_q", str(cluster), "-af", "ProcId").must("no queue").out
        return len(shown.split())

    def running(self, cluster: int, count: int) -> None:
        def there() -> bool:
            shown = self.pool.run("condor_q", str(cluster), "-af", "JobStatus").must("no queue").out
            return shown.split().count("2") == count

        until(
            there,
            lambda: f"{count} of {cluster} run:\n{self.said()}\n{self._matching(cluster)}",
            within_s=WAIT_S,
        )

    def _matching(self, cluster: int) -> str:
        """Why a job and a pilot may not have met."""
        words = ["-af:h", "Name", "GlidepathPilot", "State", "Activity", "Cpus", "Memory", "Start"]
        slots = self.pool.run("condor_status", *words).out
        return f"{slots}\n{self.pool.run('condor_q', '-better-analyze', str(cluster)).out[-2000:]}"

    def done(self, *clusters: int, pool: Pool | None = None) -> None:
        def over() -> bool:
            return not any(self.waiting(cluster, pool) for cluster in clusters)

        until(over, lambda: f"jobs of {clusters} are done:\n{self.said()}", within_s=WAIT_S)

    def history(self, cluster: int, *names: str) -> list[list[str]]:
        shown = self.pool.run("condor_history", str(cluster), "-af", *names).must("no history").out
        return [line.split() for line in shown.splitlines()]

    def slots(self) -> list[str]:
        """The pilots that the pool hears, one row for each partitionable slot."""
        words = ["-constraint", "GlidepathPilot isnt undefined && PartitionableSlot", "-af", "GlidepathPilot"]
        return sorted(self.pool.run("condor_status", *words).must("no slots").out.split())

    def said(self) -> str:
        return "\n".join(run.text[-4000:] for run in self.runs)

    def close(self) -> None:
        while self.clusters:
            pool, cluster = self.clusters.pop()
            pool.run("condor_rm", str(cluster))
        for run in self.runs:
            if run.process.poll() is None:
                run.signal(signal.SIGINT)
        for run in self.runs:
            with suppress(AssertionError):
                run.wait_end()
            run.close()
        _ended(self.home)


def _ended(home: Path) -> None:
    """Pilots that a killed glidepath left are told to stop."""
    with suppress(FileNotFoundError):
        for folder in (home / "pilots").iterdir():
            with suppress(OSError, ValueError, IndexError):
                pid = int((folder / "lock").read_text().split()[0])
                if b"pilot" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGINT)
