"""A site for tests: a stand-in of a batch system, a folder, and a stand-in of HTCondor that nobody answers.

Pilots are the real program. They look for their pool until they are told to leave, which is all that is asked
of them here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import stand_in_slurm as slurm

from glidepath.batch.backend import BatchBackend
from glidepath.batch.dialects import DIALECTS
from glidepath.batch.settings import SETTINGS
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import SiteName
from glidepath.ports import Place
from glidepath.remote.local import LocalRunner

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


class SlurmWorld:
    """One stand-in cluster and its folder under a home."""

    def __init__(self, home: Path, *, slots: int = 4) -> None:
        self.home = home
        self.folder = home / "shared"
        self.bin = home / "cluster" / "bin"
        self.state = home / "cluster" / "state"
        self.slots = slots

    def build(self) -> SlurmWorld:
        self.folder.mkdir()
        slurm.install(self.home / "cluster", slots=self.slots)
        htcondor_at(self.home / "htcondor")
        return self

    def faults(self, **what: Any) -> None:
        slurm.faults(self.state, **what)

    def jobs(self) -> list[dict[str, Any]]:
        return slurm.jobs_of(self.state)

    def backend(self, *, ours: bool = True, site: str = "west", **own: Any) -> BatchBackend:
        told: Mapping[str, Any] = {
            "folder": str(self.folder),
            "python": sys.executable,
            "htcondor": str(self.home / "htcondor"),
            "timeout": "20s",
            **own,
        }
        environ = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        return BatchBackend(
            SiteName(site),
            SETTINGS["slurm"].model_validate(told),
            Place(self.home, f"sqlite:///{self.home}/glidepath.db", ours=lambda: ours),
            dialect=DIALECTS["slurm"],
            runner=lambda: LocalRunner(environ=environ),
        )


def joining(spec: PilotSpec) -> PilotSpec:
    return replace(spec, join=tuple(JOIN.items()), secrets=SECRETS)
