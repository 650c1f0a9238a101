"""A site for tests: a stand-in of a batch system, a folder, and a stand-in of HTCondor that nobody answers.

Pilots are the real program. They look for their pool until they are told to leave, which is all that is asked
of them here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import stand_in_condor
import stand_in_slurm

from glidepath.batch.backend import BatchBackend
from glidepath.batch.dialects import DIALECTS
from glidepath.batch.settings import SETTINGS
from glidepath.core.provision.pilot import PilotSpec, SitePilot, Target
from glidepath.core.quantity import Instant, OfferKey, PilotName, PoolName, Resources, SiteName
from glidepath.ports import Place
from glidepath.remote.local import LocalRunner
from glidepath.remote.runner import Ran

JOIN = {
    "GLIDEPATH_POOL_KIND": "condor",
    "GLIDEPATH_POOL": "conformance",
    "GLIDEPATH_COLLECTOR": "127.0.0.1:1",
}
SECRETS = (("pilot.token", "the-secret-of-this-pilot"),)
# It never welcomes anybody, so that pilots go on knocking.
PROGRAMS = {
    "sbin/condor_master": "exec sleep 600",
    "libexec/condor_chirp": "",
    "bin/condor_config_val": "printf 'X86_64\\nDebian12\\n'",
    "bin/condor_ping": "sleep 0.2; exit 1",
}


def htcondor_at(folder: Path) -> Path:
    for name, text in PROGRAMS.items():
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return folder


class World:
    """One stand-in of a batch system and the folder of its site, under a home."""

    def __init__(self, home: Path, *, kind: str = "slurm", slots: int = 4) -> None:
        self.home, self.kind, self.slots = home, kind, slots
        self.folder = home / "shared"
        self.bin = home / "cluster" / "bin"
        self.state = home / "cluster" / "state"

    def build(self) -> World:
        self.folder.mkdir()
        install = stand_in_condor.install if self.kind == "htcondor" else stand_in_slurm.install
        install(self.home / "cluster", slots=self.slots)
        htcondor_at(self.home / "htcondor")
        return self

    def faults(self, **what: Any) -> None:
        stand_in_slurm.faults(self.state, **what)

    def jobs(self) -> list[dict[str, Any]]:
        return stand_in_slurm.jobs_of(self.state)

    def backend(
        self, *, site: str = "west", mono: Callable[[], float] = time.monotonic, **own: Any
    ) -> BatchBackend:
        told: Mapping[str, Any] = {
            "folder": str(self.folder),
            "python": sys.executable,
            "htcondor": str(self.home / "htcondor"),
            "timeout": "20s",
            **own,
        }
        self.owned = True
        self.runner = Counted({**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"})
        return BatchBackend(
            SiteName(site),
            SETTINGS[self.kind].model_validate(told),
            Place(self.home, f"sqlite:///{self.home}/glidepath.db", ours=lambda: self.owned),
            dialect=DIALECTS[self.kind],
            runner=lambda: self.runner,
            mono=mono,
        )


class Counted:
    """Commands on this machine, counted; `before` is called with the words of each."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.runner = LocalRunner(environ=environ)
        self.count = 0
        self.before: Callable[[Sequence[str]], None] = lambda _: None

    def run(self, argv: Sequence[str], *, given: bytes = b"", limit_s: float) -> Ran:
        self.count += 1
        self.before(argv)
        return self.runner.run(argv, given=given, limit_s=limit_s)

    def close(self) -> None:
        self.runner.close()


def joining(spec: PilotSpec) -> PilotSpec:
    return replace(spec, join=tuple(JOIN.items()), secrets=SECRETS)


def a_spec(name: str, *, site: str = "west", **changed: Any) -> PilotSpec:
    plain = PilotSpec(
        name=PilotName(name),
        site=SiteName(site),
        offer=OfferKey(f"{site}/small"),
        pool=PoolName("campus"),
        size=Resources(cpu_milli=1000, memory_mib=512),
        traits=(("os", "linux"),),
        lifetime_s=600,
        idle_s=300,
        asked_at=now(),
    )
    return joining(replace(plain, **changed))


def now() -> Instant:
    return Instant(int(time.time()))


def listed(backend: BatchBackend) -> dict[str, SitePilot]:
    return {pilot.name: pilot for pilot in backend.list(now=now()).pilots}


def until(what: str, met: Callable[[], bool], *, within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)


def cleared(backend: BatchBackend) -> None:
    """All pilots are stopped, and their traces are gone. Nobody waits for words that will not come."""

    def done() -> bool:
        left = listed(backend)
        for pilot in left.values():
            backend.remove(Target(pilot.name, pilot.native_id))
        return not left

    until("all are removed", done)
