"""Every promise of a backend: by an API, with labels and without, and by a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cloud.cloud_builders import JOIN, TOKEN, backend_of, by_command, by_rest
from cloud.queue_service import IMAGES, Service, serving
from glidepath.conformance import BackendConformance
from glidepath.core.provision.pilot import PilotSpec
from glidepath.ports import Backend


class CloudConformance(BackendConformance):
    service: Service

    @pytest.fixture(autouse=True)
    def _service(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with serving(tmp_path_factory.mktemp("cloud"), IMAGES) as self.service:
            yield

    def table(self) -> dict[str, Any]:
        raise NotImplementedError

    def make(self, home: Path) -> Backend:
        return backend_of(self.table(), home)

    def spec(self, backend: Backend, name: str) -> PilotSpec:
        return replace(super().spec(backend, name), join=JOIN, secrets=(("pool.token", TOKEN),))

    @contextmanager
    def break_listing(self, backend: Backend) -> Iterator[None]:
        self.service.fails("GET", "/jobs", "half", times=1000)
        yield
        self.service.faults.clear()


class TestByRest(CloudConformance):
    def table(self) -> dict[str, Any]:
        return by_rest(self.service.url)


class TestByRestWithLabels(CloudConformance):
    def table(self) -> dict[str, Any]:
        return by_rest(self.service.url, labelled=True)


class TestByCommand(CloudConformance):
    drains: ClassVar[bool] = False

    def table(self) -> dict[str, Any]:
        return by_command(self.service.url)
