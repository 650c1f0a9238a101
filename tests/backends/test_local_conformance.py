"""The local backend keeps the promises of every backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from glidepath.backends.local import LocalBackend, backend
from glidepath.conformance import BackendConformance
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import SiteName
from glidepath.ports import Backend, Place


class TestLocalBackend(BackendConformance):
    def make(self, home: Path) -> LocalBackend:
        self.home = home
        return backend(SiteName("here"), {}, Place(home, f"sqlite:///{home}/glidepath.db"))

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        # Nobody serves this pool: the pilots run and try to join, which is all that is asked of them here.
        join = (("GLIDEPATH_POOL_SOCKET", str(self.home / "pool.sock")),)
        return replace(super().spec(backend, name), join=join)

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[None]:
        away = self.home.rename(self.home.with_name("away"))
        yield
        away.rename(self.home)
