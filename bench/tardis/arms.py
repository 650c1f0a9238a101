"""The two systems, each beside a world of its own: configurations and processes, nothing of them changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TARDIS = ROOT / ".venv-tardis/bin/python"
POLL_S = 10  # both look at the world this often
STOP_S_MAX = 30.0
READY_S_MAX = 60.0

LINEAR = """\
  - __type__: cobald.controller.linear.LinearController
    low_utilisation: 0.9
    high_allocation: 0.9
    rate: {rate}
"""
RELATIVE = """\
  - __type__: cobald.controller.relative_supply.RelativeSupplyController
    low_utilisation: 0.9
    high_allocation: 0.9
    low_scale: 0.9
    high_scale: 1.1
  - __type__: cobald.decorator.standardiser.Standardiser
    minimum: 8
"""
# The controllers of TARDIS's documents: cores added a second, and a share of what is there. A share of
# nothing is nothing, so the last one always has a worker.
CONTROLLERS = {
    "tardis linear 1": LINEAR.format(rate=1),
    "tardis linear 3": LINEAR.format(rate=3),
    "tardis linear 10": LINEAR.format(rate=10),
    "tardis relative 1.1": RELATIVE,
}
COBALD = """\
pipeline:
{controller}  - __type__: tardis.resources.poolfactory.create_composite_pool
logging:
  version: 1
  root: {{level: WARNING, handlers: [console]}}
  handlers: {{console: {{class: logging.StreamHandler, stream: ext://sys.stderr}}}}
tardis:
  BatchSystem:
    adapter: HTCondor
    max_age: 0.1
    ratios:
      cpu_ratio: Real(TotalSlotCpus-Cpus)/TotalSlotCpus
      memory_ratio: Real(TotalSlotMemory-Memory)/TotalSlotMemory
  Sites:
    - name: World
      adapter: Slurm
      quota: 8000
      drone_heartbeat_interval: {poll_s}
  World:
    MachineTypes: [m8]
    MachineTypeConfiguration:
      m8: {{Walltime: 720, Partition: all, StartupCommand: pilot.sh}}
    MachineMetaData:
      m8: {{Cores: 8, Memory: 16, Disk: 160}}
"""
OURS = """\
[cycle]
min = "{poll_s}s"
max = "{poll_s}s"
deadline = "9s"

[policy]
name = "steady"

[pools.world]
kind = "bench-world"

[sites.world]
kind = "slurm"

[sites.world.offers.m8]
cpus = 8
memory = "16GiB"
lifetime = "8h"
idle = "10s"

[sites.world.slurm]
folder = "{folder}"
timeout = "40s"
"""
ARMS = (*CONTROLLERS, "glidepath")


@dataclass
class Run:
    """One arm in one world."""

    arm: str
    scenario: str
    seed: int
    folder: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        words = [sys.executable, "-m", "bench.tardis.server", str(self.folder), self.scenario, str(self.seed)]
        self._child("world", words, dict(os.environ))
        ready = time.monotonic() + READY_S_MAX
        while not (self.folder / "world.sock").exists():
            assert time.monotonic() < ready, f"the world does not start: {self.folder}"
            time.sleep(0.05)
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        if self.arm == "glidepath":
            self._start_ours(path)
        else:
            text = COBALD.format(controller=CONTROLLERS[self.arm], poll_s=POLL_S)
            config = self.folder / "cobald.yaml"
            config.write_text(text)
            self._child("arm", [str(TARDIS), "-m", "cobald.daemon", str(config)], {"PATH": path})

    def _start_ours(self, path: str) -> None:
        home, site, plugin = self.folder / "home", self.folder / "site", self.folder / "plugin"
        home.mkdir()
        site.mkdir()
        about = plugin / "bench_world-0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-world\nVersion: 0\n")
        (about / "entry_points.txt").write_text("[glidepath.demand]\nbench-world = bench.tardis.pool:kind\n")
        config = home / "glidepath.toml"
        config.write_text(OURS.format(poll_s=POLL_S, folder=site))
        words = [
            sys.executable,
            "-m",
            "glidepath",
            "up",
            "--plain",
            "--home",
            str(home),
            "--config",
            str(config),
        ]
        paths = os.pathsep.join([str(plugin), str(ROOT / "src"), str(ROOT)])
        self._child("arm", words, {"PATH": path, "HOME": str(home), "PYTHONPATH": paths})

    def _child(self, name: str, words: list[str], env: dict[str, str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.children.append(
                subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=env,
                    cwd=ROOT,
                    start_new_session=True,
                )
            )

    @property
    def over(self) -> bool:
        return self.children[0].poll() is not None

    def stop(self) -> None:
        for child in self.children:
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        for child in self.children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(STOP_S_MAX)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
