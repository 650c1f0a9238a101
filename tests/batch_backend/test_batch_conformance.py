"""The backend of batch systems keeps the promises of every backend, over a stand-in that runs processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from batch_world import World, joining

from glidepath.batch.backend import BatchBackend
from glidepath.conformance import BackendConformance
from glidepath.core.provision.pilot import PilotSpec
from glidepath.ports import Backend


class TestSlurm(BackendConformance):
    settle_s = 90.0
    kind: ClassVar[str] = "slurm"
    asks: ClassVar[str] = "squeue"

    def make(self, home: Path) -> BatchBackend:
        self.world = World(home, kind=self.kind)
        if home.exists():
            self.world.build()
        return self.world.backend()

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        return joining(super().spec(backend, name))

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[None]:
        self.world.faults(**{self.asks: "says Unable to contact the controller (connect failure)"})
        yield
        self.world.faults(**{self.asks: None})


class TestSlurmWithoutItsFolder(TestSlurm):
    """The folder of the site is away: what is not there must not look like what is gone."""

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[None]:
        away = self.world.folder.rename(self.world.folder.with_name("away"))
        yield
        away.rename(self.world.folder)


class TestHtcondor(TestSlurm):
    """Nodes do not see the folder: files travel with a job and come back at its end."""

    kind = "htcondor"
    asks = "condor_q"
    drains = False
